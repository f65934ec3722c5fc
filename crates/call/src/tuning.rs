//! Tuned constants of a call, overridable for research.

use crate::frame_dropper::FrameDropperConfig;
use crate::functional::FunctionalConfig;
use crate::narrow::NarrowPathSharesConfig;
use crate::screen::ScreenConfig;
use crate::sending::DecodeLagConfig;
use crate::size_curve::SizeCurveConfig;

lockstep_units::tuning! {
    /// Tuned constants of a sending end: one configuration per algorithm. A receiving end has none.
    pub struct Tuning {
        /// Path observer, limits and controller.
        control: lockstep_control::Tuning,
        /// Loss detection and acknowledgements.
        transport: lockstep_transport::Tuning,
        /// Sound and pictures on a narrow path.
        narrow_way: NarrowPathSharesConfig,
        /// Frames that are coded to fit their budget.
        functional: FunctionalConfig,
        /// Frame size over the quantizer.
        size_curve: SizeCurveConfig,
        /// Skipped pictures on slow paths.
        frame_dropper: FrameDropperConfig,
        /// Pictures of a screen.
        screen: ScreenConfig,
        /// Receivers that decode slowly.
        decode_lag: DecodeLagConfig,
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
