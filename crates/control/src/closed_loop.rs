//! A controller and an estimator around a link, for behaviour tests: frames as large as their budgets nearly, a pacer, a
//! bottleneck, feedback at once or in batches, losses told when later fragments arrived. It owns the clock.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::Duration;

use lockstep_link::{Link, LinkConfig, LossConfig, LossInterval, QueueConfig, Segment, Trace};
use lockstep_transport::{AcknowledgedFragment, Arrival, Estimate, Feedback, LostFragment};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use crate::{Controller, Estimator, InFlight, Setting};

const PAYLOAD: u64 = 1_200;
const FRAME_INTERVAL: Duration = Duration::from_nanos(33_333_333);
const HEADER: u64 = 68;
const QUEUE: Duration = Duration::from_millis(300);
const TICK: Duration = Duration::from_micros(500);
/// After so many frames without a budget a small one is sent all the same, as the sending end of a call does.
const MOST_SKIPS: u32 = 3;
const SMALLEST_FRAME: u64 = 300;
/// A fragment counts as lost when so many later ones have come, or after so long.
const REORDERING: u64 = 3;
const TAIL: Duration = Duration::from_millis(600);

/// What controllers are told of the loop.
pub(crate) fn setting() -> Setting {
    Setting::new(ByteCount::new(PAYLOAD), FRAME_INTERVAL)
}

/// What a test lets happen.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) trace: Trace,
    pub(crate) delay: Duration,
    pub(crate) queue: ByteCount,
    /// Share of packets lost at random.
    pub(crate) loss: f64,
    /// A time in which every packet is lost.
    pub(crate) outage: Option<(Duration, Duration)>,
    /// None: a feedback for each datagram.
    pub(crate) feedback_interval: Option<Duration>,
    /// Whether the queue is one of CoDel and marks what it would drop.
    pub(crate) ecn: bool,
    /// Frames have this share of their budgets on average.
    pub(crate) fill: f64,
    pub(crate) length: Duration,
    pub(crate) seed: u64,
}

impl Plan {
    /// Twenty seconds, 25 ms each way, a queue of 300 ms at what the trace starts with (RFC 8867, section 4.3), no loss.
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

    /// One rate for so many seconds, then another for as many.
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

/// What came out.
pub(crate) struct Outcome {
    /// When, how much, and how long it had waited in the queue.
    delivered: Vec<(Timestamp, ByteCount, Duration)>,
    /// The target at each frame.
    targets: Vec<(Timestamp, Bitrate)>,
}

impl Outcome {
    fn between(&self, from: u64, to: u64) -> impl Iterator<Item = &(Timestamp, ByteCount, Duration)> {
        let range = Timestamp::from_millis(1_000 * from)..Timestamp::from_millis(1_000 * to);
        self.delivered.iter().filter(move |(at, ..)| range.contains(at))
    }

    /// The rate delivered between two seconds.
    pub(crate) fn rate(&self, from: u64, to: u64) -> Bitrate {
        Bitrate::mean(self.between(from, to).map(|&(_, size, _)| size).sum(), Duration::from_secs(to - from))
    }

    /// The mean of the targets between two seconds.
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

/// For messages of tests: rate, median and 95th percentile of the queueing delay, and target, second by second.
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

#[derive(Clone)]
struct Datagram {
    sequence: u64,
    frame: u32,
    fragment: u16,
    size: ByteCount,
    sent_at: Timestamp,
}

/// A sequence of numbers that looks random.
struct Noise(u64);

impl Noise {
    /// From 0 to 1.
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[derive(Default)]
struct Sender {
    queue: VecDeque<(u32, u16, ByteCount)>,
    in_flight: BTreeMap<u64, Datagram>,
    next_sequence: u64,
    free_at: Timestamp,
    frame: u32,
    skips: u32,
}

impl Sender {
    fn in_flight(&self) -> InFlight {
        let queued: ByteCount = self.queue.iter().map(|&(.., size)| size).sum();
        let sent: ByteCount = self.in_flight.values().map(|datagram| datagram.size).sum();
        InFlight { fragments: (self.queue.len() + self.in_flight.len()) as u64, bytes: sent + queued, queued }
    }

    fn send_frame(&mut self, size: u64) {
        let mut left = size;
        for fragment in 0.. {
            let part = left.min(PAYLOAD);
            self.queue.push_back((self.frame, fragment, ByteCount::new(part + HEADER)));
            left -= part;
            if left == 0 {
                break;
            }
        }
        self.frame += 1;
    }

    fn acknowledged(&mut self, now: Timestamp, arrivals: &[(Datagram, Timestamp, bool)]) -> Vec<AcknowledgedFragment> {
        let known = arrivals.iter().filter_map(|(datagram, arrived_at, marked)| {
            let sent = self.in_flight.remove(&datagram.sequence)?;
            Some(AcknowledgedFragment {
                frame: sent.frame,
                fragment: sent.fragment,
                size: sent.size,
                sent_at: sent.sent_at,
                arrived_at: *arrived_at,
                acknowledged_at: now,
                congestion_experienced: *marked,
            })
        });
        known.collect()
    }

    fn lost(&mut self, now: Timestamp, highest: u64) -> Vec<LostFragment> {
        let is_lost =
            |sent: &Datagram| sent.sequence + REORDERING <= highest || now.saturating_since(sent.sent_at) > TAIL;
        let lost: Vec<_> = self.in_flight.values().filter(|sent| is_lost(sent)).cloned().collect();
        for sent in &lost {
            self.in_flight.remove(&sent.sequence);
        }
        let told = |sent: Datagram| LostFragment {
            frame: sent.frame,
            fragment: sent.fragment,
            size: sent.size,
            sent_at: sent.sent_at,
        };
        lost.into_iter().map(told).collect()
    }
}

#[derive(Default)]
struct Receiver {
    unreported: Vec<(Datagram, Timestamp, bool)>,
    received: u64,
    highest: u64,
    reported_at: Timestamp,
}

/// What the receiver sends back.
struct Report {
    arrives_at: Timestamp,
    arrivals: Vec<(Datagram, Timestamp, bool)>,
    estimate: Estimate,
    highest: u64,
    received: u64,
    hold: Duration,
}

impl Receiver {
    fn report(
        &mut self,
        now: Timestamp,
        delay: Duration,
        estimator: &mut Option<&mut dyn Estimator>,
    ) -> Option<Report> {
        let newest = self.unreported.last()?.1;
        self.reported_at = now;
        Some(Report {
            arrives_at: now + delay,
            arrivals: std::mem::take(&mut self.unreported),
            estimate: estimator.as_mut().map_or_else(Estimate::default, |estimator| estimator.estimate(now)),
            highest: self.highest,
            received: self.received,
            hold: now.saturating_since(newest),
        })
    }
}

fn link(plan: &Plan) -> Link<Datagram> {
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

/// Runs `plan` to its end.
pub(crate) fn run(plan: &Plan, controller: &mut dyn Controller, mut estimator: Option<&mut dyn Estimator>) -> Outcome {
    let mut link = link(plan);
    let (mut sender, mut receiver) = (Sender::default(), Receiver::default());
    let mut reports = VecDeque::<Report>::new();
    let mut noise = Noise(plan.seed);
    let mut outcome = Outcome { delivered: Vec::new(), targets: Vec::new() };
    let (mut now, mut next_frame) = (Timestamp::ZERO, Timestamp::ZERO);
    while now < Timestamp::ZERO + plan.length {
        while let Some(delivered) = link.poll(now) {
            let datagram = delivered.packet;
            let queued = delivered.queueing_delay + delivered.service_time;
            outcome.delivered.push((delivered.at, datagram.size, queued));
            if let Some(estimator) = &mut estimator {
                estimator.on_arrival(&Arrival {
                    arrived_at: delivered.at,
                    sent_at: datagram.sent_at,
                    size: datagram.size,
                    sequence: datagram.sequence,
                    frame: datagram.frame,
                    fragment: datagram.fragment,
                    grace: Duration::ZERO,
                    congestion_experienced: delivered.congestion_experienced,
                });
            }
            receiver.received += 1;
            receiver.highest = receiver.highest.max(datagram.sequence);
            receiver.unreported.push((datagram, delivered.at, delivered.congestion_experienced));
            if plan.feedback_interval.is_none() {
                reports.extend(receiver.report(now, plan.delay, &mut estimator));
            }
        }
        if plan.feedback_interval.is_some_and(|interval| now.saturating_since(receiver.reported_at) >= interval) {
            reports.extend(receiver.report(now, plan.delay, &mut estimator));
        }
        while let Some(report) = reports.pop_front_if(|report| report.arrives_at <= now) {
            let acknowledged = sender.acknowledged(now, &report.arrivals);
            let round_trip_time =
                acknowledged.last().map(|newest| now.saturating_since(newest.sent_at).saturating_sub(report.hold));
            controller.on_feedback(
                now,
                &Feedback {
                    found: 0,
                    acknowledged,
                    estimate: report.estimate,
                    round_trip_time,
                    highest_sequence: report.highest,
                    received: report.received,
                },
            );
            let lost = sender.lost(now, report.highest);
            if !lost.is_empty() {
                controller.on_loss(now, &lost);
            }
        }
        let lost = sender.lost(now, 0);
        if !lost.is_empty() {
            controller.on_loss(now, &lost);
        }
        if now >= next_frame {
            next_frame += FRAME_INTERVAL;
            let allowance = controller.allowance(now, sender.in_flight());
            outcome.targets.push((now, allowance.target));
            let spread = 2.0 * (1.0 - plan.fill) * (noise.next() - 0.5);
            let size = (allowance.budget.as_f64() * (plan.fill + spread)) as u64;
            sender.skips = if size < SMALLEST_FRAME { sender.skips + 1 } else { 0 };
            if size >= SMALLEST_FRAME {
                sender.send_frame(size);
            } else if sender.skips > MOST_SKIPS {
                sender.skips = 0;
                sender.send_frame(SMALLEST_FRAME);
            }
        }
        while sender.free_at <= now
            && let Some((frame, fragment, size)) = sender.queue.pop_front()
        {
            let interval = controller.allowance(now, sender.in_flight()).pacing_interval;
            let datagram = Datagram { sequence: sender.next_sequence, frame, fragment, size, sent_at: now };
            sender.next_sequence += 1;
            sender.free_at = sender.free_at.max(now) + interval;
            sender.in_flight.insert(datagram.sequence, datagram.clone());
            controller.on_transmit(now, size);
            let _ = link.send_ecn_capable(now, size, datagram);
        }
        now += TICK;
    }
    outcome
}
