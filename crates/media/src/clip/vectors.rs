//! Whole-number loops over samples, compiled for AVX2 too.

/// A loop over whole numbers. Implementations of [`Loop::run`] are to be `#[inline(always)]`, so that they are compiled anew
/// for each set of instructions.
pub(super) trait Loop {
    /// Does it.
    fn run(self);
}

/// Runs the loop as compiled for AVX2 where the processor has it, else as compiled for every processor: the results are the
/// same.
pub(super) fn with_vectors(work: impl Loop) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has these instructions.
        #[allow(unsafe_code)]
        return unsafe { with_avx2(work) };
    }
    work.run();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn with_avx2(work: impl Loop) {
    work.run();
}
