//! Live calls for Python: `lockstep.call` wraps [`LiveCall`].
//!
//! Blocking methods release the interpreter's lock, and check for signals each [`SIGNAL_INTERVAL`].

use std::path::PathBuf;
use std::time::{Duration, Instant};

use pyo3::buffer::PyBuffer;
use pyo3::create_exception;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use lockstep::{
    Bitrate, Call, CallBuilder, Delivery, Ended, Event, FrameRate, Identity, Latency, Message, MessageError, Presence,
    Quality, ReceivedMessage, Route, SentStream, Stream, VideoFormat,
};

use lockstep_control::Failure;

use crate::controller::PyController;
use crate::frame::{Frame, picture};
use crate::paths::invalid;

create_exception!(
    lockstep,
    CallError,
    PyRuntimeError,
    "A live call that cannot start, failed, or is over; the message gives the reason in one line."
);

/// Maximum delay of Python's handling of a signal, such as that of Ctrl-C.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);
/// Maximum time of an argument, seconds: about 30 years.
const MAX_SECONDS: f64 = 1e9;
/// Maximum time of a capture in the future, seconds: camera clocks are extrapolated.
const CLOCK_TOLERANCE: f64 = 1.0;

fn failed(error: impl std::fmt::Display) -> PyErr {
    CallError::new_err(error.to_string())
}

/// Exception of a call that did not start.
fn not_started(error: lockstep::Error) -> PyErr {
    match error {
        lockstep::Error::Streams(_) => invalid(error),
        error => failed(error),
    }
}

fn seconds(name: &str, value: f64) -> PyResult<Duration> {
    if (0.0..=MAX_SECONDS).contains(&value) {
        Ok(Duration::from_secs_f64(value))
    } else {
        Err(invalid(format!("{name}: expected 0 to {MAX_SECONDS:.0} s, got {value}")))
    }
}

fn optional_seconds(name: &str, value: Option<f64>) -> PyResult<Option<Duration>> {
    value.map(|value| seconds(name, value)).transpose()
}

fn max_bitrate(value: Option<f64>) -> PyResult<Option<Bitrate>> {
    let Some(value) = value else { return Ok(None) };
    if (1.0..=1e12).contains(&value) {
        Ok(Some(Bitrate::from_bps(value as u64)))
    } else {
        Err(invalid(format!("max_bitrate: expected 1 to 1e12 bit/s or None, got {value}")))
    }
}

fn latency(name: &str) -> PyResult<Latency> {
    name.parse().map_err(|error| invalid(format!("latency: {error}")))
}

/// Raises the exception of a controller written in Python.
fn raise(failure: &Failure) -> PyResult<()> {
    failure.check().map_err(|reason| match reason.downcast::<PyErr>() {
        Ok(error) => *error,
        Err(reason) => failed(format!("the controller failed: {reason}")),
    })
}

/// Waits in slices until `wait` returns a value or `timeout` has passed.
fn wait<T: Send>(
    py: Python<'_>,
    failure: &Failure,
    timeout: Option<f64>,
    wait: impl Fn(Duration) -> Option<T> + Sync,
) -> PyResult<Option<T>> {
    let timeout = optional_seconds("timeout", timeout)?;
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
    let left = || deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    loop {
        let slice = left().map_or(SIGNAL_INTERVAL, |left| left.min(SIGNAL_INTERVAL));
        if let Some(item) = py.detach(|| wait(slice)) {
            return Ok(Some(item));
        }
        raise(failure)?;
        py.check_signals()?;
        if left().is_some_and(|left| left.is_zero()) {
            return Ok(None);
        }
    }
}

/// Frames that this end sends: width, height, and numerator and denominator of the rate.
type SentFormat = (usize, usize, (u32, u32));

/// Options of both ways to start a call.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Options {
    send: Option<SentFormat>,
    /// Names and priorities of the video streams that this end sends. Empty for a single unnamed stream.
    streams: Vec<(String, f64)>,
    receive: bool,
    latency: String,
    max_bitrate: Option<f64>,
    stale_after: Option<f64>,
    reconnect: bool,
    wait_limit: Option<f64>,
    idle_limit: Option<f64>,
    controller: Option<PyController>,
}

impl Options {
    /// The builder of a call with these options, and the failure of its controller.
    fn builder(&mut self) -> PyResult<(CallBuilder, Failure)> {
        let mut builder = Call::builder()
            .latency(latency(&self.latency)?)
            .wait_limit(optional_seconds("wait_limit", self.wait_limit)?)
            .idle_limit(optional_seconds("idle_limit", self.idle_limit)?);
        if let Some((width, height, (numerator, denominator))) = self.send {
            let rate = FrameRate::new(numerator, denominator).ok_or_else(|| {
                invalid(format!("send: frame rate {numerator}/{denominator} is not more than 0 and at most 1000"))
            })?;
            let sides = 1..=16_383;
            if !sides.contains(&width) || !sides.contains(&height) {
                return Err(invalid(format!("send: size {width}x{height} is outside 1x1 to 16383x16383")));
            }
            let format = VideoFormat::new(width, height).at(rate);
            if self.streams.is_empty() {
                builder = builder.send_frames(format);
            }
            for (name, priority) in &self.streams {
                builder = builder.stream(Stream::frames(name, format).priority(*priority));
            }
        } else if !self.streams.is_empty() {
            return Err(PyValueError::new_err("streams: the call sends none; give send=(width, height, rate) as well"));
        }
        if self.receive {
            builder = builder.receive_frames();
        }
        if self.send.is_none() && !self.receive {
            return Err(PyValueError::new_err(
                "the call neither sends nor receives: give send=(width, height, rate) or receive=True",
            ));
        }
        if let Some(cap) = max_bitrate(self.max_bitrate)? {
            builder = builder.max_bitrate(cap);
        }
        if let Some(age) = optional_seconds("stale_after", self.stale_after)? {
            builder = builder.stale_after(age);
        }
        let failure = Failure::default();
        if let Some(controller) = self.controller.take() {
            let failure = failure.clone();
            builder = builder.controller(move |setting| controller.make(setting, failure.clone()));
        }
        Ok((if self.reconnect { builder.reconnect() } else { builder }, failure))
    }

    fn start(&self, call: Call, failure: Failure) -> LiveCall {
        LiveCall { call: Some(call), failure, sends: self.send.is_some(), receives: self.receive }
    }
}

/// One end of a live call. Use it through `lockstep.Call`.
#[pyclass(module = "lockstep._lockstep", frozen)]
pub struct LiveCall {
    /// None only during drop.
    call: Option<Call>,
    failure: Failure,
    sends: bool,
    receives: bool,
}

impl Drop for LiveCall {
    fn drop(&mut self) {
        let call = self.call.take();
        // A thread of the call may wait for the interpreter's lock, which the dropping thread holds.
        Python::try_attach(|py| py.detach(|| drop(call)));
    }
}

impl LiveCall {
    fn call(&self) -> PyResult<&Call> {
        self.call.as_ref().ok_or_else(|| failed("the call is over"))
    }

    /// A stream that this end sends.
    fn stream(&self, name: &str) -> PyResult<SentStream<'_>> {
        let stream = self.call()?.stream(name);
        stream.ok_or_else(|| PyValueError::new_err(format!("stream: the call sends no stream named {name:?}")))
    }

    /// Reason for the end of the call, if it has ended.
    fn ended(&self) -> PyResult<Option<Ended>> {
        self.call()?.wait_ended(Duration::ZERO).transpose().map_err(failed)
    }

    /// Refuses `action` after the call's end.
    fn require_running(&self, action: &str) -> PyResult<()> {
        raise(&self.failure)?;
        let reason = match self.call()?.wait_ended(Duration::ZERO) {
            None => return Ok(()),
            Some(Ok(Ended::ByPeer)) => "the other end left".to_owned(),
            Some(Ok(_)) => "this end left".to_owned(),
            Some(Err(error)) => error.to_string(),
        };
        Err(failed(format!("cannot {action}: the call is over: {reason}")))
    }

    /// Waits until `is_ready`, then returns the result of `take`. None after the timeout or the end of the call. Fails
    /// if the call failed.
    fn take<T: Send>(
        &self,
        py: Python<'_>,
        timeout: Option<f64>,
        is_ready: impl Fn(&Call, Duration) -> bool + Sync,
        take: impl Fn(&Call) -> Option<T> + Sync,
    ) -> PyResult<Option<T>> {
        let call = self.call()?;
        let taken = wait(py, &self.failure, timeout, |slice| {
            let taken = is_ready(call, slice).then(|| take(call))?;
            // Without a result, another thread was faster, or the call is over.
            (taken.is_some() || call.wait_ended(Duration::ZERO).is_some()).then_some(taken)
        })?;
        match taken {
            Some(None) => self.ended().map(|_| None),
            taken => Ok(taken.flatten()),
        }
    }
}

#[pymethods]
impl LiveCall {
    /// Joins the listener of `ticket`.
    #[staticmethod]
    fn join(py: Python<'_>, ticket: &str, mut options: Options) -> PyResult<Self> {
        let ticket = ticket.trim().parse().map_err(|error| invalid(format!("ticket: {error}")))?;
        let (builder, failure) = options.builder()?;
        py.detach(|| builder.join(ticket)).map(|call| options.start(call, failure)).map_err(not_started)
    }

    /// Listens at `address`; returns the call and its ticket.
    #[staticmethod]
    fn listen(
        py: Python<'_>,
        address: &str,
        identity: Option<PathBuf>,
        mut options: Options,
    ) -> PyResult<(Self, String)> {
        let address = address.parse().map_err(|_| {
            invalid(format!("address: expected an IP address and port such as 0.0.0.0:0, got {address:?}"))
        })?;
        let (builder, failure) = options.builder()?;
        let listened = py.detach(|| {
            let identity = identity.map_or_else(Identity::new, |path| Identity::standing(&path))?;
            builder.listen_as(identity, address)
        });
        let (call, ticket) = listened.map_err(not_started)?;
        Ok((options.start(call, failure), ticket.to_string()))
    }

    /// Sends a frame of a stream that was captured `age` seconds ago; returns whether it replaced one that waited for
    /// the encoder.
    fn send(&self, py: Python<'_>, frame: &Bound<'_, PyAny>, age: f64, stream: Option<&str>) -> PyResult<bool> {
        if !self.sends {
            return Err(PyValueError::new_err(
                "cannot send frame: the call was made without send=(width, height, rate)",
            ));
        }
        let now = Instant::now();
        if !(-CLOCK_TOLERANCE..=MAX_SECONDS).contains(&age) {
            return Err(invalid(format!(
                "captured_at: expected seconds of time.monotonic(), got a time {age:.3} s ago; is it of another clock?"
            )));
        }
        let captured_at = now.checked_sub(Duration::from_secs_f64(age.max(0.0))).unwrap_or(now);
        let picture = picture(frame)?;
        self.require_running("send frame")?;
        let stream = stream.map(|name| self.stream(name)).transpose()?;
        let call = self.call()?;
        Ok(py.detach(|| match stream {
            Some(stream) => stream.send_frame(picture, captured_at),
            None => call.send_frame(picture, captured_at),
        }))
    }

    /// The next frame; None if none came within `timeout` seconds, or the call ended.
    fn next_frame(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Frame>> {
        if !self.receives {
            return Err(PyValueError::new_err("cannot receive frames: the call was made with receive=False"));
        }
        self.take(py, timeout, Call::wait_for_frame, |call| call.next_frame(Duration::ZERO).map(Frame::from))
    }

    /// The next event as its name and fields; None if none came within `timeout` seconds, or after the call's end.
    fn next_event<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<f64>,
    ) -> PyResult<Option<(&'static str, Bound<'py, PyDict>)>> {
        match self.take(py, timeout, Call::wait_for_event, |call| call.next_event(Duration::ZERO))? {
            Some(Event::Failed(error)) => Err(failed(error)),
            event => event.map(|event| fields(py, self.call()?, event)).transpose(),
        }
    }

    /// Waits until a frame is available or none will come; returns whether one of both holds.
    fn wait_for_frame(&self, py: Python<'_>, timeout: f64) -> PyResult<bool> {
        let call = self.call()?;
        let ready = wait(py, &self.failure, Some(timeout), |slice| call.wait_for_frame(slice).then_some(()));
        Ok(ready?.is_some())
    }

    /// Waits until an event is available or none will come; returns whether one of both holds.
    fn wait_for_event(&self, py: Python<'_>, timeout: f64) -> PyResult<bool> {
        let call = self.call()?;
        let ready = wait(py, &self.failure, Some(timeout), |slice| call.wait_for_event(slice).then_some(()));
        Ok(ready?.is_some())
    }

    /// Waits until the other end has joined; returns whether it has. Fails if the call failed before or after that.
    fn wait_joined(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        let call = self.call()?;
        let joined = wait(py, &self.failure, timeout, |slice| {
            let joined = call.wait_joined(slice);
            (joined || call.wait_ended(Duration::ZERO).is_some()).then_some(joined)
        })?;
        self.ended()?;
        Ok(joined.unwrap_or(false))
    }

    /// Whether the call is over.
    fn is_over(&self) -> PyResult<bool> {
        Ok(self.call()?.wait_ended(Duration::ZERO).is_some())
    }

    /// Starts to end the call without blocking.
    fn end(&self) -> PyResult<()> {
        self.call()?.end();
        Ok(())
    }

    /// Ends the call, and waits until the other end knows; returns how it ended.
    fn leave(&self, py: Python<'_>) -> PyResult<&'static str> {
        let call = self.call()?;
        call.end();
        match wait(py, &self.failure, None, |slice| call.wait_ended(slice))? {
            Some(Err(error)) => Err(failed(error)),
            Some(Ok(ended)) => Ok(reason(ended)),
            None => Ok(reason(Ended::Left)),
        }
    }

    /// Sends a message: reliable, or with a channel only the latest of that channel.
    fn send_message(&self, data: PyBuffer<u8>, channel: Option<i64>, py: Python<'_>) -> PyResult<()> {
        self.require_running("send message")?;
        let data = data.to_vec(py)?;
        let message = match channel {
            None => Message::reliable(data),
            Some(channel) => {
                let number = u8::try_from(channel)
                    .map_err(|_| invalid(format!("channel: expected 0 to 255 or None, got {channel}")))?;
                Message::latest(number, data)
            }
        };
        self.call()?.send_message(message).map_err(|error| match error {
            MessageError::TooLong { .. } => invalid(error),
            _ => failed(error),
        })
    }

    /// Changes the cap of the bit rate of all streams or of one, in bit/s; None removes it.
    fn set_max_bitrate(&self, cap: Option<f64>, stream: Option<&str>) -> PyResult<()> {
        let cap = max_bitrate(cap)?;
        match stream {
            None => self.call()?.set_max_bitrate(cap),
            Some(name) => self.stream(name)?.set_max_bitrate(cap),
        }
        Ok(())
    }

    /// Pauses a stream, or resumes it.
    fn set_paused(&self, stream: &str, paused: bool) -> PyResult<()> {
        self.stream(stream)?.set_paused(paused);
        Ok(())
    }

    /// Changes the latency.
    fn set_latency(&self, name: &str) -> PyResult<()> {
        self.call()?.set_latency(latency(name)?).map_err(failed)
    }

    /// Mutes the sound or turns the camera off.
    fn set_presence(&self, muted: bool, camera_off: bool) -> PyResult<()> {
        self.call()?.set_presence(Presence { muted, camera_off, ..Presence::default() });
        Ok(())
    }
}

fn reason(ended: Ended) -> &'static str {
    match ended {
        Ended::ByPeer => "peer_left",
        Ended::Done | Ended::WindowClosed | Ended::Stopped | Ended::Left => "left",
    }
}

/// The name of an event's class in `lockstep.call` and its fields.
fn fields<'py>(py: Python<'py>, call: &Call, event: Event) -> PyResult<(&'static str, Bound<'py, PyDict>)> {
    let fields = PyDict::new(py);
    let name = match event {
        Event::Warning(warning) => {
            fields.set_item("reason", warning.to_string())?;
            "Degraded"
        }
        Event::Joined => "Joined",
        Event::PathChanged(route) => {
            fields.set_item("relayed", route == Route::Relayed)?;
            "PathChanged"
        }
        Event::Interrupted => "Interrupted",
        Event::Resumed => "Resumed",
        Event::PeerChanged(Presence { muted, camera_off, recording }) => {
            fields.set_item("muted", muted)?;
            fields.set_item("camera_off", camera_off)?;
            fields.set_item("recording", recording)?;
            "PeerChanged"
        }
        Event::Quality(quality) => {
            set_quality(&fields, call, &quality)?;
            "Quality"
        }
        Event::StreamAnnounced { name, .. } => {
            fields.set_item("stream", name.to_string())?;
            "StreamAnnounced"
        }
        Event::Stale { stream, age } => {
            fields.set_item("age", age.as_secs_f64())?;
            fields.set_item("stream", call.received_stream_name(stream).to_string())?;
            "Stale"
        }
        Event::Fresh { stream } => {
            fields.set_item("stream", call.received_stream_name(stream).to_string())?;
            "Fresh"
        }
        Event::Message(ReceivedMessage { delivery, payload, delay, .. }) => {
            fields.set_item("data", PyBytes::new(py, &payload))?;
            let channel = match delivery {
                Delivery::Reliable => None,
                Delivery::Latest { channel } => Some(channel),
            };
            fields.set_item("channel", channel)?;
            fields.set_item("delay", delay.as_secs_f64())?;
            "Message"
        }
        Event::Ended(ended) => {
            fields.set_item("reason", reason(ended))?;
            "Ended"
        }
        _ => "Event",
    };
    Ok((name, fields))
}

fn set_quality(fields: &Bound<'_, PyDict>, call: &Call, quality: &Quality) -> PyResult<()> {
    let py = fields.py();
    let in_seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
    let sending = quality.sending.map(|sending| {
        let fields = PyDict::new(py);
        fields.set_item("target", sending.target.as_bps())?;
        fields.set_item("limited_by", sending.limited_by.map(|limit| limit.name()))?;
        fields.set_item("round_trip", in_seconds(sending.round_trip))?;
        fields.set_item("frames", sending.frames)?;
        fields.set_item("stream", call.stream_name(quality.stream).to_string())?;
        Ok::<_, PyErr>(fields)
    });
    let receiving = quality.receiving.map(|receiving| {
        let fields = PyDict::new(py);
        fields.set_item("frames", receiving.frames)?;
        fields.set_item("missing", receiving.missing)?;
        fields.set_item("jitter", receiving.jitter.as_secs_f64())?;
        fields.set_item("age", in_seconds(receiving.age))?;
        fields.set_item("stream", call.received_stream_name(quality.stream).to_string())?;
        Ok::<_, PyErr>(fields)
    });
    fields.set_item("sending", sending.transpose()?)?;
    fields.set_item("receiving", receiving.transpose()?)
}
