//! What a block and its prediction have apart, by subblock.

/// How a block differs from its prediction, subblock by subblock of 4x4, `N` of them row by row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SubblockDifferences<const N: usize> {
    /// The sum of each subblock's differences.
    pub(crate) sums: [i16; N],
    /// The sum of all squared differences.
    pub(crate) squared: u32,
    /// By how much the subblocks vary that vary by no less than a limit: sixteen times the sum of their squared differences
    /// less the squares of their sums.
    pub(crate) varied: u32,
}
