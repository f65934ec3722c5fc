//! Decisions for one candidate that other candidates can reuse.

use super::frame_quantizers::{DeadZones, FrameQuantizers};
use super::macroblocks::Macroblocks;
use crate::arena::Arena;
use crate::header::QuantizerIndices;
use crate::quantization::Steps;

/// A pass reuses the decisions of another pass if their steps differ by at most this factor.
const KEPT_WITHIN: f64 = 1.8;

/// Decisions for one candidate of a picture: references, partitionings and vectors of all macroblocks, and the loop
/// filter level.
///
/// Candidates of similar quantizers have nearly the same decisions. Intra macroblocks are decided again, because their
/// prediction depends on the reconstruction.
#[derive(Debug, Clone)]
pub struct Decisions {
    pub(super) key_frame: bool,
    pub(super) quantizer: u8,
    pub(super) loop_filter_level: u8,
    pub(super) macroblocks: Macroblocks,
    /// The widest dead zones of all macroblocks.
    pub(super) dead_zones: DeadZones,
}

impl Decisions {
    /// Whether these decisions can be reused at `quantizer`: its step must be similar.
    #[must_use]
    pub fn serve(&self, quantizer: u8) -> bool {
        let ratio = f64::from(step(quantizer)) / f64::from(step(self.quantizer));
        (1.0 / KEPT_WITHIN..=KEPT_WITHIN).contains(&ratio)
    }

    /// Returns the memory to the arena.
    pub(super) fn give_back(self, arena: &Arena) {
        arena.macroblocks().give_back(self.macroblocks.infos);
    }

    /// Whether the macroblock at (`column`, `row`) with the same prediction surely quantizes to zero with `quantizers`. This holds if it
    /// was inside the dead zones and those are no narrower now.
    pub(super) fn code_empty(&self, (column, row): (usize, usize), quantizers: &FrameQuantizers) -> bool {
        self.macroblocks.batches.at(column, row).quantizes_to_zero && self.dead_zones.lie_in(&quantizers.dead_zones())
    }
}

/// Quantizer step of luma AC coefficients.
pub(super) fn step(quantizer: u8) -> u16 {
    let indices = QuantizerIndices { base: quantizer, ..QuantizerIndices::default() };
    Steps::new(quantizer, &indices).luma[1] as u16
}
