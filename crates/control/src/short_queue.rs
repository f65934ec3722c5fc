//! How much the queue at the bottleneck holds, learned from what it drops, so that a frame's fragments leave no faster than
//! they fit into it.
//!
//! Frames leave in bursts that are faster than the path: that is how its rate shows. Where a queue holds fewer packets than a
//! frame has, all but the first few of every such frame are dropped, however low the rate; a key frame of ten fragments never
//! came through a queue of five. What tells that from random loss and from a queue that others fill: fragments are lost where
//! many of their own frame were still waiting before them, and hardly elsewhere.
//!
//! What waits is reckoned, not measured: what left adds to it, and the path takes it off at the rate at which fragments of
//! one frame came through when they came through slower than they left.
//!
//! Its constants are in [`ShortQueueConfig`].

mod places;

use std::collections::VecDeque;
use std::time::Duration;

use lockstep_transport::{AcknowledgedFragment, Feedback, LostFragment, SOUND};
use lockstep_units::{Bitrate, ByteCount, Timestamp, duration_from_seconds};

use self::places::Places;
use crate::fragments::DATAGRAM_CARRIAGE;
use crate::{PathConfig, ShortQueueConfig};

/// Evidence fades in steps of this length, which only saves work.
const FADES_EVERY: Duration = Duration::from_secs(1);
/// Fragments on the way that are remembered, as many as the transport's detection of losses follows.
const MOST_SENT: usize = 16_384;
/// A packet without news for this long gets none: loss detection has decided before.
const PATIENCE: Duration = Duration::from_secs(2);
/// Frames that are remembered.
const MOST_FRAMES: usize = 256;
/// Packets further apart than this are of different frames: the pacer's longest interval is shorter.
const SEPARATE: Duration = Duration::from_millis(10);
/// The fewest fragments of a frame that define a rate with one to spare.
const LEAST_FRAGMENTS: usize = 3;
/// One of this many fragments of a frame may arrive after those that left after it, and says nothing of the rate.
const OVERTAKEN: usize = 4;

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Unknown,
    Arrived,
    Lost,
    /// Lost, with all of its frame: it is the path that was away.
    Away,
}

/// A packet that left.
#[derive(Debug, Clone, Copy)]
struct Sent {
    at: Timestamp,
    bytes: f64,
    outcome: Outcome,
}

/// What waits at the bottleneck, as it is reckoned.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    bytes: f64,
    at: Timestamp,
}

impl Waiting {
    /// What is left of it at a later moment, where the path takes so many bytes a second, if that is known.
    fn until(self, at: Timestamp, rate: Option<f64>) -> Self {
        let pause = at.saturating_since(self.at);
        let bytes = match rate {
            Some(rate) => (self.bytes - rate * pause.as_secs_f64()).max(0.0),
            // No frame was slowed down yet: each finds the queue empty.
            None if pause >= SEPARATE => 0.0,
            None => self.bytes,
        };
        Self { bytes, at }
    }
}

/// A frame's fragments, as they left and as they arrived.
#[derive(Debug, Default)]
struct Burst {
    frame: Option<u32>,
    sent_at: (Timestamp, Timestamp),
    /// When they arrived and what they had, in the order of arrival.
    arrivals: Vec<(Timestamp, f64)>,
}

impl Burst {
    fn begin(&mut self, arrival: &AcknowledgedFragment) {
        (self.frame, self.sent_at) = (Some(arrival.frame), (arrival.sent_at, arrival.sent_at));
        self.arrivals.clear();
    }

    fn add(&mut self, arrival: &AcknowledgedFragment) {
        self.sent_at.0 = self.sent_at.0.min(arrival.sent_at);
        self.sent_at.1 = self.sent_at.1.max(arrival.sent_at);
        if self.arrivals.len() < MOST_SENT {
            self.arrivals.push((arrival.arrived_at, whole(arrival.size)));
        }
    }

    /// Bytes a second at which they came through, and whether that is slower than they left. What came last may have been
    /// overtaken on the way.
    fn rate(&self, slowed: f64) -> Option<(f64, bool)> {
        let count = self.arrivals.len();
        let in_order = (count - count / OVERTAKEN).max(LEAST_FRAGMENTS);
        let arrivals = self.arrivals.get(..in_order)?;
        let time = arrivals[in_order - 1].0.saturating_since(arrivals[0].0).as_secs_f64();
        if time <= 0.0 {
            return None;
        }
        let bytes: f64 = arrivals[1..].iter().map(|&(_, bytes)| bytes).sum();
        let leaving = self.sent_at.1.saturating_since(self.sent_at.0).as_secs_f64();
        let leaving = leaving * (in_order - 1) as f64 / (count - 1) as f64;
        Some((bytes / time, time > slowed * leaving))
    }
}

/// What a datagram of `size` takes of a link, bytes.
fn whole(size: ByteCount) -> f64 {
    size.as_f64() + DATAGRAM_CARRIAGE
}

/// A bottleneck queue that is shorter than a frame.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BottleneckQueue {
    /// Bytes that it holds.
    pub holds: f64,
    /// Bytes a second that the path takes from it.
    pub rate: f64,
    /// [`ShortQueueConfig::most_paced`].
    most_paced: Duration,
    /// The longest pause between two fragments; a codec that follows a rate drains the pacer in this time.
    longest_pause: Duration,
}

impl BottleneckQueue {
    /// Bytes that may join the `queued` bytes in the pacer; no bound while it is empty.
    #[must_use]
    pub fn room(&self, queued: ByteCount) -> Option<ByteCount> {
        let most = ByteCount::new((self.rate * self.most_paced.as_secs_f64()) as u64);
        (queued > ByteCount::ZERO).then(|| most.saturating_sub(queued))
    }

    /// The highest target for a codec that follows a rate: the path's rate, less what drains the pacer soon.
    #[must_use]
    pub fn most_target(&self, queued: ByteCount) -> Bitrate {
        let over = (queued.as_f64() - self.rate * self.most_paced.as_secs_f64()).max(0.0);
        Bitrate::from_bytes_per_second((self.rate - over / self.longest_pause.as_secs_f64()).max(0.0))
    }

    /// How long `queued` bytes in the pacer take to leave, at least.
    #[must_use]
    pub fn time_to_leave(&self, queued: ByteCount) -> Duration {
        duration_from_seconds((queued.as_f64() - self.holds).max(0.0) / self.rate.max(1.0))
    }
}

/// What the queue at the bottleneck holds.
#[derive(Debug)]
pub(crate) struct ShortQueue {
    path: PathConfig,
    config: ShortQueueConfig,
    /// Bytes of a full packet.
    packet: f64,
    /// What waits if all that left came into the queue, after the last packet.
    waiting: Waiting,
    /// What waited after the last packet whose outcome was counted; what was dropped did not.
    waited: Waiting,
    /// Bytes a second that the path takes, once a frame has shown it.
    rate: Option<f64>,
    /// What left and was not counted yet, in order.
    sent: VecDeque<Sent>,
    /// When the last left of which it is known what became of it.
    known_until: Timestamp,
    places: Places,
    faded_at: Timestamp,
    burst: Burst,
    /// The last frames of which something arrived, in order.
    heard_of: VecDeque<u32>,
    /// What fits, bytes, if that is little and known.
    holds: Option<f64>,
}

impl ShortQueue {
    /// Of a path that nothing is known of, for fragments of up to `payload` bytes.
    pub(crate) fn new(payload: ByteCount, path: PathConfig, config: ShortQueueConfig) -> Self {
        Self {
            path,
            config,
            packet: whole(payload),
            waiting: Waiting { bytes: 0.0, at: Timestamp::ZERO },
            waited: Waiting { bytes: 0.0, at: Timestamp::ZERO },
            rate: None,
            sent: VecDeque::new(),
            known_until: Timestamp::ZERO,
            places: Places::default(),
            faded_at: Timestamp::ZERO,
            burst: Burst::default(),
            heard_of: VecDeque::new(),
            holds: None,
        }
    }

    /// A datagram of `size` bytes left.
    pub(crate) fn on_transmit(&mut self, now: Timestamp, size: ByteCount) {
        let bytes = whole(size);
        self.waiting = self.waiting.until(now, self.rate);
        self.waiting.bytes += bytes;
        if self.sent.len() == MOST_SENT {
            self.sent.pop_front();
        }
        self.sent.push_back(Sent { at: now, bytes, outcome: Outcome::Unknown });
    }

    /// Feedback arrived.
    pub(crate) fn on_feedback(&mut self, now: Timestamp, feedback: &Feedback) {
        self.fade(now);
        for arrival in &feedback.acknowledged {
            self.note(arrival.sent_at, Outcome::Arrived);
            let frame = Some(arrival.frame);
            if arrival.fragment == SOUND || frame < self.burst.frame {
                continue;
            }
            if frame != self.burst.frame {
                self.learn_rate();
                self.burst.begin(arrival);
                if self.heard_of.len() == MOST_FRAMES {
                    self.heard_of.pop_front();
                }
                self.heard_of.push_back(arrival.frame);
            }
            self.burst.add(arrival);
        }
        self.count(now);
    }

    /// Fragments were declared lost.
    pub(crate) fn on_loss(&mut self, now: Timestamp, lost: &[LostFragment]) {
        self.learn_rate();
        for fragment in lost {
            let away = self.heard_of.binary_search(&fragment.frame).is_err();
            self.note(fragment.sent_at, if away { Outcome::Away } else { Outcome::Lost });
        }
        self.count(now);
        self.holds = self.what_fits();
    }

    /// The queue and the path's rate, once the queue is known to be short.
    pub(crate) fn known(&self) -> Option<BottleneckQueue> {
        let (most_paced, longest_pause) = (self.config.most_paced, self.path.window);
        self.holds.zip(self.rate).map(|(holds, rate)| BottleneckQueue { holds, rate, most_paced, longest_pause })
    }

    /// For how long after the last packet no other is to leave, so that it fits.
    pub(crate) fn least_pause(&self) -> Duration {
        let Some((holds, rate)) = self.holds.zip(self.rate) else { return Duration::ZERO };
        let over = self.waiting.bytes + self.packet - (self.config.used * holds).max(self.packet);
        duration_from_seconds(over.max(0.0) / rate.max(1.0)).min(self.path.window)
    }

    /// Notes what became of what left then.
    fn note(&mut self, sent_at: Timestamp, outcome: Outcome) {
        let first = self.sent.partition_point(|sent| sent.at < sent_at);
        let mut left_then = self.sent.range_mut(first..).take_while(|sent| sent.at == sent_at);
        if let Some(sent) = left_then.find(|sent| sent.outcome == Outcome::Unknown) {
            sent.outcome = outcome;
            self.known_until = self.known_until.max(sent_at);
        }
    }

    /// Counts what became of packets, in the order in which they left, as far as that is known.
    fn count(&mut self, now: Timestamp) {
        // As long as no rate is known it is not known either behind how many they waited.
        let Some(rate) = self.rate else { return };
        while let Some(&Sent { at, bytes, outcome }) = self.sent.front()
            && (outcome != Outcome::Unknown
                || now.is_later_by(PATIENCE, at)
                || self.known_until.is_later_by(self.config.overtaken_by, at))
        {
            self.sent.pop_front();
            self.waited = self.waited.until(at, Some(rate));
            let behind = self.waited.bytes + bytes;
            let packets = (behind / self.packet) as usize;
            match outcome {
                Outcome::Arrived => {
                    self.places.arrived(packets);
                    self.waited.bytes = behind;
                }
                Outcome::Lost => self.places.lost(packets),
                Outcome::Unknown | Outcome::Away => {}
            }
        }
    }

    /// Learns from what has arrived of the last frame.
    fn learn_rate(&mut self) {
        let Some((seen, slowed)) = self.burst.rate(self.config.slowed) else { return };
        self.rate = match self.rate {
            None => slowed.then_some(seen),
            Some(known) if slowed => Some(known + self.config.rate_weight * (seen - known)),
            Some(known) => Some(known.max(seen)),
        };
    }

    fn fade(&mut self, now: Timestamp) {
        let time = now.saturating_since(self.faded_at);
        if time < FADES_EVERY {
            return;
        }
        self.faded_at = now;
        let share = libm::exp2(-time.div_duration_f64(2 * self.path.memory));
        self.places.fade(share);
        if self.holds.is_some() {
            self.holds = self.what_fits();
        }
    }

    /// What fits, bytes, if packets are lost behind more.
    fn what_fits(&self) -> Option<f64> {
        self.places.what_fits(&self.config).map(|packets| packets as f64 * self.packet)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PAYLOAD: u64 = 1_200;
    const FRAME_INTERVAL: Duration = Duration::from_millis(33);
    const WAY: Duration = Duration::from_millis(25);

    /// A path, and what it does to frames.
    struct Path {
        bytes_per_second: f64,
        /// Packets that its queue holds.
        holds: usize,
        /// Which packets are lost on the way, by their number.
        loses: Box<dyn Fn(u64) -> bool>,
        queue: ShortQueue,
        now: Timestamp,
        sent: u64,
        /// When the packets in the queue are through.
        through: VecDeque<Timestamp>,
    }

    impl Path {
        fn new(kbps: u64, holds: usize, loses: impl Fn(u64) -> bool + 'static) -> Self {
            Self {
                bytes_per_second: 125.0 * kbps as f64,
                holds,
                loses: Box::new(loses),
                queue: ShortQueue::new(ByteCount::new(PAYLOAD), PathConfig::default(), ShortQueueConfig::default()),
                now: Timestamp::ZERO + FRAME_INTERVAL,
                sent: 0,
                through: VecDeque::new(),
            }
        }

        /// Sends a frame of so many fragments, paced at four times the path's rate unless they have to wait longer, and tells
        /// what came of it. Says how many were lost.
        fn frame(&mut self, number: u32, fragments: u16) -> usize {
            let begun = self.now;
            let pace = duration_from_seconds(whole(ByteCount::new(PAYLOAD)) / self.bytes_per_second / 4.0);
            let service = duration_from_seconds(whole(ByteCount::new(PAYLOAD)) / self.bytes_per_second);
            let (mut acknowledged, mut lost) = (Vec::new(), Vec::new());
            for fragment in 0..fragments {
                let (size, sent_at) = (ByteCount::new(PAYLOAD), self.now);
                self.queue.on_transmit(sent_at, size);
                self.sent += 1;
                while self.through.front().is_some_and(|&at| at <= sent_at) {
                    self.through.pop_front();
                }
                if self.through.len() > self.holds || (self.loses)(self.sent) {
                    lost.push(LostFragment { frame: number, fragment, size, sent_at });
                } else {
                    let through = self.through.back().map_or(sent_at, |&at| at) + service;
                    self.through.push_back(through);
                    acknowledged.push(AcknowledgedFragment {
                        frame: number,
                        fragment,
                        size,
                        sent_at,
                        arrived_at: through + WAY,
                        acknowledged_at: through + 2 * WAY,
                        congestion_experienced: false,
                    });
                }
                self.now += pace.max(self.queue.least_pause());
            }
            let count = lost.len();
            let feedback = Feedback {
                acknowledged,
                estimate: lockstep_transport::Estimate::default(),
                round_trip_time: None,
                highest_sequence: self.sent,
                found: 0,
                received: self.sent,
            };
            self.queue.on_feedback(self.now, &feedback);
            self.queue.on_loss(self.now, &lost);
            // No controller goes on for long while more is sent than comes through.
            self.now = self.now.max(begun + FRAME_INTERVAL).max(begun + service * u32::from(fragments));
            count
        }
    }

    #[test]
    fn frames_longer_than_the_queue_come_through_after_some_that_did_not() {
        for (kbps, holds, fragments) in [(500, 5, 12), (2_000, 5, 12), (2_000, 10, 20), (20_000, 5, 40)] {
            let mut path = Path::new(kbps, holds, |_| false);
            assert!(path.frame(0, fragments) >= 3, "{kbps} kb/s: the first is cut");
            assert!(path.queue.holds.is_some(), "{kbps} kb/s: and says why");
            let lost: Vec<usize> = (1..60).map(|number| path.frame(number, fragments)).collect();
            let whole = lost.iter().filter(|&&lost| lost == 0).count();
            assert!(whole >= 55, "{kbps} kb/s, {holds} packets: {lost:?}");
        }
    }

    #[test]
    fn long_frames_come_through_long_queues() {
        for (kbps, holds, fragments) in [(50_000, 80, 150), (1_000_000, 256, 430), (1_000_000, 1_000, 1_700)] {
            let mut path = Path::new(kbps, holds, |_| false);
            assert!(path.frame(0, fragments) >= 20, "{kbps} kb/s: the first is cut");
            let lost: Vec<usize> = (1..60).map(|number| path.frame(number, fragments)).collect();
            let whole = lost.iter().filter(|&&lost| lost == 0).count();
            assert!(whole >= 55, "{kbps} kb/s, {holds} packets: {lost:?}");
        }
    }

    #[test]
    fn a_packet_of_which_nothing_is_said_does_not_hold_up_what_is_learned() {
        let mut path = Path::new(1_000_000, 256, |_| false);
        path.frame(0, 100);
        path.queue.on_transmit(path.now, ByteCount::new(PAYLOAD));
        (1..=10).for_each(|number| _ = path.frame(number, 430));
        assert!(path.queue.holds.is_some(), "a third of a second is enough");
    }

    #[test]
    fn a_frame_that_fits_is_not_held_up() {
        let mut path = Path::new(2_000, 10, |_| false);
        (0..10).for_each(|number| _ = path.frame(number, 30));
        assert!(path.queue.least_pause() > Duration::ZERO);
        path.now += Duration::from_secs(1);
        path.queue.on_transmit(path.now, ByteCount::new(PAYLOAD));
        assert_eq!(path.queue.least_pause(), Duration::ZERO, "one of ten waits");
    }

    #[test]
    fn a_full_pacer_before_a_short_queue_gets_nothing_more() {
        let mut path = Path::new(2_000, 5, |_| false);
        assert_eq!(path.queue.known(), None, "no loss has shown a short queue");
        (0..10).for_each(|number| _ = path.frame(number, 30));
        let queue = path.queue.known().unwrap();
        assert_eq!(queue.room(ByteCount::ZERO), None, "a frame may be larger while the pacer is empty");
        let room = |queued| queue.room(ByteCount::new(queued)).unwrap().get();
        assert!((11_000..12_600).contains(&room(4_500)), "66 ms of 2 Mb/s less what waits: {}", room(4_500));
        assert_eq!(room(20_000), 0);
    }

    #[test]
    fn a_codec_that_follows_a_rate_drains_the_pacer() {
        let mut path = Path::new(2_000, 5, |_| false);
        (0..10).for_each(|number| _ = path.frame(number, 30));
        let queue = path.queue.known().unwrap();
        let target = |queued| queue.most_target(ByteCount::new(queued)).as_mbps();
        assert!((1.8..2.1).contains(&target(10_000)), "what is on its way soon takes nothing: {}", target(10_000));
        assert!((0.8..1.2).contains(&target(16_500 + 62_500)), "a quarter of a second waits: {}", target(79_000));
        assert_eq!(queue.most_target(ByteCount::new(500_000)), Bitrate::ZERO);
        let time = queue.time_to_leave(ByteCount::new(255_000));
        assert!((0.9..1.1).contains(&time.as_secs_f64()), "{time:?}");
    }

    #[test]
    fn what_was_lost_long_ago_is_forgotten() {
        let mut path = Path::new(2_000, 5, |_| false);
        (0..10).for_each(|number| _ = path.frame(number, 30));
        assert!(path.queue.holds.is_some());
        path.holds = 1_000;
        path.now += Duration::from_secs(120);
        (10..13).for_each(|number| _ = path.frame(number, 30));
        assert_eq!(path.queue.holds, None);
    }

    #[test]
    fn an_outage_says_nothing_of_the_queue() {
        let mut path = Path::new(2_000, 1_000, |packet| (200..400).contains(&packet));
        for number in 0..60 {
            path.frame(number, 10);
            assert_eq!(path.queue.holds, None, "frame {number}");
        }
    }

    /// Loses a share of all packets.
    fn by_chance(seed: u64, share: f64) -> impl Fn(u64) -> bool {
        move |packet| {
            let noise = (packet ^ (seed << 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
            let noise = noise.wrapping_mul(0xbf58_476d_1ce4_e5b9);
            (noise >> 11) as f64 / ((1_u64 << 53) as f64) < share
        }
    }

    /// Of the frames that `path` takes, so many fragments each, the share behind which the queue was taken for a short one.
    fn share_held(mut path: Path, frames: u32, fragments: u16) -> f64 {
        let held = (0..frames).filter(|&number| {
            path.frame(number, fragments);
            path.queue.holds.is_some()
        });
        held.count() as f64 / f64::from(frames)
    }

    #[test]
    fn random_loss_is_hardly_ever_taken_for_a_short_queue() {
        for (share, most) in [(0.01, 0.001), (0.05, 0.01), (0.12, 0.05)] {
            let held = |seed| {
                let path = Path::new(500 * seed, 1_000, by_chance(seed, share));
                share_held(path, 200, 2 + (seed % 28) as u16)
            };
            let held = (1..=100).map(held).sum::<f64>() / 100.0;
            assert!(held <= most, "{share} lost: {held} of the frames");
        }
    }

    #[test]
    fn random_loss_of_long_frames_is_hardly_ever_taken_for_a_short_queue() {
        for (share, most) in [(0.01, 0.001), (0.05, 0.01), (0.12, 0.05)] {
            let held = |seed| {
                let path = Path::new(10_000 * seed, 5_000, by_chance(seed, share));
                share_held(path, 50, 15 * seed as u16)
            };
            let held = (1..=40).map(held).sum::<f64>() / 40.0;
            assert!(held <= most, "{share} lost: {held} of the frames");
        }
    }

    proptest! {
        #[test]
        fn no_pause_is_longer_than_half_a_second(kbps in 1_u64..1_000, holds in 0_usize..20, fragments in 1_u16..60) {
            let mut path = Path::new(kbps, holds, |_| false);
            for number in 0..20 {
                path.frame(number, fragments);
                prop_assert!(path.queue.least_pause() <= PathConfig::default().window);
            }
        }
    }
}
