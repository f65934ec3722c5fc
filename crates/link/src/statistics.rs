//! Counters of a link.

use std::ops::AddAssign;
use std::time::Duration;

use lockstep_units::ByteCount;
use lockstep_units::quantity::milliseconds;
use serde::Serialize;

/// Why a packet was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DropReason {
    /// The queue was full, or its discipline dropped the packet.
    Queue,
    /// Random loss of the link.
    RandomLoss,
    /// Burst loss of the link.
    BurstLoss,
    /// A lossy period of the on/off process.
    OnOffLoss,
    /// An interval of scheduled loss.
    ScheduledLoss,
    /// Loss of the trace.
    TraceLoss,
}

/// A number of packets and their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Tally {
    /// Number of packets.
    pub packets: u64,
    /// Total size of the packets.
    pub bytes: ByteCount,
}

impl AddAssign<ByteCount> for Tally {
    /// Counts a packet of `size`.
    fn add_assign(&mut self, size: ByteCount) {
        self.packets += 1;
        self.bytes += size;
    }
}

/// Counters of a link. At any time, `sent + duplicated` equals `dropped_by_queue + collided + delivered`, the losses,
/// and the packets in the queue or in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct LinkStatistics {
    /// Packets sent.
    pub sent: Tally,
    /// Packets dropped by a full queue or by its discipline.
    pub dropped_by_queue: Tally,
    /// Lost to [`DropReason::RandomLoss`].
    pub random_loss: Tally,
    /// Lost to [`DropReason::BurstLoss`].
    pub burst_loss: Tally,
    /// Lost to [`DropReason::OnOffLoss`].
    pub on_off_loss: Tally,
    /// Lost to [`DropReason::ScheduledLoss`].
    pub scheduled_loss: Tally,
    /// Lost to [`DropReason::TraceLoss`].
    pub trace_loss: Tally,
    /// Packets that a shared medium gave up after too many collisions.
    pub collided: Tally,
    /// Packets that left the bottleneck with an ECN mark.
    pub marked: Tally,
    /// Copies that the link made.
    pub duplicated: Tally,
    /// Packets that [`crate::Link::poll`] returned, including copies.
    pub delivered: Tally,
    /// Packets that left the bottleneck, including those lost after it: the used capacity.
    pub served: Tally,
    /// Sum of the queueing delays of served packets.
    #[serde(rename = "total_queueing_delay_ms", with = "milliseconds")]
    pub total_queueing_delay: Duration,
    /// Longest queueing delay of a served packet.
    #[serde(rename = "longest_queueing_delay_ms", with = "milliseconds")]
    pub longest_queueing_delay: Duration,
}

impl LinkStatistics {
    /// Counter of the packets dropped for `reason`.
    pub(crate) fn dropped_for(&mut self, reason: DropReason) -> &mut Tally {
        match reason {
            DropReason::Queue => &mut self.dropped_by_queue,
            DropReason::RandomLoss => &mut self.random_loss,
            DropReason::BurstLoss => &mut self.burst_loss,
            DropReason::OnOffLoss => &mut self.on_off_loss,
            DropReason::ScheduledLoss => &mut self.scheduled_loss,
            DropReason::TraceLoss => &mut self.trace_loss,
        }
    }

    /// All losses except drops by the queue.
    #[must_use]
    pub fn lost(&self) -> Tally {
        let losses = [self.random_loss, self.burst_loss, self.on_off_loss, self.scheduled_loss, self.trace_loss];
        losses.iter().fold(Tally::default(), |sum, tally| Tally {
            packets: sum.packets + tally.packets,
            bytes: sum.bytes + tally.bytes,
        })
    }

    /// Mean queueing delay of served packets; zero if there are none.
    #[must_use]
    pub fn mean_queueing_delay(&self) -> Duration {
        let mean = self.total_queueing_delay.as_nanos().checked_div(u128::from(self.served.packets)).unwrap_or(0);
        Duration::from_nanos(u64::try_from(mean).unwrap_or(u64::MAX))
    }
}
