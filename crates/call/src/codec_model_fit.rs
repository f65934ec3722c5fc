//! Fits a [`ClipModel`] to what the real codec makes of a clip.

use std::time::Duration;

use lockstep_media::{QualityError, ssim, ssim_db};
use lockstep_vp8::{Analysis, Encoded, FrameKind, MAXIMUM_QUANTIZER, Parameters, Picture, State};

use crate::codec_model::{ClipModel, ModelPoint};
use crate::scores::mean;

/// Where the curves are measured: close together where VP8's steps are small (RFC 6386, section 14.1).
const QUANTIZERS: [u8; 12] = [0, 4, 10, 18, 26, 36, 48, 60, 76, 94, 112, MAXIMUM_QUANTIZER];
/// The quantizers whose sizes say how difficult pictures are: the extremes are all noise or all headers.
const TYPICAL: std::ops::RangeInclusive<u8> = 18..=94;
/// Quality is measured on every such picture.
const QUALITY_INTERVAL: usize = 6;
/// Budgets of exactly fitted frames, as shares of the clip's own sizes from fine to coarse.
const BUDGETED: [u8; 3] = [26, 48, 76];
/// A curve falls at least by this factor from one point to the next.
const LEAST_FALL: f64 = 0.98;

/// Standard deviation of `values`.
fn deviation(values: &[f64]) -> f64 {
    let middle = mean(values).unwrap_or(0.0);
    let squares: Vec<f64> = values.iter().map(|value| (value - middle) * (value - middle)).collect();
    libm::sqrt(mean(&squares).unwrap_or(0.0))
}

/// What one quantizer gave.
struct Coded {
    key: usize,
    inter: Vec<f64>,
    ssim: f64,
}

fn code(pictures: &[Picture], quantizer: u8) -> Result<Coded, QualityError> {
    let mut state = State::default();
    let (mut key, mut inter, mut qualities) = (0, Vec::new(), Vec::new());
    for (index, picture) in pictures.iter().enumerate() {
        let parameters = Parameters { quantizer, ..Parameters::default() };
        let encoded = lockstep_vp8::encode(&state, picture, &parameters);
        if index == 0 {
            key = encoded.frame.len();
        } else {
            inter.push(libm::log(encoded.frame.len() as f64));
        }
        if index % QUALITY_INTERVAL == 0 {
            qualities.push(ssim(picture, &encoded.picture())?);
        }
        state = encoded.state;
    }
    Ok(Coded { key, inter, ssim: mean(&qualities).unwrap_or(0.0) })
}

/// Shares of their budgets that exactly fitted frames take.
fn fills(pictures: &[Picture], sizes: &[f64]) -> Vec<f64> {
    let mut fills = Vec::new();
    for &size in sizes {
        let mut state = State::default();
        for (index, picture) in pictures.iter().enumerate() {
            let kind = if index == 0 { FrameKind::Key } else { FrameKind::Auto };
            let analysis = Analysis::new(&state, picture, &Parameters { frame_kind: kind, ..Parameters::default() });
            let budget = if index == 0 { 4.0 * size } else { size };
            let encoded: Encoded = analysis.encode_to_fit(budget as usize);
            let fill = encoded.frame.len() as f64 / budget;
            if index > 0 && (0.3..=1.0).contains(&fill) {
                fills.push(fill);
            }
            state = encoded.state;
        }
    }
    fills
}

impl ClipModel {
    /// Codes `pictures`, taken every `frame_interval`, at many quantizers and says how their sizes and qualities behave.
    /// Takes minutes for a few hundred pictures; `progress` hears the share that is done.
    ///
    /// # Errors
    /// If the pictures are too small to measure their quality.
    ///
    /// # Panics
    /// If there are no pictures.
    pub fn fit(
        name: &str,
        pictures: &[Picture],
        frame_interval: Duration,
        mut progress: impl FnMut(f64),
    ) -> Result<Self, QualityError> {
        let first = pictures.first().expect("a clip has pictures");
        let samples = (first.width() * first.height()) as f64;
        let steps = (QUANTIZERS.len() + BUDGETED.len()) as f64;
        let mut points: Vec<ModelPoint> = Vec::new();
        let mut residuals: Vec<Vec<f64>> = Vec::new();
        let mut budgets = Vec::new();
        for (done, quantizer) in QUANTIZERS.into_iter().enumerate() {
            let coded = code(pictures, quantizer)?;
            let middle = mean(&coded.inter).unwrap_or(0.0);
            let mut point = ModelPoint {
                quantizer,
                inter_bits: 8.0 * libm::exp(middle) / samples,
                key_bits: 8.0 * coded.key as f64 / samples,
                ssim_db: ssim_db(coded.ssim),
            };
            if let Some(last) = points.last() {
                point.inter_bits = point.inter_bits.min(LEAST_FALL * last.inter_bits);
                point.key_bits = point.key_bits.min(LEAST_FALL * last.key_bits);
                point.ssim_db = point.ssim_db.min(last.ssim_db);
            }
            points.push(point);
            if TYPICAL.contains(&quantizer) {
                residuals.push(coded.inter.iter().map(|value| value - middle).collect());
            }
            if BUDGETED.contains(&quantizer) {
                budgets.push(libm::exp(middle));
            }
            progress((done + 1) as f64 / steps);
        }
        let count = residuals.first().map_or(0, Vec::len);
        let difficulty: Vec<f64> = (0..count)
            .map(|index| residuals.iter().map(|of| of[index]).sum::<f64>() / residuals.len() as f64)
            .collect();
        let in_a_second = ((1.0 / frame_interval.as_secs_f64()).round() as usize).max(1);
        let seconds: Vec<f64> = difficulty.chunks_exact(in_a_second).filter_map(mean).collect();
        let second_deviation = deviation(&seconds);
        let neighbours: f64 = seconds.windows(2).map(|pair| pair[0] * pair[1]).sum::<f64>()
            / seconds.iter().map(|value| value * value).sum::<f64>().max(1e-12);
        let within: Vec<f64> = difficulty
            .chunks_exact(in_a_second)
            .zip(&seconds)
            .flat_map(|(values, middle)| values.iter().map(move |value| value - middle))
            .collect();
        // What differs between quantizers is noise of single frames too.
        let apart: Vec<f64> =
            residuals.iter().flat_map(|of| of.iter().zip(&difficulty).map(|(value, common)| value - common)).collect();
        let frame_deviation = libm::hypot(deviation(&within), deviation(&apart));
        let fills = fills(pictures, &budgets);
        progress(1.0);
        Ok(Self {
            name: name.to_owned(),
            points,
            second_deviation: second_deviation.clamp(0.0, 2.0),
            correlation_seconds: (-1.0 / libm::log(neighbours.clamp(0.05, 0.95))).clamp(0.01, 1e3),
            frame_deviation: frame_deviation.clamp(0.0, 2.0),
            fill: mean(&fills).unwrap_or(0.95),
            fill_deviation: deviation(&fills),
        })
    }
}
