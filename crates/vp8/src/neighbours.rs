//! Contexts from neighbouring macroblocks and subblocks (RFC 6386, sections 11.3 and 16.3).

use crate::macroblock::{LumaMode, MacroblockInfo, ReferenceFrame, SubblockMode};
use crate::motion_vector::{MotionVector, VectorBounds};
use crate::tables::{INTER_MODE_CONTEXTS, KEY_FRAME_SUBBLOCK_MODE_PROBABILITIES, PARTITION_LAYOUTS};

/// Vectors and mode probabilities that follow from a macroblock's neighbours.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NearVectors {
    pub(crate) best: MotionVector,
    pub(crate) nearest: MotionVector,
    pub(crate) near: MotionVector,
    /// Probabilities of the four decisions that select the inter mode.
    pub(crate) mode_probabilities: [u8; 4],
}

impl NearVectors {
    /// Zero vectors and probabilities.
    pub(crate) const NONE: Self = Self {
        best: MotionVector::ZERO,
        nearest: MotionVector::ZERO,
        near: MotionVector::ZERO,
        mode_probabilities: [0; 4],
    };
}

/// Sign bias of each reference: whether its vectors are inverted (section 9.7), indexed by [`ReferenceFrame`].
pub(crate) type SignBiases = [bool; 4];

/// Finds the near vectors from the neighbours above, to the left, and above to the left (section 16.3).
pub(crate) fn find_near_vectors(
    above: &MacroblockInfo,
    left: &MacroblockInfo,
    above_left: &MacroblockInfo,
    reference: ReferenceFrame,
    sign_biases: &SignBiases,
    bounds: &VectorBounds,
) -> NearVectors {
    let split = |neighbour: &MacroblockInfo| u8::from(neighbour.luma_mode == LumaMode::Split);
    let splits = 2 * (split(above) + split(left)) + split(above_left);
    // Shortcut for the most frequent case: no neighbour moves.
    if above.motion_vector.is_zero() && left.motion_vector.is_zero() && above_left.motion_vector.is_zero() {
        let inter = |neighbour: &MacroblockInfo| usize::from(neighbour.reference != ReferenceFrame::Intra);
        let still = 2 * (inter(above) + inter(left)) + inter(above_left);
        let contexts = &INTER_MODE_CONTEXTS;
        let mode_probabilities = [contexts[still][0], contexts[0][1], contexts[0][2], contexts[usize::from(splits)][3]];
        return NearVectors { mode_probabilities, ..NearVectors::NONE };
    }
    let mut vectors = [MotionVector::ZERO; 4];
    let mut counts = [0u8; 4];
    let mut found = 0;
    for (neighbour, weight) in [(above, 2), (left, 2), (above_left, 1)] {
        if neighbour.reference == ReferenceFrame::Intra {
            continue;
        }
        if neighbour.motion_vector.is_zero() {
            counts[0] += weight;
            continue;
        }
        let flipped = sign_biases[neighbour.reference as usize] != sign_biases[reference as usize];
        let vector = if flipped { neighbour.motion_vector.negated() } else { neighbour.motion_vector };
        if found == 0 || vectors[found] != vector {
            found += 1;
            vectors[found] = vector;
        }
        counts[found] += weight;
    }
    // There are three vectors, and the third equals the first.
    if counts[3] > 0 && vectors[3] == vectors[1] {
        counts[1] += 1;
    }
    counts[3] = splits;
    if counts[2] > counts[1] {
        counts.swap(1, 2);
        vectors.swap(1, 2);
    }
    if counts[1] >= counts[0] {
        vectors[0] = vectors[1];
    }
    let probability = |decision: usize| INTER_MODE_CONTEXTS[usize::from(counts[decision])][decision];
    NearVectors {
        best: bounds.clamp(vectors[0]),
        nearest: bounds.clamp(vectors[1]),
        near: bounds.clamp(vectors[2]),
        mode_probabilities: [probability(0), probability(1), probability(2), probability(3)],
    }
}

/// First subblock of a partition in raster order (section 16.3).
#[inline]
pub(crate) fn first_subblock(partitioning: u8, partition: usize) -> usize {
    let layout = &PARTITION_LAYOUTS[usize::from(partitioning)];
    layout.iter().position(|&of| usize::from(of) == partition).expect("every partition has subblocks")
}

/// Vectors of the subblocks to the left and above. `own` are the vectors of the macroblock itself.
#[inline]
pub(crate) fn neighbouring_vectors(
    block: usize,
    own: &[MotionVector; 16],
    above: &MacroblockInfo,
    left: &MacroblockInfo,
) -> [MotionVector; 2] {
    [
        if block.is_multiple_of(4) { left.subblock_vectors[block + 3] } else { own[block - 1] },
        if block < 4 { above.subblock_vectors[block + 12] } else { own[block - 4] },
    ]
}

/// Modes of the subblocks above and to the left. `info` is the macroblock itself.
#[inline]
pub(crate) fn neighbouring_subblock_modes(
    block: usize,
    info: &MacroblockInfo,
    above: &MacroblockInfo,
    left: &MacroblockInfo,
) -> [SubblockMode; 2] {
    [
        if block < 4 { above.subblock_modes[block + 12] } else { info.subblock_modes[block - 4] },
        if block.is_multiple_of(4) { left.subblock_modes[block + 3] } else { info.subblock_modes[block - 1] },
    ]
}

/// Probabilities of a subblock's mode in a key frame, from the modes above and to the left (section 11.3). `info` is
/// the macroblock itself.
#[inline]
pub(crate) fn key_subblock_probabilities(
    block: usize,
    info: &MacroblockInfo,
    above: &MacroblockInfo,
    left: &MacroblockInfo,
) -> &'static [u8; 9] {
    let [above_mode, left_mode] = neighbouring_subblock_modes(block, info, above, left);
    &KEY_FRAME_SUBBLOCK_MODE_PROBABILITIES[above_mode as usize][left_mode as usize]
}

/// Context of a partition's vector, from the vectors to the left and above (section 16.3).
pub(crate) fn partition_vector_context(left: MotionVector, above: MotionVector) -> usize {
    match (left == above, above.is_zero(), left.is_zero()) {
        (true, true, _) => 4,
        (true, false, _) => 3,
        (false, true, _) => 2,
        (false, false, true) => 1,
        (false, false, false) => 0,
    }
}
