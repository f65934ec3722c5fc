//! A call as a flow: the very ends that a live call has, their long work done at once while virtual time passes. With
//! the real codec datagrams are bytes; with a model in its place ([`crate::modelled`]) there are neither pixels nor
//! bytes.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use lockstep_call::{
    CallSound, Codec, Committed, DecodeJob, DecodeOutcome, Display, DisplayRecord, FrameRecord, Menu, Outcome,
    ReceivingEnd, SendingEnd, SerialMenu, SoundScores, Vp8,
};
use lockstep_measure::{CallLog, CallObserver, DRAIN, FinishedCall, SeriesRecorder, VideoDelayFloor};
use lockstep_media::{QualityError, Source, SourceError, VmafError, VmafMeter, psnr, ssim};
use lockstep_sound::CodingError;
use lockstep_transport::wire::{DATA_HEADER, FRAGMENT_PAYLOAD};
use lockstep_transport::{Datagram, StateId, Transmit, carried};
use lockstep_units::{ByteCount, Timestamp};
use lockstep_vp8::Picture;

use crate::activity::Activity;
use crate::encode_time::JobTimes;
use crate::flow::{Arrived, Direction, Flow};
use crate::flow_sound::FlowSound;
use crate::network::TopologyError;
use crate::step_statistics::StepStatistics;

/// Why a simulation ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimulationError {
    /// The source of pictures failed.
    #[error("the source failed: {0}")]
    Source(#[from] SourceError),
    /// Sound could not be coded.
    #[error("the sound cannot be coded: {0}")]
    Sound(#[from] CodingError),
    /// A picture was shown that cannot be compared with the one captured.
    #[error("a shown picture cannot be compared with its original: {0}")]
    Quality(#[from] QualityError),
    /// The call was not logged, and so has no scores.
    #[error("the call was not logged")]
    Unlogged,
    /// The links cannot be as they are to be.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// Whoever drove the simulation ended it.
    #[error("{0}")]
    Stopped(StopReason),
}

/// Why the driver of a simulation ended it.
pub type StopReason = Box<dyn std::error::Error + Send + Sync>;

/// So many captured pictures are kept to be compared with what is shown: ten seconds of them. What is shown later than
/// that is not compared.
const MOST_ORIGINALS: usize = 300;

/// So many states of frames that are on their way are kept, so that the receiver need not work out what the sender has
/// already: decoding is a function. A frame that comes later than that is decoded.
const MOST_AHEAD: usize = 64;
/// The largest datagram of the transport's that a packet has room for: one with a whole fragment.
const LARGEST_DATAGRAM: usize = FRAGMENT_PAYLOAD + DATA_HEADER;
/// And one frame in so many is decoded all the same, as are those from nothing: were the two ends ever to differ, the call
/// would show it as a live one does.
const DECODED_ONCE_IN: u64 = 32;

/// What a call is told beside its ends.
#[derive(Debug, Clone)]
pub struct CallFlowOptions {
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
pub struct CallResult<C: Codec = Vp8> {
    /// Its scores, and rates and delays over time.
    pub call: FinishedCall,
    /// How its sound was heard, if it had any.
    pub sound: Option<SoundScores>,
    /// The sending end as the call left it.
    pub sender: SendingEnd<C>,
    /// The receiving end as the call left it.
    pub receiver: ReceivingEnd<C>,
}

/// Both ends of a call, its source, and what the driver of a live call would do for them.
pub struct CallFlow<C: Codec = Vp8> {
    sender: SendingEnd<C>,
    receiver: ReceivingEnd<C>,
    source: Box<dyn Source<C::Picture>>,
    setting: CallFlowOptions,
    /// Its first moment, and the last at which something can still arrive.
    start: Timestamp,
    over_at: Timestamp,
    /// When the next picture is captured, and how many were since the activity last began, and when that was.
    next_capture: Option<Timestamp>,
    captured_since: (u64, Timestamp),
    captures: u64,
    source_ended_at: Option<Timestamp>,
    encoding: Option<(Timestamp, Menu<C>)>,
    decoding: Option<(Timestamp, DecodeOutcome<C>)>,
    /// What the frames lead to that are on their way, in their order, by name; nothing where there are no pixels.
    ahead: VecDeque<(StateId, C::State)>,
    decoded: u64,
    originals: BTreeMap<u64, Picture>,
    sound: Option<Box<FlowSound<C>>>,
    /// What is logged of the frames, and of the link; nothing where nobody will ask.
    /// Apart, as calls without it are stepped by the thousand.
    log: Option<Box<(CallLog, SeriesRecorder)>>,
    /// What a learning agent observes, where there is one.
    steps: Option<StepStatistics>,
    failure: Option<SimulationError>,
    vmaf: Option<Box<Result<VmafMeter, VmafError>>>,
}

impl<C: Codec> CallFlow<C> {
    /// A call that has not begun.
    #[must_use]
    pub fn new(
        sender: SendingEnd<C>,
        receiver: ReceivingEnd<C>,
        source: Box<dyn Source<C::Picture>>,
        setting: CallFlowOptions,
    ) -> Self {
        let start = setting.activity.start();
        let log = CallLog::new(start, setting.length, source.format().frame_interval());
        Self {
            sender,
            receiver,
            source,
            start,
            over_at: setting.activity.end() + DRAIN,
            next_capture: setting.activity.next_from(Timestamp::ZERO),
            captured_since: (0, start),
            captures: 0,
            source_ended_at: None,
            encoding: None,
            decoding: None,
            ahead: VecDeque::new(),
            decoded: 0,
            originals: BTreeMap::new(),
            sound: None,
            log: Some(Box::new((log, SeriesRecorder::new(start, setting.length)))),
            steps: None,
            setting,
            failure: None,
            vmaf: None,
        }
    }

    /// The same without log and scores, for calls of which only steps are observed ([`CallFlow::steps`]).
    #[must_use]
    pub fn unlogged(self) -> Self {
        let steps = StepStatistics::new(self.source.format().frame_interval());
        Self { log: None, steps: Some(steps), ..self }
    }

    /// Has the call sound, too, from the first moment of its activity to the last.
    pub fn add_sound(&mut self, sound: CallSound<C::Payload>) {
        self.sound = Some(Box::new(FlowSound::new(sound, self.start, self.setting.activity.end())));
    }

    /// Has `observer` hear of every frame of the call, if frames are logged.
    pub fn observe(&mut self, observer: Box<dyn CallObserver>) {
        if let Some((log, _)) = self.log.as_deref_mut() {
            log.observe(observer);
        }
    }

    /// As [`CallFlow::observe`].
    #[must_use]
    pub fn observed_by(mut self, observer: Box<dyn CallObserver>) -> Self {
        self.observe(observer);
        self
    }

    /// Compares the video delay of every frame of the call with `floor`, if frames are logged.
    pub fn compare_with(&mut self, floor: VideoDelayFloor) {
        if let Some((log, _)) = self.log.as_deref_mut() {
            log.compare_with(floor);
        }
    }

    /// What a learning agent observes of an unlogged call.
    pub fn steps(&mut self) -> Option<&mut StepStatistics> {
        self.steps.as_mut()
    }

    /// How many records of frames are held, because they are not decided on or nothing was shown after them yet.
    #[must_use]
    pub fn held_records(&self) -> usize {
        self.log.as_ref().map_or(0, |log| log.0.held_records()) + self.sender.held_records()
    }

    /// Compares what is shown with what was captured by `meter`; where there is none, the scores will say why.
    pub fn measure_vmaf(&mut self, meter: Result<VmafMeter, VmafError>) {
        self.vmaf = Some(Box::new(meter));
    }

    /// The sending end.
    #[must_use]
    pub fn sender(&self) -> &SendingEnd<C> {
        &self.sender
    }

    /// The receiving end.
    #[must_use]
    pub fn receiver(&self) -> &ReceivingEnd<C> {
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
    /// What ended the call early, or that nothing was logged.
    pub fn finish(
        mut self,
        capacity: impl Fn(Timestamp, Timestamp) -> ByteCount,
    ) -> Result<CallResult<C>, SimulationError> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        let (mut log, recorder) = *self.log.ok_or(SimulationError::Unlogged)?;
        while let Some(record) = self.sender.poll_last_record() {
            log.decided(record);
        }
        let mut call = log.finish(recorder, capacity);
        if let Some(meter) = self.vmaf {
            let vmaf = (*meter).and_then(VmafMeter::finish).map_err(|error| error.to_string());
            call.scores = call.scores.with_vmaf(vmaf);
        }
        let sound = self.sound.map(|mut sound| sound.scores());
        Ok(CallResult { call, sound, sender: self.sender, receiver: self.receiver })
    }

    /// What the sender sends now.
    pub(crate) fn poll_media(&mut self, now: Timestamp) -> Option<Transmit<C::Payload>> {
        if self.is_over(now) { None } else { self.media(now) }
    }

    #[inline]
    fn media(&mut self, now: Timestamp) -> Option<Transmit<C::Payload>> {
        let transmit = self.sender.poll_transmit(now)?;
        let size = carried(transmit.size);
        if let Some((_, recorder)) = self.log.as_deref_mut() {
            recorder.sent(now, size);
        }
        if let Some(steps) = &mut self.steps {
            steps.frames.transmitted(size);
        }
        Some(transmit)
    }

    /// What the receiver sends now.
    pub(crate) fn poll_feedback(&mut self, now: Timestamp) -> Option<Transmit<C::Payload>> {
        if self.is_over(now) { None } else { self.receiver.poll_transmit(now) }
    }

    /// Whether what the sender's end sends meets a way that carries little.
    pub(crate) fn is_way_narrow(&self, now: Timestamp) -> bool {
        self.sender.is_way_narrow(now)
    }

    /// As [`lockstep_call::SendingEnd::feedback_left`].
    pub(crate) fn feedback_left(&mut self, now: Timestamp, carried: ByteCount) {
        self.sender.feedback_left(now, carried);
    }

    /// As [`lockstep_call::ReceivingEnd::thin_feedback`].
    pub(crate) fn thin_feedback(&mut self, thin: bool) {
        self.receiver.thin_feedback(thin);
    }

    /// What the receiver has ride with `media` of the call in the opposite direction.
    pub(crate) fn poll_riding(&mut self, now: Timestamp, media: &Transmit<C::Payload>) -> Option<Transmit<C::Payload>> {
        if self.is_over(now) { None } else { self.receiver.poll_riding(now, media, LARGEST_DATAGRAM) }
    }

    /// Whether the call is over: nothing is captured any more, and what was has had [`DRAIN`] to arrive.
    fn is_over(&self, at: Timestamp) -> bool {
        self.failure.is_some() || at < self.start || at > self.over_at
    }

    fn capture(&mut self, now: Timestamp) -> Result<(), SimulationError> {
        let Some(picture) = self.source.next()? else {
            self.next_capture = None;
            self.source_ended_at = Some(now);
            if self.setting.ends_with_source
                && let Some((log, recorder)) = self.log.as_deref_mut()
            {
                log.end_at(now);
                recorder.end_at(now);
            }
            return Ok(());
        };
        if let Some(pixels) = C::pixels(&picture) {
            self.originals.insert(self.captures, pixels.clone());
            if self.originals.len() > MOST_ORIGINALS {
                self.originals.pop_first();
            }
        }
        if let Some(steps) = &mut self.steps {
            steps.frames.captured(now);
        }
        self.sender.capture(now, now, picture);
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

    /// Begins to encode what waits, which gives no job while one is under way; and logs what the sender has decided.
    /// Packets that come change nothing about either.
    fn begin_encoding(&mut self, now: Timestamp) {
        if let Some(job) = self.sender.poll_encode(now) {
            let time = self.setting.job_times.of(job.kind());
            self.encoding = Some((now + time, job.run(&SerialMenu)));
        }
        while let Some(record) = self.sender.poll_record() {
            self.decided(record);
        }
    }

    /// The same of what is to be decoded.
    #[inline]
    fn begin_decoding(&mut self, now: Timestamp) {
        if let Some(job) = self.receiver.poll_decode() {
            self.decoding = Some((now + self.setting.decode_time, self.decode(job)));
        }
    }

    fn decode(&mut self, job: DecodeJob<C>) -> DecodeOutcome<C> {
        self.decoded += 1;
        let place = self.ahead.iter().position(|(name, _)| *name == job.target());
        let reached = place.and_then(|place| self.ahead.drain(..=place).next_back());
        match reached {
            Some((_, state)) if !job.is_from_nothing() && !self.decoded.is_multiple_of(DECODED_ONCE_IN) => {
                job.foreseen(state)
            }
            _ => job.run(),
        }
    }

    fn decided(&mut self, record: FrameRecord) {
        if record.outcome != Outcome::Sent && C::HAS_PIXELS {
            self.originals.remove(&record.capture);
        }
        if let Some(steps) = &mut self.steps {
            steps.frames.decided(&record);
        }
        if let Some((log, _)) = self.log.as_deref_mut() {
            log.decided(record);
        }
    }

    /// Shows what is to be shown: what was decoded, or what waited for its sound.
    fn show(&mut self, now: Timestamp) -> Result<(), SimulationError> {
        let decoded = self.receiver.poll_display();
        let display = match &mut self.sound {
            Some(sound) => {
                if let Some(display) = decoded {
                    sound.hold(now, display);
                }
                sound.poll_display(now)
            }
            None => decoded,
        };
        display.map_or(Ok(()), |display| self.show_picture(display))
    }

    fn show_picture(&mut self, display: Display<C>) -> Result<(), SimulationError> {
        if let Some(steps) = &mut self.steps {
            steps.frames.shown(display.frame, display.displayed_at);
        }
        let Some((log, _)) = self.log.as_deref_mut() else { return Ok(()) };
        let Some(capture) = log.capture_of(display.frame) else { return Ok(()) };
        let mut quality = None;
        if let Some(shown) = C::shown_pixels(&display.picture) {
            // Nothing older than what is shown will be shown any more.
            let later = self.originals.split_off(&(capture + 1));
            let original = self.originals.remove(&capture);
            self.originals = later;
            if let Some(original) = original {
                quality = Some((ssim(&original, shown)?, psnr(&original, shown)?));
                if let Some(Ok(meter)) = self.vmaf.as_deref_mut()
                    && let Err(error) = meter.compare(&original, shown)
                {
                    self.vmaf = Some(Box::new(Err(error)));
                }
            }
        }
        let (completed_at, displayed_at) = (display.completed_at, display.displayed_at);
        log.shown(&DisplayRecord { frame: display.frame, completed_at, displayed_at }, quality);
        Ok(())
    }

    fn do_what_is_due(&mut self, now: Timestamp) -> Result<(), SimulationError> {
        if self.next_capture.is_some_and(|at| at <= now) {
            self.capture(now)?;
        }
        if let Some(sound) = &mut self.sound {
            sound.do_what_is_due(now, &mut self.sender)?;
        }
        if let Some((_, menu)) = self.encoding.take_if(|(at, _)| *at <= now) {
            self.sender.encoded(now, menu);
            // Quality is measured on what the receiver shows.
            if let Some(Committed { reached, .. }) = self.sender.poll_committed().filter(|_| C::SHARES_STATES) {
                self.ahead.push_back(reached);
                if self.ahead.len() > MOST_AHEAD {
                    self.ahead.pop_front();
                }
            }
        }
        if let Some((_, outcome)) = self.decoding.take_if(|(at, _)| *at <= now) {
            self.receiver.decoded(now, outcome);
            self.show(now)?;
        } else if self.sound.is_some() {
            self.show(now)?;
        }
        if self.sender.poll_timeout().is_some_and(|at| at <= now) {
            self.sender.handle_timeout(now);
        }
        self.begin_encoding(now);
        self.begin_decoding(now);
        Ok(())
    }
}

impl<C: Codec> Flow for CallFlow<C> {
    type Packet = C::Packet;

    fn handle_packet(&mut self, now: Timestamp, arrived: Arrived<C::Packet>) {
        if self.is_over(now) {
            return;
        }
        let datagram = C::unpack(arrived.packet);
        match arrived.direction {
            Direction::Forward => {
                if let Some((_, recorder)) = self.log.as_deref_mut() {
                    recorder.received(arrived.at, arrived.sent_at, arrived.size, arrived.queueing_delay);
                }
                if let (Some(steps), Ok(Datagram::Data(data))) = (&mut self.steps, &datagram) {
                    steps.arrivals.on_arrival(now, data, arrived.size, arrived.queueing_delay);
                }
                self.receiver.handle_datagram(now, datagram, arrived.congestion_experienced);
                if let Some(sound) = &mut self.sound {
                    sound.take(now, &mut self.receiver);
                }
                self.begin_decoding(now);
            }
            Direction::Reverse => {
                self.sender.handle_datagram(now, datagram);
                if let Some(handled) = self.sender.take_handled() {
                    self.receiver.reuse(handled);
                }
            }
        }
    }

    fn poll_transmit(&mut self, now: Timestamp) -> Option<(Direction, ByteCount, C::Packet)> {
        if self.is_over(now) {
            return None;
        }
        if let Some(transmit) = self.media(now) {
            return Some((Direction::Forward, carried(transmit.size), C::pack(transmit.datagram)));
        }
        let transmit = self.receiver.poll_transmit(now)?;
        Some((Direction::Reverse, carried(transmit.size), C::pack(transmit.datagram)))
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        let mut next = self.next_capture.unwrap_or(Timestamp::MAX);
        if let Some((at, _)) = &self.encoding {
            next = next.min(*at);
        }
        if let Some((at, _)) = &self.decoding {
            next = next.min(*at);
        }
        if let Some(at) = self.sender.poll_timeout() {
            next = next.min(at);
        }
        if let Some(at) = self.receiver.poll_timeout() {
            next = next.min(at);
        }
        if let Some(at) = self.sound.as_ref().and_then(|sound| sound.poll_timeout()) {
            next = next.min(at);
        }
        let next = next.max(self.start);
        (next < Timestamp::MAX && !self.is_over(next)).then_some(next)
    }

    fn handle_timeout(&mut self, now: Timestamp) {
        if let Err(failure) = self.do_what_is_due(now) {
            self.failure = Some(failure);
        }
    }
}
