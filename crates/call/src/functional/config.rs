//! Tuned constants of frames that are coded to fit their budget.

lockstep_units::config! {
    /// Frames that are coded to fit their budget.
    pub struct FunctionalConfig = "functional" {
        /// Target share of the budget for the first pass.
        aim: f64 = 0.9, "", 0.1..=1.5, "2026-11-control-ablation";
        /// Distance from the quantizer of the codec's estimate above which a first pass has its own estimate.
        far: u8 = 3, "", 0..=127, "2026-11-control-ablation";
        /// Share of the budget that a fitting candidate must fill, else the frame is coded again. Filling more takes
        /// time and delays the next frame.
        enough_fill: f64 = 0.5, "", 0.0..=1.0, "2026-11-control-ablation";
        /// Expected bits per luma sample of the first key frame at the middle quantizer.
        first_key_frame_bits: f64 = 0.2, "bits", 0.001..=8.0, "2026-11-control-ablation";
        /// Expected size of the first interframe, as a share of a key frame's size.
        first_inter_share: f64 = 0.25, "", 0.001..=1.0, "2026-11-control-ablation";
        /// Factor up to which the smallest candidate may exceed a budget that has shrunk below all candidates. A budget
        /// is a forecast, and a skipped picture is not visible.
        most_over: f64 = 1.15, "", 1.0..=10.0, "2026-11-control-ablation";
    }
}
