//! What is found out about a picture before any quantizer is chosen.

use std::sync::OnceLock;

use super::distortion::{sad, satd};
use super::frame_encoder::FrameEncoder;
use super::inter_prediction::predict_luma;
use super::intra_estimate::intra_estimate;
use super::motion::{Bounds, Displacement, WholeSampleSearch, refine};
use super::size_model::CoefficientHistogram;
use super::source::Source;
use super::tokens::TokenCosts;
use super::vector_coding::VectorCosts;
use super::{Encoded, FrameKind, GoldenPolicy, Parameters, Preset};
use crate::frame::{Frame, FrameLayout};
use crate::macroblock::{MotionVector, ReferenceFrame};
use crate::picture::Picture;
use crate::probabilities::Probabilities;
use crate::state::{References, State};

/// A picture analysed against a state: all that candidates of different quantizers have in common.
///
/// It is immutable, so candidates may be encoded from it in parallel.
#[derive(Debug, Clone)]
pub struct Analysis {
    pub(super) state: State,
    pub(super) source: Source,
    pub(super) layout: FrameLayout,
    pub(super) preset: Preset,
    pub(super) key_frame: bool,
    /// Whether the frame becomes the golden reference, and the old golden one altref.
    pub(super) refresh_golden: bool,
    /// The different references, the last frame first; empty for a key frame.
    pub(super) references: Vec<(ReferenceFrame, Frame)>,
    /// For each macroblock; empty for a key frame.
    pub(super) motion: Vec<MacroblockMotion>,
    /// The probabilities that the frame begins with.
    pub(super) probabilities: Probabilities,
    pub(super) token_costs: TokenCosts,
    pub(super) vector_costs: VectorCosts,
    /// What [`Analysis::predict_size`] needs, once it has been asked.
    histogram: OnceLock<CoefficientHistogram>,
}

/// Where a macroblock is found again in one reference.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReferenceMotion {
    pub(super) vector: MotionVector,
    /// Transformed error at that vector, and without motion.
    pub(super) satd: u32,
    pub(super) zero_satd: u32,
    /// Absolute error at the nearest displacement by whole samples.
    sad: u32,
}

impl Default for ReferenceMotion {
    /// Not found at all.
    fn default() -> Self {
        Self { vector: MotionVector::ZERO, satd: NOT_FOUND, zero_satd: NOT_FOUND, sad: NOT_FOUND }
    }
}

impl ReferenceMotion {
    /// Whether it was looked for.
    pub(super) fn is_known(&self) -> bool {
        self.zero_satd != NOT_FOUND
    }
}

/// More than any transformed error.
pub(super) const NOT_FOUND: u32 = 1 << 24;

/// What was found for one macroblock.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MacroblockMotion {
    /// In each of the analysis's references.
    pub(super) references: [ReferenceMotion; 3],
    /// The vectors of the four quarters in the last frame, where they were looked for.
    pub(super) quarters: Option<[MotionVector; 4]>,
    /// An estimate of the transformed error of intra prediction.
    pub(super) intra: u32,
}

/// The weight of a bit of motion vector in the searches, which serve all quantizers: that of the middle ones.
const BIT_WEIGHT: u32 = 4;
/// A mean absolute difference of one per sample: no search will find much better.
const STILL_ENOUGH: u32 = 256;
/// A mean absolute difference of two and a half per sample: more is not put down to noise.
const STILL_AT_MOST: u32 = 640;
/// Transformed error below which intra prediction need not be looked at.
pub(super) const WELL_PREDICTED: u32 = 800;
/// Transformed error above which the quarters are searched on their own, in real time.
const SPLIT_WORTHY: u32 = 2600;
/// Golden is renewed where fewer than one macroblock in this many is clearly better found in it.
const GOLDEN_USERS: usize = 40;

impl Analysis {
    /// Analyses `picture` against `state`. The quantizer in `parameters` plays no part.
    #[must_use]
    pub fn new(state: &State, picture: &Picture, parameters: &Parameters) -> Self {
        let source = Source::new(picture);
        let layout = FrameLayout::new(source.width, source.height);
        let mut analysis = Self {
            state: state.clone(),
            layout,
            preset: parameters.preset,
            key_frame: true,
            refresh_golden: true,
            references: Vec::new(),
            motion: Vec::new(),
            probabilities: Probabilities::default(),
            token_costs: TokenCosts::new(&Probabilities::default().coefficients),
            vector_costs: VectorCosts::new(&Probabilities::default().motion_vectors),
            histogram: OnceLock::new(),
            source,
        };
        if parameters.frame_kind == FrameKind::Auto {
            analysis.try_inter(parameters);
        }
        analysis
    }

    /// Encodes the picture with this quantizer (above 127 it is taken as 127).
    #[must_use]
    pub fn encode(&self, quantizer: u8) -> Encoded {
        FrameEncoder::new(self, quantizer.min(super::MAXIMUM_QUANTIZER)).encode()
    }

    /// About how many bytes [`Analysis::encode`] would need, from the coefficients that prediction leaves: right to
    /// within a factor of two or so. The first call transforms the picture once, all others cost next to nothing.
    #[must_use]
    pub fn predict_size(&self, quantizer: u8) -> usize {
        let quantizer = quantizer.min(super::MAXIMUM_QUANTIZER);
        self.histogram.get_or_init(|| self.count_coefficients()).predict(quantizer, self.key_frame)
    }

    /// Whether the frame will be a key frame.
    #[must_use]
    pub fn key_frame(&self) -> bool {
        self.key_frame
    }

    /// Turns to an inter frame, where the state has references of the picture's size and the scene is still the same.
    fn try_inter(&mut self, parameters: &Parameters) {
        if self.state.size() != Some((self.source.width, self.source.height)) || self.state.contents().version != 0 {
            return;
        }
        let Some(References { last, golden, altref }) = self.state.contents().references.clone() else { return };
        let mut references = vec![(ReferenceFrame::Last, last)];
        for (kind, frame) in [(ReferenceFrame::Golden, golden), (ReferenceFrame::AltRef, altref)] {
            if references.iter().all(|(_, other)| !other.is(&frame)) {
                references.push((kind, frame));
            }
        }
        self.references = references;
        self.search_all();
        let intra: u64 = self.motion.iter().map(|motion| u64::from(motion.intra)).sum();
        let inter: u64 = self.motion.iter().map(|motion| u64::from(motion.best())).sum();
        if scene_has_changed(&self.motion, intra, inter) {
            self.references.clear();
            self.motion.clear();
            return;
        }
        self.key_frame = false;
        self.probabilities = self.state.contents().probabilities.clone();
        self.token_costs = TokenCosts::new(&self.probabilities.coefficients);
        self.vector_costs = VectorCosts::new(&self.probabilities.motion_vectors);
        self.refresh_golden = match parameters.golden {
            GoldenPolicy::Refresh => true,
            GoldenPolicy::Keep => false,
            GoldenPolicy::Auto => self.golden_has_worn_out(),
        };
    }

    /// Whether hardly any macroblock is better found in the golden reference than in the last frame.
    fn golden_has_worn_out(&self) -> bool {
        let Some(golden) = self.references.iter().position(|(kind, _)| *kind == ReferenceFrame::Golden) else {
            return false;
        };
        let users = self
            .motion
            .iter()
            .filter(|motion| {
                let (last, golden) = (motion.references[0].satd, motion.references[golden].satd);
                golden + golden / 16 + 32 < last
            })
            .count();
        users * GOLDEN_USERS < self.motion.len()
    }

    fn search_all(&mut self) {
        let (columns, rows) = (self.layout.columns, self.layout.rows);
        let mut prediction = [0u8; 256];
        let mut total = 0u64;
        let still = if self.preset == Preset::RealTime { self.still_enough() } else { STILL_ENOUGH };
        let mut all: Vec<MacroblockMotion> = self.references[0].1.spares().vector(columns * rows);
        for row in 0..rows {
            for column in 0..columns {
                let mut motion = MacroblockMotion::default();
                for index in 0..self.references.len() {
                    // In real time the other references are for what the last frame hides.
                    if index > 0
                        && self.preset == Preset::RealTime
                        && motion.references[0].satd < WELL_PREDICTED.max(still + still / 2)
                    {
                        break;
                    }
                    motion.references[index] = self.search(index, column, row, still, &all, &motion);
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
                    motion.quarters = Some(self.search_quarters(column, row, motion.references[0].vector));
                }
                let well_predicted = match self.preset {
                    Preset::Quality => WELL_PREDICTED,
                    Preset::RealTime => WELL_PREDICTED.max(2 * still),
                };
                motion.intra = if best > well_predicted {
                    intra_estimate(&self.source.planes[0], 16 * column, 16 * row, &mut prediction)
                } else {
                    NOT_FOUND
                };
                all.push(motion);
            }
        }
        self.motion = all;
    }

    /// The difference below which a macroblock counts as standing still, in real time: little more than what noise alone
    /// makes of most of a picture that stands still.
    fn still_enough(&self) -> u32 {
        let plane = self.layout.planes[0];
        let source = &self.source.planes[0];
        let reference = self.references[0].1.samples();
        let mut differences = Vec::with_capacity(self.layout.columns * self.layout.rows / 6 + 1);
        for row in (0..self.layout.rows).step_by(3) {
            for column in (row % 2..self.layout.columns).step_by(2) {
                let (x, y) = (16 * column, 16 * row);
                let reference = &reference[plane.origin + y * plane.stride + x..];
                differences.push(sad::<16, 16>(source.at(x, y), source.stride, reference, plane.stride));
            }
        }
        if differences.is_empty() {
            return STILL_ENOUGH;
        }
        let middle = differences.len() / 3;
        let (_, &mut noise, _) = differences.select_nth_unstable(middle);
        (noise + noise / 4).clamp(STILL_ENOUGH, STILL_AT_MOST)
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

    /// Finds a macroblock in one reference, starting from what was found for its neighbours and in other references.
    fn search(
        &self,
        index: usize,
        column: usize,
        row: usize,
        still_enough: u32,
        done: &[MacroblockMotion],
        current: &MacroblockMotion,
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
        let other = if index > 0 { current.references[0].vector } else { MotionVector::ZERO };
        let expected = whole(median(left, above, above_right));
        let search = self.whole_samples::<16, 16>(reference, x, y, expected);

        let zero_sad = search.sad_at(Displacement::default());
        let starts = [Displacement::default(), whole(left), whole(above), whole(above_right), whole(other), expected];
        let steps = if index == 0 { 16 } else { 4 };
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
        let mut prediction = [0u8; 256];
        let mut satd_at = |vector: MotionVector| {
            if vector.x & 3 == 0 && vector.y & 3 == 0 {
                let plane = &reference.samples()[search.at(whole(vector))..];
                return satd::<16, 16>(source, stride, plane, search.reference_stride);
            }
            predict_luma::<16, 16>(reference, x, y, vector, &mut prediction, 16);
            satd::<16, 16>(source, stride, &prediction, 16)
        };
        let zero_satd = satd_at(MotionVector::ZERO);
        let still = ReferenceMotion { vector: MotionVector::ZERO, satd: zero_satd, zero_satd, sad: zero_sad };
        if zero_sad < STILL_ENOUGH || zero_sad < still_enough && left.is_zero() && above.is_zero() {
            return still;
        }
        let found = search.search(&starts, steps, STILL_ENOUGH);
        // The other references are for what the last frame hides: no fraction will make up for a wrong place.
        if index > 0 && found.sad > 2 * current.references[0].satd {
            return still;
        }
        let expected = median(left, above, above_right);
        let weigh = |(x, y): (i32, i32)| BIT_WEIGHT * bits_between((x, y), expected);
        let start = (4 * found.displacement.x, 4 * found.displacement.y);
        let (best, satd) = if self.preset == Preset::Quality {
            let start_cost = satd_at(vector(start)) + weigh(start);
            let (best, cost) = refine(start, start_cost, |candidate| satd_at(vector(candidate)) + weigh(candidate));
            (best, cost - weigh(best))
        } else {
            let (best, _) = search.refine(&found, weigh);
            (best, satd_at(vector(best)))
        };
        if zero_satd <= satd + 4 * BIT_WEIGHT {
            still
        } else {
            ReferenceMotion { vector: vector(best), satd, zero_satd, sad: found.sad }
        }
    }

    /// Finds the four quarters of a macroblock in the last frame, near the vector of the whole.
    fn search_quarters(&self, column: usize, row: usize, whole_vector: MotionVector) -> [MotionVector; 4] {
        let (_, reference) = &self.references[0];
        let stride = self.source.planes[0].stride;
        let mut vectors = [whole_vector; 4];
        for quarter in 0..4 {
            let (x, y) = (16 * column + 8 * (quarter % 2), 16 * row + 8 * (quarter / 2));
            let expected = whole(whole_vector);
            let search = self.whole_samples::<8, 8>(reference, x, y, expected);
            let starts = [expected, Displacement::default(), whole(vectors[quarter.saturating_sub(1)])];
            let found = search.search(&starts, 8, 0);
            let source = self.source.planes[0].at(x, y);
            let mut prediction = [0u8; 64];
            let mut cost_at = |candidate: (i32, i32)| {
                let error = if self.preset == Preset::Quality {
                    predict_luma::<8, 8>(reference, x, y, vector(candidate), &mut prediction, 8);
                    satd::<8, 8>(source, stride, &prediction, 8)
                } else {
                    search.sad_between(candidate)
                };
                error + BIT_WEIGHT * bits_between(candidate, whole_vector)
            };
            let unsplit = (i32::from(whole_vector.x), i32::from(whole_vector.y));
            let unsplit_cost = cost_at(unsplit);
            let start = (4 * found.displacement.x, 4 * found.displacement.y);
            let start_cost = cost_at(start);
            let (best, cost) = refine(start, start_cost, cost_at);
            vectors[quarter] = if unsplit_cost <= cost { whole_vector } else { vector(best) };
        }
        vectors
    }

    /// What each macroblock's best open-loop prediction leaves.
    fn count_coefficients(&self) -> CoefficientHistogram {
        let mut histogram = CoefficientHistogram::default();
        let source = &self.source.planes[0];
        let mut prediction = [0u8; 256];
        for at in 0..self.layout.columns * self.layout.rows {
            let (x, y) = (16 * (at % self.layout.columns), 16 * (at / self.layout.columns));
            let motion = self.motion.get(at).filter(|motion| motion.best() <= motion.intra);
            match motion {
                Some(motion) => {
                    let best = motion.best();
                    let index = motion.references.iter().position(|found| found.satd == best).unwrap_or(0);
                    let vector = motion.references[index].vector;
                    predict_luma::<16, 16>(&self.references[index].1, x, y, vector, &mut prediction, 16);
                }
                None => {
                    intra_estimate(source, x, y, &mut prediction);
                }
            }
            histogram.add(source.at(x, y), source.stride, &prediction);
        }
        histogram
    }
}

impl Drop for Analysis {
    /// Leaves memory to the next.
    fn drop(&mut self) {
        if let Some((_, last)) = self.references.first() {
            last.spares().keep_vector(std::mem::take(&mut self.motion));
        }
    }
}

impl MacroblockMotion {
    /// The smallest transformed error of all references.
    pub(super) fn best(&self) -> u32 {
        self.references.iter().map(|reference| reference.satd).min().unwrap_or(NOT_FOUND)
    }
}

/// Whether most macroblocks are better predicted from their neighbours than from any reference.
fn scene_has_changed(motion: &[MacroblockMotion], intra: u64, inter: u64) -> bool {
    let better_intra = motion.iter().filter(|motion| motion.intra < motion.best()).count();
    2 * better_intra > motion.len() && intra < inter
}

fn vector((x, y): (i32, i32)) -> MotionVector {
    MotionVector { x: x as i16, y: y as i16 }
}

/// The nearest displacement by whole samples.
fn whole(vector: MotionVector) -> Displacement {
    Displacement { x: (i32::from(vector.x) + 2) >> 2, y: (i32::from(vector.y) + 2) >> 2 }
}

fn median(a: MotionVector, b: MotionVector, c: MotionVector) -> MotionVector {
    let middle = |a: i16, b: i16, c: i16| a.max(b).min(a.min(b).max(c));
    MotionVector { x: middle(a.x, b.x, c.x), y: middle(a.y, b.y, c.y) }
}

/// Roughly the bits that a vector's difference from another takes.
fn bits_between((x, y): (i32, i32), from: MotionVector) -> u32 {
    let bits = |difference: i32| 2 * (32 - difference.unsigned_abs().leading_zeros());
    2 + bits(x - i32::from(from.x)) + bits(y - i32::from(from.y))
}
