//! Macroblocks: what they are predicted from, their modes and their motion vectors (RFC 6386, sections 8, 11 and 16).

use crate::motion_vector::MotionVector;

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

impl MacroblockInfo {
    /// What stands for a neighbour outside the frame.
    pub(crate) const OUTSIDE: Self = Self {
        luma_mode: LumaMode::Dc,
        chroma_mode: LumaMode::Dc,
        reference: ReferenceFrame::Intra,
        motion_vector: MotionVector::ZERO,
        segment: 0,
        partitioning: 0,
        skip: false,
        has_coefficients: false,
        subblock_modes: [SubblockMode::Dc; 16],
        subblock_vectors: [MotionVector::ZERO; 16],
    };

    /// A macroblock that is predicted from its own frame.
    #[inline]
    pub(crate) fn intra(luma_mode: LumaMode, chroma_mode: ChromaMode) -> Self {
        Self { luma_mode, chroma_mode, ..Self::OUTSIDE }
    }

    /// A macroblock with one vector.
    #[inline]
    pub(crate) fn whole(reference: ReferenceFrame, luma_mode: LumaMode, vector: MotionVector) -> Self {
        Self { luma_mode, reference, motion_vector: vector, subblock_vectors: [vector; 16], ..Self::OUTSIDE }
    }

    /// A macroblock whose parts have vectors of their own.
    #[inline]
    pub(crate) fn split(reference: ReferenceFrame, partitioning: u8, vectors: &[MotionVector; 16]) -> Self {
        Self {
            luma_mode: LumaMode::Split,
            reference,
            motion_vector: vectors[15],
            partitioning,
            subblock_vectors: *vectors,
            ..Self::OUTSIDE
        }
    }
}
