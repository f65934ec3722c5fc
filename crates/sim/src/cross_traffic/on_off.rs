//! On-off traffic: periods of constant bit rate with silent periods between them.

use std::time::Duration;

use lockstep_units::random::exponential;
use lockstep_units::{Bitrate, ByteCount, Timestamp};
use rand_pcg::Pcg64;

use super::{TrafficPacket, generator};
use crate::activity::Activity;
use crate::flow::{Arrived, Direction, Flow};

/// Duration of a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Period {
    /// Constant duration.
    Fixed(Duration),
    /// Exponentially distributed duration with this mean.
    Exponential(Duration),
}

impl Period {
    /// Draws a duration of at least one microsecond, so that time advances.
    fn draw(self, random: &mut Pcg64) -> Duration {
        let time = match self {
            Self::Fixed(time) => time,
            Self::Exponential(mean) => mean.mul_f64(exponential(random)),
        };
        time.max(Duration::from_micros(1))
    }
}

/// Flow that alternates between packets at constant intervals and silence. It starts with packets.
#[derive(Debug, Clone)]
pub struct OnOff {
    rate: Bitrate,
    size: ByteCount,
    on: Period,
    off: Period,
    activity: Activity,
    random: Pcg64,
    /// Start and end of the current or next period with packets.
    burst: (Timestamp, Timestamp),
    /// Packets sent in that period.
    packets: u64,
    next: Option<Timestamp>,
    due: bool,
}

impl OnOff {
    /// Sends packets of `size` at `rate`, both with headers, in periods of `on`. Periods of `off` lie between them.
    #[must_use]
    pub fn new(rate: Bitrate, size: ByteCount, on: Period, off: Period, activity: Activity, seed: u64) -> Self {
        let mut random = generator(seed);
        let start = activity.start();
        let burst = (start, start + on.draw(&mut random));
        let next = activity.next_from(start).filter(|_| rate > Bitrate::ZERO && size > ByteCount::ZERO);
        Self { rate, size, on, off, activity, random, burst, packets: 0, next, due: false }
    }
}

impl Flow for OnOff {
    type Packet = TrafficPacket;

    fn handle_packet(&mut self, _now: Timestamp, _arrived: Arrived<TrafficPacket>) {}

    fn poll_transmit(&mut self, _now: Timestamp) -> Option<(Direction, ByteCount, TrafficPacket)> {
        std::mem::take(&mut self.due).then_some((Direction::Forward, self.size, TrafficPacket::Datagram))
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        self.next
    }

    fn handle_timeout(&mut self, now: Timestamp) {
        if self.next.is_none_or(|at| at > now) {
            return;
        }
        // Periods continue while the activity pauses, but their packets are not sent.
        self.due = self.activity.contains(now);
        self.packets += 1;
        let distance = self.rate.time_for(ByteCount::new(self.size.get().saturating_mul(self.packets)));
        let mut next = self.burst.0 + distance;
        if next >= self.burst.1 {
            let from = self.burst.1 + self.off.draw(&mut self.random);
            self.burst = (from, from + self.on.draw(&mut self.random));
            self.packets = 0;
            next = from;
        }
        self.next = (next < self.activity.end()).then_some(next);
    }
}
