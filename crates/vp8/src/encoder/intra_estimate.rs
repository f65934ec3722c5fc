//! Estimate of intra prediction for a macroblock, from the source picture alone.

use super::source::SourcePlane;
use super::whole_modes::{WHOLE_MODES, luma_errors};
use crate::macroblock::LumaMode;
use crate::predict::intra::{Edges, predict_block};

/// Smallest SATD of the four whole-block luma modes for the macroblock at (`x`, `y`) samples. Prediction uses
/// neighbouring samples of the source.
pub(crate) fn intra_estimate(plane: &SourcePlane, x: usize, y: usize) -> u32 {
    best_mode(plane, x, y, &edges(plane, x, y)).0
}

/// Predicts the macroblock with the mode of [`intra_estimate`].
pub(crate) fn intra_prediction(plane: &SourcePlane, x: usize, y: usize, prediction: &mut [u8; 256]) {
    let edges = edges(plane, x, y);
    predict_block(best_mode(plane, x, y, &edges).1, &edges, prediction, 16);
}

fn edges(plane: &SourcePlane, x: usize, y: usize) -> Edges<16> {
    Edges::gather(plane.samples(), plane.stride, y * plane.stride + x, y > 0, x > 0)
}

/// The smallest SATD and its mode, among the modes whose edges lie in the picture.
fn best_mode(plane: &SourcePlane, x: usize, y: usize, edges: &Edges<16>) -> (u32, LumaMode) {
    let errors = luma_errors(plane.at(x, y), plane.stride, edges);
    let (has_above, has_left) = (edges.has_above, edges.has_left);
    let possible = [true, has_above, has_left, has_above && has_left];
    let modes = errors.into_iter().zip(WHOLE_MODES).zip(possible);
    let possible = modes.filter_map(|(mode, possible)| possible.then_some(mode));
    possible.min_by_key(|&(error, _)| error).expect("one mode needs no edge")
}
