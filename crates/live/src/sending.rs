//! Sending half of a live call: its source, its encoder, and the sending end between them.

use std::sync::mpsc::{self, SyncSender};
use std::time::Duration;

use lockstep_call::{Committed, EncodeJob, FrameRecord, MenuRunner, PictureCodec, SendingEnd, Vp8};
use lockstep_media::{FrameRate, PictureQuality, Source};
use lockstep_socket::Clock;
use lockstep_sound::SoundSource;
use lockstep_transport::{SoundPacket, VideoFormat};
use lockstep_units::Timestamp;
use lockstep_vp8::Picture;

use crate::LiveError;
use crate::Thread;
use crate::capture::{self, Captured};
use crate::handle::StreamSetting;
use crate::loop_event::{LoopEvent, SendingEvent};
use crate::measuring::Measuring;
use crate::sound::Microphone;
use lockstep_session::encoder_failure;
use lockstep_session::presence::Presence;
use lockstep_session::stream::StreamName;

/// How long late feedback is accepted after the last picture.
const LINGER: Duration = Duration::from_millis(500);

/// Origin of a call's pictures.
pub enum PictureSource {
    /// A source that the call opens, reads on a separate thread, and paces.
    Source(Box<dyn Source>),
    /// The application, by [`CallHandle::send_frame`](crate::CallHandle::send_frame).
    Pushed,
}

impl From<Box<dyn Source>> for PictureSource {
    fn from(source: Box<dyn Source>) -> Self {
        Self::Source(source)
    }
}

/// A sent stream, coded by `C`.
pub struct Sending<C: PictureCodec = Vp8> {
    /// The sending end.
    pub end: SendingEnd<C>,
    /// Name of the stream for the other end; the only stream of a call needs none.
    pub name: StreamName,
    /// Origin of its pictures.
    pub source: PictureSource,
    /// Codes the candidates of a menu.
    pub runner: Box<dyn MenuRunner<C> + Send>,
    /// Source of the call's sound, if any; among several streams, the first one has it.
    pub microphone: Option<Box<dyn SoundSource>>,
    /// Whether the quality of sent frames is measured for the log; this takes about half as long as coding.
    pub measures_quality: bool,
}

/// State of the half during the call.
pub(crate) struct SendingHalf<C: PictureCodec = Vp8> {
    pub(crate) end: SendingEnd<C>,
    encode: mpsc::Sender<EncodeJob<C>>,
    measure: Option<mpsc::Sender<Committed<C>>>,
    /// Tells the source's thread whether pictures are wanted; `None` if the application pushes them.
    capture: Option<mpsc::Sender<bool>>,
    has_begun: bool,
    own: Presence,
    is_paused: bool,
    /// Whether the source failed.
    has_failed: bool,
    /// Why the camera was lost, until that is reported.
    lost: Option<String>,
    measuring: Measuring,
    pub(crate) microphone: Option<Microphone>,
    threads: Vec<Thread>,
    /// When this end stops waiting for feedback on the last picture; `None` before the last one.
    over_at: Option<Timestamp>,
}

/// Runs each job on the calling thread, and sends its result `of(job)`.
fn work<C: PictureCodec, Job>(
    jobs: mpsc::Receiver<Job>,
    events: &SyncSender<LoopEvent<C>>,
    stream: usize,
    of: impl Fn(Job) -> SendingEvent<C>,
) {
    for job in jobs {
        if events.send(LoopEvent::Sending(stream, of(job))).is_err() {
            return;
        }
    }
}

impl<C: PictureCodec> SendingHalf<C> {
    /// Starts the threads of the stream; the source waits for [`Self::begin`]. Returns the end if that fails.
    pub(crate) fn start(
        sending: Sending<C>,
        stream: usize,
        clock: Clock,
        events: &SyncSender<LoopEvent<C>>,
    ) -> Result<Self, (Box<SendingEnd<C>>, LiveError)> {
        let Sending { end, source, runner, microphone, measures_quality, .. } = sending;
        let (encode, to_encode) = mpsc::channel::<EncodeJob<C>>();
        let (measure, to_measure) = mpsc::channel::<Committed<C>>();
        let (capture, is_wanted) = mpsc::channel();
        let capture = matches!(source, PictureSource::Source(_)).then_some(capture);
        let threads = || {
            let encoded = events.clone();
            let mut threads = vec![Thread::spawn("encoder", move || {
                work(to_encode, &encoded, stream, |job| SendingEvent::Encoded(job.run(&*runner)));
                Ok(())
            })?];
            if measures_quality {
                let is_screen = matches!(&source, PictureSource::Source(source) if source.is_screen());
                let measured = events.clone();
                threads.push(Thread::spawn("quality", move || {
                    work(to_measure, &measured, stream, |Committed { capture, original, reconstruction, .. }| {
                        // The sizes always agree: both pictures come from one encoder.
                        let quality = PictureQuality::of(&original, &reconstruction, is_screen).ok();
                        SendingEvent::Measured { capture, quality }
                    });
                    Ok(())
                })?);
            }
            if let PictureSource::Source(source) = source {
                let frame_interval = source.format().frame_interval();
                threads.push(capture::spawn(source, frame_interval, is_wanted, events.clone(), move |captured| {
                    LoopEvent::Sending(stream, SendingEvent::Captured(captured))
                })?);
            }
            let microphone = microphone.map(|source| Microphone::start(source, stream, clock, events)).transpose()?;
            Ok((threads, microphone))
        };
        let (threads, microphone) = match threads() {
            Ok(started) => started,
            Err(error) => return Err((Box::new(end), error)),
        };
        let measure = measures_quality.then_some(measure);
        let measuring = Measuring::default();
        let (has_begun, own, is_paused, has_failed) = (false, Presence::default(), false, false);
        Ok(Self {
            end,
            encode,
            measure,
            capture,
            has_begun,
            own,
            is_paused,
            has_failed,
            lost: None,
            measuring,
            microphone,
            threads,
            over_at: None,
        })
    }

    /// Starts the source, unless it has started.
    pub(crate) fn begin(&mut self) {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.want_pictures();
        }
        if let Some(microphone) = &mut self.microphone {
            microphone.begin();
        }
    }

    fn want_pictures(&self) {
        if let Some(capture) = &self.capture {
            let _ = capture.send(self.captures()); // a failed thread is detected by `check`
        }
    }

    /// Whether pictures are captured.
    fn captures(&self) -> bool {
        !self.own.camera_off && !self.is_paused
    }

    /// Applies a setting of the application.
    pub(crate) fn set(&mut self, now: Timestamp, setting: StreamSetting) {
        match setting {
            StreamSetting::MaxBitrate(cap) => self.end.set_max_bitrate(cap),
            StreamSetting::FrameRate(frame_rate) => self.set_frame_rate(now, frame_rate),
            StreamSetting::Screen(is_screen) => self.end.set_screen(is_screen),
            StreamSetting::Paused(is_paused) => self.pause(is_paused),
        }
    }

    /// Pauses or resumes the stream.
    fn pause(&mut self, is_paused: bool) {
        let before = self.captures();
        self.is_paused = is_paused;
        if self.has_begun && before != self.captures() {
            self.want_pictures();
        }
    }

    /// Starts or stops pictures and sound.
    pub(crate) fn set_presence(&mut self, own: Presence) {
        let before = self.captures();
        self.own = own;
        if self.has_begun && before != self.captures() {
            self.want_pictures();
        }
        if let Some(microphone) = &self.microphone {
            microphone.mute(own.muted);
        }
    }

    /// Handles an event of a thread of the half.
    pub(crate) fn handle(&mut self, now: Timestamp, event: SendingEvent<C>) {
        match event {
            SendingEvent::Captured(Captured::Picture(picture, is_screen)) => {
                self.end.set_screen(is_screen);
                self.capture(now, now, picture);
            }
            SendingEvent::Captured(Captured::Ended) => self.stop_capturing(now),
            SendingEvent::Captured(Captured::Lost(reason)) => self.lost = Some(reason),
            SendingEvent::Encoded(menu) => {
                self.end.encoded(now, menu);
                let committed = self.end.poll_committed();
                if let (Some(measure), Some(committed)) =
                    (&self.measure, committed.filter(|_| self.measuring.has_room()))
                {
                    self.measuring.begin(committed.capture);
                    let _ = measure.send(committed);
                }
            }
            SendingEvent::Measured { capture, quality } => self.measuring.measured(capture, quality),
        }
    }

    /// Handles a picture that the application pushed, captured at `captured_at`.
    pub(crate) fn push(&mut self, now: Timestamp, captured_at: Timestamp, picture: Picture) {
        if self.has_begun && self.captures() {
            self.capture(now, captured_at, picture);
        }
    }

    fn capture(&mut self, now: Timestamp, captured_at: Timestamp, picture: Picture) {
        if self.has_failed || self.over_at.is_some() {
            return;
        }
        self.end.capture(now, captured_at, picture);
    }

    /// Announces a new frame rate.
    fn set_frame_rate(&mut self, now: Timestamp, frame_rate: FrameRate) {
        let (frame_rate_numerator, frame_rate_denominator) = (frame_rate.numerator(), frame_rate.denominator());
        self.end.set_format(now, VideoFormat { frame_rate_numerator, frame_rate_denominator, ..self.end.format() });
    }

    /// Sends 20 ms of this end's sound.
    pub(crate) fn send_sound(&mut self, now: Timestamp, packet: SoundPacket) {
        // Packets are numbered in order, and each fits a datagram, so none is refused.
        let _ = self.end.send_sound(now, packet);
        self.allow_sound(now);
    }

    /// Adapts the microphone's bit rate to the path.
    pub(crate) fn allow_sound(&mut self, now: Timestamp) {
        if let Some(microphone) = &self.microphone {
            microphone.allow(self.end.sound_allowance(now));
        }
    }

    /// Ends the pictures of this stream.
    pub(crate) fn stop_capturing(&mut self, now: Timestamp) {
        self.over_at.get_or_insert(now + LINGER);
    }

    /// Ends the pictures of this stream, because its source failed.
    pub(crate) fn fail(&mut self) {
        self.has_failed = true;
    }

    /// Whether the source failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// When this end stops waiting for feedback on the last picture; `None` before the last one.
    pub(crate) fn over_at(&self) -> Option<Timestamp> {
        self.over_at
    }

    /// Starts to encode the waiting picture once the other end has joined; until then, newer pictures replace it.
    pub(crate) fn step(&mut self, now: Timestamp, joined: bool, log: &mut impl FnMut(FrameRecord)) {
        if self.end.poll_timeout().is_some_and(|at| at <= now) {
            self.end.handle_timeout(now);
        }
        if joined && let Some(job) = self.end.poll_encode(now) {
            let _ = self.encode.send(job); // a failed thread is detected by `check`
        }
        while let Some(record) = self.end.poll_record() {
            self.measuring.push(record);
        }
        while let Some(record) = self.measuring.pop() {
            log(record);
        }
    }

    /// Logs the remaining records at the end of the call, complete or not.
    pub(crate) fn log_remaining(&mut self, log: &mut impl FnMut(FrameRecord)) {
        while let Some(record) = self.end.poll_last_record() {
            self.measuring.push(record);
        }
        while let Some(record) = self.measuring.pop_any() {
            log(record);
        }
    }

    /// Returns why the camera was lost, once. Its pictures continue when it is there again.
    pub(crate) fn poll_lost(&mut self) -> Option<String> {
        self.lost.take()
    }

    /// Reports the failure of a thread or of the encoder, once.
    pub(crate) fn check(&mut self) -> Result<(), LiveError> {
        encoder_failure(&self.end)?;
        self.microphone.as_mut().map_or(Ok(()), Microphone::check)?;
        self.threads.iter_mut().try_for_each(Thread::check)
    }
}
