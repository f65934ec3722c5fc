//! The ways to code one macroblock, tried one after another.

use super::costs::Costs;
use super::parameters::Preset;
use super::trial::{Levels, Place, Trial};
use crate::macroblock::ReferenceFrame;

/// The best way to code a macroblock that was found so far, and room to make the next. It serves one macroblock after
/// another.
#[derive(Debug)]
pub(super) struct Contest {
    best: Box<Trial>,
    /// What is to be tried next: predicted, with its mode and what saying that costs.
    pub(super) next: Box<Trial>,
    /// What luma was predicted while vectors were compared: by the neighbours' two, and by two that were tried in turn.
    pub(super) predictions: Box<[[u8; 256]; 4]>,
    /// Macroblocks that were best unmoved since one that was better nudged.
    steady: u32,
}

/// For quality, levels are chosen by a trellis where a way to code an inter macroblock costs, with rounded levels, at most
/// this share more than the best so far: for all of them it saves no more bits and takes a tenth more time; for the winner
/// alone it is no use, for with fewer levels another mode would have won.
const NEAR: u64 = 8;

/// Where the unmoved place is the best known it is nudged until so many in a row were best as they were, then one of so many:
/// in a still picture with noise nudging took a tenth of the time and found nothing. What is given up is a tenth of what
/// nudging saves.
const PATIENCE: u32 = 6;
const NUDGED_OF: u32 = 4;

impl Default for Contest {
    fn default() -> Self {
        Self { best: Box::default(), next: Box::default(), predictions: Box::new([[0; 256]; 4]), steady: 0 }
    }
}

impl Contest {
    /// Forgets the macroblock before.
    pub(super) fn begin(&mut self) {
        self.best.cost = u64::MAX;
    }

    /// Whether to nudge the next macroblock that is best unmoved.
    pub(super) fn may_nudge_still(&mut self) -> bool {
        self.steady = self.steady.saturating_add(1);
        self.steady <= PATIENCE || self.steady.is_multiple_of(NUDGED_OF)
    }

    /// It was better moved.
    pub(super) fn was_not_still(&mut self) {
        self.steady = 0;
    }

    /// Codes the next way and keeps it if it is the best.
    pub(super) fn run(&mut self, costs: &Costs<'_>, place: &Place) {
        let intra = self.next.info.reference == ReferenceFrame::Intra;
        let careful = costs.analysis.preset == Preset::Quality;
        self.next.code(costs, place, if careful && intra { Levels::Cheapest } else { Levels::Rounded });
        let near = self.best.cost.saturating_add(self.best.cost / NEAR);
        if careful && self.next.is_unrestored() && self.next.cost < near {
            self.next.code(costs, place, Levels::Cheapest);
        }
        if self.next.cost < self.best.cost {
            std::mem::swap(&mut self.next, &mut self.best);
        }
    }

    /// Takes the next way as the best, of which it is known that it has nothing to code.
    pub(super) fn leave_empty(&mut self, costs: &Costs<'_>, place: &Place) {
        if cfg!(debug_assertions) {
            self.next.code(costs, place, Levels::Rounded);
            assert!(self.next.hopeless, "a residual was thought to have nothing to code");
        }
        self.next.leave_empty();
        std::mem::swap(&mut self.next, &mut self.best);
    }

    /// The best way, reconstructed; some way must have been tried.
    pub(super) fn best(&mut self) -> &mut Trial {
        debug_assert!(self.best.cost < u64::MAX, "nothing was tried");
        self.best.restore();
        &mut self.best
    }

    /// Whether the best way so far leaves the residual out.
    pub(super) fn best_is_empty(&self) -> bool {
        self.best.residual.is_empty()
    }
}
