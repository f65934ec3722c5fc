//! Differences between a block and its prediction, by subblock.

/// Differences between a block and its prediction in `N` subblocks of 4x4, row by row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SubblockDifferences<const N: usize> {
    /// Sum of the differences of each subblock.
    pub(crate) sums: [i16; N],
    /// Sum of all squared differences.
    pub(crate) squared: u32,
    /// Total variation of the subblocks that vary at least by a limit. The variation of a subblock is 16 times its sum
    /// of squared differences minus its squared sum.
    pub(crate) varied: u32,
}
