//! Service of the bottleneck: when a packet begins to leave and when it has left, in nanoseconds of the trace.

use lockstep_units::ByteCount;

use crate::limits::OPPORTUNITY;
use crate::timeline::{Position, WORK_OF_BYTE};
use crate::trace::{Capacity, Trace};

/// Serves packets as a trace allows.
///
/// **Rates**: a packet begins to leave when the one before it has left. It has left when its bits have passed.
/// Consecutive packets keep fractions of a nanosecond, so that errors do not accumulate.
///
/// **Delivery opportunities**, as in mahimahi: each carries [`OPPORTUNITY`] bytes of packets that arrived strictly
/// before it. Small packets share an opportunity. A large packet spans several and leaves with the last one. Unused
/// bytes are lost.
#[derive(Debug, Clone)]
pub(crate) struct Service {
    trace: Trace,
    state: State,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// Work done when the last packet had left.
    Rates(u128),
    /// First unused opportunity, and the bytes left in the one before it.
    Opportunities { next: Position, left: u64 },
}

impl Service {
    pub(crate) fn new(trace: Trace) -> Self {
        let state = match trace.capacity() {
            Capacity::Rates(_) => State::Rates(0),
            Capacity::Opportunities(_) => State::Opportunities { next: Position::default(), left: 0 },
        };
        Self { trace, state }
    }

    pub(crate) fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Earliest start of service for a packet that arrives at the idle bottleneck at `at`.
    pub(crate) fn first_start(&mut self, at: u64) -> Option<u64> {
        match (self.trace.capacity(), &mut self.state) {
            (Capacity::Rates(rates), State::Rates(done)) => {
                *done = rates.work_until(at);
                Some(at)
            }
            (Capacity::Opportunities(opportunities), State::Opportunities { next, left }) => {
                (*next, *left) = (opportunities.first_after(at), 0);
                opportunities.time_of(*next)
            }
            _ => None,
        }
    }

    /// Earliest start of service for a waiting packet, after another has left at `at`.
    pub(crate) fn next_start(&self, at: u64) -> Option<u64> {
        match (self.trace.capacity(), &self.state) {
            (Capacity::Opportunities(opportunities), State::Opportunities { next, left: 0 }) => {
                opportunities.time_of(*next)
            }
            _ => Some(at),
        }
    }

    /// End of service for a packet of `size`. `start` is a result of [`Self::first_start`] or [`Self::next_start`].
    /// `None` if service never ends.
    pub(crate) fn serve(&mut self, start: u64, size: ByteCount) -> Option<u64> {
        match (self.trace.capacity(), &mut self.state) {
            (Capacity::Rates(rates), State::Rates(done)) => {
                *done = done.saturating_add(u128::from(size.get()) * WORK_OF_BYTE);
                Some(rates.time_of(*done)?.max(start))
            }
            (Capacity::Opportunities(opportunities), State::Opportunities { next, left }) => {
                if *left == 0 {
                    (*next, *left) = (opportunities.advance(*next, 1), OPPORTUNITY.get());
                }
                let Some(missing) = size.get().checked_sub(*left).filter(|&missing| missing > 0) else {
                    *left -= size.get();
                    return Some(start);
                };
                let more = missing.div_ceil(OPPORTUNITY.get());
                let last = opportunities.advance(*next, more - 1);
                *next = opportunities.advance(*next, more);
                *left = more * OPPORTUNITY.get() - missing;
                opportunities.time_of(last)
            }
            _ => None,
        }
    }
}
