//! Random pictures of a modelled call ([`ModelledClip`]) and the frames that coding them gives ([`ClipCurves`]).
//!
//! A picture is known only by its difficulty, in deviations of ln(size). At a quantizer, ln(size) of a frame is the sum
//! of:
//!
//! - the clip's curve at that quantizer,
//! - the difficulty times the clip's deviation at that quantizer,
//! - the effects of the reference's quantizer and age.
//!
//! Difficulty has a slow part, which lasts for seconds, and a fast part. Both are first-order autoregressive processes;
//! the fast part has the clip's tails. A reference affects SSIM, too. It never makes a frame larger than one without
//! any prediction. The first frame of a scene is such a frame: it has about the size of a key frame, and often is one.
//!
//! All random numbers are drawn with the picture. Coding is a pure function, so an encoder may code a picture
//! repeatedly and in any order.

mod best_frames;

use std::sync::Arc;
use std::time::Duration;

use rand::SeedableRng;
use rand_pcg::Pcg64;

use lockstep_call::FINEST_USEFUL_QUANTIZER;
use lockstep_units::ByteCount;
use lockstep_units::random::{happens, normal};
use lockstep_vp8::MAX_QUANTIZER;

use crate::codec_model::{
    ClipModel, NORMAL_POINTS, QUANTIZERS, REFERENCE_POINTS, at_every_quantizer, between, effects_at_every_quantizer,
};

pub use best_frames::BestFrame;

/// Smallest frame, bytes: headers and one bit per macroblock.
const MIN_FRAME_BYTES: f64 = 40.0;
/// Limit on difficulty, deviations. No measured clip exceeds it.
const MAX_DIFFICULTY: f64 = 6.0;
/// Limit on the SSIM excess of a picture, dB.
const MAX_SSIM_EXCESS_DB: f64 = 6.0;
/// Bounds of the reference's age, frame intervals of the clip. Beyond the upper bound nothing can be predicted.
const GAPS: (f64, f64) = (0.25, 64.0);

/// Properties of a coded frame as a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelledReference {
    /// Number of its picture.
    picture: u64,
    /// Effective quantizer of recent frames, in 256ths. It determines the reference's effect on size.
    recent: u16,
    /// Effective quantizer of the best static parts, in 256ths. Such parts may be old.
    kept: u16,
    /// Effective quantizer of the worst static parts, in 256ths.
    spoilt: u16,
}

/// A picture without pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ModelledPicture {
    number: u64,
    difficulty: f64,
    /// SSIM minus that of its quantizer, dB.
    ssim_excess: f64,
    /// Natural logarithm of the frame interval, in frame intervals of the clip.
    log_interval: f64,
    /// ln(size) as a key frame, minus the mean.
    key_excess: f64,
    /// Fills of the second pass and of later passes.
    fills: [f64; 2],
    scene_cut: bool,
    /// Whether a scene cut becomes a key frame.
    cut_is_key: bool,
    reference: Option<ModelledReference>,
}

impl ModelledPicture {
    /// Index of the picture in the source.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Difficulty of the picture in standard deviations of ln(size).
    #[must_use]
    pub fn difficulty(&self) -> f64 {
        self.difficulty
    }

    /// Whether the picture becomes a key frame with any reference, because it begins a scene.
    #[must_use]
    pub fn needs_key_frame(&self) -> bool {
        self.scene_cut && self.cut_is_key
    }

    /// The picture with another reference. Without one, its reference is the previous picture, coded at the same
    /// quantizer.
    #[must_use]
    pub fn coded_from(self, reference: Option<ModelledReference>) -> Self {
        Self { reference, ..self }
    }
}

/// Properties of a coded frame.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ModelledFrame {
    /// Size of the frame.
    pub size: ByteCount,
    /// Quantizer index, 0-127.
    pub quantizer: u8,
    /// Luma SSIM of the picture, 0-1.
    pub ssim: f64,
    /// The frame as a reference of the next one.
    pub reference: ModelledReference,
}

/// Curves of a clip at one picture size. All calls with that clip and size share them.
#[derive(Debug)]
pub struct ClipCurves {
    clip: ClipModel,
    picture_size: (usize, usize),
    /// Natural logarithm of an interframe's size in bytes, by quantizer.
    inter: [f64; QUANTIZERS],
    /// Standard deviation of that logarithm.
    deviation: [f64; QUANTIZERS],
    /// Natural logarithm of a key frame's size in bytes.
    key: [f64; QUANTIZERS],
    /// Luma SSIM, dB.
    ssim_db: [f64; QUANTIZERS],
    /// Effect of the reference on ln(size), by the frame's quantizer.
    size_effects: Vec<[f64; REFERENCE_POINTS.len()]>,
    /// Effect of the reference on SSIM in dB, by the frame's quantizer.
    ssim_effects: Vec<[f64; REFERENCE_POINTS.len()]>,
    /// Shares of a difference in quantizers that a frame passes on, for size: after a finer and after a coarser
    /// reference.
    size_persistence: [[f64; QUANTIZERS]; 2],
    /// The same shares for SSIM.
    ssim_persistence: [[f64; QUANTIZERS]; 2],
    /// Growth of ln(size) per logarithm of the reference's age.
    gap_slopes: [f64; QUANTIZERS],
}

impl ClipCurves {
    /// Curves of `clip` for pictures of `width` by `height` luma samples.
    #[must_use]
    pub fn new(clip: &ClipModel, width: usize, height: usize) -> Self {
        let bytes = (width * height) as f64 / 8.0;
        Self {
            inter: clip.curve(|point| libm::log(point.inter_bits * bytes)),
            deviation: clip.curve(|point| point.inter_deviation),
            key: clip.curve(|point| libm::log(point.key_bits * bytes)),
            ssim_db: clip.curve(|point| point.ssim_db),
            size_effects: effects_at_every_quantizer(&clip.reference.size),
            ssim_effects: effects_at_every_quantizer(&clip.reference.ssim_db),
            size_persistence: clip.reference.size_persistence.map(|shares| at_every_quantizer(&shares)),
            ssim_persistence: clip.reference.ssim_persistence.map(|shares| at_every_quantizer(&shares)),
            gap_slopes: at_every_quantizer(&clip.gap_slopes),
            clip: clip.clone(),
            picture_size: (width, height),
        }
    }

    /// Width and height of the pictures, luma samples.
    #[must_use]
    pub fn picture_size(&self) -> (usize, usize) {
        self.picture_size
    }

    /// ln(size) of `picture` at a quantizer. `gap` is the logarithm of the reference's age.
    fn logarithm(&self, picture: &ModelledPicture, quantizer: usize, key_frame: bool, gap: f64) -> f64 {
        if key_frame || picture.scene_cut {
            let cut = if key_frame { 0.0 } else { self.clip.cut_size };
            return self.key[quantizer] + picture.key_excess + cut;
        }
        let history = picture.reference.map_or(0.0, |reference| {
            let recent = difference(reference.recent, quantizer);
            let effect = between(&REFERENCE_POINTS, &self.size_effects[quantizer], recent);
            if recent <= 0.0 {
                return effect;
            }
            // Static parts that are finer than the frame need no further bits.
            effect * coarse_share(self.clip.reference.refined_share, recent, difference(reference.kept, quantizer))
        });
        let slope = self.gap_slopes[quantizer];
        let usual =
            self.inter[quantizer] + self.deviation[quantizer] * picture.difficulty + slope * picture.log_interval;
        // A reference cannot be worse than no reference.
        let most = usual.max(self.key[quantizer] + picture.key_excess + self.clip.cut_size.max(0.0));
        (usual + history + slope * gap).min(most)
    }

    /// Logarithm of the age of the reference of `picture`, in pictures.
    fn gap(&self, picture: &ModelledPicture, key_frame: bool) -> f64 {
        match picture.reference {
            // The curves hold for a reference of age one.
            Some(reference) if !key_frame && !picture.scene_cut && picture.number > reference.picture + 1 => {
                let gap = (picture.number - reference.picture) as f64;
                libm::log(gap.clamp(GAPS.0, GAPS.1))
            }
            _ => 0.0,
        }
    }

    /// Frame of `size` bytes at `quantizer`. `share` interpolates towards the next finer quantizer.
    fn frame(
        &self,
        picture: &ModelledPicture,
        quantizer: usize,
        share: f64,
        size: f64,
        key_frame: bool,
    ) -> ModelledFrame {
        let reference = picture.reference.filter(|_| !key_frame && !picture.scene_cut);
        let recent = reference.map_or(0.0, |reference| difference(reference.recent, quantizer));
        let kept = reference.map_or(0.0, |reference| difference(reference.kept, quantizer).min(0.0));
        let spoilt = reference.map_or(0.0, |reference| difference(reference.spoilt, quantizer).max(0.0));
        let effect = |difference: f64| between(&REFERENCE_POINTS, &self.ssim_effects[quantizer], difference);
        let history = effect(kept) + effect(spoilt);
        let finer = self.ssim_db[quantizer.saturating_sub(1)];
        let usual = self.ssim_db[quantizer] + share * (finer - self.ssim_db[quantizer]);
        let decibels = (usual + history + picture.ssim_excess).max(0.1);
        let own = quantizer as f64 - share;
        let coarseness = |difference: f64, persistence: &[[f64; QUANTIZERS]; 2]| {
            let left = persistence[usize::from(difference > 0.0)][quantizer] * difference;
            (256.0 * (own + left).max(0.0)) as u16
        };
        ModelledFrame {
            size: ByteCount::new(size.max(MIN_FRAME_BYTES) as u64),
            quantizer: quantizer as u8,
            ssim: 1.0 - libm::exp10(-0.1 * decibels),
            reference: ModelledReference {
                picture: picture.number,
                recent: coarseness(recent, &self.size_persistence),
                kept: coarseness(kept, &self.ssim_persistence),
                spoilt: coarseness(spoilt, &self.ssim_persistence),
            },
        }
    }

    /// Codes `picture` at `quantizer`, which is limited to 127.
    #[must_use]
    pub fn encode(&self, picture: &ModelledPicture, quantizer: u8, key_frame: bool) -> ModelledFrame {
        let index = usize::from(quantizer.min(MAX_QUANTIZER));
        let gap = self.gap(picture, key_frame);
        let size = libm::exp(self.logarithm(picture, index, key_frame, gap));
        self.frame(picture, index, 0.0, size, key_frame)
    }

    /// Codes `picture` to fit `budget` after `passes` earlier passes (at least one). The fill is that of real frames
    /// ([`lockstep_vp8::Fitting`]), which may exceed the budget. The frame is larger if even the coarsest quantizer
    /// exceeds it.
    #[must_use]
    pub fn encode_to_fit(
        &self,
        picture: &ModelledPicture,
        budget: ByteCount,
        key_frame: bool,
        passes: usize,
    ) -> ModelledFrame {
        let size = budget.as_f64() * picture.fills[usize::from(passes > 1)];
        let wanted = libm::log(size.max(1.0));
        let gap = self.gap(picture, key_frame);
        let logarithm = |quantizer: usize| self.logarithm(picture, quantizer, key_frame, gap);
        let finest = usize::from(FINEST_USEFUL_QUANTIZER);
        let (mut fine, mut coarse) = (finest, QUANTIZERS - 1);
        let (mut large, mut small) = (logarithm(fine), logarithm(coarse));
        if large <= wanted {
            return self.encode(picture, fine as u8, key_frame);
        }
        if small > wanted {
            return self.encode(picture, coarse as u8, key_frame);
        }
        // Invariant: the finer quantizer is too large, the coarser one is not.
        while fine + 1 < coarse {
            let middle = (fine + coarse) / 2;
            let between = logarithm(middle);
            if between > wanted { (fine, large) = (middle, between) } else { (coarse, small) = (middle, between) }
        }
        // A real encoder reaches sizes between two quantizers by steering.
        let share = (wanted - small) / (large - small).max(1e-9);
        self.frame(picture, coarse, share, size, key_frame)
    }
}

/// Share of a coarser reference's effect on size that applies. `recent` and `kept` are the reference's and the static
/// parts' quantizers minus the frame's. All of the effect applies unless static parts are finer than the frame.
/// `refined` of it applies if they are finer by at least half of `recent`.
pub(crate) fn coarse_share(refined: f64, recent: f64, kept: f64) -> f64 {
    refined + (1.0 - refined) * (1.0 + 2.0 * kept / recent.max(1e-9)).clamp(0.0, 1.0)
}

/// How much coarser a `reference` quantizer in 256ths is than `quantizer`.
fn difference(reference: u16, quantizer: usize) -> f64 {
    f64::from(reference) / 256.0 - quantizer as f64
}

/// First-order autoregressive process with mean zero and variance one.
#[derive(Debug, Clone, Copy)]
struct Autoregression {
    /// Correlation of consecutive values.
    persistence: f64,
    value: f64,
}

impl Autoregression {
    fn new(persistence: f64, generator: &mut Pcg64) -> Self {
        Self { persistence, value: normal(generator) }
    }

    fn next(&mut self, draw: f64) -> f64 {
        let innovation = libm::sqrt(1.0 - self.persistence * self.persistence);
        self.value = self.persistence * self.value + innovation * draw;
        self.value
    }
}

/// Source of a modelled call: an endless series of pictures of one clip.
#[derive(Debug, Clone)]
pub struct ModelledClip {
    curves: Arc<ClipCurves>,
    generator: Pcg64,
    /// Number of pictures so far.
    pictures: u64,
    slow: Autoregression,
    fast: Autoregression,
    ssim: Autoregression,
    /// Standard deviation of the slow part of the difficulty.
    slow_deviation: f64,
    /// Probability that a picture begins a scene.
    scene_cut: f64,
    /// Natural logarithm of the frame interval, in frame intervals of the clip.
    log_interval: f64,
}

impl ModelledClip {
    /// Pictures at a frame interval of `frame_interval`. Equal arguments give equal pictures.
    #[must_use]
    pub fn new(curves: Arc<ClipCurves>, frame_interval: Duration, seed: u64) -> Self {
        let clip = &curves.clip;
        let interval = frame_interval.as_secs_f64();
        let intervals = interval / clip.frame_interval;
        let mut generator = Pcg64::seed_from_u64(seed);
        let persistence = libm::exp(-interval / clip.correlation_seconds);
        let correlation = libm::copysign(libm::pow(clip.frame_correlation.abs(), intervals), clip.frame_correlation);
        Self {
            slow: Autoregression::new(persistence, &mut generator),
            fast: Autoregression::new(correlation.clamp(-0.99, 0.99), &mut generator),
            ssim: Autoregression::new(persistence, &mut generator),
            slow_deviation: libm::sqrt(clip.slow_share),
            scene_cut: clip.scene_cuts * interval,
            log_interval: libm::log(intervals.clamp(GAPS.0, GAPS.1)),
            pictures: 0,
            generator,
            curves,
        }
    }

    /// Curves that code the pictures.
    #[must_use]
    pub fn curves(&self) -> &Arc<ClipCurves> {
        &self.curves
    }

    /// The next picture.
    pub fn next_picture(&mut self) -> ModelledPicture {
        let Self { generator, slow, fast, ssim, .. } = self;
        let clip = &self.curves.clip;
        let number = self.pictures;
        self.pictures += 1;
        let scene_cut = number > 0 && happens(generator, self.scene_cut);
        if scene_cut {
            *slow = Autoregression::new(slow.persistence, generator);
        }
        let difficult = slow.next(normal(generator));
        let own = between(&NORMAL_POINTS, &clip.frame_quantiles, fast.next(normal(generator)));
        let difficulty = (self.slow_deviation * difficult + own).clamp(-MAX_DIFFICULTY, MAX_DIFFICULTY);
        let quality = normal(generator);
        let ssim_excess = clip.ssim_deviation * ssim.next(quality) - clip.ssim_slope * difficulty;
        let fills = [normal(generator), quality];
        ModelledPicture {
            number,
            difficulty,
            ssim_excess: ssim_excess.clamp(-MAX_SSIM_EXCESS_DB, MAX_SSIM_EXCESS_DB),
            log_interval: self.log_interval,
            key_excess: clip.key_deviation * difficult,
            fills: std::array::from_fn(|pass| between(&NORMAL_POINTS, &clip.fills[pass], fills[pass])),
            scene_cut,
            cut_is_key: scene_cut && happens(generator, clip.cut_keys),
            reference: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec_model::CodecModel;

    fn clip(seed: u64) -> ModelledClip {
        let model = CodecModel::built_in().unwrap();
        let curves = ClipCurves::new(&model.clips[0], 640, 360);
        ModelledClip::new(Arc::new(curves), Duration::from_millis(33), seed)
    }

    #[test]
    fn coding_a_picture_again_gives_the_same_frame() {
        let mut clip = clip(5);
        let curves = Arc::clone(clip.curves());
        let pictures: Vec<ModelledPicture> = (0..20).map(|_| clip.next_picture()).collect();
        let code = |picture: &ModelledPicture| {
            let fitted = curves.encode_to_fit(picture, ByteCount::new(3_000), false, 1);
            (curves.encode(picture, 40, false), curves.encode(picture, 20, true), fitted)
        };
        let first: Vec<_> = pictures.iter().map(code).collect();
        let again: Vec<_> = pictures.iter().rev().map(code).collect();
        assert!(first.iter().eq(again.iter().rev()));
        assert!(pictures.windows(2).all(|pair| pair[0].difficulty() != pair[1].difficulty()));
    }

    #[test]
    fn frames_fill_budgets_like_real_ones_and_quality_rises() {
        let mut clip = clip(1);
        let curves = Arc::clone(clip.curves());
        let mut fills = Vec::new();
        for _ in 0..400 {
            let picture = clip.next_picture();
            let mut last = 0.0;
            for budget in [2_000, 4_000, 8_000, 16_000].map(ByteCount::new) {
                let frame = curves.encode_to_fit(&picture, budget, false, 1);
                assert!(frame.ssim >= last, "{frame:?}");
                last = frame.ssim;
                if (5..127).contains(&frame.quantizer) {
                    fills.push(frame.size.as_f64() / budget.as_f64());
                }
            }
        }
        fills.sort_unstable_by(f64::total_cmp);
        let expected = curves.clip.fills[0][NORMAL_POINTS.len() / 2];
        let median = fills[fills.len() / 2];
        assert!((0.8..=1.1).contains(&median) && (median / expected - 1.0).abs() < 0.1, "{median} of {expected}");
    }

    #[test]
    fn too_small_a_budget_gives_the_coarsest_quantizer() {
        let mut clip = clip(1);
        let picture = clip.next_picture();
        let frame = clip.curves().encode_to_fit(&picture, ByteCount::new(1), false, 1);
        assert_eq!(frame.quantizer, MAX_QUANTIZER);
        assert!(frame.size > ByteCount::new(1));
    }

    #[test]
    fn a_key_frame_is_larger_than_an_interframe() {
        let mut clip = clip(3);
        let picture = clip.next_picture();
        assert!(clip.curves().encode(&picture, 64, true).size > clip.curves().encode(&picture, 64, false).size);
    }

    #[test]
    fn sizes_vary_like_the_clip_and_equal_seeds_give_equal_sizes() {
        let sizes = |seed| {
            let mut clip = clip(seed);
            let curves = Arc::clone(clip.curves());
            let size = |picture| libm::log(curves.encode(&picture, 40, false).size.as_f64());
            (0..30_000).map(|_| size(clip.next_picture())).collect::<Vec<f64>>()
        };
        let first = sizes(9);
        assert_eq!(first, sizes(9));
        assert_ne!(first, sizes(10));
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let deviation = |values: &[f64]| {
            let middle = mean(values);
            libm::sqrt(mean(&values.iter().map(|value| (value - middle).powi(2)).collect::<Vec<_>>()))
        };
        let clip = &CodecModel::built_in().unwrap().clips[0];
        let expected = clip.curve(|point| point.inter_deviation)[40];
        assert!((deviation(&first) / expected - 1.0).abs() < 0.25, "{} of {expected}", deviation(&first));
        let seconds: Vec<f64> = first.chunks(30).map(mean).collect();
        let least = expected * libm::sqrt(clip.slow_share) * 0.6;
        assert!(deviation(&seconds) > least, "{} of {least}", deviation(&seconds));
    }

    #[test]
    fn coarser_or_older_references_enlarge_frames() {
        let mut clip = clip(2);
        let curves = Arc::clone(clip.curves());
        let before = clip.next_picture();
        let reference = |quantizer| Some(curves.encode(&before, quantizer, false).reference);
        let picture = clip.next_picture();
        let from = |reference| curves.encode(&picture.coded_from(reference), 40, false);
        let usual = from(reference(40));
        assert_eq!(usual.size, curves.encode(&picture, 40, false).size);
        assert!(from(reference(100)).size > usual.size && from(reference(10)).size < usual.size);
        assert!(from(reference(10)).ssim > usual.ssim && from(reference(100)).ssim < usual.ssim);
        let later = (0..8).map(|_| clip.next_picture()).last().unwrap();
        let older = curves.encode(&later.coded_from(reference(40)), 40, false);
        assert!(older.size > curves.encode(&later, 40, false).size, "{older:?}");
    }

    #[test]
    fn the_size_of_a_scene_cut_does_not_depend_on_its_reference() {
        let mut model = CodecModel::built_in().unwrap().clips[0].clone();
        (model.scene_cuts, model.cut_size, model.cut_keys, model.key_deviation) = (1.0, 0.3, 0.0, 0.0);
        let curves = Arc::new(ClipCurves::new(&model, 640, 360));
        let mut clip = ModelledClip::new(Arc::clone(&curves), Duration::from_millis(33), 1);
        let reference = curves.encode(&clip.next_picture(), 10, true).reference;
        let cut = (0..1_000)
            .map(|_| clip.next_picture())
            .find(|picture| picture.scene_cut)
            .expect("expected one scene cut per second");
        let size = |picture: &ModelledPicture, key_frame| curves.encode(picture, 40, key_frame).size.as_f64();
        let inter = size(&cut, false);
        assert!((inter / size(&cut, true) - libm::exp(0.3)).abs() < 0.01, "{inter}");
        assert_eq!(size(&cut.coded_from(Some(reference)), false), inter);
    }

    #[test]
    fn scene_cuts_become_key_frames_at_the_clips_rate() {
        let mut model = CodecModel::built_in().unwrap().clips[0].clone();
        (model.scene_cuts, model.cut_keys) = (1.0, 1.0);
        let curves = Arc::new(ClipCurves::new(&model, 640, 360));
        let mut clip = ModelledClip::new(Arc::clone(&curves), Duration::from_millis(33), 1);
        let pictures: Vec<ModelledPicture> = (0..1_000).map(|_| clip.next_picture()).collect();
        let cuts = pictures.iter().filter(|picture| picture.needs_key_frame()).count();
        assert!((20..50).contains(&cuts), "{cuts} in 33 s");
        assert!(pictures.iter().all(|picture| picture.needs_key_frame() == picture.scene_cut));
    }

    #[test]
    fn a_reference_never_makes_a_frame_larger_than_none() {
        let mut clip = clip(7);
        let curves = Arc::clone(clip.curves());
        let coarse = curves.encode(&clip.next_picture(), MAX_QUANTIZER, false).reference;
        let later = (0..60).map(|_| clip.next_picture()).last().unwrap();
        for quantizer in 0..=MAX_QUANTIZER {
            let size = |picture: &ModelledPicture, key| curves.encode(picture, quantizer, key).size.as_f64();
            let bound = size(&later, true) * libm::exp(curves.clip.cut_size.max(0.0));
            let usual = size(&later, false);
            assert!(size(&later.coded_from(Some(coarse)), false) <= bound.max(usual) + 1.0, "at {quantizer}");
        }
    }

    #[test]
    fn a_fine_frame_after_a_coarse_one_is_a_medium_reference() {
        let mut clip = clip(4);
        let curves = Arc::clone(clip.curves());
        let coarse = curves.encode(&clip.next_picture(), 110, false).reference;
        let picture = clip.next_picture().coded_from(Some(coarse));
        let recent = |quantizer| curves.encode(&picture, quantizer, false).reference.recent / 256;
        assert!((30..110).contains(&recent(30)), "{}", recent(30));
        assert_eq!(recent(110), 110);
    }

    #[test]
    fn a_fine_frame_improves_quality_longer_than_it_saves_bits() {
        let mut clip = clip(6);
        let curves = Arc::clone(clip.curves());
        let mut reference = curves.encode(&clip.next_picture(), 10, false).reference;
        for _ in 0..8 {
            let frame = curves.encode(&clip.next_picture().coded_from(Some(reference)), 60, false);
            reference = frame.reference;
        }
        let picture = clip.next_picture();
        let (usual, after) = (picture, picture.coded_from(Some(reference)));
        let [usual, after] = [usual, after].map(|picture| curves.encode(&picture, 60, false));
        let decibels = |frame: &ModelledFrame| -10.0 * libm::log10(1.0 - frame.ssim);
        assert!(decibels(&after) > decibels(&usual) + 0.5, "{after:?} {usual:?}");
        assert!((after.size.as_f64() / usual.size.as_f64() - 1.0).abs() < 0.2, "{after:?} {usual:?}");
    }

    #[test]
    fn one_fine_frame_improves_the_coarse_frames_after_it() {
        let mut clip = clip(8);
        let curves = Arc::clone(clip.curves());
        let mut reference = curves.encode(&clip.next_picture(), 110, false).reference;
        for quantizer in [110, 40] {
            let picture = clip.next_picture().coded_from(Some(reference));
            reference = curves.encode(&picture, quantizer, false).reference;
        }
        let picture = clip.next_picture();
        let (usual, after) = (picture, picture.coded_from(Some(reference)));
        let [usual, after] = [usual, after].map(|picture| curves.encode(&picture, 110, false).ssim);
        assert!(after > usual, "{after} {usual}");
    }
}
