//! A codec without pixels: sizes and qualities as real encodes of real clips have them, drawn from a model that
//! `lockstep model fit` fits. For training and for studies of control, where coding every picture would take hours.
//!
//! Here is what the model says of clips; what is coded with it is in `modelled_clip`.

use serde::{Deserialize, Serialize};

use lockstep_units::random::mix;
use lockstep_vp8::MAXIMUM_QUANTIZER;

/// How many quantizers there are.
pub(crate) const QUANTIZERS: usize = MAXIMUM_QUANTIZER as usize + 1;
/// Where distributions are tabulated: so many standard deviations of a normal variable from its mean, from the least to the
/// largest, evenly.
pub const NORMAL_POINTS: [f64; 9] = [-3.0, -2.25, -1.5, -0.75, 0.0, 0.75, 1.5, 2.25, 3.0];
/// Quantizers of frames at which it is tabulated what they owe to their references: fine ones, where most of a frame is
/// noise that no reference helps with, differ from coarse ones.
pub const FOLLOWER_POINTS: [u8; 6] = [4, 13, 26, 48, 76, 112];
/// Where the effect of a reference is tabulated: its quantizer less that of the frame that follows it.
pub const REFERENCE_POINTS: [f64; 9] = [-90.0, -45.0, -18.0, -7.0, 0.0, 7.0, 18.0, 45.0, 90.0];

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
    /// A distribution falls.
    #[error("clip `{clip}` of the codec model has {field} that do not rise")]
    Quantiles {
        /// Which clip.
        clip: String,
        /// Which distribution.
        field: &'static str,
    },
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
    /// Standard deviation of the natural logarithm of an inter frame's size.
    pub inter_deviation: f64,
    /// Geometric mean of a key frame's bits for each luma sample.
    pub key_bits: f64,
    /// Mean luma SSIM, dB: -10 log10(1 - SSIM).
    pub ssim_db: f64,
}

/// What frames of each quantizer of [`FOLLOWER_POINTS`] owe to their references, by [`REFERENCE_POINTS`].
pub type EffectTable = [[f64; REFERENCE_POINTS.len()]; FOLLOWER_POINTS.len()];

/// A share for each quantizer of [`FOLLOWER_POINTS`].
pub type Persistence = [f64; FOLLOWER_POINTS.len()];

/// What a frame owes to its reference: how much it differs from one whose reference was coded at its own quantizer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReferenceEffect {
    /// Natural logarithm of its size: more after a coarser one.
    pub size: EffectTable,
    /// Its SSIM, dB: less after a coarser one.
    pub ssim_db: EffectTable,
    /// The share of a difference in quantizers that the frame leaves to the next one, as far as sizes show it.
    /// For finer references, and for coarser ones.
    pub size_persistence: [Persistence; 2],
    /// The same as far as SSIM shows it: where nothing moves, quality stays for long.
    pub ssim_persistence: [Persistence; 2],
    /// The share of the effect of a coarser reference on size that is left where what does not move is finer than the frame,
    /// from before the reference.
    pub refined_share: f64,
}

/// How far the model is off on a part of the clip that it was not fitted to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeldOutError {
    /// Pictures fitted to, and pictures held out.
    pub pictures: (u32, u32),
    /// Mean size of inter frames, model over clip less one, at each quantizer of the points.
    pub size: Vec<f64>,
    /// SSIM, model less clip, dB, at each quantizer of the points.
    pub ssim_db: Vec<f64>,
    /// Standard deviation of ln(size) from frame to frame within a second: model over clip less one.
    pub frame_deviation: f64,
    /// Standard deviation of the mean of ln(size) over a second: the model's and the clip's; of fewer than three seconds
    /// held out the clip says little.
    pub second_deviation: (f64, f64),
}

/// How one clip codes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClipModel {
    /// The clip's name.
    pub name: String,
    /// Time between two pictures of the clip, seconds.
    pub frame_interval: f64,
    /// Points with rising quantizers.
    pub points: Vec<ModelPoint>,
    /// How difficult pictures are is counted in standard deviations of ln(size). Of its variance, this share is of what
    /// lasts for seconds.
    pub slow_share: f64,
    /// Time over which that is correlated (to 1/e), seconds.
    pub correlation_seconds: f64,
    /// Correlation of the rest from picture to picture.
    pub frame_correlation: f64,
    /// Quantiles of the rest, at [`NORMAL_POINTS`] of a normal variable.
    pub frame_quantiles: [f64; NORMAL_POINTS.len()],
    /// How much SSIM is lost in dB by a picture that is more difficult by one.
    pub ssim_slope: f64,
    /// Standard deviation of SSIM apart from that, dB.
    pub ssim_deviation: f64,
    /// Standard deviation of ln(size) of key frames.
    pub key_deviation: f64,
    /// Scene cuts a second.
    pub scene_cuts: f64,
    /// ln(size) of the frame that begins a scene over that of a key frame: it is an inter frame that finds nothing to
    /// predict from.
    #[serde(default)]
    pub cut_size: f64,
    /// The share of scenes that begin with a key frame.
    pub cut_keys: f64,
    /// How ln(size) grows with the logarithm of the time since the reference's picture, by [`FOLLOWER_POINTS`].
    pub gap_slopes: [f64; FOLLOWER_POINTS.len()],
    /// What the quality of the reference does.
    pub reference: ReferenceEffect,
    /// Quantiles of size over budget of frames that were coded once more to fit
    /// ([`lockstep_vp8::Fitting::pass`]), at [`NORMAL_POINTS`]: of the second pass and of later ones.
    pub fills: [[f64; NORMAL_POINTS.len()]; 2],
    /// How far that is off; none where it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_out: Option<HeldOutError>,
}

/// Models of several clips.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CodecModel {
    /// The clips.
    pub clips: Vec<ClipModel>,
}

impl CodecModel {
    /// The model that comes with Lockstep, fitted to natural clips and to the one that it generates (`make codec-model`).
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

    /// The clip that a call of `seed` has: each is as likely.
    ///
    /// # Panics
    /// If there is no clip, which no model that was read lacks.
    #[must_use]
    pub fn drawn(&self, seed: u64) -> &ClipModel {
        // Neighbouring seeds must not give neighbouring clips.
        &self.clips[(mix(0, seed) % self.clips.len() as u64) as usize]
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
            ("frame_interval", self.frame_interval, 0.001..=10.0),
            ("slow_share", self.slow_share, 0.0..=1.0),
            ("correlation_seconds", self.correlation_seconds, 0.01..=1e3),
            ("frame_correlation", self.frame_correlation, -0.99..=0.99),
            ("ssim_slope", self.ssim_slope, -10.0..=10.0),
            ("ssim_deviation", self.ssim_deviation, 0.0..=10.0),
            ("key_deviation", self.key_deviation, 0.0..=2.0),
            ("scene_cuts", self.scene_cuts, 0.0..=10.0),
            ("cut_size", self.cut_size, -2.0..=2.0),
            ("cut_keys", self.cut_keys, 0.0..=1.0),
        ];
        let points = self.points.iter().flat_map(|point| {
            [
                ("inter_bits", point.inter_bits, 1e-9..=100.0),
                ("inter_deviation", point.inter_deviation, 0.0..=2.0),
                ("key_bits", point.key_bits, 1e-9..=100.0),
                ("ssim_db", point.ssim_db, 0.0..=100.0),
            ]
        });
        let slopes = self.gap_slopes.iter().map(|&slope| ("gap_slopes", slope, -1.0..=3.0));
        let effects = self.reference.size.iter().flatten().map(|&size| ("reference.size", size, -10.0..=10.0));
        let qualities = self.reference.ssim_db.iter().flatten();
        let effects = effects.chain(qualities.map(|&ssim| ("reference.ssim_db", ssim, -30.0..=30.0))).chain(slopes);
        let shares = self.reference.size_persistence.iter().chain(&self.reference.ssim_persistence).flatten();
        let shares = shares.chain([&self.reference.refined_share]);
        let effects = effects.chain(shares.map(|&share| ("a share of reference", share, 0.0..=1.0)));
        let difficulties = self.frame_quantiles.iter().map(|&value| ("frame_quantiles", value, -20.0..=20.0));
        let fills = self.fills.iter().flatten().map(|&fill| ("fills", fill, 0.05..=3.0));
        let all = numbers.into_iter().chain(points).chain(effects).chain(difficulties).chain(fills);
        for (field, value, range) in all {
            if !range.contains(&value) {
                return Err(CodecModelError::Number { clip: self.name.clone(), field, value });
            }
        }
        let [second, later] = &self.fills;
        for (field, quantiles) in [("frame_quantiles", &self.frame_quantiles), ("fills", second), ("fills", later)] {
            if quantiles.windows(2).any(|pair| pair[0] > pair[1]) {
                return Err(CodecModelError::Quantiles { clip: self.name.clone(), field });
            }
        }
        Ok(())
    }

    /// A value at every quantizer, straight between the points.
    pub(crate) fn curve(&self, value: impl Fn(&ModelPoint) -> f64) -> [f64; QUANTIZERS] {
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

/// A value at every quantizer, straight between [`FOLLOWER_POINTS`] and constant beyond them.
pub(crate) fn at_every_quantizer(values: &[f64; FOLLOWER_POINTS.len()]) -> [f64; QUANTIZERS] {
    let points = FOLLOWER_POINTS.map(f64::from);
    std::array::from_fn(|quantizer| between(&points, values, quantizer as f64))
}

/// The same of a table of effects.
pub(crate) fn effects_at_every_quantizer(table: &EffectTable) -> Vec<[f64; REFERENCE_POINTS.len()]> {
    let columns: [_; REFERENCE_POINTS.len()] =
        std::array::from_fn(|point| at_every_quantizer(&std::array::from_fn(|follower| table[follower][point])));
    (0..QUANTIZERS).map(|quantizer| columns.map(|column| column[quantizer])).collect()
}

/// The value at `x` of what has `values` at rising `points`: straight between them, constant beyond them.
pub(crate) fn between<const POINTS: usize>(points: &[f64; POINTS], values: &[f64; POINTS], x: f64) -> f64 {
    let after = points.partition_point(|&point| point < x);
    if after == 0 {
        return values[0];
    }
    if after == POINTS {
        return values[POINTS - 1];
    }
    let share = (x - points[after - 1]) / (points[after] - points[after - 1]);
    values[after - 1] + share * (values[after] - values[after - 1])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_model_that_makes_no_sense_is_refused_with_the_place() {
        let with = |change: fn(&mut ClipModel)| {
            let mut model = CodecModel::built_in().unwrap();
            change(&mut model.clips[0]);
            CodecModel::from_json(&serde_json::to_string(&model).unwrap()).unwrap_err().to_string()
        };
        assert!(with(|clip| clip.points[0].inter_bits = 0.0).contains("falling curve"));
        assert!(with(|clip| clip.points.truncate(1)).contains("falling curve"));
        assert!(with(|clip| clip.frame_quantiles[0] = 5.0).contains("do not rise"));
        assert!(with(|clip| clip.gap_slopes[2] = 1e9).contains("gap_slopes = 1000000000"));
        assert!(with(|clip| clip.reference.size[0][8] = 99.0).contains("reference.size = 99"));
        assert!(CodecModel::from_json("{\"clips\": []}").unwrap_err().to_string().contains("no clip"));
    }

    #[test]
    fn the_built_in_model_has_natural_clips_and_says_how_far_each_is_off_where_it_was_not_fitted() {
        let model = CodecModel::built_in().unwrap();
        assert!(model.clips.len() >= 4, "{}", model.clips.len());
        for clip in &model.clips {
            let error = clip.held_out.as_ref().unwrap();
            assert!(error.pictures.0 > 0 && error.pictures.1 > 0);
            assert_eq!((error.size.len(), error.ssim_db.len()), (clip.points.len(), clip.points.len()));
        }
    }

    #[test]
    fn seeds_draw_every_clip_and_the_same_one_again() {
        let model = CodecModel::built_in().unwrap();
        let names: BTreeSet<&str> = (0..100).map(|seed| model.drawn(seed).name.as_str()).collect();
        assert_eq!(names.len(), model.clips.len());
        assert_eq!(model.drawn(7), model.drawn(7));
    }
}
