//! A TCP connection as the network sees it: segments of 1,500 bytes, acknowledgements of 40 bytes, a congestion window.
//!
//! - A segment is lost once one sent three later is acknowledged (RFC 5681, RFC 6675). The timer finds other losses
//!   (RFC 6298).
//! - All losses among the segments in flight at the first detection reduce the window once (RFC 6582).
//! - An ECN mark reduces the window like a loss, once per window in flight (RFC 3168, section 6.1.2).
//! - Numbers count transmissions, as in QUIC (RFC 9002). A retransmission therefore needs no record of the original
//!   segment.

use std::collections::VecDeque;
use std::time::Duration;

use lockstep_units::{ByteCount, Timestamp};
use rand_pcg::Pcg64;

use super::congestion_window::CongestionWindow;
use super::cubic::Cubic;
use super::new_reno::NewReno;
use super::transfers::Workload;
use super::{PACKET, TrafficPacket, generator};
use crate::activity::Activity;
use crate::flow::{Arrived, Direction, Flow};

/// Size of an acknowledgement on the link: IPv4 and TCP headers.
const ACKNOWLEDGEMENT: ByteCount = ByteCount::new(40);
/// Size of the IPv4 and TCP headers of a segment.
const HEADERS: ByteCount = ByteCount::new(40);
/// A segment is lost once a segment sent this many later has arrived.
const REORDERING_THRESHOLD: u64 = 3;
/// Number of segments that one acknowledgement covers.
const ACKNOWLEDGED_SEGMENTS: u64 = 64;
/// Smallest timeout. RFC 6298 requires one second; Linux uses 200 ms.
const MIN_TIMEOUT: Duration = Duration::from_millis(200);
/// Timeout before the first measured round trip (RFC 6298, section 2.1).
const FIRST_TIMEOUT: Duration = Duration::from_secs(1);
/// Largest timeout (RFC 6298, section 2.5).
const MAX_TIMEOUT: Duration = Duration::from_secs(60);

/// Congestion window algorithm.
#[derive(Debug, Clone, PartialEq)]
pub enum WindowAlgorithm {
    /// NewReno: additive increase, multiplicative decrease.
    NewReno(NewReno),
    /// CUBIC: growth by a cubic function of time.
    Cubic(Cubic),
}

impl WindowAlgorithm {
    fn get(&self) -> &dyn CongestionWindow {
        match self {
            Self::NewReno(window) => window,
            Self::Cubic(window) => window,
        }
    }

    fn get_mut(&mut self) -> &mut dyn CongestionWindow {
        match self {
            Self::NewReno(window) => window,
            Self::Cubic(window) => window,
        }
    }
}

/// A segment that may be in flight.
#[derive(Debug, Clone, Copy)]
struct Sent {
    at: Timestamp,
    /// Whether the segment was acknowledged or declared lost.
    settled: bool,
}

/// Counters of a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TcpStatistics {
    /// Segments sent.
    pub sent: u64,
    /// Segments acknowledged.
    pub acknowledged: u64,
    /// Segments declared lost.
    pub lost: u64,
    /// Window reductions because of losses or marks.
    pub reductions: u64,
    /// Timeouts.
    pub timeouts: u64,
    /// Files transferred completely.
    pub files: u64,
    /// Total transfer time of these files.
    pub file_time: Duration,
}

/// Both ends of a TCP connection.
#[derive(Debug, Clone)]
pub struct Tcp {
    window: WindowAlgorithm,
    workload: Workload,
    activity: Activity,
    random: Pcg64,
    /// Number of the next segment.
    next: u64,
    /// Segments that may be in flight, from number [`Tcp::first`] on.
    sent: VecDeque<Sent>,
    first: u64,
    in_flight: u64,
    /// Losses of segments before this number do not reduce the window again.
    reduced_until: u64,
    highest_acknowledged: u64,
    /// Smoothed round-trip time and its variation.
    round_trip: Option<(Duration, Duration)>,
    backoff: u32,
    timeout_at: Option<Timestamp>,
    last_sent_at: Timestamp,
    /// Segments waiting to be sent.
    waiting: u64,
    /// Start of the next file, or of the whole workload.
    begins_at: Option<Timestamp>,
    file_began_at: Option<Timestamp>,
    statistics: TcpStatistics,
    /// Receiver: highest number received.
    largest: Option<u64>,
    /// Receiver: bit mask of the numbers up to it.
    received: u64,
    acknowledgements: u64,
    marked: u64,
    /// Sender: largest number of marks in any acknowledgement.
    reported_marks: u64,
}

impl Tcp {
    /// A connection that has not started. `seed` determines the random numbers of `workload`.
    #[must_use]
    pub fn new(window: WindowAlgorithm, workload: Workload, activity: Activity, seed: u64) -> Self {
        let mut random = generator(seed);
        let pause = match workload {
            Workload::Files(files) if files.begins_paused => files.pause(&mut random),
            _ => Duration::ZERO,
        };
        Self {
            window,
            workload,
            begins_at: activity.next_from(activity.start() + pause),
            activity,
            random,
            next: 0,
            sent: VecDeque::new(),
            first: 0,
            in_flight: 0,
            reduced_until: 0,
            highest_acknowledged: 0,
            round_trip: None,
            backoff: 0,
            timeout_at: None,
            last_sent_at: Timestamp::ZERO,
            waiting: 0,
            file_began_at: None,
            statistics: TcpStatistics::default(),
            largest: None,
            received: 0,
            acknowledgements: 0,
            marked: 0,
            reported_marks: 0,
        }
    }

    /// Counters so far.
    #[must_use]
    pub fn statistics(&self) -> TcpStatistics {
        self.statistics
    }

    /// Congestion window, packets.
    #[must_use]
    pub fn window(&self) -> f64 {
        self.window.get().window()
    }

    /// Retransmission timeout (RFC 6298, section 2).
    fn timeout(&self) -> Duration {
        let time = match self.round_trip {
            None => FIRST_TIMEOUT,
            Some((smoothed, variation)) => (smoothed + 4 * variation).max(MIN_TIMEOUT),
        };
        time.saturating_mul(1 << self.backoff.min(10)).min(MAX_TIMEOUT)
    }

    fn measure(&mut self, round_trip: Duration) {
        self.round_trip = Some(match self.round_trip {
            None => (round_trip, round_trip / 2),
            Some((smoothed, variation)) => {
                ((smoothed * 7 + round_trip) / 8, (variation * 3 + smoothed.abs_diff(round_trip)) / 4)
            }
        });
    }

    fn handle_acknowledgement(&mut self, now: Timestamp, largest: u64, received: u64, marked: u64) {
        if largest >= self.next {
            return;
        }
        let oldest_acknowledged = largest.saturating_sub(ACKNOWLEDGED_SEGMENTS - 1).max(self.first);
        let mut arrived = 0;
        for number in oldest_acknowledged..=largest {
            if received >> (largest - number) & 1 == 0 {
                continue;
            }
            let Some(sent) = self.sent.get_mut((number - self.first) as usize).filter(|sent| !sent.settled) else {
                continue;
            };
            sent.settled = true;
            let round_trip = now.saturating_since(sent.at);
            arrived += 1;
            if number == largest {
                self.measure(round_trip);
            }
        }
        if arrived == 0 {
            return;
        }
        self.highest_acknowledged = self.highest_acknowledged.max(largest);
        self.in_flight -= arrived;
        self.statistics.acknowledged += arrived;
        self.backoff = 0;
        // The window grows only if it limited the sender, and only for segments sent after the last reduction.
        let limited = self.waiting > 0 && (self.in_flight + arrived + 1) as f64 >= self.window();
        self.find_losses(now);
        if marked > self.reported_marks {
            self.reported_marks = marked;
            if largest >= self.reduced_until {
                self.reduce(now);
            }
        }
        if limited && largest >= self.reduced_until {
            let smoothed = self.round_trip.map_or(Duration::ZERO, |(smoothed, _)| smoothed);
            self.window.get_mut().on_acknowledged(now, arrived, smoothed);
        }
        self.timeout_at = (self.in_flight > 0).then(|| now + self.timeout());
        self.finish_file(now);
    }

    fn find_losses(&mut self, now: Timestamp) {
        let mut reduces = false;
        while let Some(oldest) = self.sent.front() {
            if !oldest.settled {
                if self.first + REORDERING_THRESHOLD > self.highest_acknowledged {
                    break;
                }
                reduces |= self.first >= self.reduced_until;
                self.lose();
            }
            self.sent.pop_front();
            self.first += 1;
        }
        if reduces {
            self.reduce(now);
        }
    }

    /// Reduces the window once for all segments in flight.
    fn reduce(&mut self, now: Timestamp) {
        self.window.get_mut().on_loss(now);
        self.reduced_until = self.next;
        self.statistics.reductions += 1;
    }

    /// Declares a segment lost and queues its data again.
    fn lose(&mut self) {
        self.in_flight -= 1;
        self.statistics.lost += 1;
        self.waiting = self.waiting.saturating_add(1);
    }

    fn time_out(&mut self, now: Timestamp) {
        self.statistics.timeouts += 1;
        while let Some(sent) = self.sent.pop_front() {
            self.first += 1;
            if !sent.settled {
                self.lose();
            }
        }
        self.window.get_mut().on_timeout(now);
        self.reduced_until = self.next;
        self.backoff += 1;
        self.timeout_at = None;
    }

    fn begin(&mut self, now: Timestamp) {
        if now.saturating_since(self.last_sent_at) > self.timeout() && self.next > 0 {
            self.window.get_mut().on_idle();
        }
        self.begins_at = None;
        self.waiting = match self.workload {
            Workload::Bulk => u64::MAX,
            Workload::Files(files) => {
                self.file_began_at = Some(now);
                files.size(&mut self.random).get().div_ceil((PACKET.get() - HEADERS.get()).max(1))
            }
        };
    }

    fn finish_file(&mut self, now: Timestamp) {
        let Workload::Files(files) = self.workload else { return };
        if self.waiting == 0
            && self.in_flight == 0
            && let Some(began_at) = self.file_began_at.take()
        {
            self.statistics.files += 1;
            self.statistics.file_time += now.saturating_since(began_at);
            self.begins_at = self.activity.next_from(now + files.pause(&mut self.random));
        }
    }

    fn stop_if_over(&mut self, now: Timestamp) {
        if self.waiting > 0 && !self.activity.contains(now) {
            self.waiting = 0;
            self.file_began_at = None;
            self.begins_at = self.activity.next_from(now);
        }
    }

    fn receive(&mut self, number: u64) {
        match self.largest {
            Some(largest) if number <= largest => {
                self.received |= 1u64.checked_shl((largest - number).min(ACKNOWLEDGED_SEGMENTS) as u32).unwrap_or(0);
            }
            largest => {
                let shift =
                    largest.map_or(ACKNOWLEDGED_SEGMENTS, |largest| number - largest).min(ACKNOWLEDGED_SEGMENTS) as u32;
                self.received = self.received.checked_shl(shift).unwrap_or(0) | 1;
                self.largest = Some(number);
            }
        }
        self.acknowledgements += 1;
    }
}

impl Flow for Tcp {
    type Packet = TrafficPacket;

    fn handle_packet(&mut self, now: Timestamp, arrived: Arrived<TrafficPacket>) {
        match (arrived.direction, arrived.packet) {
            (Direction::Forward, TrafficPacket::Segment { number }) => {
                self.marked += u64::from(arrived.congestion_experienced);
                self.receive(number);
            }
            (Direction::Reverse, TrafficPacket::Acknowledgement { largest, received, marked }) => {
                self.stop_if_over(now);
                self.handle_acknowledgement(now, largest, received, marked);
            }
            // Neither end sends the other end's packets.
            _ => {}
        }
    }

    fn poll_transmit(&mut self, now: Timestamp) -> Option<(Direction, ByteCount, TrafficPacket)> {
        if self.acknowledgements > 0
            && let Some(largest) = self.largest
        {
            self.acknowledgements -= 1;
            let (received, marked) = (self.received, self.marked);
            let packet = TrafficPacket::Acknowledgement { largest, received, marked };
            return Some((Direction::Reverse, ACKNOWLEDGEMENT, packet));
        }
        self.stop_if_over(now);
        if self.waiting == 0 || (self.in_flight + 1) as f64 > self.window().max(1.0) {
            return None;
        }
        if self.workload != Workload::Bulk {
            self.waiting -= 1;
        }
        let number = self.next;
        self.next += 1;
        self.in_flight += 1;
        self.sent.push_back(Sent { at: now, settled: false });
        self.last_sent_at = now;
        self.statistics.sent += 1;
        if self.timeout_at.is_none() {
            self.timeout_at = Some(now + self.timeout());
        }
        Some((Direction::Forward, PACKET, TrafficPacket::Segment { number }))
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        [self.begins_at, self.timeout_at].into_iter().flatten().min()
    }

    fn handle_timeout(&mut self, now: Timestamp) {
        self.stop_if_over(now);
        if self.begins_at.is_some_and(|at| at <= now) {
            self.begin(now);
        }
        if self.timeout_at.is_some_and(|at| at <= now) {
            self.time_out(now);
            self.stop_if_over(now);
        }
    }
}
