//! Measures of scores and reports, for pictures and times from other sources than a call.

use std::time::Duration;

use numpy::PyReadonlyArray2;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use lockstep_measure::FreezeDetector;
use lockstep_media::{ssim, text_ssim};
use lockstep_units::Timestamp;
use lockstep_vp8::Picture;

/// A picture from its luma plane, an array of rows by columns. SSIM ignores chroma.
fn luma(samples: &PyReadonlyArray2<'_, u8>) -> PyResult<Picture> {
    let view = samples.as_array();
    let (height, width) = view.dim();
    let mut planes: Vec<u8> = view.iter().copied().collect();
    planes.resize(width * height + 2 * width.div_ceil(2) * height.div_ceil(2), 128);
    Picture::from_i420(width, height, planes).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Mean SSIM of two luma planes (arrays of uint8, rows by columns), at most 1. Raises ValueError if their sizes differ.
#[pyfunction]
#[pyo3(name = "ssim")]
pub fn luma_ssim(py: Python<'_>, first: PyReadonlyArray2<'_, u8>, second: PyReadonlyArray2<'_, u8>) -> PyResult<f64> {
    let (first, second) = (luma(&first)?, luma(&second)?);
    py.detach(|| ssim(&first, &second)).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Mean SSIM of the windows in which the first luma plane has text or other sharp edges; None if it has none. Raises
/// ValueError if the sizes differ.
#[pyfunction]
#[pyo3(name = "text_ssim")]
pub fn luma_text_ssim(
    py: Python<'_>,
    first: PyReadonlyArray2<'_, u8>,
    second: PyReadonlyArray2<'_, u8>,
) -> PyResult<Option<f64>> {
    let (first, second) = (luma(&first)?, luma(&second)?);
    py.detach(|| text_ssim(&first, &second)).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Number of freezes and their total duration (s). `times` are the display times (s, in order), and `frame_interval` is
/// that of the source.
#[pyfunction]
pub fn freezes(times: Vec<f64>, frame_interval: f64) -> PyResult<(usize, f64)> {
    let seconds = |value: f64| {
        Duration::try_from_secs_f64(value)
            .map_err(|_| PyValueError::new_err(format!("expected a time in seconds from 0 on, got {value}")))
    };
    let mut detector = FreezeDetector::new(seconds(frame_interval)?);
    let (mut count, mut frozen) = (0, Duration::ZERO);
    for at in times {
        if let Some(duration) = detector.shown(Timestamp::ZERO + seconds(at)?)
            && duration.frozen
        {
            count += 1;
            frozen += duration.length;
        }
    }
    Ok((count, frozen.as_secs_f64()))
}
