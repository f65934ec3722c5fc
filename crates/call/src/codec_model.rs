//! A codec without pixels: sizes and qualities as real encodes of real clips have them, drawn from a model that
//! `lockstep model fit` fits. For training and for studies of control, where coding every picture would take hours.
//! Here is what the model says of clips; what is coded with it is in `modelled_clip`.

use serde::{Deserialize, Serialize};

use lockstep_vp8::MAXIMUM_QUANTIZER;

/// How many quantizers there are.
pub(crate) const QUANTIZERS: usize = MAXIMUM_QUANTIZER as usize + 1;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_that_makes_no_sense_is_refused_with_the_place() {
        let mut model = CodecModel::built_in().unwrap();
        model.clips[0].points[0].inter_bits = 0.0;
        let error = CodecModel::from_json(&serde_json::to_string(&model).unwrap()).unwrap_err().to_string();
        assert!(error.contains("falling curve"), "{error}");
        assert!(CodecModel::from_json("{\"clips\": []}").unwrap_err().to_string().contains("no clip"));
    }
}
