//! What is found out about a picture before any quantizer is chosen.

use std::sync::OnceLock;

use super::activity::Activity;
use super::decisions::step;
use super::inter_prediction::predict_luma;
use super::intra_estimate::{intra_estimate, intra_prediction};
use super::macroblock_motion::{HARDLY_DIFFERENT, MacroblockMotion, NOT_FOUND};
use super::parameters::{FrameKind, GoldenPolicy, MAXIMUM_QUANTIZER, Parameters, Preset};
use super::picture_motion::PictureSearch;
use super::size_model::{CoefficientHistogram, ResidualCount};
use super::source::Source;
use super::tokens::TokenCosts;
use super::vector_coding::VectorCosts;
use crate::arena::Arena;
use crate::frame::{Frame, FrameLayout};
use crate::header::{BufferCopy, ReferenceUpdates};
use crate::macroblock::ReferenceFrame;
use crate::picture::Picture;
use crate::probabilities::Probabilities;
use crate::state::{References, State};

/// A picture analysed against a state: all that candidates of different quantizers have in common.
///
/// It is immutable, so candidates may be encoded from it in parallel.
#[derive(Debug, Clone)]
pub struct Analysis {
    pub(super) arena: Arena,
    pub(super) state: State,
    pub(super) source: Source,
    pub(super) layout: FrameLayout,
    pub(super) preset: Preset,
    pub(super) key_frame: bool,
    /// What the frame makes of the references.
    pub(super) updates: ReferenceUpdates,
    /// The different references, the last frame first; empty for a key frame.
    pub(super) references: Vec<(ReferenceFrame, Frame)>,
    /// For each macroblock; empty for a key frame.
    pub(super) motion: Vec<MacroblockMotion>,
    /// What errors are weighed by; only for quality.
    pub(super) activity: Activity,
    /// The probabilities that the frame begins with.
    pub(super) probabilities: Probabilities,
    pub(super) token_costs: TokenCosts,
    /// Without any costs for a key frame.
    pub(super) vector_costs: VectorCosts,
    /// What [`Analysis::predict_size`] needs, once it has been asked.
    histogram: OnceLock<CoefficientHistogram>,
}

/// An inter frame leaves golden and altref as they are.
const KEEP: ReferenceUpdates = ReferenceUpdates {
    refresh_golden: false,
    refresh_altref: false,
    copy_to_golden: BufferCopy::None,
    copy_to_altref: BufferCopy::None,
    golden_sign_bias: false,
    altref_sign_bias: false,
    refresh_last: true,
};
/// A key frame takes the place of all.
const REPLACE: ReferenceUpdates = ReferenceUpdates { refresh_golden: true, refresh_altref: true, ..KEEP };
/// Golden has worn out: the frame takes its place, and it that of altref.
const REFRESH: ReferenceUpdates = ReferenceUpdates { refresh_golden: true, copy_to_altref: BufferCopy::Other, ..KEEP };
/// What the last frame shows is not seen any more, but may return.
const LAST_TO_GOLDEN: ReferenceUpdates = ReferenceUpdates { copy_to_golden: BufferCopy::Last, ..KEEP };
const LAST_TO_ALTREF: ReferenceUpdates = ReferenceUpdates { copy_to_altref: BufferCopy::Last, ..KEEP };
/// Nor is what golden shows.
const KEEP_BOTH_SCENES: ReferenceUpdates = ReferenceUpdates { copy_to_altref: BufferCopy::Other, ..LAST_TO_GOLDEN };

/// Golden is renewed where fewer than one macroblock in this many is clearly better found in it.
const GOLDEN_USERS: usize = 40;

impl Analysis {
    /// Analyses `picture` against `state`. The quantizer in `parameters` plays no part.
    #[must_use]
    pub fn new(state: &State, picture: &Picture, parameters: &Parameters) -> Self {
        Self::new_in(&Arena::default(), state, picture, parameters)
    }

    /// The same, in the memory of `arena`, where its candidates are coded as well: for whoever codes one picture after
    /// another.
    #[must_use]
    pub fn new_in(arena: &Arena, state: &State, picture: &Picture, parameters: &Parameters) -> Self {
        let source = Source::new(picture);
        let layout = FrameLayout::new(source.width, source.height);
        let mut analysis = Self {
            arena: arena.clone(),
            state: state.clone(),
            layout,
            preset: parameters.preset,
            key_frame: true,
            updates: REPLACE,
            references: Vec::new(),
            motion: Vec::new(),
            activity: Activity::default(),
            probabilities: Probabilities::default(),
            token_costs: TokenCosts::default(),
            vector_costs: VectorCosts::default(),
            histogram: OnceLock::new(),
            source,
        };
        if parameters.preset == Preset::Quality {
            analysis.activity = Activity::of(&analysis.source.planes[0], layout.columns, layout.rows);
        }
        if parameters.frame_kind != FrameKind::Key {
            analysis.try_inter(parameters);
        }
        analysis.token_costs = TokenCosts::new(&analysis.probabilities.coefficients);
        analysis
    }

    /// About how many bytes [`Analysis::encode`] would need, from the coefficients that prediction leaves: right to
    /// within a factor of two or so. The first call transforms the picture once, all others cost next to nothing.
    #[must_use]
    pub fn predict_size(&self, quantizer: u8) -> usize {
        let quantizer = quantizer.min(MAXIMUM_QUANTIZER);
        self.histogram.get_or_init(|| self.count_coefficients()).predict(quantizer, self.key_frame)
    }

    /// Whether the frame will be a key frame.
    #[must_use]
    pub fn key_frame(&self) -> bool {
        self.key_frame
    }

    /// Turns to an inter frame, where the state has references of the picture's size and the scene, if that matters, is still
    /// the same.
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
        let room = self.arena.motion().take(self.layout.columns * self.layout.rows);
        self.motion = self.search().all(room);
        let new_scene = scene_has_changed(&self.motion, coarseness(self.state.contents().quantizer));
        if new_scene && parameters.frame_kind == FrameKind::Auto {
            self.references.clear();
            self.motion.clear();
            return;
        }
        self.key_frame = false;
        self.probabilities = self.state.contents().probabilities.clone();
        self.vector_costs = VectorCosts::new(&self.probabilities.motion_vectors);
        self.updates = match parameters.golden {
            GoldenPolicy::Refresh => REFRESH,
            GoldenPolicy::Keep => KEEP,
            GoldenPolicy::Auto if new_scene => KEEP_BOTH_SCENES,
            GoldenPolicy::Auto => self.choose_updates(),
        };
    }

    /// The search for what moved.
    pub(super) fn search(&self) -> PictureSearch<'_> {
        let Self { source, layout, preset, references, .. } = self;
        PictureSearch { source, layout, preset: *preset, references, moved: None }
    }

    /// What is best made of golden and altref, where something of the picture was seen before.
    fn choose_updates(&self) -> ReferenceUpdates {
        for (index, (kind, _)) in self.references.iter().enumerate().skip(1) {
            let users = self.users(index);
            if 2 * users > self.motion.len() {
                // A scene returns: what the last frame shows may return as well, and takes the place of the other.
                let golden = *kind == ReferenceFrame::Golden;
                return if golden { LAST_TO_ALTREF } else { LAST_TO_GOLDEN };
            }
            if *kind == ReferenceFrame::Golden && users * GOLDEN_USERS < self.motion.len() {
                return REFRESH;
            }
        }
        KEEP
    }

    /// How many macroblocks are clearly better found in this reference than in the last frame.
    fn users(&self, index: usize) -> usize {
        let better = |motion: &&MacroblockMotion| {
            let (last, other) = (motion.references[0].satd, motion.references[index].satd);
            other + other / 16 + 32 < last
        };
        self.motion.iter().filter(better).count()
    }

    /// An estimate of the transformed error of intra prediction for macroblock `at`, row by row, of an inter frame; more than
    /// any error where a reference leaves next to nothing.
    pub(super) fn intra_error(&self, at: usize) -> u32 {
        let (motion, columns) = (&self.motion[at], self.layout.columns);
        if motion.best() <= HARDLY_DIFFERENT {
            return NOT_FOUND;
        }
        let estimate = || intra_estimate(&self.source.planes[0], 16 * (at % columns), 16 * (at / columns));
        motion.intra.unwrap_or_else(estimate)
    }

    /// About how many bytes [`Analysis::encode`] would need at this one quantizer: as good as [`Analysis::predict_size`], which
    /// then knows all quantizers, in half of its time or less (4 to 38 % of [`Analysis::encode`]'s; `docs/codec.md`, "In calls").
    #[must_use]
    pub fn estimate_size(&self, quantizer: u8) -> usize {
        let quantizer = quantizer.min(MAXIMUM_QUANTIZER);
        let (mut count, negligible) = (ResidualCount::new(quantizer), coarseness(quantizer));
        let mut prediction = [0u8; 256];
        for at in 0..self.layout.columns * self.layout.rows {
            if let Some(motion) = self.motion.get(at).filter(|motion| motion.best() <= negligible) {
                count.add_empty(motion.has_moved());
                continue;
            }
            let (source, stride, moved) = self.predict_open_loop(at, &mut prediction);
            count.add(source, stride, &prediction, moved);
        }
        count.bytes(self.key_frame)
    }

    /// What each macroblock's best open-loop prediction leaves.
    fn count_coefficients(&self) -> CoefficientHistogram {
        let mut histogram = CoefficientHistogram::default();
        let mut prediction = [0u8; 256];
        for at in 0..self.layout.columns * self.layout.rows {
            let (source, stride, moved) = self.predict_open_loop(at, &mut prediction);
            histogram.add(source, stride, &prediction, moved);
        }
        histogram
    }

    /// Predicts the luma of macroblock `at` as well as is known before anything is coded; gives that luma, its stride, and
    /// whether it has moved.
    fn predict_open_loop(&self, at: usize, prediction: &mut [u8; 256]) -> (&[u8], usize, bool) {
        let source = &self.source.planes[0];
        let (x, y) = (16 * (at % self.layout.columns), 16 * (at / self.layout.columns));
        let motion = self.motion.get(at).filter(|motion| motion.best() <= self.intra_error(at));
        match motion {
            Some(motion) => {
                let (index, found) = motion.best_reference();
                predict_luma::<16, 16>(&self.references[index].1, x, y, found.vector, prediction, 16);
            }
            None => intra_prediction(source, x, y, prediction),
        }
        (source.at(x, y), source.stride, motion.is_some_and(MacroblockMotion::has_moved))
    }
}

impl Drop for Analysis {
    /// Leaves memory to the next.
    fn drop(&mut self) {
        self.arena.motion().give_back(std::mem::take(&mut self.motion));
    }
}

/// The transformed error of a macroblock that coding left, because to mend it gains nothing, in steps of its frame's quantizer:
/// half a step in each subblock. A picture coded as coarsely again leaves it again, whatever it is predicted from.
///
/// Without it, a scene of 1280x720 at 20 to 60 kb/s whose texture had been left out was taken for a new one, picture after
/// picture: key frames of 4,400 bytes where inter frames took 230. There macroblocks were 6 steps of the coarsest quantizer
/// off; where one of eight clips follows another they are 13 to 25.
const LEFT_STEPS: u32 = 7;

/// The transformed error that frames of this quantizer leave in a macroblock: where there is no more, next to nothing is coded.
fn coarseness(quantizer: u8) -> u32 {
    LEFT_STEPS * u32::from(step(quantizer))
}

/// Whether most macroblocks are better predicted from their neighbours than from any reference, and all together too. Those
/// that differ by no more than what is `left` in references that were coded coarsely say nothing of that.
fn scene_has_changed(motion: &[MacroblockMotion], left: u32) -> bool {
    let poor = || {
        let known = motion.iter().filter_map(|motion| Some((motion.intra?, motion.best())));
        known.filter(|&(_, best)| best > left)
    };
    let better_intra = poor().filter(|(intra, best)| intra < best).count();
    let (intra, inter) =
        poor().fold((0, 0), |(intra, inter), poor| (intra + u64::from(poor.0), inter + u64::from(poor.1)));
    2 * better_intra > motion.len() && intra < inter
}
