//! The macroblocks of a frame under construction, and the contexts that they give to later ones.

use std::sync::OnceLock;

use super::mode_costs::PartitionVector;
use super::residual::EdgeContext;
use crate::macroblock::MacroblockInfo;
use crate::neighbours::NearVectors;

/// Cost of a macroblock's coefficients, with the probabilities at the start of the frame.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cost {
    /// Cost as coded.
    pub(super) bits: u32,
    /// Cost if the residual is kept.
    pub(super) coded: u32,
    /// Skip weight from which on the residual is dropped.
    pub(super) worth: u32,
}

impl Cost {
    /// Cost at another skip weight.
    pub(super) fn at(self, weight: u32) -> u32 {
        if self.worth > weight { self.coded } else { 0 }
    }
}

/// A coded macroblock without its tokens and samples.
#[derive(Debug, Clone, Copy)]
pub(super) struct Coded {
    pub(super) info: MacroblockInfo,
    pub(super) near: NearVectors,
    /// How the vector of each partition is coded, in split mode.
    pub(super) partition_vectors: [PartitionVector; 16],
    /// Whether all coefficients are known to be inside the dead zones.
    pub(super) quantizes_to_zero: bool,
    pub(super) cost: Cost,
    /// Context of the coefficients of the macroblock below.
    pub(super) context: EdgeContext,
    /// The lowest lines of luma, U and V, unfiltered, from which macroblocks below are predicted.
    pub(super) luma: [u8; 16],
    pub(super) chroma: [[u8; 8]; 2],
}

impl Coded {
    /// Content of a batch before macroblocks are added.
    pub(super) const NONE: Self = Self {
        info: MacroblockInfo::OUTSIDE,
        near: NearVectors::NONE,
        partition_vectors: [PartitionVector::Zero; 16],
        quantizes_to_zero: false,
        cost: Cost { bits: 0, coded: 0, worth: 0 },
        context: EdgeContext::NONE,
        luma: [0; 16],
        chroma: [[0; 8]; 2],
    };
}

/// Number of adjacent macroblocks in a batch.
///
/// A row passes its macroblocks on to the one below in batches. Memory that another core has just written is expensive
/// to read, above all while that core writes next to it. `lab: 2026-11-effort`.
pub(super) const BATCH: usize = 8;

/// Adjacent macroblocks of a row, once they are coded.
pub(super) type Batch = OnceLock<[Coded; BATCH]>;

/// The batches of a frame, row by row.
#[derive(Debug, Clone)]
pub(super) struct Batches {
    columns: usize,
    per_row: usize,
    all: Vec<Batch>,
}

impl Batches {
    /// Starts without macroblocks.
    pub(super) fn new(columns: usize, rows: usize) -> Self {
        let per_row = columns.div_ceil(BATCH);
        let all = (0..per_row * rows).map(|_| OnceLock::new()).collect();
        Self { columns, per_row, all }
    }

    /// The batch of a macroblock.
    #[inline]
    pub(super) fn batch(&self, column: usize, row: usize) -> &Batch {
        &self.all[row * self.per_row + column / BATCH]
    }

    /// The macroblock at this position, which must be coded.
    pub(super) fn at(&self, column: usize, row: usize) -> &Coded {
        let batch = self.batch(column, row).get().expect("macroblocks are coded before those that depend on them");
        &batch[column % BATCH]
    }

    /// All macroblocks of a complete frame, row by row.
    pub(super) fn macroblocks(&self) -> impl Iterator<Item = &Coded> {
        let rows = self.all.len() / self.per_row;
        (0..self.columns * rows).map(|at| self.at(at % self.columns, at / self.columns))
    }
}

/// The macroblocks of a complete frame.
#[derive(Debug, Clone)]
pub(super) struct Macroblocks {
    pub(super) batches: Batches,
    /// Copies of the headers, row by row.
    pub(super) infos: Vec<MacroblockInfo>,
}

impl Macroblocks {
    /// The macroblocks in `batches`. `infos` is an empty vector to fill.
    pub(super) fn new(batches: Batches, mut infos: Vec<MacroblockInfo>) -> Self {
        infos.extend(batches.macroblocks().map(|coded| coded.info));
        Self { batches, infos }
    }

    /// All macroblocks, row by row.
    pub(super) fn all(&self) -> impl Iterator<Item = &Coded> {
        self.batches.macroblocks()
    }

    /// Number of columns.
    pub(super) fn columns(&self) -> usize {
        self.batches.columns
    }

    /// The neighbours above, to the left, and above to the left.
    pub(super) fn neighbours(&self, column: usize, row: usize) -> [&MacroblockInfo; 3] {
        let at = row * self.columns() + column;
        let neighbour = |exists: bool, back: usize| {
            if exists { &self.infos[at - back] } else { &MacroblockInfo::OUTSIDE }
        };
        [
            neighbour(row > 0, self.columns()),
            neighbour(column > 0, 1),
            neighbour(row > 0 && column > 0, self.columns() + 1),
        ]
    }
}
