//! Silence detector: packets were sent, and feedback is overdue.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use lockstep_transport::{AcknowledgedFragment, Feedback, LostFragment, PACKET_THRESHOLD, SOUND};
use lockstep_units::{ByteCount, SlidingMinimum, Timestamp, moving_average};

use crate::PathConfig;
use crate::SilenceConfig;
use crate::base_delay::BaseDelay;
use crate::short_queue::MAX_FRAGMENTS;

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
    /// Sending times after the newest acknowledged packet, without repeats.
    sent: VecDeque<Timestamp>,
    /// Time of the last sent fragment of a frame.
    fragment_sent_at: Option<Timestamp>,
    /// Time when the path was last found to work again.
    returned_at: Option<Timestamp>,
    /// Bytes sent during silence.
    unanswered: u64,
    /// Whether the packets of the last silence had arrived in time, so that only feedback was late.
    delays_feedback_only: bool,
    /// Sending times of the last silence before its first acknowledged packet; none if they are few.
    missing: Option<Range<Timestamp>>,
    /// Time when the path was last found to have dropped what was sent into a silence, instead of queueing it.
    dropped_at: Option<Timestamp>,
    /// End of the last silence, until a packet sent after it is acknowledged. None if the path dropped as before.
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
            sent: VecDeque::new(),
            fragment_sent_at: None,
            returned_at: None,
            unanswered: 0,
            delays_feedback_only: false,
            missing: None,
            dropped_at: None,
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

    /// Whether the path dropped what was sent into the last silence, instead of queueing it, and recently. Such a path
    /// returns after a number of packets, and packets sent into its silence delay nothing.
    pub(super) fn drops(&self, now: Timestamp) -> bool {
        self.dropped_at.is_some_and(|at| !now.is_later_by(self.path.memory, at))
    }

    /// Whether the path is silent at `now`.
    pub(super) fn is_silent(&self, now: Timestamp) -> bool {
        let Some(from) = self.waiting_since else { return false };
        let SilenceConfig { margin, drop_margin, latest_feedback, first_round_trip } = self.config;
        let late = self.late.get().map_or(Duration::ZERO, |Reverse(late)| late).min(latest_feedback);
        let round_trip = self.round_trip.unwrap_or(first_round_trip);
        // A path that drops does not pause, so feedback is overdue as soon as the oldest packet's is.
        let (expected, margin) = match self.sent.front().filter(|_| self.drops(now)) {
            Some(&oldest) => (self.feedback_at.max(oldest + round_trip), drop_margin),
            None => (from.max(self.feedback_at) + round_trip, margin),
        };
        now.is_later_by(margin.max(late), expected)
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
        if self.sent.back() != Some(&now) && self.sent.len() < MAX_FRAGMENTS {
            self.sent.push_back(now);
        }
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
            self.note_missing(&feedback.acknowledged);
            // A path that drops again has queued nothing.
            self.restarted_at = (!self.drops(now)).then_some(now);
        }
        let newest = feedback.acknowledged.iter().map(|arrival| arrival.sent_at).max();
        while self.sent.front().is_some_and(|sent_at| Some(*sent_at) <= newest) {
            self.sent.pop_front();
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

    /// Remembers which packets of a silence are missing before the first acknowledged one. If none is, the path had queued
    /// them. Fewer than the packet threshold may be lost at random.
    fn note_missing(&mut self, acknowledged: &[AcknowledgedFragment]) {
        let first = acknowledged.iter().map(|arrival| arrival.sent_at).min();
        let (Some(&oldest), Some(first)) = (self.sent.front(), first) else { return };
        let missing = self.sent.partition_point(|sent_at| *sent_at < first);
        self.dropped_at = self.dropped_at.filter(|_| missing > 0);
        self.missing = (missing as u64 >= PACKET_THRESHOLD).then_some(oldest..first);
    }

    /// Handles fragments that were declared lost.
    pub(super) fn on_loss(&mut self, now: Timestamp, lost: &[LostFragment]) {
        let Some(missing) = &self.missing else { return };
        if lost.iter().any(|fragment| missing.contains(&fragment.sent_at)) {
            self.dropped_at = Some(now);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tuning;

    /// One-way delay of the path, ms.
    const DELAY: u64 = 20;
    /// Pause between two packets, ms.
    const PAUSE: u64 = 30;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn silence() -> Silence {
        let tuning = Tuning::default();
        let mut silence = Silence::new(tuning.path, tuning.silence);
        for sent in (0..3_000).step_by(PAUSE as usize) {
            silence.on_sent(at(sent), ByteCount::new(1_000));
            acknowledge(&mut silence, &[sent], sent + 2 * DELAY);
        }
        silence
    }

    /// Handles feedback at `now` for the packets that were sent at `sent`.
    fn acknowledge(silence: &mut Silence, sent: &[u64], now: u64) {
        let acknowledged = sent.iter().map(|&sent| AcknowledgedFragment {
            frame: 0,
            fragment: 0,
            size: ByteCount::new(1_000),
            sent_at: at(sent),
            arrived_at: at(now - DELAY),
            acknowledged_at: at(now),
            congestion_experienced: false,
        });
        let feedback = Feedback {
            acknowledged: acknowledged.collect(),
            estimate: lockstep_transport::Estimate::default(),
            round_trip_time: Some(Duration::from_millis(2 * DELAY)),
            highest_sequence: 0,
            found: 0,
            received: 0,
        };
        silence.on_feedback(at(now), &feedback);
    }

    /// Sends ten packets from 3 s on, and acknowledges those from the one with index `first` on at 4 s. Packets before
    /// it are declared lost if `are_lost`.
    fn after_silence(first: u64, are_lost: bool) -> Silence {
        let mut silence = silence();
        let sent: Vec<_> = (0..10).map(|index| 3_000 + PAUSE * index).collect();
        for &sent in &sent {
            silence.on_sent(at(sent), ByteCount::new(1_000));
        }
        assert!(silence.is_silent(at(4_000)));
        let (missing, arrived) = sent.split_at(first as usize);
        acknowledge(&mut silence, arrived, 4_000);
        let lost = missing.iter().map(|&sent| LostFragment {
            frame: 0,
            fragment: 0,
            size: ByteCount::new(1_000),
            sent_at: at(sent),
        });
        silence.on_loss(at(4_000), &lost.filter(|_| are_lost).collect::<Vec<_>>());
        silence
    }

    /// Time from a packet without feedback until the path is silent, ms.
    fn patience(mut silence: Silence) -> u64 {
        silence.on_sent(at(4_010), ByteCount::new(1_000));
        (0..1_000).find(|wait| silence.is_silent(at(4_010 + wait))).expect("a path without feedback becomes silent")
    }

    #[test]
    fn path_that_dropped_three_packets_is_silent_sooner() {
        assert!(after_silence(3, true).drops(at(4_000)));
        assert!(!after_silence(2, true).drops(at(4_000)));
        assert!(patience(after_silence(3, true)) < patience(after_silence(2, true)));
    }

    #[test]
    fn path_that_queued_packets_of_a_silence_does_not_drop() {
        assert!(!after_silence(3, false).drops(at(4_000)), "feedback without a loss may be reordered");
        let mut silence = after_silence(3, true);
        silence.on_sent(at(4_010), ByteCount::new(1_000));
        assert!(silence.is_silent(at(5_000)));
        acknowledge(&mut silence, &[4_010], 5_000);
        assert!(!silence.drops(at(5_000)));
    }

    #[test]
    fn path_that_drops_again_does_not_restart() {
        let mut silence = after_silence(3, true);
        assert!(silence.is_restarting(), "what follows an outage is not known");
        let sent: Vec<_> = (0..10).map(|index| 4_010 + PAUSE * index).collect();
        for &sent in &sent {
            silence.on_sent(at(sent), ByteCount::new(1_000));
        }
        assert!(silence.is_silent(at(5_000)));
        acknowledge(&mut silence, &sent[3..], 5_000);
        assert!(!silence.is_restarting());
    }

    #[test]
    fn path_does_not_drop_for_ever() {
        let silence = after_silence(3, true);
        assert!(!silence.drops(at(4_001) + Tuning::default().path.memory));
    }
}
