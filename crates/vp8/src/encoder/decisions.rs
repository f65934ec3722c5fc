//! What was decided for one candidate, to be kept by others.

use super::frame_quantizers::{DeadZones, FrameQuantizers};
use super::macroblocks::Macroblocks;
use crate::header::QuantizerIndices;
use crate::quantization::Steps;

/// A pass keeps what was decided in another whose step is at most so many times as large or as small.
const KEPT_WITHIN: f64 = 1.8;

/// What was decided for one candidate of a picture: references, partitionings and vectors of all macroblocks, and the
/// strength of the filter. Candidates of similar quantizers hardly differ in it. (Macroblocks that are predicted from the
/// frame itself are decided anew: what they are predicted from differs.)
#[derive(Debug, Clone)]
pub struct Decisions {
    pub(super) key_frame: bool,
    pub(super) quantizer: u8,
    pub(super) loop_filter_level: u8,
    pub(super) macroblocks: Macroblocks,
    /// The widest dead zones that any macroblock was coded with.
    pub(super) dead_zones: DeadZones,
}

impl Decisions {
    /// Whether another quantizer is near enough to keep what was decided for this one.
    #[must_use]
    pub fn serve(&self, quantizer: u8) -> bool {
        let ratio = f64::from(step(quantizer)) / f64::from(step(self.quantizer));
        (1.0 / KEPT_WITHIN..=KEPT_WITHIN).contains(&ratio)
    }

    /// Whether with the same prediction macroblock `at` surely has nothing to code by these `quantizers`: where it was in the
    /// dead zones before, and those are no narrower now.
    pub(super) fn leave_empty(&self, at: usize, quantizers: &FrameQuantizers) -> bool {
        self.macroblocks.hopeless[at] && self.dead_zones.lie_in(&quantizers.dead_zones())
    }
}

/// The step of luma coefficients.
pub(super) fn step(quantizer: u8) -> u16 {
    let indices = QuantizerIndices { base: quantizer, ..QuantizerIndices::default() };
    Steps::new(quantizer, &indices).luma[1] as u16
}
