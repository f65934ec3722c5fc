//! The macroblocks of a frame under construction, and the contexts that they give to later ones.

use super::mode_costs::PartitionVector;
use crate::macroblock::{LumaMode, MacroblockInfo, ReferenceFrame};
use crate::motion_vector::VectorBounds;
use crate::neighbours::{NearVectors, find_near_vectors};

/// The macroblocks of a frame under construction.
#[derive(Debug, Clone)]
pub(super) struct Macroblocks {
    pub(super) columns: usize,
    rows: usize,
    /// Headers of the macroblocks decided so far.
    pub(super) infos: Vec<MacroblockInfo>,
    /// How the vector of each partition is coded, for macroblocks in split mode.
    pub(super) partition_vectors: Vec<[PartitionVector; 16]>,
    /// Near vectors of each macroblock.
    pub(super) near: Vec<NearVectors>,
    /// For each macroblock, whether all its coefficients are known to be inside the dead zones.
    pub(super) quantizes_to_zero: Vec<bool>,
}

impl Macroblocks {
    /// Starts without macroblocks. `infos` is an empty vector to fill.
    pub(super) fn new(columns: usize, rows: usize, infos: Vec<MacroblockInfo>) -> Self {
        let partition_vectors = vec![[PartitionVector::Zero; 16]; columns * rows];
        let count = columns * rows;
        let (near, quantizes_to_zero) = (Vec::with_capacity(count), Vec::with_capacity(count));
        Self { columns, rows, infos, partition_vectors, near, quantizes_to_zero }
    }

    /// Adds the next macroblock in raster order.
    #[inline]
    pub(super) fn push(
        &mut self,
        info: MacroblockInfo,
        partition_vectors: &[PartitionVector; 16],
        near: NearVectors,
        quantizes_to_zero: bool,
    ) {
        if info.luma_mode == LumaMode::Split {
            self.partition_vectors[self.infos.len()] = *partition_vectors;
        }
        self.infos.push(info);
        self.near.push(near);
        self.quantizes_to_zero.push(quantizes_to_zero);
    }

    /// The neighbours above, to the left, and above to the left.
    pub(super) fn neighbours(&self, column: usize, row: usize) -> [&MacroblockInfo; 3] {
        let at = row * self.columns + column;
        let outside = &MacroblockInfo::OUTSIDE;
        let neighbour = |exists: bool, back: usize| if exists { &self.infos[at - back] } else { outside };
        [neighbour(row > 0, self.columns), neighbour(column > 0, 1), neighbour(row > 0 && column > 0, self.columns + 1)]
    }

    /// Near vectors of the next macroblock. The encoder uses no sign bias, so they are the same for all references.
    pub(super) fn near_vectors(&self, column: usize, row: usize) -> NearVectors {
        let [above, left, above_left] = self.neighbours(column, row);
        let bounds = VectorBounds::at(column, row, self.columns, self.rows);
        find_near_vectors(above, left, above_left, ReferenceFrame::Last, &[false; 4], &bounds)
    }
}
