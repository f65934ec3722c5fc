//! Coefficient tokens (RFC 6386, section 13), each packed into one number.

use crate::tables::{COEFFICIENT_BANDS, ZIGZAG};

/// Type of a coefficient block. The number is the first index of the probabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockKind {
    /// Luma without DC, which is in the macroblock's Y2 block.
    LumaWithoutDc = 0,
    /// The second-order block (Y2) of luma DC coefficients.
    SecondOrder = 1,
    /// A block of either chroma plane.
    Chroma = 2,
    /// Luma with DC, in macroblocks without a Y2 block.
    Luma = 3,
}

impl BlockKind {
    /// Zigzag position of the first coded coefficient.
    #[inline]
    pub(crate) fn first(self) -> usize {
        usize::from(self == Self::LumaWithoutDc)
    }
}

/// Number of tokens: magnitudes 0 to 4, six categories of larger ones, and the end of the block.
pub(crate) const TOKENS: usize = 12;
pub(crate) const END_OF_BLOCK: usize = 11;
pub(crate) const FIRST_CATEGORY: usize = 5;
/// Number of combinations of block type, band and context.
pub(crate) const ROWS: usize = 4 * 8 * 3;

/// Upper bound of [`PackedToken::index`].
pub(crate) const INDICES: usize = 1 << 12;

/// A token and everything that its cost depends on. From the lowest bit: token (4 bits), row of probabilities (7),
/// whether it follows a zero (1), sign (1), magnitude (11).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(transparent)]
pub(crate) struct PackedToken(u32);

impl PackedToken {
    #[inline]
    pub(super) fn new(row: usize, token: usize, after_zero: bool, level: i16) -> Self {
        Self(
            token as u32
                | (row as u32) << 4
                | u32::from(after_zero) << 11
                | u32::from(level < 0) << 12
                | u32::from(level.unsigned_abs()) << 13,
        )
    }

    /// Token, row, and whether it follows a zero, as one number below [`INDICES`].
    #[inline]
    pub(crate) fn index(self) -> usize {
        (self.0 & (INDICES as u32 - 1)) as usize
    }

    #[inline]
    pub(crate) fn token(self) -> usize {
        (self.0 & 15) as usize
    }

    #[inline]
    pub(crate) fn row(self) -> usize {
        (self.0 >> 4 & 127) as usize
    }

    /// Whether the token follows a zero, so that the block cannot end here.
    #[inline]
    pub(crate) fn follows_zero(self) -> bool {
        self.0 >> 11 & 1 == 1
    }

    #[inline]
    pub(crate) fn is_negative(self) -> bool {
        self.0 >> 12 & 1 == 1
    }

    #[inline]
    pub(crate) fn magnitude(self) -> usize {
        (self.0 >> 13) as usize
    }
}

/// Number of blocks in a macroblock: luma, chroma and Y2.
pub(crate) const BLOCKS: usize = 25;

/// Index of a token's probabilities.
#[inline]
pub(crate) fn row_of(kind: BlockKind, position: usize, context: usize) -> usize {
    (kind as usize * 8 + COEFFICIENT_BANDS[position] as usize) * 3 + context
}

/// Token of a coefficient with this magnitude.
#[inline]
pub(crate) const fn token_of(magnitude: u16) -> usize {
    match magnitude {
        0..=4 => magnitude as usize,
        5..=6 => 5,
        7..=10 => 6,
        11..=18 => 7,
        19..=34 => 8,
        35..=66 => 9,
        _ => 10,
    }
}

/// Zigzag position after the last nonzero coefficient; 0 if there is none.
#[inline]
pub(crate) fn end_of(levels: &[i16; 16]) -> usize {
    /// One more than the zigzag position of each raster position.
    const REACH: [i16; 16] = {
        let mut reach = [0; 16];
        let mut position = 0;
        while position < 16 {
            reach[ZIGZAG[position] as usize] = position as i16 + 1;
            position += 1;
        }
        reach
    };
    let mut end = 0;
    for (level, reach) in levels.iter().zip(REACH) {
        end = end.max(if *level == 0 { 0 } else { reach });
    }
    end as usize
}
