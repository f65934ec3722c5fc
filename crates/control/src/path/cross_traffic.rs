//! Cross traffic that keeps the queue filled, as TCP does.
//!
//! A flow that waits for such a queue to empty starves. The queue is another flow's if it does not consist of the flow's own
//! packets: those in front of a packet, at the rate of bursts, explain the own part of its queueing delay; the rest is
//! foreign. A slow path delivers bursts slowly too, and a path that pauses releases everything at once, so that the last
//! packets hardly waited: neither leaves a foreign wait in every packet of a while.
//!
//! A packet that arrives alone shows no rate. If such packets wait by an old rate, cross traffic is suspected, and two packets
//! right behind each other would tell.
//!
//! Not all cross traffic gives way: beside a constant rate that leaves little of the path, sending more only makes the queue
//! longer. So cross traffic counts only once the flow's own arrivals were next to nothing of the path's rate for
//! `path.retry` and the wait did not fall. That is valid as long as base delays are.

use std::collections::VecDeque;
use std::time::Duration;

use libm::exp;
use lockstep_transport::AcknowledgedFragment;
use lockstep_units::{Bitrate, Timestamp, duration_from_seconds};

use super::bursts::Bursts;
use crate::PathConfig;
use lockstep_units::SlidingMinimum;

use crate::CrossTrafficConfig;
use crate::fragments::DATAGRAM_CARRIAGE;

/// A wait that is shorter by this has fallen, seconds: less is the granularity of clocks and timers.
const FALLEN: f64 = 0.005;
/// Packets remembered: a bound on memory.
const MOST_PACKETS: usize = 16_384;

/// Cross traffic at the bottleneck.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CrossTraffic {
    /// Whether packets wait behind cross traffic, by a rate of bursts that may be old.
    pub is_suspected: bool,
    /// The rate of the path, if cross traffic keeps its queue filled.
    pub path_rate: Option<Bitrate>,
    /// The rate at which the flow's own packets arrived lately.
    pub arrival_rate: Bitrate,
}

/// Finds cross traffic. Seconds are on the sender's clock, timestamps on the receiver's if not stated otherwise.
#[derive(Debug)]
pub(super) struct CrossTrafficDetector {
    path: PathConfig,
    config: CrossTrafficConfig,
    /// Own packets that left the bottleneck: when, and with how many bytes.
    left: VecDeque<(f64, f64)>,
    /// The sum of their bytes.
    left_bytes: f64,
    /// Sliding-window minimum of the foreign wait, of all packets and of those with a fresh rate.
    least: SlidingMinimum<f64>,
    least_fresh: SlidingMinimum<f64>,
    /// Since when, and when last, packets had a fresh rate without a gap.
    fresh: Option<(Timestamp, Timestamp)>,
    /// The rate at which packets arrived lately, bytes a second, and when the last one did.
    arrivals: f64,
    arrived_at: f64,
    shortest_round_trip: SlidingMinimum<f64>,
    suspected: bool,
    found: bool,
    /// Since when next to nothing arrives while packets wait, and the least wait then; when that last showed cross traffic.
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
            least_fresh: SlidingMinimum::new(),
            fresh: None,
            arrivals: 0.0,
            arrived_at: 0.0,
            shortest_round_trip: SlidingMinimum::new(),
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

    /// The time in which a change of the sending rate shows.
    fn round_trips(&self) -> Duration {
        duration_from_seconds(self.config.round_trips * self.shortest_round_trip.get().unwrap_or(0.0))
    }

    /// Feedback arrived at `now`, sender's clock, after a round trip of this length.
    pub(super) fn on_round_trip(&mut self, now: Timestamp, round_trip: Duration) {
        self.shortest_round_trip.put(now, round_trip.as_secs_f64(), self.path.memory);
    }

    /// A packet was acknowledged that had been `queued` beyond the least delay; `bursts` include it. A full queue of cross traffic
    /// is as steady as a longer path, so a path that seems longer is no base here.
    pub(super) fn on_arrival(&mut self, arrival: &AcknowledgedFragment, queued: Duration, bursts: &Bursts) {
        let (wait, window) = (self.config.wait, self.path.window);
        // As long as the longest time without a try: with one pair of packets in that time, arrivals are next to nothing.
        let fade = self.path.retry.as_secs_f64();
        let (foreign, at) = (self.foreign_wait(arrival, queued, bursts), arrival.arrived_at);
        let since_last = (at.as_secs_f64() - self.arrived_at).max(0.0);
        self.arrived_at += since_last;
        self.arrivals *= exp(-since_last / fade);
        self.arrivals += (arrival.size.as_f64() + DATAGRAM_CARRIAGE) / fade;
        let least = self.least.put(at, foreign, window);
        self.suspected = least > wait;
        self.show(at, least, bursts);
        if bursts.arrived_at().is_none_or(|burst_at| at.is_later_by(window, burst_at)) {
            // It arrived alone, and the rate is an old one.
            return;
        }
        let longest_gap = self.path.burst_memory.max(self.round_trips());
        let continued = self.fresh.filter(|(_, last)| !at.is_later_by(longest_gap, *last));
        let since = continued.map_or(at, |(since, _)| since);
        self.fresh = Some((since, at));
        let least = self.least_fresh.put(at, foreign, window);
        let found = if self.found { least > 0.5 * wait } else { at.is_later_by(window, since) && least > wait };
        self.found = found && self.shown_at.is_some_and(|shown_at| !at.is_later_by(self.path.base_memory, shown_at));
    }

    /// A packet arrived at `at`, and the foreign wait was `least` or more lately: whether the queue is cross traffic's.
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

    /// How long a packet waited behind packets of other flows, seconds.
    fn foreign_wait(&mut self, arrival: &AcknowledgedFragment, queued: Duration, bursts: &Bursts) -> f64 {
        let (sent_at, waited) = (arrival.sent_at.as_secs_f64(), queued.as_secs_f64());
        let bytes = arrival.size.as_f64() + DATAGRAM_CARRIAGE;
        while self.left.front().is_some_and(|&(left_at, _)| left_at <= sent_at) || self.left.len() >= MOST_PACKETS {
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

    /// A path over which frames of packets of 1,144 bytes, 1,200 on the link, go.
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

        /// A path over which frames went from 0 to 2 s, and then from 2 to 5 s next to nothing (four frames a second), which
        /// waited as `wait` says; 1,200 bytes take 4.8 ms, so it carries 2 Mb/s.
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

        /// The rate of the path beside cross traffic, bytes a second.
        fn rate(&self, seconds: f64) -> Option<f64> {
            self.at(seconds).path_rate.map(Bitrate::as_bytes_per_second)
        }

        fn is_suspected(&self) -> bool {
            self.at(0.0).is_suspected
        }

        /// For `seconds` from `from` on, frames of as many packets, each of which waits as `wait` says by its time and its
        /// place in the frame, and is heard of 40 ms after it left.
        fn send(&mut self, from: f64, seconds: f64, packets: u16, wait: impl Fn(f64, f64) -> f64) -> f64 {
            let time = |seconds: f64| Timestamp::ZERO + Duration::from_secs_f64(seconds);
            let mut heard = from;
            for picture in 0..(seconds * self.frame_rate) as u32 {
                let sent = from + f64::from(picture) / self.frame_rate;
                self.frame += 1;
                for fragment in 0..packets {
                    let left = sent + wait(sent, f64::from(fragment));
                    heard = left + 0.04;
                    let arrival = AcknowledgedFragment {
                        frame: self.frame,
                        fragment,
                        size: ByteCount::new(1_144),
                        sent_at: time(sent),
                        arrived_at: time(left + 0.02),
                        acknowledged_at: time(heard),
                        congestion_experienced: false,
                    };
                    self.queueing.on_feedback(&[arrival]);
                    self.bursts.on_arrival(time(heard), &arrival, self.queueing.delay());
                    let wait = self.queueing.delays()[0];
                    self.detector.on_arrival(&arrival, wait.above_least, &self.bursts);
                }
            }
            heard
        }
    }

    #[test]
    fn a_queue_that_stays_while_bursts_come_through_fast_is_others() {
        // Before anybody else is there, nobody is found.
        let mut path = Path::new();
        let heard = path.send(0.0, 2.0, 2, |_, place| 0.0048 * place);
        assert_eq!(path.rate(heard), None);
        let mut path = Path::with_little(|_| 0.2);
        let heard = path.send(5.0, 2.0, 2, |_, place| 0.2 + 0.0048 * place);
        let found = path.rate(heard).unwrap();
        assert!((240_000.0..260_000.0).contains(&found), "{found}");
        assert_eq!(path.rate(heard + 1.0), None, "long ago");
        let heard = path.send(9.0, 2.0, 2, |_, place| 0.0048 * place);
        assert_eq!(path.rate(heard), None, "they have gone");
    }

    #[test]
    fn others_who_have_not_shown_that_they_keep_the_queue_filled_are_not_believed_nor_for_longer_than_a_minute() {
        let mut path = Path::new();
        path.send(0.0, 2.0, 2, |_, place| 0.0048 * place);
        // 29 % of what the path carries are sent all the time: it may be these that keep a constant rate waiting.
        let heard = path.send(2.0, 10.0, 2, |_, place| 0.2 + 0.0048 * place);
        assert_eq!(path.rate(heard), None);
        let mut path = Path::with_little(|_| 0.2);
        let found = [50.0, 70.0].map(|until| {
            let heard = path.send(until - 20.0, 20.0, 2, |_, place| 0.2 + 0.0048 * place);
            path.rate(heard).is_some()
        });
        assert_eq!(found, [true, false]);
    }

    #[test]
    fn a_queue_that_drains_as_less_is_sent_is_not_kept_filled_by_others() {
        // A constant rate of 0.9 of the path: with 0.05 beside it the queue drains by 50 ms a second.
        let mut path = Path::with_little(|sent| 0.5 - 0.05 * (sent - 2.0));
        let heard = path.send(5.0, 2.0, 2, |_, place| 0.35 + 0.0048 * place);
        assert_eq!(path.rate(heard), None);
    }

    #[test]
    fn a_path_that_has_slowed_down_is_nobody_elses() {
        let mut path = Path::new();
        path.send(0.0, 2.0, 2, |_, place| 0.0048 * place);
        // Its own two packets take 2 x 16 ms of the 33: 600 kb/s.
        let heard = path.send(2.0, 3.0, 2, |_, place| 0.016 * (place + 1.0));
        assert_eq!(path.rate(heard), None);
        assert!(!path.is_suspected());
    }

    #[test]
    fn a_path_that_pauses_and_lets_go_of_everything_at_once_is_nobody_elses() {
        let mut path = Path::new();
        let heard = path.send(0.0, 6.0, 2, |sent, place| (0.3 - sent % 0.3) + 0.001 * place);
        assert_eq!(path.rate(heard), None);
    }

    #[test]
    fn packets_that_come_alone_are_a_suspicion_at_most() {
        let mut path = Path::new();
        path.send(0.0, 2.0, 2, |_, place| 0.0048 * place);
        let heard = path.send(3.0, 3.0, 1, |_, _| 0.1);
        assert!(path.is_suspected());
        assert_eq!(path.rate(heard), None);
    }

    #[test]
    fn behind_a_queue_of_seconds_others_are_there_until_round_trips_later() {
        let beside = |round_trip: f64| {
            let mut path = Path::new();
            path.send(0.0, 2.0, 2, |_, place| 0.0048 * place);
            // Half a second is sent, which is heard of a round trip later, and then the next.
            for begin in [5.0, 8.0, 11.0] {
                let now = Timestamp::ZERO + Duration::from_secs_f64(begin);
                path.set_round_trip(now, round_trip);
                path.send(begin, 0.5, 2, |_, place| 2.9 + 0.0048 * place);
            }
            let heard = 14.5;
            [heard, heard + 2.9, heard + 5.0].map(|now| path.rate(now).is_some())
        };
        assert_eq!(beside(3.0), [true, true, false]);
        // Where a round trip is said to be short, so long a silence tells nothing.
        assert_eq!(beside(0.1), [false, false, false]);
    }
}
