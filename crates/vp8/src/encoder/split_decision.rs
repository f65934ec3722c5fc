//! Decision about split mode: macroblocks whose parts move differently (RFC 6386, section 16.3).

use super::canvas::CanvasRow;
use super::contest::Contest;
use super::costs::Costs;
use super::distortion::satd;
use super::inter_prediction::predict_luma;
use super::mode_costs::{PARTITIONING_PATHS, PartitionVector, partition_path, path_cost};
use super::motion::refine;
use super::trial::Place;
use super::vector_coding::is_codable;
use crate::macroblock::{LumaMode, MacroblockInfo};
use crate::motion_vector::MotionVector;
use crate::neighbours::{NearVectors, first_subblock, neighbouring_vectors, partition_vector_context};
use crate::tables::{PARTITION_COUNTS, PARTITION_LAYOUTS, PARTITION_VECTOR_PROBABILITIES, PARTITIONING_PROBABILITIES};

/// Partitionings: top and bottom halves, left and right halves, quarters, sixteenths (section 16.3).
const HALVES_ABOVE: u8 = 0;
const HALVES_BESIDE: u8 = 1;
const QUARTERS: u8 = 2;
const SIXTEENTHS: u8 = 3;

/// SATD in steps from which on a subblock's vector is refined. Below it there is almost nothing to code.
/// `lab: 2026-11-notes-vp8`.
const REFINED_STEPS: u32 = 2;

/// A macroblock in split mode.
struct Split {
    info: MacroblockInfo,
    /// How the vector of each partition is coded.
    partition_vectors: [PartitionVector; 16],
    /// Cost of modes and vectors in 1/256 bit.
    bits: u32,
}

/// Tries the partitionings that the vectors of the quarters suggest. `unsplit` is the SATD cost of the best whole
/// vector; a split must come close to it.
pub(super) fn try_splits(
    costs: &Costs<'_>,
    canvas: &CanvasRow<'_>,
    place: &Place,
    near: &NearVectors,
    quarters: &[MotionVector; 4],
    unsplit: u32,
    contest: &mut Contest,
) {
    let [a, b, c, d] = *quarters;
    let small_splits = costs.analysis.tools.small_splits;
    let vectors: [MotionVector; 16] = std::array::from_fn(|block| quarters[block / 8 * 2 + block % 4 / 2]);
    let attempt = |partitioning: u8, vectors: &[MotionVector; 16], contest: &mut Contest| {
        if let Some(split) = split(costs, canvas, place, near, partitioning, vectors) {
            try_split(costs, place, &split, unsplit, contest);
        }
    };
    if a == b && c == d {
        if a != c {
            attempt(HALVES_ABOVE, &vectors, contest);
        }
    } else if a == c && b == d {
        attempt(HALVES_BESIDE, &vectors, contest);
    } else {
        attempt(QUARTERS, &vectors, contest);
        if small_splits {
            for (partitioning, choices) in [(HALVES_ABOVE, [[a, b], [c, d]]), (HALVES_BESIDE, [[a, c], [b, d]])] {
                attempt(partitioning, &halves(costs, place, partitioning, choices), contest);
            }
        }
    }
    if small_splits && !contest.best_is_empty() {
        attempt(SIXTEENTHS, &sixteenths(costs, canvas, place, near, &vectors), contest);
    }
}

/// For each half, the better vector of its two quarters.
fn halves(costs: &Costs<'_>, place: &Place, partitioning: u8, choices: [[MotionVector; 2]; 2]) -> [MotionVector; 16] {
    let best = [0, 1].map(|half| {
        let [first, second] =
            choices[half].map(|vector| partition_satd(costs, place, partitioning, half as u8, vector));
        choices[half][usize::from(second < first)]
    });
    std::array::from_fn(|block| best[usize::from(PARTITION_LAYOUTS[usize::from(partitioning)][block])])
}

/// SATD of one partition at one vector.
fn partition_satd(costs: &Costs<'_>, place: &Place, partitioning: u8, partition: u8, vector: MotionVector) -> u32 {
    let layout = &PARTITION_LAYOUTS[usize::from(partitioning)];
    (0..16).filter(|&block| layout[block] == partition).map(|block| block_satd(costs, place, block, vector)).sum()
}

/// SATD of one subblock at one vector in the last frame.
fn block_satd(costs: &Costs<'_>, place: &Place, block: usize, vector: MotionVector) -> u32 {
    let (x, y) = (16 * place.column + 4 * (block % 4), 16 * place.row + 4 * (block / 4));
    let source = &costs.analysis.source.planes[0];
    let mut prediction = [0u8; 16];
    predict_luma::<4, 4>(&costs.analysis.references[0].1, x, y, vector, &mut prediction, 4);
    satd::<4, 4>(source.at(x, y), source.stride, &prediction, 4)
}

/// A vector for each subblock: that of a neighbour, that of its quarter, or a refinement of the latter.
fn sixteenths(
    costs: &Costs<'_>,
    canvas: &CanvasRow<'_>,
    place: &Place,
    near: &NearVectors,
    from: &[MotionVector; 16],
) -> [MotionVector; 16] {
    let mut vectors = *from;
    let [above, left, _] = canvas.neighbours(place.column);
    for block in 0..16 {
        let beside = neighbouring_vectors(block, &vectors, above, left);
        let cost = |vector: MotionVector| {
            let (_, bits) = partition_vector(costs, vector, beside, near);
            costs.lagrangian.transformed(block_satd(costs, place, block, vector), bits)
        };
        let start = from[block];
        let mut best = (start, cost(start));
        for vector in [beside[0], beside[1], MotionVector::ZERO] {
            // Vectors of neighbours may lie outside the search range.
            let cost = cost(vector);
            if cost < best.1 {
                best = (vector, cost);
            }
        }
        if block_satd(costs, place, block, start) < REFINED_STEPS * costs.step {
            vectors[block] = best.0;
            continue;
        }
        let start_cost = cost(start);
        let (refined, refined_cost) =
            refine((i32::from(start.x), i32::from(start.y)), start_cost, |vector| cost(vector.into()));
        vectors[block] = if refined_cost < best.1 { refined.into() } else { best.0 };
    }
    vectors
}

/// How a partition's vector is coded, and its cost. `beside` are the vectors to its left and above.
fn partition_vector(
    costs: &Costs<'_>,
    vector: MotionVector,
    beside: [MotionVector; 2],
    near: &NearVectors,
) -> (PartitionVector, u32) {
    let [left, above] = beside;
    let source = if vector == left {
        PartitionVector::Left
    } else if vector == above {
        PartitionVector::Above
    } else if vector.is_zero() {
        PartitionVector::Zero
    } else {
        PartitionVector::New
    };
    let probabilities = &PARTITION_VECTOR_PROBABILITIES[partition_vector_context(left, above)];
    let mut bits = path_cost(partition_path(source), probabilities);
    if source == PartitionVector::New {
        let (dy, dx) = vector.difference(near.best);
        bits += costs.analysis.vector_costs.of(dy, dx);
    }
    (source, bits)
}

/// The split of the last frame with these vectors; `None` if a vector cannot be coded.
fn split(
    costs: &Costs<'_>,
    canvas: &CanvasRow<'_>,
    place: &Place,
    near: &NearVectors,
    partitioning: u8,
    vectors: &[MotionVector; 16],
) -> Option<Split> {
    let (kind, _) = &costs.analysis.references[0];
    let [above, left, _] = canvas.neighbours(place.column);
    let mut bits = costs.inter_mode(LumaMode::Split, *kind, near)
        + path_cost(PARTITIONING_PATHS[usize::from(partitioning)], &PARTITIONING_PROBABILITIES);
    let mut partition_vectors = [PartitionVector::Zero; 16];
    let count = PARTITION_COUNTS[usize::from(partitioning)];
    for (partition, how) in partition_vectors.iter_mut().enumerate().take(count) {
        let block = first_subblock(partitioning, partition);
        let beside = neighbouring_vectors(block, vectors, above, left);
        let (source, cost) = partition_vector(costs, vectors[block], beside, near);
        let (dy, dx) = vectors[block].difference(near.best);
        if source == PartitionVector::New && !is_codable(dy, dx) {
            return None;
        }
        *how = source;
        bits += cost;
    }
    Some(Split { info: MacroblockInfo::split(*kind, partitioning, vectors), partition_vectors, bits })
}

/// How to code the split of another pass with the current neighbours, and its cost; `None` if a vector cannot be coded.
pub(super) fn split_again(
    costs: &Costs<'_>,
    canvas: &CanvasRow<'_>,
    place: &Place,
    near: &NearVectors,
    info: &MacroblockInfo,
) -> Option<(MacroblockInfo, [PartitionVector; 16], u32)> {
    let split = split(costs, canvas, place, near, info.partitioning, &info.subblock_vectors)?;
    Some((split.info, split.partition_vectors, split.bits))
}

/// Tries a split if its SATD cost is not far above that of the whole vector.
fn try_split(costs: &Costs<'_>, place: &Place, split: &Split, unsplit: u32, contest: &mut Contest) {
    let next = &mut contest.next;
    (next.info, next.partition_vectors, next.mode_bits) = (split.info, split.partition_vectors, split.bits);
    next.predict_inter(&costs.analysis.references[0].1, place);
    let source = &costs.analysis.source.planes[0];
    let error = satd::<16, 16>(source.at(16 * place.column, 16 * place.row), source.stride, &next.luma, 16);
    let cost = costs.lagrangian.transformed(error, split.bits);
    if cost < unsplit + unsplit / 16 {
        contest.run(costs, place);
    }
}
