//! Results of motion search for macroblocks.

use crate::motion_vector::MotionVector;

/// SATD below which split mode is not tried. `lab: 2026-11-notes-vp8`.
pub(super) const SPLIT_SATD: u32 = 400;
/// SATD below which intra prediction is not tried. `lab: 2026-11-notes-vp8`.
pub(super) const INTRA_SATD: u32 = 200;

/// SATD above which the analysis estimates intra prediction. Such macroblocks decide about scene cuts. For others the
/// estimate is computed on demand.
pub(super) const INTRA_ESTIMATE_SATD: u32 = 1000;

/// A macroblock has moved if motion reduces its SATD by at least one part in this number. With noise, some position is
/// always slightly better, and coding seldom uses it.
const MOVED_BY: u32 = 20;

/// Best match of a macroblock in one reference.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReferenceMotion {
    pub(super) vector: MotionVector,
    /// SATD at that vector, and without motion.
    pub(super) satd: u32,
    pub(super) zero_satd: u32,
    /// SAD at the nearest displacement by whole samples.
    pub(super) sad: u32,
    /// Whether only zero motion was evaluated.
    pub(super) shallow: bool,
}

impl Default for ReferenceMotion {
    /// No match.
    fn default() -> Self {
        Self { vector: MotionVector::ZERO, satd: NOT_FOUND, zero_satd: NOT_FOUND, sad: NOT_FOUND, shallow: false }
    }
}

impl ReferenceMotion {
    /// Whether the reference was searched.
    pub(super) fn is_known(&self) -> bool {
        self.zero_satd != NOT_FOUND
    }
}

/// Larger than any SATD.
pub(super) const NOT_FOUND: u32 = 1 << 24;

/// Results of motion search for one macroblock.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MacroblockMotion {
    /// Best match in each reference of the analysis.
    pub(super) references: [ReferenceMotion; 3],
    /// Whether the last frame predicts the macroblock so badly that split mode is worth trying.
    pub(super) poor: bool,
    /// Estimated SATD of intra prediction, if the macroblock counts for the detection of scene cuts.
    pub(super) intra: Option<u32>,
}

impl MacroblockMotion {
    /// The smallest SATD of all references.
    pub(super) fn best(&self) -> u32 {
        self.references.iter().map(|reference| reference.satd).min().unwrap_or(NOT_FOUND)
    }

    /// The first reference with the smallest SATD, and its index.
    pub(super) fn best_reference(&self) -> (usize, &ReferenceMotion) {
        let best = self.best();
        let index = self.references.iter().position(|reference| reference.satd == best).unwrap_or(0);
        (index, &self.references[index])
    }

    /// Whether motion is significantly better than zero motion in the last frame.
    pub(super) fn has_moved(&self) -> bool {
        let best = self.best();
        best + best / MOVED_BY < self.references[0].zero_satd
    }
}
