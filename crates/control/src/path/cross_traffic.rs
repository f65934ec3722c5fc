//! Detector of cross traffic that keeps the bottleneck queue full, such as TCP.
//!
//! A flow that waits for such a queue to drain starves. The queue belongs to cross traffic if it does not consist of
//! the flow's own packets. At the rate of bursts, the flow's packets in front of a packet explain a part of its
//! queueing delay. The rest is foreign delay. A slow path also delivers bursts slowly. A path with pauses releases
//! everything at once, so the last packets hardly wait. Neither causes a foreign delay in every packet of a window.
//!
//! A packet that arrives alone shows no rate. If such packets wait according to an old rate, cross traffic is
//! suspected. Two packets back to back confirm it.
//!
//! Some cross traffic does not yield. Next to a constant rate that fills most of the path, sending more only makes the
//! queue longer. Therefore cross traffic counts only after a test: for `path.retry`, the flow's own arrivals were a
//! negligible share of the path's rate, and the delay did not fall. The result is valid for the window of the base
//! delay.

use std::collections::VecDeque;
use std::time::Duration;

use libm::exp;
use lockstep_transport::AcknowledgedFragment;
use lockstep_units::{Bitrate, Timestamp, duration_from_seconds};

use super::bursts::Bursts;
use crate::PathConfig;
use lockstep_units::SlidingMinimum;

use crate::CrossTrafficConfig;
use crate::fragments::DATAGRAM_OVERHEAD_BYTES;

/// Smallest decrease of the delay that counts, seconds. Smaller ones are within the granularity of clocks and timers.
const FALLEN: f64 = 0.005;
/// Maximum number of remembered packets, to bound memory.
const MAX_PACKETS: usize = 16_384;

/// Cross traffic at the bottleneck.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CrossTraffic {
    /// Whether packets wait behind cross traffic, by a burst rate that may be old.
    pub is_suspected: bool,
    /// Rate of the path, if cross traffic keeps its queue full.
    pub path_rate: Option<Bitrate>,
    /// Recent arrival rate of the flow's own packets.
    pub arrival_rate: Bitrate,
}

/// Detector of cross traffic. Seconds are on the sender's clock; timestamps are on the receiver's unless stated
/// otherwise.
#[derive(Debug)]
pub(super) struct CrossTrafficDetector {
    path: PathConfig,
    config: CrossTrafficConfig,
    /// The flow's packets that left the bottleneck: time and bytes.
    left: VecDeque<(f64, f64)>,
    /// Sum of their bytes.
    left_bytes: f64,
    /// Sliding-window minimum of the foreign delay, of all packets and of those with a recent rate.
    least: SlidingMinimum<f64>,
    min_fresh: SlidingMinimum<f64>,
    /// First and last time of packets with a recent rate, without a gap.
    fresh: Option<(Timestamp, Timestamp)>,
    /// Recent arrival rate, bytes per second, and the time of the last arrival.
    arrivals: f64,
    arrived_at: f64,
    min_round_trip: SlidingMinimum<f64>,
    suspected: bool,
    found: bool,
    /// Start of an interval with negligible arrivals and waiting packets, and its minimum delay; time when such an
    /// interval last showed cross traffic.
    little: Option<(Timestamp, f64)>,
    shown_at: Option<Timestamp>,
}

impl CrossTrafficDetector {
    pub(super) fn new(path: PathConfig, config: CrossTrafficConfig) -> Self {
        Self {
            path,
            config,
            left: VecDeque::new(),
            left_bytes: 0.0,
            least: SlidingMinimum::new(),
            min_fresh: SlidingMinimum::new(),
            fresh: None,
            arrivals: 0.0,
            arrived_at: 0.0,
            min_round_trip: SlidingMinimum::new(),
            suspected: false,
            found: false,
            little: None,
            shown_at: None,
        }
    }

    /// Cross traffic at `now`, sender's clock.
    pub(super) fn at(&self, now: Timestamp, bursts: &Bursts) -> CrossTraffic {
        let is_fresh =
            bursts.acknowledged_at().is_some_and(|at| !now.is_later_by(self.path.window.max(self.round_trips()), at));
        CrossTraffic {
            is_suspected: self.suspected,
            path_rate: bursts.rate().filter(|_| self.found && is_fresh).map(Bitrate::from_bytes_per_second),
            arrival_rate: Bitrate::from_bytes_per_second(self.arrivals),
        }
    }

    /// Time until a change of the sending rate shows.
    fn round_trips(&self) -> Duration {
        duration_from_seconds(self.config.round_trips * self.min_round_trip.get().unwrap_or(0.0))
    }

    /// Adds a round-trip time from feedback at `now`, sender's clock.
    pub(super) fn on_round_trip(&mut self, now: Timestamp, round_trip: Duration) {
        self.min_round_trip.put(now, round_trip.as_secs_f64(), self.path.memory);
    }

    /// Adds an acknowledged packet with its delay above the minimum; `bursts` includes it. A full queue of cross
    /// traffic is as steady as a longer path. Therefore the base here ignores changes of the path.
    pub(super) fn on_arrival(&mut self, arrival: &AcknowledgedFragment, queued: Duration, bursts: &Bursts) {
        let (wait, window) = (self.config.wait, self.path.window);
        // Equal to the longest time between two trials: one pair of packets in that time is a negligible rate.
        let fade = self.path.retry.as_secs_f64();
        let (foreign, at) = (self.foreign_wait(arrival, queued, bursts), arrival.arrived_at);
        let since_last = (at.as_secs_f64() - self.arrived_at).max(0.0);
        self.arrived_at += since_last;
        self.arrivals *= exp(-since_last / fade);
        self.arrivals += (arrival.size.as_f64() + DATAGRAM_OVERHEAD_BYTES) / fade;
        let least = self.least.put(at, foreign, window);
        self.suspected = least > wait;
        self.show(at, least, bursts);
        if bursts.arrived_at().is_none_or(|burst_at| at.is_later_by(window, burst_at)) {
            // It arrived alone, and the rate is old.
            return;
        }
        let longest_gap = self.path.burst_memory.max(self.round_trips());
        let continued = self.fresh.filter(|(_, last)| !at.is_later_by(longest_gap, *last));
        let since = continued.map_or(at, |(since, _)| since);
        self.fresh = Some((since, at));
        let least = self.min_fresh.put(at, foreign, window);
        let found = if self.found { least > 0.5 * wait } else { at.is_later_by(window, since) && least > wait };
        self.found = found && self.shown_at.is_some_and(|shown_at| !at.is_later_by(self.path.base_memory, shown_at));
    }

    /// Tests the queue after an arrival at `at`; `least` is the recent minimum of the foreign delay.
    fn show(&mut self, at: Timestamp, least: f64, bursts: &Bursts) {
        if !self.suspected || bursts.rate().is_none_or(|rate| self.arrivals >= self.config.next_to_nothing * rate) {
            self.little = None;
            return;
        }
        let (since, first) = *self.little.get_or_insert((at, least));
        if least < first - FALLEN {
            self.little = Some((at, least));
        } else if at.is_later_by(self.path.retry, since) {
            self.shown_at = Some(at);
        }
    }

    /// Time that a packet waited behind packets of other flows, seconds.
    fn foreign_wait(&mut self, arrival: &AcknowledgedFragment, queued: Duration, bursts: &Bursts) -> f64 {
        let (sent_at, waited) = (arrival.sent_at.as_secs_f64(), queued.as_secs_f64());
        let bytes = arrival.size.as_f64() + DATAGRAM_OVERHEAD_BYTES;
        while self.left.front().is_some_and(|&(left_at, _)| left_at <= sent_at) || self.left.len() >= MAX_PACKETS {
            self.left_bytes -= self.left.pop_front().map_or(0.0, |(_, bytes)| bytes);
        }
        self.left.push_back((sent_at + waited, bytes));
        self.left_bytes += bytes;
        waited - self.left_bytes / bursts.rate().unwrap_or(f64::INFINITY).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use lockstep_units::ByteCount;

    use super::super::queueing::Queueing;
    use super::*;

    /// A path for frames of packets of 1,144 bytes, 1,200 on the link.
    struct Path {
        queueing: Queueing,
        bursts: Bursts,
        detector: CrossTrafficDetector,
        frame: u32,
        frame_rate: f64,
    }

    impl Path {
        fn new() -> Self {
            Self {
                queueing: Queueing::new(PathConfig::default(), crate::PathDelayConfig::default()),
                bursts: Bursts::new(PathConfig::default()),
                detector: CrossTrafficDetector::new(PathConfig::default(), CrossTrafficConfig::default()),
                frame: 0,
                frame_rate: 30.0,
            }
        }

        /// A path with full frames from 0 to 2 s, then negligible traffic (four frames per second) until 5 s. `wait`
        /// gives the delays of the latter. 1,200 bytes take 4.8 ms, so the capacity is 2 Mb/s.
        fn with_little(wait: impl Fn(f64) -> f64) -> Self {
            let mut path = Self::new();
            path.send(0.0, 2.0, 2, |_, place| 0.0048 * place);
            path.frame_rate = 4.0;
            path.send(2.0, 3.0, 2, |sent, place| wait(sent) + 0.0048 * place);
            path.frame_rate = 30.0;
            path
        }

        fn set_round_trip(&mut self, now: Timestamp, seconds: f64) {
            self.detector.on_round_trip(now, Duration::from_secs_f64(seconds));
        }

        fn at(&self, seconds: f64) -> CrossTraffic {
            let now = Timestamp::ZERO + Duration::from_secs_f64(seconds);
            self.detector.at(now, &self.bursts)
        }

        /// Rate of the path with cross traffic, bytes per second.
        fn rate(&self, seconds: f64) -> Option<f64> {
            self.at(seconds).path_rate.map(Bitrate::as_bytes_per_second)
        }

        fn is_suspected(&self) -> bool {
            self.at(0.0).is_suspected
        }

        /// Sends frames of `packets` packets for `seconds` from `from` on. `wait` gives the delay of a packet by its
        /// time and its place in the frame. Feedback arrives 40 ms after a packet has left. Returns the time of the
        /// last feedback.
        fn send(&mut self, from: f64, seconds: f64, packets: u16, wait: impl Fn(f64, f64) -> f64) -> f64 {
            let time = |seconds: f64| Timestamp::ZERO + Duration::from_secs_f64(seconds);
            let mut feedback_at = from;
            for picture in 0..(seconds * self.frame_rate) as u32 {
                let sent = from + f64::from(picture) / self.frame_rate;
                self.frame += 1;
                for fragment in 0..packets {
                    let left = sent + wait(sent, f64::from(fragment));
                    feedback_at = left + 0.04;
                    let arrival = AcknowledgedFragment {
                        frame: self.frame,
                        fragment,
                        size: ByteCount::new(1_144),
                        sent_at: time(sent),
                        arrived_at: time(left + 0.02),
                        acknowledged_at: time(feedback_at),
                        congestion_experienced: false,
                    };
                    self.queueing.on_feedback(&[arrival]);
                    self.bursts.on_arrival(time(feedback_at), &arrival, self.queueing.delay());
                    let wait = self.queueing.delays()[0];
                    self.detector.on_arrival(&arrival, wait.above_min, &self.bursts);
                }
            }
            feedback_at
        }
    }

    #[test]
    fn standing_queue_with_fast_bursts_is_cross_traffic() {
        // Without cross traffic, none is found.
        let mut path = Path::new();
        let feedback_at = path.send(0.0, 2.0, 2, |_, place| 0.0048 * place);
        assert_eq!(path.rate(feedback_at), None);
        let mut path = Path::with_little(|_| 0.2);
        let feedback_at = path.send(5.0, 2.0, 2, |_, place| 0.2 + 0.0048 * place);
        let found = path.rate(feedback_at).unwrap();
        assert!((240_000.0..260_000.0).contains(&found), "{found}");
        assert_eq!(path.rate(feedback_at + 1.0), None, "the result is too old");
        let feedback_at = path.send(9.0, 2.0, 2, |_, place| 0.0048 * place);
        assert_eq!(path.rate(feedback_at), None, "the cross traffic has ended");
    }

    #[test]
    fn cross_traffic_needs_a_test_and_expires_after_a_minute() {
        let mut path = Path::new();
        path.send(0.0, 2.0, 2, |_, place| 0.0048 * place);
        // The flow always uses 29 % of the capacity, which may itself delay a constant rate.
        let feedback_at = path.send(2.0, 10.0, 2, |_, place| 0.2 + 0.0048 * place);
        assert_eq!(path.rate(feedback_at), None);
        let mut path = Path::with_little(|_| 0.2);
        let found = [50.0, 70.0].map(|until| {
            let feedback_at = path.send(until - 20.0, 20.0, 2, |_, place| 0.2 + 0.0048 * place);
            path.rate(feedback_at).is_some()
        });
        assert_eq!(found, [true, false]);
    }

    #[test]
    fn queue_that_drains_at_a_lower_rate_is_not_cross_traffic() {
        // Cross traffic at a constant 0.9 of the capacity: with 0.05 of the flow, the queue drains by 50 ms per second.
        let mut path = Path::with_little(|sent| 0.5 - 0.05 * (sent - 2.0));
        let feedback_at = path.send(5.0, 2.0, 2, |_, place| 0.35 + 0.0048 * place);
        assert_eq!(path.rate(feedback_at), None);
    }

    #[test]
    fn slower_path_is_not_cross_traffic() {
        let mut path = Path::new();
        path.send(0.0, 2.0, 2, |_, place| 0.0048 * place);
        // The flow's two packets take 2 x 16 ms of 33 ms: 600 kb/s.
        let feedback_at = path.send(2.0, 3.0, 2, |_, place| 0.016 * (place + 1.0));
        assert_eq!(path.rate(feedback_at), None);
        assert!(!path.is_suspected());
    }

    #[test]
    fn path_with_pauses_is_not_cross_traffic() {
        let mut path = Path::new();
        let feedback_at = path.send(0.0, 6.0, 2, |sent, place| (0.3 - sent % 0.3) + 0.001 * place);
        assert_eq!(path.rate(feedback_at), None);
    }

    #[test]
    fn single_packets_only_cause_a_suspicion() {
        let mut path = Path::new();
        path.send(0.0, 2.0, 2, |_, place| 0.0048 * place);
        let feedback_at = path.send(3.0, 3.0, 1, |_, _| 0.1);
        assert!(path.is_suspected());
        assert_eq!(path.rate(feedback_at), None);
    }

    #[test]
    fn cross_traffic_stays_for_round_trips_at_a_long_queue() {
        let beside = |round_trip: f64| {
            let mut path = Path::new();
            path.send(0.0, 2.0, 2, |_, place| 0.0048 * place);
            // Half a second of frames; their feedback arrives a round trip later, then the next half second.
            for begin in [5.0, 8.0, 11.0] {
                let now = Timestamp::ZERO + Duration::from_secs_f64(begin);
                path.set_round_trip(now, round_trip);
                path.send(begin, 0.5, 2, |_, place| 2.9 + 0.0048 * place);
            }
            let feedback_at = 14.5;
            [feedback_at, feedback_at + 2.9, feedback_at + 5.0].map(|now| path.rate(now).is_some())
        };
        assert_eq!(beside(3.0), [true, true, false]);
        // With a short round-trip time, such a long silence shows nothing.
        assert_eq!(beside(0.1), [false, false, false]);
    }
}
