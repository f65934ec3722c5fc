//! From frames to packets.

use lockstep_transport::wire::{CARRIAGE, SOUND_HEADER};
use lockstep_transport::{MOST_BUNDLED, SoundPacket};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use crate::coding::{CodingError, SoundEncoder};
use crate::{FRAME_DURATION, Frame};

/// What Opus needs for speech of full band (RFC 7587, section 3.1.1: 28 to 40 kb/s), and less where there is little; and
/// what it can make use of.
pub const LOWEST_BITRATE: Bitrate = Bitrate::from_kbps(24);
/// See [`LOWEST_BITRATE`].
pub const HIGHEST_BITRATE: Bitrate = Bitrate::from_kbps(64);
/// The share of all that may be sent which sound may have beyond the least.
const SHARE: f64 = 0.08;
/// While there is silence, every so many frames (400 ms, as Opus does) a packet says so: it keeps the path known.
const FRAMES_BETWEEN_SILENT_PACKETS: u32 = 20;

/// The bit rate of sound where `target` is what picture and sound may have together.
#[must_use]
pub fn bitrate_within(target: Bitrate) -> Bitrate {
    target.mul_f64(SHARE).clamp(LOWEST_BITRATE, HIGHEST_BITRATE)
}

/// What Opus can be told to spend at least (RFC 6716, section 2.1.1).
const LEAST_BITRATE: Bitrate = Bitrate::from_kbps(6);
/// Of what a narrow path carries, the part that is planned with: the rest is for what was not foreseen.
const PLANNED: f64 = 0.8;
/// Frames in a packet, and the least that each bit rate is to be for so few of them: 16 and 12 kb/s are what speech of wide
/// band needs (RFC 6716, section 2.1.1). With 6, words take 100 ms longer.
const NARROW_PLANS: [(usize, Bitrate); 4] =
    [(1, LOWEST_BITRATE), (2, Bitrate::from_kbps(16)), (3, Bitrate::from_kbps(12)), (MOST_BUNDLED, LEAST_BITRATE)];

/// How sound is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SoundPlan {
    /// What is spent on it, headers apart.
    pub bitrate: Bitrate,
    /// How many frames leave in one datagram.
    pub frames: usize,
}

impl SoundPlan {
    /// The plan where `target` is what picture and sound may have together; `capacity` is what the path carries of them,
    /// headers of all layers included, if that is little.
    #[must_use]
    pub fn within(target: Bitrate, capacity: Option<Bitrate>) -> Self {
        let Some(capacity) = capacity else { return Self { bitrate: bitrate_within(target), frames: 1 } };
        let room = capacity.mul_f64(PLANNED);
        let of = |(frames, least): (usize, Bitrate)| {
            let left = room.saturating_sub(Self::headers(frames));
            (left >= least).then(|| Self { bitrate: left.min(LOWEST_BITRATE), frames })
        };
        let longest = Self { bitrate: LEAST_BITRATE, frames: MOST_BUNDLED };
        NARROW_PLANS.into_iter().find_map(of).unwrap_or(longest)
    }

    /// What the headers of datagrams of so many frames take.
    fn headers(frames: usize) -> Bitrate {
        let bytes = CARRIAGE + SOUND_HEADER as u64 + 2 * (frames as u64 - 1);
        Bitrate::mean(ByteCount::new(bytes), FRAME_DURATION * frames as u32)
    }

    /// What sound takes of a link where somebody talks.
    #[must_use]
    pub fn carried(&self) -> Bitrate {
        Bitrate::from_bps(self.bitrate.as_bps() + Self::headers(self.frames).as_bps())
    }
}

/// Codes what the microphone gives.
#[derive(Debug)]
pub struct SoundSender {
    encoder: SoundEncoder,
    bitrate: Bitrate,
    loss: f64,
    next: u32,
    /// For how many frames there has been silence.
    silent: u32,
}

impl SoundSender {
    /// # Errors
    /// Opus has no memory.
    pub fn new() -> Result<Self, CodingError> {
        let bitrate = LOWEST_BITRATE;
        Ok(Self { encoder: SoundEncoder::new(bitrate)?, bitrate, loss: 0.0, next: 0, silent: 0 })
    }

    /// Spends `bitrate` from now on (see [`SoundPlan`]); the share `loss`, 0 to 1, of packets is lost.
    ///
    /// # Errors
    /// Opus does not take it.
    pub fn adapt(&mut self, bitrate: Bitrate, loss: f64) -> Result<(), CodingError> {
        if bitrate != self.bitrate {
            self.encoder.set_bitrate(bitrate)?;
            self.bitrate = bitrate;
        }
        // A percent is what Opus tells apart.
        let loss = (loss * 100.0).round() / 100.0;
        if loss != self.loss {
            self.encoder.set_loss(loss)?;
            self.loss = loss;
        }
        Ok(())
    }

    /// What is spent on sound, packet headers apart, unless there is silence.
    #[must_use]
    pub fn bitrate(&self) -> Bitrate {
        self.bitrate
    }

    /// The frame whose last sample was captured at `now`; none where it is silent and that has been said.
    ///
    /// # Errors
    /// Opus could not code it. The frame counts as captured all the same.
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

    /// What is heard of twenty seconds of the tone over a path that loses `loss` of all packets and delays them by up to
    /// `jitter` milliseconds more than 30.
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
    fn over_a_good_path_all_is_heard_and_soon() {
        let (player, delays) = talk(0.0, 0, 1);
        assert!(player.statistics().concealed_share() < 0.005, "{:?}", player.statistics());
        // 20 ms until the frame is whole, 30 on the way, at most 20 until the next is asked for, 6.5 of opus.
        let longest = delays.iter().skip(20).max().unwrap();
        assert!(*longest <= Duration::from_millis(100), "{longest:?}");
    }

    #[test]
    fn of_lost_packets_most_are_recovered() {
        for seed in 1..4 {
            let (player, _) = talk(0.1, 20, seed);
            let statistics = player.statistics();
            assert!(statistics.recovered > 40, "{statistics:?}");
            assert!(statistics.concealed_share() < 0.05, "{statistics:?}");
        }
    }

    #[test]
    fn jitter_delays_by_about_as_much() {
        let (player, mut delays) = talk(0.0, 60, 3);
        delays.sort_unstable();
        let median = delays[delays.len() / 2];
        assert!(player.statistics().concealed_share() < 0.04, "{:?}", player.statistics());
        assert!((90..=160).contains(&median.as_millis()), "{median:?}");
    }

    #[test]
    fn the_narrower_the_path_the_more_frames_share_headers_and_the_plan_fits_it() {
        let plan = |kbps| SoundPlan::within(Bitrate::from_kbps(30), Some(Bitrate::from_kbps(kbps)));
        let frames = [10, 16, 24, 32, 40, 48, 64, 80, 99].map(|kbps| plan(kbps).frames);
        assert_eq!(frames, [6, 6, 6, 3, 3, 2, 2, 1, 1]);
        for kbps in 16..100 {
            let SoundPlan { bitrate, .. } = plan(kbps);
            assert!((LEAST_BITRATE..=LOWEST_BITRATE).contains(&bitrate), "{kbps} kb/s: {bitrate:?}");
            assert!(plan(kbps).carried() <= Bitrate::from_kbps(kbps), "{kbps} kb/s: {:?}", plan(kbps));
        }
        assert_eq!(SoundPlan::within(Bitrate::from_kbps(500), None).frames, 1);
    }

    #[test]
    fn sound_has_its_least_whatever_the_target_and_no_more_than_it_can_use() {
        let rates = [0, 100, 500, 20_000].map(|kbps| bitrate_within(Bitrate::from_kbps(kbps)).as_bps() / 1_000);
        assert_eq!(rates, [24, 24, 40, 64]);
    }
}
