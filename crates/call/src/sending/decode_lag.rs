//! A receiver that decodes more slowly than frames come: how the sending end notices, and leaves out pictures for it.
//!
//! What has arrived waits there until all before it is decoded, and as each frame builds on another none can be passed over. A
//! receiver that takes a fifth longer for a frame than there is time shows, after a minute, what was captured ten seconds
//! before. The sending end knows when a frame has arrived whole, and when it was decoded; where the oldest that is whole
//! has not been for long, the next pictures wait, and all but the newest of them are left out.

use std::collections::VecDeque;
use std::time::Duration;

use lockstep_transport::{Feedback, LostFragment, SOUND};
use lockstep_units::Timestamp;

lockstep_units::config! {
    /// Receivers that decode slowly.
    pub struct DecodeLagConfig = "decode_lag" {
        /// Feedback that has to come while a whole frame is not decoded: some is lost, and some links carry little of it.
        least_feedback: u64 = 3, "", 1..=100, "2026-11-control-ablation";
    }
}

/// Frames on the way that are remembered.
const MOST_FRAMES: usize = 256;

/// A frame that the receiver has not decoded.
#[derive(Debug)]
struct Undecoded {
    frame: u32,
    /// Fragments of which nothing was heard and without which it is not whole.
    missing: u64,
    /// Since when it could be decoded, and how much feedback had come by then.
    whole: Option<(Timestamp, u64)>,
}

/// What the receiver has yet to decode, oldest first.
#[derive(Debug)]
pub(super) struct DecodeLag {
    config: DecodeLagConfig,
    /// A frame that has been whole for longer waits for others to be decoded.
    patience: Duration,
    /// A picture leaves after this pause in any case: the last report of a decoded frame may be lost.
    longest_pause: Duration,
    undecoded: VecDeque<Undecoded>,
    /// How much feedback has come.
    feedback: u64,
    sent_at: Timestamp,
}

impl DecodeLag {
    pub(super) fn new(config: DecodeLagConfig, patience: Duration, longest_pause: Duration) -> Self {
        Self { config, patience, longest_pause, undecoded: VecDeque::new(), feedback: 0, sent_at: Timestamp::ZERO }
    }

    /// `frame` was handed to the transport; it is whole once so many of its fragments have arrived, of parity or not.
    pub(super) fn on_sent(&mut self, now: Timestamp, frame: u32, fragments: u64) {
        self.undecoded.push_back(Undecoded { frame, missing: fragments, whole: None });
        if self.undecoded.len() > MOST_FRAMES {
            self.undecoded.pop_front();
        }
        self.sent_at = now;
    }

    fn find(&mut self, frame: u32) -> Option<&mut Undecoded> {
        let index = self.undecoded.binary_search_by_key(&frame, |undecoded| undecoded.frame).ok()?;
        self.undecoded.get_mut(index)
    }

    /// Feedback came.
    pub(super) fn on_feedback(&mut self, now: Timestamp, feedback: &Feedback) {
        self.feedback += 1;
        let heard = self.feedback;
        for arrival in feedback.acknowledged.iter().filter(|arrival| arrival.fragment != SOUND) {
            let Some(undecoded) = self.find(arrival.frame) else { continue };
            undecoded.missing = undecoded.missing.saturating_sub(1);
            if undecoded.missing == 0 {
                undecoded.whole.get_or_insert((now, heard));
            }
        }
    }

    /// Fragments count as lost. Whether their frames are whole is not known any more: a fragment may be sent again, and heard of twice.
    pub(super) fn on_fragments_lost(&mut self, lost: &[LostFragment]) {
        for lost in lost {
            if let Some(undecoded) = self.find(lost.frame) {
                (undecoded.missing, undecoded.whole) = (u64::MAX, None);
            }
        }
    }

    /// `frame` was decoded, and so nothing before it will be any more.
    pub(super) fn on_decoded(&mut self, now: Timestamp, frame: u32) {
        let mut held_up = false;
        while self.undecoded.front().is_some_and(|undecoded| undecoded.frame <= frame) {
            held_up |= self.undecoded.pop_front().is_some_and(|undecoded| undecoded.whole.is_none());
        }
        if held_up {
            // What was sent again held the others up until now.
            for whole in self.undecoded.iter_mut().filter_map(|undecoded| undecoded.whole.as_mut()) {
                *whole = (now, self.feedback);
            }
        }
    }

    /// A frame will not be decoded, nor will those that build on it, and nothing more may be said of these.
    pub(super) fn on_frame_lost(&mut self) {
        self.undecoded.clear();
    }

    /// Whether the receiver is so far behind that the next picture is to wait.
    pub(super) fn is_long(&self, now: Timestamp) -> bool {
        // A frame that is not whole holds up the others, however fast the receiver is.
        let Some((at, heard)) = self.undecoded.front().and_then(|undecoded| undecoded.whole) else { return false };
        let DecodeLagConfig { least_feedback } = self.config;
        let waits = now.is_later_by(self.patience, at) && self.feedback - heard >= least_feedback;
        waits && !now.is_later_by(self.longest_pause, self.sent_at)
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

    /// Feedback at `now` on so many first fragments of `frame`.
    fn heard(lag: &mut DecodeLag, now: Timestamp, frame: u32, fragments: u16) {
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

    /// Frames of two fragments every 30 ms that arrive at once, each decoded in `takes` ms after the one before; how many pictures
    /// waited, and the longest that a frame waited to be decoded.
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
                heard(&mut lag, at(now), u32::MAX, 0);
                continue;
            }
            lag.on_sent(at(now), number, 2);
            heard(&mut lag, at(now + 1), number, 2);
            free_at = free_at.max(now) + takes;
            longest = longest.max(free_at - now);
            pending.push_back((number, free_at));
        }
        (waited, longest)
    }

    #[test]
    fn a_receiver_that_keeps_up_has_every_picture() {
        for takes in [1, 10, 25, 30] {
            assert_eq!(call(takes), (0, takes), "{takes} ms");
        }
    }

    #[test]
    fn one_that_takes_longer_is_never_far_behind() {
        // What is sent until it shows is decoded all the same.
        for (takes, most_behind) in [(33, 250), (40, 300), (60, 450), (100, 700)] {
            let (waited, longest) = call(takes);
            let most = 400 - 12_000 / takes + 20;
            assert!(waited > 10 && waited as u64 <= most, "{takes} ms: {waited} waited");
            assert!(longest < most_behind, "{takes} ms: {longest} ms behind");
        }
    }

    #[test]
    fn a_frame_that_is_not_whole_says_nothing_of_the_receiver() {
        let mut lag = DecodeLag::new(DecodeLagConfig::default(), Duration::from_millis(150), Duration::from_secs(1));
        lag.on_sent(at(0), 0, 2);
        heard(&mut lag, at(5), 0, 1);
        for frame in 1..10 {
            let now = at(30 * u64::from(frame));
            lag.on_sent(now, frame, 2);
            heard(&mut lag, now, frame, 2);
            assert!(!lag.is_long(now));
        }
        // It is sent again, and the others are decoded right behind it.
        lag.on_decoded(at(280), 0);
        assert!(!lag.is_long(at(290)), "the next could not be decoded before");
        lag.on_frame_lost();
        assert!(!lag.is_long(at(600)), "what builds on a lost frame is not decoded either");
    }

    #[test]
    fn what_was_not_heard_of_for_want_of_feedback_is_no_lag_and_nothing_waits_for_ever() {
        let mut lag = DecodeLag::new(DecodeLagConfig::default(), Duration::from_millis(150), Duration::from_secs(1));
        lag.on_sent(at(0), 0, 1);
        heard(&mut lag, at(10), 0, 1);
        assert!(!lag.is_long(at(900)), "no feedback since");
        (0..3).for_each(|_| heard(&mut lag, at(900), u32::MAX, 0));
        assert!(lag.is_long(at(900)));
        assert!(!lag.is_long(at(1_001)), "a second after the last frame");
    }
}
