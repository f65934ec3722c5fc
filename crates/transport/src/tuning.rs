//! The tuned constants of the transport, overridable for research.

use crate::loss::LossDetectionConfig;
use crate::reverse_path::ReversePathConfig;
use crate::sound::WaitingSoundConfig;

lockstep_units::tuning! {
    /// Tuned constants of a [`Sender`](crate::Sender), one configuration per algorithm. A receiver has none.
    pub struct Tuning {
        /// Loss detection.
        loss_detection: LossDetectionConfig,
        /// Acknowledgements that queue on the reverse path.
        reverse_path: ReversePathConfig,
        /// Sound that waits for transmission.
        waiting_sound: WaitingSoundConfig,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_well_declared() {
        lockstep_units::tuning::assert_well_declared(&Tuning::default());
    }
}
