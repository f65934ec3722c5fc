//! Narrow paths: sound has priority, and pictures use the rest.
//!
//! Nothing here has an effect on other paths, or without sound.

mod config;

use std::time::Duration;

use lockstep_control::{Budget, InFlight, Limit, LimitedBy, NarrowPath, PathView};
use lockstep_sound::SoundPlan;
use lockstep_transport::wire::DATAGRAM_OVERHEAD;
use lockstep_transport::{Feedback, FragmentsInFlight};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use crate::tuning::Tuning;

use config::MAX_PICTURES_IN_FLIGHT;
pub use config::NarrowPathSharesConfig;

/// Factor of the longest time without a picture while too many bytes are in flight.
const CLOGGED: u32 = 4;

/// Link bytes in flight, including overhead.
fn carried(in_flight: FragmentsInFlight) -> ByteCount {
    in_flight.bytes + ByteCount::new(DATAGRAM_OVERHEAD * in_flight.fragments as u64)
}

/// Shares of sound and pictures on a narrow path.
#[derive(Debug)]
pub(crate) struct NarrowPathShares {
    config: NarrowPathSharesConfig,
    /// Longest pause between two fragments, and longest time without sound while it waits. The loss of bytes in flight
    /// may go unnoticed.
    max_pause: Duration,
    /// Rate above which a path is not narrow.
    narrow: Bitrate,
    /// Round-trip time before the first sample.
    first_round_trip: Duration,
    path: NarrowPath,
    plan: SoundPlan,
    /// Bytes that pictures may use at `at`; negative for debt.
    tokens: f64,
    at: Timestamp,
    /// Time of the last sent picture.
    picture_at: Timestamp,
    /// Times of the first and of the last datagram of sound.
    first_sound_at: Option<Timestamp>,
    sound_at: Timestamp,
}

impl NarrowPathShares {
    /// The state for an unknown path.
    pub(crate) fn new(tuning: &Tuning) -> Self {
        let plan = SoundPlan::within(Bitrate::ZERO, None);
        Self {
            config: tuning.narrow_way,
            max_pause: tuning.control.path.retry,
            narrow: tuning.control.narrow_path.rate,
            first_round_trip: tuning.control.silence.first_round_trip,
            path: NarrowPath::new(tuning.control.narrow_path, tuning.transport.reverse_path, tuning.control.path.retry),
            plan,
            tokens: 0.0,
            at: Timestamp::ZERO,
            picture_at: Timestamp::ZERO,
            first_sound_at: None,
            sound_at: Timestamp::ZERO,
        }
    }

    pub(crate) fn on_feedback(&mut self, path: &PathView<'_>, feedback: &Feedback) {
        self.path.on_feedback(path, feedback);
    }

    /// Plan for sending sound, if `target` is the rate of sound and pictures together.
    pub(crate) fn plan(&mut self, now: Timestamp, target: Bitrate) -> SoundPlan {
        let may_be = self.is_without_feedback(now) || (self.path.is_unproven() && self.is_suspected(now));
        let assumed = if may_be { Some(self.config.assumed) } else { None };
        self.plan = SoundPlan::within(target, self.path.capacity().or(assumed));
        self.plan
    }

    /// The rest of `rate` for pictures, with sound if `talks`.
    fn left_by_words(&self, rate: Bitrate, talks: bool) -> Bitrate {
        rate.saturating_sub(if talks { self.plan.carried() } else { Bitrate::ZERO })
    }

    /// Rate of pictures on the path, with sound if `talks`; none if the path is not narrow.
    fn left(&self, talks: bool) -> Option<Bitrate> {
        let left = self.left_by_words(self.path.capacity()?.mul_f64(self.config.planned), talks);
        Some(if left < self.config.min_rate_for_pictures() { Bitrate::ZERO } else { left })
    }

    /// Whether pictures must wait. `talks` means that sound is sent.
    pub(crate) fn must_wait(&mut self, now: Timestamp, talks: bool, in_flight: InFlight) -> bool {
        let NarrowPathSharesConfig { picture, longest_without, .. } = self.config;
        let Some(left) = self.left(talks) else {
            (self.tokens, self.at) = (0.0, now);
            // While little is known of a path with a low delivery rate, the bytes in flight are enough.
            let unanswered = self.path.is_unanswered() && now.saturating_since(self.picture_at) < self.first_round_trip;
            let unknown = (self.path.is_unproven() || unanswered) && in_flight.bytes > self.config.harmless;
            return unknown || self.is_suspected(now);
        };
        let earned = left.bytes_in(now.saturating_since(self.at)).as_f64();
        let capacity = self.path.capacity().unwrap_or(left);
        let bytes_in = |time| capacity.bytes_in(time).as_f64();
        self.tokens = (self.tokens + earned).min(bytes_in(picture));
        self.at = now;
        let waits = self.tokens <= 0.0 || self.is_suspected(now) || in_flight.bytes.as_f64() > bytes_in(picture);
        // Behind a standing queue, a picture would be late and delay all sound after it.
        let longest = if in_flight.bytes > self.config.max_in_flight(capacity) {
            CLOGGED * longest_without
        } else {
            longest_without
        };
        waits && now.saturating_since(self.picture_at) < longest
    }

    /// Whether sound must wait behind the data in flight. Dropping sound at this end causes less delay than a queue.
    pub(crate) fn must_hold(&self, now: Timestamp, in_flight: FragmentsInFlight) -> bool {
        let enough = match self.path.capacity() {
            Some(capacity) => self.config.max_in_flight(capacity),
            None if self.is_suspected(now) && self.path.is_unproven() => self.config.harmless,
            None if self.is_suspected(now) => self.narrow.bytes_in(MAX_PICTURES_IN_FLIGHT * self.config.picture),
            None => return false,
        };
        carried(in_flight) > enough && now.saturating_since(self.sound_at) < self.max_pause
    }

    /// Records that a datagram of sound was sent.
    pub(crate) fn on_sound(&mut self, now: Timestamp) {
        self.first_sound_at.get_or_insert(now);
        self.sound_at = now;
    }

    /// Records that a picture of `size` was sent, with all headers.
    pub(crate) fn on_picture(&mut self, now: Timestamp, size: ByteCount) {
        self.picture_at = now;
        self.tokens -= size.as_f64();
    }

    /// Maximum payload of a picture's fragment, so that words wait only briefly behind it.
    pub(crate) fn max_payload(&self) -> Option<ByteCount> {
        let capacity = self.path.capacity()?;
        let room = capacity.bytes_in(self.config.picture).saturating_sub(ByteCount::new(DATAGRAM_OVERHEAD));
        Some(room.max(ByteCount::new(1)))
    }

    /// Minimum pause after a fragment of at most `payload` bytes. Otherwise words and acknowledgements would wait
    /// behind fragments that left together.
    pub(crate) fn min_pause(&self, payload: ByteCount, talks: bool, in_flight: FragmentsInFlight) -> Duration {
        let Some(capacity) = self.path.capacity() else { return Duration::ZERO };
        let (picture, max_pause) = (self.config.picture, self.max_pause);
        let fragment = payload + ByteCount::new(DATAGRAM_OVERHEAD);
        if carried(in_flight) > capacity.bytes_in(picture).max(fragment) {
            return max_pause;
        }
        let left = self.left_by_words(capacity, talks).max(self.config.min_rate_for_pictures());
        left.time_for(fragment).min(max_pause)
    }

    /// Whether the path may be narrow, without certainty.
    fn is_suspected(&self, now: Timestamp) -> bool {
        self.path.is_suspected(now)
    }

    /// Whether sound was sent for a while, but nothing is known to have arrived.
    fn is_without_feedback(&self, now: Timestamp) -> bool {
        self.path.is_unanswered()
            && self.first_sound_at.is_some_and(|at| now.saturating_since(at) > self.first_round_trip / 2)
    }

    /// Whether this end must acknowledge at its lowest rate.
    pub(crate) fn thins_feedback(&self, now: Timestamp) -> bool {
        self.is_narrow() || self.is_suspected(now) || self.is_without_feedback(now)
    }

    /// Whether the path is narrow. Then a due picture is sent at its smallest size, at any allowance of the controller.
    pub(crate) fn is_narrow(&self) -> bool {
        self.path.capacity().is_some()
    }
}

impl Limit for NarrowPathShares {
    fn kind(&self) -> LimitedBy {
        LimitedBy::NarrowPath
    }

    /// Caps a frame so that words wait for at most one picture.
    fn limit(&self, _path: &PathView<'_>, budget: Budget) -> Budget {
        let Some(capacity) = self.path.capacity() else { return budget };
        Budget { target: budget.target.min(capacity), ..budget }.capped(capacity.bytes_in(self.config.picture))
    }
}

#[cfg(test)]
mod tests {
    use lockstep_control::PathObserver;
    use lockstep_transport::{AcknowledgedFragment, Estimate, SOUND};

    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    /// A path after one second of words, 150 bytes every 20 ms, all of which are queued.
    fn after_a_second_of_words(bits_per_second: u64) -> (NarrowPathShares, Timestamp) {
        let mut observer = PathObserver::new(ByteCount::new(1_200), &lockstep_control::Tuning::default());
        let mut way = NarrowPathShares::new(&Tuning::default());
        let mut free_at = Timestamp::ZERO;
        for word in 0..50 {
            let sent_at = Timestamp::from_millis(20 * word);
            way.on_sound(sent_at);
            let bits = 8 * (150 + DATAGRAM_OVERHEAD);
            free_at = free_at.max(sent_at) + Duration::from_secs(1).mul_f64(bits as f64 / bits_per_second as f64);
            let acknowledged = AcknowledgedFragment {
                frame: word as u32,
                fragment: SOUND,
                size: ByteCount::new(150),
                sent_at,
                arrived_at: free_at,
                acknowledged_at: free_at,
                congestion_experienced: false,
            };
            let feedback = Feedback {
                acknowledged: vec![acknowledged],
                estimate: Estimate::default(),
                round_trip_time: None,
                highest_sequence: 0,
                found: 0,
                received: 0,
            };
            observer.on_feedback(free_at, &feedback);
            way.on_feedback(&observer.view(free_at), &feedback);
        }
        (way, free_at)
    }

    #[test]
    fn words_pass_between_fragments_on_a_narrow_path() {
        for kbps in [24, 32, 48, 64] {
            let rate = Bitrate::from_kbps(kbps);
            let (mut way, now) = after_a_second_of_words(rate.as_bps());
            let plan = way.plan(now, Bitrate::from_kbps(500));
            let payload = way.max_payload().expect("the path is narrow");
            let fragment = rate.time_for(payload + ByteCount::new(DATAGRAM_OVERHEAD));
            assert!(fragment < 200 * MILLISECOND, "{kbps} kb/s: a fragment takes {fragment:?}");
            let empty = FragmentsInFlight { fragments: 0, bytes: ByteCount::ZERO };
            let (talk, silence) = (way.min_pause(payload, true, empty), way.min_pause(payload, false, empty));
            // During silence a picture has the whole path; with sound it has the rest.
            assert!(silence >= fragment.mul_f64(0.8) && talk > silence, "{kbps} kb/s: {silence:?}, {talk:?}, {plan:?}");
            let queue = FragmentsInFlight { fragments: 4, bytes: rate.bytes_in(300 * MILLISECOND) };
            assert_eq!(way.min_pause(payload, true, queue), Duration::from_secs(1), "{kbps} kb/s");
        }
    }

    #[test]
    fn pictures_on_other_paths_are_not_limited() {
        let (mut way, now) = after_a_second_of_words(1_000_000);
        let queue = FragmentsInFlight { fragments: 40, bytes: ByteCount::new(48_000) };
        assert_eq!((way.max_payload(), way.min_pause(ByteCount::new(1_200), true, queue)), (None, Duration::ZERO));
        assert!(!way.thins_feedback(now));
        assert_eq!(way.plan(now, Bitrate::from_kbps(500)).frames, 1);
    }

    #[test]
    fn sound_rate_falls_without_feedback() {
        let mut way = NarrowPathShares::new(&Tuning::default());
        way.on_sound(Timestamp::from_millis(10));
        let target = Bitrate::from_kbps(500);
        let round_trip = Timestamp::from_millis(210);
        assert!(!way.thins_feedback(round_trip) && way.plan(round_trip, target).frames == 1);
        let later = Timestamp::from_millis(300);
        let plan = way.plan(later, target);
        assert!(way.thins_feedback(later) && plan.carried() < NarrowPathSharesConfig::default().assumed, "{plan:?}");
    }
}
