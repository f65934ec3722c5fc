//! Comparison of the ways to code one macroblock.
//!
//! [`Contest`] keeps the best [`Trial`] so far. The caller prepares `next` and runs it.

use super::costs::Costs;
use super::trial::{Levels, Place, Trial};
use crate::macroblock::ReferenceFrame;

/// The best trial of a macroblock so far, and buffers for the next one. They are reused from macroblock to macroblock.
#[derive(Debug)]
pub(super) struct Contest {
    best: Box<Trial>,
    /// The next trial: predicted, with its mode and the mode's cost.
    pub(super) next: Box<Trial>,
    /// Luma predictions made while vectors were compared: for the two near vectors, and for two more in turn.
    pub(super) predictions: Box<[[u8; 256]; 4]>,
    /// Number of consecutive macroblocks for which zero motion was best.
    pub(super) steady: u32,
}

/// Limit for the trellis of inter macroblocks. With rounded levels, a trial may cost a quarter more than the best so
/// far.
///
/// A trellis for all trials saves no more bits. A trellis for the winner alone is useless, since another mode might win
/// with fewer levels. `lab: 2026-11-effort`.
const NEAR: u64 = 4;

/// Refinement of zero motion: after this number of consecutive macroblocks for which zero motion was best, only one in
/// `NUDGED_OF` is refined. It saves time in noisy still pictures. `lab: 2026-11-notes-vp8`.
const PATIENCE: u32 = 6;
const NUDGED_OF: u32 = 4;

impl Default for Contest {
    fn default() -> Self {
        Self { best: Box::default(), next: Box::default(), predictions: Box::new([[0; 256]; 4]), steady: 0 }
    }
}

impl Contest {
    /// Resets for the next macroblock.
    pub(super) fn begin(&mut self) {
        self.best.cost = u64::MAX;
    }

    /// Whether to refine zero motion for the next macroblock.
    pub(super) fn may_refine_zero_motion(&mut self) -> bool {
        self.steady = self.steady.saturating_add(1);
        self.steady <= PATIENCE || self.steady.is_multiple_of(NUDGED_OF)
    }

    /// Reports that nonzero motion was better.
    pub(super) fn on_motion_found(&mut self) {
        self.steady = 0;
    }

    /// Codes the next trial and keeps it if it is the best.
    pub(super) fn run(&mut self, costs: &Costs<'_>, place: &Place) {
        let intra = self.next.info.reference == ReferenceFrame::Intra;
        let careful = costs.analysis.tools.trellis;
        self.next.code(costs, place, if careful && intra { Levels::Cheapest } else { Levels::Rounded });
        let near = self.best.cost.saturating_add(self.best.cost / NEAR);
        if careful && self.next.is_unrestored() && self.next.cost < near {
            self.next.code(costs, place, Levels::Cheapest);
        }
        if self.next.cost < self.best.cost {
            std::mem::swap(&mut self.next, &mut self.best);
        }
    }

    /// Makes the next trial the best without coding it. The caller knows that its residual quantizes to zero.
    pub(super) fn code_empty(&mut self, costs: &Costs<'_>, place: &Place) {
        if cfg!(debug_assertions) {
            self.next.code(costs, place, Levels::Rounded);
            assert!(self.next.quantizes_to_zero, "the residual does not quantize to zero");
        }
        self.next.code_empty();
        std::mem::swap(&mut self.next, &mut self.best);
    }

    /// The best trial, reconstructed. At least one trial must have run.
    pub(super) fn best(&mut self) -> &mut Trial {
        debug_assert!(self.best.cost < u64::MAX, "no trial has run");
        self.best.restore();
        &mut self.best
    }

    /// Whether the best trial so far has an empty residual.
    pub(super) fn best_is_empty(&self) -> bool {
        self.best.residual.is_empty()
    }
}
