//! Test loop: a controller and an estimator around an emulated link, for behaviour tests.
//!
//! The loop uses the transport of calls. Frames have a length only, close to their budgets. The link has one
//! bottleneck; feedback returns at once or in batches. The loop owns the clock.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockstep_link::{Link, LinkConfig, LossConfig, LossInterval, QueueConfig, Segment, Trace};
use lockstep_transport::{
    Datagram, FeedbackInterval, Length, OutgoingFrame, Receiver, ReceiverConfig, ReceiverEvent, Sender, SenderConfig,
    SenderEvent, StateId, VideoFormat,
};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use crate::{
    Allowance, Controller, ControllerSetup, Estimator, InFlight, Input, KnownCapacity, KnownPath, KnownQueue,
    PathObserver, Tuning,
};

const PAYLOAD: u64 = 1_200;
const FRAME_INTERVAL: Duration = Duration::from_nanos(33_333_333);
const QUEUE: Duration = Duration::from_millis(300);
/// Number of frames without a budget before a small frame is sent anyway. It replaces the probes of a call's sending
/// end (`PathObserver::is_probe_due`).
const MAX_SKIPPED_FRAMES: u32 = 3;
const MIN_FRAME_BYTES: u32 = 300;

/// Setup of controllers in the loop.
pub(crate) fn setup() -> ControllerSetup {
    ControllerSetup::new(ByteCount::new(PAYLOAD), FRAME_INTERVAL)
}

impl KnownCapacity for Trace {
    fn bytes_between(&self, from: Timestamp, to: Timestamp) -> ByteCount {
        Self::bytes_between(self, from, to)
    }

    fn loss_at(&self, at: Timestamp) -> f64 {
        self.conditions_at(at).loss
    }
}

/// Known path over a link with this trace and the default queue. The trace starts with the sender's clock.
pub(crate) fn known_path(trace: &Trace) -> KnownPath {
    let LinkConfig { queue, .. } = LinkConfig::new(trace.clone());
    let (packets, bytes) = queue.limits();
    KnownPath {
        capacity: Arc::new(trace.clone()),
        offset: Duration::ZERO,
        start: Timestamp::ZERO,
        queue: KnownQueue { packets, bytes, target: None },
        loss: 0.0,
    }
}

/// Conditions of a test.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) trace: Trace,
    pub(crate) delay: Duration,
    pub(crate) queue: ByteCount,
    /// Share of packets lost at random.
    pub(crate) loss: f64,
    /// Interval in which every packet is lost.
    pub(crate) outage: Option<(Duration, Duration)>,
    /// Feedback interval; none: feedback for each datagram.
    pub(crate) feedback_interval: Option<Duration>,
    /// Whether the queue runs CoDel with ECN marking.
    pub(crate) ecn: bool,
    /// Mean fill of frames.
    pub(crate) fill: f64,
    pub(crate) length: Duration,
    pub(crate) seed: u64,
}

impl Plan {
    /// A plan of 20 s with 25 ms per direction and no loss. The queue holds 300 ms at the first rate of the trace (RFC
    /// 8867, section 4.3).
    pub(crate) fn new(trace: Trace) -> Self {
        let queue = trace.mean_capacity(Timestamp::ZERO, Timestamp::from_millis(1_000)).bytes_in(QUEUE);
        Self {
            trace,
            queue,
            delay: Duration::from_millis(25),
            loss: 0.0,
            outage: None,
            feedback_interval: None,
            ecn: false,
            fill: 0.9,
            length: Duration::from_secs(20),
            seed: 1,
        }
    }

    pub(crate) fn constant(kbps: u64) -> Self {
        Self::new(Trace::constant(Bitrate::from_kbps(kbps)))
    }

    /// Two rates, `seconds` each.
    pub(crate) fn step(first_kbps: u64, then_kbps: u64, seconds: u64) -> Self {
        let segment = |kbps| Segment {
            duration: Duration::from_secs(seconds),
            rate: Bitrate::from_kbps(kbps),
            conditions: lockstep_link::Conditions::NONE,
        };
        let segments = [segment(first_kbps), segment(then_kbps)];
        let trace = Trace::from_segments(&segments, lockstep_link::End::Hold).unwrap();
        Self { length: Duration::from_secs(2 * seconds), ..Self::new(trace) }
    }
}

/// Result of a test.
pub(crate) struct Outcome {
    /// Arrival time, size and queueing delay of each delivered packet.
    delivered: Vec<(Timestamp, ByteCount, Duration)>,
    /// Target at each frame.
    targets: Vec<(Timestamp, Bitrate)>,
}

impl Outcome {
    fn between(&self, from: u64, to: u64) -> impl Iterator<Item = &(Timestamp, ByteCount, Duration)> {
        let range = Timestamp::from_millis(1_000 * from)..Timestamp::from_millis(1_000 * to);
        self.delivered.iter().filter(move |(at, ..)| range.contains(at))
    }

    /// Delivery rate between two seconds.
    pub(crate) fn rate(&self, from: u64, to: u64) -> Bitrate {
        Bitrate::mean(self.between(from, to).map(|&(_, size, _)| size).sum(), Duration::from_secs(to - from))
    }

    /// Mean target between two seconds.
    pub(crate) fn mean_target(&self, from: u64, to: u64) -> Bitrate {
        let range = Timestamp::from_millis(1_000 * from)..Timestamp::from_millis(1_000 * to);
        let targets = self.targets.iter().filter(|(at, _)| range.contains(at)).map(|(_, target)| target.as_bps());
        let (sum, count) = targets.fold((0, 0), |(sum, count), target| (sum + target, count + 1));
        Bitrate::from_bps(sum / count.max(1))
    }

    /// The `share` quantile of the queueing delays between two seconds.
    pub(crate) fn queueing_delay(&self, from: u64, to: u64, share: f64) -> Duration {
        let mut delays: Vec<_> = self.between(from, to).map(|&(.., delay)| delay).collect();
        delays.sort();
        let at = ((delays.len() as f64 * share) as usize).min(delays.len().saturating_sub(1));
        delays.get(at).copied().unwrap_or_default()
    }
}

/// Debug output of failed tests: per second the rate, the median and 95th percentile of the queueing delay, and the
/// target.
impl fmt::Debug for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self.targets.last().map_or(0, |(at, _)| at.as_micros() / 1_000_000);
        for second in 0..end {
            let delay = |share| self.queueing_delay(second, second + 1, share).as_millis();
            let at = self.targets.partition_point(|(at, _)| *at < Timestamp::from_millis(1_000 * second + 999));
            let target = self.targets.get(at).map_or(Bitrate::ZERO, |&(_, target)| target);
            let rate = self.rate(second, second + 1);
            write!(formatter, "\n{second:3} s: {rate}, queue {} / {} ms, target {target}", delay(0.5), delay(0.95))?;
        }
        Ok(())
    }
}

/// Pseudorandom numbers.
struct Noise(u64);

impl Noise {
    /// A number from 0 to 1.
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

fn link(plan: &Plan) -> Link<Datagram<Length>> {
    let scheduled = plan.outage.iter().map(|&(from, to)| LossInterval { from, to, loss: 1.0 }).collect();
    let queue = QueueConfig::drop_tail_bytes(plan.queue);
    let config = LinkConfig {
        delay: plan.delay,
        queue: if plan.ecn { queue.with_codel().with_ecn() } else { queue },
        loss: LossConfig { random: plan.loss, scheduled, ..LossConfig::default() },
        ..LinkConfig::new(plan.trace.clone())
    };
    Link::new(config, plan.seed).unwrap()
}

/// Sending end: sends the frames that `controller` allows.
struct Sending<'a> {
    transport: Sender<Length>,
    path: PathObserver,
    controller: &'a mut dyn Controller,
    noise: Noise,
    fill: f64,
    frames: u64,
    skips: u32,
}

impl Sending<'_> {
    fn allowance(&self, now: Timestamp) -> Allowance {
        self.controller.allowance(&self.path.view(now), InFlight::of(&self.transport, ByteCount::new(PAYLOAD)))
    }

    fn pass(&mut self, now: Timestamp, input: Input<'_>) {
        self.path.pass(now, input, self.controller);
    }

    /// Sends a frame if the budget allows one. Returns the current target.
    fn capture(&mut self, now: Timestamp) -> Bitrate {
        self.pass(now, Input::Time);
        let Allowance { budget, target, .. } = self.allowance(now);
        let spread = 2.0 * (1.0 - self.fill) * (self.noise.next() - 0.5);
        let mut size = (budget.as_f64() * (self.fill + spread)) as u32;
        if size < MIN_FRAME_BYTES {
            self.skips += 1;
            if self.skips <= MAX_SKIPPED_FRAMES {
                return target;
            }
            size = MIN_FRAME_BYTES;
        }
        self.skips = 0;
        self.frames += 1;
        let frame = OutgoingFrame {
            source: self.transport.next_source(),
            target: StateId(self.frames),
            captured: now,
            key_frame: false,
            parity: 0,
            payload: Length(size),
        };
        self.transport.send_frame(now, frame).unwrap();
        self.pass(now, Input::Encoded(ByteCount::new(size as u64)));
        target
    }

    /// The next datagram that leaves at `now`.
    fn transmit(&mut self, now: Timestamp) -> Option<(ByteCount, Datagram<Length>)> {
        self.transport.set_pace(self.allowance(now).pacing_interval, 1);
        let transmit = self.transport.poll_transmit(now)?;
        if transmit.fragment.is_some() {
            self.pass(now, Input::Sent(transmit.size));
        }
        Some((transmit.size, transmit.datagram))
    }

    /// Passes the transport's events to the controller.
    fn pass_events(&mut self, now: Timestamp) {
        while let Some(event) = self.transport.poll_event() {
            match event {
                SenderEvent::Feedback(feedback) => self.pass(now, Input::Feedback(&feedback)),
                SenderEvent::FragmentsLost(lost) => self.pass(now, Input::Lost(&lost)),
                _ => {}
            }
        }
    }
}

/// Receiving end: decodes every arriving frame at once.
struct Receiving<'a> {
    transport: Receiver<Length>,
    estimator: Option<&'a mut dyn Estimator>,
}

impl Receiving<'_> {
    fn take(&mut self, now: Timestamp, datagram: Datagram<Length>, congestion_experienced: bool) {
        let taken = self.transport.handle_datagram(now, Ok(datagram), congestion_experienced);
        assert!(taken, "{:?}", self.transport.statistics());
        while let Some(event) = self.transport.poll_event() {
            match event {
                ReceiverEvent::Arrival(arrival) => {
                    if let Some(estimator) = &mut self.estimator {
                        estimator.on_arrival(&arrival);
                    }
                }
                ReceiverEvent::Frame { frame, target, .. } => self.transport.frame_decoded(frame, target),
                _ => {}
            }
        }
    }

    fn transmit(&mut self, now: Timestamp) -> Option<Datagram<Length>> {
        if let Some(estimator) = &mut self.estimator {
            self.transport.set_estimate(estimator.estimate(now));
        }
        Some(self.transport.poll_transmit(now)?.datagram)
    }
}

/// Runs `plan` to its end.
pub(crate) fn run(plan: &Plan, controller: &mut dyn Controller, estimator: Option<&mut dyn Estimator>) -> Outcome {
    let format = VideoFormat { width: 1280, height: 720, frame_rate_numerator: 30, frame_rate_denominator: 1 };
    let feedback = plan.feedback_interval.map_or(FeedbackInterval::EveryFragment, FeedbackInterval::Every);
    let config = SenderConfig { payload: PAYLOAD as usize, feedback, ..SenderConfig::new(1, format) };
    let transport = Sender::new(config);
    let noise = Noise(plan.seed);
    let path = PathObserver::new(ByteCount::new(PAYLOAD), &Tuning::default());
    let mut sending = Sending { transport, path, controller, noise, fill: plan.fill, frames: 0, skips: 0 };
    // Both ends know the connection from the start, so lost hellos do not affect a controller's test.
    let config = ReceiverConfig { connection: Some(1), feedback, ..ReceiverConfig::default() };
    let mut receiving = Receiving { transport: Receiver::new(config), estimator };
    let mut link = link(plan);
    let mut reverse = VecDeque::<(Timestamp, Datagram<Length>)>::new();
    let mut outcome = Outcome { delivered: Vec::new(), targets: Vec::new() };
    let (mut now, mut next_frame) = (Timestamp::ZERO, Timestamp::ZERO);
    while now < Timestamp::ZERO + plan.length {
        while let Some(delivered) = link.poll(now) {
            if matches!(delivered.packet, Datagram::Data(_)) {
                let queued = delivered.queueing_delay + delivered.service_time;
                outcome.delivered.push((delivered.at, delivered.size, queued));
            }
            receiving.take(now, delivered.packet, delivered.congestion_experienced);
            reverse.extend(receiving.transmit(now).map(|datagram| (now + plan.delay, datagram)));
        }
        while let Some((_, datagram)) = reverse.pop_front_if(|(at, _)| *at <= now) {
            let taken = sending.transport.handle_datagram(now, Ok(datagram));
            assert!(taken, "{:?}", sending.transport.statistics());
            sending.pass_events(now);
        }
        sending.transport.handle_timeout(now);
        sending.pass_events(now);
        if now >= next_frame {
            next_frame += FRAME_INTERVAL;
            outcome.targets.push((now, sending.capture(now)));
        }
        while let Some((size, datagram)) = sending.transmit(now) {
            let _ = link.send_ecn_capable(now, size, datagram);
        }
        while let Some(datagram) = receiving.transmit(now) {
            reverse.push_back((now + plan.delay, datagram));
        }
        let transports = [sending.transport.poll_timeout(), receiving.transport.poll_timeout()];
        let arrivals = [link.poll_timeout(), reverse.front().map(|&(at, _)| at)];
        let due = transports.into_iter().chain(arrivals).flatten().min().map_or(next_frame, |at| at.min(next_frame));
        // A timeout in the past counts as now. Wire clocks count microseconds.
        now = due.max(now + Duration::from_micros(1));
    }
    outcome
}
