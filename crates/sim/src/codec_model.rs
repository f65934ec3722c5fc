//! Codec model: sizes and SSIM of real encodes of real clips, without pixels.
//!
//! `lockstep model fit` fits a model. Training and studies of control use it, because coding every picture would take
//! hours. This module holds the parameters of clips; `modelled_clip` draws frames from them.

use serde::{Deserialize, Serialize};

use lockstep_units::random::mix;
use lockstep_vp8::MAX_QUANTIZER;

/// Number of quantizers.
pub(crate) const QUANTIZERS: usize = MAX_QUANTIZER as usize + 1;
/// Points at which distributions are tabulated, in standard deviations of a normal variable. They are evenly spaced.
pub const NORMAL_POINTS: [f64; 9] = [-3.0, -2.25, -1.5, -0.75, 0.0, 0.75, 1.5, 2.25, 3.0];
/// Quantizers at which reference effects are tabulated. Fine and coarse ones differ: most of a fine frame is noise,
/// which no reference predicts.
pub const FOLLOWER_POINTS: [u8; 6] = [4, 13, 26, 48, 76, 112];
/// Points at which reference effects are tabulated: quantizer of the reference minus quantizer of the frame.
pub const REFERENCE_POINTS: [f64; 9] = [-90.0, -45.0, -18.0, -7.0, 0.0, 7.0, 18.0, 45.0, 90.0];

/// Reason why a model cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CodecModelError {
    /// The text is not JSON of this form.
    #[error("cannot read the codec model: {0}")]
    Json(#[from] serde_json::Error),
    /// The model has no clip.
    #[error("the codec model has no clip")]
    Empty,
    /// A clip's curve has fewer than two points, or its quantizers do not rise, or its sizes do not fall.
    #[error("codec model: clip `{0}`: expected at least two points with rising quantizers and falling sizes")]
    Curve(String),
    /// The quantiles of a distribution do not rise.
    #[error("codec model: clip `{clip}`: {field} do not rise")]
    Quantiles {
        /// Name of the clip.
        clip: String,
        /// Field of the distribution.
        field: &'static str,
    },
    /// A number is not finite or outside its valid range.
    #[error("codec model: clip `{clip}`: {field} = {value} is out of range")]
    Number {
        /// Name of the clip.
        clip: String,
        /// Field of the number.
        field: &'static str,
        /// Value of the number.
        value: f64,
    },
    /// No clip has this name.
    #[error("the codec model has no clip `{name}`; known clips: {known}")]
    UnknownClip {
        /// The requested name.
        name: String,
        /// Names of all clips.
        known: String,
    },
}

/// One point of a clip's curves.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelPoint {
    /// Quantizer index, 0-127.
    pub quantizer: u8,
    /// Geometric mean of the bits per luma sample of interframes.
    pub inter_bits: f64,
    /// Standard deviation of the natural logarithm of interframe sizes.
    pub inter_deviation: f64,
    /// Geometric mean of the bits per luma sample of key frames.
    pub key_bits: f64,
    /// Mean luma SSIM, dB: -10 log10(1 - SSIM).
    pub ssim_db: f64,
}

/// Reference effects for each quantizer of [`FOLLOWER_POINTS`], at [`REFERENCE_POINTS`].
pub type EffectTable = [[f64; REFERENCE_POINTS.len()]; FOLLOWER_POINTS.len()];

/// One share for each quantizer of [`FOLLOWER_POINTS`].
pub type Persistence = [f64; FOLLOWER_POINTS.len()];

/// Reference effect: difference between a frame and one whose reference has the frame's own quantizer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReferenceEffect {
    /// Effect on the natural logarithm of the size; larger after a coarser reference.
    pub size: EffectTable,
    /// Effect on SSIM, dB; lower after a coarser reference.
    pub ssim_db: EffectTable,
    /// Share of the difference in quantizers that a frame passes on to the next one, fitted to sizes. First for finer
    /// references, then for coarser ones.
    pub size_persistence: [Persistence; 2],
    /// The same share fitted to SSIM. Where nothing moves, quality lasts longer than the effect on size.
    pub ssim_persistence: [Persistence; 2],
    /// Share of a coarser reference's effect on size that remains if static parts are finer than the frame. These parts
    /// come from before the reference.
    pub refined_share: f64,
}

/// Error of the model on the part of the clip that it was not fitted to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeldOutError {
    /// Number of pictures fitted to, and number of pictures held out.
    pub pictures: (u32, u32),
    /// Relative error of the mean interframe size at each quantizer of the points: model / clip - 1.
    pub size: Vec<f64>,
    /// Error of SSIM at each quantizer of the points, dB: model - clip.
    pub ssim_db: Vec<f64>,
    /// Relative error of the standard deviation of ln(size) within a second: model / clip - 1.
    pub frame_deviation: f64,
    /// Standard deviation of the mean of ln(size) over a second, of the model and of the clip. The clip's value is
    /// unreliable with fewer than three held-out seconds.
    pub second_deviation: (f64, f64),
}

/// Parameters of one clip.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClipModel {
    /// The clip's name.
    pub name: String,
    /// Frame interval of the clip, seconds.
    pub frame_interval: f64,
    /// Points of the curves, with rising quantizers.
    pub points: Vec<ModelPoint>,
    /// Share of the variance of difficulty that lasts for seconds. The difficulty of a picture is counted in standard
    /// deviations of ln(size).
    pub slow_share: f64,
    /// Correlation time (to 1/e) of the slow part of the difficulty, seconds.
    pub correlation_seconds: f64,
    /// Correlation of the fast part of the difficulty from picture to picture.
    pub frame_correlation: f64,
    /// Quantiles of the fast part of the difficulty, at [`NORMAL_POINTS`].
    pub frame_quantiles: [f64; NORMAL_POINTS.len()],
    /// Loss of SSIM per unit of difficulty, dB.
    pub ssim_slope: f64,
    /// Standard deviation of the rest of SSIM, dB.
    pub ssim_deviation: f64,
    /// Standard deviation of ln(size) of key frames.
    pub key_deviation: f64,
    /// Scene cuts per second.
    pub scene_cuts: f64,
    /// ln(size) of the frame that begins a scene, minus that of a key frame. Such an interframe finds nothing to
    /// predict from.
    #[serde(default)]
    pub cut_size: f64,
    /// Share of scenes that begin with a key frame.
    pub cut_keys: f64,
    /// Growth of ln(size) per logarithm of the reference's age, by [`FOLLOWER_POINTS`].
    pub gap_slopes: [f64; FOLLOWER_POINTS.len()],
    /// Effects of the quality of the reference.
    pub reference: ReferenceEffect,
    /// Quantiles of the fill of frames that were coded again to fit a budget, at [`NORMAL_POINTS`]. First for the
    /// second pass ([`lockstep_vp8::Fitting::pass`]), then for later passes.
    pub fills: [[f64; NORMAL_POINTS.len()]; 2],
    /// Held-out error of this model; `None` if it was not measured.
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
    /// The model that comes with Lockstep (`make codec-model`). It is fitted to natural clips and to the generated
    /// clip.
    ///
    /// # Errors
    /// If the model in this build is damaged.
    pub fn built_in() -> Result<Self, CodecModelError> {
        Self::from_json(include_str!("codec_model.json"))
    }

    /// Parses and validates a model in JSON, as written by [`serde_json`].
    ///
    /// # Errors
    /// If the text is not JSON of this form, or a number is invalid.
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

    /// The clip for a call with `seed`. All clips are equally likely.
    ///
    /// # Panics
    /// If there is no clip. A parsed model has at least one.
    #[must_use]
    pub fn drawn(&self, seed: u64) -> &ClipModel {
        // `mix` gives neighbouring seeds unrelated clips.
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
        let known = self.points.iter().all(|point| point.quantizer <= MAX_QUANTIZER);
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

    /// `value` at every quantizer, by linear interpolation between the points.
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

/// Values at every quantizer, interpolated linearly between [`FOLLOWER_POINTS`] and constant beyond them.
pub(crate) fn at_every_quantizer(values: &[f64; FOLLOWER_POINTS.len()]) -> [f64; QUANTIZERS] {
    let points = FOLLOWER_POINTS.map(f64::from);
    std::array::from_fn(|quantizer| between(&points, values, quantizer as f64))
}

/// Effects at every quantizer, interpolated like [`at_every_quantizer`].
pub(crate) fn effects_at_every_quantizer(table: &EffectTable) -> Vec<[f64; REFERENCE_POINTS.len()]> {
    let columns: [_; REFERENCE_POINTS.len()] =
        std::array::from_fn(|point| at_every_quantizer(&std::array::from_fn(|follower| table[follower][point])));
    (0..QUANTIZERS).map(|quantizer| columns.map(|column| column[quantizer])).collect()
}

/// Linear interpolation at `x` of `values` at rising `points`; constant beyond the points.
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
    fn an_invalid_model_is_refused_and_the_error_names_the_field() {
        let with = |change: fn(&mut ClipModel)| {
            let mut model = CodecModel::built_in().unwrap();
            change(&mut model.clips[0]);
            CodecModel::from_json(&serde_json::to_string(&model).unwrap()).unwrap_err().to_string()
        };
        assert!(with(|clip| clip.points[0].inter_bits = 0.0).contains("rising quantizers and falling sizes"));
        assert!(with(|clip| clip.points.truncate(1)).contains("rising quantizers and falling sizes"));
        assert!(with(|clip| clip.frame_quantiles[0] = 5.0).contains("do not rise"));
        assert!(with(|clip| clip.gap_slopes[2] = 1e9).contains("gap_slopes = 1000000000"));
        assert!(with(|clip| clip.reference.size[0][8] = 99.0).contains("reference.size = 99"));
        assert!(CodecModel::from_json("{\"clips\": []}").unwrap_err().to_string().contains("no clip"));
    }

    #[test]
    fn every_clip_of_the_built_in_model_has_a_held_out_error() {
        let model = CodecModel::built_in().unwrap();
        assert!(model.clips.len() >= 4, "{}", model.clips.len());
        for clip in &model.clips {
            let error = clip.held_out.as_ref().unwrap();
            assert!(error.pictures.0 > 0 && error.pictures.1 > 0);
            assert_eq!((error.size.len(), error.ssim_db.len()), (clip.points.len(), clip.points.len()));
        }
    }

    #[test]
    fn seeds_draw_every_clip_and_equal_seeds_the_same_clip() {
        let model = CodecModel::built_in().unwrap();
        let names: BTreeSet<&str> = (0..100).map(|seed| model.drawn(seed).name.as_str()).collect();
        assert_eq!(names.len(), model.clips.len());
        assert_eq!(model.drawn(7), model.drawn(7));
    }
}
