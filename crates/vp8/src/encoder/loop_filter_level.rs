//! Choice of the loop filter level.

use super::analysis::Analysis;
use super::distortion::row_squared_error;
use crate::header::{FrameHeader, LoopFilterHeader};
use crate::loop_filter::filter_strip;
use crate::macroblock::MacroblockInfo;

/// Chooses the loop filter level of a frame whose `samples` are reconstructed but not filtered. It tries several levels
/// on a part of the rows and takes the one with the least error.
///
/// The best level depends on the clip, not only on the quantizer. A level that is too high removes detail in every
/// frame; one that is too low leaves block edges. `lab: 2026-11-notes-vp8`.
pub(super) fn choose_level(
    analysis: &Analysis,
    quantizer: u8,
    samples: &[u8],
    infos: &[MacroblockInfo],
    header: &FrameHeader,
) -> u8 {
    let start = default_level(quantizer);
    let rows = analysis.layout.rows;
    let thorough = analysis.tools.filter_trials;
    let strips: Vec<Strip<'_>> = if thorough {
        let tried = rows.div_ceil(3);
        vec![Strip::new(analysis, infos, samples, (rows - tried) / 2, tried)]
    } else {
        let spacing = ROW_SPACING.min(rows);
        (spacing / 2..rows).step_by(spacing).map(|row| Strip::new(analysis, infos, samples, row, 1)).collect()
    };
    let mut scratch = Vec::new();
    let mut error_at =
        |level: u8| strips.iter().map(|strip| strip.error(level, analysis, header, &mut scratch)).sum::<u64>();
    let (mut best, mut best_error) = (start, error_at(start));
    let steps = if thorough { [8, 4, 2, 1] } else { [start / 2, start / 4, 0, 0] };
    for step in steps.into_iter().filter(|&step| step > 0) {
        let from = best;
        for level in [from.saturating_sub(step), (from + step).min(63)] {
            let error = if level == from { best_error } else { error_at(level) };
            if error < best_error {
                (best, best_error) = (level, error);
                if !thorough {
                    break;
                }
            }
        }
    }
    best
}

/// Level that follows from another candidate of the same picture (its quantizer and level). The ratio to the default
/// level is the same.
pub(super) fn level_from(quantizer: u8, (other, level): (u8, u8)) -> u8 {
    let [usual, others] = [quantizer, other].map(|quantizer| u32::from(default_level(quantizer)));
    ((2 * u32::from(level) * usual + others) / (2 * others)).min(63) as u8
}

/// Without `Tools::filter_trials`, levels are tried on one row of macroblocks in this number. `lab: 2026-11-notes-vp8`.
const ROW_SPACING: usize = 20;

/// Default level for a quantizer: about the mean of the levels that trials choose.
fn default_level(quantizer: u8) -> u8 {
    let quantizer = u32::from(quantizer);
    (quantizer * quantizer / 330 + 6).min(63) as u8
}

/// Lines above and below a strip that the filter reads.
const MARGIN: usize = 4;

/// Rows of macroblocks on which levels are tried, by their luma.
struct Strip<'a> {
    columns: usize,
    stride: usize,
    first: usize,
    infos: &'a [MacroblockInfo],
    samples: &'a [u8],
}

impl<'a> Strip<'a> {
    fn new(analysis: &Analysis, infos: &'a [MacroblockInfo], samples: &'a [u8], first: usize, rows: usize) -> Self {
        let (columns, plane) = (analysis.layout.columns, &analysis.layout.planes[0]);
        let stride = plane.stride;
        let samples = &samples[plane.origin + 16 * first * stride - MARGIN * stride..];
        let samples = &samples[..(16 * rows + 2 * MARGIN) * stride];
        Self { columns, stride, first, infos: &infos[first * columns..(first + rows) * columns], samples }
    }

    /// Squared luma error of the strip after filtering at `level`.
    fn error(&self, level: u8, analysis: &Analysis, header: &FrameHeader, scratch: &mut Vec<u8>) -> u64 {
        scratch.clear();
        scratch.extend_from_slice(self.samples);
        let filter = LoopFilterHeader { level, ..header.loop_filter };
        let (deltas, segmentation) = (&header.loop_filter_deltas, &header.segmentation);
        let (key_frame, stride) = (analysis.key_frame, self.stride);
        let start = MARGIN * stride;
        if level > 0 {
            for (row, infos) in self.infos.chunks_exact(self.columns).enumerate() {
                let at = start + 16 * row * stride;
                filter_strip(scratch, at, stride, infos, row > 0, key_frame, &filter, deltas, segmentation);
            }
        }
        let source = &analysis.source.planes[0];
        let rows = 16 * self.infos.len() / self.columns;
        (0..rows)
            .map(|y| {
                let original = &source.at(0, 16 * self.first + y)[..16 * self.columns];
                u64::from(row_squared_error(original, &scratch[start + y * stride..][..16 * self.columns]))
            })
            .sum()
    }
}
