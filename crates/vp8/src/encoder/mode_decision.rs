//! Which of the many ways to code an inter macroblock is taken.

use super::Preset;
use super::analysis::{NOT_FOUND, WELL_PREDICTED};
use super::distortion::satd;
use super::frame_encoder::FrameEncoder;
use super::header_writer::difference;
use super::inter_prediction::{predict_chroma, predict_luma};
use super::intra_estimate::intra_estimate;
use super::trial::Place;
use super::vector_coding::is_codable;
use crate::macroblock::{LumaMode, MacroblockInfo, MotionVector, NearVectors, SubblockMode};

/// One vector in one reference for the whole macroblock.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    /// Index among the analysis's references.
    reference: usize,
    mode: LumaMode,
    vector: MotionVector,
    bits: u32,
    satd: u32,
    /// Transformed error and bits together.
    cost: u32,
    /// Where it is kept what this predicts of luma, if it is.
    prediction: Option<usize>,
}

/// What luma was predicted while vectors were compared.
type Predictions = [[u8; 256]; 2];

/// The cheapest candidates, cheapest first.
#[derive(Debug, Default)]
struct Shortlist {
    candidates: [Option<Candidate>; 4],
}

impl Shortlist {
    fn offer(&mut self, candidate: Candidate) {
        let same = |other: &Candidate| other.reference == candidate.reference && other.vector == candidate.vector;
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

impl FrameEncoder<'_> {
    /// Decides a macroblock of an inter frame.
    pub(super) fn decide_inter(&mut self, place: &Place) {
        let near = self.macroblocks.near_vectors(place.column, place.row);
        let analysis = self.analysis;
        let motion = &analysis.motion[place.row * self.macroblocks.columns + place.column];

        // Where nothing has changed there is most often nothing to code: then that is all.
        let mut still_tried = false;
        if motion.references[0].zero_satd < 16 * self.step {
            let bits = self.inter_mode_cost(LumaMode::Zero, analysis.references[0].0, &near);
            self.predict_whole(place, 0, LumaMode::Zero, MotionVector::ZERO, bits, None);
            self.code_trial(place);
            if self.best.residual.is_empty() {
                return;
            }
            still_tried = true;
        }
        let mut predictions = [[0; 256]; 2];
        let shortlist = self.shortlist(place, &near, &mut predictions);
        let quality = analysis.preset == Preset::Quality;
        let tried = if quality { 3 } else { 1 };
        for candidate in shortlist.candidates.iter().flatten().take(tried) {
            if still_tried && candidate.reference == 0 && candidate.vector.is_zero() {
                continue;
            }
            let Candidate { reference, mode, vector, bits, prediction, .. } = *candidate;
            let luma = prediction.map(|index| &predictions[index]);
            self.predict_whole(place, reference, mode, vector, bits, luma);
            self.code_trial(place);
        }
        let Some(cheapest) = shortlist.candidates[0] else {
            self.decide_intra(place);
            return;
        };
        if !quality && !self.best.residual.is_empty() {
            self.try_still_references(place, &near, cheapest.satd);
        }
        if let Some(quarters) = &motion.quarters {
            self.try_splits(place, &near, quarters, cheapest.cost);
        }
        let intra_worthy = if quality {
            motion.intra < 2 * cheapest.satd
        } else if self.best.residual.is_empty() {
            // What is not worth coding as it is will hardly be worth more bits for its mode.
            4 * motion.intra < 3 * cheapest.satd
        } else {
            // What comes near noise is estimated only now that it is to be coded.
            let intra = if motion.intra == NOT_FOUND && cheapest.satd > WELL_PREDICTED {
                let (x, y) = (16 * place.column, 16 * place.row);
                intra_estimate(&analysis.source.planes[0], x, y, &mut self.trial.luma)
            } else {
                motion.intra
            };
            intra < cheapest.satd
        };
        if intra_worthy {
            self.decide_intra_below(place, if quality { u32::MAX } else { cheapest.cost });
        }
    }

    /// Tries the references that were not searched, as they stand: beside noise, another reference's noise may be the
    /// nearer one though nothing moves. Only for what is to be coded; where it pays, it pays much.
    fn try_still_references(&mut self, place: &Place, near: &NearVectors, satd_to_beat: u32) {
        let analysis = self.analysis;
        let motion = &analysis.motion[place.row * self.macroblocks.columns + place.column];
        let source = &analysis.source.planes[0];
        let (x, y) = (16 * place.column, 16 * place.row);
        for (index, (kind, frame)) in analysis.references.iter().enumerate() {
            if motion.references[index].is_known() {
                continue;
            }
            let mut luma = [0; 256];
            predict_luma::<16, 16>(frame, x, y, MotionVector::ZERO, &mut luma, 16);
            if satd::<16, 16>(source.at(x, y), source.stride, &luma, 16) < satd_to_beat {
                let bits = self.inter_mode_cost(LumaMode::Zero, *kind, near);
                self.predict_whole(place, index, LumaMode::Zero, MotionVector::ZERO, bits, Some(&luma));
                self.code_trial(place);
            }
        }
    }

    /// Costs the vectors that there are reasons for, by transformed error.
    fn shortlist(&self, place: &Place, near: &NearVectors, predictions: &mut Predictions) -> Shortlist {
        let analysis = self.analysis;
        let motion = &analysis.motion[place.row * self.macroblocks.columns + place.column];
        let source = &analysis.source.planes[0];
        let (x, y) = (16 * place.column, 16 * place.row);
        let mut shortlist = Shortlist::default();
        for (index, (kind, frame)) in analysis.references.iter().enumerate() {
            let found = &motion.references[index];
            if !found.is_known() {
                continue;
            }
            let mut offer = |mode: LumaMode, vector: MotionVector, satd: u32, vector_bits: u32, prediction| {
                let bits = self.inter_mode_cost(mode, *kind, near) + vector_bits;
                let cost = self.lagrangian.transformed(satd, bits);
                shortlist.offer(Candidate { reference: index, mode, vector, bits, satd, cost, prediction });
            };
            offer(LumaMode::Zero, MotionVector::ZERO, found.zero_satd, 0, None);
            if found.vector != MotionVector::ZERO && found.vector != near.nearest && found.vector != near.near {
                let (dy, dx) = difference(found.vector, near.best);
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
                    let mut passing = [0; 256];
                    let prediction = if index == 0 { &mut predictions[slot] } else { &mut passing };
                    predict_luma::<16, 16>(frame, x, y, vector, prediction, 16);
                    let satd = satd::<16, 16>(source.at(x, y), source.stride, prediction, 16);
                    offer(mode, vector, satd, 0, (index == 0).then_some(slot));
                }
            }
        }
        shortlist
    }

    /// Predicts the trial with one vector for the whole macroblock, unless its `luma` is known already.
    fn predict_whole(
        &mut self,
        place: &Place,
        reference: usize,
        mode: LumaMode,
        vector: MotionVector,
        bits: u32,
        luma: Option<&[u8; 256]>,
    ) {
        let analysis = self.analysis;
        let (kind, frame) = &analysis.references[reference];
        self.trial.info = MacroblockInfo {
            luma_mode: mode,
            chroma_mode: LumaMode::Dc,
            reference: *kind,
            motion_vector: vector,
            segment: 0,
            partitioning: 0,
            skip: false,
            has_coefficients: false,
            subblock_modes: [SubblockMode::Dc; 16],
            subblock_vectors: [vector; 16],
        };
        self.trial.mode_bits = bits;
        if let Some(luma) = luma {
            self.trial.luma = *luma;
            predict_chroma(frame, 16 * place.column, 16 * place.row, vector, &mut self.trial.chroma);
        } else {
            self.trial.predict_inter(frame, place);
        }
    }
}
