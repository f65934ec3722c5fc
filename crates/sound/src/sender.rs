//! Turns captured frames into packets.

use lockstep_transport::wire::{DATAGRAM_OVERHEAD, SOUND_HEADER};
use lockstep_transport::{MAX_BUNDLED_FRAMES, SoundPacket};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use crate::coding::{CodingError, SoundEncoder};
use crate::{FRAME_DURATION, Frame};

/// Lowest bit rate outside narrow paths. RFC 7587, section 3.1.1 recommends 28 to 40 kb/s for full-band speech.
pub const MIN_BITRATE: Bitrate = Bitrate::from_kbps(24);
/// Highest bit rate from which speech still gains.
pub const MAX_BITRATE: Bitrate = Bitrate::from_kbps(64);
/// Share of the joint target for sound, between the lowest and the highest bit rate.
const SHARE: f64 = 0.08;
/// During silence, every 20th frame (400 ms) has an empty packet, as in Opus. It keeps the path measured.
const FRAMES_BETWEEN_SILENT_PACKETS: u32 = 20;

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

/// Encodes captured sound.
#[derive(Debug)]
pub struct SoundSender {
    encoder: SoundEncoder,
    bitrate: Bitrate,
    loss: f64,
    next: u32,
    /// Number of silent frames in a row.
    silent: u32,
}

impl SoundSender {
    /// # Errors
    /// If Opus has no memory.
    pub fn new() -> Result<Self, CodingError> {
        let bitrate = MIN_BITRATE;
        Ok(Self { encoder: SoundEncoder::new(bitrate)?, bitrate, loss: 0.0, next: 0, silent: 0 })
    }

    /// Sets the bit rate (see [`SoundPlan`]) and the expected share of lost packets, 0 to 1.
    ///
    /// # Errors
    /// If Opus refuses the values.
    pub fn adapt(&mut self, bitrate: Bitrate, loss: f64) -> Result<(), CodingError> {
        if bitrate != self.bitrate {
            self.encoder.set_bitrate(bitrate)?;
            self.bitrate = bitrate;
        }
        // Opus distinguishes whole per cents.
        let loss = (loss * 100.0).round() / 100.0;
        if loss != self.loss {
            self.encoder.set_loss(loss)?;
            self.loss = loss;
        }
        Ok(())
    }

    /// Bit rate of speech, without packet headers.
    #[must_use]
    pub fn bitrate(&self) -> Bitrate {
        self.bitrate
    }

    /// Encodes the frame whose last sample was captured at `now`. Returns no packet in silence that is already
    /// announced.
    ///
    /// # Errors
    /// If Opus cannot encode the frame. The frame still counts as captured.
    pub fn capture(&mut self, now: Timestamp, samples: &Frame) -> Result<Option<SoundPacket>, CodingError> {
        let frame = self.next;
        self.next = frame.wrapping_add(1);
        let payload = self.encoder.encode(samples)?;
        self.silent = if payload.is_some() { 0 } else { self.silent + 1 };
        let tells = payload.is_some() || self.silent % FRAMES_BETWEEN_SILENT_PACKETS == 1;
        let captured = Timestamp::from_nanos(now.as_nanos().saturating_sub(FRAME_DURATION.as_nanos() as u64));
        Ok(tells.then(|| SoundPacket { frame, captured, payload: payload.unwrap_or_default() }))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::source::{SoundSource, Tone};
    use crate::{Player, SoundDecoder};

    /// Plays twenty seconds of the tone over a path with a base delay of 30 ms. `loss` is the share of lost packets,
    /// `jitter` the maximum extra delay in milliseconds.
    fn talk(loss: f64, jitter: u64, seed: u64) -> (Player, Vec<Duration>) {
        let mut random = rand_pcg::Pcg32::seed_from_u64(seed);
        let (mut tone, mut sender) = (Tone::default(), SoundSender::new().unwrap());
        let mut player = Player::new(SoundDecoder::new().unwrap());
        sender.adapt(bitrate_within(Bitrate::from_kbps(500)), loss).unwrap();
        let (mut on_the_way, mut delays) = (Vec::<(Timestamp, SoundPacket)>::new(), Vec::new());
        for tick in 0..1_000u64 {
            let now = Timestamp::from_millis(20 * tick + 20);
            let packet = sender.capture(now, &tone.next_frame().unwrap().unwrap()).unwrap();
            if let Some(packet) = packet.filter(|_| random.random::<f64>() >= loss) {
                on_the_way.push((now + Duration::from_millis(30 + random.random_range(0..=jitter)), packet));
            }
            let (mut arrived, rest): (Vec<_>, Vec<_>) = on_the_way.into_iter().partition(|(at, _)| *at <= now);
            on_the_way = rest;
            arrived.sort_by_key(|(at, _)| *at);
            for (at, packet) in arrived {
                player.insert(at, packet.frame, packet.captured, packet.payload);
            }
            _ = player.play(now);
            delays.extend(std::iter::from_fn(|| player.poll_delay()).map(|delay| Duration::from_nanos(delay as u64)));
        }
        (player, delays)
    }

    #[test]
    fn without_loss_everything_plays_with_low_delay() {
        let (player, delays) = talk(0.0, 0, 1);
        assert!(player.statistics().concealed_share() < 0.005, "{:?}", player.statistics());
        // Sum: 20 ms of capture, 30 of path, at most 20 until the next frame, 6.5 of Opus.
        let longest = delays.iter().skip(20).max().unwrap();
        assert!(*longest <= Duration::from_millis(100), "{longest:?}");
    }

    #[test]
    fn most_lost_packets_are_restored() {
        for seed in 1..4 {
            let (player, _) = talk(0.1, 20, seed);
            let statistics = player.statistics();
            assert!(statistics.recovered > 40, "{statistics:?}");
            assert!(statistics.concealed_share() < 0.05, "{statistics:?}");
        }
    }

    #[test]
    fn jitter_adds_about_its_own_delay() {
        let (player, mut delays) = talk(0.0, 60, 3);
        delays.sort_unstable();
        let median = delays[delays.len() / 2];
        assert!(player.statistics().concealed_share() < 0.04, "{:?}", player.statistics());
        assert!((90..=160).contains(&median.as_millis()), "{median:?}");
    }

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
