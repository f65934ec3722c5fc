//! Short-queue detector: it learns the size of the bottleneck queue from drops, so that fragments leave only as fast as
//! they fit.
//!
//! Frames leave in bursts that are faster than the path, which shows its rate. A queue may hold fewer packets than a
//! frame has. Then it drops all but the first few fragments of each burst, at any rate. For example, a key frame of ten
//! fragments never passes a queue of five.
//!
//! A short queue differs from random loss and from cross traffic: fragments are lost if many of their own frame wait
//! before them, and rarely otherwise.
//!
//! The queue is computed, not measured. Sent bytes are added, and the path removes them at its rate. That rate is the
//! arrival rate of a frame whose fragments arrived more slowly than they left.
//!
//! Its constants are in [`ShortQueueConfig`].

mod places;

use std::collections::VecDeque;
use std::time::Duration;

use lockstep_transport::{AcknowledgedFragment, Feedback, LostFragment, SOUND};
use lockstep_units::{Bitrate, ByteCount, Timestamp, duration_from_seconds};

use self::places::QueueOutcomes;
use crate::fragments::DATAGRAM_OVERHEAD_BYTES;
use crate::{PathConfig, ShortQueueConfig};

/// Interval at which evidence fades, to save work.
const FADES_EVERY: Duration = Duration::from_secs(1);
/// Maximum number of remembered fragments, as in the transport's loss detection.
pub(crate) const MAX_FRAGMENTS: usize = 16_384;
/// Time after which a packet is no longer expected to be acknowledged; loss detection has decided by then.
const PATIENCE: Duration = Duration::from_secs(2);
/// Maximum number of remembered frames.
const MAX_FRAMES: usize = 256;
/// Pause between packets of different frames. The pacer's longest interval is shorter.
const SEPARATE: Duration = Duration::from_millis(10);
/// Minimum number of fragments that define a rate: two, and one to spare.
const MIN_FRAGMENTS: usize = 3;
/// One of this many fragments may be overtaken, so the last ones do not count for the rate.
const OVERTAKEN: usize = 4;

/// Outcome of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Unknown,
    Arrived,
    Lost,
    /// Lost together with its whole frame: the path had an outage.
    Away,
}

/// A sent packet.
#[derive(Debug, Clone, Copy)]
struct Sent {
    at: Timestamp,
    bytes: f64,
    outcome: Outcome,
}

/// Computed bytes in the bottleneck queue.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    bytes: f64,
    at: Timestamp,
}

impl Waiting {
    /// The rest at a later time, for a path of `rate` bytes per second, if known.
    fn until(self, at: Timestamp, rate: Option<f64>) -> Self {
        let pause = at.saturating_since(self.at);
        let bytes = match rate {
            Some(rate) => (self.bytes - rate * pause.as_secs_f64()).max(0.0),
            // No frame was slowed down yet, so each finds the queue empty.
            None if pause >= SEPARATE => 0.0,
            None => self.bytes,
        };
        Self { bytes, at }
    }
}

/// Fragments of one frame, with their sending and arrival times.
#[derive(Debug, Default)]
struct Burst {
    frame: Option<u32>,
    sent_at: (Timestamp, Timestamp),
    /// Arrival time and bytes, in the order of arrival.
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
        if self.arrivals.len() < MAX_FRAGMENTS {
            self.arrivals.push((arrival.arrived_at, whole(arrival.size)));
        }
    }

    /// Arrival rate in bytes per second, and whether it is lower than the sending rate. The last arrivals may have been
    /// overtaken.
    fn rate(&self, slowed: f64) -> Option<(f64, bool)> {
        let count = self.arrivals.len();
        let in_order = (count - count / OVERTAKEN).max(MIN_FRAGMENTS);
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

/// Link bytes of a datagram of `size`.
fn whole(size: ByteCount) -> f64 {
    size.as_f64() + DATAGRAM_OVERHEAD_BYTES
}

/// A bottleneck queue that is shorter than a frame.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BottleneckQueue {
    /// Capacity of the queue, bytes.
    pub holds: f64,
    /// Rate at which the path drains it, bytes per second.
    pub rate: f64,
    /// [`ShortQueueConfig::most_paced`].
    most_paced: Duration,
    /// Longest pause between two fragments. A codec that follows a rate drains the pacer in this time.
    max_pause: Duration,
}

impl BottleneckQueue {
    /// Bytes that may join the `queued` bytes in the pacer; no bound while it is empty.
    #[must_use]
    pub fn room(&self, queued: ByteCount) -> Option<ByteCount> {
        let most = ByteCount::new((self.rate * self.most_paced.as_secs_f64()) as u64);
        (queued > ByteCount::ZERO).then(|| most.saturating_sub(queued))
    }

    /// Highest target for a codec that follows a rate: the path's rate minus the rate that drains the pacer soon.
    #[must_use]
    pub fn max_target(&self, queued: ByteCount) -> Bitrate {
        let over = (queued.as_f64() - self.rate * self.most_paced.as_secs_f64()).max(0.0);
        Bitrate::from_bytes_per_second((self.rate - over / self.max_pause.as_secs_f64()).max(0.0))
    }

    /// Minimum time in which `queued` bytes in the pacer leave.
    #[must_use]
    pub fn time_to_leave(&self, queued: ByteCount) -> Duration {
        duration_from_seconds((queued.as_f64() - self.holds).max(0.0) / self.rate.max(1.0))
    }
}

/// Detector of a short bottleneck queue.
#[derive(Debug)]
pub(crate) struct ShortQueue {
    path: PathConfig,
    config: ShortQueueConfig,
    /// Link bytes of a full packet.
    packet: f64,
    /// Queue after the last sent packet, if no packet was dropped.
    waiting: Waiting,
    /// Queue after the last counted packet, without dropped packets.
    waited: Waiting,
    /// Rate of the path, bytes per second; none until a frame has shown it.
    rate: Option<f64>,
    /// Sent packets that are not counted yet, in order.
    sent: VecDeque<Sent>,
    /// Sending time of the last packet with a known outcome.
    known_until: Timestamp,
    places: QueueOutcomes,
    faded_at: Timestamp,
    burst: Burst,
    /// The last frames with an arrival, in order.
    arrived_frames: VecDeque<u32>,
    /// Capacity of the queue in bytes, if it is short and known.
    holds: Option<f64>,
}

impl ShortQueue {
    /// A detector for an unknown path, with fragments of up to `payload` bytes.
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
            places: QueueOutcomes::default(),
            faded_at: Timestamp::ZERO,
            burst: Burst::default(),
            arrived_frames: VecDeque::new(),
            holds: None,
        }
    }

    /// Records that a datagram of `size` bytes was sent.
    pub(crate) fn on_transmit(&mut self, now: Timestamp, size: ByteCount) {
        let bytes = whole(size);
        self.waiting = self.waiting.until(now, self.rate);
        self.waiting.bytes += bytes;
        if self.sent.len() == MAX_FRAGMENTS {
            self.sent.pop_front();
        }
        self.sent.push_back(Sent { at: now, bytes, outcome: Outcome::Unknown });
    }

    /// Handles feedback.
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
                if self.arrived_frames.len() == MAX_FRAMES {
                    self.arrived_frames.pop_front();
                }
                self.arrived_frames.push_back(arrival.frame);
            }
            self.burst.add(arrival);
        }
        self.count(now);
    }

    /// Handles fragments that were declared lost.
    pub(crate) fn on_loss(&mut self, now: Timestamp, lost: &[LostFragment]) {
        self.learn_rate();
        for fragment in lost {
            let away = self.arrived_frames.binary_search(&fragment.frame).is_err();
            self.note(fragment.sent_at, if away { Outcome::Away } else { Outcome::Lost });
        }
        self.count(now);
        self.holds = self.capacity_packets();
    }

    /// The queue and the path's rate, once the queue is known to be short.
    pub(crate) fn known(&self) -> Option<BottleneckQueue> {
        let (most_paced, max_pause) = (self.config.most_paced, self.path.window);
        self.holds.zip(self.rate).map(|(holds, rate)| BottleneckQueue { holds, rate, most_paced, max_pause })
    }

    /// Minimum pause after the last packet, so that the next one fits.
    pub(crate) fn min_pause(&self) -> Duration {
        let Some((holds, rate)) = self.holds.zip(self.rate) else { return Duration::ZERO };
        let over = self.waiting.bytes + self.packet - (self.config.used * holds).max(self.packet);
        duration_from_seconds(over.max(0.0) / rate.max(1.0)).min(self.path.window)
    }

    /// Records the outcome of a packet that was sent at `sent_at`.
    fn note(&mut self, sent_at: Timestamp, outcome: Outcome) {
        let first = self.sent.partition_point(|sent| sent.at < sent_at);
        let mut left_then = self.sent.range_mut(first..).take_while(|sent| sent.at == sent_at);
        if let Some(sent) = left_then.find(|sent| sent.outcome == Outcome::Unknown) {
            sent.outcome = outcome;
            self.known_until = self.known_until.max(sent_at);
        }
    }

    /// Counts the known outcomes, in the order of sending.
    fn count(&mut self, now: Timestamp) {
        // Without a rate, the queue in front of a packet is unknown.
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

    /// Learns the rate from the arrivals of the last frame.
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
            self.holds = self.capacity_packets();
        }
    }

    /// Capacity of the queue in bytes, if packets behind more are lost.
    fn capacity_packets(&self) -> Option<f64> {
        self.places.capacity_packets(&self.config).map(|packets| packets as f64 * self.packet)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PAYLOAD: u64 = 1_200;
    const FRAME_INTERVAL: Duration = Duration::from_millis(33);
    const WAY: Duration = Duration::from_millis(25);

    /// Emulated path for frames.
    struct Path {
        bytes_per_second: f64,
        /// Capacity of its queue, packets.
        holds: usize,
        /// Random loss by packet number.
        loses: Box<dyn Fn(u64) -> bool>,
        queue: ShortQueue,
        now: Timestamp,
        sent: u64,
        /// Departure times of the packets in the queue.
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

        /// Sends a frame of `fragments` fragments, paced at four times the path's rate or slower if the detector
        /// requires it. Passes the result to the detector and returns the number of lost fragments.
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
                self.now += pace.max(self.queue.min_pause());
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
            // No controller sends more than the path delivers for long.
            self.now = self.now.max(begun + FRAME_INTERVAL).max(begun + service * u32::from(fragments));
            count
        }
    }

    #[test]
    fn frames_longer_than_the_queue_arrive_after_a_few_losses() {
        for (kbps, holds, fragments) in [(500, 5, 12), (2_000, 5, 12), (2_000, 10, 20), (20_000, 5, 40)] {
            let mut path = Path::new(kbps, holds, |_| false);
            assert!(path.frame(0, fragments) >= 3, "{kbps} kb/s: the queue cuts the first frame");
            assert!(path.queue.holds.is_some(), "{kbps} kb/s: the short queue is detected");
            let lost: Vec<usize> = (1..60).map(|number| path.frame(number, fragments)).collect();
            let whole = lost.iter().filter(|&&lost| lost == 0).count();
            assert!(whole >= 55, "{kbps} kb/s, {holds} packets: {lost:?}");
        }
    }

    #[test]
    fn long_frames_pass_long_queues() {
        for (kbps, holds, fragments) in [(50_000, 80, 150), (1_000_000, 256, 430), (1_000_000, 1_000, 1_700)] {
            let mut path = Path::new(kbps, holds, |_| false);
            assert!(path.frame(0, fragments) >= 20, "{kbps} kb/s: the queue cuts the first frame");
            let lost: Vec<usize> = (1..60).map(|number| path.frame(number, fragments)).collect();
            let whole = lost.iter().filter(|&&lost| lost == 0).count();
            assert!(whole >= 55, "{kbps} kb/s, {holds} packets: {lost:?}");
        }
    }

    #[test]
    fn packet_without_outcome_does_not_block_detection() {
        let mut path = Path::new(1_000_000, 256, |_| false);
        path.frame(0, 100);
        path.queue.on_transmit(path.now, ByteCount::new(PAYLOAD));
        (1..=10).for_each(|number| _ = path.frame(number, 430));
        assert!(path.queue.holds.is_some(), "a third of a second is enough");
    }

    #[test]
    fn frame_that_fits_is_not_delayed() {
        let mut path = Path::new(2_000, 10, |_| false);
        (0..10).for_each(|number| _ = path.frame(number, 30));
        assert!(path.queue.min_pause() > Duration::ZERO);
        path.now += Duration::from_secs(1);
        path.queue.on_transmit(path.now, ByteCount::new(PAYLOAD));
        assert_eq!(path.queue.min_pause(), Duration::ZERO, "one of ten places is in use");
    }

    #[test]
    fn full_pacer_before_a_short_queue_has_no_room() {
        let mut path = Path::new(2_000, 5, |_| false);
        assert_eq!(path.queue.known(), None, "no loss has shown a short queue");
        (0..10).for_each(|number| _ = path.frame(number, 30));
        let queue = path.queue.known().unwrap();
        assert_eq!(queue.room(ByteCount::ZERO), None, "a frame may be larger while the pacer is empty");
        let room = |queued| queue.room(ByteCount::new(queued)).unwrap().get();
        assert!((11_000..12_600).contains(&room(4_500)), "66 ms of 2 Mb/s minus the queued bytes: {}", room(4_500));
        assert_eq!(room(20_000), 0);
    }

    #[test]
    fn target_of_a_rate_codec_drains_the_pacer() {
        let mut path = Path::new(2_000, 5, |_| false);
        (0..10).for_each(|number| _ = path.frame(number, 30));
        let queue = path.queue.known().unwrap();
        let target = |queued| queue.max_target(ByteCount::new(queued)).as_mbps();
        assert!(
            (1.8..2.1).contains(&target(10_000)),
            "bytes that leave soon do not lower the target: {}",
            target(10_000)
        );
        assert!((0.8..1.2).contains(&target(16_500 + 62_500)), "a quarter of a second waits: {}", target(79_000));
        assert_eq!(queue.max_target(ByteCount::new(500_000)), Bitrate::ZERO);
        let time = queue.time_to_leave(ByteCount::new(255_000));
        assert!((0.9..1.1).contains(&time.as_secs_f64()), "{time:?}");
    }

    #[test]
    fn old_losses_expire() {
        let mut path = Path::new(2_000, 5, |_| false);
        (0..10).for_each(|number| _ = path.frame(number, 30));
        assert!(path.queue.holds.is_some());
        path.holds = 1_000;
        path.now += Duration::from_secs(120);
        (10..13).for_each(|number| _ = path.frame(number, 30));
        assert_eq!(path.queue.holds, None);
    }

    #[test]
    fn outage_is_not_a_short_queue() {
        let mut path = Path::new(2_000, 1_000, |packet| (200..400).contains(&packet));
        for number in 0..60 {
            path.frame(number, 10);
            assert_eq!(path.queue.holds, None, "frame {number}");
        }
    }

    /// Random loss of this share of all packets.
    fn by_chance(seed: u64, share: f64) -> impl Fn(u64) -> bool {
        move |packet| {
            let noise = (packet ^ (seed << 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
            let noise = noise.wrapping_mul(0xbf58_476d_1ce4_e5b9);
            (noise >> 11) as f64 / ((1_u64 << 53) as f64) < share
        }
    }

    /// Share of the frames after which the path counts as one with a short queue.
    fn share_held(mut path: Path, frames: u32, fragments: u16) -> f64 {
        let held = (0..frames).filter(|&number| {
            path.frame(number, fragments);
            path.queue.holds.is_some()
        });
        held.count() as f64 / f64::from(frames)
    }

    #[test]
    fn random_loss_is_rarely_mistaken_for_a_short_queue() {
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
    fn random_loss_of_long_frames_is_rarely_a_short_queue() {
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
        fn pause_is_at_most_half_a_second(kbps in 1_u64..1_000, holds in 0_usize..20, fragments in 1_u16..60) {
            let mut path = Path::new(kbps, holds, |_| false);
            for number in 0..20 {
                path.frame(number, fragments);
                prop_assert!(path.queue.min_pause() <= PathConfig::default().window);
            }
        }
    }
}
