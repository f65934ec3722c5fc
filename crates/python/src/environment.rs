//! Environments for reinforcement learning, with NumPy arrays.

use std::fmt::Display;
use std::sync::{Mutex, MutexGuard, PoisonError};

use numpy::{PyArray1, PyArray2, PyArrayDyn, PyArrayMethods, PyReadonlyArray1, PyUntypedArrayMethods};
use pyo3::prelude::*;

use lockstep_call::MenuMode;
use lockstep_configuration::{CodecKind, OptionValue};
use lockstep_control::RateBounds;
use lockstep_control::learned::ObservationKind;
use lockstep_media::FrameRate;
use lockstep_sim::environment::{self as simulated, AgentPlace, EnvironmentSetting, FEATURES, Seeds};
use lockstep_sim::modelled::{FeedbackInterval, ModelledCodec};
use lockstep_units::Bitrate;

use crate::paths::{self, Paths, invalid, milliseconds};

/// Minimum times between two acknowledgements. Each call draws one.
pub(crate) fn feedback_intervals(all_ms: &[f64]) -> PyResult<Vec<FeedbackInterval>> {
    let interval = |&value: &f64| milliseconds(value, "a feedback interval").map(FeedbackInterval::aggregated);
    all_ms.iter().map(interval).collect()
}

type Arrays<'py> = (Bound<'py, PyArray2<f64>>, Bound<'py, PyArray1<bool>>);

/// Many modelled calls, each controlled by an agent. They advance together without the interpreter's lock. Threads of
/// Python take turns.
#[pyclass(module = "lockstep._lockstep", frozen)]
pub struct VectorEnvironment(Mutex<simulated::VectorEnvironment>);

/// Argument for the seed of a reset.
#[derive(FromPyObject)]
enum SeedArgument {
    /// One seed, from which each environment derives its own.
    One(u64),
    /// One seed per environment. An environment without a seed keeps its generator.
    Each(Vec<Option<u64>>),
}

#[pymethods]
impl VectorEnvironment {
    #[new]
    #[pyo3(signature = (
        count, traces, *, seed, threads, codec, model, clips, width, height, frames_per_second, step_ms, steps, random_start,
        delay_ms, queue_packets, loss, at_sender, feedback_ms, rates_bps, observation, shared, cross_traffic
    ))]
    #[allow(clippy::too_many_arguments)] // Python passes keyword arguments.
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
        shared: f64,
        cross_traffic: Vec<String>,
    ) -> PyResult<Self> {
        if !(1.0..=1_000.0).contains(&frames_per_second) {
            return Err(invalid(format!("{frames_per_second} frames a second are not between 1 and 1000")));
        }
        let clips = paths::clips(model, clips.as_deref(), &[(width, height)])?;
        let paths = Paths::new(&traces, delay_ms, queue_packets, loss)?;
        let [initial, min, max] = [rates_bps.0, rates_bps.1, rates_bps.2].map(Bitrate::from_bps);
        let mut setting = EnvironmentSetting {
            random_start,
            delay: paths.delay,
            queue_packets: paths.queue_packets,
            loss: paths.loss,
            step: milliseconds(step_ms, "the step")?,
            steps,
            place: if at_sender { AgentPlace::Sender } else { AgentPlace::Receiver },
            observation: observation.map(str::parse::<ObservationKind>).transpose().map_err(invalid)?,
            bounds: RateBounds { initial, min, max },
            shared,
            cross_traffic: cross_traffic.iter().map(|name| name.parse()).collect::<Result<_, _>>().map_err(invalid)?,
            ..EnvironmentSetting::new(paths.traces, clips)
        };
        // A precision of 0.001 is enough: 29.97 stands for 30000/1001.
        let frame_rate = FrameRate::new((frames_per_second * 1e3).round() as u32, 1_000);
        setting.call.frame_rate = frame_rate
            .ok_or_else(|| invalid(format!("expected 1 to 1000 frames per second, got {frames_per_second}")))?;
        setting.call.codec =
            match CodecKind::from_word(codec).map_err(|problem| invalid(format!("codec: {problem}")))? {
                CodecKind::Functional => ModelledCodec::Functional(MenuMode::default()),
                CodecKind::Conventional => ModelledCodec::Conventional,
                CodecKind::Av1 => return Err(invalid("codec: `av1` has no model; use `functional`")),
            };
        setting.feedback = feedback_intervals(&feedback_ms)?;
        py.detach(|| simulated::VectorEnvironment::new(setting, count, seed, threads))
            .map(|vector| Self(Mutex::new(vector)))
            .map_err(invalid)
    }

    /// Names and meanings of the features, in order.
    #[staticmethod]
    fn features() -> Vec<(&'static str, &'static str)> {
        FEATURES.iter().map(|feature| (feature.name, feature.meaning)).collect()
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        py.detach(|| self.vector().len())
    }

    /// Starts new episodes in all environments or those of `mask`. The seed is one for all, one per environment, or
    /// none. Returns the features, one row per environment, and the flags of finished episodes.
    #[pyo3(signature = (seed=None, mask=None))]
    fn reset<'py>(
        &self,
        py: Python<'py>,
        seed: Option<SeedArgument>,
        mask: Option<PyReadonlyArray1<'py, bool>>,
    ) -> PyResult<Arrays<'py>> {
        let mask = mask.map(|mask| mask.as_array().to_vec());
        let seeds = match seed {
            None => Seeds::Continue,
            Some(SeedArgument::One(seed)) => Seeds::Derived(seed),
            Some(SeedArgument::Each(seeds)) => Seeds::Each(seeds),
        };
        self.changed(py, |vector| vector.reset(&seeds, mask.as_deref()))
    }

    /// Observation of a model per environment, with the environments on the first axis. NaN without an observation.
    fn observations<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArrayDyn<f32>>> {
        let (shape, observed) = py.detach(|| {
            let vector = self.vector();
            let shape = [&[vector.len()], vector.observation_shape()].concat();
            let mut observed = vec![0.0; shape.iter().product()];
            vector.write_observations(&mut observed);
            (shape, observed)
        });
        PyArray1::from_vec(py, observed).reshape(shape)
    }

    /// Sets the rates, bit/s, and advances by a step. Returns the features, one row per environment, and the flags of
    /// finished episodes.
    fn step<'py>(&self, py: Python<'py>, rates: PyReadonlyArray1<'py, f64>) -> PyResult<Arrays<'py>> {
        if rates.ndim() != 1 {
            return Err(invalid("expected a contiguous array of rates"));
        }
        let rates = rates.as_array().to_vec();
        self.changed(py, |vector| vector.step(&rates))
    }
}

impl VectorEnvironment {
    /// The caller must not hold the interpreter's lock: it may wait for a step of another thread.
    fn vector(&self) -> MutexGuard<'_, simulated::VectorEnvironment> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Features and flags after `change`.
    fn changed<'py, E: Display + Send>(
        &self,
        py: Python<'py>,
        change: impl FnOnce(&mut simulated::VectorEnvironment) -> Result<(), E> + Send,
    ) -> PyResult<Arrays<'py>> {
        let (features, done) = py
            .detach(|| {
                let mut vector = self.vector();
                change(&mut vector)?;
                let mut features = vec![0.0; vector.len() * FEATURES.len()];
                let mut done = vec![false; vector.len()];
                vector.write(&mut features, &mut done);
                Ok::<_, E>((features, done))
            })
            .map_err(invalid)?;
        let features = PyArray1::from_vec(py, features).reshape([done.len(), FEATURES.len()])?;
        Ok((features, PyArray1::from_vec(py, done)))
    }
}
