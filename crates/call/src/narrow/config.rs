//! The tuned constants of sound and pictures on a narrow path.

use std::time::Duration;

use lockstep_units::{Bitrate, ByteCount};

/// Sound waits at its sender while more is in flight than this many pictures' time.
pub(super) const MOST_PICTURES_IN_FLIGHT: u32 = 2;

lockstep_units::config! {
    /// Sound and pictures on a narrow path.
    pub struct NarrowWayConfig = "narrow_way" {
        /// Share of the path that sound and pictures use together.
        planned: f64 = 0.9, "", 0.1..=1.0, "2026-11-control-ablation";
        /// A picture may have the bytes of this time, and leaves when no more are in flight. So may each fragment: words wait
        /// behind it. A picture saves no more while it waits; sound waits while twice as many bytes are in flight.
        picture: Duration = 0.15, "s", 0.01..=5.0, "2026-11-control-ablation";
        /// The longest time without a picture; four times as long where bytes in flight would delay it.
        longest_without: Duration = 1.5, "s", 0.1..=60.0, "2026-11-control-ablation";
        /// Rate that is assumed of a path that may be narrow; pictures with less than a quarter of it wait for silence.
        assumed: Bitrate = 32_000, "bit/s", 1_000..=1_000_000, "2026-11-control-ablation";
        /// Bytes in flight that are no queue; half as many are on any path, since little comes out where little is sent.
        harmless: ByteCount = 2_000, "bytes", 0..=100_000, "2026-11-control-ablation";
    }
}

impl NarrowWayConfig {
    /// Less than this is nothing for pictures: the smallest would delay words for longer than a buffer waits for them.
    pub(super) fn least_for_pictures(&self) -> Bitrate {
        Bitrate::from_bps(self.assumed.as_bps() / 4)
    }

    /// Bytes that may be in flight of a path of this capacity while sound leaves.
    pub(super) fn most_in_flight(&self, capacity: Bitrate) -> ByteCount {
        let always = ByteCount::new(self.harmless.get() / 2);
        capacity.bytes_in(MOST_PICTURES_IN_FLIGHT * self.picture).max(always)
    }
}
