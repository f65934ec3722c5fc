//! A codec without pixels: sizes and qualities as real encodes of real clips have them, drawn from a model that
//! `lockstep model fit` fits. For training and for studies of control, where coding every picture would take hours.
//!
//! At a quantizer, the logarithm of a frame's size is the clip's curve, plus how hard the pictures of this second are
//! (an autoregressive process of first order), plus what differs from frame to frame. Quality follows the quantizer.

use std::sync::Arc;
use std::time::Duration;

use rand::SeedableRng;
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};

use lockstep_link::random::normal;
use lockstep_units::ByteCount;
use lockstep_vp8::MAXIMUM_QUANTIZER;

use crate::functional::FINEST_USEFUL_QUANTIZER;

const QUANTIZERS: usize = MAXIMUM_QUANTIZER as usize + 1;

/// No frame is smaller, bytes: headers and one bit a macroblock.
const LEAST_SIZE: f64 = 40.0;
/// Bounds of the difficulty, natural logarithm: what no clip was seen to exceed.
const MOST_DIFFICULTY: f64 = 2.5;

/// Why a model cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CodecModelError {
    /// It is no JSON of this form.
    #[error("the codec model cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    /// It has no clip.
    #[error("the codec model has no clip")]
    Empty,
    /// A clip's curve has fewer than two points, or they do not rise in quantizer and fall in size.
    #[error("clip `{0}` of the codec model has no falling curve of sizes over rising quantizers")]
    Curve(String),
    /// A number is not finite or negative where it must not be.
    #[error("clip `{clip}` of the codec model has {field} = {value}")]
    Number {
        /// Which clip.
        clip: String,
        /// Which number.
        field: &'static str,
        /// What it is.
        value: f64,
    },
    /// No clip has this name.
    #[error("the codec model has no clip `{name}`; it has {known}")]
    UnknownClip {
        /// The name.
        name: String,
        /// The names that there are.
        known: String,
    },
}

/// One point of a clip's curves.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelPoint {
    /// Quantizer index, 0-127.
    pub quantizer: u8,
    /// Geometric mean of an inter frame's bits for each luma sample.
    pub inter_bits: f64,
    /// A key frame's bits for each luma sample.
    pub key_bits: f64,
    /// Mean luma SSIM, dB: -10 log10(1 - SSIM).
    pub ssim_db: f64,
}

/// How one clip codes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClipModel {
    /// The clip's name.
    pub name: String,
    /// Points with rising quantizers.
    pub points: Vec<ModelPoint>,
    /// Standard deviation of the mean of ln(size) over a second.
    pub second_deviation: f64,
    /// Time over which the difficulty of the pictures is correlated (to 1/e), seconds.
    pub correlation_seconds: f64,
    /// Standard deviation of ln(size) from frame to frame within a second.
    pub frame_deviation: f64,
    /// Mean of size over budget of frames that were coded to fit ([`lockstep_vp8::Analysis::encode_to_fit`]).
    pub fill: f64,
    /// Its standard deviation.
    pub fill_deviation: f64,
}

/// Models of several clips.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CodecModel {
    /// The clips.
    pub clips: Vec<ClipModel>,
}

impl CodecModel {
    /// The model that comes with Lockstep, fitted to the clips that it generates (`lockstep model fit`).
    ///
    /// # Errors
    /// None, as a test shows; a build whose model is damaged says how.
    pub fn built_in() -> Result<Self, CodecModelError> {
        Self::from_json(include_str!("codec_model.json"))
    }

    /// Reads a model as [`serde_json`] writes it.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn from_json(text: &str) -> Result<Self, CodecModelError> {
        let model: Self = serde_json::from_str(text)?;
        model.validate()?;
        Ok(model)
    }

    fn validate(&self) -> Result<(), CodecModelError> {
        if self.clips.is_empty() {
            return Err(CodecModelError::Empty);
        }
        self.clips.iter().try_for_each(ClipModel::validate)
    }

    /// The clip called `name`.
    ///
    /// # Errors
    /// If there is none.
    pub fn clip(&self, name: &str) -> Result<&ClipModel, CodecModelError> {
        self.clips.iter().find(|clip| clip.name == name).ok_or_else(|| CodecModelError::UnknownClip {
            name: name.to_owned(),
            known: self.clips.iter().map(|clip| clip.name.as_str()).collect::<Vec<_>>().join(", "),
        })
    }
}

impl ClipModel {
    fn validate(&self) -> Result<(), CodecModelError> {
        let falling = self.points.windows(2).all(|pair| {
            pair[0].quantizer < pair[1].quantizer
                && pair[0].inter_bits > pair[1].inter_bits
                && pair[0].key_bits > pair[1].key_bits
        });
        let known = self.points.iter().all(|point| point.quantizer <= MAXIMUM_QUANTIZER);
        if self.points.len() < 2 || !falling || !known {
            return Err(CodecModelError::Curve(self.name.clone()));
        }
        let numbers = [
            ("second_deviation", self.second_deviation, 0.0..=2.0),
            ("correlation_seconds", self.correlation_seconds, 0.01..=1e3),
            ("frame_deviation", self.frame_deviation, 0.0..=2.0),
            ("fill", self.fill, 0.1..=1.0),
            ("fill_deviation", self.fill_deviation, 0.0..=1.0),
        ];
        let points = self.points.iter().flat_map(|point| {
            [
                ("inter_bits", point.inter_bits, 1e-9..=100.0),
                ("key_bits", point.key_bits, 1e-9..=100.0),
                ("ssim_db", point.ssim_db, 0.0..=100.0),
            ]
        });
        for (field, value, range) in numbers.into_iter().chain(points) {
            if !range.contains(&value) {
                return Err(CodecModelError::Number { clip: self.name.clone(), field, value });
            }
        }
        Ok(())
    }

    /// A value at every quantizer, straight between the points.
    fn curve(&self, value: impl Fn(&ModelPoint) -> f64) -> [f64; QUANTIZERS] {
        std::array::from_fn(|quantizer| {
            let after = self.points.partition_point(|point| usize::from(point.quantizer) < quantizer);
            let after = after.clamp(1, self.points.len() - 1);
            let (before, after) = (&self.points[after - 1], &self.points[after]);
            let span = f64::from(after.quantizer) - f64::from(before.quantizer);
            let share = (quantizer as f64 - f64::from(before.quantizer)) / span;
            value(before) + share * (value(after) - value(before))
        })
    }
}

/// A clip's curves at one picture size, ready to be looked up; shared by all encoders of that clip and size.
#[derive(Debug)]
pub struct ClipCurves {
    clip: ClipModel,
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
        }
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

/// Codes one clip, without pixels.
#[derive(Debug, Clone)]
pub struct ModelledEncoder {
    curves: Arc<ClipCurves>,
    generator: Pcg64,
    /// Share of the difficulty that stays from one picture to the next.
    persistence: f64,
    /// Deviation of what comes anew with each picture.
    innovation: f64,
    difficulty: f64,
    /// Of the present picture: difficulty and what it has beside, natural logarithm.
    excess: f64,
}

impl ModelledEncoder {
    /// An encoder of pictures that come every `frame_interval`. Equal arguments give equal frames.
    #[must_use]
    pub fn new(curves: Arc<ClipCurves>, frame_interval: Duration, seed: u64) -> Self {
        let clip = &curves.clip;
        let mut generator = Pcg64::seed_from_u64(seed);
        let persistence = libm::exp(-frame_interval.as_secs_f64() / clip.correlation_seconds);
        let innovation = clip.second_deviation * libm::sqrt(1.0 - persistence * persistence);
        let difficulty = clip.second_deviation * normal(&mut generator);
        let mut encoder = Self { curves, generator, persistence, innovation, difficulty, excess: 0.0 };
        encoder.next_picture();
        encoder
    }

    /// The source gives another picture.
    pub fn next_picture(&mut self) {
        let draw = normal(&mut self.generator);
        self.difficulty = self.persistence * self.difficulty + self.innovation * draw;
        let own = self.curves.clip.frame_deviation * normal(&mut self.generator);
        self.excess = (self.difficulty + own).clamp(-MOST_DIFFICULTY, MOST_DIFFICULTY);
    }

    fn logarithms(&self, key_frame: bool) -> &[f64; QUANTIZERS] {
        if key_frame { &self.curves.key } else { &self.curves.inter }
    }

    /// How much larger the present picture's frames are than the clip's mean, natural logarithm: what an encoder knows
    /// once it has coded it.
    #[must_use]
    pub fn excess(&self) -> f64 {
        self.excess
    }

    /// The smallest quantizer that is expected to give at most `size` bytes, where frames are expected to be larger than
    /// the clip's mean by `excess` (natural logarithm).
    #[must_use]
    pub fn quantizer_for(&self, size: f64, excess: f64, key_frame: bool) -> u8 {
        let wanted = libm::log(size.max(1.0)) - excess;
        let coarse_enough = self.logarithms(key_frame).partition_point(|&logarithm| logarithm > wanted);
        coarse_enough.min(QUANTIZERS - 1) as u8
    }

    /// The present picture at `quantizer`.
    #[must_use]
    pub fn encode(&self, quantizer: u8, key_frame: bool) -> ModelledFrame {
        let index = usize::from(quantizer.min(MAXIMUM_QUANTIZER));
        let size = libm::exp(self.logarithms(key_frame)[index] + self.excess);
        ModelledFrame {
            size: ByteCount::new(size.max(LEAST_SIZE) as u64),
            quantizer: index as u8,
            ssim: self.curves.ssim[index],
        }
    }

    /// The present picture in at most `budget`, filled as far as real frames fill theirs; larger where even the coarsest
    /// quantizer is.
    #[must_use]
    pub fn encode_to_fit(&mut self, budget: ByteCount, key_frame: bool) -> ModelledFrame {
        let clip = &self.curves.clip;
        let fill = (clip.fill + clip.fill_deviation * normal(&mut self.generator)).clamp(0.5, 1.0);
        let wanted = libm::log((budget.as_f64() * fill).max(1.0)) - self.excess;
        let logarithms = self.logarithms(key_frame);
        let coarser = logarithms.partition_point(|&logarithm| logarithm > wanted);
        let finest = usize::from(FINEST_USEFUL_QUANTIZER);
        if coarser <= finest || coarser == QUANTIZERS {
            return self.encode(coarser.clamp(finest, QUANTIZERS - 1) as u8, key_frame);
        }
        // Between two quantizers lies what encode_to_fit reaches by steering.
        let (fine, coarse) = (logarithms[coarser - 1], logarithms[coarser]);
        let share = (fine - wanted) / (fine - coarse);
        let ssim = &self.curves.ssim;
        ModelledFrame {
            size: ByteCount::new((budget.as_f64() * fill).max(LEAST_SIZE) as u64),
            quantizer: coarser as u8,
            ssim: ssim[coarser - 1] + share * (ssim[coarser] - ssim[coarser - 1]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoder(seed: u64) -> ModelledEncoder {
        let model = CodecModel::built_in().unwrap();
        let curves = ClipCurves::new(&model.clips[0], 640, 360);
        ModelledEncoder::new(Arc::new(curves), Duration::from_millis(33), seed)
    }

    #[test]
    fn frames_fit_their_budgets_and_larger_ones_are_better() {
        let mut encoder = encoder(1);
        let mut last = 0.0;
        for budget in [2_000, 4_000, 8_000, 16_000].map(ByteCount::new) {
            let frame = encoder.encode_to_fit(budget, false);
            assert!(frame.size <= budget && frame.size.as_f64() > 0.5 * budget.as_f64(), "{frame:?} in {budget:?}");
            assert!(frame.ssim > last, "{frame:?}");
            last = frame.ssim;
        }
    }

    #[test]
    fn a_budget_too_small_for_the_coarsest_gives_the_coarsest() {
        let frame = encoder(1).encode_to_fit(ByteCount::new(1), false);
        assert_eq!(frame.quantizer, MAXIMUM_QUANTIZER);
        assert!(frame.size > ByteCount::new(1));
    }

    #[test]
    fn a_key_frame_is_larger_than_an_inter_frame() {
        let encoder = encoder(3);
        assert!(encoder.encode(64, true).size > encoder.encode(64, false).size);
    }

    #[test]
    fn sizes_vary_from_second_to_second_as_the_clip_says_and_replay_from_the_seed() {
        let sizes = |seed| {
            let mut encoder = encoder(seed);
            let mut sizes = Vec::new();
            for _ in 0..30_000 {
                encoder.next_picture();
                sizes.push(libm::log(encoder.encode(40, false).size.as_f64()));
            }
            sizes
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

    #[test]
    fn a_model_that_makes_no_sense_is_refused_with_the_place() {
        let mut model = CodecModel::built_in().unwrap();
        model.clips[0].points[0].inter_bits = 0.0;
        let error = CodecModel::from_json(&serde_json::to_string(&model).unwrap()).unwrap_err().to_string();
        assert!(error.contains("falling curve"), "{error}");
        assert!(CodecModel::from_json("{\"clips\": []}").unwrap_err().to_string().contains("no clip"));
    }
}
