//! A call without pixels and bytes: the controllers and estimators of real calls, a codec that is a model, and packets
//! that carry nothing but their numbers. Four orders of magnitude faster than real time, for training and for sweeps.
//!
//! What it leaves out: the wire format (sizes are as on the wire), damage; and every frame is
//! decoded in the time that it is told. What it shares with a real call: [`lockstep_control`]'s controllers and
//! estimators, the link, the policy after losses, the records and their scores.

mod conventional;
mod frames;
mod outbox;
mod packet;
mod receiver;
mod sender;
mod sent;
mod window;

use std::time::Duration;

use lockstep_call::{
    CallLog, CallObserver, DisplayRecord, FIRST_PASS_SHARE, FinishedCall, ModelledEncoder, SeriesRecorder,
    VideoDelayFloor,
};
use lockstep_control::{Allowance, Controller, Estimator};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use crate::flow::{Arrived, Direction, Flow};
use receiver::{ModelledReceiver, Shown};
use sender::ModelledSender;

pub use frames::FrameStatistics;
pub use packet::{FeedbackReport, MediaFragment, ModelledPacket};
pub use window::WindowStatistics;

/// How often the receiver reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeedbackInterval {
    /// After each fragment, as Salsify's receiver does.
    EveryFragment,
    /// At this interval, as receivers of transport-wide feedback and of AlphaRTC do.
    Every(Duration),
}

/// Which codec the model stands in for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelledCodec {
    /// Frames that fit the budget of their moment, coded from any state that the receiver holds.
    Functional,
    /// One quantizer a frame, decided before coding by a rate control that takes the target over once a second; lost
    /// fragments are sent again, and a key frame follows where that fails.
    Conventional,
    /// No video, but a source that at every moment of capture fills up what the controller's target allows.
    FullThrottle,
}

/// What a modelled call is told.
#[derive(Debug, Clone)]
pub struct ModelledSetting {
    /// Time between two pictures.
    pub frame_interval: Duration,
    /// The most bytes of a frame in one fragment.
    pub payload: ByteCount,
    /// Time to code the two candidates of a menu, of which a codec takes [`ModelledCodec::first_job_share`].
    pub encode_time: Duration,
    /// Time to decode a frame.
    pub decode_time: Duration,
    /// The codec.
    pub codec: ModelledCodec,
    /// The bit rate beyond which pictures gain nothing; none for no such bound.
    pub ceiling: Option<Bitrate>,
    /// How often the receiver reports.
    pub feedback: FeedbackInterval,
    /// When the first picture is captured.
    pub start: Timestamp,
    /// No picture is captured from then on.
    pub stop: Timestamp,
    /// Nor in these times: (from, to), `to` exclusive.
    pub pauses: Vec<(Timestamp, Timestamp)>,
    /// How much of the call is scored, from its start on: until its stop, if that is earlier.
    pub length: Duration,
    /// Whether every frame is logged, and the call scored.
    pub recording: bool,
}

impl ModelledCodec {
    /// The time until there is something to send, as a share of [`ModelledSetting::encode_time`]: a functional codec has it
    /// after its first pass, and a model makes no others.
    #[must_use]
    pub fn first_job_share(self) -> f64 {
        match self {
            Self::Functional => FIRST_PASS_SHARE,
            Self::Conventional | Self::FullThrottle => 1.0,
        }
    }
}

impl ModelledSetting {
    /// Thirty pictures a second from zero on without end, fragments as real calls have them, feedback every 50 ms as
    /// WebRTC's at a usual rate.
    #[must_use]
    pub fn new() -> Self {
        Self {
            frame_interval: Duration::from_nanos(1_000_000_000 / 30),
            payload: ByteCount::new(1_384),
            encode_time: Duration::from_millis(12),
            decode_time: Duration::from_millis(3),
            codec: ModelledCodec::Functional,
            ceiling: None,
            feedback: FeedbackInterval::Every(Duration::from_millis(50)),
            start: Timestamp::ZERO,
            stop: Timestamp::MAX,
            pauses: Vec::new(),
            length: Duration::MAX,
            recording: false,
        }
    }
}

impl Default for ModelledSetting {
    fn default() -> Self {
        Self::new()
    }
}

/// Both ends of a modelled call.
pub struct ModelledCall {
    sender: ModelledSender,
    receiver: ModelledReceiver,
    /// What is logged of the frames, and of the link.
    logs: Option<(CallLog, SeriesRecorder)>,
    start: Timestamp,
}

impl ModelledCall {
    /// A call that has not begun.
    #[must_use]
    pub fn new(
        setting: &ModelledSetting,
        controller: Box<dyn Controller>,
        estimator: Box<dyn Estimator>,
        encoder: ModelledEncoder,
    ) -> Self {
        let length = setting.length.min(setting.stop.saturating_since(setting.start));
        let logs = || {
            let frames = CallLog::new(setting.start, length, setting.frame_interval);
            (frames, SeriesRecorder::new(setting.start, length))
        };
        Self {
            sender: ModelledSender::new(setting, controller, encoder),
            receiver: ModelledReceiver::new(estimator, setting.feedback, setting.decode_time),
            logs: setting.recording.then(logs),
            start: setting.start,
        }
    }

    /// Has `observer` hear of every frame of the call, if frames are logged.
    #[must_use]
    pub fn observed_by(mut self, observer: Box<dyn CallObserver>) -> Self {
        if let Some((frames, _)) = &mut self.logs {
            frames.observe(observer);
        }
        self
    }

    /// Compares the video delay of every frame of the call with `floor`, if frames are logged.
    #[must_use]
    pub fn compared_with(mut self, floor: VideoDelayFloor) -> Self {
        if let Some((frames, _)) = &mut self.logs {
            frames.compare_with(floor);
        }
        self
    }

    /// The finished call; none if nothing was logged. `capacity` says how many bytes the link could have carried between
    /// two moments.
    #[must_use]
    pub fn finish(mut self, capacity: impl Fn(Timestamp, Timestamp) -> ByteCount) -> Option<FinishedCall> {
        let (mut frames, recorder) = self.logs?;
        while let Some(record) = self.sender.records.take_any() {
            frames.decided(record);
        }
        Some(frames.finish(recorder, capacity))
    }

    /// How many records of frames are held, because they are not decided on or nothing was shown after them yet.
    #[must_use]
    pub fn held_records(&self) -> usize {
        self.logs.as_ref().map_or(0, |(frames, _)| frames.held_records() + self.sender.records.len())
    }

    /// What the receiver saw since this was last asked.
    pub fn take_window(&mut self) -> WindowStatistics {
        self.receiver.take_window()
    }

    /// What the controller allows at `now`.
    #[must_use]
    pub fn allowance(&self, now: Timestamp) -> Allowance {
        self.sender.allowance(now)
    }

    /// The smoothed round-trip time, once it was measured.
    #[must_use]
    pub fn round_trip_time(&self) -> Option<Duration> {
        self.sender.sent.round_trip().map(|time| time.smoothed)
    }

    /// What became of frames since this was last asked.
    pub fn take_frames(&mut self) -> FrameStatistics {
        self.sender.frame_log.take()
    }

    /// When the first picture is captured.
    #[must_use]
    pub fn start(&self) -> Timestamp {
        self.start
    }

    fn show(&mut self) {
        while let Some(shown) = self.receiver.shown.pop_front() {
            self.sender.frame_log.shown(shown.frame, shown.displayed_at);
            if let Some((frames, _)) = &mut self.logs {
                let Shown { frame, completed_at, displayed_at } = shown;
                frames.shown(&DisplayRecord { frame, completed_at, displayed_at }, None);
            }
        }
    }
}

impl Flow for ModelledCall {
    type Packet = ModelledPacket;

    fn handle_packet(&mut self, now: Timestamp, arrived: Arrived<ModelledPacket>) {
        match (arrived.direction, &arrived.packet) {
            (Direction::Forward, &ModelledPacket::Media(media)) => {
                if let Some((_, recorder)) = &mut self.logs {
                    recorder.received(arrived.at, arrived.sent_at, arrived.size, arrived.queueing_delay);
                }
                self.receiver.handle_media(now, media, &arrived);
                self.show();
            }
            (Direction::Reverse, ModelledPacket::Feedback(report)) => self.sender.handle_feedback(now, report),
            // Neither end sends the other's packets.
            (Direction::Forward, ModelledPacket::Feedback(_)) | (Direction::Reverse, ModelledPacket::Media(_)) => {}
        }
    }

    fn poll_transmit(&mut self, now: Timestamp) -> Option<(Direction, ByteCount, ModelledPacket)> {
        if let Some((size, media)) = self.sender.poll_transmit(now) {
            if let Some((_, recorder)) = &mut self.logs {
                recorder.sent(now, size);
            }
            return Some((Direction::Forward, size, ModelledPacket::Media(media)));
        }
        let report = self.receiver.poll_feedback(now)?;
        Some((Direction::Reverse, report.size(), ModelledPacket::Feedback(Box::new(report))))
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        let next = self.sender.poll_timeout().min(self.receiver.poll_timeout());
        (next < Timestamp::MAX).then_some(next)
    }

    fn handle_timeout(&mut self, now: Timestamp) {
        self.sender.handle_timeout(now);
        if let Some((frames, _)) = &mut self.logs {
            while let Some(record) = self.sender.records.take_decided() {
                frames.decided(record);
            }
        }
    }
}
