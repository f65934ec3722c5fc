//! The measures of shown pictures: those of scores and reports, for pictures and times that were not logged by a call.

use std::time::Duration;

use numpy::PyReadonlyArray2;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use lockstep_measure::FreezeDetector;
use lockstep_media::ssim;
use lockstep_units::Timestamp;
use lockstep_vp8::Picture;

/// The luma of a picture: rows by columns, of eight bits, 4:2:0's chroma left out as SSIM does not look at it.
fn luma(samples: &PyReadonlyArray2<'_, u8>) -> PyResult<Picture> {
    let view = samples.as_array();
    let (height, width) = view.dim();
    let mut planes: Vec<u8> = view.iter().copied().collect();
    planes.resize(width * height + 2 * width.div_ceil(2) * height.div_ceil(2), 128);
    Picture::from_i420(width, height, planes).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// The mean SSIM of two lumas (arrays of uint8, rows by columns), at most 1; a ValueError if their sizes differ.
#[pyfunction]
#[pyo3(name = "ssim")]
pub fn luma_ssim(py: Python<'_>, first: PyReadonlyArray2<'_, u8>, second: PyReadonlyArray2<'_, u8>) -> PyResult<f64> {
    let (first, second) = (luma(&first)?, luma(&second)?);
    py.detach(|| ssim(&first, &second)).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// How often pictures that were shown at these times (s, in order) stood still, and how long together (s), if the source
/// gives one every `frame_interval` seconds.
#[pyfunction]
pub fn freezes(times: Vec<f64>, frame_interval: f64) -> PyResult<(usize, f64)> {
    let seconds = |value: f64| {
        Duration::try_from_secs_f64(value).map_err(|_| PyValueError::new_err(format!("{value} s is no time")))
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
