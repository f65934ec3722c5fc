//! Sharp text: a screen has fewer and larger frames instead of coarse ones.
//!
//! Text is unreadable in coarse frames, and a screen may change less often than a camera picture. If the quantizer that
//! fits the budget is too coarse, the frame may have the bytes of several frame intervals. Later pictures wait until
//! half of those bytes have arrived. A picture that needs no more than its usual budget is coded as always.

use std::time::Duration;

use lockstep_units::{Bitrate, ByteCount};

use crate::size_curve::SizeCurve;

lockstep_units::config! {
    /// Pictures of a screen.
    pub struct ScreenConfig = "screen" {
        /// Quantizer index from which on text is not sharp.
        sharp: u8 = 40, "", 0..=127, "2026-11-screen";
        /// Time that the path may need for one frame with sharp text, and the longest time between two frames.
        longest: Duration = 0.25, "s", 0.0..=2.0, "2026-11-screen";
    }
}

/// Budget of a screen's frame with sharp text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharpBudget {
    /// Size of the largest frame, bytes.
    pub most: ByteCount,
    /// Whether earlier frames still take more than half of the path's bytes, so that a later picture will have more.
    pub grows: bool,
}

impl SharpBudget {
    /// The budget on a path with this target while `in_flight` bytes have not arrived.
    pub(crate) fn new(config: ScreenConfig, target: Bitrate, in_flight: ByteCount) -> Self {
        let whole = target.bytes_in(config.longest);
        let most = whole.saturating_sub(in_flight);
        Self { most, grows: 2 * most.get() < whole.get() }
    }

    /// Budget of a picture whose frame is expected to have `size` bytes at `quantizer`. It is the usual `budget`, or as
    /// many bytes more as sharp text needs.
    pub(crate) fn budget(
        &self,
        config: ScreenConfig,
        curve: &SizeCurve,
        (quantizer, size): (u8, f64),
        budget: ByteCount,
    ) -> ByteCount {
        let sharp = size * curve.ratio(quantizer, config.sharp);
        ByteCount::new(sharp as u64).clamp(budget, self.most.max(budget))
    }
}
