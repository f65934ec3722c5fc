//! Conversion of traces to delivery opportunities.

use std::fmt::Write;

use crate::error::TraceError;
use crate::limits::{MAX_OPPORTUNITIES, OPPORTUNITY};
use crate::timeline::{MILLISECOND, WORK_OF_BYTE};
use crate::trace::{Capacity, Trace, nanos};

impl Trace {
    /// The same capacity as delivery opportunities. Each is at the first whole millisecond by which another 1500 bytes
    /// have passed. A remainder at the end of the period is dropped. Loss, delay and jitter stay.
    ///
    /// # Errors
    /// [`TraceError::NoOpportunities`] if less than 1500 bytes pass in a period, [`TraceError::TooManyOpportunities`].
    pub fn to_opportunities(&self) -> Result<Self, TraceError> {
        let Capacity::Rates(rates) = self.capacity() else {
            return Ok(self.clone());
        };
        let work = u128::from(OPPORTUNITY.get()) * WORK_OF_BYTE;
        let count = rates.total() / work;
        if count == 0 {
            return Err(TraceError::NoOpportunities);
        }
        if count > MAX_OPPORTUNITIES as u128 {
            return Err(TraceError::TooManyOpportunities);
        }
        let period = u32::try_from(rates.period().div_ceil(MILLISECOND)).map_err(|_| TraceError::TooLong)?;
        let time = |index| rates.time_of(work * index).unwrap_or(rates.period()).div_ceil(MILLISECOND);
        let times = (1..=count).map(|index| (time(index) as u32).min(period)).collect();
        let changes: Vec<_> = self
            .condition_changes()
            .iter()
            .scan(0, |start, &(end, conditions)| {
                let duration = std::time::Duration::from_nanos(end - *start);
                *start = end;
                Some((duration, conditions))
            })
            .collect();
        Self::from_opportunities(times, period)?.with_conditions(&changes)
    }

    /// The trace as a mahimahi file: exact for delivery opportunities, otherwise as [`Trace::to_opportunities`]. Such a
    /// file repeats at its last opportunity, so that one is moved to the end of the period. The format does not store
    /// loss, delay and jitter.
    ///
    /// # Errors
    /// As [`Trace::to_opportunities`].
    pub fn to_mahimahi(&self) -> Result<String, TraceError> {
        let trace = self.to_opportunities()?;
        let end = nanos(trace.period()) / MILLISECOND;
        let mut text = String::new();
        if let Capacity::Opportunities(opportunities) = trace.capacity() {
            let before = &opportunities.times[..opportunities.times.len() - 1];
            for time in before.iter().map(|&time| u64::from(time)).chain([end]) {
                // Writing to a string cannot fail.
                let _ = writeln!(text, "{time}");
            }
        }
        Ok(text)
    }
}
