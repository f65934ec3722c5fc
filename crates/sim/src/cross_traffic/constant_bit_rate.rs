//! Traffic of constant bit rate, without congestion control.

use lockstep_units::{Bitrate, ByteCount, Timestamp};

use super::TrafficPacket;
use crate::activity::Activity;
use crate::flow::{Arrived, Direction, Flow};

/// Flow of packets of one size at constant intervals.
#[derive(Debug, Clone)]
pub struct ConstantBitRate {
    rate: Bitrate,
    size: ByteCount,
    activity: Activity,
    next: Option<Timestamp>,
    /// Packets sent since the activity last started, and the time of that start.
    since: (u64, Timestamp),
    due: bool,
}

impl ConstantBitRate {
    /// Sends packets of `size` at `rate`, both with headers, during `activity`.
    #[must_use]
    pub fn new(rate: Bitrate, size: ByteCount, activity: Activity) -> Self {
        let start = activity.start();
        let next = activity.next_from(start).filter(|_| rate > Bitrate::ZERO && size > ByteCount::ZERO);
        Self { rate, size, activity, next, since: (0, start), due: false }
    }
}

impl Flow for ConstantBitRate {
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
        self.due = true;
        let (packets, since) = &mut self.since;
        *packets += 1;
        // Multiply instead of adding intervals: rounding errors must not accumulate.
        let next = *since + self.rate.time_for(ByteCount::new(self.size.get().saturating_mul(*packets)));
        self.next = self.activity.next_from(next);
        if let Some(resumed) = self.next.filter(|&resumed| resumed > next) {
            self.since = (0, resumed);
        }
    }
}
