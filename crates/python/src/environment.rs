//! Environments for learning agents, as NumPy arrays.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use numpy::{PyArray1, PyArray2, PyArrayDyn, PyArrayMethods, PyReadonlyArray1, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use lockstep_call::{ClipCurves, CodecModel, MenuMode};
use lockstep_configuration::{CodecKind, OptionValue, open_trace};
use lockstep_control::RateBounds;
use lockstep_control::learned::ObservationKind;
use lockstep_media::FrameRate;
use lockstep_sim::environment::{self as simulated, AgentPlace, EnvironmentSetting, FEATURES};
use lockstep_sim::modelled::{FeedbackInterval, ModelledCodec};
use lockstep_units::Bitrate;

/// The message of an error that came of what a caller gave.
pub(crate) fn invalid(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

pub(crate) fn milliseconds(value: f64, what: &str) -> PyResult<Duration> {
    if (0.0..=60_000.0).contains(&value) {
        Ok(Duration::from_secs_f64(value / 1e3))
    } else {
        Err(invalid(format!("{what} is {value} ms, which is not between 0 and 60000")))
    }
}

/// Of the least times between two acknowledgements, of which calls take one each.
pub(crate) fn feedback_intervals(all_ms: &[f64]) -> PyResult<Vec<FeedbackInterval>> {
    let interval = |&value: &f64| milliseconds(value, "a feedback interval").map(FeedbackInterval::aggregated);
    all_ms.iter().map(interval).collect()
}

type Arrays<'py> = (Bound<'py, PyArray2<f64>>, Bound<'py, PyArray1<bool>>);

/// Many modelled calls, each controlled by an agent, stepped together without the interpreter's lock.
#[pyclass(module = "lockstep._lockstep")]
pub struct VectorEnvironment(Mutex<simulated::VectorEnvironment>);

#[pymethods]
impl VectorEnvironment {
    #[new]
    #[pyo3(signature = (
        count, traces, *, seed, threads, codec, model, clips, width, height, frames_per_second, step_ms, steps, random_start,
        delay_ms, queue_packets, loss, at_sender, feedback_ms, rates_bps, observation
    ))]
    #[allow(clippy::too_many_arguments)] // Python calls it with names
    fn new(
        py: Python<'_>,
        count: usize,
        traces: Vec<String>,
        seed: u64,
        threads: usize,
        codec: &str,
        model: Option<&str>,
        clips: Option<Vec<String>>,
        width: usize,
        height: usize,
        frames_per_second: f64,
        step_ms: f64,
        steps: u32,
        random_start: bool,
        delay_ms: (f64, f64),
        queue_packets: (u32, u32),
        loss: (f64, f64),
        at_sender: bool,
        feedback_ms: Vec<f64>,
        rates_bps: (u64, u64, u64),
        observation: Option<&str>,
    ) -> PyResult<Self> {
        if !(1..=16_383).contains(&width) || !(1..=16_383).contains(&height) {
            return Err(invalid(format!("pictures of {width}x{height} are not between 1x1 and 16383x16383")));
        }
        if !(1.0..=1_000.0).contains(&frames_per_second) {
            return Err(invalid(format!("{frames_per_second} frames a second are not between 1 and 1000")));
        }
        let model = model.map_or_else(CodecModel::built_in, CodecModel::from_json).map_err(invalid)?;
        let curves = match clips {
            Some(names) => names
                .iter()
                .map(|name| model.clip(name).map(|clip| Arc::new(ClipCurves::new(clip, width, height))))
                .collect::<Result<_, _>>()
                .map_err(invalid)?,
            None => model.clips.iter().map(|clip| Arc::new(ClipCurves::new(clip, width, height))).collect(),
        };
        let traces = traces.iter().map(|text| open_trace(text)).collect::<anyhow::Result<_>>();
        let traces = traces.map_err(|error| invalid(format!("{error:#}")))?;
        let [initial, least, most] = [rates_bps.0, rates_bps.1, rates_bps.2].map(Bitrate::from_bps);
        let mut setting = EnvironmentSetting {
            random_start,
            delay: milliseconds(delay_ms.0, "the least delay")?..=milliseconds(delay_ms.1, "the most delay")?,
            queue_packets: queue_packets.0..=queue_packets.1,
            loss: loss.0..=loss.1,
            step: milliseconds(step_ms, "the step")?,
            steps,
            place: if at_sender { AgentPlace::Sender } else { AgentPlace::Receiver },
            observation: observation.map(str::parse::<ObservationKind>).transpose().map_err(invalid)?,
            bounds: RateBounds { initial, least, most },
            ..EnvironmentSetting::new(traces, curves)
        };
        // In thousandths: 29.97 is as near to 30000/1001 as anybody asks for.
        let frame_rate = FrameRate::new((frames_per_second * 1e3).round() as u32, 1_000);
        setting.call.frame_rate =
            frame_rate.ok_or_else(|| invalid(format!("{frames_per_second} pictures a second are none or too many")))?;
        setting.call.codec =
            match CodecKind::from_word(codec).map_err(|problem| invalid(format!("codec: {problem}")))? {
                CodecKind::Functional => ModelledCodec::Functional(MenuMode::default()),
                CodecKind::Conventional => ModelledCodec::Conventional,
            };
        setting.feedback = feedback_intervals(&feedback_ms)?;
        py.detach(|| simulated::VectorEnvironment::new(setting, count, seed, threads))
            .map(|vector| Self(Mutex::new(vector)))
            .map_err(invalid)
    }

    /// Names and meanings of the features, in their order.
    #[staticmethod]
    fn features() -> Vec<(&'static str, &'static str)> {
        FEATURES.iter().map(|feature| (feature.name, feature.meaning)).collect()
    }

    fn __len__(&mut self) -> usize {
        self.vector().len()
    }

    /// Begins new episodes, all or those of `mask`; gives the features, one row an environment, and who is done.
    #[pyo3(signature = (seed=None, mask=None))]
    fn reset<'py>(
        &mut self,
        py: Python<'py>,
        seed: Option<u64>,
        mask: Option<PyReadonlyArray1<'py, bool>>,
    ) -> PyResult<Arrays<'py>> {
        let mask = mask.map(|mask| mask.as_array().to_vec());
        py.detach(|| self.vector().reset(seed, mask.as_deref())).map_err(invalid)?;
        self.arrays(py)
    }

    /// What a model sees of each environment; the first axis is that of environments. Without an observation it has no
    /// numbers.
    fn observations<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyArrayDyn<f32>>> {
        let vector = self.vector();
        let shape = [&[vector.len()], vector.observation_shape()].concat();
        let observed = PyArrayDyn::<f32>::zeros(py, shape, false);
        vector.write_observations(observed.readwrite().as_slice_mut().map_err(invalid)?);
        Ok(observed)
    }

    /// Sets the rates, bit/s, and lets a step pass; gives the features, one row an environment, and who is done.
    fn step<'py>(&mut self, py: Python<'py>, rates: PyReadonlyArray1<'py, f64>) -> PyResult<Arrays<'py>> {
        if rates.ndim() != 1 {
            return Err(invalid("the rates are no row of numbers"));
        }
        let rates = rates.as_array().to_vec();
        py.detach(|| self.vector().step(&rates)).map_err(invalid)?;
        self.arrays(py)
    }
}

impl VectorEnvironment {
    fn vector(&mut self) -> &mut simulated::VectorEnvironment {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    fn arrays<'py>(&mut self, py: Python<'py>) -> PyResult<Arrays<'py>> {
        let count = self.vector().len();
        let features = PyArray2::<f64>::zeros(py, [count, FEATURES.len()], false);
        let done = PyArray1::<bool>::zeros(py, count, false);
        {
            let (mut features, mut done) = (features.readwrite(), done.readwrite());
            self.vector().write(features.as_slice_mut().map_err(invalid)?, done.as_slice_mut().map_err(invalid)?);
        }
        Ok((features, done))
    }
}
