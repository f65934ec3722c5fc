//! The tuned constants of control, overridable for research.

use crate::learned::{LockstepConfig, RuleTuning};
use crate::{
    CeilingConfig, ClaimConfig, CrossTrafficConfig, DeliveredConfig, JitterConfig, LossConfig, NarrowPathConfig,
    PathConfig, PathDelayConfig, ProbingConfig, RateFilterConfig, ShortQueueConfig, SilenceConfig, SproutConfig,
};

lockstep_units::tuning! {
    /// The tuned constants of the path observer, the limits and the default controller, one configuration an algorithm.
    pub struct Tuning {
        /// What the observer measures of the path.
        path: PathConfig,
        /// Cross traffic that keeps the queue filled.
        cross_traffic: CrossTrafficConfig,
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
        /// Sprout, on which the default controller builds.
        sprout: SproutConfig,
        /// Its filter over the rate.
        rate_filter: RateFilterConfig,
        /// Its view of jitter.
        jitter: JitterConfig,
        /// The share that it claims beside flows that keep the queue filled.
        claim: ClaimConfig,
        /// When Sprout decides in the default controller.
        lockstep: LockstepConfig,
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
