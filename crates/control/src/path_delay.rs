//! Queueing delay of packets, and detection of a longer path, for example after a change of route, cell or satellite.
//!
//! A queue and a longer path both delay packets. Each mistake is costly. If a longer path counts as a queue, the flow
//! sends almost nothing while the shorter delay is remembered. If a queue counts as a longer path, the flow fills it.
//! They differ in three ways:
//!
//! - A queue grows with the data sent into it and drains in the next pause.
//! - After a stall, waiting packets arrive together, each less late than the one before.
//! - Over a longer path, frames are suddenly and permanently later by the same time, spaced as they were sent. The
//!   exception is a standing queue, if the flow sends exactly the link's capacity.
//!
//! The constants were chosen over links with and without changes of the round-trip time (lab: 2026-11-notes-control).

use std::time::Duration;

use lockstep_transport::AcknowledgedFragment;
use lockstep_units::Timestamp;

use crate::PathDelayConfig;
use crate::base_delay::BaseDelay;
use crate::fragments::DATAGRAM_OVERHEAD_BYTES;

/// Pause before a packet that starts a frame. Packets after shorter pauses wait behind their own frame; the pacer's
/// longest interval is shorter.
const FRAME_GAP: Duration = Duration::from_millis(5);
/// Tolerance of equal delays: this part of the step, and at least this part of the smallest step.
const TOLERANCE: (i64, i64) = (8, 5);
/// Weight of a frame in the rate that the link delivered. The rate only compensates for larger first packets.
const CARRIED_WEIGHT: f64 = 0.1;

impl PathDelayConfig {
    fn min_step_nanos(&self) -> i64 {
        i64::try_from(self.least_step.as_nanos()).unwrap_or(i64::MAX)
    }
}

/// Possible step of the delay, and the delays after it.
#[derive(Debug)]
struct Candidate {
    /// Delay before the step, delay of the first of the equally late frames, and the minimum of these; nanoseconds.
    before: i64,
    first: i64,
    least: i64,
    /// Number of equally late frames, and of later ones.
    equal: u32,
    later: u32,
    /// Whether the last frame was equally late.
    last_equal: bool,
    /// Bounds of the link's rate if a standing queue causes the delay, bytes per nanosecond. Then the link delivers
    /// exactly the bytes between two equally late frames.
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
        (self.first.saturating_sub(self.before) / share).max(self.config.min_step_nanos() / least)
    }

    /// Adds the bytes and the nanoseconds between the departures of the first packets of two equally late frames.
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

/// First packet of a frame: its sending time, bytes and delay.
#[derive(Debug, Clone, Copy)]
struct First {
    sent_at: Timestamp,
    bytes: f64,
    delay: i64,
}

/// Detector of steps in the delay of frames' first packets.
#[derive(Debug)]
struct DelayStep {
    last_sent: Option<Timestamp>,
    first: Option<First>,
    /// Delay of the first packet before `first`.
    before: Option<i64>,
    /// Bytes behind the first packet.
    behind: f64,
    /// Recent rate that the link delivered, bytes per nanosecond.
    carried: f64,
    candidate: Option<Candidate>,
    config: PathDelayConfig,
}

impl DelayStep {
    fn new(config: PathDelayConfig) -> Self {
        let (last_sent, first, before, candidate) = (None, None, None, None);
        Self { last_sent, first, before, behind: 0.0, carried: 0.0, candidate, config }
    }

    /// Adds a packet of `bytes` sent at `sent_at` with this delay, nanoseconds. Returns the new base delay if the path
    /// became longer.
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
        let least_step = self.config.min_step_nanos();
        self.carried += CARRIED_WEIGHT * ((last.bytes + behind) / gap - carried);
        let Some(candidate) = &mut self.candidate else {
            let rested = before.abs_diff(last.delay) < least_step.unsigned_abs();
            // A larger packet takes longer to transmit.
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
    /// Delay above the minimum since the path last became longer.
    pub queued: Duration,
    /// Delay above the minimum, including the time before the path became longer.
    pub above_min: Duration,
}

/// Queueing delay of packets over a path that may become longer.
#[derive(Debug)]
pub(crate) struct PathDelay {
    base: BaseDelay,
    least: BaseDelay,
    step: DelayStep,
    steps: u64,
}

impl PathDelay {
    /// An estimator that remembers delays for `memory`, or until the path becomes longer.
    pub(crate) fn new(memory: Duration, config: PathDelayConfig) -> Self {
        Self { base: BaseDelay::new(memory), least: BaseDelay::new(memory), step: DelayStep::new(config), steps: 0 }
    }

    /// Number of times that the path became longer.
    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }

    /// Queueing delay of a packet.
    pub(crate) fn wait(&mut self, arrival: &AcknowledgedFragment) -> Wait {
        let (delay, shortest) = self.base.update(arrival.sent_at, arrival.arrived_at);
        let (_, least) = self.least.update(arrival.sent_at, arrival.arrived_at);
        let base = match self.step.update(arrival.sent_at, delay, arrival.size.as_f64() + DATAGRAM_OVERHEAD_BYTES) {
            Some(longer) => {
                self.base.restart(arrival.arrived_at, longer);
                self.steps += 1;
                longer
            }
            None => shortest,
        };
        let above = |base: i64| Duration::from_nanos(delay.abs_diff(base));
        Wait { queued: above(base), above_min: above(least) }
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

    /// Sends frames every 33 ms, alternately of 200 and 1,100 bytes, with these delays in milliseconds. Returns the
    /// last queueing delay, milliseconds.
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
    fn longer_path_is_not_a_queue() {
        let mut delay = PathDelay::new(MEMORY, PathDelayConfig::default());
        assert_eq!(frames(&mut delay, 0, &[20.0; 30]), 0.0);
        let wait = frames(&mut delay, 30, &[120.0; 3]);
        assert!((99.0..101.0).contains(&wait), "{wait}: a stall looks the same so far");
        assert!(frames(&mut delay, 33, &[121.0, 119.5, 120.0]) < 3.0);
        assert_eq!(delay.steps(), 1);
        // The path becomes shorter, then longer again.
        assert_eq!(frames(&mut delay, 36, &[40.0; 10]), 0.0);
        assert!(frames(&mut delay, 46, &[140.0; 6]) < 3.0);
        assert_eq!(delay.steps(), 2);
    }

    #[test]
    fn stall_or_queue_is_not_a_longer_path() {
        let mut delay = PathDelay::new(MEMORY, PathDelayConfig::default());
        frames(&mut delay, 0, &[20.0; 30]);
        // All packets that waited for the end of a stall arrive together.
        frames(&mut delay, 30, &[153.0, 120.0, 87.0, 53.0, 20.0, 20.0, 20.0, 20.0]);
        // The link is slower than the sender.
        frames(&mut delay, 38, &[45.0, 60.0, 75.0, 90.0, 105.0, 120.0, 135.0, 150.0]);
        assert_eq!(delay.steps(), 0);
        assert!((129.0..131.0).contains(&frames(&mut delay, 46, &[150.0])), "a queue is still known to be one");
    }

    #[test]
    fn arbitrary_times_do_not_overflow() {
        let mut delay = PathDelay::new(MEMORY, PathDelayConfig::default());
        for nanos in [0, u64::MAX, 5, u64::MAX / 2, u64::MAX - 1, 7_000_000, u64::MAX / 3] {
            for sent in [0, 1 << 40, u64::MAX / 2, u64::MAX - 5] {
                let mut arrival = arrival(0.0, 0.0, 900);
                (arrival.sent_at, arrival.arrived_at) = (Timestamp::from_nanos(sent), Timestamp::from_nanos(nanos));
                assert!(delay.wait(&arrival).above_min <= Duration::MAX);
            }
        }
    }

    proptest! {
        /// Holds for any way to fill the queue of a link with a constant rate: frames of any size at any time.
        #[test]
        fn queue_of_a_steady_link_is_never_a_longer_path(
            rate in 5_000.0..500_000.0_f64,
            frames in prop::collection::vec((40_u64..1_200, 1_u32..5, 8_u64..80), 10..200),
        ) {
            let mut delay = PathDelay::new(MEMORY, PathDelayConfig::default());
            let (mut sent_at, mut free_at) = (0.0_f64, 0.0_f64);
            for (size, packets, pause) in frames {
                sent_at += pause as f64 / 1e3;
                for packet in 0..packets {
                    let sent = sent_at + f64::from(packet) * 0.001;
                    let carried = size as f64 + DATAGRAM_OVERHEAD_BYTES;
                    free_at = free_at.max(sent) + carried / rate;
                    delay.wait(&arrival(sent, 0.02 + free_at - sent, size));
                    prop_assert_eq!(delay.steps(), 0);
                }
            }
        }
    }
}
