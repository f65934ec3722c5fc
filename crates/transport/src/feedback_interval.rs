//! How often a receiver acknowledges.

use std::time::Duration;

use crate::reverse_path::MOST_DOUBLINGS;

/// How often a receiver acknowledges what arrives. Each acknowledgement says of every fragment when it arrived, however
/// many it tells of.
///
/// Both ends are told: the receiver keeps to it, and the sender does not take for a loss what is only not told yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeedbackInterval {
    /// After each fragment, as Salsify's receiver does; or rather whenever the owner asks and there is news.
    EveryFragment,
    /// At once if the last acknowledgement is at least so old, or as soon as it is; and at once when a frame has been
    /// decoded or refused, which is what the sender waits for most.
    Aggregated(Duration),
    /// At most once in this time, whatever happens, as receivers of transport-wide feedback and of AlphaRTC do.
    Every(Duration),
}

impl FeedbackInterval {
    /// The interval at which calls aggregate, milliseconds. It takes feedback from 21 to 7 % of the media's bytes. Against
    /// an acknowledgement for each fragment, over nine traces, six controllers and four seeds, p95 of video delay is 0.8 %
    /// longer with the functional codec and 3.6 % with the conventional one (geometric means), where an interval of 1 ms
    /// makes -0.1 and 4.4 %: paths on which calls are unstable. The worst with the functional codec are GCC's delay on
    /// TMobile-LTE-short.down (20 % longer) and NADA's throughput there (12 % less); Sprout and Salsify lose 2.5 % of
    /// throughput. With the conventional codec NADA falls into a queue of seconds on 0.57mbps-poisson in three calls of
    /// four (none without aggregation, one at 1 ms). On traces that nothing was chosen by, the means are 0.1 and 7.3 %.
    /// For each MS:
    /// `lockstep sweep --feedback-ms MS --controllers salsify,sprout,gcc,nada,scream,bob-heuristic --codecs
    /// modelled,modelled-conventional --clip generated:1280x720 --seeds 1-4 --traces constant:1mbps
    /// cellular:mean=1mbps,seed=1 cellular:mean=2mbps,seed=1 cellular:mean=4mbps,seed=1 Verizon-LTE-short.up
    /// TMobile-LTE-short.down ATT-LTE-driving-2016.up Verizon-EVDO-driving.down 0.57mbps-poisson.up` (mahimahi's).
    pub const CHOSEN_MILLISECONDS: u16 = 20;

    /// [`Self::Aggregated`], or [`Self::EveryFragment`] for no time.
    #[must_use]
    pub fn aggregated(interval: Duration) -> Self {
        if interval.is_zero() { Self::EveryFragment } else { Self::Aggregated(interval) }
    }

    /// The same after the sender has asked for `doublings` of the time between, which it may where feedback is aggregated.
    #[must_use]
    pub fn doubled(self, doublings: u8) -> Self {
        match self {
            Self::Aggregated(interval) => Self::Aggregated(interval.saturating_mul(1 << doublings.min(MOST_DOUBLINGS))),
            Self::EveryFragment | Self::Every(_) => self,
        }
    }

    /// How long after its arrival a fragment may be told of: what RFC 9000 calls the maximum acknowledgement delay
    /// (section 18.2).
    #[must_use]
    pub fn longest_hold(self) -> Duration {
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
