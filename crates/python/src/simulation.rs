//! `lockstep.simulate`.

use std::time::{Duration, Instant};

use pyo3::create_exception;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use lockstep_alphartc::{EstimatorHost, HostError, PacketReport, ProcessError};
use lockstep_call::KeptFrames;
use lockstep_configuration::{SimulateArguments, Simulated, SimulationStatus, simulate_with};
use lockstep_units::{Bitrate, Timestamp};

use crate::table::Table;

create_exception!(
    lockstep,
    EstimatorError,
    PyRuntimeError,
    "The file of an AlphaRTC estimator is not there, cannot be loaded, raised something, took too long, ended its process \
     or answered what is no bandwidth; the message says which, in one line, with the file and where it happened."
);

/// How often Python may act on a signal, such as that of control-C.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(100);

/// An AlphaRTC estimator that is an object of this process.
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

/// A packet as `lockstep.alphartc.worker.report` takes it.
pub type Fields = (u64, u64, u64, u16, u64, u64);

/// `packet` so.
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

/// What Python raises on a signal that has come, such as `KeyboardInterrupt` on that of control-C.
fn signals() -> Result<(), HostError> {
    Ok(Python::attach(|py| py.check_signals())?)
}

/// The exception for an estimator's process that is of no use.
fn of_process(error: ProcessError, message: String) -> PyErr {
    match error {
        ProcessError::Interrupted(reason) => match reason.downcast::<PyErr>() {
            Ok(error) => *error,
            Err(_) => PyRuntimeError::new_err(message),
        },
        _ => EstimatorError::new_err(message),
    }
}

/// What Python raised, if that is what ended a simulation; else the message as the exception that fits.
fn raised(error: anyhow::Error) -> PyErr {
    let message = format!("{error:#}");
    match error.downcast::<lockstep_sim::SimulationError>() {
        Ok(lockstep_sim::SimulationError::Stopped(reason)) => match reason.downcast::<PyErr>() {
            Ok(error) => *error,
            Err(reason) => match reason.downcast::<ProcessError>() {
                Ok(error) => of_process(*error, message),
                Err(_) => PyRuntimeError::new_err(message),
            },
        },
        Ok(_) => PyRuntimeError::new_err(message),
        Err(error) => match error.downcast::<ProcessError>() {
            Ok(error) => of_process(error, message),
            Err(_) => PyValueError::new_err(message),
        },
    }
}

/// Runs the call that the words of `lockstep simulate` describe; gives its report as JSON, its frames and its series.
#[pyfunction]
#[pyo3(signature = (words, *, estimator = None, exchange = None))]
pub fn simulate(
    py: Python<'_>,
    words: Vec<String>,
    estimator: Option<Py<PyAny>>,
    exchange: Option<Py<PyAny>>,
) -> PyResult<(String, Table, Table)> {
    let arguments = SimulateArguments::from_words(words).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let host = estimator.zip(exchange).map(|(estimator, exchange)| ObjectHost { estimator, exchange });
    let host = host.map(|host| Box::new(host) as Box<dyn EstimatorHost>);
    let kept = KeptFrames::default();
    let Simulated { report } = py
        .detach(|| {
            let mut looked_at = Instant::now();
            let progress = |_: &SimulationStatus| {
                if looked_at.elapsed() >= SIGNAL_INTERVAL {
                    signals()?;
                    looked_at = Instant::now();
                }
                Ok(())
            };
            let host = match host {
                Some(host) => Some(host),
                None => arguments.estimator.start(arguments.link.seed, Some(signals))?,
            };
            simulate_with(&arguments, host, Some(Box::new(kept.clone())), progress)
        })
        .map_err(raised)?;
    let json = serde_json::to_string(&report).map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
    Ok((json, Table::of_frames(&kept.take())?, Table::of_series(&report.series)?))
}

/// The names of the options of `lockstep simulate` that say what is run.
#[pyfunction]
pub fn simulate_options() -> Vec<String> {
    SimulateArguments::option_names()
}
