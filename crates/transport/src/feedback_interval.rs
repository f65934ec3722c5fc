//! How often a receiver acknowledges.

use std::time::Duration;

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
    /// The interval at which calls aggregate, milliseconds. Over nine traces, six controllers, both codecs and four seeds, 20 ms took the feedback from 21 to
    /// 7 % of the media's bytes; p95 of video delay was 0.3 % longer on the geometric mean, 15 % at worst, which are
    /// the differences that 1 ms makes, too (-0.1 and 18 %). 30 ms cost Sprout's and Salsify's throughput 3 %, and GCC
    /// up to 49 % in delay. For each MS of 0, 1, 10, 15, 20, 25, 30, 40:
    /// `lockstep sweep --feedback-ms MS --controllers salsify,sprout,gcc,nada,scream,bob-heuristic --codecs
    /// modelled,modelled-conventional --clip generated:1280x720 --seeds 1-4 --traces cellular:mean=1mbps,seed=1
    /// cellular:mean=2mbps,seed=1 cellular:mean=4mbps,seed=1 constant:1mbps TRACES`, with five of mahimahi's TRACES; the
    /// others were for checking.
    pub const CHOSEN_MILLISECONDS: u16 = 20;

    /// [`Self::Aggregated`], or [`Self::EveryFragment`] for no time.
    #[must_use]
    pub fn aggregated(interval: Duration) -> Self {
        if interval.is_zero() { Self::EveryFragment } else { Self::Aggregated(interval) }
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
