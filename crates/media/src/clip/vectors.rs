//! Integer loops over samples, also compiled for AVX2.

/// An integer loop. Implementations of [`Loop::run`] must be `#[inline(always)]`, so that each instruction set has its
/// own compiled version.
pub(super) trait Loop {
    /// Runs the loop.
    fn run(self);
}

/// Runs the AVX2 version of the loop if the processor supports it, else the portable version. The results are equal.
pub(super) fn with_vectors(work: impl Loop) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor supports AVX2.
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
