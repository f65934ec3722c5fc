//! What a call without pixels captures and codes: the pictures of a clip, of which nothing is known but how hard they are
//! ([`ModelledClip`]), and what coding one would give ([`ClipCurves`]).
//!
//! At a quantizer, the logarithm of a frame's size is the clip's curve, plus how hard the pictures of this second are
//! (an autoregressive process of first order), plus what differs from frame to frame. Quality follows the quantizer.
//!
//! All that is random belongs to the source and is drawn with the picture; coding depends on nothing but its arguments, so
//! that an encoder may code a picture as often as it likes, in any order, and find what it found before.

use std::sync::Arc;
use std::time::Duration;

use rand::SeedableRng;
use rand_pcg::Pcg64;

use lockstep_link::random::normal;
use lockstep_units::ByteCount;
use lockstep_vp8::MAXIMUM_QUANTIZER;

use crate::codec_model::{ClipModel, QUANTIZERS};
use crate::functional::FINEST_USEFUL_QUANTIZER;

/// No frame is smaller, bytes: headers and one bit a macroblock.
const LEAST_SIZE: f64 = 40.0;
/// Bounds of the difficulty, natural logarithm: what no clip was seen to exceed.
const MOST_DIFFICULTY: f64 = 2.5;
/// The least that a frame which is made to fit fills of its budget, where it could fill more.
const LEAST_FILL: f64 = 0.5;

/// A picture without pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ModelledPicture {
    number: u64,
    excess: f64,
    fill: f64,
    scene_cut: bool,
}

impl ModelledPicture {
    /// How many pictures the source gave before.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// How much larger its frames are than the clip's mean, natural logarithm.
    #[must_use]
    pub fn excess(&self) -> f64 {
        self.excess
    }

    /// Whether it shows another scene than the one before, so that an encoder makes it a key frame from whatever state.
    #[must_use]
    pub fn is_scene_cut(&self) -> bool {
        self.scene_cut
    }
}

/// One frame that was coded, as far as the model knows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ModelledFrame {
    /// Size.
    pub size: ByteCount,
    /// Quantizer index, 0-127.
    pub quantizer: u8,
    /// Luma SSIM of its picture, 0-1.
    pub ssim: f64,
}

/// A clip's curves at one picture size, ready to be looked up; shared by all calls of that clip and size.
#[derive(Debug)]
pub struct ClipCurves {
    clip: ClipModel,
    picture_size: (usize, usize),
    /// Natural logarithm of the size in bytes.
    inter: [f64; QUANTIZERS],
    key: [f64; QUANTIZERS],
    /// Luma SSIM, 0-1.
    ssim: [f64; QUANTIZERS],
}

impl ClipCurves {
    /// The curves of `clip` in pictures of `width` by `height` luma samples.
    #[must_use]
    pub fn new(clip: &ClipModel, width: usize, height: usize) -> Self {
        let bytes = (width * height) as f64 / 8.0;
        Self {
            inter: clip.curve(|point| libm::log(point.inter_bits * bytes)),
            key: clip.curve(|point| libm::log(point.key_bits * bytes)),
            ssim: clip.curve(|point| point.ssim_db).map(|decibels| 1.0 - libm::exp10(-decibels / 10.0)),
            clip: clip.clone(),
            picture_size: (width, height),
        }
    }

    /// Width and height of its pictures, luma samples.
    #[must_use]
    pub fn picture_size(&self) -> (usize, usize) {
        self.picture_size
    }

    fn logarithms(&self, key_frame: bool) -> &[f64; QUANTIZERS] {
        if key_frame { &self.key } else { &self.inter }
    }

    /// The smallest quantizer that is expected to give at most `size` bytes, where frames are expected to be larger than
    /// the clip's mean by `excess` (natural logarithm).
    #[must_use]
    pub fn quantizer_for(&self, size: f64, excess: f64, key_frame: bool) -> u8 {
        let wanted = libm::log(size.max(1.0)) - excess;
        let coarse_enough = self.logarithms(key_frame).partition_point(|&logarithm| logarithm > wanted);
        coarse_enough.min(QUANTIZERS - 1) as u8
    }

    /// `picture` at `quantizer` (above 127 it is taken as 127).
    #[must_use]
    pub fn encode(&self, picture: &ModelledPicture, quantizer: u8, key_frame: bool) -> ModelledFrame {
        let index = usize::from(quantizer.min(MAXIMUM_QUANTIZER));
        let size = libm::exp(self.logarithms(key_frame)[index] + picture.excess);
        ModelledFrame {
            size: ByteCount::new(size.max(LEAST_SIZE) as u64),
            quantizer: index as u8,
            ssim: self.ssim[index],
        }
    }

    /// `picture` in at most `budget`, filled as far as real frames fill theirs ([`lockstep_vp8::Fitting`]); larger where
    /// even the coarsest quantizer is.
    #[must_use]
    pub fn encode_to_fit(&self, picture: &ModelledPicture, budget: ByteCount, key_frame: bool) -> ModelledFrame {
        let size = budget.as_f64() * picture.fill;
        let wanted = libm::log(size.max(1.0)) - picture.excess;
        let logarithms = self.logarithms(key_frame);
        let coarser = logarithms.partition_point(|&logarithm| logarithm > wanted);
        let finest = usize::from(FINEST_USEFUL_QUANTIZER);
        if coarser <= finest || coarser == QUANTIZERS {
            return self.encode(picture, coarser.clamp(finest, QUANTIZERS - 1) as u8, key_frame);
        }
        // Between two quantizers lies what a real encoder reaches by steering.
        let (fine, coarse) = (logarithms[coarser - 1], logarithms[coarser]);
        let share = (fine - wanted) / (fine - coarse);
        let ssim = &self.ssim;
        ModelledFrame {
            size: ByteCount::new(size.max(LEAST_SIZE) as u64),
            quantizer: coarser as u8,
            ssim: ssim[coarser - 1] + share * (ssim[coarser] - ssim[coarser - 1]),
        }
    }
}

/// The source of a call without pixels: the pictures of one clip.
#[derive(Debug, Clone)]
pub struct ModelledClip {
    curves: Arc<ClipCurves>,
    generator: Pcg64,
    /// Pictures given so far.
    pictures: u64,
    /// Share of the difficulty that stays from one picture to the next.
    persistence: f64,
    /// Deviation of what comes anew with each picture.
    innovation: f64,
    difficulty: f64,
}

impl ModelledClip {
    /// Pictures that come every `frame_interval`. Equal arguments give equal pictures.
    #[must_use]
    pub fn new(curves: Arc<ClipCurves>, frame_interval: Duration, seed: u64) -> Self {
        let clip = &curves.clip;
        let mut generator = Pcg64::seed_from_u64(seed);
        let persistence = libm::exp(-frame_interval.as_secs_f64() / clip.correlation_seconds);
        let innovation = clip.second_deviation * libm::sqrt(1.0 - persistence * persistence);
        let difficulty = clip.second_deviation * normal(&mut generator);
        Self { curves, generator, pictures: 0, persistence, innovation, difficulty }
    }

    /// The curves that its pictures are coded by.
    #[must_use]
    pub fn curves(&self) -> &Arc<ClipCurves> {
        &self.curves
    }

    /// The next picture.
    pub fn next_picture(&mut self) -> ModelledPicture {
        let clip = &self.curves.clip;
        let number = self.pictures;
        self.pictures += 1;
        self.difficulty = self.persistence * self.difficulty + self.innovation * normal(&mut self.generator);
        let own = clip.frame_deviation * normal(&mut self.generator);
        let excess = (self.difficulty + own).clamp(-MOST_DIFFICULTY, MOST_DIFFICULTY);
        let fill = (clip.fill + clip.fill_deviation * normal(&mut self.generator)).clamp(LEAST_FILL, 1.0);
        ModelledPicture { number, excess, fill, scene_cut: false }
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
    fn coding_a_picture_again_gives_what_it_gave_before() {
        let mut clip = clip(5);
        let curves = Arc::clone(clip.curves());
        let pictures: Vec<ModelledPicture> = (0..20).map(|_| clip.next_picture()).collect();
        let code = |picture: &ModelledPicture| {
            let fitted = curves.encode_to_fit(picture, ByteCount::new(3_000), false);
            (curves.encode(picture, 40, false), curves.encode(picture, 20, true), fitted)
        };
        let first: Vec<_> = pictures.iter().map(code).collect();
        let again: Vec<_> = pictures.iter().rev().map(code).collect();
        assert!(first.iter().eq(again.iter().rev()));
        assert!(pictures.windows(2).all(|pair| pair[0].excess() != pair[1].excess()));
    }

    #[test]
    fn frames_fit_their_budgets_and_larger_ones_are_better() {
        let mut clip = clip(1);
        let picture = clip.next_picture();
        let mut last = 0.0;
        for budget in [2_000, 4_000, 8_000, 16_000].map(ByteCount::new) {
            let frame = clip.curves().encode_to_fit(&picture, budget, false);
            assert!(frame.size <= budget && frame.size.as_f64() > 0.5 * budget.as_f64(), "{frame:?} in {budget:?}");
            assert!(frame.ssim > last, "{frame:?}");
            last = frame.ssim;
        }
    }

    #[test]
    fn a_budget_too_small_for_the_coarsest_gives_the_coarsest() {
        let mut clip = clip(1);
        let picture = clip.next_picture();
        let frame = clip.curves().encode_to_fit(&picture, ByteCount::new(1), false);
        assert_eq!(frame.quantizer, MAXIMUM_QUANTIZER);
        assert!(frame.size > ByteCount::new(1));
    }

    #[test]
    fn a_key_frame_is_larger_than_an_inter_frame() {
        let mut clip = clip(3);
        let picture = clip.next_picture();
        assert!(clip.curves().encode(&picture, 64, true).size > clip.curves().encode(&picture, 64, false).size);
    }

    #[test]
    fn sizes_vary_from_second_to_second_as_the_clip_says_and_replay_from_the_seed() {
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
        let seconds: Vec<f64> = first.chunks(30).map(mean).collect();
        let middle = mean(&seconds);
        let deviation = libm::sqrt(mean(&seconds.iter().map(|value| (value - middle).powi(2)).collect::<Vec<_>>()));
        let clip = &CodecModel::built_in().unwrap().clips[0];
        assert!((deviation / clip.second_deviation - 1.0).abs() < 0.35, "{deviation} of {}", clip.second_deviation);
    }
}
