//! Storage of a trace in a configuration: its description, or the full content.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::TraceError;
use crate::timeline::End;
use crate::timeline::MILLISECOND;
use crate::trace::{Capacity, Conditions, Segment, Trace};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum StoredTrace {
    Spec(String),
    Opportunities {
        opportunities_ms: Vec<u32>,
        period_ms: u32,
        /// Pairs of duration in nanoseconds and conditions.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        conditions: Vec<(u64, Conditions)>,
    },
    Segments {
        segments: Vec<Segment>,
        #[serde(default)]
        end: End,
    },
}

impl From<Trace> for StoredTrace {
    fn from(trace: Trace) -> Self {
        if let Some(spec) = trace.spec() {
            return Self::Spec(spec.to_owned());
        }
        match trace.capacity() {
            Capacity::Opportunities(opportunities) => {
                let starts = std::iter::once(0).chain(trace.condition_changes().iter().map(|&(end, _)| end));
                let changes = starts.zip(trace.condition_changes());
                Self::Opportunities {
                    opportunities_ms: opportunities.times.clone(),
                    period_ms: opportunities.period,
                    conditions: changes.map(|(start, &(end, conditions))| (end - start, conditions)).collect(),
                }
            }
            // Only delivery opportunities can refuse a bin, so this cannot fail.
            Capacity::Rates(_) => Self::Segments {
                segments: trace.to_segments(Duration::from_nanos(MILLISECOND)).unwrap_or_default(),
                end: trace.end(),
            },
        }
    }
}

impl TryFrom<StoredTrace> for Trace {
    type Error = TraceError;

    fn try_from(stored: StoredTrace) -> Result<Self, TraceError> {
        match stored {
            StoredTrace::Spec(spec) => Self::from_spec(&spec),
            StoredTrace::Opportunities { opportunities_ms, period_ms, conditions } => {
                let conditions: Vec<_> =
                    conditions.into_iter().map(|(length, what)| (Duration::from_nanos(length), what)).collect();
                Self::from_opportunities(opportunities_ms, period_ms)?.with_conditions(&conditions)
            }
            StoredTrace::Segments { segments, end } => Self::from_segments(&segments, end),
        }
    }
}
