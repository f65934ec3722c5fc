//! The tuned constants of control, overridable for research.

use crate::learned::RuleTuning;
use crate::{
    CeilingConfig, DeliveredConfig, LossConfig, NarrowPathConfig, PathDelayConfig, ProbingConfig, ShortQueueConfig,
    SilenceConfig, TokenBucketConfig,
};

lockstep_units::tuning! {
    /// The tuned constants of the path observer, the limits and the default controller, one configuration an algorithm.
    pub struct Tuning {
        /// Paths that become longer.
        path_delay: PathDelayConfig,
        /// Silence of the path.
        silence: SilenceConfig,
        /// Probes and hellos.
        probing: ProbingConfig,
        /// Loss and parity.
        loss: LossConfig,
        /// Bottleneck queues that are shorter than a frame.
        short_queue: ShortQueueConfig,
        /// Paths on which sound goes first.
        narrow_path: NarrowPathConfig,
        /// The limit by what the path delivered.
        delivered: DeliveredConfig,
        /// The limit by bit rate.
        ceiling: CeilingConfig,
        /// The ceiling's token bucket.
        token_bucket: TokenBucketConfig,
        /// The rule of the default controller.
        rule: RuleTuning,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declared_constants_have_ranges_and_meanings() {
        lockstep_units::tuning::assert_well_declared(&Tuning::default());
    }
}
