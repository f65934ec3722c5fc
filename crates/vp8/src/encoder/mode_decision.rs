//! Which of the many ways to code a macroblock is taken.

use super::canvas::Canvas;
use super::contest::Contest;
use super::costs::Costs;
use super::decisions::Decisions;
use super::distortion::satd;
use super::inter_prediction::{predict_chroma, predict_luma};
use super::intra_decision::{try_intra, try_intra_below};
use super::macroblock_motion::MacroblockMotion;
use super::parameters::Preset;
use super::split_decision::{split_again, try_splits};
use super::trial::{Place, Trial};
use super::vector_coding::is_codable;
use crate::frame::Frame;
use crate::macroblock::{LumaMode, MacroblockInfo};
use crate::motion_vector::MotionVector;
use crate::neighbours::NearVectors;

/// One vector in one reference for the whole macroblock.
#[derive(Debug, Clone, Copy)]
struct WholeVector {
    /// Index among the analysis's references.
    reference: usize,
    mode: LumaMode,
    vector: MotionVector,
    /// What saying so costs, 1/256 bit.
    bits: u32,
}

/// A vector that may be tried.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    whole: WholeVector,
    satd: u32,
    /// Transformed error and bits together.
    cost: u32,
    /// Where it is kept what this predicts of luma, if it is.
    prediction: Option<usize>,
}

/// So many of the cheapest candidates are coded for quality. In real time one is: a second saves 1 to 2 % of bits and takes
/// a tenth of the time. Where there is something to code, a second is coded where a new vector is the cheapest, and where
/// intra prediction would be tried next: that saves 1 % of bits, and 8 % where a scene grows brighter or darker, for there
/// any vector leaves about the same.
const QUALITY_CANDIDATES: usize = 3;

/// Where nothing is known to move, a macroblock that has nothing to code is left as it is, if its transformed error is at
/// most so many steps.
const STILL_STEPS: u32 = 4;

/// In real time nothing else is tried where an empty residual leaves a transformed error of at most so many steps.
const GOOD_STEPS: u32 = 30;
/// For quality.
const QUALITY_GOOD_STEPS: u32 = 10;

/// Transformed errors, in steps, from which on other references are searched and parts are tried for quality. Both are for
/// what is to be coded: with them and the other bounds of the quality preset it takes a third of the time it took without
/// any, and 1 to 2 % more bits (50 pictures of six clips, indices 4 to 106).
const SEARCHED_STEPS: u32 = 8;
const SPLIT_STEPS: u32 = 8;

/// The cheapest vector is nudged where it leaves a transformed error of at least so many steps: below, there is
/// seldom anything to code. The search judges places between samples by means of two neighbours; what the filter makes of
/// them, transformed, says more. It saves 1.8 % of bits at indices 15 to 106, and 3.0 % at 4 to 15 (means of seven clips; on
/// nine parts that nothing was chosen by 1.8 and 2.8 %), for up to 8 % more instructions at 51 (mean of five clips 3 %).
/// To nudge all vectors while the picture is analysed saved less and took more. (Those figures are for 14; 24 takes 1 to 5 %
/// fewer instructions and 0.5 % more bits.)
const NUDGED_STEPS: u32 = 24;
/// For quality.
const QUALITY_NUDGED_STEPS: u32 = 6;
/// At most so many times.
const NUDGES: usize = 3;

/// The cheapest candidates, cheapest first.
#[derive(Debug, Default)]
struct Shortlist {
    candidates: [Option<Candidate>; QUALITY_CANDIDATES],
}

impl Shortlist {
    #[inline]
    fn offer(&mut self, candidate: Candidate) {
        let Candidate { whole: WholeVector { reference, vector, .. }, .. } = candidate;
        let same = |other: &Candidate| other.whole.reference == reference && other.whole.vector == vector;
        if let Some(known) = self.candidates.iter_mut().flatten().find(|other| same(other)) {
            // Near vectors may be equal to each other or to zero: the mode that costs less stays.
            if candidate.cost < known.cost {
                *known = candidate;
                self.candidates.sort_by_key(|entry| entry.map_or(u32::MAX, |entry| entry.cost));
            }
            return;
        }
        let mut carried = Some(candidate);
        for entry in &mut self.candidates {
            let Some(waiting) = carried else { return };
            if entry.is_none_or(|entry| waiting.cost < entry.cost) {
                carried = entry.replace(waiting);
            }
        }
    }
}

/// Decides a macroblock: the best of the ways to code it that seem worth trying.
pub(super) fn decide<'c>(costs: &Costs<'_>, canvas: &Canvas, place: &Place, contest: &'c mut Contest) -> &'c mut Trial {
    contest.begin();
    if costs.analysis.key_frame {
        try_intra(costs, canvas, place, contest);
    } else {
        try_inter(costs, canvas, place, contest);
    }
    contest.best()
}

/// Codes a macroblock with the reference and vectors that it had when the frame was coded another time. What was predicted
/// from the frame itself is decided anew: kept intra modes took 2 % of bits in inter frames and 5 % in key frames.
pub(super) fn decide_again<'c>(
    costs: &Costs<'_>,
    canvas: &Canvas,
    place: &Place,
    kept: &Decisions,
    contest: &'c mut Contest,
) -> &'c mut Trial {
    contest.begin();
    let analysis = costs.analysis;
    let at = place.row * analysis.layout.columns + place.column;
    let info = &kept.macroblocks.infos[at];
    let reference = analysis.references.iter().find(|(kind, _)| *kind == info.reference);
    let empty = kept.leave_empty(at, &costs.quantizers);
    let kept =
        reference.is_some_and(|(_, reference)| keep_inter(costs, canvas, place, info, reference, empty, contest));
    if analysis.key_frame {
        try_intra(costs, canvas, place, contest);
    } else if !kept {
        try_inter(costs, canvas, place, contest);
    }
    contest.best()
}

/// Codes a macroblock with the reference and vectors that it had when the frame was coded another time, and tells them by
/// its neighbours of now; with `empty` it is known to have nothing to code. False where they cannot be told.
fn keep_inter(
    costs: &Costs<'_>,
    canvas: &Canvas,
    place: &Place,
    info: &MacroblockInfo,
    reference: &Frame,
    empty: bool,
    contest: &mut Contest,
) -> bool {
    let near = place.near;
    let next = &mut contest.next;
    if info.luma_mode == LumaMode::Split {
        let Some((info, partition_vectors, bits)) = split_again(costs, canvas, place, &near, info) else {
            return false;
        };
        (next.info, next.partition_vectors, next.mode_bits) = (info, partition_vectors, bits);
    } else {
        let vector = info.motion_vector;
        let (dy, dx) = vector.difference(near.best);
        let mode = match vector {
            MotionVector::ZERO => LumaMode::Zero,
            vector if vector == near.nearest => LumaMode::Nearest,
            vector if vector == near.near => LumaMode::Near,
            _ if is_codable(dy, dx) => LumaMode::New,
            _ => return false,
        };
        next.info = MacroblockInfo::whole(info.reference, mode, vector);
        next.mode_bits = 0;
    }
    next.predict_inter(reference, place);
    if empty {
        contest.leave_empty(costs, place);
    } else {
        contest.run(costs, place);
    }
    true
}

/// What was found for a macroblock before anything was coded.
fn motion_at<'a>(costs: &Costs<'a>, place: &Place) -> &'a MacroblockMotion {
    let analysis = costs.analysis;
    &analysis.motion[place.row * analysis.layout.columns + place.column]
}

/// Tries what a macroblock of an inter frame may be.
fn try_inter(costs: &Costs<'_>, canvas: &Canvas, place: &Place, contest: &mut Contest) {
    let near = place.near;
    let analysis = costs.analysis;
    let quality = analysis.preset == Preset::Quality;
    let mut motion = *motion_at(costs, place);

    // Where next to nothing has changed there is most often nothing to code: then that is all. Where more has, it is so only
    // if no better place was found: an empty residual says that a difference is small for this quantizer, but what moves
    // would lag behind further with every frame.
    let mut still_tried = false;
    let still_below = if motion.references[0].vector.is_zero() { STILL_STEPS } else { 1 };
    if motion.references[0].zero_satd < still_below * costs.step {
        let bits = costs.inter_mode(LumaMode::Zero, analysis.references[0].0, &near);
        let whole = WholeVector { reference: 0, mode: LumaMode::Zero, vector: MotionVector::ZERO, bits };
        whole.predict(costs, place, None, &mut contest.next);
        contest.run(costs, place);
        if contest.best_is_empty() {
            return;
        }
        still_tried = true;
    }
    if motion.best() > SEARCHED_STEPS * costs.step {
        analysis.search().complete((place.column, place.row), &analysis.motion, &mut motion, &mut contest.next.luma);
    }
    let motion = &motion;
    let mut shortlist = shortlist(costs, place, &near, motion, contest);
    let nudged_steps = if quality { QUALITY_NUDGED_STEPS } else { NUDGED_STEPS };
    if let Some(cheapest) = &mut shortlist.candidates[0]
        && cheapest.satd >= nudged_steps * costs.step
        && (!cheapest.whole.vector.is_zero() || contest.may_nudge_still())
    {
        let nudged = nudged(costs, place, &near, *cheapest, contest);
        if cheapest.whole.vector.is_zero() && nudged.cost < cheapest.cost {
            contest.was_not_still();
        }
        *cheapest = nudged;
    }
    let run = |candidate: &Candidate, contest: &mut Contest| {
        if still_tried && candidate.whole.reference == 0 && candidate.whole.vector.is_zero() {
            return;
        }
        let Contest { next, predictions, .. } = contest;
        candidate.whole.predict(costs, place, candidate.prediction.map(|index| &predictions[index]), next);
        contest.run(costs, place);
    };
    let tried = if quality { QUALITY_CANDIDATES } else { 1 };
    for candidate in shortlist.candidates.iter().flatten().take(tried) {
        run(candidate, contest);
    }
    let Some(cheapest) = shortlist.candidates[0] else {
        try_intra(costs, canvas, place, contest);
        return;
    };
    let good_steps = if quality { QUALITY_GOOD_STEPS } else { GOOD_STEPS };
    if contest.best_is_empty() && cheapest.whole.mode != LumaMode::New && cheapest.satd < good_steps * costs.step {
        return;
    }
    let intra = analysis.intra_error(place.row * analysis.layout.columns + place.column);
    let doubtful = cheapest.whole.mode == LumaMode::New || intra < 2 * cheapest.satd;
    if !quality
        && !contest.best_is_empty()
        && doubtful
        && let Some(second) = &shortlist.candidates[1]
    {
        run(second, contest);
    }
    if !quality && !contest.best_is_empty() {
        try_still_references(costs, place, &near, cheapest.satd, contest);
    }
    // What is left as it is predicted will hardly be worth more vectors.
    if motion.poor && !contest.best_is_empty() && (!quality || cheapest.satd > SPLIT_STEPS * costs.step) {
        let quarters = analysis.search().search_quarters(place.column, place.row, motion.references[0].vector);
        try_splits(costs, canvas, place, &near, &quarters, cheapest.cost, contest);
    }
    let intra_worthy = if contest.best_is_empty() {
        // What is not worth coding as it is will hardly be worth more bits for its mode.
        4 * intra < 3 * cheapest.satd
    } else {
        intra < 2 * cheapest.satd
    };
    if intra_worthy {
        let bar = cheapest.cost.saturating_add(if quality { cheapest.cost / 8 } else { 0 });
        try_intra_below(costs, canvas, place, bar, contest);
    }
}

/// Tries the references that were not searched, as they stand: beside noise, another reference's noise may be the nearer
/// one though nothing moves. Only for what is to be coded; where it pays, it pays much.
fn try_still_references(
    costs: &Costs<'_>,
    place: &Place,
    near: &NearVectors,
    satd_to_beat: u32,
    contest: &mut Contest,
) {
    let analysis = costs.analysis;
    let motion = motion_at(costs, place);
    let source = &analysis.source.planes[0];
    let (x, y) = (16 * place.column, 16 * place.row);
    for (index, (kind, frame)) in analysis.references.iter().enumerate() {
        if motion.references[index].is_known() {
            continue;
        }
        let Contest { next, predictions, .. } = &mut *contest;
        let luma = &mut predictions[0];
        predict_luma::<16, 16>(frame, x, y, MotionVector::ZERO, luma, 16);
        if satd::<16, 16>(source.at(x, y), source.stride, luma, 16) < satd_to_beat {
            let bits = costs.inter_mode(LumaMode::Zero, *kind, near);
            let whole = WholeVector { reference: index, mode: LumaMode::Zero, vector: MotionVector::ZERO, bits };
            whole.predict(costs, place, Some(luma), next);
            contest.run(costs, place);
        }
    }
}

/// Costs the vectors that there are reasons for, by transformed error.
fn shortlist(
    costs: &Costs<'_>,
    place: &Place,
    near: &NearVectors,
    motion: &MacroblockMotion,
    contest: &mut Contest,
) -> Shortlist {
    let analysis = costs.analysis;
    let source = &analysis.source.planes[0];
    let (x, y) = (16 * place.column, 16 * place.row);
    let mut shortlist = Shortlist::default();
    for (index, (kind, frame)) in analysis.references.iter().enumerate() {
        let found = &motion.references[index];
        if !found.is_known() {
            continue;
        }
        let mut offer = |mode: LumaMode, vector: MotionVector, satd: u32, vector_bits: u32, prediction| {
            let bits = costs.inter_mode(mode, *kind, near) + vector_bits;
            let cost = costs.lagrangian.transformed(satd, bits);
            let whole = WholeVector { reference: index, mode, vector, bits };
            shortlist.offer(Candidate { whole, satd, cost, prediction });
        };
        offer(LumaMode::Zero, MotionVector::ZERO, found.zero_satd, 0, None);
        if found.vector != MotionVector::ZERO && found.vector != near.nearest && found.vector != near.near {
            let (dy, dx) = found.vector.difference(near.best);
            if is_codable(dy, dx) {
                offer(LumaMode::New, found.vector, found.satd, analysis.vector_costs.of(dy, dx), None);
            }
        }
        // In the other references only where they look promising at all.
        if index > 0 && found.satd > motion.references[0].satd + motion.references[0].satd / 8 {
            continue;
        }
        for (slot, (mode, vector)) in
            [(LumaMode::Nearest, near.nearest), (LumaMode::Near, near.near)].into_iter().enumerate()
        {
            if vector.is_zero() {
                offer(mode, vector, found.zero_satd, 0, None);
            } else if vector == found.vector {
                offer(mode, vector, found.satd, 0, None);
            } else if slot == 0 || vector != near.nearest {
                // Those of the last frame are kept; those of the others pass through.
                let kept = index == 0;
                let prediction = if kept { &mut contest.predictions[slot] } else { &mut contest.next.luma };
                predict_luma::<16, 16>(frame, x, y, vector, prediction, 16);
                let satd = satd::<16, 16>(source.at(x, y), source.stride, prediction, 16);
                offer(mode, vector, satd, 0, kept.then_some(slot));
            }
        }
    }
    shortlist
}

/// A candidate, moved on by a quarter of a sample each way as long as that costs less.
fn nudged(
    costs: &Costs<'_>,
    place: &Place,
    near: &NearVectors,
    candidate: Candidate,
    contest: &mut Contest,
) -> Candidate {
    let analysis = costs.analysis;
    let (kind, frame) = &analysis.references[candidate.whole.reference];
    let source = &analysis.source.planes[0];
    let (x, y) = (16 * place.column, 16 * place.row);
    let mode_bits = costs.inter_mode(LumaMode::New, *kind, near);
    let [.., first, second] = &mut *contest.predictions;
    let (mut best, mut slots) = (candidate, [(2, first), (3, second)]);
    let mut nudge = |dx: i16, dy: i16| {
        let from = best.whole.vector;
        let vector = MotionVector { x: from.x.saturating_add(dx), y: from.y.saturating_add(dy) };
        let (vector_y, vector_x) = vector.difference(near.best);
        if !is_codable(vector_y, vector_x) {
            return false;
        }
        let (slot, prediction) = &mut slots[0];
        predict_luma::<16, 16>(frame, x, y, vector, *prediction, 16);
        let satd = satd::<16, 16>(source.at(x, y), source.stride, *prediction, 16);
        let bits = mode_bits + analysis.vector_costs.of(vector_y, vector_x);
        let cost = costs.lagrangian.transformed(satd, bits);
        let better = cost < best.cost;
        if better {
            let whole = WholeVector { vector, bits, mode: LumaMode::New, ..best.whole };
            best = Candidate { whole, satd, cost, prediction: Some(*slot) };
            slots.swap(0, 1);
        }
        better
    };
    for _ in 0..NUDGES {
        let across = nudge(1, 0) || nudge(-1, 0);
        let down = nudge(0, 1) || nudge(0, -1);
        if !across && !down {
            break;
        }
    }
    best
}

impl WholeVector {
    /// Makes this `next`, with what it predicts; `luma` is that plane's prediction, where it is known already.
    fn predict(&self, costs: &Costs<'_>, place: &Place, luma: Option<&[u8; 256]>, next: &mut Trial) {
        let (kind, frame) = &costs.analysis.references[self.reference];
        next.info = MacroblockInfo::whole(*kind, self.mode, self.vector);
        next.mode_bits = self.bits;
        if let Some(luma) = luma {
            next.luma = *luma;
            predict_chroma(frame, 16 * place.column, 16 * place.row, self.vector, &mut next.chroma);
        } else {
            next.predict_inter(frame, place);
        }
    }
}
