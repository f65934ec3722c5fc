//! Narrow-path detector: whether sound needs a low-rate mode, and the capacity of such a path.
//!
//! Controllers cannot show this: several never use less than 30 or 150 kb/s. A path is narrow if its queue is never
//! empty and the delivery rate is below [`NarrowPathConfig::rate`]. That delivery rate is its capacity.
//!
//! | constant | value | reason |
//! |---|---|---|
//! | narrow | 100 kb/s | above it, normal sound (24 kb/s, and 35 kb/s of headers) leaves room for pictures |
//! | period; number in a row | 200 ms; 3 | a single burst or a pause of a cellular link does not count, as for acknowledgements |
//! | queue; no queue | 50 ms, as on the reverse path; 25 ms | a word at its normal rate builds that queue on a path of 32 kb/s in a tenth of a second; jitter |
//! | pause before a trial | 1 s; doubled after each failure, up to 64 s | a link with a short dip recovers at once; each trial on a narrow path causes a queue of about a second |
//! | growth | 2, to 99 kb/s and then without bound | as in slow start; an unbounded picture causes a queue that takes a second to detect |

use std::collections::VecDeque;
use std::time::Duration;

use lockstep_transport::{Feedback, ReversePathConfig, wire::DATAGRAM_OVERHEAD};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use crate::{NarrowPathConfig, PathView};

/// Share of the bound that is tried before the path stops counting as narrow.
const NEARLY: f64 = 0.99;
/// A queue within this many pauses after a trial counts as caused by the trial.
const TRIAL: u32 = 3;
/// Upper bound of the pause between trials, as a multiple of the first one.
const MAX_PAUSES: u32 = 64;
/// A sender may double its rate in a round trip (RFC 5681, slow start).
const GROWTH: u64 = 2;

/// Maximum number of remembered arrivals. More in a window cannot come from a narrow path.
const MAX_ARRIVALS: usize = 1_024;

/// Narrow-path detector, which uses acknowledgements.
#[derive(Debug)]
pub struct NarrowPath {
    /// Minimum queueing delay of the present period.
    min_period: Option<Duration>,
    /// Start of the present period. Times of periods and arrivals are by the receiver's clock.
    period_began: Timestamp,
    standing: u32,
    /// Arrivals of the last window, with link overhead.
    arrivals: VecDeque<(Timestamp, u64)>,
    arrived: u64,
    capacity: Option<Bitrate>,
    /// Whether the path ever delivered more than a narrow one can.
    proven: bool,
    /// Time of the last queue with a low delivery rate.
    suspected_at: Option<Timestamp>,
    changed_at: Timestamp,
    tried: bool,
    pause: Duration,
    config: NarrowPathConfig,
    /// Time without a queue before the first trial, doubled after each failure. After a queue, the path is suspected
    /// for this time.
    retry: Duration,
    /// Measurement of queues, as on the reverse path.
    queue: ReversePathConfig,
    /// Length of the window of arrivals.
    window: Duration,
}

impl NarrowPath {
    /// A detector of an unknown path.
    #[must_use]
    pub fn new(config: NarrowPathConfig, queue: ReversePathConfig, retry: Duration) -> Self {
        Self {
            min_period: None,
            period_began: Timestamp::ZERO,
            standing: 0,
            arrivals: VecDeque::new(),
            arrived: 0,
            capacity: None,
            proven: false,
            suspected_at: None,
            changed_at: Timestamp::ZERO,
            tried: false,
            pause: retry,
            retry,
            config,
            queue,
            window: queue.period * config.standing_periods,
        }
    }

    /// Capacity of the path for pictures and sound, including headers of IP, UDP and QUIC; none if the path is not
    /// narrow.
    #[must_use]
    pub fn capacity(&self) -> Option<Bitrate> {
        self.capacity
    }

    /// Whether the path may be narrow: a recent queue had a low delivery rate.
    #[must_use]
    pub fn is_suspected(&self, now: Timestamp) -> bool {
        self.suspected_at.is_some_and(|at| now.saturating_since(at) < self.retry)
    }

    /// Whether something arrived, but never at more than a narrow path's rate.
    #[must_use]
    pub fn is_unproven(&self) -> bool {
        !self.proven && !self.arrivals.is_empty()
    }

    /// Whether nothing is known to have arrived yet.
    #[must_use]
    pub fn is_unanswered(&self) -> bool {
        !self.proven && self.arrivals.is_empty()
    }

    /// Handles feedback. `path` includes it.
    pub fn on_feedback(&mut self, path: &PathView<'_>, feedback: &Feedback) {
        for (arrival, wait) in feedback.acknowledged.iter().zip(path.queueing_delays) {
            self.on_arrival(
                path.now,
                arrival.arrived_at,
                wait.above_min,
                arrival.size + ByteCount::new(DATAGRAM_OVERHEAD),
            );
        }
    }

    fn on_arrival(&mut self, now: Timestamp, at: Timestamp, queued: Duration, size: ByteCount) {
        self.arrivals.push_back((at, size.get()));
        self.arrived += size.get();
        let window = self.window;
        while let Some(&(first, size)) = self.arrivals.front()
            && (at.is_later_by(window, first) || self.arrivals.len() > MAX_ARRIVALS)
        {
            self.arrived -= size;
            self.arrivals.pop_front();
        }
        if self.measured() >= self.config.rate {
            // Data that waited for a stopped receiver arrives all at once. Its beginning looks like the end of a queue.
            (self.proven, self.suspected_at) = (true, None);
        }
        if queued <= self.queue.queue {
            // The present period will show no queue. If pictures waited for its end, its end would wait for pictures.
            self.suspected_at = None;
        }
        self.min_period = Some(self.min_period.map_or(queued, |least| least.min(queued)));
        if at.saturating_since(self.period_began) >= self.queue.period {
            self.period_began = at;
            let queue = self.min_period.take().unwrap_or_default();
            self.adapt(now, queue);
        }
    }

    /// Recent delivery rate, from the first to the last remembered arrival.
    fn measured(&self) -> Bitrate {
        let ends = self.arrivals.front().zip(self.arrivals.back());
        let (since, time) =
            ends.map_or((0, self.window), |(&(first, size), &(last, _))| (size, last.saturating_since(first)));
        Bitrate::mean(ByteCount::new(self.arrived - since), time.max(self.queue.period))
    }

    fn adapt(&mut self, now: Timestamp, queue: Duration) {
        let NarrowPathConfig { rate: narrow, standing_periods } = self.config;
        let (pause, long) = (self.retry, self.queue.queue);
        self.standing = if queue > long { self.standing.saturating_add(1) } else { 0 };
        let measured = self.measured();
        self.suspected_at = if self.standing > 0 && measured < narrow { Some(now) } else { None };
        let since = now.saturating_since(self.changed_at);
        if self.standing >= standing_periods {
            if self.tried {
                let failed = since < TRIAL * pause;
                self.pause = if failed { (2 * self.pause).min(MAX_PAUSES * pause) } else { pause };
                self.tried = false;
            }
            self.changed_at = now;
            // The path has been busy during the whole measurement.
            self.capacity = (measured < narrow).then_some(measured);
        } else if let Some(capacity) = self.capacity {
            let shown = capacity.max(measured);
            let grows = queue < long / 2 && since >= self.pause;
            let nearly = narrow.mul_f64(NEARLY);
            let grown = Bitrate::from_bps(GROWTH * shown.as_bps());
            let capacity = match grows {
                true if capacity < nearly => grown.min(nearly).max(shown),
                true => grown,
                false => shown,
            };
            if grows {
                (self.changed_at, self.tried) = (now, true);
            }
            self.capacity = (capacity < narrow).then_some(capacity);
        }
    }
}

#[cfg(test)]
mod tests {
    use lockstep_transport::{AcknowledgedFragment, Estimate, SOUND};

    use super::*;
    use crate::{PathObserver, Tuning};

    /// A path of this capacity whose queue never overflows.
    struct Path {
        observer: PathObserver,
        narrow: NarrowPath,
        bits_per_second: u64,
        free_at: Timestamp,
    }

    impl Path {
        fn of(bits_per_second: u64) -> Self {
            Self {
                observer: PathObserver::new(ByteCount::new(1_200), &Tuning::default()),
                narrow: NarrowPath::new(
                    NarrowPathConfig::default(),
                    ReversePathConfig::default(),
                    Duration::from_secs(1),
                ),
                bits_per_second,
                free_at: Timestamp::ZERO,
            }
        }

        /// Sends datagrams of `bytes` every `interval` ms from `from` on for `seconds`, while the queue is shorter than
        /// `most`.
        fn send(&mut self, from: u64, seconds: u64, interval: u64, bytes: u64, most: Duration) {
            for at in (from * 1_000..(from + seconds) * 1_000).step_by(interval as usize) {
                let sent_at = Timestamp::from_millis(at);
                if self.free_at.saturating_since(sent_at) > most {
                    continue;
                }
                let time =
                    Duration::from_secs_f64(((bytes + DATAGRAM_OVERHEAD) * 8) as f64 / self.bits_per_second as f64);
                self.free_at = self.free_at.max(sent_at) + time;
                self.arrives(sent_at, self.free_at, bytes);
            }
        }

        fn arrives(&mut self, sent_at: Timestamp, arrived_at: Timestamp, bytes: u64) {
            let acknowledged = vec![AcknowledgedFragment {
                frame: sent_at.as_micros() as u32,
                fragment: SOUND,
                size: ByteCount::new(bytes),
                sent_at,
                arrived_at,
                acknowledged_at: arrived_at,
                congestion_experienced: false,
            }];
            let feedback = Feedback {
                acknowledged,
                estimate: Estimate::default(),
                round_trip_time: None,
                highest_sequence: 0,
                found: 0,
                received: 0,
            };
            self.observer.on_feedback(arrived_at, &feedback);
            self.narrow.on_feedback(&self.observer.view(arrived_at), &feedback);
        }
    }

    const LONG: Duration = Duration::from_millis(500);

    #[test]
    fn standing_queue_at_a_low_rate_gives_the_capacity() {
        for kbps in [16, 32, 64, 90] {
            let mut path = Path::of(1_000 * kbps);
            path.send(0, 4, 10, 92, LONG);
            let capacity = path.narrow.capacity().expect("the path is narrow").as_bps() as f64 / 1e3;
            assert!((0.85..1.15).contains(&(capacity / kbps as f64)), "{capacity} of {kbps} kb/s");
        }
    }

    #[test]
    fn data_held_by_a_stopped_receiver_is_no_narrow_path() {
        let mut path = Path::of(10_000_000);
        path.send(0, 4, 200, 92, LONG);
        // For eight seconds nothing is read, then everything at once.
        path.free_at = Timestamp::from_millis(12_000);
        path.send(4, 8, 200, 92, Duration::from_secs(10));
        assert!(!path.narrow.is_suspected(path.free_at) && path.narrow.capacity().is_none());
    }

    #[test]
    fn first_datagram_without_a_wait_ends_the_suspicion() {
        let mut path = Path::of(10_000_000);
        path.send(0, 4, 200, 92, LONG);
        // The receiver stops for 0.2 s, and reads two datagrams at once.
        let read_at = Timestamp::from_millis(4_200);
        path.arrives(Timestamp::from_millis(4_000), read_at, 92);
        assert!(path.narrow.is_suspected(read_at));
        path.arrives(Timestamp::from_millis(4_180), read_at, 92);
        assert!(!path.narrow.is_suspected(read_at));
    }

    #[test]
    fn path_without_queue_or_with_high_capacity_is_not_narrow() {
        for (kbps, interval) in [(100, 20), (1_000, 20), (500, 1), (200, 3)] {
            let mut path = Path::of(1_000 * kbps);
            path.send(0, 6, interval, 92, LONG);
            assert_eq!(path.narrow.capacity(), None, "{kbps} kb/s, every {interval} ms");
        }
    }

    #[test]
    fn faster_path_stops_being_narrow_within_seconds() {
        let mut path = Path::of(32_000);
        path.send(0, 4, 10, 92, LONG);
        assert!(path.narrow.capacity().is_some());
        path.bits_per_second = 1_000_000;
        path.send(4, 5, 60, 130, LONG);
        assert_eq!(path.narrow.capacity(), None);
    }
}
