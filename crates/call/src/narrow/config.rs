//! Tuned constants of sound and pictures on a narrow path.

use std::time::Duration;

use lockstep_units::{Bitrate, ByteCount};

/// Time of bytes in flight above which sound waits at its sender, in units of `picture`.
pub(super) const MAX_PICTURES_IN_FLIGHT: u32 = 2;

lockstep_units::config! {
    /// Sound and pictures on a narrow path.
    pub struct NarrowPathSharesConfig = "narrow_way" {
        /// Share of the path that sound and pictures use together.
        planned: f64 = 0.9, "", 0.1..=1.0, "2026-11-control-ablation";
        /// Time of a picture's bytes on the path. It is sent when no more bytes are in flight. The same bound applies
        /// to each fragment, since words wait behind it. A waiting picture saves no more; sound waits while twice as
        /// many bytes are in flight.
        picture: Duration = 0.15, "s", 0.01..=5.0, "2026-11-control-ablation";
        /// Longest time without a picture; four times this if bytes in flight would delay it.
        longest_without: Duration = 1.5, "s", 0.1..=60.0, "2026-11-control-ablation";
        /// Assumed rate of a path that may be narrow. Pictures with less than a quarter of it wait for silence.
        assumed: Bitrate = 32_000, "bit/s", 1_000..=1_000_000, "2026-11-control-ablation";
        /// Bytes in flight that are not a queue. Half of them are allowed on any path, since a low sending rate also
        /// has a low delivery rate.
        harmless: ByteCount = 2_000, "bytes", 0..=100_000, "2026-11-control-ablation";
    }
}

impl NarrowPathSharesConfig {
    /// Minimum rate of pictures. Below it the smallest picture would delay words beyond the playout buffer.
    pub(super) fn min_rate_for_pictures(&self) -> Bitrate {
        Bitrate::from_bps(self.assumed.as_bps() / 4)
    }

    /// Allowed bytes in flight on a path of this capacity while sound is sent.
    pub(super) fn max_in_flight(&self, capacity: Bitrate) -> ByteCount {
        let always = ByteCount::new(self.harmless.get() / 2);
        capacity.bytes_in(MAX_PICTURES_IN_FLIGHT * self.picture).max(always)
    }
}
