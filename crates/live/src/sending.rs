//! The half of a live call that sends pictures: its source, its encoder, and the sending end between them.

use std::sync::mpsc::{self, SyncSender};
use std::time::Duration;

use lockstep_call::{Committed, EncodeJob, FrameRecord, MenuRunner, PictureCodec, SendingEnd, Vp8};
use lockstep_media::{FrameRate, Source, psnr, ssim};
use lockstep_socket::Clock;
use lockstep_sound::SoundSource;
use lockstep_transport::{SoundPacket, VideoFormat};
use lockstep_units::Timestamp;
use lockstep_vp8::Picture;

use crate::LiveError;
use crate::Thread;
use crate::capture::{self, Captured};
use crate::loop_event::{LoopEvent, SendingEvent};
use crate::measuring::Measuring;
use crate::presence::Presence;
use crate::sound::Microphone;
use crate::stream::StreamName;

/// How long after the last picture late feedback is still taken.
const LINGER: Duration = Duration::from_millis(500);

/// The origin of a call's pictures.
pub enum PictureSource {
    /// A source that the call opens, reads on a thread of its own, and paces.
    Source(Box<dyn Source>),
    /// The application, by [`CallHandle::send_frame`](crate::CallHandle::send_frame).
    Pushed,
}

impl From<Box<dyn Source>> for PictureSource {
    fn from(source: Box<dyn Source>) -> Self {
        Self::Source(source)
    }
}

/// What a call sends, coded by `C`.
pub struct Sending<C: PictureCodec = Vp8> {
    /// The end.
    pub end: SendingEnd<C>,
    /// The name of the stream, which the other end learns; the only stream of a call needs none.
    pub name: StreamName,
    /// The origin of its pictures.
    pub source: PictureSource,
    /// Runs the candidates of a menu.
    pub runner: Box<dyn MenuRunner<C> + Send>,
    /// The source of the call's sound, if it has any; of several streams, the first has it.
    pub microphone: Option<Box<dyn SoundSource>>,
    /// Whether the quality of what is sent is measured, for the log; it takes about half as long as coding does.
    pub measures_quality: bool,
}

/// The half while the call runs.
pub(crate) struct SendingHalf<C: PictureCodec = Vp8> {
    pub(crate) end: SendingEnd<C>,
    encode: mpsc::Sender<EncodeJob<C>>,
    measure: Option<mpsc::Sender<Committed<C>>>,
    /// Whether the source's pictures are wanted; none where the application pushes them.
    capture: Option<mpsc::Sender<bool>>,
    has_begun: bool,
    own: Presence,
    is_paused: bool,
    measuring: Measuring,
    pub(crate) microphone: Option<Microphone>,
    threads: Vec<Thread>,
    /// When the last picture is no longer waited for, once there is a last one.
    over_at: Option<Timestamp>,
}

/// Does each job that comes, on the thread that calls this, and gives what `of` it came.
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
    /// Starts the threads of that stream; the source waits for [`Self::begin`]. Gives the end back if that fails.
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
                let measured = events.clone();
                threads.push(Thread::spawn("quality", move || {
                    work(to_measure, &measured, stream, |Committed { capture, original, reconstruction, .. }| {
                        // Sizes always agree: both come from one encoder.
                        let quality = ssim(&original, &reconstruction).ok().zip(psnr(&original, &reconstruction).ok());
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
            let microphone = microphone.map(|source| Microphone::start(source, clock, events)).transpose()?;
            Ok((threads, microphone))
        };
        let (threads, microphone) = match threads() {
            Ok(started) => started,
            Err(error) => return Err((Box::new(end), error)),
        };
        let measure = measures_quality.then_some(measure);
        let measuring = Measuring::default();
        let (has_begun, own, is_paused) = (false, Presence::default(), false);
        Ok(Self {
            end,
            encode,
            measure,
            capture,
            has_begun,
            own,
            is_paused,
            measuring,
            microphone,
            threads,
            over_at: None,
        })
    }

    /// Has the source begin, if it has not.
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
            let _ = capture.send(self.captures()); // a thread that is gone is noticed by whoever checks
        }
    }

    /// Whether pictures are captured.
    fn captures(&self) -> bool {
        !self.own.camera_off && !self.is_paused
    }

    /// Pauses the stream, or resumes it.
    pub(crate) fn pause(&mut self, is_paused: bool) {
        let before = self.captures();
        self.is_paused = is_paused;
        if self.has_begun && before != self.captures() {
            self.want_pictures();
        }
    }

    /// Gives pictures and sound, or none.
    pub(crate) fn be(&mut self, own: Presence) {
        let before = self.captures();
        self.own = own;
        if self.has_begun && before != self.captures() {
            self.want_pictures();
        }
        if let Some(microphone) = &self.microphone {
            microphone.mute(own.muted);
        }
    }

    /// A thread of the half has something.
    pub(crate) fn handle(&mut self, now: Timestamp, event: SendingEvent<C>) {
        match event {
            SendingEvent::Captured(Captured::Picture(picture)) => self.capture(now, now, picture),
            SendingEvent::Captured(Captured::Ended) => self.stop_capturing(now),
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

    /// The application pushed a picture, captured at `captured_at`.
    pub(crate) fn push(&mut self, now: Timestamp, captured_at: Timestamp, picture: Picture) {
        if self.has_begun && self.captures() {
            self.capture(now, captured_at, picture);
        }
    }

    fn capture(&mut self, now: Timestamp, captured_at: Timestamp, picture: Picture) {
        if self.over_at.is_some() {
            return;
        }
        self.end.capture(now, captured_at, picture);
    }

    /// Announces another frame rate.
    pub(crate) fn set_frame_rate(&mut self, now: Timestamp, frame_rate: FrameRate) {
        let (frame_rate_numerator, frame_rate_denominator) = (frame_rate.numerator(), frame_rate.denominator());
        self.end.set_format(now, VideoFormat { frame_rate_numerator, frame_rate_denominator, ..self.end.format() });
    }

    /// 20 ms of one's own sound are to be sent.
    pub(crate) fn speak(&mut self, now: Timestamp, packet: SoundPacket) {
        // Its frames are numbered in order, and none is longer than a datagram: nothing is refused.
        let _ = self.end.send_sound(now, packet);
        self.allow_sound(now);
    }

    /// Has the microphone follow the path.
    pub(crate) fn allow_sound(&mut self, now: Timestamp) {
        if let Some(microphone) = &self.microphone {
            microphone.allow(self.end.sound_allowance(now));
        }
    }

    /// There will be no more pictures.
    pub(crate) fn stop_capturing(&mut self, now: Timestamp) {
        self.over_at.get_or_insert(now + LINGER);
    }

    /// When the last picture was sent and answered, or had the time for it; none while there may be more.
    pub(crate) fn over_at(&self) -> Option<Timestamp> {
        self.over_at
    }

    /// Has coded what is to be coded, once somebody is there to send it to; until then newer pictures replace older ones.
    pub(crate) fn step(&mut self, now: Timestamp, joined: bool, log: &mut impl FnMut(FrameRecord)) {
        if self.end.poll_timeout().is_some_and(|at| at <= now) {
            self.end.handle_timeout(now);
        }
        if joined && let Some(job) = self.end.poll_encode(now) {
            let _ = self.encode.send(job); // that the thread is gone is noticed by whoever checks
        }
        while let Some(record) = self.end.poll_record() {
            self.measuring.push(record);
        }
        while let Some(record) = self.measuring.pop() {
            log(record);
        }
    }

    /// Logs what is decided on or not, and measured or not, at the end.
    pub(crate) fn log_the_rest(&mut self, log: &mut impl FnMut(FrameRecord)) {
        while let Some(record) = self.end.poll_last_record() {
            self.measuring.push(record);
        }
        while let Some(record) = self.measuring.pop_any() {
            log(record);
        }
    }

    /// What went wrong in a thread, once.
    pub(crate) fn check(&mut self) -> Result<(), LiveError> {
        self.microphone.as_mut().map_or(Ok(()), Microphone::check)?;
        self.threads.iter_mut().try_for_each(Thread::check)
    }
}
