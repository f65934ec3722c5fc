//! Sound at the receiving end, and what it scores.

use std::time::Duration;

use lockstep_sound::{Decode, Decoded, Player, PlayerStatistics, SoundFailure, SoundSink};
use lockstep_transport::SoundPacket;
use lockstep_units::Timestamp;
use serde::{Deserialize, Serialize};

use crate::distribution::{DelayScores, Distribution};

/// Plays the packets of a call's sound.
pub trait Playback<P>: Send {
    /// A packet came.
    fn insert(&mut self, now: Timestamp, packet: SoundPacket<P>);
    /// Plays the 20 ms from `now` on.
    ///
    /// # Errors
    /// What became of where it is played.
    fn play(&mut self, now: Timestamp) -> Result<(), SoundFailure>;
    /// When what is heard now was captured, sender's clock; none in silence.
    fn heard(&self) -> Option<Timestamp>;
    /// Plays nothing sooner than `delay` after its capture, nanoseconds between two clocks, within bounds.
    fn set_least_delay(&mut self, delay: i64);
    /// What was heard so far. Where both ends have one clock there is no `shortest_way`; otherwise it is how long the fastest
    /// packet is known to have taken, and delays are what others took more.
    fn scores(&mut self, shortest_way: Option<Duration>) -> SoundScores;
}

/// How the sound of a call was heard.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SoundScores {
    /// Packets that came.
    pub packets: u64,
    /// The share (0-1) of what was to be heard that was made up, because it was lost or late. W3C webrtc-stats:
    /// `concealedSamples` less `silentConcealedSamples` over all that were not silent.
    pub concealed_share: f64,
    /// Lost frames, 20 ms each, that were made from the coarse copy in the packet after them.
    pub recovered_frames: u64,
    /// Frames that came and were left out to catch up, as after an outage.
    pub skipped_frames: u64,
    /// From mouth to ear: from a sample's capture to its playing, Opus's look-ahead included. None where nothing was heard.
    pub mouth_to_ear_ms: Option<DelayScores>,
    /// How far pictures were from the sound heard while they appeared, either way; none where the two were never at once.
    pub lip_sync_error_ms: Option<DelayScores>,
}

/// A player with its scores, and perhaps somewhere to play.
pub struct Playing<D: Decode> {
    player: Player<D>,
    sink: Option<Box<dyn SoundSink>>,
    heard: Option<Timestamp>,
    /// From mouth to ear, milliseconds more than [`Self::reference`].
    delays: Distribution,
    /// A second less than the first packet took from its capture to its arrival, and the least that any took; nanoseconds
    /// between two clocks.
    reference: Option<i64>,
    least: i64,
}

/// What is surely more than the first packet is later than others.
const SURELY_LATER: i64 = 1_000_000_000;

impl<D: Decode> Playing<D> {
    /// A player to which nothing has come.
    #[must_use]
    pub fn new(decoder: D, sink: Option<Box<dyn SoundSink>>) -> Self {
        Self {
            player: Player::new(decoder),
            sink,
            heard: None,
            delays: Distribution::of_milliseconds(),
            reference: None,
            least: i64::MAX,
        }
    }

    /// Nothing more will be played.
    ///
    /// # Errors
    /// What went wrong at the sink.
    pub fn finish(mut self) -> Result<(), SoundFailure> {
        self.sink.as_mut().map_or(Ok(()), |sink| sink.finish())
    }

    /// The next frame that was decoded to be played; see [`Player::poll_decoded`].
    pub fn poll_decoded(&mut self) -> Option<Decoded> {
        self.player.poll_decoded()
    }

    /// What the player counted.
    #[must_use]
    pub fn statistics(&self) -> PlayerStatistics {
        self.player.statistics()
    }
}

impl<D: Decode + Send> Playback<D::Payload> for Playing<D>
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
        // What the player knows is the end of what it gave.
        let start = |end: Timestamp| {
            Timestamp::from_nanos(end.as_nanos().saturating_sub(lockstep_sound::FRAME_DURATION.as_nanos() as u64))
        };
        self.heard = self.player.heard().map(start);
        let reference = self.reference.unwrap_or(0);
        while let Some(delay) = self.player.poll_delay() {
            self.delays.add(delay.saturating_sub(reference).max(0) as f64 * 1e-6);
        }
        self.sink.as_mut().map_or(Ok(()), |sink| sink.play(&frame))
    }

    fn heard(&self) -> Option<Timestamp> {
        self.heard
    }

    fn set_least_delay(&mut self, delay: i64) {
        self.player.set_least_delay(delay);
    }

    fn scores(&mut self, shortest_way: Option<Duration>) -> SoundScores {
        let statistics = self.player.statistics();
        let reference = self.reference.unwrap_or(0);
        // A packet takes as long as its frame lasts before it leaves.
        let shift = shortest_way.map_or(reference, |way| {
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

/// The difference between two moments, nanoseconds.
pub(crate) fn difference(later: Timestamp, earlier: Timestamp) -> i64 {
    later.as_nanos().wrapping_sub(earlier.as_nanos()) as i64
}

/// `time` as nanoseconds that may be negative.
pub(crate) fn nanoseconds(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}
