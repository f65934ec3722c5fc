//! Silence detector: packets were sent, and feedback is overdue.

use std::cmp::Reverse;
use std::time::Duration;

use lockstep_transport::{AcknowledgedFragment, Feedback, SOUND};
use lockstep_units::{ByteCount, SlidingMinimum, Timestamp, moving_average};

use crate::PathConfig;
use crate::SilenceConfig;
use crate::base_delay::BaseDelay;

/// Weight of a new sample in the smoothed round trip (RFC 6298).
const ROUND_TRIP_WEIGHT: f64 = 0.125;

/// Times of transmissions and of feedback.
#[derive(Debug)]
pub(super) struct Silence {
    path: PathConfig,
    config: SilenceConfig,
    round_trip: Option<Duration>,
    last_round_trip: Option<Duration>,
    base_round_trip: SlidingMinimum<Duration>,
    /// Base delay of feedback on the reverse path, between two clocks, and its recent maximum excess.
    feedback_delay: BaseDelay,
    late: SlidingMinimum<Reverse<Duration>>,
    /// Mean time from a packet's arrival to its feedback, beyond the base delay of feedback. The first packet of each
    /// feedback counts.
    mean_feedback_delay: Duration,
    feedback_at: Timestamp,
    /// Time of the last feedback for a fragment of a frame, not for sound.
    frame_feedback_at: Timestamp,
    /// Sending time of the oldest packet since the last feedback.
    waiting_since: Option<Timestamp>,
    /// Time of the last sent fragment of a frame.
    fragment_sent_at: Option<Timestamp>,
    /// Time when the path was last found to work again.
    returned_at: Option<Timestamp>,
    /// Bytes sent during silence.
    unanswered: u64,
    /// Whether the packets of the last silence had arrived in time, so that only feedback was late.
    delays_feedback_only: bool,
    /// End of the last silence, until a packet sent after it is acknowledged.
    restarted_at: Option<Timestamp>,
}

impl Silence {
    pub(super) fn new(path: PathConfig, config: SilenceConfig) -> Self {
        Self {
            path,
            config,
            round_trip: None,
            last_round_trip: None,
            base_round_trip: SlidingMinimum::new(),
            feedback_delay: BaseDelay::new(path.base_memory),
            late: SlidingMinimum::new(),
            mean_feedback_delay: Duration::ZERO,
            feedback_at: Timestamp::ZERO,
            frame_feedback_at: Timestamp::ZERO,
            waiting_since: None,
            fragment_sent_at: None,
            returned_at: None,
            unanswered: 0,
            delays_feedback_only: false,
            restarted_at: None,
        }
    }

    pub(super) fn config(&self) -> &SilenceConfig {
        &self.config
    }

    pub(super) fn round_trip(&self) -> Option<Duration> {
        self.round_trip
    }

    pub(super) fn last_round_trip(&self) -> Option<Duration> {
        self.last_round_trip
    }

    pub(super) fn mean_feedback_delay(&self) -> Duration {
        self.mean_feedback_delay
    }

    /// Resets the base round-trip time, since the path became longer.
    pub(super) fn on_path_change(&mut self) {
        self.base_round_trip = SlidingMinimum::new();
    }

    pub(super) fn base_round_trip(&self) -> Option<Duration> {
        self.base_round_trip.get()
    }

    pub(super) fn feedback_at(&self) -> Timestamp {
        self.feedback_at
    }

    pub(super) fn frame_feedback_at(&self) -> Timestamp {
        self.frame_feedback_at
    }

    pub(super) fn fragment_sent_at(&self) -> Option<Timestamp> {
        self.fragment_sent_at
    }

    pub(super) fn unanswered(&self) -> u64 {
        self.unanswered
    }

    pub(super) fn delays_feedback_only(&self) -> bool {
        self.delays_feedback_only
    }

    /// Whether the path is silent at `now`.
    pub(super) fn is_silent(&self, now: Timestamp) -> bool {
        let Some(from) = self.waiting_since else { return false };
        let SilenceConfig { margin, latest_feedback, first_round_trip } = self.config;
        let late = self.late.get().map_or(Duration::ZERO, |Reverse(late)| late).min(latest_feedback);
        let patience = self.round_trip.unwrap_or(first_round_trip) + margin.max(late);
        now.is_later_by(patience, from.max(self.feedback_at))
    }

    /// Whether a silence has ended, but no data sent since then is acknowledged.
    pub(super) fn is_restarting(&self) -> bool {
        self.restarted_at.is_some()
    }

    /// Whether the path was found to work again and no fragment was sent since then.
    pub(super) fn has_returned(&self) -> bool {
        self.returned_at.is_some_and(|returned_at| self.fragment_sent_at.is_none_or(|at| at < returned_at))
    }

    pub(super) fn on_fragment(&mut self, now: Timestamp) {
        self.fragment_sent_at = Some(now);
    }

    /// Records that a packet of `size` was sent.
    pub(super) fn on_sent(&mut self, now: Timestamp, size: ByteCount) {
        self.waiting_since.get_or_insert(now);
        if self.is_silent(now) {
            self.unanswered += size.get();
        }
    }

    pub(super) fn on_return(&mut self, now: Timestamp) {
        self.returned_at = Some(now);
    }

    /// Handles feedback that acknowledges something.
    pub(super) fn on_feedback(&mut self, now: Timestamp, feedback: &Feedback) {
        if self.is_silent(now) {
            self.restarted_at = Some(now);
        }
        let arrivals = || feedback.acknowledged.iter().map(|arrival| arrival.arrived_at);
        if let (Some(oldest), Some(newest)) = (arrivals().min(), arrivals().max()) {
            self.late.put(now, Reverse(self.feedback_delay.queueing_delay(newest, now)), self.path.memory);
            let delay = self.feedback_delay.queueing_delay(oldest, now);
            let more = self.path.feedback_weight;
            let weight = if delay > self.mean_feedback_delay { more } else { 0.1 * more };
            self.mean_feedback_delay = moving_average(self.mean_feedback_delay, delay, weight);
        }
        (self.feedback_at, self.waiting_since, self.unanswered) = (now, None, 0);
        if let Some(sample) = feedback.round_trip_time {
            self.last_round_trip = Some(sample);
            self.base_round_trip.put(now, sample, self.path.base_memory);
            let known = self.round_trip.unwrap_or(sample);
            self.round_trip = Some(moving_average(known, sample, ROUND_TRIP_WEIGHT));
        }
        if feedback.acknowledged.iter().any(|arrival| arrival.fragment != SOUND) {
            self.frame_feedback_at = now;
        }
        self.attribute_delay(now, &feedback.acknowledged);
        if self.restarted_at.is_some_and(|at| feedback.acknowledged.iter().any(|arrival| arrival.sent_at >= at)) {
            self.restarted_at = None;
        }
    }

    /// Finds which direction delayed the newest packet with a late acknowledgement.
    fn attribute_delay(&mut self, now: Timestamp, acknowledged: &[AcknowledgedFragment]) {
        let expected = self.round_trip.unwrap_or(self.config.first_round_trip) + self.config.latest_feedback;
        let late = acknowledged.iter().filter(|arrival| now.is_later_by(expected, arrival.sent_at));
        if let Some(newest) = late.max_by_key(|arrival| arrival.sent_at) {
            let way_back = self.feedback_delay.queueing_delay(newest.arrived_at, now);
            self.delays_feedback_only = way_back > now.saturating_since(newest.sent_at) / 2;
        }
    }
}
