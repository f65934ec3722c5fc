//! The tuned constants of the transport, overridable for research.

use crate::loss::LossDetectionConfig;
use crate::reverse_path::ReversePathConfig;
use crate::sound::WaitingSoundConfig;

lockstep_units::tuning! {
    /// The tuned constants of a [`Sender`](crate::Sender), one configuration an algorithm. A receiver has none.
    pub struct Tuning {
        /// Loss detection.
        loss_detection: LossDetectionConfig,
        /// Acknowledgements that queue on their way back.
        reverse_path: ReversePathConfig,
        /// Sound that waits to leave.
        waiting_sound: WaitingSoundConfig,
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
