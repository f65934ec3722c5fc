//! A call with pictures and bytes as a flow: the very ends that a live call has, their long work done at once while
//! virtual time passes.

use std::collections::BTreeMap;
use std::time::Duration;

use lockstep_call::{
    CallLog, CallObserver, DRAIN, DecodeOutcome, DisplayRecord, FinishedCall, JobTimes, Menu, Outcome, ReceivingEnd,
    SendingEnd, SerialMenu, SeriesRecorder, VideoDelayFloor, carried,
};
use lockstep_media::{QualityError, Source, SourceError, VmafError, VmafMeter, psnr, ssim};
use lockstep_units::{ByteCount, Timestamp};
use lockstep_vp8::Picture;

use crate::activity::Activity;
use crate::flow::{Arrived, Direction, Flow};

/// Why a simulation ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimulationError {
    /// The source of pictures failed.
    #[error("the source failed: {0}")]
    Source(#[from] SourceError),
    /// A picture was shown that cannot be compared with the one captured.
    #[error("a shown picture cannot be compared with its original: {0}")]
    Quality(#[from] QualityError),
    /// Whoever drove the simulation ended it.
    #[error("{0}")]
    Stopped(StopReason),
}

/// Why the driver of a simulation ended it.
pub type StopReason = Box<dyn std::error::Error + Send + Sync>;

/// So many captured pictures are kept to be compared with what is shown: ten seconds of them. What is shown later than
/// that is not compared.
const MOST_ORIGINALS: usize = 300;

/// What a call is told beside its ends.
#[derive(Debug, Clone)]
pub struct CallSetting {
    /// When pictures are captured.
    pub activity: Activity,
    /// How much of it is scored, from its start on.
    pub length: Duration,
    /// Whether the scored time ends with the source, if that ends before.
    pub ends_with_source: bool,
    /// Virtual time that jobs of encoding take.
    pub job_times: JobTimes,
    /// Virtual time that decoding one frame takes.
    pub decode_time: Duration,
}

/// A finished call.
pub struct CallResult {
    /// Its scores, and rates and delays over time.
    pub call: FinishedCall,
    /// The sending end as the call left it.
    pub sender: SendingEnd,
    /// The receiving end as the call left it.
    pub receiver: ReceivingEnd,
}

/// Both ends of a call, its source, and what the driver of a live call would do for them.
pub struct CallFlow {
    sender: SendingEnd,
    receiver: ReceivingEnd,
    source: Box<dyn Source>,
    setting: CallSetting,
    /// When the next picture is captured, and how many were since the activity last began, and when that was.
    next_capture: Option<Timestamp>,
    captured_since: (u64, Timestamp),
    captures: u64,
    source_ended_at: Option<Timestamp>,
    encoding: Option<(Timestamp, Menu)>,
    decoding: Option<(Timestamp, DecodeOutcome)>,
    originals: BTreeMap<u64, Picture>,
    log: CallLog,
    recorder: SeriesRecorder,
    failure: Option<SimulationError>,
    vmaf: Option<Result<VmafMeter, VmafError>>,
}

impl CallFlow {
    /// A call that has not begun.
    #[must_use]
    pub fn new(sender: SendingEnd, receiver: ReceivingEnd, source: Box<dyn Source>, setting: CallSetting) -> Self {
        let start = setting.activity.start();
        let log = CallLog::new(start, setting.length, source.format().frame_interval());
        Self {
            sender,
            receiver,
            source,
            next_capture: setting.activity.next_from(Timestamp::ZERO),
            captured_since: (0, start),
            captures: 0,
            source_ended_at: None,
            encoding: None,
            decoding: None,
            originals: BTreeMap::new(),
            log,
            recorder: SeriesRecorder::new(start, setting.length),
            setting,
            failure: None,
            vmaf: None,
        }
    }

    /// Has `observer` hear of every frame of the call.
    pub fn observe(&mut self, observer: Box<dyn CallObserver>) {
        self.log.observe(observer);
    }

    /// Compares the video delay of every frame of the call with `floor`.
    pub fn compare_with(&mut self, floor: VideoDelayFloor) {
        self.log.compare_with(floor);
    }

    /// Compares what is shown with what was captured by `meter`; where there is none, the scores will say why.
    pub fn measure_vmaf(&mut self, meter: Result<VmafMeter, VmafError>) {
        self.vmaf = Some(meter);
    }

    /// The sending end.
    #[must_use]
    pub fn sender(&self) -> &SendingEnd {
        &self.sender
    }

    /// The receiving end.
    #[must_use]
    pub fn receiver(&self) -> &ReceivingEnd {
        &self.receiver
    }

    /// When the source had no further picture.
    #[must_use]
    pub fn source_ended_at(&self) -> Option<Timestamp> {
        self.source_ended_at
    }

    /// Whether the call cannot go on; [`CallFlow::finish`] says why.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// The finished call. `capacity` says how many bytes the link could have carried between two moments.
    ///
    /// # Errors
    /// What ended the call early.
    pub fn finish(
        mut self,
        capacity: impl Fn(Timestamp, Timestamp) -> ByteCount,
    ) -> Result<CallResult, SimulationError> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        while let Some(record) = self.sender.poll_last_record() {
            self.log.decided(record);
        }
        let mut call = self.log.finish(self.recorder, capacity);
        if let Some(meter) = self.vmaf {
            let vmaf = meter.and_then(VmafMeter::finish).map_err(|error| error.to_string());
            call.scores = call.scores.with_vmaf(vmaf);
        }
        Ok(CallResult { call, sender: self.sender, receiver: self.receiver })
    }

    /// Whether the call is over: nothing is captured any more, and what was has had [`DRAIN`] to arrive.
    fn is_over(&self, at: Timestamp) -> bool {
        self.failure.is_some() || at < self.setting.activity.start() || at > self.setting.activity.end() + DRAIN
    }

    fn capture(&mut self, now: Timestamp) -> Result<(), SimulationError> {
        let Some(picture) = self.source.next()? else {
            self.next_capture = None;
            self.source_ended_at = Some(now);
            if self.setting.ends_with_source {
                self.log.end_at(now);
                self.recorder.end_at(now);
            }
            return Ok(());
        };
        self.originals.insert(self.captures, picture.clone());
        if self.originals.len() > MOST_ORIGINALS {
            self.originals.pop_first();
        }
        self.sender.capture(now, picture);
        self.captures += 1;
        let (captured, since) = &mut self.captured_since;
        *captured += 1;
        // Not a sum of intervals: a third of a second must not drift.
        let next = *since + self.source.format().time_of(*captured);
        self.next_capture = self.setting.activity.next_from(next);
        if let Some(resumed) = self.next_capture.filter(|&resumed| resumed > next) {
            self.captured_since = (0, resumed);
        }
        Ok(())
    }

    /// Begins to encode and to decode what waits, either of which gives no job while one is under way; and logs what the
    /// sender has decided.
    fn begin_work(&mut self, now: Timestamp) {
        if let Some(job) = self.sender.poll_encode(now) {
            let time = self.setting.job_times.of(job.kind());
            self.encoding = Some((now + time, job.run(&SerialMenu)));
        }
        if let Some(job) = self.receiver.poll_decode() {
            self.decoding = Some((now + self.setting.decode_time, job.run()));
        }
        while let Some(record) = self.sender.poll_record() {
            if record.outcome != Outcome::Sent {
                self.originals.remove(&record.capture);
            }
            self.log.decided(record);
        }
    }

    fn show(&mut self) -> Result<(), SimulationError> {
        let Some(display) = self.receiver.poll_display() else { return Ok(()) };
        let Some(capture) = self.log.capture_of(display.frame) else { return Ok(()) };
        // Nothing older than what is shown will be shown any more.
        let later = self.originals.split_off(&(capture + 1));
        let shown = self.originals.remove(&capture);
        self.originals = later;
        let mut quality = None;
        if let Some(original) = shown {
            quality = Some((ssim(&original, &display.picture)?, psnr(&original, &display.picture)?));
            if let Some(Ok(meter)) = &mut self.vmaf
                && let Err(error) = meter.compare(&original, &display.picture)
            {
                self.vmaf = Some(Err(error));
            }
        }
        let (completed_at, displayed_at) = (display.completed_at, display.displayed_at);
        self.log.shown(&DisplayRecord { frame: display.frame, completed_at, displayed_at }, quality);
        Ok(())
    }

    fn do_what_is_due(&mut self, now: Timestamp) -> Result<(), SimulationError> {
        if self.next_capture.is_some_and(|at| at <= now) {
            self.capture(now)?;
        }
        if let Some((_, menu)) = self.encoding.take_if(|(at, _)| *at <= now) {
            self.sender.encoded(now, menu);
            let _ = self.sender.poll_committed(); // quality is measured on what the receiver shows
        }
        if let Some((_, outcome)) = self.decoding.take_if(|(at, _)| *at <= now) {
            self.receiver.decoded(now, outcome);
            self.show()?;
        }
        if self.sender.poll_timeout().is_some_and(|at| at <= now) {
            self.sender.handle_timeout(now);
        }
        if self.receiver.poll_timeout().is_some_and(|at| at <= now) {
            self.receiver.handle_timeout(now);
        }
        self.begin_work(now);
        Ok(())
    }
}

impl Flow for CallFlow {
    type Packet = Vec<u8>;

    fn handle_packet(&mut self, now: Timestamp, arrived: Arrived<Vec<u8>>) {
        if self.is_over(now) {
            return;
        }
        match arrived.direction {
            Direction::Forward => {
                self.recorder.received(arrived.at, arrived.sent_at, arrived.size, arrived.queueing_delay);
                self.receiver.handle_datagram(now, &arrived.packet);
            }
            Direction::Reverse => self.sender.handle_datagram(now, &arrived.packet),
        }
        self.begin_work(now);
    }

    fn poll_transmit(&mut self, now: Timestamp) -> Option<(Direction, ByteCount, Vec<u8>)> {
        if self.is_over(now) {
            return None;
        }
        if let Some(datagram) = self.sender.poll_transmit(now) {
            self.recorder.sent(now, carried(&datagram));
            return Some((Direction::Forward, carried(&datagram), datagram));
        }
        let datagram = self.receiver.poll_transmit(now)?;
        Some((Direction::Reverse, carried(&datagram), datagram))
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        let ends = [
            self.next_capture,
            self.encoding.as_ref().map(|(at, _)| *at),
            self.decoding.as_ref().map(|(at, _)| *at),
            self.sender.poll_timeout(),
            self.receiver.poll_timeout(),
        ];
        let next = ends.into_iter().flatten().min()?.max(self.setting.activity.start());
        (!self.is_over(next)).then_some(next)
    }

    fn handle_timeout(&mut self, now: Timestamp) {
        if let Err(failure) = self.do_what_is_due(now) {
            self.failure = Some(failure);
        }
    }
}
