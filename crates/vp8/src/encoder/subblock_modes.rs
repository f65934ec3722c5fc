//! Prediction and SATD of all modes of a subblock at once, which share means of the same few samples.

mod judged;
pub(crate) mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

pub(crate) use judged::{Judged, SubblockEdges};
#[cfg(not(target_arch = "x86_64"))]
pub(crate) use portable::judge;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86::judge;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn vector_modes_equal_portable_modes(
            source in proptest::collection::vec(any::<u8>(), 3 * 7 + 4),
            edges in any::<([u8; 8], [u8; 4], u8)>(),
            extreme: bool,
        ) {
            let spread = |n: u8| if extreme { 255 * (n >> 7) } else { n };
            let source: Vec<u8> = source.into_iter().map(spread).collect();
            let edges = (edges.0.map(spread), edges.1.map(spread), spread(edges.2));
            prop_assert_eq!(judge(&source, 7, &edges), portable::judge(&source, 7, &edges));
        }
    }
}
