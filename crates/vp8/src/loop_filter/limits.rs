//! An edge between blocks, and how strongly it is filtered (RFC 6386, sections 9.6 and 15).

/// What an edge lies between.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Edge {
    /// Macroblocks: lines p2 to q2 change.
    Macroblock,
    /// Subblocks of one macroblock: lines p1 to q1 change.
    Subblock,
    /// Either, in the simple filter with its limit: lines p0 and q0 change.
    Simple(u8),
}

/// How strongly a macroblock is filtered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Of the difference over a macroblock's edge.
    pub(super) macroblock_edge: u8,
    /// Of the difference over a subblock's edge.
    pub(super) subblock_edge: u8,
    /// Of differences between neighbours on one side.
    pub(super) interior: u8,
    /// Above this difference next to the edge only the two nearest samples change.
    pub(super) high_variance: u8,
}

impl Limits {
    pub(crate) fn new(level: i32, sharpness: u8, key_frame: bool) -> Self {
        let mut interior = level >> (i32::from(sharpness > 0) + i32::from(sharpness > 4));
        if sharpness > 0 {
            interior = interior.min(9 - i32::from(sharpness));
        }
        let interior = interior.max(1);
        let high_variance = match (key_frame, level) {
            (true, 40..) => 2,
            (true, 15..) => 1,
            (false, 40..) => 3,
            (false, 20..) => 2,
            (false, 15..) => 1,
            _ => 0,
        };
        Self {
            macroblock_edge: ((level + 2) * 2 + interior) as u8,
            subblock_edge: (level * 2 + interior) as u8,
            interior: interior as u8,
            high_variance,
        }
    }
}

/// Where two runs of eight places along an edge begin, which are filtered together: in one plane behind each other, or
/// in both chroma planes at the same place.
pub(crate) type Runs = [usize; 2];
