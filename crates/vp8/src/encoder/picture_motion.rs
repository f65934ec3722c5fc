//! Motion search for all macroblocks of a picture.

use std::ops::Range;
use std::sync::OnceLock;

use super::distortion::satd;
use super::global_motion::global_motion;
use super::inter_prediction::predict_luma;
use super::intra_estimate::intra_estimate;
use super::lanes::{Lanes, MAX_LANES, max_lanes};
use super::macroblock_motion::{INTRA_ESTIMATE_SATD, MacroblockMotion, ReferenceMotion, SPLIT_SATD};
use super::motion::{Bounds, Displacement, WholeSampleSearch, refine};
use super::parameters::Content;
use super::source::Source;
use super::tools::Tools;
use crate::arena::Arena;
use crate::frame::{Frame, FrameLayout};
use crate::macroblock::ReferenceFrame;
use crate::motion_vector::MotionVector;

/// Weight of a bit of motion vector in the searches, in units of SAD. It suits quantizers in the middle of the range.
const BIT_WEIGHT: u32 = 4;
/// Largest number of steps of a search in golden and altref.
const OTHER_STEPS: usize = 4;
/// SATD in the last frame from which on it counts as hidden there. `lab: 2026-11-notes-vp8`.
const HIDDEN_SATD: u32 = 2600;
/// SATD in the last frame from which on searched references are searched at once (`Tools::searches_references`).
///
/// Below it, only zero motion is evaluated. The search follows once the quantizer is known, if there is a residual
/// ([`PictureSearch::complete`]).
const SEARCHED_SATD: u32 = 3000;
/// SAD above which fractional positions are compared by SATD, if that is among the tools. Other vectors are refined only if they are
/// coded (`mode_decision`).
const SATD_REFINEMENT_SAD: u32 = 800;
/// SATD above which quarters are searched separately, unless splits are among the tools.
const QUARTERS_SATD: u32 = 2600;

/// SAD in the last frame (eight per sample) above which global motion is determined. The motion may exceed the search
/// range.
const GLOBAL_MOTION_SAD: u32 = 2048;

/// Motion search over a picture.
#[derive(Debug, Clone, Copy)]
pub(super) struct PictureSearch<'a> {
    pub(super) source: &'a Source,
    pub(super) layout: &'a FrameLayout,
    pub(super) tools: Tools,
    pub(super) content: Content,
    /// The distinct references, the last frame first.
    pub(super) references: &'a [(ReferenceFrame, Frame)],
    /// Global motion since the last frame, once it is known.
    pub(super) moved: Option<Displacement>,
    /// First row of the part of the picture that is searched. The rows above it are unknown.
    pub(super) first_row: usize,
}

impl PictureSearch<'_> {
    /// Searches every macroblock. A large picture is searched in parts, one for each lane that can share it (`lanes`).
    pub(super) fn all(&self, arena: &Arena) -> Vec<MacroblockMotion> {
        let FrameLayout { columns, rows, .. } = *self.layout;
        let most = max_lanes(self.layout);
        let global_motion = OnceLock::new();
        let part = |part: usize| {
            let rows = part * rows / most..(part + 1) * rows / most;
            let room = arena.motion().take(columns * rows.len());
            self.part(rows, &global_motion, room)
        };
        let mut found = Lanes::default().run(most.min(arena.threads()), 0..most, |next| {
            let mut found: [Option<Vec<MacroblockMotion>>; MAX_LANES] = Default::default();
            while let Some(at) = next() {
                found[at] = Some(part(at));
            }
            found
        });
        let mut all = Vec::new();
        for at in 0..most {
            let mut part = found.iter_mut().find_map(|found| found[at].take()).expect("a lane searched the part");
            if at == 0 {
                all = part;
            } else {
                all.append(&mut part);
                arena.motion().give_back(part);
            }
        }
        all
    }

    /// Searches the macroblocks of `rows`, row by row. `global_motion` is computed when a part needs it. `all` is an empty
    /// vector to fill.
    fn part(
        &self,
        rows: Range<usize>,
        global_motion: &OnceLock<Displacement>,
        mut all: Vec<MacroblockMotion>,
    ) -> Vec<MacroblockMotion> {
        let columns = self.layout.columns;
        let mut prediction = [0u8; 256];
        let mut total = 0u64;
        let mut search = Self { first_row: rows.start, ..*self };
        for row in rows {
            for column in 0..columns {
                let mut motion = MacroblockMotion::default();
                for index in 0..self.references.len() {
                    let hidden = motion.references[0].satd >= HIDDEN_SATD;
                    if index > 0 && !self.tools.searches_references && !hidden {
                        break;
                    }
                    let find = |search: &Self, motion: &MacroblockMotion, prediction: &mut [u8; 256]| {
                        search.search(index, (column, row), &all, motion, prediction, false)
                    };
                    motion.references[index] = find(&search, &motion, &mut prediction);
                    if index == 0 && search.moved.is_none() && motion.references[0].sad > GLOBAL_MOTION_SAD {
                        search.moved = Some(*global_motion.get_or_init(|| self.global_motion()));
                        motion.references[0] = find(&search, &motion, &mut prediction);
                    }
                }
                let best = motion.best();
                // Without the tool, only macroblocks with a larger error than most of the picture so far.
                let split_above = if self.tools.splits {
                    SPLIT_SATD
                } else {
                    let mean = total / (all.len() as u64 + 1);
                    QUARTERS_SATD.max((mean + mean / 4) as u32)
                };
                total += u64::from(motion.references[0].satd);
                if motion.references[0].satd > split_above {
                    motion.poor = true;
                }
                motion.intra =
                    (best > INTRA_ESTIMATE_SATD).then(|| intra_estimate(&self.source.planes[0], 16 * column, 16 * row));
                all.push(motion);
            }
        }
        all
    }

    /// Global motion since the last frame.
    fn global_motion(&self) -> Displacement {
        let (plane, source) = (self.layout.planes[0], &self.source.planes[0]);
        let last = &self.references[0].1.samples()[plane.origin..];
        let size = (self.source.width, self.source.height);
        global_motion((source.samples(), source.stride), (last, plane.stride), size, self.content)
    }

    /// Search for the `W` x `H` samples at (`x`, `y`) in a reference. Vectors are expected near `expected`.
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
            // At most one macroblock outside; the border covers it and everything that the filter reads.
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

    /// Searches the references in which only zero motion was evaluated. `prediction` is a scratch buffer.
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

    /// Searches one reference for a macroblock. Starting points are the results of its neighbours and of other
    /// references. Without `thorough`, it may evaluate zero motion only. `prediction` is a scratch buffer.
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
        let row = row - self.first_row;
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
        let Tools { search_steps, still_sad, .. } = self.tools;
        let steps = if index == 0 { search_steps } else { OTHER_STEPS };
        // Other references serve areas that the last frame hides. Those are found at a starting point or not at all.
        if index > 0 && !self.tools.searches_references {
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
        if zero_sad < still_sad {
            return still;
        }
        if index > 0 && !thorough && self.tools.searches_references && current.references[0].satd < SEARCHED_SATD {
            return ReferenceMotion { shallow: true, ..still };
        }
        let found = search.search(&starts, Some(zero_sad), steps, still_sad);
        // Fractional positions cannot repair a wrong match in another reference.
        if index > 0 && found.sad > 2 * current.references[0].satd {
            return still;
        }
        let expected = MotionVector::median(left, above, above_right);
        let weigh = |(x, y): (i32, i32)| BIT_WEIGHT * bits_between((x, y), expected);
        let start = (4 * found.displacement.x, 4 * found.displacement.y);
        let (best, satd) = if self.tools.refines_by_satd && found.sad > SATD_REFINEMENT_SAD {
            let start_cost = satd_at(start.into()) + weigh(start);
            let (best, cost) = refine(start, start_cost, |candidate| satd_at(candidate.into()) + weigh(candidate));
            (best, cost - weigh(best))
        } else {
            // Vectors that are coded are refined by SATD once the quantizer is known (`mode_decision`).
            // `lab: 2026-11-notes-vp8`.
            let (best, _) = search.refine(&found, weigh);
            (best, satd_at(best.into()))
        };
        if zero_satd <= satd + 4 * BIT_WEIGHT {
            still
        } else {
            ReferenceMotion { vector: best.into(), satd, zero_satd, sad: found.sad, shallow: false }
        }
    }

    /// Searches the four quarters of a macroblock in the last frame, near the vector of the whole macroblock.
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

/// Approximate number of bits for the difference between two vectors.
fn bits_between((x, y): (i32, i32), from: MotionVector) -> u32 {
    // Twice the binary length of the difference. The appended one avoids a test for zero.
    let bits = |difference: i32| 2 * (2 * difference.unsigned_abs() + 1).ilog2();
    2 + bits(x - i32::from(from.x)) + bits(y - i32::from(from.y))
}
