//! What intra prediction could do for a macroblock, judged from the picture alone before anything is coded.

use super::distortion::satd;
use super::source::SourcePlane;
use crate::macroblock::LumaMode;
use crate::predict::intra::{Edges, predict_block};

/// The smallest transformed error among the four whole-block luma predictions of the macroblock at (`x`, `y`) samples,
/// predicting from the source's own neighbouring samples. The prediction is left in `best`.
pub(crate) fn intra_estimate(plane: &SourcePlane, x: usize, y: usize, best: &mut [u8; 256]) -> u32 {
    let (has_above, has_left) = (y > 0, x > 0);
    let at = y * plane.stride + x;
    let edges = Edges::<16>::gather(plane.samples(), plane.stride, at, has_above, has_left);
    let source = plane.at(x, y);
    let mut least = u32::MAX;
    for (mode, possible) in [
        (LumaMode::Dc, true),
        (LumaMode::Vertical, has_above),
        (LumaMode::Horizontal, has_left),
        (LumaMode::TrueMotion, has_above && has_left),
    ] {
        if possible {
            let mut prediction = [0u8; 256];
            predict_block(mode, &edges, &mut prediction, 16);
            let error = satd::<16, 16>(source, plane.stride, &prediction, 16);
            if error < least {
                least = error;
                *best = prediction;
            }
        }
    }
    least
}
