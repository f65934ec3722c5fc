//! The macroblocks of a frame in the making, and what they say of those that follow.

use super::mode_costs::PartitionVector;
use crate::macroblock::{LumaMode, MacroblockInfo, ReferenceFrame};
use crate::motion_vector::VectorBounds;
use crate::neighbours::{NearVectors, find_near_vectors};

/// The macroblocks of a frame in the making.
#[derive(Debug, Clone)]
pub(super) struct Macroblocks {
    pub(super) columns: usize,
    rows: usize,
    /// Those that are decided.
    pub(super) infos: Vec<MacroblockInfo>,
    /// How each partition's vector is coded, in split macroblocks.
    pub(super) partition_vectors: Vec<[PartitionVector; 16]>,
    /// What the neighbours of each say of its vector.
    pub(super) near: Vec<NearVectors>,
    /// Of which of them all coefficients were seen to lie in the quantizers' dead zones.
    pub(super) hopeless: Vec<bool>,
}

impl Macroblocks {
    /// None yet; `infos` is an empty vector for them.
    pub(super) fn new(columns: usize, rows: usize, infos: Vec<MacroblockInfo>) -> Self {
        let partition_vectors = vec![[PartitionVector::Zero; 16]; columns * rows];
        let count = columns * rows;
        let (near, hopeless) = (Vec::with_capacity(count), Vec::with_capacity(count));
        Self { columns, rows, infos, partition_vectors, near, hopeless }
    }

    /// Adds the next, row by row, now that it is decided.
    #[inline]
    pub(super) fn push(
        &mut self,
        info: MacroblockInfo,
        partition_vectors: &[PartitionVector; 16],
        near: NearVectors,
        hopeless: bool,
    ) {
        if info.luma_mode == LumaMode::Split {
            self.partition_vectors[self.infos.len()] = *partition_vectors;
        }
        self.infos.push(info);
        self.near.push(near);
        self.hopeless.push(hopeless);
    }

    /// The neighbours above, to the left, and above to the left.
    pub(super) fn neighbours(&self, column: usize, row: usize) -> [&MacroblockInfo; 3] {
        let at = row * self.columns + column;
        let outside = &MacroblockInfo::OUTSIDE;
        let neighbour = |exists: bool, back: usize| if exists { &self.infos[at - back] } else { outside };
        [neighbour(row > 0, self.columns), neighbour(column > 0, 1), neighbour(row > 0 && column > 0, self.columns + 1)]
    }

    /// What the neighbours say of a vector. No reference's vectors are turned round, so it is the same for all.
    pub(super) fn near_vectors(&self, column: usize, row: usize) -> NearVectors {
        let [above, left, above_left] = self.neighbours(column, row);
        let bounds = VectorBounds::at(column, row, self.columns, self.rows);
        find_near_vectors(above, left, above_left, ReferenceFrame::Last, &[false; 4], &bounds)
    }
}
