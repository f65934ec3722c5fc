//! The half of a live call that sends pictures: its source, its encoder, and the sending end between them.

use std::sync::mpsc::{self, SyncSender};
use std::time::Duration;

use lockstep_call::{Committed, EncodeJob, FrameRecord, Menu, MenuRunner, SendingEnd};
use lockstep_media::{Source, psnr, ssim};
use lockstep_units::Timestamp;

use crate::LiveError;
use crate::call::Event;
use crate::capture::{self, Captured};
use crate::measuring::{Measuring, Quality};
use crate::threads::Thread;

/// How long after the last picture late feedback is still taken.
const LINGER: Duration = Duration::from_millis(500);

/// What a call sends.
pub struct Sending {
    /// The end.
    pub end: SendingEnd,
    /// Where its pictures come from.
    pub source: Box<dyn Source>,
    /// Runs the candidates of a menu.
    pub runner: Box<dyn MenuRunner + Send>,
    /// Whether the quality of what is sent is measured, for the log; it takes about half as long as coding does.
    pub measures_quality: bool,
}

/// What the half's threads tell the call.
pub(crate) enum SendingEvent {
    Captured(Captured),
    Encoded(Menu),
    Measured { capture: u64, quality: Option<Quality> },
}

/// The half while the call runs.
pub(crate) struct SendingHalf {
    pub(crate) end: SendingEnd,
    encode: mpsc::Sender<EncodeJob>,
    measure: Option<mpsc::Sender<Committed>>,
    /// What the source waits for.
    begin: Option<mpsc::Sender<()>>,
    measuring: Measuring,
    threads: Vec<Thread>,
    /// When the last picture is no longer waited for, once there is a last one.
    over_at: Option<Timestamp>,
}

/// Does each job that comes, on the thread that calls this, and gives what `of` it came.
fn work<Job>(jobs: mpsc::Receiver<Job>, events: &SyncSender<Event>, of: impl Fn(Job) -> SendingEvent) {
    for job in jobs {
        if events.send(Event::Sending(of(job))).is_err() {
            return;
        }
    }
}

impl SendingHalf {
    /// Starts the threads; the source waits for [`Self::begin`]. Gives the end back if that fails.
    pub(crate) fn start(sending: Sending, events: &SyncSender<Event>) -> Result<Self, (Box<SendingEnd>, LiveError)> {
        let Sending { end, source, runner, measures_quality } = sending;
        let (encode, to_encode) = mpsc::channel::<EncodeJob>();
        let (measure, to_measure) = mpsc::channel::<Committed>();
        let (begin, begun) = mpsc::channel();
        let frame_interval = source.format().frame_interval();
        let threads = || {
            let encoded = events.clone();
            let mut threads = vec![Thread::spawn("encoder", move || {
                work(to_encode, &encoded, |job| SendingEvent::Encoded(job.run(&*runner)));
                Ok(())
            })?];
            if measures_quality {
                let measured = events.clone();
                threads.push(Thread::spawn("quality", move || {
                    work(to_measure, &measured, |Committed { capture, original, reconstruction, .. }| {
                        // Sizes always agree: both come from one encoder.
                        let quality = ssim(&original, &reconstruction).ok().zip(psnr(&original, &reconstruction).ok());
                        SendingEvent::Measured { capture, quality }
                    });
                    Ok(())
                })?);
            }
            threads.push(capture::spawn(source, frame_interval, begun, events.clone(), |captured| {
                Event::Sending(SendingEvent::Captured(captured))
            })?);
            Ok(threads)
        };
        let threads = match threads() {
            Ok(threads) => threads,
            Err(error) => return Err((Box::new(end), error)),
        };
        let measure = measures_quality.then_some(measure);
        let measuring = Measuring::default();
        Ok(Self { end, encode, measure, begin: Some(begin), measuring, threads, over_at: None })
    }

    /// Has the source begin, if it has not.
    pub(crate) fn begin(&mut self) {
        if let Some(begin) = self.begin.take() {
            let _ = begin.send(()); // that the thread is gone is noticed by whoever checks
        }
    }

    /// A thread of the half has something.
    pub(crate) fn handle(&mut self, now: Timestamp, event: SendingEvent) {
        match event {
            SendingEvent::Captured(Captured::Picture(picture)) => {
                if self.over_at.is_none() {
                    self.end.capture(now, picture);
                }
            }
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

    /// There will be no more pictures.
    pub(crate) fn stop_capturing(&mut self, now: Timestamp) {
        self.over_at.get_or_insert(now + LINGER);
    }

    /// Whether the last picture was sent and answered, or had the time for it.
    pub(crate) fn is_over(&self, now: Timestamp) -> bool {
        self.over_at.is_some_and(|at| at <= now)
    }

    /// When [`Self::is_over`] will be so.
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
        self.threads.iter_mut().try_for_each(Thread::check)
    }
}
