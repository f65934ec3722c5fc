//! Delivered limit: a frame has at most the bytes that the path recently delivered.

use lockstep_units::{Bitrate, ByteCount};

use super::{Budget, Limit, LimitedBy};
use crate::path::GROWTH;
use crate::{DeliveredConfig, PathView};

/// Minimum budget before any observation: ten packets, TCP's initial window (RFC 6928).
const MIN_INITIAL_BUDGET: ByteCount = ByteCount::new(15_000);

/// A frame has at most the bytes that the path delivered in the best half second of the last five. If the spacing of
/// fragments inside a burst shows a higher rate, that rate counts.
///
/// Without bursts, a sender could never grow again after a quiet scene (Concerto, MobiCom 2019, section 2). Twice as
/// much may be in flight, and the target is at most twice that rate. So a sender can double its rate in a round trip.
#[derive(Debug, Clone, Copy, Default)]
pub struct Delivered(pub DeliveredConfig);

impl Limit for Delivered {
    fn kind(&self) -> LimitedBy {
        LimitedBy::Delivered
    }

    fn limit(&self, path: &PathView<'_>, budget: Budget) -> Budget {
        let shown = path.delivered.max(path.burst).max(MIN_INITIAL_BUDGET);
        let grown = ByteCount::new(GROWTH * shown.get());
        // Growth needs a first feedback.
        let flight = if path.round_trip.is_none() { self.0.first_flight } else { grown };
        let room = flight.saturating_sub(budget.in_flight.bytes);
        let target = budget.target.min(Bitrate::mean(grown, path.window));
        Budget { target, ..budget }.capped(shown.min(room))
    }
}
