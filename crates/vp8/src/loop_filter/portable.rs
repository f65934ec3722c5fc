//! The loop filter's edges in portable code.

use super::edges::{self, Lines};
use super::limits::{Edge, Limits, Runs};

/// Filters 16 positions of a horizontal edge: `at` is the first sample after it.
pub(crate) fn luma_rows(samples: &mut [u8], at: usize, stride: usize, edge: Edge, limits: &Limits) {
    rows::<16>(samples, &[at], stride, edge, limits);
}

/// Filters 8 positions of a horizontal edge in both chroma planes: `runs` are the first samples after it.
pub(crate) fn chroma_rows(samples: &mut [u8], runs: Runs, stride: usize, edge: Edge, limits: &Limits) {
    rows::<8>(samples, &runs, stride, edge, limits);
}

/// Filters runs of `LENGTH` positions, 16 positions in total.
fn rows<const LENGTH: usize>(samples: &mut [u8], runs: &[usize], stride: usize, edge: Edge, limits: &Limits) {
    let mut lines = Lines::default();
    for (run, &at) in runs.iter().enumerate() {
        let around = &samples[at - 4 * stride..at + 3 * stride + LENGTH];
        for (line, to) in lines.iter_mut().enumerate() {
            to[LENGTH * run..LENGTH * (run + 1)].copy_from_slice(&around[line * stride..line * stride + LENGTH]);
        }
    }
    filter(&mut lines, edge, limits);
    for (run, &at) in runs.iter().enumerate() {
        let around = &mut samples[at - 4 * stride..at + 3 * stride + LENGTH];
        for (line, from) in lines.iter().enumerate() {
            around[line * stride..line * stride + LENGTH].copy_from_slice(&from[LENGTH * run..LENGTH * (run + 1)]);
        }
    }
}

/// Filters the vertical edges of a macroblock's luma, whose first sample is at `at`. `outer` is the type of the left
/// edge, `inner` that of the three inner edges; `None` means no filtering.
pub(crate) fn luma_columns(
    samples: &mut [u8],
    at: usize,
    stride: usize,
    outer: Option<Edge>,
    inner: Option<Edge>,
    limits: &Limits,
) {
    for (x, edge) in [(0, outer), (4, inner), (8, inner), (12, inner)] {
        if let Some(edge) = edge {
            columns(samples, [at + x, at + x + 8 * stride], stride, edge, limits);
        }
    }
}

/// The same for both chroma planes with their first samples at `runs`. They have one inner edge.
pub(crate) fn chroma_columns(
    samples: &mut [u8],
    runs: Runs,
    stride: usize,
    outer: Option<Edge>,
    inner: Option<Edge>,
    limits: &Limits,
) {
    for (x, edge) in [(0, outer), (4, inner)] {
        if let Some(edge) = edge {
            columns(samples, runs.map(|at| at + x), stride, edge, limits);
        }
    }
}

/// Filters a vertical edge. `runs` are the topmost samples of two columns of eight to its right.
fn columns(samples: &mut [u8], runs: Runs, stride: usize, edge: Edge, limits: &Limits) {
    let mut lines = Lines::default();
    for place in 0..16 {
        let at = runs[place / 8] - 4 + place % 8 * stride;
        for (line, &sample) in lines.iter_mut().zip(&samples[at..at + 8]) {
            line[place] = sample;
        }
    }
    filter(&mut lines, edge, limits);
    for place in 0..16 {
        let at = runs[place / 8] - 4 + place % 8 * stride;
        for (line, sample) in lines.iter().zip(&mut samples[at..at + 8]) {
            *sample = line[place];
        }
    }
}

fn filter(lines: &mut Lines, edge: Edge, limits: &Limits) {
    match edge {
        Edge::Macroblock => edges::macroblock_edge(lines, limits),
        Edge::Subblock => edges::subblock_edge(lines, limits),
        Edge::Simple(limit) => edges::simple_edge(lines, limit),
    }
}
