//! Functional encoder as a [`FrameEncoder`]: a menu of candidates from one state.
//!
//! Salsify's published code offers the quantizers q-17 and q+23 around the last sent one. Its frames fill a third to a
//! half of the budget. Here a curve of size over quantizer is learned from coded candidates. The menu is centred on the
//! expected quantizer. Alternatively, one frame starts there and is coded pass by pass, each pass towards the newest
//! budget ([`MenuMode::Fit`]). The codec's size estimate of a picture shifts the curve before coding.

mod config;

use std::sync::Arc;

use lockstep_control::FailureReason;
use lockstep_transport::{Recovery, StateId};
use lockstep_units::{ByteCount, Timestamp};
use lockstep_vp8::MAX_QUANTIZER;

use crate::codec::{Candidate, CodecTraits, FunctionalCodec, Vp8};
use crate::effort::FINEST_USEFUL_QUANTIZER;
use crate::encoder::{EncodeJob, EncodeWork, FrameEncoder, FrameRequest, FrameStart, Menu, MenuRunner};
use crate::frame_dropper::FrameDropper;
use crate::held_states::HeldStates;
use crate::screen::SharpBudget;
use crate::size_curve::{SizeCurve, SizeEstimate};
use crate::tuning::Tuning;

pub use config::FunctionalConfig;

/// Salsify's menus: target share of the budget for the main candidate. Predictions vary, and a frame over the budget is
/// not sent. At 1, half of them would be lost.
const AIM: f64 = 0.9;
/// Salsify's menus: a first candidate that fills this share of the budget is good. The second one is then smaller, in
/// case the budget shrinks before the decision.
const GOOD_FILL: f64 = 0.8;
/// Salsify's menus: target share of the smaller candidate.
const SAFE_AIM: f64 = 0.65;
/// Salsify's menus: target shares of two parallel candidates. The first can be close to the budget because the second
/// is well below it.
const PARALLEL_AIMS: (f64, f64) = (0.95, 0.7);
/// Middle of VP8's quantizer indices.
const MIDDLE_QUANTIZER: u8 = 64;

/// Default number of passes to fit a picture.
pub const FIT_PASSES: u8 = 3;

/// Way in which the candidates of a menu are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MenuMode {
    /// Repeated passes, each towards the newest budget, until one fits and fills half of it or a newer picture waits.
    /// All passes are candidates.
    Fit {
        /// Maximum number of passes, at least one.
        passes: usize,
    },
    /// Salsify's two candidates in sequence, for one core: the second one corrects the first.
    Serial,
    /// Salsify's two candidates in parallel, for two cores.
    Parallel,
}

impl Default for MenuMode {
    /// Up to [`FIT_PASSES`] passes: the default of the library, the command and Python.
    fn default() -> Self {
        Self::Fit { passes: usize::from(FIT_PASSES) }
    }
}

impl MenuMode {
    /// Work until the first candidate.
    #[must_use]
    pub fn first_work(self) -> EncodeWork {
        match self {
            Self::Fit { .. } => EncodeWork::FirstPass,
            Self::Serial => EncodeWork::SerialMenu,
            Self::Parallel => EncodeWork::ParallelMenu,
        }
    }
}

/// Curves of size over quantizer, separate for key frames and interframes.
#[derive(Debug, Clone)]
pub(crate) struct SizeCurves {
    key: SizeCurve,
    inter: SizeCurve,
}

impl SizeCurves {
    /// Initial curves for pictures of `luma_samples` luma samples.
    pub(crate) fn new(luma_samples: usize, tuning: &Tuning) -> Self {
        let FunctionalConfig { first_key_frame_bits, first_inter_share, .. } = tuning.functional;
        let size = luma_samples as f64 * first_key_frame_bits / 8.0;
        let curve = |size| SizeCurve::new(MIDDLE_QUANTIZER, size, tuning.size_curve);
        Self { key: curve(size), inter: curve(first_inter_share * size) }
    }

    fn get(&self, key_frame: bool) -> &SizeCurve {
        if key_frame { &self.key } else { &self.inter }
    }

    pub(crate) fn of(&mut self, key_frame: bool) -> &mut SizeCurve {
        if key_frame { &mut self.key } else { &mut self.inter }
    }
}

/// Encoder of the functional codec: a menu from one state.
#[derive(Debug)]
pub struct FunctionalEncoder<C: FunctionalCodec = Vp8> {
    parameters: C::Parameters,
    mode: MenuMode,
    states: HeldStates<C::State>,
    curves: Option<Arc<SizeCurves>>,
    arena: C::Arena,
    dropper: FrameDropper,
    /// Budget of the present picture with sharp text, if it shows a screen.
    sharp: Option<SharpBudget>,
    /// Finest quantizer of the present picture.
    finest: u8,
    tuning: Tuning,
}

impl<C: FunctionalCodec> FunctionalEncoder<C> {
    /// An encoder that codes with `parameters`; it chooses the quantizer for each frame.
    #[must_use]
    pub fn new(parameters: C::Parameters, mode: MenuMode, tuning: &Tuning) -> Self {
        let (states, arena, dropper) = (
            HeldStates::new(),
            C::Arena::default(),
            FrameDropper::new(tuning.frame_dropper, tuning.control.loss.frame_weight),
        );
        Self {
            parameters,
            mode,
            states,
            curves: None,
            arena,
            dropper,
            sharp: None,
            finest: FINEST_USEFUL_QUANTIZER,
            tuning: *tuning,
        }
    }

    /// Codes in the memory of `arena`, and with what else it provides, such as threads.
    #[must_use]
    pub fn with_arena(self, arena: C::Arena) -> Self {
        Self { arena, ..self }
    }

    /// Whether a picture is skipped in favour of the next. Its frame is coarse from the quantizer `coarse` on.
    fn drops(&mut self, now: Timestamp, inter: &SizeCurve, budget: ByteCount, coarse: u8) -> bool {
        let Tuning { functional, screen, .. } = self.tuning;
        let Some(sharp) = self.sharp else {
            return self.dropper.drops(now, first_quantizer(inter, budget, self.finest, functional.aim), coarse);
        };
        let most = sharp.most.max(budget);
        let waits = sharp.grows && first_quantizer(inter, most, self.finest, functional.aim) > screen.sharp;
        self.dropper.drops_if(now, waits, screen.longest)
    }

    /// Budget of the present picture after the candidates so far: more than `budget` if its text is not sharp.
    fn budget_after(&self, menu: &Menu<C>, budget: ByteCount) -> ByteCount {
        let (Some(sharp), Some(curves), Some(last)) = (self.sharp, &self.curves, menu.candidates.last()) else {
            return budget;
        };
        let curve = curves.get(last.key_frame);
        sharp.budget(self.tuning.screen, curve, (last.quantizer, last.size().as_f64()), budget)
    }
}

/// The codec's estimate of a picture at `quantizer`; none if it has none.
fn estimate_at<C: FunctionalCodec>(analysis: &C::Analysis, quantizer: u8) -> Option<SizeEstimate> {
    C::estimate_size(analysis, quantizer).map(|size| SizeEstimate { quantizer, size: size.as_f64() })
}

/// Quantizer of the first pass towards a budget.
fn first_quantizer(curve: &SizeCurve, budget: ByteCount, finest: u8, aim: f64) -> u8 {
    curve.quantizer_for(aim * budget.as_f64()).max(finest)
}

/// First pass towards a budget. If its quantizer is far from that of `estimate`, it gets its own estimate. So the error
/// of estimates is learned at the quantizer of the frame.
fn first_pass<C: FunctionalCodec>(
    analysis: C::Analysis,
    curve: &SizeCurve,
    estimate: Option<SizeEstimate>,
    budget: ByteCount,
    finest: u8,
    FunctionalConfig { aim, far, .. }: FunctionalConfig,
) -> Menu<C> {
    let first = first_quantizer(curve, budget, finest, aim);
    let estimate = match estimate {
        Some(SizeEstimate { quantizer, .. }) if quantizer.abs_diff(first) > far => estimate_at::<C>(&analysis, first),
        near => near,
    };
    Menu { estimate, ..another_pass(C::fitting(analysis, first), Vec::new(), budget) }
}

/// Adds one more candidate, coded to fit `budget`.
fn another_pass<C: FunctionalCodec>(
    mut fitting: C::Fitting,
    mut candidates: Vec<Candidate<C>>,
    budget: ByteCount,
) -> Menu<C> {
    candidates.push(C::pass(&mut fitting, budget));
    Menu { candidates, fitting: Some(fitting), estimate: None }
}

/// Two parallel candidates, one at the budget and one well below it.
fn parallel_menu<C: FunctionalCodec>(
    analysis: &C::Analysis,
    curve: &SizeCurve,
    budget: f64,
    finest: u8,
    runner: &dyn MenuRunner<C>,
) -> Vec<Candidate<C>> {
    let main = curve.quantizer_for(PARALLEL_AIMS.0 * budget).max(finest);
    let safe = curve.quantizer_for(PARALLEL_AIMS.1 * budget).max(main.saturating_add(1)).min(MAX_QUANTIZER);
    if safe == main { runner.run(analysis, &[main]) } else { runner.run(analysis, &[main, safe]) }
}

/// One candidate at the budget, then one that corrects it.
fn serial_menu<C: FunctionalCodec>(
    analysis: &C::Analysis,
    mut curve: SizeCurve,
    budget: f64,
    finest: u8,
    runner: &dyn MenuRunner<C>,
) -> Vec<Candidate<C>> {
    let main = curve.quantizer_for(AIM * budget).max(finest);
    let mut candidates = runner.run(analysis, &[main]);
    let Some(size) = candidates.first().map(|first| first.size().as_f64()) else { return candidates };
    curve.pass_through(main, size);
    let second = if size > budget {
        curve.quantizer_for(AIM * budget).max(main.saturating_add(1))
    } else if size < GOOD_FILL * budget {
        curve.quantizer_for(AIM * budget).min(main.saturating_sub(1)).max(finest)
    } else {
        curve.quantizer_for(SAFE_AIM * budget).max(main.saturating_add(1))
    };
    if second != main && second <= MAX_QUANTIZER {
        candidates.extend(runner.run(analysis, &[second]));
    }
    candidates
}

impl<C: FunctionalCodec> FrameEncoder<C> for FunctionalEncoder<C> {
    fn codec(&self) -> CodecTraits {
        C::traits(&self.parameters)
    }

    fn check(&self) -> Result<(), FailureReason> {
        C::check(&self.parameters)
    }

    fn recovery(&self) -> Recovery {
        Recovery::FromHeldState
    }

    fn begin(&mut self, request: &FrameRequest<'_, C>) -> Option<FrameStart<C>> {
        let FrameRequest { now, picture, source, budget, sharp, may_wait, effort, .. } = *request;
        let (source, state) = self.states.source(source);
        let (mut parameters, mode, config) = (self.parameters.clone(), self.mode, self.tuning.functional);
        C::set_screen(&mut parameters, sharp.is_some());
        C::set_effort(&mut parameters, effort);
        let efforts = C::traits(&parameters).efforts;
        self.finest = efforts.finest_quantizer(effort);
        let coarse = efforts.of_equal_error(effort, self.tuning.frame_dropper.coarse);
        self.sharp = sharp.filter(|_| matches!(mode, MenuMode::Fit { .. }));
        let samples = C::luma_samples(&parameters, picture);
        let curves = Arc::clone(self.curves.get_or_insert_with(|| Arc::new(SizeCurves::new(samples, &self.tuning))));
        // Salsify's menus follow the published code and code every picture. Key frames are always coded, too.
        let may_drop = may_wait && source != StateId::EMPTY && matches!(mode, MenuMode::Fit { .. });
        if may_drop && self.drops(now, curves.get(false), budget, coarse) {
            return None;
        }
        let (arena, picture) = (self.arena.clone(), picture.clone());
        let (sharp, screen, finest) = (self.sharp, self.tuning.screen, self.finest);
        let job = EncodeJob::new(mode.first_work(), move |runner| {
            let analysis = C::analyse(&arena, &state, &picture, &parameters);
            let curve = curves.get(C::is_key_frame(&analysis));
            let estimate = curve.estimated_at().and_then(|quantizer| estimate_at::<C>(&analysis, quantizer));
            let curve = curve.of_picture(estimate);
            let budget = sharp.map_or(budget, |sharp| {
                let size = curve.size_at(screen.sharp) / config.aim;
                sharp.budget(screen, &curve, (screen.sharp, size), budget)
            });
            let menu = match mode {
                MenuMode::Fit { .. } => first_pass(analysis, &curve, estimate, budget, finest, config),
                MenuMode::Serial => {
                    Menu::of(serial_menu(&analysis, curve.into_owned(), budget.as_f64(), finest, runner), estimate)
                }
                MenuMode::Parallel => {
                    Menu::of(parallel_menu(&analysis, &curve, budget.as_f64(), finest, runner), estimate)
                }
            };
            menu.ready_for(budget)
        });
        Some(FrameStart { source, job })
    }

    fn choose(&self, menu: &Menu<C>, budget: ByteCount, anyway: bool) -> Option<usize> {
        let budget = self.budget_after(menu, budget);
        let nearly = || match self.mode {
            MenuMode::Fit { .. } if budget > ByteCount::ZERO => {
                let most_over = self.tuning.functional.most_over;
                let most = ByteCount::new((most_over * budget.as_f64()) as u64);
                menu.smallest().filter(|&index| menu.candidates[index].size() <= most)
            }
            _ => None,
        };
        menu.largest_within(budget).or_else(nearly).or_else(|| anyway.then(|| menu.smallest()).flatten())
    }

    fn refine(&mut self, mut menu: Menu<C>, budget: ByteCount) -> Result<EncodeJob<C>, Menu<C>> {
        let MenuMode::Fit { passes } = self.mode else { return Err(menu) };
        let budget = self.budget_after(&menu, budget);
        let good = menu.candidates.iter().any(|candidate| {
            let filling = candidate.size().as_f64() >= self.tuning.functional.enough_fill * budget.as_f64();
            candidate.size() <= budget && (filling || candidate.quantizer <= self.finest)
        });
        if good || menu.candidates.len() >= passes || budget == ByteCount::ZERO {
            return Err(menu);
        }
        match menu.fitting.take() {
            Some(fitting) if !C::is_filled(&fitting, budget) => {
                let Menu { candidates, estimate, .. } = menu;
                let pass = move || another_pass(fitting, candidates, budget);
                let job = move |_: &dyn MenuRunner<C>| Menu { estimate, ..pass() }.ready_for(budget);
                Ok(EncodeJob::new(EncodeWork::LaterPass, job))
            }
            _ => Err(menu),
        }
    }

    fn commit(&mut self, mut menu: Menu<C>, choice: Option<usize>) -> Option<(StateId, Candidate<C>)> {
        // With passes, only the first candidate has the size that belongs to its quantizer.
        let informative = if matches!(self.mode, MenuMode::Fit { .. }) { 1 } else { usize::MAX };
        // The job that shared the curves has ended.
        if let Some(curves) = self.curves.as_mut().map(Arc::make_mut) {
            if let (Some(estimate), Some(first)) = (menu.estimate, menu.candidates.first()) {
                curves.of(first.key_frame).learn_surplus(estimate, first.quantizer, first.size().as_f64());
            }
            for candidate in menu.candidates.iter().take(informative) {
                curves.of(candidate.key_frame).learn(candidate.quantizer, candidate.size().as_f64());
            }
        }
        let choice = choice?;
        self.dropper.on_sent();
        let chosen = menu.candidates.swap_remove(choice);
        let name = C::name(&chosen.state);
        self.states.insert(name, chosen.state.clone());
        Some((name, chosen))
    }

    fn forget(&mut self, state: StateId) {
        self.states.remove(state);
    }

    fn held_states(&self) -> usize {
        self.states.len()
    }
}
