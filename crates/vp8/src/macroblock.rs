//! Macroblocks: their modes, their motion vectors, and what their neighbours say of them (RFC 6386, sections 8, 11, 16).

use crate::tables::INTER_MODE_CONTEXTS;

/// Prediction of a macroblock's luma (sections 11.2 and 16.2). The numbers of the intra modes are those of the trees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub(crate) enum LumaMode {
    #[default]
    Dc = 0,
    Vertical = 1,
    Horizontal = 2,
    TrueMotion = 3,
    /// Each subblock has an intra mode of its own.
    Subblocks = 4,
    Nearest = 5,
    Near = 6,
    Zero = 7,
    New = 8,
    Split = 9,
}

impl LumaMode {
    pub(crate) fn from_intra(number: u8) -> Self {
        [Self::Dc, Self::Vertical, Self::Horizontal, Self::TrueMotion, Self::Subblocks][usize::from(number)]
    }

    /// Whether luma DC coefficients travel in a block of their own (Y2).
    pub(crate) fn has_second_order(self) -> bool {
        !matches!(self, Self::Subblocks | Self::Split)
    }
}

/// Prediction of a macroblock's chroma, as the first four luma modes.
pub(crate) type ChromaMode = LumaMode;

/// Prediction of a 4x4 subblock (section 12.3), numbered as in the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub(crate) enum SubblockMode {
    #[default]
    Dc = 0,
    TrueMotion = 1,
    Vertical = 2,
    Horizontal = 3,
    LeftDown = 4,
    RightDown = 5,
    VerticalRight = 6,
    VerticalLeft = 7,
    HorizontalDown = 8,
    HorizontalUp = 9,
}

impl SubblockMode {
    pub(crate) const ALL: [Self; 10] = [
        Self::Dc,
        Self::TrueMotion,
        Self::Vertical,
        Self::Horizontal,
        Self::LeftDown,
        Self::RightDown,
        Self::VerticalRight,
        Self::VerticalLeft,
        Self::HorizontalDown,
        Self::HorizontalUp,
    ];

    /// The mode that a macroblock of `mode` counts as in its neighbours' contexts (section 11.3).
    pub(crate) fn implied_by(mode: LumaMode) -> Self {
        match mode {
            LumaMode::Vertical => Self::Vertical,
            LumaMode::Horizontal => Self::Horizontal,
            LumaMode::TrueMotion => Self::TrueMotion,
            _ => Self::Dc,
        }
    }
}

/// What a macroblock is predicted from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub(crate) enum ReferenceFrame {
    #[default]
    Intra = 0,
    Last = 1,
    Golden = 2,
    AltRef = 3,
}

/// A displacement in quarter samples of luma: to the right and down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct MotionVector {
    pub(crate) x: i16,
    pub(crate) y: i16,
}

impl MotionVector {
    pub(crate) const ZERO: Self = Self { x: 0, y: 0 };

    pub(crate) fn is_zero(self) -> bool {
        self == Self::ZERO
    }

    fn negated(self) -> Self {
        Self { x: self.x.wrapping_neg(), y: self.y.wrapping_neg() }
    }
}

impl std::ops::Add for MotionVector {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { x: self.x.wrapping_add(other.x), y: self.y.wrapping_add(other.y) }
    }
}

/// All that is known of a macroblock beside its coefficients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct MacroblockInfo {
    pub(crate) luma_mode: LumaMode,
    pub(crate) chroma_mode: ChromaMode,
    pub(crate) reference: ReferenceFrame,
    /// Vector of the macroblock; of its last subblock where it is split; zero where it is intra.
    pub(crate) motion_vector: MotionVector,
    pub(crate) segment: u8,
    /// The partitioning of a split macroblock.
    pub(crate) partitioning: u8,
    /// The frame says that there are no coefficients.
    pub(crate) skip: bool,
    /// There is a coefficient that is not zero, so that inner edges are filtered.
    pub(crate) has_coefficients: bool,
    /// Modes of the subblocks, where luma is predicted by subblocks, else what the mode implies.
    pub(crate) subblock_modes: [SubblockMode; 16],
    /// Vectors of the subblocks; all equal to `motion_vector` where the macroblock is not split.
    pub(crate) subblock_vectors: [MotionVector; 16],
}

/// How far a vector may point, in quarter samples: so far that one macroblock's width is outside (section 16.3).
#[derive(Debug, Clone, Copy)]
pub(crate) struct VectorBounds {
    pub(crate) left: i32,
    pub(crate) right: i32,
    pub(crate) top: i32,
    pub(crate) bottom: i32,
}

impl VectorBounds {
    /// The bounds at macroblock (`column`, `row`) of `columns` x `rows`.
    pub(crate) fn at(column: usize, row: usize, columns: usize, rows: usize) -> Self {
        Self {
            left: -(64 * column as i32) - 64,
            right: 64 * (columns - column) as i32,
            top: -(64 * row as i32) - 64,
            bottom: 64 * (rows - row) as i32,
        }
    }

    pub(crate) fn clamp(&self, vector: MotionVector) -> MotionVector {
        MotionVector {
            x: i32::from(vector.x).clamp(self.left, self.right) as i16,
            y: i32::from(vector.y).clamp(self.top, self.bottom) as i16,
        }
    }
}

/// What a macroblock's neighbours say of its vector.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NearVectors {
    pub(crate) best: MotionVector,
    pub(crate) nearest: MotionVector,
    pub(crate) near: MotionVector,
    /// Probabilities of the four decisions that choose the inter mode.
    pub(crate) mode_probabilities: [u8; 4],
}

/// Which references' vectors point the other way (section 9.7), by [`ReferenceFrame`].
pub(crate) type SignBiases = [bool; 4];

/// Looks at the neighbours above, to the left and above to the left (section 16.3).
pub(crate) fn find_near_vectors(
    above: &MacroblockInfo,
    left: &MacroblockInfo,
    above_left: &MacroblockInfo,
    reference: ReferenceFrame,
    sign_biases: &SignBiases,
    bounds: &VectorBounds,
) -> NearVectors {
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
    // Three different vectors, and the third is the first again.
    if counts[3] > 0 && vectors[3] == vectors[1] {
        counts[1] += 1;
    }
    let split = |neighbour: &MacroblockInfo| u8::from(neighbour.luma_mode == LumaMode::Split);
    counts[3] = 2 * (split(above) + split(left)) + split(above_left);
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

/// Context of a partition's vector from the vectors to its left and above it (section 16.3).
pub(crate) fn partition_vector_context(left: MotionVector, above: MotionVector) -> usize {
    match (left == above, above.is_zero(), left.is_zero()) {
        (true, true, _) => 4,
        (true, false, _) => 3,
        (false, true, _) => 2,
        (false, false, true) => 1,
        (false, false, false) => 0,
    }
}
