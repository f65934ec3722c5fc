//! Playout buffer: decides when to play a packet of sound. The delay covers most of the jitter and no more.

use std::collections::BTreeMap;
use std::time::Duration;

use lockstep_units::Timestamp;

use crate::FRAME_DURATION;
use crate::recent_delays::{RecentDelays, beyond};

/// Number of recent delays that set the wait: ten seconds of speech.
const DELAYS: usize = 500;
/// Share of packets that the wait covers. Later packets are concealed, which disturbs less than a longer delay.
const IN_TIME: f64 = 0.97;
/// Minimum wait, for the timers of hosts.
const MIN_WAIT: Duration = Duration::from_millis(10);
/// Wait before the first measurements.
const FIRST_WAIT: Duration = Duration::from_millis(40);
/// Above this delay behind the target, frames are skipped, because playing faster takes too long.
const FURTHEST_BEHIND: Duration = Duration::from_millis(120);
/// Lateness after the target up to which the pace stays normal. It covers a silent frame, and the time between two calls.
const LATE_ENOUGH: Duration = Duration::from_millis(22);
/// Earliness before the target up to which the pace stays normal.
const EARLY_ENOUGH: Duration = Duration::from_millis(2);
/// Above this share of missing frames, the buffer waits for one more frame. The next packet has the copy of a lost
/// frame.
const LOSSY: f64 = 0.01;
/// Weight of one frame in the smoothed share of missing frames: a window of about ten seconds.
const MISSING_WEIGHT: f64 = 1.0 / 500.0;
/// Maximum extra wait for late pictures. A longer one would disturb the conversation.
const MAX_LIP_SYNC_WAIT: Duration = Duration::from_millis(200);
/// Maximum number of waiting packets: ten seconds.
const MAX_WAITING_PACKETS: usize = 500;

/// What to play for the next frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Playout<P> {
    /// Play a packet.
    Packet {
        /// Content of the packet.
        payload: P,
        /// Capture time of its first sample on the sender's clock.
        captured: Timestamp,
        /// Pace at which to play it.
        pace: Pace,
    },
    /// A frame is lost. The packet after it may have a coarse copy.
    Recover {
        /// Content of the packet after the lost one.
        next: P,
    },
    /// A frame is lost or late.
    Conceal,
    /// The sender is silent, or has not begun.
    Silence,
}

/// Pace of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Play as captured.
    Keep,
    /// Play a little faster, because the buffer is behind its target.
    Shorten,
    /// Play a little slower, because the delay of the path grew.
    Lengthen,
}

/// Counters of a [`PlayoutBuffer`], in frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct PlayoutStatistics {
    /// Received packets.
    pub packets: u64,
    /// Packets that arrived after the time of their frame, or twice.
    pub late: u64,
    /// Frames played from their packets.
    pub played: u64,
    /// Lost frames for which the next packet was there.
    pub recoverable: u64,
    /// Lost or late frames that were concealed.
    pub concealed: u64,
    /// Received frames skipped to catch up.
    pub skipped: u64,
}

impl PlayoutStatistics {
    /// Concealed share of the sound, 0 to 1.
    #[must_use]
    pub fn concealed_share(&self) -> f64 {
        let total = self.played + self.recoverable + self.concealed;
        if total == 0 { 0.0 } else { self.concealed as f64 / total as f64 }
    }
}

#[derive(Debug)]
struct Waiting<P> {
    captured: Timestamp,
    payload: P,
}

/// Packets of sound in order of time, until they are played.
///
/// A frame number counts frames of 20 ms since the sender began, silent ones included. Delays are differences between
/// two clocks, so only their distance from the shortest counts. An empty packet announces silence. During silence the
/// buffer chooses a new playout time.
#[derive(Debug)]
pub struct PlayoutBuffer<P> {
    packets: BTreeMap<u32, Waiting<P>>,
    /// Number of the next frame to play. None before the first.
    next: Option<u32>,
    silent: bool,
    /// Frames concealed while the buffer was empty. They stand for those from `next` on.
    stood_in: u32,
    /// Delays from capture to arrival, nanoseconds between two clocks, oldest first.
    delays: RecentDelays,
    /// The shortest delay. The wait comes on top of it.
    shortest: i64,
    wait: Duration,
    /// Smoothed share of frames that were missing at their time.
    missing: f64,
    /// Minimum delay from capture to playout, nanoseconds between two clocks.
    min_delay: Option<i64>,
    /// A frame number and its capture time.
    captured: (u32, Timestamp),
    statistics: PlayoutStatistics,
}

impl<P: Clone> Default for PlayoutBuffer<P> {
    fn default() -> Self {
        Self {
            packets: BTreeMap::new(),
            next: None,
            silent: true,
            stood_in: 0,
            delays: RecentDelays::new(DELAYS),
            shortest: 0,
            wait: FIRST_WAIT,
            missing: 0.0,
            min_delay: None,
            captured: (0, Timestamp::ZERO),
            statistics: PlayoutStatistics::default(),
        }
    }
}

fn signed(to: Timestamp, from: Timestamp) -> i64 {
    to.as_nanos().wrapping_sub(from.as_nanos()) as i64
}

fn nanoseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

impl<P: Clone> PlayoutBuffer<P> {
    /// Inserts the packet of frame `frame`, which arrived at `now`.
    pub fn insert(&mut self, now: Timestamp, frame: u32, captured: Timestamp, payload: P) {
        self.statistics.packets += 1;
        self.note_delay(signed(now, captured));
        if self.next.is_some_and(|next| frame < next) || self.packets.contains_key(&frame) {
            self.statistics.late += 1;
            return;
        }
        self.captured = (frame, captured);
        self.packets.insert(frame, Waiting { captured, payload });
        if self.packets.len() > MAX_WAITING_PACKETS {
            self.packets.pop_first();
            self.statistics.skipped += 1;
        }
    }

    fn note_delay(&mut self, delay: i64) {
        let waited_for = self.shortest.saturating_add(nanoseconds(self.wait));
        if !self.delays.note(delay, waited_for) {
            return;
        }
        self.shortest = self.delays.shortest().unwrap_or(0);
        let wait = self.delays.within(IN_TIME).map_or(Duration::ZERO, |delay| beyond(self.shortest, delay));
        // After few packets, the longest delay is still unknown.
        let unknown = 10.0 / (self.delays.len() as f64 + 10.0);
        let copy = if self.missing > LOSSY { FRAME_DURATION } else { Duration::ZERO };
        self.wait = wait.max(MIN_WAIT).max(FIRST_WAIT.mul_f64(unknown)) + copy;
    }

    fn note_missing(&mut self, is_missing: bool) {
        self.missing += (f64::from(u8::from(is_missing)) - self.missing) * MISSING_WEIGHT;
    }

    /// Current wait of the fastest packets: the jitter that the buffer absorbs.
    #[must_use]
    pub fn wait(&self) -> Duration {
        self.wait
    }

    /// Plays no frame earlier than `delay` after its capture, in nanoseconds between the two clocks. The extra wait is
    /// at most 200 ms above that for jitter.
    pub fn set_min_delay(&mut self, delay: i64) {
        self.min_delay = Some(delay);
    }

    /// Delay behind the target, in nanoseconds, if `frame` is played at `at`.
    fn behind(&self, frame: u32, at: Timestamp) -> i64 {
        let (known, captured) = self.captured;
        let frames = i64::from(frame) - i64::from(known);
        let captured = signed(at, captured).saturating_sub(frames * nanoseconds(FRAME_DURATION));
        let for_jitter = self.shortest.saturating_add(nanoseconds(self.wait));
        let most = for_jitter.saturating_add(nanoseconds(MAX_LIP_SYNC_WAIT));
        captured.saturating_sub(self.min_delay.map_or(for_jitter, |least| least.clamp(for_jitter, most)))
    }

    /// Decides what to play, from the packets that arrived until `at`. Call it once per frame, in order of time.
    pub fn next(&mut self, at: Timestamp) -> Playout<P> {
        if self.silent {
            return self.next_in_silence(at);
        }
        let Some(next) = self.next else { return Playout::Silence };
        let next = self.catch_up(next, at);
        self.next = Some(next);
        if let Some(packet) = self.packets.remove(&next) {
            return self.play(next, packet, at);
        }
        // A frame that stays missing counts once.
        self.note_missing(self.stood_in == 0);
        let Some((&first, after)) = self.packets.first_key_value() else {
            // The frame is late or lost, or the call is paused.
            self.stood_in = self.stood_in.saturating_add(1);
            self.statistics.concealed += 1;
            return Playout::Conceal;
        };
        self.next = Some(next.saturating_add(1));
        if first == next.saturating_add(1) {
            self.statistics.recoverable += 1;
            return Playout::Recover { next: after.payload.clone() };
        }
        self.statistics.concealed += 1;
        Playout::Conceal
    }

    /// The frame to play instead of `next`, given the concealed frames and the delay behind the target.
    fn catch_up(&mut self, mut next: u32, at: Timestamp) -> u32 {
        let Some((&first, _)) = self.packets.first_key_value() else { return next };
        let replaced = first.saturating_sub(next).min(std::mem::take(&mut self.stood_in));
        next = next.saturating_add(replaced);
        let behind = self.behind(next, at);
        if behind > nanoseconds(FURTHEST_BEHIND) {
            let newest = self.packets.last_key_value().map_or(next, |(&newest, _)| newest);
            let frames = u32::try_from(behind / nanoseconds(FRAME_DURATION)).unwrap_or(u32::MAX);
            next = next.saturating_add(frames).min(newest).max(next);
            let waiting = self.packets.len();
            self.packets = self.packets.split_off(&next);
            self.statistics.skipped += (waiting - self.packets.len()) as u64;
        }
        next
    }

    fn next_in_silence(&mut self, at: Timestamp) -> Playout<P> {
        let Some((&first, _)) = self.packets.first_key_value() else { return Playout::Silence };
        let first = self.catch_up(first, at);
        self.stood_in = 0;
        if self.behind(first, at) < 0 {
            return Playout::Silence;
        }
        match self.packets.remove(&first) {
            Some(packet) => self.play(first, packet, at),
            None => Playout::Silence,
        }
    }

    fn play(&mut self, frame: u32, packet: Waiting<P>, at: Timestamp) -> Playout<P> {
        let behind = self.behind(frame, at);
        let pace = match () {
            () if behind > nanoseconds(LATE_ENOUGH) => Pace::Shorten,
            () if behind < -nanoseconds(EARLY_ENOUGH) => Pace::Lengthen,
            () => Pace::Keep,
        };
        self.next = Some(frame.saturating_add(1));
        self.stood_in = 0;
        self.silent = false;
        self.note_missing(false);
        self.statistics.played += 1;
        let Waiting { captured, payload } = packet;
        Playout::Packet { payload, captured, pace }
    }

    /// The last played packet announced silence.
    pub fn begin_silence(&mut self) {
        self.silent = true;
    }

    /// Counters so far.
    #[must_use]
    pub fn statistics(&self) -> PlayoutStatistics {
        self.statistics
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::{Rng, SeedableRng};

    use super::*;

    fn milliseconds(milliseconds: u64) -> Timestamp {
        Timestamp::from_millis(milliseconds)
    }

    /// Plays `frames` packets. `delay` gives milliseconds from capture to arrival, or None for a lost packet.
    fn play(frames: u32, delay: impl Fn(u32) -> Option<u64>) -> (Vec<Playout<u32>>, PlayoutBuffer<u32>) {
        let mut arrivals: Vec<(u64, u32)> =
            (0..frames).filter_map(|frame| Some((u64::from(frame) * 20 + delay(frame)?, frame))).collect();
        arrivals.sort_unstable();
        let (mut buffer, mut playouts, mut arrivals) =
            (PlayoutBuffer::default(), Vec::new(), arrivals.into_iter().peekable());
        for tick in 0..u64::from(frames) {
            // The frames of the receiver begin at other times than those of the sender.
            let now = milliseconds(tick * 20 + 7);
            while let Some((at, frame)) = arrivals.next_if(|&(at, _)| milliseconds(at) <= now) {
                buffer.insert(milliseconds(at), frame, milliseconds(u64::from(frame) * 20), frame);
            }
            playouts.push(buffer.next(now));
        }
        (playouts, buffer)
    }

    fn is_in_order(playouts: &[Playout<u32>]) -> bool {
        let played = playouts.iter().filter_map(|playout| match playout {
            Playout::Packet { payload, .. } => Some(*payload),
            _ => None,
        });
        played.is_sorted_by(|a, b| a < b)
    }

    #[test]
    fn without_jitter_all_frames_play_in_order_with_low_delay() {
        let (playouts, buffer) = play(500, |_| Some(30));
        assert!(is_in_order(&playouts));
        let statistics = buffer.statistics();
        assert!(statistics.played >= 495 && statistics.concealed == 0, "{statistics:?}");
        assert!(buffer.wait() <= Duration::from_millis(11), "{:?}", buffer.wait());
    }

    #[test]
    fn jitter_raises_the_wait_and_little_is_concealed() {
        let jitter = |frame: u32| rand_pcg::Pcg32::seed_from_u64(u64::from(frame)).random_range(0..60);
        let (playouts, buffer) = play(3_000, |frame| Some(20 + jitter(frame)));
        assert!(is_in_order(&playouts));
        let statistics = buffer.statistics();
        let made_up = statistics.concealed + statistics.recoverable;
        assert!(made_up < 120, "{statistics:?}");
        assert!((40..=62).contains(&buffer.wait().as_millis()), "{:?}", buffer.wait());
    }

    #[test]
    fn single_loss_is_restored_and_the_first_of_two_concealed() {
        let is_lost = |frame: u32| [50, 75, 76].contains(&(frame % 100));
        let (playouts, buffer) = play(2_000, |frame| (!is_lost(frame)).then_some(30));
        assert!(is_in_order(&playouts));
        // The buffer does not wait for copies before it observes loss, so the first losses are concealed.
        let statistics = buffer.statistics();
        assert!(statistics.played >= 1_935, "{statistics:?}");
        assert!(statistics.recoverable >= 30 && statistics.concealed <= 30, "{statistics:?}");
        assert!(statistics.concealed >= 15, "{statistics:?}");
    }

    #[test]
    fn delay_returns_to_normal_after_an_outage() {
        // Packets sent from 4 to 5 s arrive at 5 s.
        let delay =
            |frame: u32| Some(if (200..250).contains(&frame) { (250 - u64::from(frame)) * 20 + 30 } else { 30 });
        let (playouts, buffer) = play(1_000, delay);
        assert!(is_in_order(&playouts));
        // Half a second after the outage, sound is at most 200 ms old.
        let behind = playouts.iter().zip(0u64..).skip(275).filter_map(|(playout, tick)| match playout {
            Playout::Packet { captured, .. } => Some(tick * 20 + 7 - captured.as_micros() / 1_000),
            _ => None,
        });
        assert!(behind.max() < Some(200));
        assert!(buffer.statistics().skipped > 20, "{:?}", buffer.statistics());
    }

    #[test]
    fn silence_does_not_count_as_loss() {
        let mut buffer = PlayoutBuffer::default();
        let mut concealed = 0;
        for tick in 0..400u32 {
            let now = milliseconds(u64::from(tick) * 20 + 30);
            // One second of talk, then one second of silence, which an empty packet announces.
            if tick % 100 <= 50 {
                buffer.insert(now, tick, milliseconds(u64::from(tick) * 20), u32::from(tick % 100 < 50));
            }
            match buffer.next(now) {
                Playout::Packet { payload: 0, .. } => buffer.begin_silence(),
                Playout::Conceal | Playout::Recover { .. } => concealed += 1,
                _ => {}
            }
        }
        assert_eq!(concealed, 0);
        assert_eq!(buffer.statistics().played, 4 * 51);
    }

    proptest! {
        #[test]
        fn arbitrary_packets_play_once_in_order_in_bounded_memory(
            packets in prop::collection::vec((any::<u32>(), any::<u64>(), 0..50_u64), 0..2_000),
        ) {
            let (mut buffer, mut now, mut playouts) = (PlayoutBuffer::default(), Timestamp::ZERO, Vec::new());
            for (frame, captured, pause) in packets {
                now += Duration::from_millis(pause);
                buffer.insert(now, frame % 2_000, Timestamp::from_nanos(captured), frame % 2_000);
                playouts.push(buffer.next(now));
                prop_assert!(buffer.packets.len() <= MAX_WAITING_PACKETS && buffer.delays.len() <= DELAYS);
            }
            prop_assert!(is_in_order(&playouts));
        }
    }
}
