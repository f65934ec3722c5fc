//! How often a receiver acknowledges.

use std::time::Duration;

use crate::reverse_path::MAX_DOUBLINGS;

/// How often a receiver acknowledges. An acknowledgement reports the arrival time of each fragment that it lists.
///
/// Both ends need the interval: the sender does not count a fragment as lost before the receiver may have acknowledged
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeedbackInterval {
    /// After each fragment, as Salsify's receiver does. In practice: whenever the owner polls and there is news.
    EveryFragment,
    /// At most once per interval, but at once after a frame was decoded or refused. The sender needs that verdict
    /// first.
    Aggregated(Duration),
    /// At most once per interval without exception, as with transport-wide feedback and AlphaRTC.
    Every(Duration),
}

/// Upper bound of a doubled interval.
const MAX_DOUBLED_INTERVAL: Duration =
    Duration::from_millis((FeedbackInterval::CHOSEN_MILLISECONDS as u64) << MAX_DOUBLINGS);

impl FeedbackInterval {
    /// Default interval of aggregated acknowledgements, milliseconds (lab: 2026-11-notes-transport).
    pub const CHOSEN_MILLISECONDS: u16 = 20;

    /// [`Self::Aggregated`], or [`Self::EveryFragment`] for a zero interval.
    #[must_use]
    pub fn aggregated(interval: Duration) -> Self {
        if interval.is_zero() { Self::EveryFragment } else { Self::Aggregated(interval) }
    }

    /// The interval after `doublings` at the sender's request; only an aggregated interval changes. The result is at
    /// most all doublings of [`Self::CHOSEN_MILLISECONDS`], or the configured interval if that is longer. After a
    /// longer gap the sender would take the path for silent.
    #[must_use]
    pub fn doubled(self, doublings: u8) -> Self {
        match self {
            Self::Aggregated(interval) => {
                let doubled = interval.saturating_mul(1 << doublings.min(MAX_DOUBLINGS));
                Self::Aggregated(doubled.min(interval.max(MAX_DOUBLED_INTERVAL)))
            }
            Self::EveryFragment | Self::Every(_) => self,
        }
    }

    /// The longest time from a fragment's arrival to its acknowledgement: the maximum acknowledgement delay (RFC 9000,
    /// section 18.2).
    #[must_use]
    pub fn max_hold(self) -> Duration {
        match self {
            Self::EveryFragment => Duration::ZERO,
            Self::Aggregated(interval) | Self::Every(interval) => interval,
        }
    }
}

impl Default for FeedbackInterval {
    fn default() -> Self {
        Self::Aggregated(Duration::from_millis(Self::CHOSEN_MILLISECONDS.into()))
    }
}
