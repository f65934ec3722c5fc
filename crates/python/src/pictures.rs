//! Lessons for Lockstep's own controller, as NumPy arrays.

use std::sync::Arc;

use numpy::{PyArray3, PyArrayMethods};
use pyo3::prelude::*;

use lockstep_control::learned::{HORIZONS, LEVELS, MODEL_STATE, Model, OBSERVATIONS, OBSERVED};
use lockstep_media::FrameRate;
use lockstep_sim::environment::LessonSetting;

use crate::environment::feedback_intervals;
use crate::paths::{self, Paths, invalid, milliseconds};

type Arrays<'py> = (Bound<'py, PyArray3<f32>>, Bound<'py, PyArray3<f32>>);

/// What is seen, in its order; for which times ahead (s) and quantiles bytes are forecast; and how much is remembered.
#[pyfunction]
pub fn lesson_names() -> (Vec<&'static str>, Vec<f64>, Vec<f64>, usize) {
    (OBSERVATIONS.to_vec(), HORIZONS.to_vec(), LEVELS.to_vec(), MODEL_STATE)
}

/// What Lockstep's own controller sees in modelled calls, call by call and picture by picture, and what would have been
/// right to say; no numbers (NaN) where a call had fewer pictures. Without a model, Sprout controls the calls.
#[pyfunction]
#[pyo3(signature = (count, traces, *, seed, threads, sizes, frame_rates, pictures, delay_ms, queue_packets, loss, jitter_ms, feedback_ms, model=None))]
#[allow(clippy::too_many_arguments)] // Python calls it with names
pub fn record_lessons<'py>(
    py: Python<'py>,
    count: usize,
    traces: Vec<String>,
    seed: u64,
    threads: usize,
    sizes: Vec<(usize, usize)>,
    frame_rates: Vec<u32>,
    pictures: u32,
    delay_ms: (f64, f64),
    queue_packets: (u32, u32),
    loss: (f64, f64),
    jitter_ms: (f64, f64),
    feedback_ms: Vec<f64>,
    model: Option<Vec<u8>>,
) -> PyResult<Arrays<'py>> {
    let clips = paths::clips(None, None, &sizes)?;
    let paths = Paths::new(&traces, delay_ms, queue_packets, loss)?;
    let rate = |rate: u32| {
        FrameRate::new(rate, 1).ok_or_else(|| invalid(format!("{rate} pictures a second are none or too many")))
    };
    let setting = LessonSetting {
        traces: paths.traces,
        clips,
        frame_rates: frame_rates.into_iter().map(rate).collect::<PyResult<_>>()?,
        delay: paths.delay,
        queue_packets: paths.queue_packets,
        loss: paths.loss,
        jitter: milliseconds(jitter_ms.0, "the least jitter")?..=milliseconds(jitter_ms.1, "the most jitter")?,
        feedback: feedback_intervals(&feedback_ms)?,
        pictures,
        model: model.map(|bytes| Model::from_bytes(&bytes)).transpose().map_err(invalid)?.map(Arc::new),
    };
    let calls = py.detach(|| setting.record(count, seed, threads)).map_err(invalid)?;
    let seen = PyArray3::<f32>::zeros(py, [count, pictures as usize, OBSERVED], false);
    let right = PyArray3::<f32>::zeros(py, [count, pictures as usize, HORIZONS.len()], false);
    {
        let (mut seen, mut right) = (seen.readwrite(), right.readwrite());
        let (seen, right) = (seen.as_slice_mut().map_err(invalid)?, right.as_slice_mut().map_err(invalid)?);
        seen.fill(f32::NAN);
        right.fill(f32::NAN);
        for (call, lessons) in calls.iter().enumerate() {
            for (picture, lesson) in lessons.iter().enumerate() {
                let row = call * pictures as usize + picture;
                seen[row * OBSERVED..][..OBSERVED].copy_from_slice(&lesson.seen);
                right[row * HORIZONS.len()..][..HORIZONS.len()].copy_from_slice(&lesson.right);
            }
        }
    }
    Ok((seen, right))
}
