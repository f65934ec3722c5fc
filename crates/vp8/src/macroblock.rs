//! Macroblocks: reference frames, modes and motion vectors (RFC 6386, sections 8, 11 and 16).

use crate::motion_vector::MotionVector;

/// Prediction mode of a macroblock's luma (sections 11.2 and 16.2). Intra modes have the numbers of the trees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub(crate) enum LumaMode {
    #[default]
    Dc = 0,
    Vertical = 1,
    Horizontal = 2,
    TrueMotion = 3,
    /// Each subblock has a separate intra mode (`B_PRED`).
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

    /// Whether luma DC coefficients are coded in a separate second-order block (Y2).
    pub(crate) fn has_second_order(self) -> bool {
        !matches!(self, Self::Subblocks | Self::Split)
    }
}

/// Prediction mode of a macroblock's chroma: one of the first four luma modes.
pub(crate) type ChromaMode = LumaMode;

/// Prediction mode of a 4x4 subblock (section 12.3), numbered as in the tree.
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

    /// Subblock mode that stands for macroblock mode `mode` in the contexts of neighbours (section 11.3).
    pub(crate) fn implied_by(mode: LumaMode) -> Self {
        match mode {
            LumaMode::Vertical => Self::Vertical,
            LumaMode::Horizontal => Self::Horizontal,
            LumaMode::TrueMotion => Self::TrueMotion,
            _ => Self::Dc,
        }
    }
}

/// Reference frame of a macroblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub(crate) enum ReferenceFrame {
    #[default]
    Intra = 0,
    Last = 1,
    Golden = 2,
    AltRef = 3,
}

/// The header of a macroblock: everything except its coefficients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct MacroblockInfo {
    pub(crate) luma_mode: LumaMode,
    pub(crate) chroma_mode: ChromaMode,
    pub(crate) reference: ReferenceFrame,
    /// Vector of the macroblock. In split mode that of the last subblock; zero for intra modes.
    pub(crate) motion_vector: MotionVector,
    pub(crate) segment: u8,
    /// Partitioning in split mode.
    pub(crate) partitioning: u8,
    /// Skip flag: the frame has no coefficients for the macroblock.
    pub(crate) skip: bool,
    /// Whether a coefficient is nonzero. If so, inner edges are filtered.
    pub(crate) has_coefficients: bool,
    /// Modes of the subblocks. For other luma modes, the subblock mode that `luma_mode` implies.
    pub(crate) subblock_modes: [SubblockMode; 16],
    /// Vectors of the subblocks. Without split mode all are equal to `motion_vector`.
    pub(crate) subblock_vectors: [MotionVector; 16],
}

impl MacroblockInfo {
    /// Substitute for a neighbour outside the frame.
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

    /// Creates the header of an intra macroblock.
    #[inline]
    pub(crate) fn intra(luma_mode: LumaMode, chroma_mode: ChromaMode) -> Self {
        Self { luma_mode, chroma_mode, ..Self::OUTSIDE }
    }

    /// Creates the header of an inter macroblock with one vector.
    #[inline]
    pub(crate) fn whole(reference: ReferenceFrame, luma_mode: LumaMode, vector: MotionVector) -> Self {
        Self { luma_mode, reference, motion_vector: vector, subblock_vectors: [vector; 16], ..Self::OUTSIDE }
    }

    /// Creates the header of a macroblock in split mode.
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
