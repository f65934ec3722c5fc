//! Whether a path carries so little that sound has to be sent in another way, and how much it carries.
//!
//! Controllers do not say: several never ask for less than 30 or 150 kb/s, whatever the path carries. A path is narrow if its
//! queue stands all the time and less than [`NarrowPathConfig::rate`] leaves the queue; that rate is its capacity.
//!
//! | constant | value | why |
//! |---|---|---|
//! | narrow | 100 kb/s | above, sound as it usually goes (24 kb/s, and 35 of headers) leaves something for pictures |
//! | period, and how many in a row | 200 ms, 3 | one that only a burst or a pause of a cellular link made is none: as with acknowledgements |
//! | a queue; none | 50 ms, as on the way back; 25 ms | what a word at its usual rate fills a path of 32 kb/s with in a tenth of a second; jitter |
//! | pauses before more is tried | 1 s; doubled each time that this fails, up to 64 s | a link that only dipped is back at once; each trial on a narrow one makes a queue for about a second |
//! | growth | 2, to 99 kb/s and then to any | as in slow start; a picture without a bound makes a queue that takes a second to see |

use std::collections::VecDeque;
use std::time::Duration;

use lockstep_transport::{Feedback, ReversePathConfig, wire::CARRIAGE};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use crate::{NarrowPathConfig, PathView};

/// This share of the bound is tried before the path counts as narrow no more.
const NEARLY: f64 = 0.99;
/// A queue that stands this many pauses after a trial, or sooner, is the trial's.
const TRIAL: u32 = 3;
/// The pause between trials doubles up to this many times the first one.
const MOST_PAUSES: u32 = 64;
/// A sender may double its rate in a round trip (RFC 5681, slow start).
const GROWTH: u64 = 2;

/// Arrivals remembered at most; so many in a window are no narrow path's.
const MOST_ARRIVALS: usize = 1_024;

/// Watches what is acknowledged.
#[derive(Debug)]
pub struct NarrowPath {
    /// The least queueing delay of the present period.
    period_least: Option<Duration>,
    /// Receiver's clock, as are all times of periods and arrivals.
    period_began: Timestamp,
    standing: u32,
    /// What arrived in the last window, with all that a link carries with it.
    arrivals: VecDeque<(Timestamp, u64)>,
    arrived: u64,
    capacity: Option<Bitrate>,
    /// Whether it was ever seen to carry more than a narrow one does.
    proven: bool,
    /// When there was last a queue out of which little came.
    suspected_at: Option<Timestamp>,
    changed_at: Timestamp,
    tried: bool,
    pause: Duration,
    config: NarrowPathConfig,
    /// Time without a queue until more is tried, doubled with each failure; how long a path may be narrow after a queue.
    retry: Duration,
    /// How a queue is measured, as on the way back.
    queue: ReversePathConfig,
    /// Length of the window of arrivals.
    window: Duration,
}

impl NarrowPath {
    /// Of a path of which nothing is known.
    #[must_use]
    pub fn new(config: NarrowPathConfig, queue: ReversePathConfig, retry: Duration) -> Self {
        Self {
            period_least: None,
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

    /// What the path carries of this direction's pictures and sound, headers of IP and UDP and QUIC's included, if it is
    /// narrow.
    #[must_use]
    pub fn capacity(&self) -> Option<Bitrate> {
        self.capacity
    }

    /// Whether the path seems to be narrow: there was a queue lately out of which little came.
    #[must_use]
    pub fn is_suspected(&self, now: Timestamp) -> bool {
        self.suspected_at.is_some_and(|at| now.saturating_since(at) < self.retry)
    }

    /// Whether something came out of the path, and it never was more than a narrow one carries.
    #[must_use]
    pub fn is_unproven(&self) -> bool {
        !self.proven && !self.arrivals.is_empty()
    }

    /// Whether nothing is known to have come out of the path yet.
    #[must_use]
    pub fn is_unanswered(&self) -> bool {
        !self.proven && self.arrivals.is_empty()
    }

    /// Feedback arrived; `path` includes it.
    pub fn on_feedback(&mut self, path: &PathView<'_>, feedback: &Feedback) {
        for (arrival, wait) in feedback.acknowledged.iter().zip(path.queueing_delays) {
            self.on_arrival(path.now, arrival.arrived_at, wait.above_least, arrival.size + ByteCount::new(CARRIAGE));
        }
    }

    fn on_arrival(&mut self, now: Timestamp, at: Timestamp, queued: Duration, size: ByteCount) {
        self.arrivals.push_back((at, size.get()));
        self.arrived += size.get();
        let window = self.window;
        while let Some(&(first, size)) = self.arrivals.front()
            && (at.is_later_by(window, first) || self.arrivals.len() > MOST_ARRIVALS)
        {
            self.arrived -= size;
            self.arrivals.pop_front();
        }
        if self.measured() >= self.config.rate {
            // What waited for an end that was stopped comes all at once: the first of it looks like the end of a queue.
            (self.proven, self.suspected_at) = (true, None);
        }
        self.period_least = Some(self.period_least.map_or(queued, |least| least.min(queued)));
        if at.saturating_since(self.period_began) >= self.queue.period {
            self.period_began = at;
            let queue = self.period_least.take().unwrap_or_default();
            self.adapt(now, queue);
        }
    }

    /// What came out of the path lately: from when the first of what is remembered had until the last had.
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
                self.pause = if failed { (2 * self.pause).min(MOST_PAUSES * pause) } else { pause };
                self.tried = false;
            }
            self.changed_at = now;
            // The path has been busy for as long as is measured.
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

    /// A path that carries so much, with a queue that never overflows, to which datagrams of so many bytes are given.
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

        /// Sends one each `interval` from `from` on for `seconds`, as long as the queue is shorter than `most`.
        fn send(&mut self, from: u64, seconds: u64, interval: u64, bytes: u64, most: Duration) {
            for at in (from * 1_000..(from + seconds) * 1_000).step_by(interval as usize) {
                let sent_at = Timestamp::from_millis(at);
                if self.free_at.saturating_since(sent_at) > most {
                    continue;
                }
                let time = Duration::from_secs_f64(((bytes + CARRIAGE) * 8) as f64 / self.bits_per_second as f64);
                self.free_at = self.free_at.max(sent_at) + time;
                let arrived_at = self.free_at;
                let acknowledged = vec![AcknowledgedFragment {
                    frame: at as u32,
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
    }

    const LONG: Duration = Duration::from_millis(500);

    #[test]
    fn a_path_with_a_standing_queue_and_little_that_comes_out_of_it_is_narrow_and_what_comes_out_is_what_it_carries() {
        for kbps in [16, 32, 64, 90] {
            let mut path = Path::of(1_000 * kbps);
            path.send(0, 4, 10, 92, LONG);
            let capacity = path.narrow.capacity().expect("it is narrow").as_bps() as f64 / 1e3;
            assert!((0.85..1.15).contains(&(capacity / kbps as f64)), "{capacity} of {kbps} kb/s");
        }
    }

    #[test]
    fn what_waited_for_an_end_that_was_stopped_arouses_no_suspicion() {
        let mut path = Path::of(10_000_000);
        path.send(0, 4, 200, 92, LONG);
        // For eight seconds nothing is read, then all of it.
        path.free_at = Timestamp::from_millis(12_000);
        path.send(4, 8, 200, 92, Duration::from_secs(10));
        assert!(!path.narrow.is_suspected(path.free_at) && path.narrow.capacity().is_none());
    }

    #[test]
    fn a_path_without_a_queue_is_not_narrow_and_neither_is_one_that_carries_much() {
        for (kbps, interval) in [(100, 20), (1_000, 20), (500, 1), (200, 3)] {
            let mut path = Path::of(1_000 * kbps);
            path.send(0, 6, interval, 92, LONG);
            assert_eq!(path.narrow.capacity(), None, "{kbps} kb/s, each {interval} ms");
        }
    }

    #[test]
    fn a_path_that_carries_more_again_is_not_narrow_a_few_seconds_later() {
        let mut path = Path::of(32_000);
        path.send(0, 4, 10, 92, LONG);
        assert!(path.narrow.capacity().is_some());
        path.bits_per_second = 1_000_000;
        path.send(4, 5, 60, 130, LONG);
        assert_eq!(path.narrow.capacity(), None);
    }
}
