//! Counts of macroblock modes, and the probabilities and costs that follow from them.

use super::bit_cost::{bit_cost, fitting_probability};
use super::mode_costs::{chroma_path, count_path, luma_path, path_cost, reference_path};
use crate::macroblock::{MacroblockInfo, ReferenceFrame};

/// Counts of the modes of macroblocks.
#[derive(Debug, Clone, Default)]
pub(super) struct ModeCounts {
    /// Macroblocks with and without coefficients.
    skip: [u32; 2],
    /// Intra and inter; last and other references; golden and altref.
    references: [[u32; 2]; 3],
    pub(super) luma: [[u32; 2]; 4],
    pub(super) chroma: [[u32; 2]; 3],
}

impl ModeCounts {
    /// Counts one macroblock.
    pub(super) fn add(&mut self, info: &MacroblockInfo, key_frame: bool) {
        self.skip[usize::from(info.skip)] += 1;
        if key_frame {
            return;
        }
        if info.reference == ReferenceFrame::Intra {
            self.references[0][0] += 1;
            count_path(luma_path(info.luma_mode), &mut self.luma);
            count_path(chroma_path(info.chroma_mode), &mut self.chroma);
        } else {
            count_path(reference_path(info.reference), &mut self.references);
        }
    }

    /// Adds the counts of other macroblocks.
    pub(super) fn merge(&mut self, other: &Self) {
        fn merge(nodes: &mut [[u32; 2]], others: &[[u32; 2]]) {
            for (node, other) in nodes.iter_mut().flatten().zip(others.iter().flatten()) {
                *node += other;
            }
        }
        merge(std::slice::from_mut(&mut self.skip), &[other.skip]);
        merge(&mut self.references, &other.references);
        merge(&mut self.luma, &other.luma);
        merge(&mut self.chroma, &other.chroma);
    }

    /// Probability that a macroblock has coefficients.
    pub(super) fn skip_probability(&self) -> u8 {
        fitting_probability(self.skip[0], self.skip[1])
    }

    /// Probabilities of intra among all, last among inter, and golden among the other references.
    pub(super) fn reference_probabilities(&self) -> [u8; 3] {
        self.references.map(|[falses, trues]| fitting_probability(falses, trues))
    }

    /// Estimated cost of a macroblock's skip flag: not set, set.
    pub(super) fn skip_costs(&self) -> [u32; 2] {
        let probability = fitting_probability(self.skip[0] + 4, self.skip[1] + 4);
        [false, true].map(|skip| bit_cost(skip, probability))
    }

    /// Estimated cost of each reference.
    pub(super) fn reference_costs(&self) -> [u32; 4] {
        const PRIOR: [[u32; 2]; 3] = [[1, 8], [8, 1], [1, 1]];
        let probability: [u8; 3] = std::array::from_fn(|node| {
            let [falses, trues] = self.references[node];
            fitting_probability(falses + PRIOR[node][0], trues + PRIOR[node][1])
        });
        [ReferenceFrame::Intra, ReferenceFrame::Last, ReferenceFrame::Golden, ReferenceFrame::AltRef]
            .map(|reference| path_cost(reference_path(reference), &probability))
    }
}
