//! Where macroblocks are found again in the references.

use crate::motion_vector::MotionVector;

/// Transformed error below which splits need not be looked at, for quality: 800 cost 1 % of bits at fine quantizers.
pub(super) const WELL_PREDICTED: u32 = 400;
/// Transformed error below which intra prediction need not be looked at: little is lost below 300, but 4 % of bits on clips
/// that move at 800.
pub(super) const HARDLY_DIFFERENT: u32 = 200;

/// Transformed error from which on it is looked at before anything is coded what intra prediction could do: whether a scene
/// has changed shows in such macroblocks. For others it is looked at when it is asked for.
pub(super) const POORLY_PREDICTED: u32 = 1000;

/// A macroblock has moved where its transformed error is smaller elsewhere by one part in so many: beside noise there is always
/// a place that is a little better, and coding seldom takes it.
const MOVED_BY: u32 = 20;

/// Where a macroblock is found again in one reference.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReferenceMotion {
    pub(super) vector: MotionVector,
    /// Transformed error at that vector, and without motion.
    pub(super) satd: u32,
    pub(super) zero_satd: u32,
    /// Absolute error at the nearest displacement by whole samples.
    pub(super) sad: u32,
    /// Whether only the unmoved place was looked at.
    pub(super) shallow: bool,
}

impl Default for ReferenceMotion {
    /// Not found at all.
    fn default() -> Self {
        Self { vector: MotionVector::ZERO, satd: NOT_FOUND, zero_satd: NOT_FOUND, sad: NOT_FOUND, shallow: false }
    }
}

impl ReferenceMotion {
    /// Whether it was looked for.
    pub(super) fn is_known(&self) -> bool {
        self.zero_satd != NOT_FOUND
    }
}

/// More than any transformed error.
pub(super) const NOT_FOUND: u32 = 1 << 24;

/// What was found for one macroblock.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MacroblockMotion {
    /// In each of the analysis's references.
    pub(super) references: [ReferenceMotion; 3],
    /// Whether the last frame predicts it badly enough that its parts may move differently.
    pub(super) poor: bool,
    /// An estimate of the transformed error of intra prediction, where it says something of the whole picture.
    pub(super) intra: Option<u32>,
}

impl MacroblockMotion {
    /// The smallest transformed error of all references.
    pub(super) fn best(&self) -> u32 {
        self.references.iter().map(|reference| reference.satd).min().unwrap_or(NOT_FOUND)
    }

    /// The first reference with that, and its index.
    pub(super) fn best_reference(&self) -> (usize, &ReferenceMotion) {
        let best = self.best();
        let index = self.references.iter().position(|reference| reference.satd == best).unwrap_or(0);
        (index, &self.references[index])
    }

    /// Whether it is found better elsewhere than where it was in the last frame: by so much that it is worth saying where.
    pub(super) fn has_moved(&self) -> bool {
        let best = self.best();
        best + best / MOVED_BY < self.references[0].zero_satd
    }
}
