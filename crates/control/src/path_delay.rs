//! How long packets wait beyond what the path takes, and whether that has become longer, as it does where a route, a cell or
//! a satellite is left for another.
//!
//! A queue and a longer path both make packets later, and who takes one for the other either sends next to nothing for as
//! long as shorter delays are remembered, or fills the queue. But a queue grows with what is sent into it, and empties with
//! the next pause; after a stall what waited comes at once, each packet less late than the one before it. Where frames come
//! all at once as much later, and go on to, spaced as they were sent, the path is longer; unless what was sent between
//! them is just what a link would carry meanwhile, and a queue stands.
//!
//! The constants were chosen by `lockstep simulate --modelled` over twelve links whose round trip changes every 1 to 15 s
//! between 20 and 400 ms, and over slow links on which it does not (BoB's profiles at full and quarter rate, generated
//! cellular ones of 150 kb/s to 1 Mb/s): what is gained on the first against what a false alarm costs on the others. 3 to 6
//! frames, a step of 20 or 30 ms, margins of 1 to 2 and links with jitter of 5 and 15 ms were tried.

use std::time::Duration;

use lockstep_transport::AcknowledgedFragment;
use lockstep_units::Timestamp;

use crate::PathDelayConfig;
use crate::base_delay::BaseDelay;
use crate::fragments::DATAGRAM_CARRIAGE;

/// A packet sent this long after the one before it begins a frame; the others wait behind their own frame. The pacer's
/// longest interval is shorter.
const FRAME_GAP: Duration = Duration::from_millis(5);
/// Delays are equal within this part of the step, and within this part of the least step in any case.
const TOLERANCE: (i64, i64) = (8, 5);
/// Weight of a frame in the rate that the link carried, which only makes up for larger first packets.
const CARRIED_WEIGHT: f64 = 0.1;

impl PathDelayConfig {
    fn least_step_nanos(&self) -> i64 {
        i64::try_from(self.least_step.as_nanos()).unwrap_or(i64::MAX)
    }
}

/// Delays after a step.
#[derive(Debug)]
struct Candidate {
    /// What the delay was before, that of the first of the frames since that are about as late, and the least of these;
    /// nanoseconds.
    before: i64,
    first: i64,
    least: i64,
    /// How many frames left that were about as late as that, and how many were later.
    equal: u32,
    later: u32,
    /// Whether the last frame was one of those that were about as late.
    last_equal: bool,
    /// If it were a queue that stands, what was sent between two frames that are as late would be what the link carries
    /// meanwhile: its rate, at least and at most, bytes a nanosecond.
    rate: (f64, f64),
    config: PathDelayConfig,
}

impl Candidate {
    fn new(before: i64, first: i64, config: PathDelayConfig) -> Self {
        let rate = (0.0, f64::INFINITY);
        Self { before, first, least: first, equal: 1, later: 0, last_equal: true, rate, config }
    }

    fn tolerance(&self) -> i64 {
        let (share, least) = TOLERANCE;
        (self.first.saturating_sub(self.before) / share).max(self.config.least_step_nanos() / least)
    }

    /// From when the first packet of one frame had left the link until that of the next had, which was as late, so many
    /// bytes left it and so many nanoseconds went by.
    fn left(&mut self, bytes: f64, nanos: f64) {
        let tolerance = self.tolerance() as f64;
        let (least, most) = &mut self.rate;
        *least = least.max(bytes / (nanos + tolerance));
        if nanos > tolerance {
            *most = most.min(bytes / (nanos - tolerance));
        }
    }

    fn is_path(&self) -> bool {
        let (least, most) = self.rate;
        let PathDelayConfig { frames, margin, .. } = self.config;
        self.equal >= frames && least > margin * most
    }
}

/// A frame's first packet: when it left, its bytes, and its delay.
#[derive(Debug, Clone, Copy)]
struct First {
    sent_at: Timestamp,
    bytes: f64,
    delay: i64,
}

/// Watches the delays of frames' first packets.
#[derive(Debug)]
struct DelayStep {
    last_sent: Option<Timestamp>,
    first: Option<First>,
    /// The delay of the one before that.
    before: Option<i64>,
    /// Bytes behind the first packet.
    behind: f64,
    /// What the link has carried of late, bytes a nanosecond.
    carried: f64,
    candidate: Option<Candidate>,
    config: PathDelayConfig,
}

impl DelayStep {
    fn new(config: PathDelayConfig) -> Self {
        let (last_sent, first, before, candidate) = (None, None, None, None);
        Self { last_sent, first, before, behind: 0.0, carried: 0.0, candidate, config }
    }

    /// A packet of `bytes` sent at `sent_at` had this delay, in nanoseconds. Where the path is longer now, gives how long
    /// it is.
    fn update(&mut self, sent_at: Timestamp, delay: i64, bytes: f64) -> Option<i64> {
        let begins = self.last_sent.is_none_or(|last| sent_at.is_later_by(FRAME_GAP, last));
        self.last_sent = Some(self.last_sent.map_or(sent_at, |last| last.max(sent_at)));
        if !begins {
            self.behind += bytes;
            return None;
        }
        let behind = std::mem::take(&mut self.behind);
        let last = self.first.replace(First { sent_at, bytes, delay })?;
        let before = self.before.replace(last.delay).unwrap_or(last.delay);
        let gap = sent_at.saturating_since(last.sent_at).as_nanos() as f64;
        let carried = self.carried;
        let least_step = self.config.least_step_nanos();
        self.carried += CARRIED_WEIGHT * ((last.bytes + behind) / gap - carried);
        let Some(candidate) = &mut self.candidate else {
            let rested = before.abs_diff(last.delay) < least_step.unsigned_abs();
            // A larger packet takes longer by itself.
            let longer = delay.saturating_sub(last.delay) as f64 - (bytes - last.bytes).max(0.0) / carried;
            if rested && longer >= least_step as f64 {
                self.candidate = Some(Candidate::new(last.delay, delay, self.config));
            }
            return None;
        };
        if delay.saturating_sub(candidate.before) < least_step {
            self.candidate = None;
            return None;
        }
        if delay < candidate.first.saturating_sub(candidate.tolerance()) {
            *candidate = Candidate::new(candidate.before, delay, self.config);
            return None;
        }
        if delay > candidate.first.saturating_add(candidate.tolerance()) {
            candidate.last_equal = false;
            candidate.later += 1;
            if candidate.later > candidate.equal {
                self.candidate = None;
            }
            return None;
        }
        candidate.equal += 1;
        candidate.least = candidate.least.min(delay);
        if std::mem::replace(&mut candidate.last_equal, true) {
            candidate.left(behind + bytes, gap + delay.saturating_sub(last.delay) as f64);
        }
        let least = candidate.is_path().then_some(candidate.least)?;
        self.candidate = None;
        Some(least)
    }
}

/// The delay of a packet above a base.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wait {
    /// Above the least delay since the path last became longer.
    pub queued: Duration,
    /// Above the least delay, whether or not the path seems to have become longer since.
    pub above_least: Duration,
}

/// How long packets wait beyond what the path takes, which may become longer.
#[derive(Debug)]
pub(crate) struct PathDelay {
    base: BaseDelay,
    least: BaseDelay,
    step: DelayStep,
    steps: u64,
}

impl PathDelay {
    /// Believes a delay for `memory`, or until the path is longer.
    pub(crate) fn new(memory: Duration, config: PathDelayConfig) -> Self {
        Self { base: BaseDelay::new(memory), least: BaseDelay::new(memory), step: DelayStep::new(config), steps: 0 }
    }

    /// How often the path has become longer.
    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }

    /// How long a packet was queued.
    pub(crate) fn wait(&mut self, arrival: &AcknowledgedFragment) -> Wait {
        let (delay, shortest) = self.base.update(arrival.sent_at, arrival.arrived_at);
        let (_, least) = self.least.update(arrival.sent_at, arrival.arrived_at);
        let base = match self.step.update(arrival.sent_at, delay, arrival.size.as_f64() + DATAGRAM_CARRIAGE) {
            Some(longer) => {
                self.base.restart(arrival.arrived_at, longer);
                self.steps += 1;
                longer
            }
            None => shortest,
        };
        let above = |base: i64| Duration::from_nanos(delay.abs_diff(base));
        Wait { queued: above(base), above_least: above(least) }
    }
}

#[cfg(test)]
mod tests {
    use lockstep_units::ByteCount;
    use proptest::prelude::*;

    use super::*;

    const MEMORY: Duration = Duration::from_secs(10);

    fn arrival(sent_at: f64, delay: f64, size: u64) -> AcknowledgedFragment {
        let time = |seconds: f64| Timestamp::ZERO + Duration::from_secs_f64(seconds);
        AcknowledgedFragment {
            frame: 0,
            fragment: 0,
            size: ByteCount::new(size),
            sent_at: time(sent_at),
            arrived_at: time(sent_at + delay),
            acknowledged_at: time(sent_at + delay + 0.02),
            congestion_experienced: false,
        }
    }

    /// Frames 33 ms apart, of 200 and 1,100 bytes by turns, with delays in milliseconds; gives the last wait, milliseconds.
    fn frames(delay: &mut PathDelay, from: u32, delays: &[f64]) -> f64 {
        let mut wait = 0.0;
        for (place, &milliseconds) in delays.iter().enumerate() {
            let frame = from + place as u32;
            let size = if frame.is_multiple_of(2) { 200 } else { 1_100 };
            wait = 1e3 * delay.wait(&arrival(f64::from(frame) / 30.0, milliseconds / 1e3, size)).queued.as_secs_f64();
        }
        wait
    }

    #[test]
    fn a_path_that_has_become_longer_is_no_queue() {
        let mut delay = PathDelay::new(MEMORY, PathDelayConfig::default());
        assert_eq!(frames(&mut delay, 0, &[20.0; 30]), 0.0);
        let wait = frames(&mut delay, 30, &[120.0; 3]);
        assert!((99.0..101.0).contains(&wait), "{wait}: a stall would look alike");
        assert!(frames(&mut delay, 33, &[121.0, 119.5, 120.0]) < 3.0);
        assert_eq!(delay.steps(), 1);
        // And shorter, and longer again.
        assert_eq!(frames(&mut delay, 36, &[40.0; 10]), 0.0);
        assert!(frames(&mut delay, 46, &[140.0; 6]) < 3.0);
        assert_eq!(delay.steps(), 2);
    }

    #[test]
    fn what_waited_for_a_stall_or_a_queue_is_no_longer_path() {
        let mut delay = PathDelay::new(MEMORY, PathDelayConfig::default());
        frames(&mut delay, 0, &[20.0; 30]);
        // All that waited for the end of a stall comes at once.
        frames(&mut delay, 30, &[153.0, 120.0, 87.0, 53.0, 20.0, 20.0, 20.0, 20.0]);
        // The link is slower than what is sent.
        frames(&mut delay, 38, &[45.0, 60.0, 75.0, 90.0, 105.0, 120.0, 135.0, 150.0]);
        assert_eq!(delay.steps(), 0);
        assert!((129.0..131.0).contains(&frames(&mut delay, 46, &[150.0])), "a queue is still known to be one");
    }

    #[test]
    fn times_that_no_clock_has_do_no_harm() {
        let mut delay = PathDelay::new(MEMORY, PathDelayConfig::default());
        for nanos in [0, u64::MAX, 5, u64::MAX / 2, u64::MAX - 1, 7_000_000, u64::MAX / 3] {
            for sent in [0, 1 << 40, u64::MAX / 2, u64::MAX - 5] {
                let mut arrival = arrival(0.0, 0.0, 900);
                (arrival.sent_at, arrival.arrived_at) = (Timestamp::from_nanos(sent), Timestamp::from_nanos(nanos));
                assert!(delay.wait(&arrival).above_least <= Duration::MAX);
            }
        }
    }

    proptest! {
        /// However a sender fills the queue of a link that keeps its rate: by frames of any sizes, that begin whenever.
        #[test]
        fn no_queue_of_a_steady_link_is_taken_for_a_longer_path(
            rate in 5_000.0..500_000.0_f64,
            frames in prop::collection::vec((40_u64..1_200, 1_u32..5, 8_u64..80), 10..200),
        ) {
            let mut delay = PathDelay::new(MEMORY, PathDelayConfig::default());
            let (mut sent_at, mut free_at) = (0.0_f64, 0.0_f64);
            for (size, packets, pause) in frames {
                sent_at += pause as f64 / 1e3;
                for packet in 0..packets {
                    let sent = sent_at + f64::from(packet) * 0.001;
                    let carried = size as f64 + DATAGRAM_CARRIAGE;
                    free_at = free_at.max(sent) + carried / rate;
                    delay.wait(&arrival(sent, 0.02 + free_at - sent, size));
                    prop_assert_eq!(delay.steps(), 0);
                }
            }
        }
    }
}
