//! What became of the packets.

use std::ops::AddAssign;
use std::time::Duration;

use lockstep_units::ByteCount;
use lockstep_units::quantity::milliseconds;
use serde::Serialize;

/// Why a packet was not delivered.
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
    /// A lossy time of the on/off process.
    OnOffLoss,
    /// An interval of scheduled loss.
    ScheduledLoss,
    /// Loss that the trace carries.
    TraceLoss,
}

/// Packets and their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Tally {
    /// How many packets.
    pub packets: u64,
    /// How many bytes they have together.
    pub bytes: ByteCount,
}

impl AddAssign<ByteCount> for Tally {
    /// Counts a packet of so many bytes.
    fn add_assign(&mut self, size: ByteCount) {
        self.packets += 1;
        self.bytes += size;
    }
}

/// What a link has done so far. At any time `sent + duplicated` is the sum of `dropped_by_queue`, `collided`, the
/// losses, what is queued, what is under way, and `delivered`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct LinkStatistics {
    /// Given to the link.
    pub sent: Tally,
    /// Refused by a full queue or dropped by its discipline.
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
    /// Given up by a shared medium after too many collisions.
    pub collided: Tally,
    /// Left the bottleneck with a mark of congestion (ECN), which their ends understand, instead of being dropped.
    pub marked: Tally,
    /// Copies that the link made.
    pub duplicated: Tally,
    /// Handed out by [`crate::Link::poll`], copies too.
    pub delivered: Tally,
    /// Bytes that left the bottleneck, lost behind it or not: what the capacity was used for.
    pub served: Tally,
    /// The sum of the queueing delays of the packets served.
    #[serde(rename = "total_queueing_delay_ms", with = "milliseconds")]
    pub total_queueing_delay: Duration,
    /// The longest of them.
    #[serde(rename = "longest_queueing_delay_ms", with = "milliseconds")]
    pub longest_queueing_delay: Duration,
}

impl LinkStatistics {
    /// The counter for packets dropped for `reason`.
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

    /// All packets lost other than by the queue.
    #[must_use]
    pub fn lost(&self) -> Tally {
        let losses = [self.random_loss, self.burst_loss, self.on_off_loss, self.scheduled_loss, self.trace_loss];
        losses.iter().fold(Tally::default(), |sum, tally| Tally {
            packets: sum.packets + tally.packets,
            bytes: sum.bytes + tally.bytes,
        })
    }

    /// The mean queueing delay of the packets served; zero if there are none.
    #[must_use]
    pub fn mean_queueing_delay(&self) -> Duration {
        let mean = self.total_queueing_delay.as_nanos().checked_div(u128::from(self.served.packets)).unwrap_or(0);
        Duration::from_nanos(u64::try_from(mean).unwrap_or(u64::MAX))
    }
}
