//! What intra prediction could do for a macroblock, judged from the picture alone before anything is coded.

use super::distortion::satd;
use super::source::SourcePlane;

/// The smallest transformed error among the four whole-block luma predictions of the macroblock at (`x`, `y`) samples,
/// predicting from the source's own neighbouring samples.
pub(crate) fn intra_estimate(plane: &SourcePlane, x: usize, y: usize) -> u32 {
    let stride = plane.stride;
    let source = plane.at(x, y);
    let mut above = [127u8; 16];
    let mut left = [129u8; 16];
    if y > 0 {
        above.copy_from_slice(&plane.at(x, y - 1)[..16]);
    }
    if x > 0 {
        for (row, left) in left.iter_mut().enumerate() {
            *left = plane.at(x - 1, y + row)[0];
        }
    }
    let corner = if x > 0 && y > 0 { plane.at(x - 1, y - 1)[0] } else { 127 };
    let sum = |edge: &[u8; 16]| edge.iter().map(|&v| u32::from(v)).sum::<u32>();
    let mean = match (y > 0, x > 0) {
        (true, true) => (sum(&above) + sum(&left) + 16) >> 5,
        (true, false) => (sum(&above) + 8) >> 4,
        (false, true) => (sum(&left) + 8) >> 4,
        (false, false) => 128,
    };
    let mut best = satd::<16, 16>(source, stride, &[mean as u8; 16], 0);
    if y > 0 {
        best = best.min(satd::<16, 16>(source, stride, &above, 0));
    }
    let mut prediction = [0u8; 256];
    if x > 0 {
        for (row, left) in prediction.chunks_exact_mut(16).zip(left) {
            row.fill(left);
        }
        best = best.min(satd::<16, 16>(source, stride, &prediction, 16));
    }
    if x > 0 && y > 0 {
        for (row, left) in prediction.chunks_exact_mut(16).zip(left) {
            let difference = i16::from(left) - i16::from(corner);
            for (sample, above) in row.iter_mut().zip(above) {
                *sample = (i16::from(above) + difference).clamp(0, 255) as u8;
            }
        }
        best = best.min(satd::<16, 16>(source, stride, &prediction, 16));
    }
    best
}
