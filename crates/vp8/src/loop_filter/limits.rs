//! Types of edges and filter limits (RFC 6386, sections 9.6 and 15).

/// Type of an edge.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Edge {
    /// Between macroblocks: lines p2 to q2 change.
    Macroblock,
    /// Between subblocks of one macroblock: lines p1 to q1 change.
    Subblock,
    /// Any edge in the simple filter, with its limit: lines p0 and q0 change.
    Simple(u8),
}

/// Filter limits of a macroblock, as differences of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Limit of the difference across a macroblock edge.
    pub(super) macroblock_edge: u8,
    /// Limit of the difference across a subblock edge.
    pub(super) subblock_edge: u8,
    /// Limit of the differences between neighbours on one side.
    pub(super) interior: u8,
    /// Threshold of high variance: above this difference next to the edge, only the two nearest samples change.
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

/// Start of two runs of eight positions along an edge that are filtered together. Both are in one plane, one after the
/// other, or in both chroma planes.
pub(crate) type Runs = [usize; 2];
