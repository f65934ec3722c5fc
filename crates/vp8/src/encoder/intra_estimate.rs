//! What intra prediction could do for a macroblock, judged from the picture alone before anything is coded.

use super::source::SourcePlane;
use super::whole_modes::{WHOLE_MODES, luma_errors};
use crate::macroblock::LumaMode;
use crate::predict::intra::{Edges, predict_block};

/// The smallest transformed error among the four whole-block luma predictions of the macroblock at (`x`, `y`) samples,
/// predicting from the source's own neighbouring samples.
pub(crate) fn intra_estimate(plane: &SourcePlane, x: usize, y: usize) -> u32 {
    best_mode(plane, x, y, &edges(plane, x, y)).0
}

/// The prediction that has that error.
pub(crate) fn intra_prediction(plane: &SourcePlane, x: usize, y: usize, prediction: &mut [u8; 256]) {
    let edges = edges(plane, x, y);
    predict_block(best_mode(plane, x, y, &edges).1, &edges, prediction, 16);
}

fn edges(plane: &SourcePlane, x: usize, y: usize) -> Edges<16> {
    Edges::gather(plane.samples(), plane.stride, y * plane.stride + x, y > 0, x > 0)
}

/// The mode of least error, of those whose edges lie in the picture, and that error.
fn best_mode(plane: &SourcePlane, x: usize, y: usize, edges: &Edges<16>) -> (u32, LumaMode) {
    let errors = luma_errors(plane.at(x, y), plane.stride, edges);
    let (has_above, has_left) = (edges.has_above, edges.has_left);
    let possible = [true, has_above, has_left, has_above && has_left];
    let modes = errors.into_iter().zip(WHOLE_MODES).zip(possible);
    let possible = modes.filter_map(|(mode, possible)| possible.then_some(mode));
    possible.min_by_key(|&(error, _)| error).expect("one mode needs no edge")
}
