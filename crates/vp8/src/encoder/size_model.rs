//! The size of a frame, guessed from the error that prediction leaves.

use crate::header::QuantizerIndices;
use crate::quantization::Steps;

/// Bytes of a frame whose predictions leave `residual` (transformed error) over so many macroblocks.
///
/// The error is taken as that of Laplacian coefficients of one mean magnitude. In units of the step such a coefficient
/// of magnitude m costs about log2(1 + m)-like bits where m is large and proportionally to m where it is small.
pub(crate) fn predict(residual: u64, macroblocks: usize, quantizer: u8, key_frame: bool) -> usize {
    let step = Steps::new(quantizer, &QuantizerIndices { base: quantizer, ..QuantizerIndices::default() }).luma[1];
    // A transformed error of 2 is a coefficient of 2 in the decoder's scale; a macroblock has 256 of luma. In 1/256.
    let magnitude = residual * 256 / (macroblocks as u64 * 256 * step as u64).max(1);
    let bits_per_coefficient = if magnitude < 256 {
        magnitude * (magnitude + 96) / 256
    } else {
        352 + 256 * u64::from((magnitude / 256).ilog2())
    };
    let fixed = if key_frame { 4 } else { 1 };
    let bits = macroblocks as u64 * (bits_per_coefficient + fixed);
    16 + (bits / 8) as usize
}
