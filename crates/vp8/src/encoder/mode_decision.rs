//! Decision between the ways to code a macroblock of an interframe.
//!
//! [`decide`] tries zero motion, the best vectors, other references, split mode and intra prediction. It stops early
//! where more trials are unlikely to pay. [`decide_again`] starts from decisions of another pass.

use super::canvas::CanvasRow;
use super::contest::Contest;
use super::costs::Costs;
use super::decisions::Decisions;
use super::distortion::satd;
use super::inter_prediction::{predict_chroma, predict_luma};
use super::intra_decision::{try_intra, try_intra_below};
use super::macroblock_motion::MacroblockMotion;
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
    /// Index into the analysis's references.
    reference: usize,
    mode: LumaMode,
    vector: MotionVector,
    /// Cost of mode and vector in 1/256 bit.
    bits: u32,
}

/// A vector that may be tried.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    whole: WholeVector,
    satd: u32,
    /// Cost by SATD and bits.
    cost: u32,
    /// Index of the stored luma prediction, if there is one.
    prediction: Option<usize>,
}

/// Number of the cheapest candidates that are kept.
const SHORTLIST: usize = 3;

/// If no motion was found, zero motion with an empty residual is final below this SATD in steps.
const STILL_STEPS: u32 = 4;

/// SATD in steps above which `Tools` may search the other references, and try split mode.
/// `lab: 2026-11-notes-vp8`.
const SEARCHED_STEPS: u32 = 8;
const SPLIT_STEPS: u32 = 8;

/// Largest number of steps of the refinement by SATD.
///
/// Motion search compares fractional positions by the mean of two samples. SATD of the real interpolation is more
/// accurate. `lab: 2026-11-notes-vp8`.
const NUDGES: usize = 3;

/// The cheapest candidates, the cheapest first.
#[derive(Debug, Default)]
struct Shortlist {
    candidates: [Option<Candidate>; SHORTLIST],
}

impl Shortlist {
    #[inline]
    fn offer(&mut self, candidate: Candidate) {
        let Candidate { whole: WholeVector { reference, vector, .. }, .. } = candidate;
        let same = |other: &Candidate| other.whole.reference == reference && other.whole.vector == vector;
        // Near vectors may be equal to each other or to zero. The cheaper mode is kept.
        let mut end = SHORTLIST;
        if let Some(at) = self.candidates.iter().position(|other| other.as_ref().is_some_and(same)) {
            if self.candidates[at].is_some_and(|known| candidate.cost >= known.cost) {
                return;
            }
            end = at + 1;
        }
        let mut carried = Some(candidate);
        for entry in &mut self.candidates[..end] {
            let Some(waiting) = carried else { return };
            if entry.is_none_or(|entry| waiting.cost < entry.cost) {
                carried = entry.replace(waiting);
            }
        }
    }
}

/// Decides a macroblock: returns the best of the trials that seem worthwhile.
pub(super) fn decide<'c>(
    costs: &Costs<'_>,
    canvas: &CanvasRow<'_>,
    place: &Place,
    contest: &'c mut Contest,
) -> &'c mut Trial {
    contest.begin();
    if costs.analysis.key_frame {
        try_intra(costs, canvas, place, contest);
    } else {
        try_inter(costs, canvas, place, contest);
    }
    contest.best()
}

/// Decides a macroblock with the reference and vectors of another pass. Intra macroblocks are decided again, because
/// reused intra modes cost bits. `lab: 2026-11-notes-vp8`.
pub(super) fn decide_again<'c>(
    costs: &Costs<'_>,
    canvas: &CanvasRow<'_>,
    place: &Place,
    kept: &Decisions,
    contest: &'c mut Contest,
) -> &'c mut Trial {
    contest.begin();
    let analysis = costs.analysis;
    let at = place.row * analysis.layout.columns + place.column;
    let info = &kept.macroblocks.infos[at];
    let reference = analysis.references.iter().find(|(kind, _)| *kind == info.reference);
    let empty = kept.code_empty((place.column, place.row), &costs.quantizers);
    let kept =
        reference.is_some_and(|(_, reference)| keep_inter(costs, canvas, place, info, reference, empty, contest));
    if analysis.key_frame {
        try_intra(costs, canvas, place, contest);
    } else if !kept {
        try_inter(costs, canvas, place, contest);
    }
    contest.best()
}

/// Codes a macroblock with the reference and vectors of another pass, and with modes that fit its current neighbours.
/// `empty` means that the residual is known to quantize to zero. Returns false if the vectors cannot be coded.
fn keep_inter(
    costs: &Costs<'_>,
    canvas: &CanvasRow<'_>,
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
        contest.code_empty(costs, place);
    } else {
        contest.run(costs, place);
    }
    true
}

/// Results of motion search for a macroblock.
fn motion_at<'a>(costs: &Costs<'a>, place: &Place) -> &'a MacroblockMotion {
    let analysis = costs.analysis;
    &analysis.motion[place.row * analysis.layout.columns + place.column]
}

/// Tries the ways to code a macroblock of an interframe.
fn try_inter(costs: &Costs<'_>, canvas: &CanvasRow<'_>, place: &Place, contest: &mut Contest) {
    let near = place.near;
    let analysis = costs.analysis;
    let tools = &analysis.tools;
    let mut motion = *motion_at(costs, place);

    // Where almost nothing has changed, there is usually nothing to code, and zero motion is final. With a larger error
    // this holds only if no better position was found. Otherwise slowly moving areas would lag behind more with every
    // frame, because an empty residual only means a small difference.
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
    if let Some(cheapest) = &mut shortlist.candidates[0]
        && cheapest.satd >= tools.nudged_steps * costs.step
        && (!cheapest.whole.vector.is_zero() || contest.may_refine_zero_motion())
    {
        let nudged = nudged(costs, place, &near, *cheapest, contest);
        if cheapest.whole.vector.is_zero() && nudged.cost < cheapest.cost {
            contest.on_motion_found();
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
    for candidate in shortlist.candidates.iter().flatten().take(tools.candidates) {
        run(candidate, contest);
    }
    let Some(cheapest) = shortlist.candidates[0] else {
        try_intra(costs, canvas, place, contest);
        return;
    };
    if contest.best_is_empty() && cheapest.whole.mode != LumaMode::New && cheapest.satd < tools.good_steps * costs.step
    {
        return;
    }
    let intra = analysis.intra_error(place.row * analysis.layout.columns + place.column);
    let doubtful = cheapest.whole.mode == LumaMode::New || intra < 2 * cheapest.satd;
    if tools.candidates == 1
        && !contest.best_is_empty()
        && doubtful
        && let Some(second) = &shortlist.candidates[1]
    {
        run(second, contest);
    }
    if !tools.searches_references && !contest.best_is_empty() {
        try_still_references(costs, place, &near, cheapest.satd, contest);
    }
    // If the residual is dropped, more vectors will hardly pay.
    if motion.poor && !contest.best_is_empty() && (!tools.splits || cheapest.satd > SPLIT_STEPS * costs.step) {
        let quarters = analysis.search().search_quarters(place.column, place.row, motion.references[0].vector);
        try_splits(costs, canvas, place, &near, &quarters, cheapest.cost, contest);
    }
    let intra_worthy = if contest.best_is_empty() {
        // If the residual is dropped, an expensive intra mode will hardly pay.
        4 * intra < 3 * cheapest.satd
    } else {
        intra < 2 * cheapest.satd
    };
    if intra_worthy {
        let bar = cheapest.cost.saturating_add(if tools.doubtful_intra { cheapest.cost / 8 } else { 0 });
        try_intra_below(costs, canvas, place, bar, contest);
    }
}

/// Tries zero motion in the references that were not searched. With noise, another reference may be closer although
/// nothing moves. This runs only if there is a residual; where it helps, it helps a lot.
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

/// Ranks the plausible vectors by their SATD cost.
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
        // In other references, near vectors are tried only if that reference looks promising.
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
                // Predictions from the last frame are stored, those from other references are not.
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

/// Refines a candidate by quarter samples in each direction while its cost decreases.
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
    /// Sets this vector as the `next` trial and predicts from it. `luma` is the luma prediction, if it is already
    /// known.
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
