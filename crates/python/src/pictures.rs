//! Lessons for Lockstep's own controller, and what comes of departures from its rule, as NumPy arrays.

use std::sync::Arc;

use numpy::{PyArray3, PyArrayMethods};
use pyo3::prelude::*;

use lockstep_control::learned::{ADJUSTMENT, HORIZONS, LEVELS, MODEL_STATE, Model, OBSERVATIONS, OBSERVED};
use lockstep_media::FrameRate;
use lockstep_sim::environment::{LessonSetting, TriedPicture};

use crate::environment::feedback_intervals;
use crate::paths::{self, Paths, invalid, milliseconds};

type Arrays<'py> = (Bound<'py, PyArray3<f32>>, Bound<'py, PyArray3<f32>>);

/// What is seen, in its order; for which times ahead (s) and quantiles bytes are forecast; how much is remembered; and by how
/// many numbers a rule may be departed from.
#[pyfunction]
pub fn lesson_names() -> (Vec<&'static str>, Vec<f64>, Vec<f64>, usize, usize) {
    (OBSERVATIONS.to_vec(), HORIZONS.to_vec(), LEVELS.to_vec(), MODEL_STATE, ADJUSTMENT)
}

/// From what calls are drawn; the last argument is of whoever decides.
#[allow(clippy::too_many_arguments)] // Python calls it with names
fn lesson_setting(
    traces: &[String],
    sizes: &[(usize, usize)],
    frame_rates: Vec<u32>,
    pictures: u32,
    delay_ms: (f64, f64),
    queue_packets: (u32, u32),
    loss: (f64, f64),
    jitter_ms: (f64, f64),
    feedback_ms: &[f64],
    model: Option<Arc<Model>>,
) -> PyResult<LessonSetting> {
    let paths = Paths::new(traces, delay_ms, queue_packets, loss)?;
    let rate = |rate: u32| {
        FrameRate::new(rate, 1).ok_or_else(|| invalid(format!("{rate} pictures a second are none or too many")))
    };
    Ok(LessonSetting {
        traces: paths.traces,
        clips: paths::clips(None, None, sizes)?,
        frame_rates: frame_rates.into_iter().map(rate).collect::<PyResult<_>>()?,
        delay: paths.delay,
        queue_packets: paths.queue_packets,
        loss: paths.loss,
        jitter: milliseconds(jitter_ms.0, "the least jitter")?..=milliseconds(jitter_ms.1, "the most jitter")?,
        feedback: feedback_intervals(feedback_ms)?,
        pictures,
        model,
    })
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
    let model = model.map(|bytes| Model::from_bytes(&bytes)).transpose().map_err(invalid)?.map(Arc::new);
    let setting = lesson_setting(
        &traces,
        &sizes,
        frame_rates,
        pictures,
        delay_ms,
        queue_packets,
        loss,
        jitter_ms,
        &feedback_ms,
        model,
    )?;
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

type Trials<'py> = (
    Bound<'py, PyArray3<f32>>,
    Bound<'py, PyArray3<f32>>,
    Bound<'py, PyArray3<f32>>,
    Bound<'py, PyArray3<f32>>,
    Bound<'py, PyArray3<f32>>,
);

/// What is known of a tried picture's end, in the order of the last array of [`record_trials`].
const OUTCOMES: usize = 4;

/// Calls in which Lockstep's own controller, deciding by `model`, departs from its rule at random (with a standard deviation of
/// `spread`), call by call and picture by picture: what is seen, what was right to say, what is remembered, what was tried, and
/// what came of it: whether the rule decided (1, else 0), for how many pictures its frame was shown, their SSIM (dB) and their
/// delays (s) in all. No numbers (NaN) where a call had fewer pictures, or nothing came of them any more.
#[pyfunction]
#[pyo3(signature = (count, traces, *, seed, threads, sizes, frame_rates, pictures, delay_ms, queue_packets, loss, jitter_ms, feedback_ms, model, spread))]
#[allow(clippy::too_many_arguments)] // Python calls it with names
pub fn record_trials<'py>(
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
    model: Vec<u8>,
    spread: f32,
) -> PyResult<Trials<'py>> {
    let model = Arc::new(Model::from_bytes(&model).map_err(invalid)?);
    let setting = lesson_setting(
        &traces,
        &sizes,
        frame_rates,
        pictures,
        delay_ms,
        queue_packets,
        loss,
        jitter_ms,
        &feedback_ms,
        None,
    )?;
    if !(0.0..=10.0).contains(&spread) {
        return Err(invalid(format!("a spread of {spread} is not between 0 and 10")));
    }
    let calls = py.detach(|| setting.try_out(&model, spread, count, seed, threads)).map_err(invalid)?;
    let array = |width: usize, row: &dyn Fn(&TriedPicture) -> Vec<f32>| -> PyResult<Bound<'py, PyArray3<f32>>> {
        let array = PyArray3::<f32>::zeros(py, [count, pictures as usize, width], false);
        let mut numbers = array.readwrite();
        let numbers = numbers.as_slice_mut().map_err(invalid)?;
        numbers.fill(f32::NAN);
        for (call, tried) in calls.iter().enumerate() {
            for (place, picture) in tried.iter().take(pictures as usize).enumerate() {
                numbers[(call * pictures as usize + place) * width..][..width].copy_from_slice(&row(picture));
            }
        }
        Ok(array)
    };
    Ok((
        array(OBSERVED, &|picture| picture.lesson.seen.to_vec())?,
        array(HORIZONS.len(), &|picture| picture.lesson.right.to_vec())?,
        array(MODEL_STATE, &|picture| picture.trial.remembered.to_vec())?,
        array(ADJUSTMENT, &|picture| picture.trial.tried.to_vec())?,
        array(OUTCOMES, &|picture| {
            let decides = f32::from(u8::from(picture.trial.counts));
            vec![decides, picture.shown_for as f32, picture.ssim_db as f32, picture.delay as f32]
        })?,
    ))
}
