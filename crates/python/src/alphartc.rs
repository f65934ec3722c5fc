//! AlphaRTC's gym with a modelled call.

use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use lockstep_configuration::open_trace;
use lockstep_control::{Algorithm, ControllerSetup, Estimator};
use lockstep_hosted::PacketReport;
use lockstep_link::{Link, LinkConfig, MAX_INPUT, QueueConfig, REVERSE_CAPACITY, Trace, parse_alphartc};
use lockstep_sim::modelled::{FeedbackInterval, ModelledCall, ModelledSetting};
use lockstep_sim::{ClipCurves, CodecModel, ModelledClip, Network, SharedLink};
use lockstep_transport::{Arrival, Estimate};
use lockstep_units::{Bitrate, Timestamp, open_input};

use crate::simulation::{Fields, fields};

/// Picture size of the modelled call.
const SIZE: (usize, usize) = (1280, 720);

/// Reports and estimate of the agent, shared with the estimator of the call.
#[derive(Debug, Default)]
struct Exchange {
    packets: Vec<PacketReport>,
    rate: Option<Bitrate>,
}

/// Estimator that returns the estimate of the agent.
struct Agent(Arc<Mutex<Exchange>>);

fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Estimator for Agent {
    fn on_arrival(&mut self, arrival: &Arrival) {
        locked(&self.0).packets.push(arrival.into());
    }

    fn estimate(&mut self, _now: Timestamp) -> Estimate {
        Estimate { inter_arrival: None, capacity: locked(&self.0).rate }
    }
}

/// A call that advances step by step, with an agent as estimator at the receiver. Threads of Python take turns.
#[pyclass(module = "lockstep._lockstep", frozen)]
pub struct SteppedCall {
    /// Held during a step, without the interpreter's lock.
    network: Mutex<Network<ModelledCall>>,
    exchange: Arc<Mutex<Exchange>>,
    interval: Duration,
    end: Timestamp,
}

fn invalid(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Both directions of the trace `text`: a file or the name of a generated trace.
fn traces(text: &str) -> PyResult<(Trace, Trace)> {
    let path = Path::new(text);
    let reverse = Trace::constant(REVERSE_CAPACITY);
    if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json")) {
        let failed = |error: std::io::Error| PyOSError::new_err(format!("trace {text}: {error}"));
        let mut file = String::new();
        // A longer file is refused as a trace.
        open_input(path).map_err(failed)?.take(MAX_INPUT as u64 + 1).read_to_string(&mut file).map_err(failed)?;
        let both = parse_alphartc(&file).map_err(|error| invalid(format!("trace {text}: {error}")))?;
        return Ok((both.uplink, both.downlink.unwrap_or(reverse)));
    }
    Ok((open_trace(text).map_err(|error| invalid(format!("{error:#}")))?, reverse))
}

#[pymethods]
impl SteppedCall {
    /// A call over `trace` that advances by `interval_ms` milliseconds per step. It ends after `length_ms`, or at the
    /// end of the trace.
    #[new]
    #[pyo3(signature = (trace, *, interval_ms, length_ms, seed, delay_ms, queue_packets))]
    fn new(
        trace: &str,
        interval_ms: u32,
        length_ms: Option<u32>,
        seed: u64,
        delay_ms: f64,
        queue_packets: u32,
    ) -> PyResult<Self> {
        if interval_ms == 0 || queue_packets == 0 {
            return Err(invalid("the report interval and the queue must not be zero"));
        }
        if !(0.0..=60_000.0).contains(&delay_ms) {
            return Err(invalid(format!("a delay of {delay_ms} ms is not between 0 and 60000 ms")));
        }
        let (forward, reverse) = traces(trace)?;
        let length = length_ms.map_or(forward.period(), |length| Duration::from_millis(length.into()));
        let setting = ModelledSetting {
            feedback: FeedbackInterval::Every(Duration::from_millis(interval_ms.min(50).into())),
            ..ModelledSetting::new()
        };
        let link = |trace, seed| -> PyResult<SharedLink<_>> {
            let config = LinkConfig {
                delay: Duration::from_secs_f64(delay_ms / 1e3),
                queue: QueueConfig::drop_tail(queue_packets as usize),
                ..LinkConfig::new(trace)
            };
            Link::new(config, seed).map_err(invalid)
        };
        let model = CodecModel::built_in().map_err(invalid)?;
        let clip = model.drawn(seed);
        let curves = Arc::new(ClipCurves::new(clip, SIZE.0, SIZE.1));
        let control = ControllerSetup::new(setting.payload, setting.frame_interval());
        let controller = Algorithm::ReceiverEstimate.controller(&control).map_err(invalid)?;
        let exchange = Arc::new(Mutex::new(Exchange::default()));
        let clip = ModelledClip::new(curves, setting.frame_interval(), seed);
        let call = setting.call(controller, Box::new(Agent(Arc::clone(&exchange))), clip).unlogged();
        let network = Network::new(vec![call], link(forward, seed)?, link(reverse, seed.wrapping_add(1))?);
        let interval = Duration::from_millis(interval_ms.into());
        Ok(Self { network: Mutex::new(network), exchange, interval, end: Timestamp::ZERO + length })
    }

    /// Sets the estimate and advances by an interval. Returns the packets that arrived in it, and whether the call is
    /// over.
    fn step(&self, py: Python<'_>, bandwidth_bps: f64) -> PyResult<(Vec<Fields>, bool)> {
        if !bandwidth_bps.is_finite() || bandwidth_bps < 0.0 {
            return Err(invalid(format!("expected a finite bandwidth in bit/s from 0 on, got {bandwidth_bps}")));
        }
        let stepped = py.detach(|| {
            let mut network = locked(&self.network);
            if network.now() >= self.end {
                return None;
            }
            locked(&self.exchange).rate = Some(Bitrate::from_bps(bandwidth_bps as u64));
            let until = self.end.min(network.now() + self.interval);
            network.run_until(until);
            Some((std::mem::take(&mut locked(&self.exchange).packets), network.now() >= self.end))
        });
        let (packets, done) = stepped.ok_or_else(|| PyRuntimeError::new_err("the call is over; reset the gym"))?;
        Ok((packets.iter().map(fields).collect(), done))
    }
}
