//! The functional encoder behind the [`FrameEncoder`] seam: a menu of candidates from one named state.
//!
//! Salsify's published code offers the quantizers q-17 and q+23 around the last one sent, so that its frames fill a
//! third to a half of the budget. Here the analysis of the picture predicts the size at each quantizer, a running
//! correction takes out what the prediction gets wrong, and the menu is centred on the quantizer that fits.

use std::collections::BTreeMap;

use lockstep_transport::StateId;
use lockstep_units::ByteCount;
use lockstep_vp8::{Analysis, Encoded, Parameters, Picture, State};

use crate::encoder::{Candidate, EncodeJob, FrameEncoder, Menu, MenuRunner};

/// Share of the budget that the main candidate aims at. Predictions scatter by a few per cent; a frame over the budget
/// is not sent at all, so aiming at 1 would lose half of them.
const AIM: f64 = 0.93;
/// A first candidate that fills this share of the budget is good; the second is then a smaller one, for a budget that
/// shrinks before the decision.
const GOOD_FILL: f64 = 0.85;
/// What the smaller candidate aims at.
const SAFE_AIM: f64 = 0.7;
/// With both candidates coded at once, the second aims here: what the first overshoots by, it makes up for.
const PARALLEL_AIM: f64 = 0.8;
/// Weight of a new frame in the running correction.
const CORRECTION_WEIGHT: f64 = 0.3;
/// Bounds of the running correction; a prediction that is off by more says nothing.
const CORRECTION_BOUNDS: (f64, f64) = (0.2, 5.0);
/// The largest quantizer index (RFC 6386, section 9.6).
const LARGEST_QUANTIZER: u8 = 127;

/// How the two candidates of a menu are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MenuMode {
    /// One after the other, for one core: the second makes up for what the first missed.
    #[default]
    Serial,
    /// Both at once, for two cores.
    Parallel,
}

/// Real over predicted size, kept apart for key and inter frames.
#[derive(Debug, Clone, Copy)]
struct Correction {
    key: f64,
    inter: f64,
}

impl Correction {
    fn of(&mut self, key_frame: bool) -> &mut f64 {
        if key_frame { &mut self.key } else { &mut self.inter }
    }
}

/// A menu from one state by the functional codec.
#[derive(Debug)]
pub struct FunctionalEncoder {
    parameters: Parameters,
    mode: MenuMode,
    states: BTreeMap<StateId, State>,
    correction: Correction,
}

impl FunctionalEncoder {
    /// An encoder that codes with `parameters` (its quantizer is chosen for each frame).
    #[must_use]
    pub fn new(parameters: Parameters, mode: MenuMode) -> Self {
        let states = BTreeMap::from([(StateId::EMPTY, State::default())]);
        Self { parameters, mode, states, correction: Correction { key: 1.0, inter: 1.0 } }
    }
}

/// The smallest quantizer whose predicted size, corrected, is within `size`; the largest there is if none is.
fn quantizer_for(analysis: &Analysis, correction: f64, size: f64) -> u8 {
    let fits = |quantizer: u8| correction * analysis.predict_size(quantizer) as f64 <= size;
    let (mut low, mut high) = (0, LARGEST_QUANTIZER);
    while low < high {
        let middle = low + (high - low) / 2;
        if fits(middle) { high = middle } else { low = middle + 1 }
    }
    low
}

/// Both candidates at once, one at the budget and one safely below.
fn parallel_menu(analysis: &Analysis, correction: f64, budget: f64, runner: &dyn MenuRunner) -> Vec<Encoded> {
    let main = quantizer_for(analysis, correction, AIM * budget);
    let safe = quantizer_for(analysis, correction, PARALLEL_AIM * budget).max((main + 1).min(LARGEST_QUANTIZER));
    if safe == main { runner.run(analysis, &[main]) } else { runner.run(analysis, &[main, safe]) }
}

/// One candidate at the budget, then one that makes up for what it missed.
fn serial_menu(analysis: &Analysis, correction: f64, budget: f64, runner: &dyn MenuRunner) -> Vec<Encoded> {
    let main = quantizer_for(analysis, correction, AIM * budget);
    let mut candidates = runner.run(analysis, &[main]);
    let Some(size) = candidates.first().map(|first| first.frame.len() as f64) else { return candidates };
    let seen = size / (analysis.predict_size(main) as f64).max(1.0);
    let second = if size > budget {
        quantizer_for(analysis, seen, AIM * budget).max(main.saturating_add(1))
    } else if size < GOOD_FILL * budget {
        quantizer_for(analysis, seen, AIM * budget).min(main.saturating_sub(1))
    } else {
        quantizer_for(analysis, seen, SAFE_AIM * budget).max(main.saturating_add(1))
    };
    if second != main && second <= LARGEST_QUANTIZER {
        candidates.extend(runner.run(analysis, &[second]));
    }
    candidates
}

impl FrameEncoder for FunctionalEncoder {
    fn begin(&mut self, picture: &Picture, source: StateId, budget: ByteCount) -> EncodeJob {
        let state = self.states.get(&source).cloned().unwrap_or_default();
        let picture = picture.clone();
        let (parameters, mode, mut correction) = (self.parameters.clone(), self.mode, self.correction);
        EncodeJob::new(move |runner| {
            let analysis = Analysis::new(&state, &picture, &parameters);
            let correction = *correction.of(analysis.key_frame());
            let encoded = match mode {
                MenuMode::Serial => serial_menu(&analysis, correction, budget.as_f64(), runner),
                MenuMode::Parallel => parallel_menu(&analysis, correction, budget.as_f64(), runner),
            };
            let predictions = encoded.iter().map(|candidate| analysis.predict_size(candidate.quantizer) as f64);
            let predictions = predictions.collect();
            let candidates = encoded
                .into_iter()
                .map(|Encoded { frame, state, quantizer, key_frame, .. }| Candidate {
                    frame,
                    quantizer,
                    key_frame,
                    state,
                })
                .collect();
            Menu { candidates, predictions }
        })
    }

    fn commit(&mut self, mut menu: Menu, choice: Option<usize>) -> Option<(StateId, Candidate)> {
        for (candidate, &predicted) in menu.candidates.iter().zip(&menu.predictions) {
            let seen = candidate.size().as_f64() / predicted.max(1.0);
            let correction = self.correction.of(candidate.key_frame);
            *correction = (*correction + CORRECTION_WEIGHT * (seen - *correction))
                .clamp(CORRECTION_BOUNDS.0, CORRECTION_BOUNDS.1);
        }
        let chosen = menu.candidates.swap_remove(choice?);
        let name = StateId(chosen.state.hash());
        self.states.insert(name, chosen.state.clone());
        Some((name, chosen))
    }

    fn forget(&mut self, state: StateId) {
        if state != StateId::EMPTY {
            self.states.remove(&state);
        }
    }

    fn held_states(&self) -> usize {
        self.states.len()
    }
}
