//! Whole-number loops over samples, compiled for AVX2 too.

/// Does `work` as compiled for AVX2 where the processor has it, else as compiled for every processor. `work` is to be one
/// loop over whole numbers that is inlined here: the results are then the same.
#[inline(always)]
pub(super) fn with_vectors<R>(work: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has these instructions.
        #[allow(unsafe_code)]
        return unsafe { with_avx2(work) };
    }
    work()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn with_avx2<R>(work: impl FnOnce() -> R) -> R {
    work()
}
