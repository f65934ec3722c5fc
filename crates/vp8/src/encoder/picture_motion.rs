//! Finding all of a picture's macroblocks again in the references.

use super::distortion::satd;
use super::global_motion::global_motion;
use super::inter_prediction::predict_luma;
use super::intra_estimate::intra_estimate;
use super::macroblock_motion::{MacroblockMotion, POORLY_PREDICTED, ReferenceMotion, WELL_PREDICTED};
use super::motion::{Bounds, Displacement, WholeSampleSearch, refine};
use super::parameters::Preset;
use super::source::Source;
use crate::frame::{Frame, FrameLayout};
use crate::macroblock::ReferenceFrame;
use crate::motion_vector::MotionVector;

/// The weight of a bit of motion vector in the searches, which serve all quantizers: that of the middle ones.
const BIT_WEIGHT: u32 = 4;
/// A mean absolute difference of less than half per sample, and of less than one and a fifth in real time: no search will find
/// much better. More is left to the searches: what moves by a quarter of a sample differs by little more, and would lag
/// behind further with every frame.
const STILL_ENOUGH: u32 = 100;
const STILL_ENOUGH_IN_REAL_TIME: u32 = 300;
/// Steps of a search in the last frame, in real time and for quality, and in the other references.
const REAL_TIME_STEPS: usize = 4;
const QUALITY_STEPS: usize = 16;
const OTHER_STEPS: usize = 4;
/// Transformed error from which on references other than the last frame are searched in real time: 1600 in place of 800 took
/// 6 % off the time for 0.3 % of bits, this another 1 % for 0.2 %.
const HIDDEN: u32 = 2600;
/// For quality, references other than the last frame are first judged as they stand, and searched once the quantizer is known
/// where there is something to code ([`PictureSearch::complete`]); only where the last frame leaves a transformed error above
/// this they are searched at once.
const LOST: u32 = 3000;
/// For quality, places between samples are judged by their transformed error where the best whole place leaves this absolute
/// error. Others are nudged if they are to be coded (`mode_decision`).
const PRECISELY_REFINED: u32 = 800;
/// Transformed error above which the quarters are searched on their own, in real time.
const SPLIT_WORTHY: u32 = 2600;

/// Absolute error in the last frame, eight for each sample, above which it is asked whether the whole picture has moved, by more
/// than a search goes from where it begins.
const FAR_OFF: u32 = 2048;

/// The search for a picture's macroblocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct PictureSearch<'a> {
    pub(super) source: &'a Source,
    pub(super) layout: &'a FrameLayout,
    pub(super) preset: Preset,
    /// The different references, the last frame first.
    pub(super) references: &'a [(ReferenceFrame, Frame)],
    /// By how much the whole picture has moved since the last frame, once that was asked.
    pub(super) moved: Option<Displacement>,
}

impl PictureSearch<'_> {
    /// What is found for each macroblock, row by row; `all` is an empty vector for it.
    pub(super) fn all(&self, mut all: Vec<MacroblockMotion>) -> Vec<MacroblockMotion> {
        let (columns, rows) = (self.layout.columns, self.layout.rows);
        let mut prediction = [0u8; 256];
        let mut total = 0u64;
        let mut search = *self;
        for row in 0..rows {
            for column in 0..columns {
                let mut motion = MacroblockMotion::default();
                for index in 0..self.references.len() {
                    // In real time the other references are for what the last frame hides.
                    if index > 0 && self.preset == Preset::RealTime && motion.references[0].satd < HIDDEN {
                        break;
                    }
                    let find = |search: &Self, motion: &MacroblockMotion, prediction: &mut [u8; 256]| {
                        search.search(index, (column, row), &all, motion, prediction, false)
                    };
                    motion.references[index] = find(&search, &motion, &mut prediction);
                    if index == 0 && search.moved.is_none() && motion.references[0].sad > FAR_OFF {
                        search.moved = Some(self.global_motion());
                        motion.references[0] = find(&search, &motion, &mut prediction);
                    }
                }
                let best = motion.best();
                // In real time only what is found worse than most of the picture so far.
                let split_above = match self.preset {
                    Preset::Quality => WELL_PREDICTED,
                    Preset::RealTime => {
                        let mean = total / (all.len() as u64 + 1);
                        SPLIT_WORTHY.max((mean + mean / 4) as u32)
                    }
                };
                total += u64::from(motion.references[0].satd);
                if motion.references[0].satd > split_above {
                    motion.poor = true;
                }
                motion.intra =
                    (best > POORLY_PREDICTED).then(|| intra_estimate(&self.source.planes[0], 16 * column, 16 * row));
                all.push(motion);
            }
        }
        all
    }

    /// By how much the whole picture has moved since the last frame.
    fn global_motion(&self) -> Displacement {
        let (plane, source) = (self.layout.planes[0], &self.source.planes[0]);
        let last = &self.references[0].1.samples()[plane.origin..];
        let size = (self.source.width, self.source.height);
        global_motion((source.samples(), source.stride), (last, plane.stride), size)
    }

    /// The search for `W` x `H` samples at (`x`, `y`) in a reference; vectors are expected near `expected`.
    fn whole_samples<'a, const W: usize, const H: usize>(
        &'a self,
        reference: &'a Frame,
        x: usize,
        y: usize,
        expected: Displacement,
    ) -> WholeSampleSearch<'a, W, H> {
        let plane = self.layout.planes[0];
        let (left, top) = (x as i32, y as i32);
        WholeSampleSearch {
            source: self.source.planes[0].at(x, y),
            source_stride: self.source.planes[0].stride,
            reference: reference.samples(),
            reference_stride: plane.stride,
            origin: plane.origin + y * plane.stride + x,
            // At most a whole macroblock outside, which the border covers with all that the filter reads.
            bounds: Bounds {
                left: -left - 15,
                right: plane.width as i32 - left - W as i32 + 15,
                top: -top - 15,
                bottom: plane.height as i32 - top - H as i32 + 15,
            },
            expected,
            bit_weight: BIT_WEIGHT,
        }
    }

    /// Searches those references for a macroblock that were only judged as they stand; it predicts into `prediction`.
    pub(super) fn complete(
        &self,
        at: (usize, usize),
        all: &[MacroblockMotion],
        motion: &mut MacroblockMotion,
        prediction: &mut [u8; 256],
    ) {
        for index in 1..self.references.len() {
            if motion.references[index].shallow {
                motion.references[index] = self.search(index, at, all, motion, prediction, true);
            }
        }
    }

    /// Finds a macroblock in one reference (thoroughly, or as it stands where that may do), starting from what
    /// was found for its neighbours and in other references; it predicts into `prediction`.
    fn search(
        &self,
        index: usize,
        (column, row): (usize, usize),
        done: &[MacroblockMotion],
        current: &MacroblockMotion,
        prediction: &mut [u8; 256],
        thorough: bool,
    ) -> ReferenceMotion {
        let (x, y) = (16 * column, 16 * row);
        let (_, reference) = &self.references[index];
        let columns = self.layout.columns;
        let at = row * columns + column;
        let neighbour = |exists: bool, back: usize| {
            if exists { done[at - back].references[index].vector } else { MotionVector::ZERO }
        };
        let left = neighbour(column > 0, 1);
        let above = neighbour(row > 0, columns);
        let above_right = neighbour(row > 0 && column + 1 < columns, columns.saturating_sub(1));
        let from_other = if index > 0 { current.references[0].vector.into() } else { self.moved.unwrap_or_default() };
        let expected = Displacement::from(MotionVector::median(left, above, above_right));
        let search = self.whole_samples::<16, 16>(reference, x, y, expected);

        let zero_sad = search.sad_at(Displacement::default());
        let [from_left, from_above, from_right] = [left, above, above_right].map(Displacement::from);
        let starts = [Displacement::default(), from_left, from_above, from_right, from_other, expected];
        let (steps, still_enough) = match self.preset {
            Preset::Quality => (QUALITY_STEPS, STILL_ENOUGH),
            Preset::RealTime => (REAL_TIME_STEPS, STILL_ENOUGH_IN_REAL_TIME),
        };
        let steps = if index == 0 { steps } else { OTHER_STEPS };
        // A reference behind the last frame is for what that one hides: found at once, or not at all.
        if index > 0 && self.preset == Preset::RealTime {
            let promising = current.references[0].sad;
            let worse = |at: usize| {
                starts[..at].contains(&starts[at]) || search.sad_at(search.bounds.clamp(starts[at])) >= promising
            };
            if zero_sad >= promising && (1..starts.len()).all(worse) {
                return ReferenceMotion::default();
            }
        }
        let source = self.source.planes[0].at(x, y);
        let stride = self.source.planes[0].stride;
        let mut satd_at = |vector: MotionVector| {
            if vector.x & 3 == 0 && vector.y & 3 == 0 {
                let plane = &reference.samples()[search.at(Displacement::from(vector))..];
                return satd::<16, 16>(source, stride, plane, search.reference_stride);
            }
            predict_luma::<16, 16>(reference, x, y, vector, prediction, 16);
            satd::<16, 16>(source, stride, prediction, 16)
        };
        let zero_satd = satd_at(MotionVector::ZERO);
        let still =
            ReferenceMotion { vector: MotionVector::ZERO, satd: zero_satd, zero_satd, sad: zero_sad, shallow: false };
        if zero_sad < still_enough {
            return still;
        }
        if index > 0 && !thorough && self.preset == Preset::Quality && current.references[0].satd < LOST {
            return ReferenceMotion { shallow: true, ..still };
        }
        let found = search.search(&starts, Some(zero_sad), steps, still_enough);
        // The other references are for what the last frame hides: no fraction will make up for a wrong place.
        if index > 0 && found.sad > 2 * current.references[0].satd {
            return still;
        }
        let expected = MotionVector::median(left, above, above_right);
        let weigh = |(x, y): (i32, i32)| BIT_WEIGHT * bits_between((x, y), expected);
        let start = (4 * found.displacement.x, 4 * found.displacement.y);
        let (best, satd) = if self.preset == Preset::Quality && found.sad > PRECISELY_REFINED {
            let start_cost = satd_at(start.into()) + weigh(start);
            let (best, cost) = refine(start, start_cost, |candidate| satd_at(candidate.into()) + weigh(candidate));
            (best, cost - weigh(best))
        } else {
            // What is to be coded is nudged by its transformed error once the quantizer is known (`mode_decision`): to try
            // the nearest neighbours of all vectors here took 7 to 14 % more instructions.
            let (best, _) = search.refine(&found, weigh);
            (best, satd_at(best.into()))
        };
        if zero_satd <= satd + 4 * BIT_WEIGHT {
            still
        } else {
            ReferenceMotion { vector: best.into(), satd, zero_satd, sad: found.sad, shallow: false }
        }
    }

    /// Finds the four quarters of a macroblock in the last frame, near the vector of the whole.
    pub(super) fn search_quarters(&self, column: usize, row: usize, whole_vector: MotionVector) -> [MotionVector; 4] {
        let (_, reference) = &self.references[0];
        let mut vectors = [whole_vector; 4];
        for quarter in 0..4 {
            let (x, y) = (16 * column + 8 * (quarter % 2), 16 * row + 8 * (quarter / 2));
            let expected = Displacement::from(whole_vector);
            let search = self.whole_samples::<8, 8>(reference, x, y, expected);
            let starts = [expected, Displacement::default(), Displacement::from(vectors[quarter.saturating_sub(1)])];
            let found = search.search(&starts, None, 8, 0);
            let cost_at = |candidate: (i32, i32)| {
                search.sad_between(candidate) + BIT_WEIGHT * bits_between(candidate, whole_vector)
            };
            let unsplit = (i32::from(whole_vector.x), i32::from(whole_vector.y));
            let unsplit_cost = cost_at(unsplit);
            let start = (4 * found.displacement.x, 4 * found.displacement.y);
            let start_cost = cost_at(start);
            let (best, cost) = refine(start, start_cost, cost_at);
            vectors[quarter] = if unsplit_cost <= cost { whole_vector } else { best.into() };
        }
        vectors
    }
}

/// Roughly the bits that a vector's difference from another takes.
fn bits_between((x, y): (i32, i32), from: MotionVector) -> u32 {
    // Twice the length of the difference in binary: a one behind it spares the question whether it is zero.
    let bits = |difference: i32| 2 * (2 * difference.unsigned_abs() + 1).ilog2();
    2 + bits(x - i32::from(from.x)) + bits(y - i32::from(from.y))
}
