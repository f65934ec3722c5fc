//! One stream of one device.

use std::fmt::Display;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use cpal::traits::{DeviceTrait, StreamTrait};
use cpal::{
    BufferSize, Device, ErrorKind, FromSample, Host, Sample, SampleFormat, SizedSample, Stream, StreamConfig,
    SupportedStreamConfigRange,
};
use lockstep_sound::{CaptureResampler, FRAME_SAMPLES, Frame, PlaybackResampler, SAMPLE_RATE, SoundFailure};

use super::{Kind, id_of, name_of};
use crate::following::Named;

/// Frames of the microphone that may wait (200 ms); further ones are dropped.
const MAX_CAPTURED_FRAMES: usize = 10;
/// Frames that wait for the loudspeaker (40 ms), which covers the latency of the host's timers. A device that takes
/// more at once gets more.
const MIN_PLAYBACK_FRAMES: usize = 2;
/// Limit of these frames (200 ms).
const MAX_PLAYBACK_FRAMES: usize = 10;
/// A device that is silent for this long counts as gone.
const DEVICE_LIMIT: Duration = Duration::from_secs(3);
/// Interval between two attempts to queue a frame for the loudspeaker.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);
/// Samples that a sound server buffers: 40 ms.
const SERVER_BUFFER_SAMPLES: u32 = 2 * FRAME_SAMPLES as u32;
/// Interval between two questions for the system's default device.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);

fn failed(kind: Kind) -> impl Fn(&dyn Display) -> SoundFailure {
    move |error| SoundFailure(format!("the {} failed: {error}", kind.name()))
}

/// What a device reported.
#[derive(Default)]
struct Report {
    /// The first error.
    error: Option<String>,
    /// Why the stream will not continue.
    end: Option<SoundFailure>,
}

/// Reports of a device.
#[derive(Clone, Default)]
struct Reports(Arc<Mutex<Report>>);

impl Reports {
    fn error_handler(&self, kind: Kind) -> impl FnMut(cpal::Error) + Send + 'static {
        let reports = self.clone();
        move |error| {
            if matches!(
                error.kind(),
                ErrorKind::DeviceNotAvailable | ErrorKind::HostUnavailable | ErrorKind::StreamInvalidated
            ) {
                reports.end(failed(kind)(&error));
            }
            reports.0.lock().unwrap_or_else(PoisonError::into_inner).error.get_or_insert(error.to_string());
        }
    }

    /// Ends the stream.
    fn end(&self, reason: SoundFailure) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).end.get_or_insert(reason);
    }

    /// An error if the stream has ended.
    fn check(&self) -> Result<(), SoundFailure> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).end.clone().map_or(Ok(()), Err)
    }

    /// The error of a device that no longer answers.
    fn silence(&self, kind: Kind) -> SoundFailure {
        let error = self.0.lock().unwrap_or_else(PoisonError::into_inner).error.clone();
        failed(kind)(&error.unwrap_or_else(|| format!("it was silent for {} s", DEVICE_LIMIT.as_secs())))
    }
}

/// Keeps a stream open until it is dropped.
struct Held {
    name: String,
    reports: Reports,
    _end: mpsc::Sender<()>,
}

/// Opens the device that `wanted` names, or the default, on a thread that keeps it, as some systems require. That
/// thread ends the stream if the default changes.
fn hold(
    kind: Kind,
    wanted: Option<&str>,
    start: impl FnOnce(&Device, BufferSize, &Reports) -> Result<Stream, SoundFailure> + Send + 'static,
) -> Result<Held, SoundFailure> {
    let wanted = wanted.map(str::to_owned);
    let (opened, outcome) = mpsc::channel();
    let (end, ended) = mpsc::channel::<()>();
    let reports = Reports::default();
    let reporting = reports.clone();
    thread::spawn(move || {
        let host = cpal::default_host();
        let open = |host: &Host| {
            let device = kind.find(host, wanted.as_deref())?;
            // PulseAudio buffers two seconds unless it is asked for less. Other systems know their devices.
            let is_server = host.id().name() == "PulseAudio";
            let buffer = if is_server { BufferSize::Fixed(SERVER_BUFFER_SAMPLES) } else { BufferSize::Default };
            let stream = start(&device, buffer, &reporting)?;
            stream.play().map_err(|error| failed(kind)(&error))?;
            Ok((name_of(&device), id_of(&device), stream))
        };
        let (id, _stream) = match open(&host) {
            Ok((name, id, stream)) => {
                let _ = opened.send(Ok(name));
                (id, stream)
            }
            Err(error) => return drop(opened.send(Err(error))),
        };
        while ended.recv_timeout(DEFAULT_INTERVAL) == Err(RecvTimeoutError::Timeout) {
            let default = if wanted.is_none() { kind.default_of(&host) } else { None };
            if default.is_some_and(|default| id_of(&default) != id) {
                reporting.end(SoundFailure(format!("the system's {} changed", kind.name())));
            }
        }
    });
    match outcome.recv() {
        Ok(Ok(name)) => Ok(Held { name, reports, _end: end }),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(SoundFailure("the sound system failed while the device was opened".to_owned())),
    }
}

/// The configuration with the fewest channels, in a supported format. Its rate is 48,000 samples per second, else the next
/// higher rate, else the highest one.
fn configuration(
    kind: Kind,
    ranges: impl Iterator<Item = SupportedStreamConfigRange>,
    buffer: BufferSize,
) -> Result<(StreamConfig, SampleFormat), SoundFailure> {
    let understood =
        |range: &SupportedStreamConfigRange| matches!(range.sample_format(), SampleFormat::F32 | SampleFormat::I16);
    let rate = |range: &SupportedStreamConfigRange| SAMPLE_RATE.clamp(range.min_sample_rate(), range.max_sample_rate());
    let preference = |range: &SupportedStreamConfigRange| {
        let rate = rate(range);
        // A lower rate loses the highest frequencies.
        (SAMPLE_RATE.saturating_sub(rate), rate, range.channels())
    };
    let range = ranges.filter(understood).min_by_key(preference);
    let range = range.ok_or_else(|| {
        let kind = kind.name();
        SoundFailure(format!(
            "the {kind} supports neither 16-bit nor float samples; choose another, or name a WAV file"
        ))
    })?;
    let (rate, format) = (rate(&range), range.sample_format());
    Ok((StreamConfig { buffer_size: buffer, ..range.with_sample_rate(rate).config() }, format))
}

/// An open microphone.
pub(super) struct Microphone {
    frames: Receiver<Frame>,
    stream: Held,
}

impl Microphone {
    pub(super) fn open(wanted: Option<&str>) -> Result<Self, SoundFailure> {
        let kind = Kind::Microphone;
        let (frames, captured) = mpsc::sync_channel(MAX_CAPTURED_FRAMES);
        let stream = hold(kind, wanted, move |device, buffer, reports| {
            let ranges = device.supported_input_configs().map_err(|error| failed(kind)(&error))?;
            let (config, format) = configuration(kind, ranges, buffer)?;
            let resampler = CaptureResampler::new(config.sample_rate)?;
            let stream = match format {
                SampleFormat::I16 => listen::<i16>(device, config, resampler, frames, reports),
                _ => listen::<f32>(device, config, resampler, frames, reports),
            };
            stream.map_err(|error| failed(kind)(&error))
        })?;
        Ok(Self { frames: captured, stream })
    }

    /// The next 20 ms.
    pub(super) fn next_frame(&mut self) -> Result<Frame, SoundFailure> {
        let deadline = Instant::now() + DEVICE_LIMIT;
        loop {
            self.stream.reports.check()?;
            match self.frames.recv_timeout(DEVICE_LIMIT / 30) {
                Ok(frame) => return Ok(frame),
                Err(RecvTimeoutError::Timeout) if Instant::now() < deadline => {}
                Err(_) => return Err(self.stream.reports.silence(Kind::Microphone)),
            }
        }
    }
}

impl Named for Microphone {
    fn name(&self) -> &str {
        &self.stream.name
    }
}

fn listen<T>(
    device: &Device,
    config: StreamConfig,
    mut resampler: CaptureResampler,
    frames: SyncSender<Frame>,
    reports: &Reports,
) -> Result<Stream, cpal::Error>
where
    T: SizedSample,
    f32: FromSample<T>,
{
    let channels = usize::from(config.channels).max(1);
    let opened = Instant::now();
    let take = move |samples: &[T], _: &cpal::InputCallbackInfo| {
        let mixed = samples.chunks_exact(channels).map(|moment| {
            let sum: f32 = moment.iter().map(|&sample| f32::from_sample(sample)).sum();
            sum / channels as f32
        });
        resampler.capture(opened.elapsed(), mixed, |frame| {
            // The frame is dropped if the receiver is too slow or gone.
            let _ = frames.try_send(frame);
        });
    };
    device.build_input_stream(config, take, reports.error_handler(Kind::Microphone), None)
}

/// An open loudspeaker.
pub(super) struct Loudspeaker {
    frames: SyncSender<Frame>,
    queue: Arc<Queue>,
    stream: Held,
}

/// Frames between the call and the device.
struct Queue {
    waiting: AtomicUsize,
    /// Number that should wait.
    wanted: AtomicUsize,
}

impl Loudspeaker {
    /// Opens the device. `played` receives what it plays.
    pub(super) fn open(wanted: Option<&str>, played: SyncSender<Frame>) -> Result<Self, SoundFailure> {
        let kind = Kind::Loudspeaker;
        let queue = Arc::new(Queue { waiting: AtomicUsize::new(0), wanted: AtomicUsize::new(MIN_PLAYBACK_FRAMES) });
        let playing = queue.clone();
        let (frames, to_play) = mpsc::sync_channel(MAX_PLAYBACK_FRAMES);
        let stream = hold(kind, wanted, move |device, buffer, reports| {
            let ranges = device.supported_output_configs().map_err(|error| failed(kind)(&error))?;
            let (config, format) = configuration(kind, ranges, buffer)?;
            let feed = Feed { frames: to_play, queue: playing, played };
            let resampler = PlaybackResampler::new(config.sample_rate)?;
            let stream = match format {
                SampleFormat::I16 => play::<i16>(device, config, resampler, feed, reports),
                _ => play::<f32>(device, config, resampler, feed, reports),
            };
            stream.map_err(|error| failed(kind)(&error))
        })?;
        Ok(Self { frames, queue, stream })
    }

    /// Queues the next 20 ms, as soon as there is room.
    pub(super) fn play(&mut self, frame: &Frame) -> Result<(), SoundFailure> {
        let deadline = Instant::now() + DEVICE_LIMIT;
        loop {
            self.stream.reports.check()?;
            if self.queue.waiting.load(Ordering::Relaxed) < self.queue.wanted.load(Ordering::Relaxed) {
                self.queue.waiting.fetch_add(1, Ordering::Relaxed);
                let sent = self.frames.try_send(*frame);
                return sent.map_err(|_| self.stream.reports.silence(Kind::Loudspeaker));
            }
            if Instant::now() >= deadline {
                return Err(self.stream.reports.silence(Kind::Loudspeaker));
            }
            thread::sleep(LOOK_INTERVAL);
        }
    }
}

impl Named for Loudspeaker {
    fn name(&self) -> &str {
        &self.stream.name
    }
}

/// The frames to play.
struct Feed {
    frames: Receiver<Frame>,
    queue: Arc<Queue>,
    /// Receives what the device plays, silence included.
    played: SyncSender<Frame>,
}

impl Feed {
    /// Prepares for a device that takes `samples` of the call at once.
    fn prepare(&self, samples: usize) {
        let wanted = (samples.div_ceil(FRAME_SAMPLES) + 1).clamp(MIN_PLAYBACK_FRAMES, MAX_PLAYBACK_FRAMES);
        self.queue.wanted.fetch_max(wanted, Ordering::Relaxed);
    }

    /// The next frame; silence while no frame waits.
    fn next_frame(&self) -> Frame {
        let frame = self.frames.try_recv().ok();
        if frame.is_some() {
            self.queue.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        let frame = frame.unwrap_or([0; FRAME_SAMPLES]);
        // The frame is dropped if no microphone takes it.
        let _ = self.played.try_send(frame);
        frame
    }
}

fn play<T>(
    device: &Device,
    config: StreamConfig,
    mut resampler: PlaybackResampler,
    feed: Feed,
    reports: &Reports,
) -> Result<Stream, cpal::Error>
where
    T: SizedSample + FromSample<f32>,
{
    let channels = usize::from(config.channels).max(1);
    let rate = config.sample_rate as usize;
    let opened = Instant::now();
    let give = move |samples: &mut [T], _: &cpal::OutputCallbackInfo| {
        let count = samples.len() / channels;
        feed.prepare((count * SAMPLE_RATE as usize).div_ceil(rate));
        let resampled = resampler.play(opened.elapsed(), count, || feed.next_frame());
        for (moment, sample) in samples.chunks_exact_mut(channels).zip(resampled) {
            moment.fill(T::from_sample(sample));
        }
    };
    device.build_output_stream(config, give, reports.error_handler(Kind::Loudspeaker), None)
}
