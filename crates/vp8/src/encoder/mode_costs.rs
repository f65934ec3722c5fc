//! Paths through the trees of prediction modes (RFC 6386, sections 8.1, 11 and 16), from the root to each leaf.

use super::bit_cost::bit_cost;
use super::bool_encoder::BoolEncoder;
use crate::macroblock::{ChromaMode, LumaMode, ReferenceFrame, SubblockMode};
use crate::tables::{DEFAULT_SUBBLOCK_MODE_PROBABILITIES, KEY_FRAME_SUBBLOCK_MODE_PROBABILITIES};

/// A path through a tree: for each node, the index of its probability and the branch taken.
pub(crate) type Path = &'static [(usize, bool)];

const F: bool = false;
const T: bool = true;

/// Luma modes in interframes.
#[inline]
pub(crate) fn luma_path(mode: LumaMode) -> Path {
    match mode {
        LumaMode::Dc => &[(0, F)],
        LumaMode::Vertical => &[(0, T), (1, F), (2, F)],
        LumaMode::Horizontal => &[(0, T), (1, F), (2, T)],
        LumaMode::TrueMotion => &[(0, T), (1, T), (3, F)],
        LumaMode::Subblocks => &[(0, T), (1, T), (3, T)],
        _ => unreachable!("not an intra mode"),
    }
}

/// Luma modes in key frames.
#[inline]
pub(crate) fn key_luma_path(mode: LumaMode) -> Path {
    match mode {
        LumaMode::Subblocks => &[(0, F)],
        LumaMode::Dc => &[(0, T), (1, F), (2, F)],
        LumaMode::Vertical => &[(0, T), (1, F), (2, T)],
        LumaMode::Horizontal => &[(0, T), (1, T), (3, F)],
        LumaMode::TrueMotion => &[(0, T), (1, T), (3, T)],
        _ => unreachable!("not an intra mode"),
    }
}

/// Chroma modes.
#[inline]
pub(crate) fn chroma_path(mode: ChromaMode) -> Path {
    match mode {
        ChromaMode::Dc => &[(0, F)],
        ChromaMode::Vertical => &[(0, T), (1, F)],
        ChromaMode::Horizontal => &[(0, T), (1, T), (2, F)],
        ChromaMode::TrueMotion => &[(0, T), (1, T), (2, T)],
        _ => unreachable!("not a chroma mode"),
    }
}

/// Subblock modes.
#[inline]
pub(crate) const fn subblock_path(mode: SubblockMode) -> Path {
    match mode {
        SubblockMode::Dc => &[(0, F)],
        SubblockMode::TrueMotion => &[(0, T), (1, F)],
        SubblockMode::Vertical => &[(0, T), (1, T), (2, F)],
        SubblockMode::Horizontal => &[(0, T), (1, T), (2, T), (3, F), (4, F)],
        SubblockMode::RightDown => &[(0, T), (1, T), (2, T), (3, F), (4, T), (5, F)],
        SubblockMode::VerticalRight => &[(0, T), (1, T), (2, T), (3, F), (4, T), (5, T)],
        SubblockMode::LeftDown => &[(0, T), (1, T), (2, T), (3, T), (6, F)],
        SubblockMode::VerticalLeft => &[(0, T), (1, T), (2, T), (3, T), (6, T), (7, F)],
        SubblockMode::HorizontalDown => &[(0, T), (1, T), (2, T), (3, T), (6, T), (7, T), (8, F)],
        SubblockMode::HorizontalUp => &[(0, T), (1, T), (2, T), (3, T), (6, T), (7, T), (8, T)],
    }
}

/// Inter modes. Node `n` has probability `n`.
#[inline]
pub(crate) fn inter_path(mode: LumaMode) -> Path {
    match mode {
        LumaMode::Zero => &[(0, F)],
        LumaMode::Nearest => &[(0, T), (1, F)],
        LumaMode::Near => &[(0, T), (1, T), (2, F)],
        LumaMode::New => &[(0, T), (1, T), (2, T), (3, F)],
        LumaMode::Split => &[(0, T), (1, T), (2, T), (3, T)],
        _ => unreachable!("not an inter mode"),
    }
}

/// Reference frames.
#[inline]
pub(crate) fn reference_path(reference: ReferenceFrame) -> Path {
    match reference {
        ReferenceFrame::Intra => &[(0, F)],
        ReferenceFrame::Last => &[(0, T), (1, F)],
        ReferenceFrame::Golden => &[(0, T), (1, T), (2, F)],
        ReferenceFrame::AltRef => &[(0, T), (1, T), (2, T)],
    }
}

/// Partitionings: top and bottom halves, left and right halves, quarters, sixteenths.
pub(crate) const PARTITIONING_PATHS: [Path; 4] =
    [&[(0, T), (1, T), (2, F)], &[(0, T), (1, T), (2, T)], &[(0, T), (1, F)], &[(0, F)]];

/// Source of a partition's vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PartitionVector {
    Left,
    Above,
    Zero,
    New,
}

/// Paths to the sources of a partition's vector.
#[inline]
pub(crate) fn partition_path(vector: PartitionVector) -> Path {
    match vector {
        PartitionVector::Left => &[(0, F)],
        PartitionVector::Above => &[(0, T), (1, F)],
        PartitionVector::Zero => &[(0, T), (1, T), (2, F)],
        PartitionVector::New => &[(0, T), (1, T), (2, T)],
    }
}

/// Cost of a path in 1/256 bit.
#[inline]
pub(crate) fn path_cost(path: Path, probabilities: &[u8]) -> u32 {
    path.iter().map(|&(node, bit)| bit_cost(bit, probabilities[node])).sum()
}

/// Cost of each subblock mode in a key frame, in 1/256 bit, by the modes above and to the left.
pub(crate) static KEY_SUBBLOCK_COSTS: [[[u32; 10]; 10]; 10] = {
    let mut costs = [[[0; 10]; 10]; 10];
    let mut context = 0;
    while context < 100 {
        let (above, left) = (context / 10, context % 10);
        costs[above][left] = subblock_costs(&KEY_FRAME_SUBBLOCK_MODE_PROBABILITIES[above][left]);
        context += 1;
    }
    costs
};

/// Cost of each subblock mode in interframes, where it has no context.
pub(crate) static SUBBLOCK_COSTS: [u32; 10] = subblock_costs(&DEFAULT_SUBBLOCK_MODE_PROBABILITIES);

/// Cost of each subblock mode with these probabilities.
const fn subblock_costs(probabilities: &[u8; 9]) -> [u32; 10] {
    let mut costs = [0; 10];
    let mut mode = 0;
    while mode < 10 {
        let path = subblock_path(SubblockMode::ALL[mode]);
        let mut step = 0;
        while step < path.len() {
            let (node, bit) = path[step];
            costs[mode] += bit_cost(bit, probabilities[node]);
            step += 1;
        }
        mode += 1;
    }
    costs
}

/// Writes a path.
// One copy for all paths makes the page 1 kB smaller.
#[cfg_attr(not(target_family = "wasm"), inline(always))]
#[cfg_attr(target_family = "wasm", inline(never))]
pub(crate) fn write_path(writer: &mut BoolEncoder, path: Path, probabilities: &[u8]) {
    for &(node, bit) in path {
        writer.write(bit, probabilities[node]);
    }
}

/// Counts the branches of a path.
#[inline]
pub(crate) fn count_path(path: Path, counts: &mut [[u32; 2]]) {
    for &(node, bit) in path {
        counts[node][usize::from(bit)] += 1;
    }
}
