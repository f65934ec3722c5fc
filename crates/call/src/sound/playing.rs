//! Sound at the receiving end, and its scores.

use std::time::Duration;

use lockstep_sound::{Decode, Decoded, Player, PlayerStatistics, SoundFailure, SoundSink};
use lockstep_transport::SoundPacket;
use lockstep_units::Timestamp;
use serde::{Deserialize, Serialize};

use crate::distribution::{DelayScores, Distribution};

/// Player of a call's sound packets.
pub trait Playback<P>: Send {
    /// Adds a received packet.
    fn insert(&mut self, now: Timestamp, packet: SoundPacket<P>);
    /// Plays the 20 ms from `now` on.
    ///
    /// # Errors
    /// [`SoundFailure`] if the sink fails.
    fn play(&mut self, now: Timestamp) -> Result<(), SoundFailure>;
    /// Capture time of the sound heard now, on the sender's clock; none during silence.
    fn playing_captured_at(&self) -> Option<Timestamp>;
    /// Sets the minimum delay between capture and playing, nanoseconds between two clocks, within bounds.
    fn set_min_delay(&mut self, delay: i64);
    /// Scores so far. `one_way_delay` is none if both ends have one clock. Otherwise it is the known delay of the
    /// fastest packet, and delays are relative to it.
    fn scores(&mut self, one_way_delay: Option<Duration>) -> SoundScores;
}

/// Scores of a call's sound.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SoundScores {
    /// Number of received packets.
    pub packets: u64,
    /// Share of concealed sound, 0 to 1, because packets were lost or late. W3C webrtc-stats: `concealedSamples` less
    /// `silentConcealedSamples` over all that were not silent.
    pub concealed_share: f64,
    /// Number of lost frames of 20 ms that were recovered from the coarse copy in the next packet.
    pub recovered_frames: u64,
    /// Number of received frames that were skipped to catch up, for example after an outage.
    pub skipped_frames: u64,
    /// Mouth-to-ear delay from a sample's capture to its playing, including Opus's look-ahead. None without sound.
    pub mouth_to_ear_ms: Option<DelayScores>,
    /// Absolute difference between pictures and the sound heard at their display; none if the two were never present
    /// together.
    pub lip_sync_error_ms: Option<DelayScores>,
}

/// Player with its scores, and an optional sink.
pub struct SoundPlayer<D: Decode> {
    player: Player<D>,
    sink: Option<Box<dyn SoundSink>>,
    playing_captured_at: Option<Timestamp>,
    /// Mouth-to-ear delays above [`Self::reference`], milliseconds.
    delays: Distribution,
    /// Delay of the first packet from capture to arrival minus one second, and the minimum delay of all; nanoseconds
    /// between two clocks.
    reference: Option<i64>,
    least: i64,
}

/// Upper bound of the first packet's excess delay over later ones, nanoseconds.
const SURELY_LATER: i64 = 1_000_000_000;

impl<D: Decode> SoundPlayer<D> {
    /// A player without packets.
    #[must_use]
    pub fn new(decoder: D, sink: Option<Box<dyn SoundSink>>) -> Self {
        Self {
            player: Player::new(decoder),
            sink,
            playing_captured_at: None,
            delays: Distribution::of_milliseconds(),
            reference: None,
            least: i64::MAX,
        }
    }

    /// Ends the playing.
    ///
    /// # Errors
    /// [`SoundFailure`] if the sink fails.
    pub fn finish(mut self) -> Result<(), SoundFailure> {
        self.sink.as_mut().map_or(Ok(()), |sink| sink.finish())
    }

    /// The next frame that was decoded to be played; see [`Player::poll_decoded`].
    pub fn poll_decoded(&mut self) -> Option<Decoded> {
        self.player.poll_decoded()
    }

    /// Counters of the player.
    #[must_use]
    pub fn statistics(&self) -> PlayerStatistics {
        self.player.statistics()
    }
}

impl<D: Decode + Send> Playback<D::Payload> for SoundPlayer<D>
where
    D::Payload: Send,
{
    fn insert(&mut self, now: Timestamp, packet: SoundPacket<D::Payload>) {
        let took = difference(now, packet.captured);
        self.reference.get_or_insert(took.saturating_sub(SURELY_LATER));
        self.least = self.least.min(took);
        self.player.insert(now, packet.frame, packet.captured, packet.payload);
    }

    fn play(&mut self, now: Timestamp) -> Result<(), SoundFailure> {
        let frame = self.player.play(now);
        // The player reports the end of the frame that it returned.
        let start = |end: Timestamp| {
            Timestamp::from_nanos(end.as_nanos().saturating_sub(lockstep_sound::FRAME_DURATION.as_nanos() as u64))
        };
        self.playing_captured_at = self.player.playing_captured_at().map(start);
        let reference = self.reference.unwrap_or(0);
        while let Some(delay) = self.player.poll_delay() {
            self.delays.add(delay.saturating_sub(reference).max(0) as f64 * 1e-6);
        }
        self.sink.as_mut().map_or(Ok(()), |sink| sink.play(&frame))
    }

    fn playing_captured_at(&self) -> Option<Timestamp> {
        self.playing_captured_at
    }

    fn set_min_delay(&mut self, delay: i64) {
        self.player.set_min_delay(delay);
    }

    fn scores(&mut self, one_way_delay: Option<Duration>) -> SoundScores {
        let statistics = self.player.statistics();
        let reference = self.reference.unwrap_or(0);
        // A packet leaves after the duration of its frame.
        let shift = one_way_delay.map_or(reference, |way| {
            let fastest = nanoseconds(way + lockstep_sound::FRAME_DURATION);
            reference.saturating_sub(self.least).saturating_add(fastest)
        });
        let shifted = |delay: f64| delay + shift as f64 * 1e-6;
        let delays = DelayScores::of(&mut self.delays);
        SoundScores {
            packets: statistics.playout.packets,
            concealed_share: statistics.concealed_share(),
            recovered_frames: statistics.recovered,
            skipped_frames: statistics.playout.skipped,
            mouth_to_ear_ms: delays.map(|delays| DelayScores {
                p50: shifted(delays.p50),
                mean: shifted(delays.mean),
                p95: shifted(delays.p95),
            }),
            lip_sync_error_ms: None,
        }
    }
}

/// Difference between two times, nanoseconds.
pub(crate) fn difference(later: Timestamp, earlier: Timestamp) -> i64 {
    later.as_nanos().wrapping_sub(earlier.as_nanos()) as i64
}

/// `time` in signed nanoseconds.
pub(crate) fn nanoseconds(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}
