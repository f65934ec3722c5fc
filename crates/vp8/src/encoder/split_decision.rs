//! Macroblocks whose parts move differently (RFC 6386, section 16.3).

use super::Preset;
use super::distortion::satd;
use super::frame_encoder::FrameEncoder;
use super::header_writer::{beside, difference, first_subblock};
use super::inter_prediction::predict_luma;
use super::mode_costs::{PARTITIONING_PATHS, PartitionVector, partition_path, path_cost};
use super::motion::refine;
use super::trial::Place;
use super::vector_coding::is_codable;
use crate::macroblock::{LumaMode, MacroblockInfo, MotionVector, NearVectors, SubblockMode, partition_vector_context};
use crate::tables::{PARTITION_COUNTS, PARTITION_LAYOUTS, PARTITION_VECTOR_PROBABILITIES, PARTITIONING_PROBABILITIES};

const QUARTERS: u8 = 2;
const SIXTEENTHS: u8 = 3;

impl FrameEncoder<'_> {
    /// Tries the splits that the vectors of the quarters suggest; `unsplit` is the transformed cost of the best whole
    /// vector, which a split must come near.
    pub(super) fn try_splits(&mut self, place: &Place, near: &NearVectors, quarters: &[MotionVector; 4], unsplit: u32) {
        let [a, b, c, d] = *quarters;
        let quality = self.analysis.preset == Preset::Quality;
        let vectors: [MotionVector; 16] = std::array::from_fn(|block| quarters[block / 8 * 2 + block % 4 / 2]);
        if a == b && c == d {
            if a != c {
                self.try_split(place, near, 0, &vectors, unsplit);
            }
        } else if a == c && b == d {
            self.try_split(place, near, 1, &vectors, unsplit);
        } else {
            self.try_split(place, near, QUARTERS, &vectors, unsplit);
            if quality {
                for (partitioning, halves) in [(0, [[a, b], [c, d]]), (1, [[a, c], [b, d]])] {
                    let vectors = self.halves(place, partitioning, halves);
                    self.try_split(place, near, partitioning, &vectors, unsplit);
                }
            }
        }
        if quality {
            let vectors = self.sixteenths(place, near, &vectors);
            self.try_split(place, near, SIXTEENTHS, &vectors, unsplit);
        }
    }

    /// For each half the better of the vectors of its two quarters.
    fn halves(&self, place: &Place, partitioning: u8, choices: [[MotionVector; 2]; 2]) -> [MotionVector; 16] {
        let best = [0, 1].map(|half| {
            let [first, second] =
                choices[half].map(|vector| self.partition_satd(place, partitioning, half as u8, vector));
            choices[half][usize::from(second < first)]
        });
        std::array::from_fn(|block| best[usize::from(PARTITION_LAYOUTS[usize::from(partitioning)][block])])
    }

    /// The transformed error of one partition at one vector.
    fn partition_satd(&self, place: &Place, partitioning: u8, partition: u8, vector: MotionVector) -> u32 {
        let layout = &PARTITION_LAYOUTS[usize::from(partitioning)];
        (0..16).filter(|&block| layout[block] == partition).map(|block| self.block_satd(place, block, vector)).sum()
    }

    /// The transformed error of one subblock at one vector in the last frame.
    fn block_satd(&self, place: &Place, block: usize, vector: MotionVector) -> u32 {
        let (x, y) = (16 * place.column + 4 * (block % 4), 16 * place.row + 4 * (block / 4));
        let source = &self.analysis.source.planes[0];
        let mut prediction = [0u8; 16];
        predict_luma::<4, 4>(&self.analysis.references[0].1, x, y, vector, &mut prediction, 4);
        satd::<4, 4>(source.at(x, y), source.stride, &prediction, 4)
    }

    /// A vector for each subblock: its neighbours', its quarter's, or one found near that.
    fn sixteenths(&self, place: &Place, near: &NearVectors, from: &[MotionVector; 16]) -> [MotionVector; 16] {
        let mut vectors = *from;
        let [above, left, _] = self.macroblocks.neighbours(place.column, place.row);
        for block in 0..16 {
            let [left_vector, above_vector] = beside(block, &vectors, above, left);
            let context = partition_vector_context(left_vector, above_vector);
            let cost = |vector: MotionVector| {
                let (_, bits) = self.partition_vector(vector, left_vector, above_vector, context, near);
                self.lagrangian.transformed(self.block_satd(place, block, vector), bits)
            };
            let start = from[block];
            let mut best = (start, cost(start));
            for vector in [left_vector, above_vector, MotionVector::ZERO] {
                // Neighbours may point further out than the search ever does.
                let cost = cost(vector);
                if cost < best.1 {
                    best = (vector, cost);
                }
            }
            let ((x, y), refined) = refine((i32::from(start.x), i32::from(start.y)), cost(start), |(x, y)| {
                cost(MotionVector { x: x as i16, y: y as i16 })
            });
            if refined < best.1 {
                best.0 = MotionVector { x: x as i16, y: y as i16 };
            }
            vectors[block] = best.0;
        }
        vectors
    }

    /// How a partition's vector is coded, and what that costs.
    fn partition_vector(
        &self,
        vector: MotionVector,
        left: MotionVector,
        above: MotionVector,
        context: usize,
        near: &NearVectors,
    ) -> (PartitionVector, u32) {
        let probabilities = &PARTITION_VECTOR_PROBABILITIES[context];
        let source = if vector == left {
            PartitionVector::Left
        } else if vector == above {
            PartitionVector::Above
        } else if vector.is_zero() {
            PartitionVector::Zero
        } else {
            PartitionVector::New
        };
        let mut bits = path_cost(partition_path(source), probabilities);
        if source == PartitionVector::New {
            let (dy, dx) = difference(vector, near.best);
            bits += self.analysis.vector_costs.of(dy, dx);
        }
        (source, bits)
    }

    /// Tries one split from the last frame.
    fn try_split(
        &mut self,
        place: &Place,
        near: &NearVectors,
        partitioning: u8,
        vectors: &[MotionVector; 16],
        unsplit: u32,
    ) {
        let analysis = self.analysis;
        let (kind, frame) = &analysis.references[0];
        let [above, left, _] = self.macroblocks.neighbours(place.column, place.row);
        let mut bits = self.inter_mode_cost(LumaMode::Split, *kind, near)
            + path_cost(PARTITIONING_PATHS[usize::from(partitioning)], &PARTITIONING_PROBABILITIES);
        for partition in 0..PARTITION_COUNTS[usize::from(partitioning)] {
            let block = first_subblock(partitioning, partition);
            let [left_vector, above_vector] = beside(block, vectors, above, left);
            let context = partition_vector_context(left_vector, above_vector);
            let (source, cost) = self.partition_vector(vectors[block], left_vector, above_vector, context, near);
            let (dy, dx) = difference(vectors[block], near.best);
            if source == PartitionVector::New && !is_codable(dy, dx) {
                return;
            }
            self.trial.partition_vectors[partition] = source;
            bits += cost;
        }
        self.trial.info = MacroblockInfo {
            luma_mode: LumaMode::Split,
            chroma_mode: LumaMode::Dc,
            reference: *kind,
            motion_vector: vectors[15],
            segment: 0,
            partitioning,
            skip: false,
            has_coefficients: false,
            subblock_modes: [SubblockMode::Dc; 16],
            subblock_vectors: *vectors,
        };
        self.trial.mode_bits = bits;
        self.trial.predict_inter(frame, place);
        let source = &self.analysis.source.planes[0];
        let error = satd::<16, 16>(source.at(16 * place.column, 16 * place.row), source.stride, &self.trial.luma, 16);
        let cost = self.lagrangian.transformed(error, bits);
        if cost < unsplit + unsplit / 16 {
            self.code_trial(place);
        }
    }
}
