//! Analysis of a picture before a quantizer is chosen: motion, frame kind, updates of the references, size estimates.
//!
//! ```text
//! picture, state -> Analysis -> encode(quantizer)    -> Encoded
//!                            -> menu(quantizers)     -> several Encoded
//!                            -> encode_to_fit(bytes) -> Encoded
//! ```

use std::sync::OnceLock;

use super::activity::Activity;
use super::decisions::step;
use super::inter_prediction::predict_luma;
use super::intra_estimate::{intra_estimate, intra_prediction};
use super::macroblock_motion::{INTRA_SATD, MacroblockMotion, NOT_FOUND};
use super::parameters::{Content, FrameKind, GoldenPolicy, MAX_QUANTIZER, Parameters};
use super::picture_motion::PictureSearch;
use super::size_model::{Coding, CoefficientHistogram, ResidualCount};
use super::source::Source;
use super::tokens::TokenCosts;
use super::tools::Tools;
use super::vector_coding::VectorCosts;
use crate::arena::Arena;
use crate::frame::{Frame, FrameLayout};
use crate::header::{BufferCopy, ReferenceUpdates};
use crate::macroblock::ReferenceFrame;
use crate::picture::Picture;
use crate::probabilities::Probabilities;
use crate::state::{References, State};

/// A picture analysed against a state: the part that candidates of all quantizers share.
///
/// It is immutable, so that candidates can be encoded from it in parallel.
#[derive(Debug, Clone)]
pub struct Analysis {
    pub(super) arena: Arena,
    pub(super) state: State,
    pub(super) source: Source,
    pub(super) layout: FrameLayout,
    pub(super) tools: Tools,
    content: Content,
    pub(super) key_frame: bool,
    /// Updates of the references by this frame.
    pub(super) updates: ReferenceUpdates,
    /// The distinct references, the last frame first; empty for a key frame.
    pub(super) references: Vec<(ReferenceFrame, Frame)>,
    /// Motion of each macroblock; empty for a key frame.
    pub(super) motion: Vec<MacroblockMotion>,
    /// Weights of macroblocks; default weights if the tools do not include them.
    pub(super) activity: Activity,
    /// Probabilities before the frame updates them.
    pub(super) probabilities: Probabilities,
    pub(super) token_costs: TokenCosts,
    /// Empty for a key frame.
    pub(super) vector_costs: VectorCosts,
    /// Data for [`Analysis::predict_size`], computed on its first call.
    histogram: OnceLock<CoefficientHistogram>,
}

/// The frame replaces only the last frame.
const KEEP: ReferenceUpdates = ReferenceUpdates {
    refresh_golden: false,
    refresh_altref: false,
    copy_to_golden: BufferCopy::None,
    copy_to_altref: BufferCopy::None,
    golden_sign_bias: false,
    altref_sign_bias: false,
    refresh_last: true,
};
/// A key frame replaces all references.
const REPLACE: ReferenceUpdates = ReferenceUpdates { refresh_golden: true, refresh_altref: true, ..KEEP };
/// Distance of the sampled macroblocks of a decimated picture, in both directions (Salsify's published encoder).
const DECIMATION: usize = 4;
/// The frame replaces an outdated golden frame, and the old golden frame replaces altref.
const REFRESH: ReferenceUpdates = ReferenceUpdates { refresh_golden: true, copy_to_altref: BufferCopy::Other, ..KEEP };
/// The scene of the last frame is no longer visible but may return.
const LAST_TO_GOLDEN: ReferenceUpdates = ReferenceUpdates { copy_to_golden: BufferCopy::Last, ..KEEP };
const LAST_TO_ALTREF: ReferenceUpdates = ReferenceUpdates { copy_to_altref: BufferCopy::Last, ..KEEP };
/// The scene of the golden frame may return, too.
const KEEP_BOTH_SCENES: ReferenceUpdates = ReferenceUpdates { copy_to_altref: BufferCopy::Other, ..LAST_TO_GOLDEN };

/// Golden is refreshed if fewer than one macroblock in this number has a clearly better match in it.
const GOLDEN_USERS: usize = 40;

impl Analysis {
    /// Analyses `picture` against `state`. The quantizer in `parameters` is ignored.
    #[must_use]
    pub fn new(state: &State, picture: &Picture, parameters: &Parameters) -> Self {
        Self::new_in(&Arena::default(), state, picture, parameters)
    }

    /// Analyses `picture` in the memory of `arena`, which its candidates use as well. Use it to code consecutive
    /// pictures.
    #[must_use]
    pub fn new_in(arena: &Arena, state: &State, picture: &Picture, parameters: &Parameters) -> Self {
        let source = Source::new(picture);
        let layout = FrameLayout::new(source.width, source.height);
        let tools = Tools::of(parameters.effort);
        let mut analysis = Self {
            arena: arena.clone(),
            state: state.clone(),
            layout,
            tools,
            content: parameters.content,
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
        if tools.activity {
            analysis.activity = Activity::of(&analysis.source.planes[0], layout.columns, layout.rows);
        }
        if parameters.frame_kind != FrameKind::Key {
            analysis.try_inter(parameters);
        }
        analysis.token_costs = TokenCosts::new(&analysis.probabilities.coefficients);
        analysis
    }

    /// Predicts the size of [`Analysis::encode`] in bytes from the residual of open-loop prediction. It is accurate to
    /// about a factor of two.
    ///
    /// The first call transforms the picture; further calls are nearly free.
    #[must_use]
    pub fn predict_size(&self, quantizer: u8) -> usize {
        let quantizer = quantizer.min(MAX_QUANTIZER);
        self.histogram.get_or_init(|| self.count_coefficients()).predict(quantizer, self.coding())
    }

    /// How much of a residual candidates code.
    fn coding(&self) -> Coding {
        match self.tools.trellis {
            _ if self.key_frame => Coding::Key,
            true => Coding::Trellis,
            false => Coding::Rounded,
        }
    }

    /// Whether candidates are key frames.
    #[must_use]
    pub fn key_frame(&self) -> bool {
        self.key_frame
    }

    /// Switches to an interframe if the state has references of the picture's size. With [`FrameKind::Auto`] a scene
    /// cut prevents it.
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
        self.motion = self.search().all(&self.arena);
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

    /// Motion search over the picture.
    pub(super) fn search(&self) -> PictureSearch<'_> {
        let Self { source, layout, tools, content, references, .. } = self;
        PictureSearch { source, layout, tools: *tools, content: *content, references, moved: None, first_row: 0 }
    }

    /// Chooses the updates of golden and altref from how much of the picture they predict.
    fn choose_updates(&self) -> ReferenceUpdates {
        for (index, (kind, _)) in self.references.iter().enumerate().skip(1) {
            let users = self.users(index);
            if 2 * users > self.motion.len() {
                // A scene returns. The last frame's scene may return as well, so it replaces the other reference.
                let golden = *kind == ReferenceFrame::Golden;
                return if golden { LAST_TO_ALTREF } else { LAST_TO_GOLDEN };
            }
            if *kind == ReferenceFrame::Golden && users * GOLDEN_USERS < self.motion.len() {
                return REFRESH;
            }
        }
        KEEP
    }

    /// Number of macroblocks that have a clearly better match in this reference than in the last frame.
    fn users(&self, index: usize) -> usize {
        let better = |motion: &&MacroblockMotion| {
            let (last, other) = (motion.references[0].satd, motion.references[index].satd);
            other + other / 16 + 32 < last
        };
        self.motion.iter().filter(better).count()
    }

    /// Estimated SATD of intra prediction for macroblock `at` (row by row) of an interframe. Returns [`NOT_FOUND`]
    /// where a reference leaves almost no error.
    pub(super) fn intra_error(&self, at: usize) -> u32 {
        let (motion, columns) = (&self.motion[at], self.layout.columns);
        if motion.best() <= INTRA_SATD {
            return NOT_FOUND;
        }
        let estimate = || intra_estimate(&self.source.planes[0], 16 * (at % columns), 16 * (at / columns));
        motion.intra.unwrap_or_else(estimate)
    }

    /// Estimates the size of [`Analysis::encode`] in bytes at this one quantizer.
    ///
    /// It is as accurate as [`Analysis::predict_size`], which covers all quantizers, and takes at most half of its
    /// time. `lab: 2026-11-notes-vp8`.
    #[must_use]
    pub fn estimate_size(&self, quantizer: u8) -> usize {
        self.count_residual(quantizer, self.sampled()).bytes(self.layout.columns * self.layout.rows)
    }

    /// Estimates the same size from one macroblock in sixteen, every fourth one of every fourth row.
    #[must_use]
    pub fn estimate_decimated_size(&self, quantizer: u8) -> usize {
        let (columns, rows) = (self.layout.columns, self.layout.rows);
        let sampled = columns.div_ceil(DECIMATION) * rows.div_ceil(DECIMATION);
        let row = |row| (0..columns).step_by(DECIMATION).map(move |column| row * columns + column);
        let count = self.count_residual(quantizer, (0..rows).step_by(DECIMATION).flat_map(row));
        count.bytes(sampled) * columns * rows / sampled
    }

    /// Counts the residual of the macroblocks at these positions.
    fn count_residual(&self, quantizer: u8, macroblocks: impl Iterator<Item = usize>) -> ResidualCount {
        let quantizer = quantizer.min(MAX_QUANTIZER);
        let (mut count, negligible) = (ResidualCount::new(quantizer, self.coding()), coarseness(quantizer));
        let mut prediction = [0u8; 256];
        for at in macroblocks {
            if let Some(motion) = self.motion.get(at).filter(|motion| motion.best() <= negligible) {
                count.add_empty(motion.has_moved());
                continue;
            }
            let (source, stride, moved) = self.predict_open_loop(at, &mut prediction);
            count.add(source, stride, &prediction, moved);
        }
        count
    }

    /// One macroblock in four, in both directions and in diagonals.
    fn sampled(&self) -> impl Iterator<Item = usize> {
        let (columns, rows) = (self.layout.columns, self.layout.rows);
        let row = move |row| (row / 2 % 2..columns).step_by(2).map(move |column| row * columns + column);
        (0..rows).step_by(2).flat_map(row)
    }

    /// Collects the residual of the best open-loop prediction of sampled macroblocks.
    fn count_coefficients(&self) -> CoefficientHistogram {
        let mut histogram = CoefficientHistogram::new(self.layout.columns * self.layout.rows);
        let mut prediction = [0u8; 256];
        for at in self.sampled() {
            let (source, stride, moved) = self.predict_open_loop(at, &mut prediction);
            histogram.add(source, stride, &prediction, moved);
        }
        histogram
    }

    /// Predicts the luma of macroblock `at` from source pictures and references only (open loop). Returns the source
    /// luma, its stride, and whether the macroblock has moved.
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
    /// Returns the memory to the arena.
    fn drop(&mut self) {
        self.arena.motion().give_back(std::mem::take(&mut self.motion));
    }
}

/// SATD that coding may leave in a macroblock, in quantizer steps: half a step per subblock. A picture that is coded as
/// coarsely again leaves it again.
///
/// A lower value takes coarse frames for scene cuts, a higher one misses cuts. `lab: 2026-11-notes-vp8`.
const RESIDUAL_STEPS: u32 = 7;

/// SATD that frames of this quantizer leave in a macroblock. A residual below it is hardly coded.
fn coarseness(quantizer: u8) -> u32 {
    RESIDUAL_STEPS * u32::from(step(quantizer))
}

/// Detects a scene cut: intra prediction must be better than every reference for most macroblocks, and in total.
///
/// Macroblocks with an error of at most `left` are ignored, because coarsely coded references leave that much.
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
