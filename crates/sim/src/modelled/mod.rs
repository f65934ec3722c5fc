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

use lockstep_call::{CallLog, FrameRecord, ModelledEncoder, SeriesRecorder};
use lockstep_control::{Allowance, Controller, Estimator};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use crate::flow::{Arrived, Direction, Flow};
use receiver::ModelledReceiver;
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
    /// Time to code a picture.
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
    /// Whether a record of every frame and the series of rates are kept.
    pub recording: bool,
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
    recorder: Option<SeriesRecorder>,
    start: Timestamp,
    frame_interval: Duration,
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
        Self {
            sender: ModelledSender::new(setting, controller, encoder),
            receiver: ModelledReceiver::new(estimator, setting.feedback, setting.decode_time),
            recorder: setting.recording.then(|| SeriesRecorder::new(setting.start)),
            start: setting.start,
            frame_interval: setting.frame_interval,
        }
    }

    /// What the call's first `length` is scored from; none unless records are kept.
    #[must_use]
    pub fn log(&self, length: Duration) -> Option<CallLog<'_>> {
        Some(CallLog {
            records: self.records(),
            start: self.start,
            recorder: self.recorder.as_ref()?,
            length,
            frame_interval: self.frame_interval,
        })
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

    /// One record a captured picture; none unless they are kept.
    #[must_use]
    pub fn records(&self) -> &[FrameRecord] {
        self.sender.records()
    }

    /// Rates and delays over time, if they are kept.
    #[must_use]
    pub fn recorder(&self) -> Option<&SeriesRecorder> {
        self.recorder.as_ref()
    }

    /// When the first picture is captured.
    #[must_use]
    pub fn start(&self) -> Timestamp {
        self.start
    }

    fn show(&mut self) {
        while let Some(shown) = self.receiver.shown.pop_front() {
            self.sender.frame_log.shown(shown.frame, shown.displayed_at);
            if let Some(record) = self.sender.record_of(shown.frame) {
                record.completed_at = Some(shown.completed_at);
                record.displayed_at = Some(shown.displayed_at);
            }
        }
    }
}

impl Flow for ModelledCall {
    type Packet = ModelledPacket;

    fn handle_packet(&mut self, now: Timestamp, arrived: Arrived<ModelledPacket>) {
        match (arrived.direction, arrived.packet) {
            (Direction::Forward, ModelledPacket::Media(media)) => {
                if let Some(recorder) = &mut self.recorder {
                    recorder.received(arrived.at, arrived.sent_at, arrived.size, arrived.queueing_delay);
                }
                self.receiver.handle_media(now, media, arrived.size, arrived.queueing_delay);
                self.show();
            }
            (Direction::Reverse, ModelledPacket::Feedback(report)) => self.sender.handle_feedback(now, &report),
            // Neither end sends the other's packets.
            (Direction::Forward, ModelledPacket::Feedback(_)) | (Direction::Reverse, ModelledPacket::Media(_)) => {}
        }
    }

    fn poll_transmit(&mut self, now: Timestamp) -> Option<(Direction, ByteCount, ModelledPacket)> {
        if let Some((size, media)) = self.sender.poll_transmit(now) {
            if let Some(recorder) = &mut self.recorder {
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
    }
}
