//! Training samples for Lockstep's own controller as NumPy arrays.

use std::sync::Arc;

use numpy::{PyArray3, PyArrayMethods};
use pyo3::prelude::*;

use lockstep_control::learned::{HORIZONS, LEVELS, MODEL_STATE, OBSERVATIONS, OBSERVED};
use lockstep_media::FrameRate;
use lockstep_nn::Model;
use lockstep_sim::environment as simulated;

use crate::environment::feedback_intervals;
use crate::paths::{self, Paths, invalid, milliseconds};

type Array<'py> = Bound<'py, PyArray3<f32>>;

/// Names of the inputs in order, forecast horizons (s), forecast quantiles, and size of the memory.
#[pyfunction]
pub fn training_layout() -> (Vec<&'static str>, Vec<f64>, Vec<f64>, usize) {
    (OBSERVATIONS.to_vec(), HORIZONS.to_vec(), LEVELS.to_vec(), MODEL_STATE)
}

/// Distribution of modelled calls of Lockstep's own controller.
#[pyclass(module = "lockstep._lockstep", frozen)]
pub struct TrainingSetting(simulated::TrainingSetting);

fn model_of(bytes: &[u8]) -> PyResult<Arc<Model>> {
    Model::from_bytes(bytes).map(Arc::new).map_err(invalid)
}

impl TrainingSetting {
    /// An array of call by picture by `width` numbers. `row` gives the numbers; missing pictures are NaN.
    fn array<'py, Row>(
        &self,
        py: Python<'py>,
        calls: &[Vec<Row>],
        width: usize,
        row: impl Fn(&Row, &mut [f32]),
    ) -> PyResult<Array<'py>> {
        let pictures = self.0.pictures as usize;
        let array = PyArray3::<f32>::zeros(py, [calls.len(), pictures, width], false);
        let mut numbers = array.readwrite();
        let numbers = numbers.as_slice_mut().map_err(invalid)?;
        numbers.fill(f32::NAN);
        for (call, rows) in calls.iter().enumerate() {
            for (place, one) in rows.iter().enumerate() {
                row(one, &mut numbers[(call * pictures + place) * width..][..width]);
            }
        }
        Ok(array)
    }
}

#[pymethods]
impl TrainingSetting {
    #[new]
    #[pyo3(signature = (traces, *, sizes, frame_rates, pictures, delay_ms, queue_packets, loss, jitter_ms, feedback_ms))]
    #[allow(clippy::too_many_arguments)] // Python passes keyword arguments.
    fn new(
        traces: Vec<String>,
        sizes: Vec<(usize, usize)>,
        frame_rates: Vec<u32>,
        pictures: u32,
        delay_ms: (f64, f64),
        queue_packets: (u32, u32),
        loss: (f64, f64),
        jitter_ms: (f64, f64),
        feedback_ms: Vec<f64>,
    ) -> PyResult<Self> {
        let clips = paths::clips(None, None, &sizes)?;
        let paths = Paths::new(&traces, delay_ms, queue_packets, loss)?;
        let rate = |rate: u32| {
            FrameRate::new(rate, 1)
                .ok_or_else(|| invalid(format!("expected 1 to 1000 pictures per second, got {rate}")))
        };
        Ok(Self(simulated::TrainingSetting {
            traces: paths.traces,
            clips,
            frame_rates: frame_rates.into_iter().map(rate).collect::<PyResult<_>>()?,
            delay: paths.delay,
            queue_packets: paths.queue_packets,
            loss: paths.loss,
            jitter: milliseconds(jitter_ms.0, "the least jitter")?..=milliseconds(jitter_ms.1, "the most jitter")?,
            feedback: feedback_intervals(&feedback_ms)?,
            pictures,
        }))
    }

    /// Inputs of the controller in `count` calls, by call and picture, and the right outputs. Missing pictures are NaN.
    /// Without a model, Sprout controls the calls.
    #[pyo3(signature = (count, *, seed, threads, model=None))]
    fn record<'py>(
        &self,
        py: Python<'py>,
        count: usize,
        seed: u64,
        threads: usize,
        model: Option<Vec<u8>>,
    ) -> PyResult<(Array<'py>, Array<'py>)> {
        let model = model.as_deref().map(model_of).transpose()?;
        let calls = py.detach(|| self.0.record(model.as_ref(), count, seed, threads)).map_err(invalid)?;
        Ok((
            self.array(py, &calls, OBSERVED, |sample, row| row.copy_from_slice(&sample.seen))?,
            self.array(py, &calls, HORIZONS.len(), |sample, row| row.copy_from_slice(&sample.outputs))?,
        ))
    }
}
