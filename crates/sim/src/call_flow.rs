//! A simulated call as a [`Flow`]: the same ends as in a live call, driven in virtual time.
//!
//! Coding jobs run at once; their results become available after the virtual time that they take. With the real codec
//! datagrams are bytes. With a model ([`crate::modelled`]) there are neither pixels nor bytes.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use lockstep_call::{
    CallSound, Codec, DecodeJob, DecodeOutcome, Display, DisplayRecord, FrameRecord, Menu, Outcome, ReceivingEnd,
    SendingEnd, SerialMenu, SoundScores, Vp8,
};
use lockstep_measure::{CallLog, DRAIN, FinishedCall, FrameObserver, SeriesRecorder, VideoDelayFloor};
use lockstep_media::{PictureQuality, QualityError, Source, SourceError, VmafError, VmafMeter};
use lockstep_sound::CodingError;
use lockstep_transport::wire::{DATA_HEADER, FRAGMENT_PAYLOAD};
use lockstep_transport::{Datagram, StateId, Transmit, size_on_link};
use lockstep_units::{ByteCount, Timestamp};
use lockstep_vp8::Picture;

use crate::activity::Activity;
use crate::encode_time::JobTimes;
use crate::flow::{Arrived, Direction, Flow};
use crate::flow_sound::FlowSound;
use crate::network::TopologyError;
use crate::step_statistics::StepStatistics;

/// Reason why a simulation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimulationError {
    /// The source of pictures failed.
    #[error("cannot read a picture from the source: {0}")]
    Source(#[from] SourceError),
    /// Encoding or decoding of sound failed.
    #[error("cannot code the sound: {0}")]
    Sound(#[from] CodingError),
    /// A displayed picture cannot be compared with the captured one.
    #[error("cannot compare a displayed picture with its original: {0}")]
    Quality(#[from] QualityError),
    /// The call was not logged, so it has no scores.
    #[error("cannot score the call: it was not logged")]
    Unlogged,
    /// The topology of the network is invalid.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// The caller stopped the simulation.
    #[error("{0}")]
    Stopped(StopReason),
}

/// Reason that the caller gives for stopping a simulation.
pub type StopReason = Box<dyn std::error::Error + Send + Sync>;

/// Captured pictures kept for comparison with displayed ones: ten seconds at 30 frames per second. Pictures displayed
/// later than that are not compared.
const MAX_ORIGINALS: usize = 300;

/// States of frames in flight that are kept, so that the receiver can reuse them instead of decoding. Decoding is a
/// pure function, so the result is the same. Frames that arrive later than that are decoded.
const MAX_STATES_IN_FLIGHT: usize = 64;
/// Largest datagram that fits one packet: one full fragment with its header.
const MAX_DATAGRAM_BYTES: usize = FRAGMENT_PAYLOAD + DATA_HEADER;
/// One frame in this many is decoded anyway, and so is every frame without a source state. A difference between the two
/// ends would then show, as in a live call.
const DECODED_ONCE_IN: u64 = 32;

/// Settings of a simulated call besides its ends.
#[derive(Debug, Clone)]
pub struct CallFlowOptions {
    /// Times at which pictures are captured.
    pub activity: Activity,
    /// Duration of the scored part, from the start of the activity.
    pub length: Duration,
    /// Whether scoring stops at the end of the source, if that comes first.
    pub ends_with_source: bool,
    /// Virtual time of each encoding job.
    pub job_times: JobTimes,
    /// Virtual time of decoding one frame.
    pub decode_time: Duration,
}

/// Results of a finished call.
pub struct CallResult<C: Codec = Vp8> {
    /// Scores, and rates and delays over time.
    pub call: FinishedCall,
    /// Scores of the sound; `None` if the call had no sound.
    pub sound: Option<SoundScores>,
    /// Sending end at the end of the call.
    pub sender: SendingEnd<C>,
    /// Receiving end at the end of the call.
    pub receiver: ReceivingEnd<C>,
}

/// Both ends of a call, its source, and the work that a live driver does for them.
pub struct CallFlow<C: Codec = Vp8> {
    sender: SendingEnd<C>,
    receiver: ReceivingEnd<C>,
    source: Box<dyn Source<C::Picture>>,
    setting: CallFlowOptions,
    /// Start of the call, and the last time at which a packet can still arrive.
    start: Timestamp,
    over_at: Timestamp,
    /// Time of the next capture.
    next_capture: Option<Timestamp>,
    /// Pictures captured since the activity last started, and the time of that start.
    captured_since: (u64, Timestamp),
    captures: u64,
    source_ended_at: Option<Timestamp>,
    encoding: Option<(Timestamp, Menu<C>)>,
    decoding: Option<(Timestamp, DecodeOutcome<C>)>,
    /// States that the frames in flight lead to, in order of sending, by name. Empty for codecs that share no states.
    ahead: VecDeque<(StateId, C::State)>,
    decoded: u64,
    originals: BTreeMap<u64, Picture>,
    sound: Option<Box<FlowSound<C>>>,
    /// Log of the frames and recorder of the link; `None` if the call is not logged. Boxed, because thousands of calls
    /// are stepped without a log.
    log: Option<Box<(CallLog, SeriesRecorder)>>,
    /// Observations for a learning agent; `None` if the call has no agent.
    steps: Option<StepStatistics>,
    failure: Option<SimulationError>,
    vmaf: Option<Box<Result<VmafMeter, VmafError>>>,
}

impl<C: Codec> CallFlow<C> {
    /// A call that has not started.
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

    /// The same call without log and scores. Only its steps are observed ([`CallFlow::steps`]).
    #[must_use]
    pub fn unlogged(self) -> Self {
        let steps = StepStatistics::new(self.source.format().frame_interval());
        Self { log: None, steps: Some(steps), ..self }
    }

    /// Adds sound for the whole activity.
    pub fn add_sound(&mut self, sound: CallSound<C::Payload>) {
        self.sound = Some(Box::new(FlowSound::new(sound, self.start, self.setting.activity.end())));
    }

    /// Reports every frame of the call to `observer`. Does nothing if the call is not logged.
    pub fn observe(&mut self, observer: Box<dyn FrameObserver>) {
        if let Some((log, _)) = self.log.as_deref_mut() {
            log.observe(observer);
        }
    }

    /// Builder form of [`CallFlow::observe`].
    #[must_use]
    pub fn observed_by(mut self, observer: Box<dyn FrameObserver>) -> Self {
        self.observe(observer);
        self
    }

    /// Compares the video delay of every frame with `floor`. Does nothing if the call is not logged.
    pub fn compare_with(&mut self, floor: VideoDelayFloor) {
        if let Some((log, _)) = self.log.as_deref_mut() {
            log.compare_with(floor);
        }
    }

    /// Observations of an unlogged call for a learning agent.
    pub fn steps(&mut self) -> Option<&mut StepStatistics> {
        self.steps.as_mut()
    }

    /// Number of frame records held: frames not yet decided on, or with nothing displayed after them.
    #[must_use]
    pub fn held_records(&self) -> usize {
        self.log.as_ref().map_or(0, |log| log.0.held_records()) + self.sender.held_records()
    }

    /// Measures VMAF with `meter`. If `meter` is an error, the scores report it.
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

    /// Time at which the source had no further picture.
    #[must_use]
    pub fn source_ended_at(&self) -> Option<Timestamp> {
        self.source_ended_at
    }

    /// Whether the call has failed and cannot continue. [`CallFlow::finish`] returns the reason.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Finishes the call. `capacity` returns how many bytes the link could carry between two times.
    ///
    /// # Errors
    /// If the call failed or was not logged.
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

    /// Next datagram of the sending end.
    pub(crate) fn poll_media(&mut self, now: Timestamp) -> Option<Transmit<C::Payload>> {
        if self.is_over(now) { None } else { self.media(now) }
    }

    #[inline]
    fn media(&mut self, now: Timestamp) -> Option<Transmit<C::Payload>> {
        let transmit = self.sender.poll_transmit(now)?;
        let size = size_on_link(transmit.size);
        if let Some((_, recorder)) = self.log.as_deref_mut() {
            recorder.sent(now, size);
        }
        if let Some(steps) = &mut self.steps {
            steps.frames.transmitted(size);
        }
        Some(transmit)
    }

    /// Next feedback datagram of the receiving end.
    pub(crate) fn poll_feedback(&mut self, now: Timestamp) -> Option<Transmit<C::Payload>> {
        if self.is_over(now) { None } else { self.receiver.poll_transmit(now) }
    }

    /// Whether the path of the sending end is narrow.
    pub(crate) fn is_path_narrow(&self, now: Timestamp) -> bool {
        self.sender.is_path_narrow(now)
    }

    /// See [`lockstep_call::SendingEnd::feedback_left`].
    pub(crate) fn feedback_left(&mut self, now: Timestamp, carried: ByteCount) {
        self.sender.feedback_left(now, carried);
    }

    /// See [`lockstep_call::ReceivingEnd::thin_feedback`].
    pub(crate) fn thin_feedback(&mut self, thin: bool) {
        self.receiver.thin_feedback(thin);
    }

    /// Feedback that shares a packet with `media` of the call in the opposite direction.
    pub(crate) fn poll_piggybacked(
        &mut self,
        now: Timestamp,
        media: &Transmit<C::Payload>,
    ) -> Option<Transmit<C::Payload>> {
        if self.is_over(now) { None } else { self.receiver.poll_piggybacked(now, media, MAX_DATAGRAM_BYTES) }
    }

    /// Whether `at` is outside the call, or the call has failed. After the last capture, packets have [`DRAIN`] to
    /// arrive.
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
            if self.originals.len() > MAX_ORIGINALS {
                self.originals.pop_first();
            }
        }
        if let Some(steps) = &mut self.steps {
            steps.frames.captured(now);
        }
        self.sender.set_screen(self.source.is_screen());
        self.sender.capture(now, now, picture);
        self.captures += 1;
        let (captured, since) = &mut self.captured_since;
        *captured += 1;
        // Multiply instead of adding intervals: rounding errors must not accumulate.
        let next = *since + self.source.format().time_of(*captured);
        self.next_capture = self.setting.activity.next_from(next);
        if let Some(resumed) = self.next_capture.filter(|&resumed| resumed > next) {
            self.captured_since = (0, resumed);
        }
        Ok(())
    }

    /// Starts the next encoding job, if there is one and none is running. Also logs the sender's decisions. Arriving
    /// packets affect neither.
    fn begin_encoding(&mut self, now: Timestamp) {
        if let Some(job) = self.sender.poll_encode(now) {
            let time = self.setting.job_times.of(job.kind(), job.effort());
            self.encoding = Some((now + time, job.run(&SerialMenu)));
        }
        while let Some(record) = self.sender.poll_record() {
            self.decided(record);
        }
    }

    /// Starts the next decoding job, if there is one.
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
                job.with_known_state(state)
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

    /// Displays the next picture: the decoded one, or one that waited for its sound.
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
            // Pictures older than the displayed one are never displayed.
            let later = self.originals.split_off(&(capture + 1));
            let original = self.originals.remove(&capture);
            self.originals = later;
            if let Some(original) = original {
                quality = Some(PictureQuality::of(&original, shown, self.source.is_screen())?);
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

    fn handle_due_events(&mut self, now: Timestamp) -> Result<(), SimulationError> {
        if self.next_capture.is_some_and(|at| at <= now) {
            self.capture(now)?;
        }
        if let Some(sound) = &mut self.sound {
            sound.handle_due_events(now, &mut self.sender)?;
        }
        if let Some((_, menu)) = self.encoding.take_if(|(at, _)| *at <= now) {
            self.sender.encoded(now, menu);
            self.sender.check().map_err(SimulationError::Stopped)?;
            // Quality is measured on the pictures that the receiver displays.
            let reached = self.sender.poll_committed().map(|committed| committed.reached);
            if let Some(reached) = reached.filter(|(_, state)| C::is_shared(state)) {
                self.ahead.push_back(reached);
                if self.ahead.len() > MAX_STATES_IN_FLIGHT {
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
            return Some((Direction::Forward, size_on_link(transmit.size), C::pack(transmit.datagram)));
        }
        let transmit = self.receiver.poll_transmit(now)?;
        Some((Direction::Reverse, size_on_link(transmit.size), C::pack(transmit.datagram)))
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
        if let Err(failure) = self.handle_due_events(now) {
            self.failure = Some(failure);
        }
    }
}
