//! When a packet of sound is played: late enough that those delayed more than most have come too, no later.

use std::collections::BTreeMap;
use std::time::Duration;

use lockstep_units::Timestamp;

use crate::FRAME_DURATION;
use crate::recent_delays::{RecentDelays, beyond};

/// The delays of so many packets, ten seconds of speech, say how long to wait.
const DELAYS: usize = 500;
/// This share of them is waited for. What is late is concealed, which is heard less than a conversation that lags.
const IN_TIME: f64 = 0.97;
/// The least that is waited, for the hosts' timers; and what is waited before anything is known of the path.
const LEAST_WAIT: Duration = Duration::from_millis(10);
const FIRST_WAIT: Duration = Duration::from_millis(40);
/// Further behind than this, playing faster takes too long: frames are left out.
const FURTHEST_BEHIND: Duration = Duration::from_millis(120);
/// What is played as much later than aimed at, or as little earlier, is played at its own pace: frames of silence are as
/// long as this, and so is the time between two looks at what has come.
const LATE_ENOUGH: Duration = Duration::from_millis(22);
const EARLY_ENOUGH: Duration = Duration::from_millis(2);
/// Where more than this share of frames is missing at its time, one frame more is waited: the copy of a lost frame comes
/// with the packet after it.
const LOSSY: f64 = 0.01;
/// Weight of a frame in that share: that of about the last ten seconds counts.
const MISSING_WEIGHT: f64 = 1.0 / 500.0;
/// So much longer than jitter calls for is waited for pictures that are late: a conversation should not lag for them.
const MOST_FOR_PICTURES: Duration = Duration::from_millis(200);
/// Packets that wait at most: ten seconds of them.
const MOST_WAITING: usize = 500;

/// What is to be heard next, for as long as a frame lasts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Playout<P> {
    /// A packet, and at what pace it is played.
    Packet {
        /// What the packet carries.
        payload: P,
        /// When its first sample was captured, sender's clock.
        captured: Timestamp,
        /// Whether it is to last less or more than it did.
        pace: Pace,
    },
    /// A frame was lost, of which the packet after it, this one, may have a coarse copy.
    Recover {
        /// What the packet after the lost one carries.
        next: P,
    },
    /// A frame was lost or is late.
    Conceal,
    /// The sender is silent, or has not begun.
    Silence,
}

/// How fast a packet is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// As it was captured.
    Keep,
    /// A little faster: what waits is further behind than it must be.
    Shorten,
    /// A little slower: what comes is delayed more than it was.
    Lengthen,
}

/// What a [`PlayoutBuffer`] counted, in frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct PlayoutStatistics {
    /// Packets that came.
    pub packets: u64,
    /// Those that came after their frame's time, or twice.
    pub late: u64,
    /// Frames played from their packets.
    pub played: u64,
    /// Frames lost for which the packet after them was there.
    pub recoverable: u64,
    /// Frames in whose place something was made up: lost or late.
    pub concealed: u64,
    /// Frames that came and were left out, to catch up.
    pub skipped: u64,
}

impl PlayoutStatistics {
    /// The share of what was to be heard, 0 to 1, that was made up.
    #[must_use]
    pub fn concealed_share(&self) -> f64 {
        let heard = self.played + self.recoverable + self.concealed;
        if heard == 0 { 0.0 } else { self.concealed as f64 / heard as f64 }
    }
}

#[derive(Debug)]
struct Waiting<P> {
    captured: Timestamp,
    payload: P,
}

/// Packets of sound, by their places in time, until they are played.
///
/// Each packet has the number of its frame, which counts frames of 20 ms since the sender began, silent ones included,
/// and when it was captured. Delays are differences between two clocks: only how they differ from the shortest counts.
/// An empty packet says that silence begins; while there is silence, the moment to go on is chosen anew.
#[derive(Debug)]
pub struct PlayoutBuffer<P> {
    packets: BTreeMap<u32, Waiting<P>>,
    /// The frame that is to be played next; none before the first.
    next: Option<u32>,
    silent: bool,
    /// Frames concealed while nothing was there, which stand for those from `next` on.
    stood_in: u32,
    /// From capture to arrival, nanoseconds between two clocks, oldest first.
    delays: RecentDelays,
    /// The shortest of them, and how much longer than that is waited.
    shortest: i64,
    wait: Duration,
    /// The smoothed share of frames that were missing at their time.
    missing: f64,
    /// From capture to playing at least, nanoseconds between two clocks.
    least_delay: Option<i64>,
    /// A frame and when it was captured.
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
            least_delay: None,
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
    /// The packet of frame `frame` came at `now`.
    pub fn insert(&mut self, now: Timestamp, frame: u32, captured: Timestamp, payload: P) {
        self.statistics.packets += 1;
        self.note_delay(signed(now, captured));
        if self.next.is_some_and(|next| frame < next) || self.packets.contains_key(&frame) {
            self.statistics.late += 1;
            return;
        }
        self.captured = (frame, captured);
        self.packets.insert(frame, Waiting { captured, payload });
        if self.packets.len() > MOST_WAITING {
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
        // Of few packets the worst may still come.
        let unknown = 10.0 / (self.delays.len() as f64 + 10.0);
        let copy = if self.missing > LOSSY { FRAME_DURATION } else { Duration::ZERO };
        self.wait = wait.max(LEAST_WAIT).max(FIRST_WAIT.mul_f64(unknown)) + copy;
    }

    fn note_missing(&mut self, is_missing: bool) {
        self.missing += (f64::from(u8::from(is_missing)) - self.missing) * MISSING_WEIGHT;
    }

    /// How long packets wait, the fastest of them: the jitter that is made up for.
    #[must_use]
    pub fn wait(&self) -> Duration {
        self.wait
    }

    /// Plays no frame earlier than `delay` after its capture, sender's clock to receiver's, nanoseconds, if that takes no
    /// more than 200 ms more than jitter does.
    pub fn set_least_delay(&mut self, delay: i64) {
        self.least_delay = Some(delay);
    }

    /// How much later than aimed at a frame would be taken that was taken at `at`.
    fn behind(&self, frame: u32, at: Timestamp) -> i64 {
        let (known, captured) = self.captured;
        let frames = i64::from(frame) - i64::from(known);
        let captured = signed(at, captured).saturating_sub(frames * nanoseconds(FRAME_DURATION));
        let for_jitter = self.shortest.saturating_add(nanoseconds(self.wait));
        let most = for_jitter.saturating_add(nanoseconds(MOST_FOR_PICTURES));
        captured.saturating_sub(self.least_delay.map_or(for_jitter, |least| least.clamp(for_jitter, most)))
    }

    /// What is heard next, of what has come until `at`. Asked for once for each frame that is played, in the order of time.
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
        // A frame that stays away for long counts once.
        self.note_missing(self.stood_in == 0);
        let Some((&first, after)) = self.packets.first_key_value() else {
            // Late, or lost, or the call stands still.
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

    /// The frame to play in place of `next` by what was made up before, and by how far behind that would be.
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

    /// The packet played last said that silence begins.
    pub fn begin_silence(&mut self) {
        self.silent = true;
    }

    /// What was counted.
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

    /// What is heard of `frames` packets, of which each arrives so many milliseconds after its capture, or never.
    fn hear(frames: u32, delay: impl Fn(u32) -> Option<u64>) -> (Vec<Playout<u32>>, PlayoutBuffer<u32>) {
        let mut arrivals: Vec<(u64, u32)> =
            (0..frames).filter_map(|frame| Some((u64::from(frame) * 20 + delay(frame)?, frame))).collect();
        arrivals.sort_unstable();
        let (mut buffer, mut heard, mut arrivals) =
            (PlayoutBuffer::default(), Vec::new(), arrivals.into_iter().peekable());
        for tick in 0..u64::from(frames) {
            // The receiver's frames begin at other moments than the sender's.
            let now = milliseconds(tick * 20 + 7);
            while let Some((at, frame)) = arrivals.next_if(|&(at, _)| milliseconds(at) <= now) {
                buffer.insert(milliseconds(at), frame, milliseconds(u64::from(frame) * 20), frame);
            }
            heard.push(buffer.next(now));
        }
        (heard, buffer)
    }

    fn is_in_order(heard: &[Playout<u32>]) -> bool {
        let played = heard.iter().filter_map(|playout| match playout {
            Playout::Packet { payload, .. } => Some(*payload),
            _ => None,
        });
        played.is_sorted_by(|a, b| a < b)
    }

    #[test]
    fn on_an_even_path_every_frame_is_played_in_order_and_soon() {
        let (heard, buffer) = hear(500, |_| Some(30));
        assert!(is_in_order(&heard));
        let statistics = buffer.statistics();
        assert!(statistics.played >= 495 && statistics.concealed == 0, "{statistics:?}");
        assert!(buffer.wait() <= Duration::from_millis(11), "{:?}", buffer.wait());
    }

    #[test]
    fn jitter_is_waited_for_and_little_is_concealed() {
        let jitter = |frame: u32| rand_pcg::Pcg32::seed_from_u64(u64::from(frame)).random_range(0..60);
        let (heard, buffer) = hear(3_000, |frame| Some(20 + jitter(frame)));
        assert!(is_in_order(&heard));
        let statistics = buffer.statistics();
        let made_up = statistics.concealed + statistics.recoverable;
        assert!(made_up < 120, "{statistics:?}");
        assert!((40..=62).contains(&buffer.wait().as_millis()), "{:?}", buffer.wait());
    }

    #[test]
    fn a_lost_frame_is_recovered_from_the_next_and_of_two_the_first_is_concealed() {
        let is_lost = |frame: u32| [50, 75, 76].contains(&(frame % 100));
        let (heard, buffer) = hear(2_000, |frame| (!is_lost(frame)).then_some(30));
        assert!(is_in_order(&heard));
        // Until it is known that the path loses packets nothing is waited for, and the first losses are concealed.
        let statistics = buffer.statistics();
        assert!(statistics.played >= 1_935, "{statistics:?}");
        assert!(statistics.recoverable >= 30 && statistics.concealed <= 30, "{statistics:?}");
        assert!(statistics.concealed >= 15, "{statistics:?}");
    }

    #[test]
    fn after_an_outage_it_is_soon_as_close_to_live_as_before() {
        // All that is sent from 4 to 5 s arrives at 5 s.
        let delay =
            |frame: u32| Some(if (200..250).contains(&frame) { (250 - u64::from(frame)) * 20 + 30 } else { 30 });
        let (heard, buffer) = hear(1_000, delay);
        assert!(is_in_order(&heard));
        // Half a second after the outage what is heard is at most 200 ms old, not a second.
        let behind = heard.iter().zip(0u64..).skip(275).filter_map(|(playout, tick)| match playout {
            Playout::Packet { captured, .. } => Some(tick * 20 + 7 - captured.as_micros() / 1_000),
            _ => None,
        });
        assert!(behind.max() < Some(200));
        assert!(buffer.statistics().skipped > 20, "{:?}", buffer.statistics());
    }

    #[test]
    fn silence_is_no_loss() {
        let mut buffer = PlayoutBuffer::default();
        let mut concealed = 0;
        for tick in 0..400u32 {
            let now = milliseconds(u64::from(tick) * 20 + 30);
            // One second talk, one second silence; an empty packet begins it.
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
        fn whatever_comes_is_played_at_most_once_in_order_and_in_bounded_memory(
            packets in prop::collection::vec((any::<u32>(), any::<u64>(), 0..50_u64), 0..2_000),
        ) {
            let (mut buffer, mut now, mut heard) = (PlayoutBuffer::default(), Timestamp::ZERO, Vec::new());
            for (frame, captured, pause) in packets {
                now += Duration::from_millis(pause);
                buffer.insert(now, frame % 2_000, Timestamp::from_nanos(captured), frame % 2_000);
                heard.push(buffer.next(now));
                prop_assert!(buffer.packets.len() <= MOST_WAITING && buffer.delays.len() <= DELAYS);
            }
            prop_assert!(is_in_order(&heard));
        }
    }
}
