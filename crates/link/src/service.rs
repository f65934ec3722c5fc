//! The bottleneck: when a packet begins to leave and when it has left, in nanoseconds of the trace.

use lockstep_units::ByteCount;

use crate::limits::OPPORTUNITY;
use crate::timeline::{Position, WORK_OF_BYTE};
use crate::trace::{Capacity, Trace};

/// Serves one packet after the other as a trace allows.
///
/// **Rates**: a packet begins to leave when the one before it has left, and has left when its bits have passed. Where
/// one packet follows another, the fraction of a nanosecond between them is kept, so that nothing drifts.
///
/// **Delivery opportunities**, as in mahimahi: each carries [`OPPORTUNITY`] bytes of the packets that came strictly
/// before it. Small packets share one; a packet may span several and leaves with the last one that it needs; what no
/// packet uses is lost.
#[derive(Debug, Clone)]
pub(crate) struct Service {
    trace: Trace,
    state: State,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// The work done when the last packet had left.
    Rates(u128),
    /// The first opportunity not begun, and what is left in the one before it.
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

    /// A packet comes to the idle bottleneck at `at`: when it may begin to leave.
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

    /// A packet has left at `at` and another one waits: when that may begin to leave.
    pub(crate) fn next_start(&self, at: u64) -> Option<u64> {
        match (self.trace.capacity(), &self.state) {
            (Capacity::Opportunities(opportunities), State::Opportunities { next, left: 0 }) => {
                opportunities.time_of(*next)
            }
            _ => Some(at),
        }
    }

    /// A packet of `size` begins to leave at `start`, which is what one of the above gave: when it has left. None if
    /// that never comes.
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
