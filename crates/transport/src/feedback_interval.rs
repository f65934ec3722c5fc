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

/// No interval is doubled beyond this.
const LONGEST_DOUBLED: Duration =
    Duration::from_millis((FeedbackInterval::CHOSEN_MILLISECONDS as u64) << MOST_DOUBLINGS);

impl FeedbackInterval {
    /// The interval at which calls aggregate, milliseconds. It takes feedback from 25 to 13 % of the media's bytes at 1
    /// Mb/s, and from 19 to 4 % at 3 Mb/s. Against an acknowledgement for each fragment, over nine traces, six
    /// controllers and four seeds, p95 of video delay is 2.1 % longer with the functional codec and 0.7 % with the
    /// conventional one (geometric means), throughput 0.9 % less and 0.9 % more; on seven traces that nothing was
    /// chosen by, p95 is 0.3 and 2.3 % longer. Of the controllers Salsify and Sprout lose 2.5 % of throughput with the
    /// functional codec (1 % at 10 ms, 5 to 6 % at 50 ms, 9 % at 100 ms), and the heuristic of BoB has 6 % more delay;
    /// the worst cell is its p95 on Verizon-LTE-short with the conventional codec, 77 % longer, 47 % at 5 ms: calls
    /// there are unstable.
    /// For each MS:
    /// `lockstep sweep --feedback-ms MS --controllers salsify,sprout,gcc,nada,scream,bob-heuristic --codecs
    /// modelled,modelled-conventional --clip generated:1280x720 --seeds 1-4 --traces constant:1mbps
    /// cellular:mean=1mbps,seed=1 cellular:mean=2mbps,seed=1 cellular:mean=4mbps,seed=1 Verizon-LTE-short.up
    /// TMobile-LTE-short.down ATT-LTE-driving-2016.up Verizon-EVDO-driving.down 0.57mbps-poisson.up` (mahimahi's); the
    /// seven others are the other directions of the last five with `cellular:mean=1mbps,seed=7` and
    /// `cellular:mean=3mbps,seed=8`, seeds 5-8. Where acknowledgements queue on their way, the sender has the interval
    /// doubled, up to three times when this was measured, four since: over a reverse link of 64 kb/s GCC, NADA and SCReAM so carry 0.89 to 0.96 Mb/s of 1
    /// (functional codec), where 20 ms throughout made 0.06 to 0.09.
    pub const CHOSEN_MILLISECONDS: u16 = 20;

    /// [`Self::Aggregated`], or [`Self::EveryFragment`] for no time.
    #[must_use]
    pub fn aggregated(interval: Duration) -> Self {
        if interval.is_zero() { Self::EveryFragment } else { Self::Aggregated(interval) }
    }

    /// The same after the sender has asked for `doublings` of the time between, which it may where feedback is
    /// aggregated; no longer than all doublings make of [`Self::CHOSEN_MILLISECONDS`], unless it was already: a sender that
    /// hears nothing for longer takes the path for silent.
    #[must_use]
    pub fn doubled(self, doublings: u8) -> Self {
        match self {
            Self::Aggregated(interval) => {
                let doubled = interval.saturating_mul(1 << doublings.min(MOST_DOUBLINGS));
                Self::Aggregated(doubled.min(interval.max(LONGEST_DOUBLED)))
            }
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
