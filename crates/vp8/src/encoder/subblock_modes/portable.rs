//! Evaluation of a subblock's modes in portable code.

use super::judged::{Judged, SubblockEdges};
use crate::encoder::distortion::satd_4x4;
use crate::macroblock::SubblockMode;
use crate::predict::intra::predict_subblock;

/// Predicts the subblock at the start of `source` in all modes and computes their SATDs.
pub(crate) fn judge(source: &[u8], stride: usize, (above, left, corner): &SubblockEdges) -> Judged {
    let predictions = SubblockMode::ALL.map(|mode| {
        let mut prediction = [0; 16];
        predict_subblock(mode, above, left, *corner, &mut prediction, 4);
        prediction
    });
    let errors = predictions.map(|prediction| satd_4x4(source, stride, &prediction, 4));
    Judged { predictions, errors }
}
