//! Decode lag: detects a receiver that decodes more slowly than frames arrive, and skips pictures for it.
//!
//! Arrived frames wait until all earlier ones are decoded, and none can be skipped, since each depends on another. For
//! example, if decoding takes 20 % longer than the frame interval, the display is ten seconds late after a minute. The
//! sending end knows when a frame was complete at the receiver, and when it was decoded. If the oldest complete frame
//! waits too long, the next pictures wait, and only the newest of them is coded.

use std::collections::VecDeque;
use std::time::Duration;

use lockstep_transport::{Feedback, LostFragment, SOUND};
use lockstep_units::Timestamp;

lockstep_units::config! {
    /// Receivers that decode slowly.
    pub struct DecodeLagConfig = "decode_lag" {
        /// Feedback that must arrive while a complete frame is not decoded: some feedback is lost, and some links carry
        /// little of it.
        least_feedback: u64 = 3, "", 1..=100, "2026-11-control-ablation";
    }
}

/// Maximum number of remembered frames in flight.
const MAX_FRAMES_IN_FLIGHT: usize = 256;

/// Frame that the receiver has not decoded.
#[derive(Debug)]
struct Undecoded {
    frame: u32,
    /// Number of fragments without feedback that it needs to be complete.
    missing: u64,
    /// Time since when it could be decoded, and the feedback count at that time.
    whole: Option<(Timestamp, u64)>,
}

/// Frames that the receiver has not decoded, oldest first.
#[derive(Debug)]
pub(super) struct DecodeLag {
    config: DecodeLagConfig,
    /// Time after which a complete frame is late.
    patience: Duration,
    /// Longest pause between pictures: the last report of a decoded frame may be lost.
    max_pause: Duration,
    undecoded: VecDeque<Undecoded>,
    /// Number of received feedbacks.
    feedback: u64,
    sent_at: Timestamp,
}

impl DecodeLag {
    pub(super) fn new(config: DecodeLagConfig, patience: Duration, max_pause: Duration) -> Self {
        Self { config, patience, max_pause, undecoded: VecDeque::new(), feedback: 0, sent_at: Timestamp::ZERO }
    }

    /// Records that `frame` was passed to the transport. It is complete once `fragments` of its fragments have arrived,
    /// including parity.
    pub(super) fn on_sent(&mut self, now: Timestamp, frame: u32, fragments: u64) {
        self.undecoded.push_back(Undecoded { frame, missing: fragments, whole: None });
        if self.undecoded.len() > MAX_FRAMES_IN_FLIGHT {
            self.undecoded.pop_front();
        }
        self.sent_at = now;
    }

    fn find(&mut self, frame: u32) -> Option<&mut Undecoded> {
        let index = self.undecoded.binary_search_by_key(&frame, |undecoded| undecoded.frame).ok()?;
        self.undecoded.get_mut(index)
    }

    /// Handles feedback.
    pub(super) fn on_feedback(&mut self, now: Timestamp, feedback: &Feedback) {
        self.feedback += 1;
        let count = self.feedback;
        for arrival in feedback.acknowledged.iter().filter(|arrival| arrival.fragment != SOUND) {
            let Some(undecoded) = self.find(arrival.frame) else { continue };
            undecoded.missing = undecoded.missing.saturating_sub(1);
            if undecoded.missing == 0 {
                undecoded.whole.get_or_insert((now, count));
            }
        }
    }

    /// Handles lost fragments. Their frames may be complete or not: a fragment may be sent again and acknowledged
    /// twice.
    pub(super) fn on_fragments_lost(&mut self, lost: &[LostFragment]) {
        for lost in lost {
            if let Some(undecoded) = self.find(lost.frame) {
                (undecoded.missing, undecoded.whole) = (u64::MAX, None);
            }
        }
    }

    /// Records that `frame` was decoded, so no earlier one will be.
    pub(super) fn on_decoded(&mut self, now: Timestamp, frame: u32) {
        let mut bytes_behind_cross_traffic = false;
        while self.undecoded.front().is_some_and(|undecoded| undecoded.frame <= frame) {
            bytes_behind_cross_traffic |= self.undecoded.pop_front().is_some_and(|undecoded| undecoded.whole.is_none());
        }
        if bytes_behind_cross_traffic {
            // A retransmitted frame delayed the others until now.
            for whole in self.undecoded.iter_mut().filter_map(|undecoded| undecoded.whole.as_mut()) {
                *whole = (now, self.feedback);
            }
        }
    }

    /// Records that a frame will not be decoded. Frames that depend on it may never be reported.
    pub(super) fn on_frame_lost(&mut self) {
        self.undecoded.clear();
    }

    /// Whether the receiver is so late that the next picture must wait.
    pub(super) fn is_long(&self, now: Timestamp) -> bool {
        // An incomplete frame delays the others at any speed of the receiver.
        let Some((at, count)) = self.undecoded.front().and_then(|undecoded| undecoded.whole) else { return false };
        let DecodeLagConfig { least_feedback } = self.config;
        let waits = now.is_later_by(self.patience, at) && self.feedback - count >= least_feedback;
        waits && !now.is_later_by(self.max_pause, self.sent_at)
    }
}

#[cfg(test)]
mod tests {
    use lockstep_transport::{AcknowledgedFragment, Estimate};
    use lockstep_units::ByteCount;

    use super::*;

    fn at(milliseconds: u64) -> Timestamp {
        Timestamp::from_millis(milliseconds)
    }

    /// Feedback at `now` for the first `fragments` fragments of `frame`.
    fn feed_back(lag: &mut DecodeLag, now: Timestamp, frame: u32, fragments: u16) {
        let acknowledged = (0..fragments).map(|fragment| AcknowledgedFragment {
            frame,
            fragment,
            size: ByteCount::new(1_200),
            sent_at: now,
            arrived_at: now,
            acknowledged_at: now,
            congestion_experienced: false,
        });
        let feedback = Feedback {
            found: 0,
            acknowledged: acknowledged.collect(),
            estimate: Estimate::default(),
            round_trip_time: None,
            highest_sequence: 0,
            received: 0,
        };
        lag.on_feedback(now, &feedback);
    }

    /// Frames of two fragments every 30 ms that arrive at once. Each is decoded `takes` ms after the previous one.
    /// Returns the number of pictures that waited, and the longest delay until decoding, ms.
    fn call(takes: u64) -> (usize, u64) {
        let (mut lag, mut free_at, mut pending) = (
            DecodeLag::new(DecodeLagConfig::default(), Duration::from_millis(150), Duration::from_secs(1)),
            0,
            VecDeque::new(),
        );
        let (mut waited, mut longest) = (0, 0);
        for number in 0..400_u32 {
            let now = 30 * u64::from(number);
            while let Some(&(frame, decoded_at)) = pending.front()
                && decoded_at <= now
            {
                lag.on_decoded(at(now), frame);
                pending.pop_front();
            }
            if lag.is_long(at(now)) {
                waited += 1;
                feed_back(&mut lag, at(now), u32::MAX, 0);
                continue;
            }
            lag.on_sent(at(now), number, 2);
            feed_back(&mut lag, at(now + 1), number, 2);
            free_at = free_at.max(now) + takes;
            longest = longest.max(free_at - now);
            pending.push_back((number, free_at));
        }
        (waited, longest)
    }

    #[test]
    fn fast_receiver_gets_every_picture() {
        for takes in [1, 10, 25, 30] {
            assert_eq!(call(takes), (0, takes), "{takes} ms");
        }
    }

    #[test]
    fn slow_receiver_is_never_far_behind() {
        // Frames sent before the detection are still decoded.
        for (takes, most_behind) in [(33, 250), (40, 300), (60, 450), (100, 700)] {
            let (waited, longest) = call(takes);
            let most = 400 - 12_000 / takes + 20;
            assert!(waited > 10 && waited as u64 <= most, "{takes} ms: {waited} waited");
            assert!(longest < most_behind, "{takes} ms: {longest} ms behind");
        }
    }

    #[test]
    fn incomplete_frame_is_no_evidence_of_a_slow_receiver() {
        let mut lag = DecodeLag::new(DecodeLagConfig::default(), Duration::from_millis(150), Duration::from_secs(1));
        lag.on_sent(at(0), 0, 2);
        feed_back(&mut lag, at(5), 0, 1);
        for frame in 1..10 {
            let now = at(30 * u64::from(frame));
            lag.on_sent(now, frame, 2);
            feed_back(&mut lag, now, frame, 2);
            assert!(!lag.is_long(now));
        }
        // After its retransmission, the others are decoded right after it.
        lag.on_decoded(at(280), 0);
        assert!(!lag.is_long(at(290)), "the next frame could not be decoded earlier");
        lag.on_frame_lost();
        assert!(!lag.is_long(at(600)), "frames that depend on a lost one are not decoded");
    }

    #[test]
    fn missing_feedback_is_no_lag_and_waiting_is_bounded() {
        let mut lag = DecodeLag::new(DecodeLagConfig::default(), Duration::from_millis(150), Duration::from_secs(1));
        lag.on_sent(at(0), 0, 1);
        feed_back(&mut lag, at(10), 0, 1);
        assert!(!lag.is_long(at(900)), "no feedback since");
        (0..3).for_each(|_| feed_back(&mut lag, at(900), u32::MAX, 0));
        assert!(lag.is_long(at(900)));
        assert!(!lag.is_long(at(1_001)), "a second after the last frame");
    }
}
