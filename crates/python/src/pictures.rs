//! Calls that an agent controls picture by picture, as NumPy arrays.

use std::sync::{Arc, Mutex, PoisonError};

use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray2};
use pyo3::prelude::*;

use lockstep_call::{ClipCurves, CodecModel};
use lockstep_configuration::open_trace;
use lockstep_control::learned::{OBSERVATIONS, OBSERVED};
use lockstep_media::FrameRate;
use lockstep_sim::environment::{self as simulated, EnvironmentSetting, OUTCOMES};
use lockstep_sim::modelled::FeedbackInterval;

use crate::environment::{invalid, milliseconds};

type Arrays<'py> = (Bound<'py, PyArray2<f32>>, Bound<'py, PyArray2<f32>>, Bound<'py, PyArray1<bool>>);

/// Many modelled calls, stepped together, a picture at a time.
#[pyclass(module = "lockstep._lockstep")]
pub struct PictureVectorEnvironment(Mutex<simulated::PictureVectorEnvironment>);

#[pymethods]
impl PictureVectorEnvironment {
    #[new]
    #[pyo3(signature = (count, traces, *, seed, threads, sizes, frame_rates, steps, delay_ms, queue_packets, loss))]
    #[allow(clippy::too_many_arguments)] // Python calls it with names
    fn new(
        py: Python<'_>,
        count: usize,
        traces: Vec<String>,
        seed: u64,
        threads: usize,
        sizes: Vec<(usize, usize)>,
        frame_rates: Vec<u32>,
        steps: u32,
        delay_ms: (f64, f64),
        queue_packets: (u32, u32),
        loss: (f64, f64),
    ) -> PyResult<Self> {
        if sizes.iter().any(|(width, height)| !(1..=16_383).contains(width) || !(1..=16_383).contains(height)) {
            return Err(invalid("a picture size is not between 1x1 and 16383x16383"));
        }
        let model = CodecModel::built_in().map_err(invalid)?;
        let clips = sizes
            .iter()
            .flat_map(|&(width, height)| model.clips.iter().map(move |clip| (clip, width, height)))
            .map(|(clip, width, height)| Arc::new(ClipCurves::new(clip, width, height)))
            .collect();
        let traces = traces.iter().map(|text| open_trace(text)).collect::<anyhow::Result<_>>();
        let traces = traces.map_err(|error| invalid(format!("{error:#}")))?;
        let rate = |rate: u32| {
            FrameRate::new(rate, 1).ok_or_else(|| invalid(format!("{rate} pictures a second are none or too many")))
        };
        let frame_rates = frame_rates.into_iter().map(rate).collect::<PyResult<Vec<_>>>()?;
        let mut setting = EnvironmentSetting {
            delay: milliseconds(delay_ms.0, "the least delay")?..=milliseconds(delay_ms.1, "the most delay")?,
            queue_packets: queue_packets.0..=queue_packets.1,
            loss: loss.0..=loss.1,
            steps,
            ..EnvironmentSetting::new(traces, clips)
        };
        setting.call.feedback = FeedbackInterval::EveryFragment;
        py.detach(|| simulated::PictureVectorEnvironment::new(setting, frame_rates, count, seed, threads))
            .map(|vector| Self(Mutex::new(vector)))
            .map_err(invalid)
    }

    /// What is observed, in its order.
    #[staticmethod]
    fn observations() -> Vec<&'static str> {
        OBSERVATIONS.to_vec()
    }

    /// What a step tells of its outcome, in its order.
    #[staticmethod]
    fn outcomes() -> Vec<&'static str> {
        OUTCOMES.to_vec()
    }

    fn __len__(&mut self) -> usize {
        self.vector().len()
    }

    /// What is observed of each call, what came of the last step, and who is done.
    fn look<'py>(&mut self, py: Python<'py>) -> PyResult<Arrays<'py>> {
        let count = self.vector().len();
        let observations = PyArray2::<f32>::zeros(py, [count, OBSERVED], false);
        let outcomes = PyArray2::<f32>::zeros(py, [count, OUTCOMES.len()], false);
        let done = PyArray1::<bool>::zeros(py, count, false);
        {
            let mut arrays = (observations.readwrite(), outcomes.readwrite(), done.readwrite());
            self.vector().write(
                arrays.0.as_slice_mut().map_err(invalid)?,
                arrays.1.as_slice_mut().map_err(invalid)?,
                arrays.2.as_slice_mut().map_err(invalid)?,
            );
        }
        Ok((observations, outcomes, done))
    }

    /// Decides for the next picture of each call, a row a call, and lets it pass; then as [`Self::look`].
    fn step<'py>(&mut self, py: Python<'py>, decisions: PyReadonlyArray2<'py, f32>) -> PyResult<Arrays<'py>> {
        let decisions: Vec<f32> = decisions.as_array().iter().copied().collect();
        py.detach(|| self.vector().step(&decisions)).map_err(invalid)?;
        self.look(py)
    }
}

impl PictureVectorEnvironment {
    fn vector(&mut self) -> &mut simulated::PictureVectorEnvironment {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}
