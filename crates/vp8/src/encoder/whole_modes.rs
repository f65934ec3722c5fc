//! SATD of all whole-block modes at once. Only the block itself is transformed, because a prediction changes few of its
//! coefficients.

mod modes;
pub(crate) mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

pub(crate) use modes::WHOLE_MODES;
#[cfg(not(target_arch = "x86_64"))]
pub(crate) use portable::luma_errors;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86::luma_errors;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::intra::Edges;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn vector_mode_errors_equal_portable_mode_errors(
            samples in proptest::collection::vec(any::<u8>(), 17 * 20),
            (base, spread) in (any::<u8>(), 0u16..=255),
            (has_above, has_left) in any::<(bool, bool)>(),
        ) {
            // Samples that are close to each other need no clamping, distant ones do.
            let near = |n: u8| base.saturating_add((u16::from(n) * spread / 255) as u8);
            let samples: Vec<u8> = samples.into_iter().map(near).collect();
            let edges = Edges::<16>::gather(&samples, 20, 21, has_above, has_left);
            // A slice that contains only what the function may read.
            let source = &samples[21..21 + 15 * 20 + 16];
            prop_assert_eq!(luma_errors(source, 20, &edges), portable::luma_errors(source, 20, &edges));
        }
    }
}
