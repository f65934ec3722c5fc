//! Prediction from unfiltered neighbours in the current frame (RFC 6386, section 12).
//!
//! Outside the frame, samples above are 127, also the corner of the top row. Samples to the left are 129. Callers pass
//! these values in.

use crate::macroblock::{LumaMode, SubblockMode};

/// Sample value above the frame.
pub(crate) const ABOVE_FRAME: u8 = 127;
/// Sample value to the left of the frame.
pub(crate) const LEFT_OF_FRAME: u8 = 129;

/// Samples around a block of `N` x `N`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Edges<const N: usize> {
    pub(crate) above: [u8; N],
    pub(crate) left: [u8; N],
    pub(crate) corner: u8,
    pub(crate) has_above: bool,
    pub(crate) has_left: bool,
}

impl<const N: usize> Edges<N> {
    /// Gathers the edges of the block at index `at` of a plane. Where the block has a neighbour, `samples` must contain
    /// that neighbour.
    #[inline]
    pub(crate) fn gather(samples: &[u8], stride: usize, at: usize, has_above: bool, has_left: bool) -> Self {
        let above = if has_above {
            *samples[at - stride..].first_chunk().expect("a row above lies in the frame")
        } else {
            [ABOVE_FRAME; N]
        };
        let left = if has_left { std::array::from_fn(|y| samples[at + y * stride - 1]) } else { [LEFT_OF_FRAME; N] };
        let corner = match (has_above, has_left) {
            (true, true) => samples[at - stride - 1],
            (true, false) => LEFT_OF_FRAME,
            (false, _) => ABOVE_FRAME,
        };
        Self { above, left, corner, has_above, has_left }
    }
}

/// Predicts a whole block of luma (N = 16) or chroma (N = 8).
#[inline]
pub(crate) fn predict_block<const N: usize>(mode: LumaMode, edges: &Edges<N>, out: &mut [u8], stride: usize) {
    match mode {
        LumaMode::Vertical => {
            for y in 0..N {
                out[y * stride..y * stride + N].copy_from_slice(&edges.above);
            }
        }
        LumaMode::Horizontal => {
            for y in 0..N {
                out[y * stride..y * stride + N].fill(edges.left[y]);
            }
        }
        LumaMode::TrueMotion => {
            for y in 0..N {
                let base = i16::from(edges.left[y]) - i16::from(edges.corner);
                for (sample, &above) in out[y * stride..y * stride + N].iter_mut().zip(&edges.above) {
                    *sample = (base + i16::from(above)).clamp(0, 255) as u8;
                }
            }
        }
        _ => {
            let value = mean(edges);
            for y in 0..N {
                out[y * stride..y * stride + N].fill(value);
            }
        }
    }
}

/// Mean of the edges inside the frame; 128 if there are none.
pub(crate) fn mean<const N: usize>(edges: &Edges<N>) -> u8 {
    let sum = |edge: &[u8; N]| edge.iter().map(|&sample| u32::from(sample)).sum::<u32>();
    let shift = N.trailing_zeros();
    match (edges.has_above, edges.has_left) {
        (true, true) => ((sum(&edges.above) + sum(&edges.left) + N as u32) >> (shift + 1)) as u8,
        (true, false) => ((sum(&edges.above) + N as u32 / 2) >> shift) as u8,
        (false, true) => ((sum(&edges.left) + N as u32 / 2) >> shift) as u8,
        (false, false) => 128,
    }
}

/// Predicts a subblock. `above` holds the four samples above it and the four to their right.
#[inline]
pub(crate) fn predict_subblock(
    mode: SubblockMode,
    above: &[u8; 8],
    left: &[u8; 4],
    corner: u8,
    out: &mut [u8],
    stride: usize,
) {
    // The edge as one line: from the bottom left, through the corner, to the top right.
    let e: [u32; 13] = std::array::from_fn(|index| {
        u32::from(match index {
            0..=3 => left[3 - index],
            4 => corner,
            _ => above[index - 5],
        })
    });
    let two = |index: usize| ((e[index] + e[index + 1] + 1) >> 1) as u8;
    let three = |index: usize| ((e[index - 1] + 2 * e[index] + e[index + 1] + 2) >> 2) as u8;
    let mut put = |values: [[u8; 4]; 4]| {
        for (y, row) in values.iter().enumerate() {
            out[y * stride..y * stride + 4].copy_from_slice(row);
        }
    };
    match mode {
        SubblockMode::Dc => {
            let sum: u32 = e[..4].iter().chain(&e[5..9]).sum();
            put([[((sum + 4) >> 3) as u8; 4]; 4]);
        }
        SubblockMode::TrueMotion => put(std::array::from_fn(|y| {
            std::array::from_fn(|x| (i32::from(left[y]) + i32::from(above[x]) - i32::from(corner)).clamp(0, 255) as u8)
        })),
        SubblockMode::Vertical => put([std::array::from_fn(|x| three(5 + x)); 4]),
        SubblockMode::Horizontal => {
            let last = ((e[1] + 3 * e[0] + 2) >> 2) as u8;
            put([[three(3); 4], [three(2); 4], [three(1); 4], [last; 4]]);
        }
        SubblockMode::LeftDown => put(std::array::from_fn(|y| {
            std::array::from_fn(|x| if x + y == 6 { ((e[11] + 3 * e[12] + 2) >> 2) as u8 } else { three(6 + x + y) })
        })),
        SubblockMode::RightDown => put(std::array::from_fn(|y| std::array::from_fn(|x| three(4 + x - y)))),
        SubblockMode::VerticalRight => {
            let (a, b, c, d) = (two(4), two(5), two(6), two(7));
            let (f, g, h, i) = (three(4), three(5), three(6), three(7));
            let (k, l) = (three(3), three(2));
            put([[a, b, c, d], [f, g, h, i], [k, a, b, c], [l, f, g, h]]);
        }
        SubblockMode::VerticalLeft => {
            let (a, b, c, d) = (two(5), two(6), two(7), two(8));
            let (f, g, h, i) = (three(6), three(7), three(8), three(9));
            let (k, l) = (three(10), three(11));
            put([[a, b, c, d], [f, g, h, i], [b, c, d, k], [g, h, i, l]]);
        }
        SubblockMode::HorizontalDown => {
            let (a, b, c, d) = (two(0), two(1), two(2), two(3));
            let (f, g, h, i) = (three(1), three(2), three(3), three(4));
            let (k, l) = (three(5), three(6));
            put([[d, i, k, l], [c, h, d, i], [b, g, c, h], [a, f, b, g]]);
        }
        SubblockMode::HorizontalUp => {
            let (a, b, c) = (two(2), two(1), two(0));
            let (f, g) = (three(2), three(1));
            let h = ((e[1] + 3 * e[0] + 2) >> 2) as u8;
            let last = left[3];
            put([[a, f, b, g], [b, g, c, h], [c, h, last, last], [last; 4]]);
        }
    }
}
