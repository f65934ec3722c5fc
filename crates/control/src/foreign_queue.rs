//! Whether others keep the queue filled, as TCP does.
//!
//! Who keeps delays short and shares a queue with TCP sends nothing: the queue never empties, however little is sent. That
//! it is others' shows by what is one's own of it. What of one's own was before a packet when it was sent, at the rate at
//! which frames' bursts come through at the same time, is the wait that the sender itself has made; the rest is foreign. A
//! path that has slowed down delivers bursts slowly, too, and one that pauses lets go of everything at once, so that the
//! last packets have hardly waited: neither leaves a foreign wait that no packet for a while was without.
//!
//! A packet that comes alone tells no rate. Where such wait by what is known of old, others are suspected, and two packets
//! right behind each other would tell.
//!
//! Not all who fill a queue would give way: beside a constant rate that leaves a path little, more only makes the queue
//! longer and loses packets. So others first have to show that it is they who keep it filled, and not the two together: what
//! arrives of one's own is next to nothing of the path's rate for a second and a half, and the wait does not become less by
//! that. This is believed for a minute.

use std::collections::VecDeque;
use std::time::Duration;

use libm::exp;
use lockstep_transport::AcknowledgedFragment;
use lockstep_units::{Timestamp, duration_from_seconds};

use crate::base_delay::BaseDelay;
use crate::fragments::DATAGRAM_CARRIAGE;
use crate::recent_least::RecentLeast;

/// For how long the least delay is believed: longer than queues of TCP take to become empty; clocks drift by 3 ms meanwhile.
const BASE_MEMORY: Duration = Duration::from_secs(60);
/// How fast the rate of bursts is forgotten while others come, seconds.
const BURSTS_FADE: f64 = 0.3;
/// What is less than this share of the path's rate is next to nothing.
const NEXT_TO_NOTHING: f64 = 0.15;
/// It is to be so little for so long, while the wait does not fall by so many seconds, to show that others keep the queue
/// filled; and for so long that is believed. Chosen by `lockstep scenario run` with a constant rate of 70 to 92 % of 2 Mb/s
/// beside a call, and of 40 to 85 % of 0.8, 2 and 8 Mb/s: after 1 s one of four calls with 85 % took it for TCP and lost 3 %,
/// after 1.5 and 2 s none; where the wait might fall by 20 ms or at will, more did.
const SHOWN_AFTER: Duration = Duration::from_millis(1500);
const FALLEN: f64 = 0.005;
const SHOWN_FOR: Duration = Duration::from_secs(60);
/// For how long a burst tells the rate that packets come at by which it is decided that others are there, seconds.
const FRESH: f64 = 0.5;
/// How long there may be nothing of that, in the time for which others are to be there.
const LONGEST_GAP: Duration = Duration::from_secs(2);
/// Both are so many round trips at least, of the shortest of late. What is sent because of what was heard is heard of a round
/// trip later: where that takes 3 s, as behind a long queue, half a second of sending would follow each half-second of hearing.
const ROUND_TRIPS: f64 = 1.5;
/// So many bytes behind a burst's first packet say something of the rate.
const LEAST_BEHIND: f64 = 200.0;
/// No burst is told apart from one of this length, seconds.
const RESOLUTION: f64 = 1e-4;
/// Over what time the rate is averaged at which one's own packets arrive, seconds.
const ARRIVALS_FADE: f64 = 1.0;
/// For how long the shortest delay is remembered that the present one is compared with.
const DELAY_MEMORY: Duration = Duration::from_secs(5);
/// Where the delay is longer than so many times that, and so many seconds, the queue grows, and may be one's own. TCP's windows
/// halve at most.
const GROWN: (f64, f64) = (2.0, 0.05);
/// Packets remembered; more are never in a queue.
const MOST_PACKETS: usize = 16_384;

/// What is acknowledged of a path, and what that says of others. Times are the sender's, seconds, where not said otherwise.
#[derive(Debug)]
pub(crate) struct ForeignQueue {
    base_delay: BaseDelay,
    /// One's own packets that are known to have left: when, and with how many bytes.
    left: VecDeque<(f64, f64)>,
    /// The sum of their bytes.
    left_bytes: f64,
    /// The frame that is coming through, and when its last packet had left.
    burst: Option<(u32, f64)>,
    /// Bytes behind the first packets of bursts, and the seconds that they took, older ones weighing less.
    behind: (f64, f64),
    /// When the last packet of these had left, and when it was heard of.
    told_at: f64,
    heard_at: f64,
    /// The shortest wait of late that was not one's own, of all packets, and of those whose path's rate was just told; by
    /// the receiver's clock.
    least: RecentLeast<f64>,
    least_told: RecentLeast<f64>,
    /// Since when, and when last, there are such without a gap, receiver's clock.
    told: Option<(Timestamp, Timestamp)>,
    /// The rate at which packets arrived of late, bytes a second, and when the last did, receiver's clock.
    arrivals: f64,
    arrived_at: f64,
    shortest_delay: RecentLeast<f64>,
    /// [`ROUND_TRIPS`], seconds.
    round_trips: f64,
    /// Whether the delay has just grown much.
    grows: bool,
    suspected: bool,
    found: bool,
    /// Since when next to nothing arrives while packets wait, and how long they then did at least; when others last had shown
    /// themselves by that. Receiver's clock.
    little: Option<(Timestamp, f64)>,
    shown_at: Option<Timestamp>,
}

impl ForeignQueue {
    pub fn new() -> Self {
        Self {
            base_delay: BaseDelay::new(BASE_MEMORY),
            left: VecDeque::new(),
            left_bytes: 0.0,
            burst: None,
            behind: (0.0, 0.0),
            told_at: f64::NEG_INFINITY,
            heard_at: f64::NEG_INFINITY,
            least: RecentLeast::new(),
            least_told: RecentLeast::new(),
            told: None,
            arrivals: 0.0,
            arrived_at: 0.0,
            shortest_delay: RecentLeast::new(),
            round_trips: 0.0,
            grows: false,
            suspected: false,
            found: false,
            little: None,
            shown_at: None,
        }
    }

    /// The rate of bursts, bytes a second; none if none was seen.
    pub fn path_rate(&self) -> Option<f64> {
        let (bytes, seconds) = self.behind;
        (bytes >= LEAST_BEHIND).then(|| bytes / seconds.max(RESOLUTION))
    }

    /// The path's rate, bytes a second, if others keep its queue filled, as far as was heard not long before `now`.
    pub fn path_rate_beside_others(&self, now: f64) -> Option<f64> {
        self.path_rate().filter(|_| self.found && !self.grows && now - self.heard_at < FRESH.max(self.round_trips))
    }

    /// The rate at which packets arrived of late, bytes a second.
    pub fn arrival_rate(&self) -> f64 {
        self.arrivals
    }

    /// It is `now`, and it takes packets `delay` seconds there and back, or has taken the oldest so long already.
    pub fn on_time(&mut self, now: Timestamp, delay: f64) {
        let shortest = self.shortest_delay.put(now, delay, DELAY_MEMORY);
        self.round_trips = ROUND_TRIPS * shortest;
        self.grows = delay > GROWN.0 * shortest + GROWN.1;
    }

    /// Whether packets wait for what is not the sender's own, by a rate that may be an old one.
    pub fn suspects(&self) -> bool {
        self.suspected
    }

    /// Packets were heard of at `now`: others keep the queue filled if for `span` none waited less than `wait` seconds for
    /// what was not the sender's own, until one waits less than half of that.
    pub fn heard(&mut self, now: f64, arrivals: &[AcknowledgedFragment], span: Duration, wait: f64) {
        let longest_gap = LONGEST_GAP.max(duration_from_seconds(self.round_trips));
        for arrival in arrivals {
            let (foreign, left_at) = self.foreign_wait(now, arrival);
            let at = arrival.arrived_at;
            let since_last = (at.as_secs_f64() - self.arrived_at).max(0.0);
            self.arrived_at += since_last;
            self.arrivals *= exp(-since_last / ARRIVALS_FADE);
            self.arrivals += (arrival.size.as_f64() + DATAGRAM_CARRIAGE) / ARRIVALS_FADE;
            let least = self.least.put(at, foreign, span);
            self.suspected = least > wait;
            self.show(at, least);
            if left_at > self.told_at + FRESH {
                // It came alone, and the rate is one of old.
                continue;
            }
            let gone_on = self.told.filter(|(_, last)| !at.is_later_by(longest_gap, *last));
            let since = gone_on.map_or(at, |(since, _)| since);
            self.told = Some((since, at));
            let least = self.least_told.put(at, foreign, span);
            let found = if self.found { least > 0.5 * wait } else { at.is_later_by(span, since) && least > wait };
            self.found = found && self.shown_at.is_some_and(|shown_at| !at.is_later_by(SHOWN_FOR, shown_at));
        }
    }

    /// A packet arrived at `at`, and of late none has waited less than `least` for what was not one's own: whether others show
    /// that they keep the queue filled.
    fn show(&mut self, at: Timestamp, least: f64) {
        if !self.suspected || self.path_rate().is_none_or(|rate| self.arrivals >= NEXT_TO_NOTHING * rate) {
            self.little = None;
            return;
        }
        let (since, first) = *self.little.get_or_insert((at, least));
        if least < first - FALLEN {
            self.little = Some((at, least));
        } else if at.is_later_by(SHOWN_AFTER, since) {
            self.shown_at = Some(at);
        }
    }

    /// How long a packet waited for what was not the sender's own, and when it left.
    fn foreign_wait(&mut self, now: f64, arrival: &AcknowledgedFragment) -> (f64, f64) {
        let (delay, shortest) = self.base_delay.update(arrival.sent_at, arrival.arrived_at);
        // Fragments may be acknowledged in another order than they were sent in.
        let waited = (delay - shortest) as f64 * 1e-9;
        let sent_at = arrival.sent_at.as_secs_f64();
        let (left_at, bytes) = (sent_at + waited, arrival.size.as_f64() + DATAGRAM_CARRIAGE);
        match &mut self.burst {
            Some((frame, before)) if *frame == arrival.frame => {
                let fade = exp(-(left_at - self.told_at).max(0.0) / BURSTS_FADE);
                let (all, seconds) = self.behind;
                self.behind = (fade * all + bytes, fade * seconds + (left_at - *before).max(0.0));
                *before = left_at;
                (self.told_at, self.heard_at) = (self.told_at.max(left_at), now);
            }
            _ => self.burst = Some((arrival.frame, left_at)),
        }
        while self.left.front().is_some_and(|&(left_at, _)| left_at <= sent_at) || self.left.len() >= MOST_PACKETS {
            self.left_bytes -= self.left.pop_front().map_or(0.0, |(_, bytes)| bytes);
        }
        self.left.push_back((left_at, bytes));
        self.left_bytes += bytes;
        (waited - self.left_bytes / self.path_rate().unwrap_or(f64::INFINITY).max(1.0), left_at)
    }
}

#[cfg(test)]
mod tests {
    use lockstep_units::ByteCount;

    use super::*;

    const SPAN: Duration = Duration::from_millis(700);
    const WAIT: f64 = 0.02;

    /// A path over which frames of packets of 1,144 bytes, 1,200 on the link, go.
    struct Path {
        queue: ForeignQueue,
        frame: u32,
        frame_rate: f64,
    }

    impl Path {
        fn new() -> Self {
            Self { queue: ForeignQueue::new(), frame: 0, frame_rate: 30.0 }
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
                    self.queue.heard(heard, &[arrival], SPAN, WAIT);
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
        assert_eq!(path.queue.path_rate_beside_others(heard), None);
        let mut path = Path::with_little(|_| 0.2);
        let heard = path.send(5.0, 2.0, 2, |_, place| 0.2 + 0.0048 * place);
        let found = path.queue.path_rate_beside_others(heard).unwrap();
        assert!((240_000.0..260_000.0).contains(&found), "{found}");
        assert_eq!(path.queue.path_rate_beside_others(heard + 1.0), None, "long ago");
        let heard = path.send(9.0, 2.0, 2, |_, place| 0.0048 * place);
        assert_eq!(path.queue.path_rate_beside_others(heard), None, "they have gone");
    }

    #[test]
    fn others_who_have_not_shown_that_they_keep_the_queue_filled_are_not_believed_nor_for_longer_than_a_minute() {
        let mut path = Path::new();
        path.send(0.0, 2.0, 2, |_, place| 0.0048 * place);
        // 29 % of what the path carries are sent all the time: it may be these that keep a constant rate waiting.
        let heard = path.send(2.0, 10.0, 2, |_, place| 0.2 + 0.0048 * place);
        assert_eq!(path.queue.path_rate_beside_others(heard), None);
        let mut path = Path::with_little(|_| 0.2);
        let found = [50.0, 70.0].map(|until| {
            let heard = path.send(until - 20.0, 20.0, 2, |_, place| 0.2 + 0.0048 * place);
            path.queue.path_rate_beside_others(heard).is_some()
        });
        assert_eq!(found, [true, false]);
    }

    #[test]
    fn a_queue_that_drains_as_less_is_sent_is_not_kept_filled_by_others() {
        // A constant rate of 0.9 of the path: with 0.05 beside it the queue drains by 50 ms a second.
        let mut path = Path::with_little(|sent| 0.5 - 0.05 * (sent - 2.0));
        let heard = path.send(5.0, 2.0, 2, |_, place| 0.35 + 0.0048 * place);
        assert_eq!(path.queue.path_rate_beside_others(heard), None);
    }

    #[test]
    fn a_path_that_has_slowed_down_is_nobody_elses() {
        let mut path = Path::new();
        path.send(0.0, 2.0, 2, |_, place| 0.0048 * place);
        // Its own two packets take 2 x 16 ms of the 33: 600 kb/s.
        let heard = path.send(2.0, 3.0, 2, |_, place| 0.016 * (place + 1.0));
        assert_eq!(path.queue.path_rate_beside_others(heard), None);
        assert!(!path.queue.suspects());
    }

    #[test]
    fn a_path_that_pauses_and_lets_go_of_everything_at_once_is_nobody_elses() {
        let mut path = Path::new();
        let heard = path.send(0.0, 6.0, 2, |sent, place| (0.3 - sent % 0.3) + 0.001 * place);
        assert_eq!(path.queue.path_rate_beside_others(heard), None);
    }

    #[test]
    fn packets_that_come_alone_are_a_suspicion_at_most() {
        let mut path = Path::new();
        path.send(0.0, 2.0, 2, |_, place| 0.0048 * place);
        let heard = path.send(3.0, 3.0, 1, |_, _| 0.1);
        assert!(path.queue.suspects());
        assert_eq!(path.queue.path_rate_beside_others(heard), None);
    }

    #[test]
    fn behind_a_queue_of_seconds_others_are_there_until_round_trips_later() {
        let beside = |round_trip: f64| {
            let mut path = Path::new();
            path.send(0.0, 2.0, 2, |_, place| 0.0048 * place);
            // Half a second is sent, which is heard of a round trip later, and then the next.
            for begin in [5.0, 8.0, 11.0] {
                let now = Timestamp::ZERO + Duration::from_secs_f64(begin);
                path.queue.on_time(now, round_trip);
                path.send(begin, 0.5, 2, |_, place| 2.9 + 0.0048 * place);
            }
            let heard = 14.5;
            [heard, heard + 2.9, heard + 5.0].map(|now| path.queue.path_rate_beside_others(now).is_some())
        };
        assert_eq!(beside(3.0), [true, true, false]);
        // Where a round trip is said to be short, so long a silence tells nothing.
        assert_eq!(beside(0.1), [false, false, false]);
    }

    #[test]
    fn while_the_delay_grows_nothing_is_told() {
        let mut path = Path::with_little(|_| 0.2);
        let heard = path.send(5.0, 2.0, 2, |_, place| 0.2 + 0.0048 * place);
        let now = Timestamp::ZERO + Duration::from_secs_f64(heard);
        path.queue.on_time(now, 0.24);
        assert!(path.queue.path_rate_beside_others(heard).is_some());
        path.queue.on_time(now, 0.8);
        assert_eq!(path.queue.path_rate_beside_others(heard), None);
    }
}
