//! Motion vectors and their bounds (RFC 6386, sections 5 and 16.3).

/// A displacement in quarter luma samples, positive to the right and down.
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

    pub(crate) fn negated(self) -> Self {
        Self { x: self.x.wrapping_neg(), y: self.y.wrapping_neg() }
    }

    /// Vertical and horizontal difference from another vector.
    #[inline]
    pub(crate) fn difference(self, from: Self) -> (i32, i32) {
        (i32::from(self.y) - i32::from(from.y), i32::from(self.x) - i32::from(from.x))
    }

    /// Median of three vectors, per component.
    pub(crate) fn median(a: Self, b: Self, c: Self) -> Self {
        let middle = |a: i16, b: i16, c: i16| a.max(b).min(a.min(b).max(c));
        Self { x: middle(a.x, b.x, c.x), y: middle(a.y, b.y, c.y) }
    }
}

impl From<(i32, i32)> for MotionVector {
    /// From quarter samples to the right and down. Both must fit into 16 bits.
    #[inline]
    fn from((x, y): (i32, i32)) -> Self {
        Self { x: x as i16, y: y as i16 }
    }
}

impl std::ops::Add for MotionVector {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { x: self.x.wrapping_add(other.x), y: self.y.wrapping_add(other.y) }
    }
}

/// Bounds of a vector in quarter samples: the block may lie one macroblock outside the frame (section 16.3).
#[derive(Debug, Clone, Copy)]
pub(crate) struct VectorBounds {
    pub(crate) left: i32,
    pub(crate) right: i32,
    pub(crate) top: i32,
    pub(crate) bottom: i32,
}

impl VectorBounds {
    /// Bounds of the macroblock at (`column`, `row`) in a frame of `columns` x `rows`.
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
