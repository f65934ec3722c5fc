//! Salsify's encoder as published: two candidates of each picture, or one in the ablations of its paper.
//!
//! The published code codes each picture at two quantizers around the last sent one, and decides after both encodes.
//! The largest candidate within the budget is sent, else none. After [`MAX_SKIPS`] skipped pictures in a row the smaller
//! one is sent at any budget. [`FunctionalEncoder`](crate::FunctionalEncoder) instead learns the size of frames.
//!
//! The ablations replace the candidates by one version, as a conventional codec would code it ([`SalsifyVersions`]).
//! They keep Salsify's transport: states, window and pacing.

use std::time::Duration;

use lockstep_control::FailureReason;
use lockstep_transport::{Recovery, StateId};
use lockstep_units::{ByteCount, Timestamp};
use lockstep_vp8::MAX_QUANTIZER;

use crate::codec::{Candidate, CodecTraits, FunctionalCodec, Vp8};
use crate::encoder::{EncodeJob, EncodeWork, FrameEncoder, FrameRequest, FrameStart, Menu};
use crate::held_states::HeldStates;
use crate::rate_control::TARGET_INTERVAL;

/// Quantizer around which the first candidates are coded (Salsify's published code).
const FIRST_QUANTIZER: u8 = 64;
/// Distance of the better candidate's quantizer below the last sent one (Salsify's published code).
const BETTER_BY: u8 = 17;
/// Distance of the worse candidate's quantizer above the last sent one (Salsify's published code).
const WORSE_BY: u8 = 23;
/// Finest quantizer of a candidate (Salsify's published code).
const FINEST_QUANTIZER: u8 = 3;
/// Maximum number of pictures skipped in a row (Salsify, section 3.2; the published code has three).
pub const MAX_SKIPS: u32 = 4;

/// Versions of a picture that [`SalsifyEncoder`] codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SalsifyVersions {
    /// Two candidates, one after the other, for one core: Salsify-1c.
    Serial,
    /// Two candidates in parallel, for two cores: Salsify-2c.
    Parallel,
    /// Ablation "conventional codec" (section 5.2, experiment 4): one version, at the quantizer that should fit the
    /// budget of its frame. It is found by a binary search on a decimated picture.
    FrameTarget,
    /// The next step of that ablation: the target size of frames changes once per second.
    SecondTarget,
}

impl SalsifyVersions {
    /// Work until all versions of a picture are coded.
    #[must_use]
    pub fn first_work(self) -> EncodeWork {
        match self {
            Self::Serial => EncodeWork::SerialMenu,
            Self::Parallel => EncodeWork::ParallelMenu,
            Self::FrameTarget | Self::SecondTarget => EncodeWork::OneFrame,
        }
    }

    /// Whether the sender chooses among two candidates.
    fn are_two(self) -> bool {
        matches!(self, Self::Serial | Self::Parallel)
    }
}

/// Quantizers of a job.
#[derive(Debug, Clone, Copy)]
enum Quantizers {
    /// Those of the two candidates, finer first.
    Two([u8; 2]),
    /// The one that should yield this size.
    Fitting(ByteCount),
}

/// Salsify's encoder as published.
#[derive(Debug)]
pub struct SalsifyEncoder<C: FunctionalCodec = Vp8> {
    parameters: C::Parameters,
    versions: SalsifyVersions,
    frame_interval: Duration,
    states: HeldStates<C::State>,
    arena: C::Arena,
    /// Quantizer of the last sent frame.
    last_quantizer: u8,
    /// Number of pictures skipped in a row.
    skips: u32,
    /// Target size of frames in [`SalsifyVersions::SecondTarget`], and the time at which it was set.
    target: Option<(Timestamp, ByteCount)>,
}

impl<C: FunctionalCodec> SalsifyEncoder<C> {
    /// An encoder of pictures that arrive every `frame_interval`. It chooses the quantizer of `parameters` itself.
    #[must_use]
    pub fn new(parameters: C::Parameters, versions: SalsifyVersions, frame_interval: Duration) -> Self {
        Self {
            parameters,
            versions,
            frame_interval,
            states: HeldStates::new(),
            arena: C::Arena::default(),
            last_quantizer: FIRST_QUANTIZER,
            skips: 0,
            target: None,
        }
    }

    /// Whether the next picture is sent at any budget.
    fn must_send(&self) -> bool {
        self.skips >= MAX_SKIPS
    }

    /// Quantizers for the requested picture; none to skip it.
    fn quantizers(&mut self, request: &FrameRequest<'_, C>) -> Option<Quantizers> {
        match self.versions {
            SalsifyVersions::Serial | SalsifyVersions::Parallel => {
                let better = self.last_quantizer.saturating_sub(BETTER_BY).max(FINEST_QUANTIZER);
                let worse = self.last_quantizer.saturating_add(WORSE_BY).min(MAX_QUANTIZER);
                Some(Quantizers::Two([better, worse]))
            }
            // Without a budget there is no size to aim at.
            SalsifyVersions::FrameTarget => {
                let may_send = request.budget > ByteCount::ZERO || self.must_send();
                may_send.then_some(Quantizers::Fitting(request.budget))
            }
            SalsifyVersions::SecondTarget => {
                let (now, wanted) = (request.now, request.target.bytes_in(self.frame_interval));
                let (_, target) = match self.target {
                    Some((set_at, target)) if now.saturating_since(set_at) < TARGET_INTERVAL => (set_at, target),
                    _ => *self.target.insert((now, wanted)),
                };
                Some(Quantizers::Fitting(target))
            }
        }
    }
}

/// The finest quantizer at which the decimated picture predicts at most `size`; the coarsest one if none does.
fn fitting_quantizer<C: FunctionalCodec>(analysis: &C::Analysis, size: ByteCount) -> u8 {
    let (mut finest, mut coarsest) = (FINEST_QUANTIZER, MAX_QUANTIZER);
    while finest < coarsest {
        let middle = finest.midpoint(coarsest);
        match C::estimate_decimated_size(analysis, middle) {
            Some(estimate) if estimate <= size => coarsest = middle,
            _ => finest = middle + 1,
        }
    }
    coarsest
}

impl<C: FunctionalCodec> FrameEncoder<C> for SalsifyEncoder<C> {
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
        let Some(quantizers) = self.quantizers(request) else {
            self.skips += 1;
            return None;
        };
        let (source, state) = self.states.source(request.source);
        let (arena, picture, mut parameters) = (self.arena.clone(), request.picture.clone(), self.parameters.clone());
        C::set_effort(&mut parameters, request.effort);
        let budget = request.budget;
        let job = EncodeJob::new(self.versions.first_work(), move |runner| {
            let analysis = C::analyse(&arena, &state, &picture, &parameters);
            let candidates = match quantizers {
                Quantizers::Two(both) => runner.run(&analysis, &both),
                Quantizers::Fitting(size) => runner.run(&analysis, &[fitting_quantizer::<C>(&analysis, size)]),
            };
            Menu::new(candidates).ready_for(budget)
        });
        Some(FrameStart { source, job })
    }

    fn choose(&self, menu: &Menu<C>, budget: ByteCount, _anyway: bool) -> Option<usize> {
        // A conventional codec learns the size when the frame is coded, and its sender sends every frame.
        let is_sent_anyway = !self.versions.are_two() || self.must_send();
        menu.largest_within(budget).or_else(|| menu.smallest().filter(|_| is_sent_anyway))
    }

    fn commit(&mut self, mut menu: Menu<C>, choice: Option<usize>) -> Option<(StateId, Candidate<C>)> {
        let Some(choice) = choice else {
            self.skips += 1;
            return None;
        };
        self.skips = 0;
        let chosen = menu.candidates.swap_remove(choice);
        self.last_quantizer = chosen.quantizer;
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

#[cfg(test)]
mod tests {
    use lockstep_units::Bitrate;
    use lockstep_vp8::{Parameters, Picture};

    use super::*;
    use crate::encoder::SerialMenu;

    const INTERVAL: Duration = Duration::from_millis(40);

    /// A noisy picture, so that frames differ in size at different quantizers.
    fn picture() -> Picture {
        let samples = (0..64 * 48 * 3 / 2u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        Picture::from_i420(64, 48, samples).expect("the number of samples matches the size")
    }

    fn encoder(versions: SalsifyVersions) -> SalsifyEncoder {
        SalsifyEncoder::new(Parameters::default(), versions, INTERVAL)
    }

    /// Menu of `picture` for `budget`; none if the picture is skipped before it is coded.
    fn menu(encoder: &mut SalsifyEncoder, picture: &Picture, budget: u64) -> Option<Menu> {
        let request = FrameRequest {
            budget: ByteCount::new(budget),
            ..FrameRequest::at_rate(Timestamp::ZERO, picture, StateId::EMPTY, Bitrate::from_kbps(300))
        };
        Some(encoder.begin(&request)?.job.run(&SerialMenu))
    }

    /// Quantizer of the frame that is sent with `budget`, if any.
    fn sent(encoder: &mut SalsifyEncoder, picture: &Picture, budget: u64) -> Option<u8> {
        let menu = menu(encoder, picture, budget)?;
        let choice = encoder.choose(&menu, ByteCount::new(budget), false);
        encoder.commit(menu, choice).map(|(_, frame)| frame.quantizer)
    }

    #[test]
    fn candidates_surround_the_last_sent_quantizer() {
        let picture = picture();
        let mut encoder = encoder(SalsifyVersions::Parallel);
        for (budget, quantizers) in
            [(0, [47, 87]), (u64::MAX, [47, 87]), (u64::MAX, [30, 70]), (u64::MAX, [13, 53]), (0, [3, 36])]
        {
            let menu = menu(&mut encoder, &picture, budget).expect("two candidates of each picture");
            assert_eq!(menu.candidates.iter().map(|candidate| candidate.quantizer).collect::<Vec<_>>(), quantizers);
            let choice = encoder.choose(&menu, ByteCount::new(budget), false);
            assert_eq!(choice, (budget > 0).then_some(0), "the better one if it fits, else none");
            encoder.commit(menu, choice);
        }
    }

    #[test]
    fn worse_candidate_is_sent_if_only_it_fits() {
        let picture = picture();
        let mut encoder = encoder(SalsifyVersions::Serial);
        let sizes: Vec<u64> = menu(&mut encoder, &picture, 0)
            .expect("two candidates")
            .candidates
            .iter()
            .map(|candidate| candidate.size().get())
            .collect();
        assert!(sizes[0] > sizes[1], "{sizes:?}");
        assert_eq!(sent(&mut encoder, &picture, sizes[1]), Some(87));
        assert_eq!(encoder.last_quantizer, 87);
    }

    #[test]
    fn lower_candidate_is_sent_after_four_skips_in_a_row() {
        let picture = picture();
        let mut encoder = encoder(SalsifyVersions::Parallel);
        let quantizers: Vec<Option<u8>> = (0..10).map(|_| sent(&mut encoder, &picture, 0)).collect();
        let expected = [None, None, None, None, Some(87), None, None, None, None, Some(110)];
        assert_eq!(quantizers, expected);
    }

    #[test]
    fn conventional_codec_aims_at_the_budget_of_each_frame() {
        let picture = picture();
        let mut encoder = encoder(SalsifyVersions::FrameTarget);
        let fine = sent(&mut encoder, &picture, 50_000).expect("a frame is always sent");
        let coarse = sent(&mut encoder, &picture, 700).expect("a frame is always sent");
        assert!(fine < coarse, "{fine} {coarse}");
        let skipped: Vec<bool> = (0..5).map(|_| sent(&mut encoder, &picture, 0).is_none()).collect();
        assert_eq!(skipped, [true, true, true, true, false], "no target, until four pictures were skipped");
    }

    #[test]
    fn target_of_a_second_stays_for_a_second() {
        let picture = picture();
        let mut encoder = encoder(SalsifyVersions::SecondTarget);
        let targets: Vec<u64> = (0..30u32)
            .map(|frame| {
                let rate = Bitrate::from_kbps(300 + u64::from(frame));
                let request = FrameRequest::at_rate(Timestamp::ZERO + INTERVAL * frame, &picture, StateId::EMPTY, rate);
                assert!(encoder.begin(&request).is_some());
                encoder.target.expect("a target is set").1.get()
            })
            .collect();
        assert!(targets[..25].iter().all(|&target| target == 1_500), "300 kb/s in 40 ms: {targets:?}");
        assert!(targets[25..].iter().all(|&target| target == 1_625), "325 kb/s in 40 ms: {targets:?}");
    }
}
