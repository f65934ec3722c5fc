//! SATD of whole-block modes in portable code.

use super::modes::WHOLE_MODES;
use crate::encoder::distortion::satd;
use crate::predict::intra::{Edges, predict_block};

/// SATD of a 16x16 block in each of [`WHOLE_MODES`].
pub(crate) fn luma_errors(source: &[u8], stride: usize, edges: &Edges<16>) -> [u32; 4] {
    WHOLE_MODES.map(|mode| {
        let mut prediction = [0; 256];
        predict_block(mode, edges, &mut prediction, 16);
        satd::<16, 16>(source, stride, &prediction, 16)
    })
}
