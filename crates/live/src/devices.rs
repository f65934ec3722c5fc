//! Microphone and loudspeaker: the default devices of the system.

use std::fmt::Display;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use cpal::traits::{DeviceTrait, HostTrait, StreamTrait};
use cpal::{Device, FromSample, Sample, SampleFormat, SizedSample, Stream, StreamConfig, SupportedStreamConfigRange};
use lockstep_sound::{FRAME_SAMPLES, Frame, SAMPLE_RATE, SoundFailure, SoundSink, SoundSource};

/// Frames of the microphone that may wait (200 ms); further ones are dropped.
const MAX_CAPTURED_FRAMES: usize = 10;
/// Frames that wait for the loudspeaker (40 ms), which covers the latency of the host's timers.
const MAX_PLAYBACK_FRAMES: usize = 2;
/// A device that is silent for this long counts as gone.
const DEVICE_LIMIT: Duration = Duration::from_secs(3);
/// Interval between two attempts to queue a frame for the loudspeaker.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);

fn failed(device: &str) -> impl Fn(&dyn Display) -> SoundFailure {
    let device = device.to_owned();
    move |error| SoundFailure(format!("the {device} failed: {error}"))
}

/// The first error that a device reported.
#[derive(Clone, Default)]
struct Complaint(Arc<Mutex<Option<String>>>);

impl Complaint {
    fn error_handler(&self) -> impl FnMut(cpal::Error) + Send + 'static {
        let complaint = self.0.clone();
        move |error| {
            complaint.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error.to_string());
        }
    }

    fn text(&self) -> String {
        let said = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        said.unwrap_or_else(|| format!("it was silent for {} s", DEVICE_LIMIT.as_secs()))
    }
}

/// Keeps a stream open until it is dropped, on the thread that opened it, as some systems require.
struct Held {
    _end: mpsc::Sender<()>,
}

fn hold(open: impl FnOnce() -> Result<Stream, SoundFailure> + Send + 'static) -> Result<Held, SoundFailure> {
    let (opened, outcome) = mpsc::channel();
    let (end, ended) = mpsc::channel::<()>();
    thread::spawn(move || match open() {
        Ok(_stream) => {
            let _ = opened.send(Ok(()));
            let _ = ended.recv();
        }
        Err(error) => drop(opened.send(Err(error))),
    });
    match outcome.recv() {
        Ok(Ok(())) => Ok(Held { _end: end }),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(SoundFailure("the sound system failed while the device was opened".to_owned())),
    }
}

/// The configuration of 48,000 samples per second with the fewest channels, in a supported format.
fn configuration(
    device: &str,
    ranges: impl Iterator<Item = SupportedStreamConfigRange>,
) -> Result<(StreamConfig, SampleFormat), SoundFailure> {
    let understood = |range: &SupportedStreamConfigRange| {
        matches!(range.sample_format(), SampleFormat::F32 | SampleFormat::I16)
            && (range.min_sample_rate()..=range.max_sample_rate()).contains(&SAMPLE_RATE)
    };
    let range = ranges.filter(understood).min_by_key(SupportedStreamConfigRange::channels);
    let range = range.ok_or_else(|| {
        SoundFailure(format!(
            "the {device} does not support {SAMPLE_RATE} samples per second; name a WAV file, or `none`"
        ))
    })?;
    let format = range.sample_format();
    Ok((range.with_sample_rate(SAMPLE_RATE).config(), format))
}

fn none(device: &str, option: &str) -> SoundFailure {
    SoundFailure(format!("there is no {device}; name a WAV file with {option}, or `none`"))
}

/// Sound source of the microphone.
struct Microphone {
    frames: Receiver<Frame>,
    complaint: Complaint,
    _stream: Held,
}

/// Opens the system's microphone.
///
/// # Errors
/// There is no microphone, or it lacks a supported configuration.
pub fn open_microphone() -> Result<Box<dyn SoundSource>, SoundFailure> {
    let (frames, captured) = mpsc::sync_channel(MAX_CAPTURED_FRAMES);
    let complaint = Complaint::default();
    let complaining = complaint.clone();
    let stream = hold(move || {
        let name = "microphone";
        let failed = failed(name);
        let device = cpal::default_host().default_input_device().ok_or_else(|| none(name, "--audio"))?;
        let ranges = device.supported_input_configs().map_err(|error| failed(&error))?;
        let (config, format) = configuration(name, ranges)?;
        let stream = match format {
            SampleFormat::I16 => listen::<i16>(&device, config, frames, &complaining),
            _ => listen::<f32>(&device, config, frames, &complaining),
        };
        let stream = stream.map_err(|error| failed(&error))?;
        stream.play().map_err(|error| failed(&error))?;
        Ok(stream)
    })?;
    Ok(Box::new(Microphone { frames: captured, complaint, _stream: stream }))
}

fn listen<T>(
    device: &Device,
    config: StreamConfig,
    frames: SyncSender<Frame>,
    complaint: &Complaint,
) -> Result<Stream, cpal::Error>
where
    T: SizedSample,
    f32: FromSample<T>,
{
    let channels = usize::from(config.channels).max(1);
    let mut captured = Vec::with_capacity(FRAME_SAMPLES);
    let take = move |samples: &[T], _: &cpal::InputCallbackInfo| {
        for moment in samples.chunks_exact(channels) {
            let sum: f32 = moment.iter().map(|&sample| f32::from_sample(sample)).sum();
            captured.push(i16::from_sample(sum / channels as f32));
            if let Ok(frame) = Frame::try_from(captured.as_slice()) {
                captured.clear();
                // The frame is dropped if the receiver is too slow or gone.
                let _ = frames.try_send(frame);
            }
        }
    };
    device.build_input_stream(config, take, complaint.error_handler(), None)
}

impl SoundSource for Microphone {
    fn next_frame(&mut self) -> Result<Option<Frame>, SoundFailure> {
        match self.frames.recv_timeout(DEVICE_LIMIT) {
            Ok(frame) => Ok(Some(frame)),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                Err(failed("microphone")(&self.complaint.text()))
            }
        }
    }

    fn is_live(&self) -> bool {
        true
    }
}

/// Sound sink of the loudspeaker.
struct Loudspeaker {
    frames: SyncSender<Frame>,
    complaint: Complaint,
    _stream: Held,
}

/// Opens the system's loudspeaker.
///
/// # Errors
/// There is no loudspeaker, or it lacks a supported configuration.
pub fn open_loudspeaker() -> Result<Box<dyn SoundSink>, SoundFailure> {
    let (frames, to_play) = mpsc::sync_channel(MAX_PLAYBACK_FRAMES);
    let complaint = Complaint::default();
    let complaining = complaint.clone();
    let stream = hold(move || {
        let name = "loudspeaker";
        let failed = failed(name);
        let device = cpal::default_host().default_output_device().ok_or_else(|| none(name, "--audio-output"))?;
        let ranges = device.supported_output_configs().map_err(|error| failed(&error))?;
        let (config, format) = configuration(name, ranges)?;
        let stream = match format {
            SampleFormat::I16 => play::<i16>(&device, config, to_play, &complaining),
            _ => play::<f32>(&device, config, to_play, &complaining),
        };
        let stream = stream.map_err(|error| failed(&error))?;
        stream.play().map_err(|error| failed(&error))?;
        Ok(stream)
    })?;
    Ok(Box::new(Loudspeaker { frames, complaint, _stream: stream }))
}

fn play<T>(
    device: &Device,
    config: StreamConfig,
    frames: Receiver<Frame>,
    complaint: &Complaint,
) -> Result<Stream, cpal::Error>
where
    T: SizedSample + FromSample<i16>,
{
    let channels = usize::from(config.channels).max(1);
    let (mut frame, mut next) = ([0; FRAME_SAMPLES], FRAME_SAMPLES);
    let give = move |samples: &mut [T], _: &cpal::OutputCallbackInfo| {
        for moment in samples.chunks_exact_mut(channels) {
            if next == FRAME_SAMPLES
                && let Ok(newer) = frames.try_recv()
            {
                (frame, next) = (newer, 0);
            }
            // Silence is played while no frame waits.
            let sample = frame.get(next).copied().unwrap_or(0);
            next = (next + 1).min(FRAME_SAMPLES);
            moment.fill(T::from_sample(sample));
        }
    };
    device.build_output_stream(config, give, complaint.error_handler(), None)
}

impl SoundSink for Loudspeaker {
    fn play(&mut self, frame: &Frame) -> Result<(), SoundFailure> {
        let deadline = Instant::now() + DEVICE_LIMIT;
        let mut frame = *frame;
        loop {
            match self.frames.try_send(frame) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Full(same)) if Instant::now() < deadline => frame = same,
                Err(_) => return Err(failed("loudspeaker")(&self.complaint.text())),
            }
            thread::sleep(LOOK_INTERVAL);
        }
    }

    fn is_live(&self) -> bool {
        true
    }
}
