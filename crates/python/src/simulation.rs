//! `lockstep.simulate`.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Error;
use pyo3::create_exception;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyMapping, PyString};
use serde_json::{Number, Value};

use lockstep_configuration::{CallArguments, Observers, Simulated, SimulationStatus, document, simulate_with};
use lockstep_control::{Controllers, FailureReason};
use lockstep_hosted::{EstimatorHost, HostError, PacketReport, ProcessError};
use lockstep_measure::{KeptFrames, SharedSessionMeter};
use lockstep_units::{Bitrate, Timestamp};

use crate::controller::PyController;
use crate::table::Table;

create_exception!(
    lockstep,
    EstimatorError,
    PyRuntimeError,
    "The file of an AlphaRTC estimator is not there, cannot be loaded, raised something, took too long, ended its process \
     or answered what is no bandwidth; the message says which, in one line, with the file and where it happened."
);

/// Interval at which Python handles signals, such as that of Ctrl-C.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(100);

/// AlphaRTC estimator that is an object of this process.
struct ObjectHost {
    estimator: Py<PyAny>,
    /// `lockstep.alphartc.exchange`.
    exchange: Py<PyAny>,
}

impl EstimatorHost for ObjectHost {
    fn exchange(&mut self, now: Timestamp, packets: &[PacketReport]) -> Result<Bitrate, HostError> {
        let rate = Python::attach(|py| {
            let packets: Vec<_> = packets.iter().map(fields).collect();
            let rate = self.exchange.call1(py, (&self.estimator, packets, now.as_nanos()))?;
            rate.extract::<f64>(py)
        })?;
        Ok(Bitrate::from_bps(rate as u64))
    }
}

/// Fields of a packet for `lockstep.alphartc.worker.report`.
pub type Fields = (u64, u64, u64, u16, u64, u64);

/// Converts `packet` to these fields.
pub fn fields(packet: &PacketReport) -> Fields {
    (
        packet.arrived_at.as_nanos(),
        packet.send_time_ms,
        packet.arrival_time_ms,
        packet.sequence_number,
        packet.header_length,
        packet.payload_size,
    )
}

/// Raises the exception of a pending signal, such as `KeyboardInterrupt` for Ctrl-C.
fn signals() -> Result<(), HostError> {
    Ok(Python::attach(|py| py.check_signals())?)
}

/// Exception for an estimator's process that failed.
fn of_process(error: ProcessError, message: String) -> PyErr {
    match error {
        ProcessError::Interrupted(reason) => match reason.downcast::<PyErr>() {
            Ok(error) => *error,
            Err(_) => PyRuntimeError::new_err(message),
        },
        _ => EstimatorError::new_err(message),
    }
}

/// The Python exception that ended a simulation, else a matching exception with the message.
fn raised(error: Error) -> PyErr {
    let message = format!("{error:#}");
    let error = match error.downcast::<lockstep_sim::SimulationError>() {
        Ok(lockstep_sim::SimulationError::Stopped(reason)) => Error::from_boxed(reason),
        Ok(_) => return PyRuntimeError::new_err(message),
        Err(error) => error,
    };
    // The controller may have failed before the simulation began.
    match error.downcast::<FailureReason>() {
        Ok(reason) => match reason.downcast::<PyErr>() {
            Ok(error) => *error,
            Err(reason) => match reason.downcast::<ProcessError>() {
                Ok(error) => of_process(*error, message),
                Err(_) => PyRuntimeError::new_err(message),
            },
        },
        Err(error) => match error.downcast::<ProcessError>() {
            Ok(error) => of_process(error, message),
            Err(_) => PyValueError::new_err(message),
        },
    }
}

/// Converts a Python value to one of the table of options: flags, numbers, strings, paths, mappings, and iterables as
/// lists.
fn value(given: &Bound<'_, PyAny>) -> PyResult<Value> {
    if given.is_none() {
        return Ok(Value::Null);
    }
    if let Ok(flag) = given.cast::<PyBool>() {
        return Ok(Value::Bool(flag.is_true()));
    }
    if let Ok(text) = given.cast::<PyString>() {
        return Ok(Value::String(text.to_str()?.to_owned()));
    }
    if let Ok(number) = given.extract::<u64>() {
        return Ok(Value::from(number));
    }
    if let Ok(number) = given.extract::<f64>() {
        let number = Number::from_f64(number).ok_or_else(|| PyValueError::new_err("expected a finite number"))?;
        return Ok(Value::Number(number));
    }
    if let Ok(path) = given.extract::<PathBuf>() {
        return Ok(Value::String(path.to_string_lossy().into_owned()));
    }
    if let Ok(mapping) = given.cast::<PyMapping>() {
        let values = mapping.items()?.iter().map(|item| {
            let (name, given): (String, Bound<'_, PyAny>) = item.extract()?;
            Ok((name, value(&given)?))
        });
        return values.collect::<PyResult<_>>().map(Value::Object);
    }
    given.try_iter()?.map(|item| value(&item?)).collect::<PyResult<_>>().map(Value::Array)
}

/// Converts keyword arguments to options of a call. None means not given.
fn options(given: &Bound<'_, PyDict>) -> PyResult<CallArguments> {
    let mut options = CallArguments::default();
    for (name, given) in given {
        let name: String = name.extract()?;
        let value =
            value(&given).map_err(|error| PyValueError::new_err(format!("{name}: {}", error.value(given.py()))))?;
        options.set_value(&name, &value).map_err(|error| PyValueError::new_err(error.to_string()))?;
    }
    Ok(options)
}

/// A finished call: its report as JSON, its frames, its series, and the rows of its session log if requested.
type Finished = (String, Table, Table, Option<Table>);

/// Runs a call with `options`, by the names of the table. Returns its report as JSON, its frames and its series, and
/// with `session` the rows of its session log. An estimator object requires `lockstep.alphartc.exchange`. A controller
/// written in Python is in `controller`, and the options name it.
#[pyfunction]
#[pyo3(signature = (options, *, estimator = None, exchange = None, controller = None, session = false))]
pub fn simulate(
    py: Python<'_>,
    options: &Bound<'_, PyDict>,
    estimator: Option<Py<PyAny>>,
    exchange: Option<Py<PyAny>>,
    controller: Option<PyController>,
    session: bool,
) -> PyResult<Finished> {
    let options = self::options(options)?;
    let host = estimator.zip(exchange).map(|(estimator, exchange)| ObjectHost { estimator, exchange });
    let host = host.map(|host| Box::new(host) as Box<dyn EstimatorHost>);
    let mut controllers = Controllers::default();
    if let Some(controller) = controller {
        let registered = controllers.register(controller.registration(None));
        registered.map_err(|error| PyValueError::new_err(format!("controller: {error}")))?;
    }
    let kept = KeptFrames::default();
    let meter = session.then(|| SharedSessionMeter::new(Timestamp::ZERO));
    let Simulated { report } = py
        .detach(|| {
            let settings = options.settings_with(&controllers)?;
            let mut looked_at = Instant::now();
            let progress = |_: &SimulationStatus| {
                if looked_at.elapsed() >= SIGNAL_INTERVAL {
                    signals()?;
                    looked_at = Instant::now();
                }
                Ok(())
            };
            let host = match (host, &settings.estimator) {
                (Some(host), _) => Some(host),
                (None, Some(estimator)) if !estimator.is_model() => {
                    Some(estimator.start(settings.link.seed, Some(signals))?)
                }
                (None, _) => None,
            };
            let observers = Observers { session: meter.clone(), ..Observers::of_frames(Box::new(kept.clone())) };
            simulate_with(&settings, host, observers, progress)
        })
        .map_err(raised)?;
    let json = document(&report).map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
    let seconds = meter.map(|meter| {
        let (_, rows) = meter.lock().take(report.scores.scored_seconds as u64);
        Table::of_session(&rows)
    });
    Ok((json, Table::of_frames(&kept.take())?, Table::of_series(&report.series)?, seconds.transpose()?))
}

/// The names of the options of [`simulate`].
#[pyfunction]
pub fn simulate_options() -> Vec<&'static str> {
    CallArguments::TABLE.iter().map(|option| option.name).collect()
}
