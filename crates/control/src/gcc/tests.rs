//! Tests of the whole GCC: calls over a link, with feedback per datagram or in intervals.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use lockstep_link::{Delivered, Link, LinkConfig, LossConfig, QueueConfig, Trace};
use lockstep_transport::{AcknowledgedFragment, Estimate, Feedback, LostFragment};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use super::Gcc;
use crate::{Controller, ControllerSetup, InFlight, PathView, RateBounds};

pub(super) fn acknowledged(sent: u64, arrived: u64, size: u64) -> AcknowledgedFragment {
    AcknowledgedFragment {
        frame: 0,
        fragment: 0,
        size: ByteCount::new(size),
        sent_at: Timestamp::from_millis(sent),
        arrived_at: Timestamp::from_millis(arrived),
        acknowledged_at: Timestamp::from_millis(arrived + 25),
        congestion_experienced: false,
    }
}

pub(super) fn lost(sent: u64, size: u64) -> LostFragment {
    LostFragment { frame: 0, fragment: 0, size: ByteCount::new(size), sent_at: Timestamp::from_millis(sent) }
}

const PAYLOAD: u64 = 1_200;
const HEADER: u64 = 60;
const FRAME_INTERVAL: Duration = Duration::from_nanos(33_333_333);
const STEP: Duration = Duration::from_micros(250);
const ONE_WAY_DELAY: Duration = Duration::from_millis(25);
/// Offset of the receiver's clock ahead of the sender's.
const CLOCK_OFFSET: Duration = Duration::from_secs(1_000);

/// A call whose frames use the whole budget, or less if the application sends less.
struct Call {
    gcc: Gcc,
    link: Link<u64>,
    /// Feedback interval; none for feedback per datagram.
    feedback_interval: Option<Duration>,
    most_sent: Option<Bitrate>,
    now: Timestamp,
    next_frame: Timestamp,
    next_feedback: Timestamp,
    next_transmission: Timestamp,
    queue: VecDeque<ByteCount>,
    next_sequence: u64,
    under_way: BTreeMap<u64, (Timestamp, ByteCount)>,
    arrived: Vec<(u64, Timestamp)>,
    returning: VecDeque<(Timestamp, Vec<(u64, Timestamp)>)>,
    /// Sending time, queueing delay and size of each arrived datagram.
    deliveries: Vec<(Timestamp, Duration, ByteCount)>,
    /// Target, sampled every 100 ms.
    targets: Vec<f64>,
}

/// A view without measurements, since Gcc measures the path itself.
fn at(now: Timestamp) -> PathView<'static> {
    PathView { now, ..PathView::default() }
}

impl Call {
    fn over(config: LinkConfig) -> Self {
        let setup = ControllerSetup::new(ByteCount::new(PAYLOAD), FRAME_INTERVAL);
        Self {
            gcc: Gcc::new(&setup),
            link: Link::new(config, 1).expect("a valid link"),
            feedback_interval: None,
            most_sent: None,
            now: Timestamp::ZERO,
            next_frame: Timestamp::ZERO,
            next_feedback: Timestamp::ZERO,
            next_transmission: Timestamp::ZERO,
            queue: VecDeque::new(),
            next_sequence: 0,
            under_way: BTreeMap::new(),
            arrived: Vec::new(),
            returning: VecDeque::new(),
            deliveries: Vec::new(),
            targets: Vec::new(),
        }
    }

    fn feedback_every(mut self, milliseconds: u64) -> Self {
        self.feedback_interval = Some(Duration::from_millis(milliseconds));
        self
    }

    fn sending_at_most(mut self, rate: Bitrate) -> Self {
        self.most_sent = Some(rate);
        self
    }

    fn until(&mut self, seconds: u64) -> &mut Self {
        while self.now < Timestamp::from_millis(seconds * 1_000) {
            self.receive();
            self.feed_back();
            self.encode();
            self.transmit();
            if self.now.as_micros().is_multiple_of(100_000) {
                self.targets.push(self.gcc.allowance(&at(self.now), self.in_flight()).target.as_mbps());
            }
            self.now += STEP;
        }
        self
    }

    fn receive(&mut self) {
        while let Some(Delivered { at, sent_at, size, queueing_delay, packet, .. }) = self.link.poll(self.now) {
            self.deliveries.push((sent_at, queueing_delay, size));
            self.arrived.push((packet, at + CLOCK_OFFSET));
            if self.feedback_interval.is_none() {
                self.returning.push_back((self.now + ONE_WAY_DELAY, std::mem::take(&mut self.arrived)));
            }
        }
        if let Some(interval) = self.feedback_interval
            && self.now >= self.next_feedback
        {
            self.next_feedback += interval;
            self.returning.push_back((self.now + ONE_WAY_DELAY, std::mem::take(&mut self.arrived)));
        }
    }

    fn feed_back(&mut self) {
        while self.returning.front().is_some_and(|(at, _)| *at <= self.now) {
            let Some((_, arrived)) = self.returning.pop_front() else { return };
            let Some(&(highest_sequence, _)) = arrived.last() else { continue };
            let fragment = |(sequence, arrived_at)| {
                let (sent_at, size) = self.under_way.remove(&sequence)?;
                let acknowledged_at = self.now;
                let frame = sequence as u32;
                Some(AcknowledgedFragment {
                    frame,
                    fragment: 0,
                    size,
                    sent_at,
                    arrived_at,
                    acknowledged_at,
                    congestion_experienced: false,
                })
            };
            let acknowledged = arrived.into_iter().filter_map(fragment).collect();
            let estimate = Estimate::default();
            let feedback = Feedback {
                found: 0,
                acknowledged,
                estimate,
                round_trip_time: None,
                highest_sequence,
                received: highest_sequence,
            };
            self.gcc.on_feedback(self.now, &feedback);
            let later = self.under_way.split_off(&highest_sequence.saturating_sub(2));
            let lost: Vec<_> = std::mem::replace(&mut self.under_way, later)
                .into_iter()
                .map(|(sequence, (sent_at, size))| LostFragment { frame: sequence as u32, fragment: 0, size, sent_at })
                .collect();
            if !lost.is_empty() {
                self.gcc.on_loss(self.now, &lost);
            }
        }
    }

    fn in_flight(&self) -> InFlight {
        let queued = self.queue.iter().copied().sum::<ByteCount>();
        let bytes = self.under_way.values().map(|&(_, size)| size).sum::<ByteCount>() + queued;
        InFlight { fragments: (self.under_way.len() + self.queue.len()) as u64, bytes, queued }
    }

    fn encode(&mut self) {
        if self.now < self.next_frame {
            return;
        }
        self.next_frame += FRAME_INTERVAL;
        let budget = self.gcc.allowance(&at(self.now), self.in_flight()).budget;
        let wanted = self.most_sent.map_or(budget, |rate| rate.bytes_in(FRAME_INTERVAL));
        let mut left = budget.min(wanted).get();
        while left > 0 {
            let payload = left.min(PAYLOAD);
            self.queue.push_back(ByteCount::new(payload + HEADER));
            left -= payload;
        }
    }

    fn transmit(&mut self) {
        while self.now >= self.next_transmission {
            let Some(size) = self.queue.pop_front() else { return };
            self.under_way.insert(self.next_sequence, (self.now, size));
            let _ = self.link.send(self.now, size, self.next_sequence);
            self.next_sequence += 1;
            self.gcc.on_sent(self.now, size);
            let interval = self.gcc.allowance(&at(self.now), self.in_flight()).pacing_interval;
            self.next_transmission = self.next_transmission.max(self.now - STEP) + interval;
        }
    }

    /// Mean target between two times in seconds, Mb/s.
    fn target(&self, from: usize, to: usize) -> f64 {
        let targets = &self.targets[from * 10..to * 10];
        targets.iter().sum::<f64>() / targets.len() as f64
    }

    /// Rate of arrived bytes between two times in seconds, Mb/s.
    fn throughput(&self, from: u64, to: u64) -> f64 {
        let within = self.sent_within(from, to);
        let bytes: ByteCount = within.map(|&(_, _, size)| size).sum();
        Bitrate::mean(bytes, Duration::from_secs(to - from)).as_mbps()
    }

    /// 95th percentile of the queueing delay of data sent between two times in seconds, milliseconds.
    fn queueing_delay(&self, from: u64, to: u64) -> u128 {
        let mut waits: Vec<_> = self.sent_within(from, to).map(|&(_, wait, _)| wait).collect();
        waits.sort_unstable();
        waits[waits.len() * 95 / 100].as_millis()
    }

    fn sent_within(&self, from: u64, to: u64) -> impl Iterator<Item = &(Timestamp, Duration, ByteCount)> {
        let span = Timestamp::from_millis(from * 1_000)..Timestamp::from_millis(to * 1_000);
        self.deliveries.iter().filter(move |(sent_at, ..)| span.contains(sent_at))
    }
}

fn constant(kbps: u64, loss: f64) -> LinkConfig {
    let rate = Bitrate::from_kbps(kbps);
    let mut config = LinkConfig::new(Trace::from_spec(&format!("constant:{kbps}kbps")).expect("a trace"));
    config.queue = QueueConfig::drop_tail_bytes(rate.bytes_in(Duration::from_millis(300)));
    config.delay = ONE_WAY_DELAY;
    config.loss = LossConfig { random: loss, ..LossConfig::default() };
    config
}

fn each_way_of_feedback(config: &LinkConfig) -> [Call; 3] {
    [
        Call::over(config.clone()),
        Call::over(config.clone()).feedback_every(50),
        Call::over(config.clone()).feedback_every(100),
    ]
}

#[test]
fn constant_link_is_used_with_a_short_queue() {
    for mut call in each_way_of_feedback(&constant(1_000, 0.0)) {
        call.until(60);
        let ways = call.feedback_interval;
        assert!((0.75..=1.05).contains(&call.target(15, 20)), "{ways:?}: {}", call.target(15, 20));
        assert!((0.75..=1.05).contains(&call.target(20, 60)), "{ways:?}: {}", call.target(20, 60));
        assert!(call.throughput(20, 60) > 0.7, "{ways:?}: {}", call.throughput(20, 60));
        assert!(call.queueing_delay(5, 60) < 150, "{ways:?}: {} ms", call.queueing_delay(5, 60));
    }
}

#[test]
fn probes_find_most_of_the_capacity_in_the_first_second() {
    let mut call = Call::over(constant(2_500, 0.0));
    call.until(3);
    assert!(call.target(1, 2) > 1.2, "{}", call.target(1, 2));
}

#[test]
fn rate_follows_a_lower_capacity_within_seconds() {
    let trace = Trace::from_spec("steps:2500kbps@30s/600kbps@30s").expect("a trace");
    let config =
        LinkConfig { trace, queue: QueueConfig::drop_tail_bytes(ByteCount::new(94_000)), ..constant(2_500, 0.0) };
    for mut call in each_way_of_feedback(&config) {
        call.until(60);
        let ways = call.feedback_interval;
        assert!(call.target(15, 30) > 1.8, "{ways:?}: {}", call.target(15, 30));
        assert!((0.4..=0.65).contains(&call.target(34, 60)), "{ways:?}: {}", call.target(34, 60));
        // At 0.85 of the throughput, 90 kb/s remain to drain the queue of 94 kB, which may take 8 s.
        assert!(call.queueing_delay(38, 60) < 250, "{ways:?}: {} ms", call.queueing_delay(38, 60));
    }
}

#[test]
fn random_loss_of_5_percent_keeps_the_rate() {
    for mut call in each_way_of_feedback(&constant(1_000, 0.05)) {
        let target = call.until(60).target(20, 60);
        assert!(target > 0.55, "{:?}: {target}", call.feedback_interval);
    }
}

#[test]
fn random_loss_of_20_percent_lowers_the_rate() {
    for mut call in each_way_of_feedback(&constant(1_000, 0.2)) {
        let target = call.until(60).target(40, 60);
        assert!(target < 0.4, "{:?}: {target}", call.feedback_interval);
    }
}

#[test]
fn target_of_a_limited_application_is_bounded() {
    for call in each_way_of_feedback(&constant(10_000, 0.0)) {
        let mut call = call.sending_at_most(Bitrate::from_kbps(500));
        call.until(60);
        assert!((0.5..=1.0).contains(&call.target(20, 60)), "{:?}: {}", call.feedback_interval, call.target(20, 60));
    }
}

#[test]
fn rate_recovers_after_an_outage() {
    let trace = Trace::from_spec("constant:1mbps,outage=20s+1s").expect("a trace");
    let mut call = Call::over(LinkConfig { trace, queue: QueueConfig::unlimited(), ..constant(1_000, 0.0) });
    call.until(60);
    assert!(call.target(40, 60) > 0.7, "{}", call.target(40, 60));
}

#[test]
fn arbitrary_times_and_sizes_keep_the_target_in_bounds() {
    let mut call = Call::over(constant(1_000, 0.0));
    call.until(2);
    for number in 0..200_u64 {
        let fragment = AcknowledgedFragment {
            frame: number as u32,
            fragment: 0,
            size: ByteCount::new(if number % 3 == 0 { u64::MAX } else { 0 }),
            sent_at: Timestamp::from_nanos(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            arrived_at: Timestamp::from_nanos(number.wrapping_mul(0xd1b5_4a32_d192_ed03)),
            acknowledged_at: call.now,
            congestion_experienced: false,
        };
        let feedback = Feedback {
            found: 0,
            acknowledged: vec![fragment],
            estimate: Estimate::default(),
            round_trip_time: None,
            highest_sequence: 0,
            received: 0,
        };
        call.gcc.on_feedback(call.now, &feedback);
        let target = call.gcc.allowance(&at(call.now), InFlight::default()).target;
        assert!((RateBounds::default().min..=RateBounds::default().max).contains(&target), "{target}");
    }
}
