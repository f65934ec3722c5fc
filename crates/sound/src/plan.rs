//! Plans the bit rate of sound and the number of its frames per datagram.

use lockstep_transport::MAX_BUNDLED_FRAMES;
use lockstep_transport::wire::{DATAGRAM_OVERHEAD, SOUND_HEADER};
use lockstep_units::{Bitrate, ByteCount};

use crate::FRAME_DURATION;

/// Lowest bit rate outside narrow paths. RFC 7587, section 3.1.1 recommends 28 to 40 kb/s for full-band speech.
pub const MIN_BITRATE: Bitrate = Bitrate::from_kbps(24);
/// Highest bit rate from which speech still gains.
pub const MAX_BITRATE: Bitrate = Bitrate::from_kbps(64);
/// Share of the joint target for sound, between the lowest and the highest bit rate.
const SHARE: f64 = 0.08;

/// Bit rate of sound within `target`, the joint target of pictures and sound.
#[must_use]
pub fn bitrate_within(target: Bitrate) -> Bitrate {
    target.mul_f64(SHARE).clamp(MIN_BITRATE, MAX_BITRATE)
}

/// Lowest bit rate of Opus (RFC 6716, section 2.1.1).
const MIN_OPUS_BITRATE: Bitrate = Bitrate::from_kbps(6);
/// Planned share of the capacity of a narrow path. The rest is a reserve.
const PLANNED: f64 = 0.8;
/// Frames per packet, and the minimum bit rate that justifies this number. Wide-band speech needs 12 to 16 kb/s (RFC
/// 6716, section 2.1.1). Six frames per packet add 100 ms of delay.
const NARROW_PLANS: [(usize, Bitrate); 4] = [
    (1, MIN_BITRATE),
    (2, Bitrate::from_kbps(16)),
    (3, Bitrate::from_kbps(12)),
    (MAX_BUNDLED_FRAMES, MIN_OPUS_BITRATE),
];

/// Plan for sending sound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SoundPlan {
    /// Bit rate of Opus without headers.
    pub bitrate: Bitrate,
    /// Frames per datagram.
    pub frames: usize,
}

impl SoundPlan {
    /// The plan for a joint `target` of pictures and sound. `capacity` is set on narrow paths only, and includes the
    /// headers of all layers.
    #[must_use]
    pub fn within(target: Bitrate, capacity: Option<Bitrate>) -> Self {
        let Some(capacity) = capacity else { return Self { bitrate: bitrate_within(target), frames: 1 } };
        let room = capacity.mul_f64(PLANNED);
        let of = |(frames, least): (usize, Bitrate)| {
            let left = room.saturating_sub(Self::headers(frames));
            (left >= least).then(|| Self { bitrate: left.min(MIN_BITRATE), frames })
        };
        let longest = Self { bitrate: MIN_OPUS_BITRATE, frames: MAX_BUNDLED_FRAMES };
        NARROW_PLANS.into_iter().find_map(of).unwrap_or(longest)
    }

    /// Bit rate of the headers at this number of frames per datagram.
    fn headers(frames: usize) -> Bitrate {
        let bytes = DATAGRAM_OVERHEAD + SOUND_HEADER as u64 + 2 * (frames as u64 - 1);
        Bitrate::mean(ByteCount::new(bytes), FRAME_DURATION * frames as u32)
    }

    /// Bit rate of speech on the link, headers included.
    #[must_use]
    pub fn carried(&self) -> Bitrate {
        Bitrate::from_bps(self.bitrate.as_bps() + Self::headers(self.frames).as_bps())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_paths_put_more_frames_into_a_packet() {
        let plan = |kbps| SoundPlan::within(Bitrate::from_kbps(30), Some(Bitrate::from_kbps(kbps)));
        let frames = [10, 16, 24, 32, 40, 48, 64, 80, 99].map(|kbps| plan(kbps).frames);
        assert_eq!(frames, [6, 6, 6, 3, 3, 2, 2, 1, 1]);
        for kbps in 16..100 {
            let SoundPlan { bitrate, .. } = plan(kbps);
            assert!((MIN_OPUS_BITRATE..=MIN_BITRATE).contains(&bitrate), "{kbps} kb/s: {bitrate:?}");
            assert!(plan(kbps).carried() <= Bitrate::from_kbps(kbps), "{kbps} kb/s: {:?}", plan(kbps));
        }
        assert_eq!(SoundPlan::within(Bitrate::from_kbps(500), None).frames, 1);
    }

    #[test]
    fn bit_rate_stays_between_its_limits_at_any_target() {
        let rates = [0, 100, 500, 20_000].map(|kbps| bitrate_within(Bitrate::from_kbps(kbps)).as_bps() / 1_000);
        assert_eq!(rates, [24, 24, 40, 64]);
    }
}
