//! The tuned constants of frames that are made to fit their budget.

lockstep_units::config! {
    /// Frames that are made to fit their budget.
    pub struct FunctionalConfig = "functional" {
        /// Share of the budget that the first pass aims at.
        aim: f64 = 0.9, "", 0.1..=1.5, "2026-11-control-ablation";
        /// A first pass this many quantizer indices from the codec's estimate has an estimate of its own.
        far: u8 = 3, "", 0..=127, "2026-11-control-ablation";
        /// A frame is coded again unless a candidate fits and fills this share of the budget. Filling more takes time and
        /// delays the next frame.
        enough_fill: f64 = 0.5, "", 0.0..=1.0, "2026-11-control-ablation";
        /// Bits a luma sample that the first key frame is expected to take at the middle quantizer.
        first_key_frame_bits: f64 = 0.2, "bits", 0.001..=8.0, "2026-11-control-ablation";
        /// Share of a key frame's size that the first inter frame is expected to have.
        first_inter_share: f64 = 0.25, "", 0.001..=1.0, "2026-11-control-ablation";
        /// If the budget has shrunk below every candidate, the smallest is sent up to this factor over it: a budget is a
        /// forecast, and a skipped picture is not seen.
        most_over: f64 = 1.15, "", 1.0..=10.0, "2026-11-control-ablation";
    }
}
