//! Turns captured frames into packets.

use lockstep_transport::SoundPacket;
use lockstep_units::{Bitrate, Timestamp};

use crate::Frame;
use crate::coding::CodingError;
use crate::numbering::FrameNumbering;
use crate::opus::SoundEncoder;
use crate::plan::MIN_BITRATE;

/// Encodes captured sound.
#[derive(Debug)]
pub struct SoundSender {
    encoder: SoundEncoder,
    bitrate: Bitrate,
    loss: f64,
    numbering: FrameNumbering,
}

impl SoundSender {
    /// # Errors
    /// If Opus has no memory.
    pub fn new() -> Result<Self, CodingError> {
        let bitrate = MIN_BITRATE;
        Ok(Self { encoder: SoundEncoder::new(bitrate)?, bitrate, loss: 0.0, numbering: FrameNumbering::default() })
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
        let frame = self.numbering.begin();
        let payload = self.encoder.encode(samples)?;
        Ok(self.numbering.packet(frame, now, payload))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::source::{SoundSource, Tone};
    use crate::{Player, SoundDecoder, bitrate_within};

    /// Plays twenty seconds of the tone over a path with a base delay of 30 ms. `loss` is the share of lost packets,
    /// `jitter` the maximum extra delay in milliseconds.
    fn talk(loss: f64, jitter: u64, seed: u64) -> (Player<SoundDecoder>, Vec<Duration>) {
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
}
