//! A path that carries so little that sound has it before anything else: how sound is sent there, and when pictures are.
//!
//! On any other path nothing here changes anything, nor where there is no sound.

use std::time::Duration;

use lockstep_control::{Budget, InFlight, Limit, LimitedBy, NARROW, NarrowPath, PathView};
use lockstep_sound::SoundPlan;
use lockstep_transport::wire::CARRIAGE;
use lockstep_transport::{Feedback, InFlight as OnTheWay};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

/// Of what the path carries, the part that sound and pictures plan with together.
const PLANNED: f64 = 0.9;
/// Less than this is nothing for pictures: the smallest would be in the way of words for longer than a buffer waits for them.
const LEAST_FOR_PICTURES: Bitrate = Bitrate::from_kbps(8);
/// A picture may have what the path carries in so long, and goes when no more than that is on the way.
const ONE_PICTURE: Duration = Duration::from_millis(200);
/// One fragment of it may have what the path carries in so long, and no less than so much: with whole datagrams, at the same
/// pace, 20 pictures a second go the other way rather than 26 and 16 % of the words are made up rather than 9 (`lockstep simulate
/// --two-way --audio --trace constant:5mbps --reverse constant:32kbps --seconds 60`, seeds 1 to 3); without a pace there are
/// seconds with one picture wherever a scene changes.
const ONE_FRAGMENT: Duration = Duration::from_millis(150);
const LEAST_PAYLOAD: ByteCount = ByteCount::new(300);
/// A fragment waits no longer than so for what is on the way to arrive.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Sound waits at its sender while the path has more than this to carry.
const MOST_ON_THE_WAY: Duration = Duration::from_millis(400);
/// But so much may be on the way of any path: of one whose rest is taken by acknowledgements, little seems to come out
/// where little is sent, and what is measured must not end what it measures.
const ALWAYS_ON_THE_WAY: ByteCount = ByteCount::new(1_000);
/// After so long without sound some goes whatever is on the way: what was lost may not be known to be.
const LONGEST_WITHOUT_SOUND: Duration = Duration::from_secs(1);
/// After so long without a picture one goes whatever waits: somebody who sees nothing any more thinks that all is over.
const LONGEST_WITHOUT: Duration = Duration::from_millis(1_500);
/// So long where more is on the way than [`MOST_ON_THE_WAY`].
const LONGEST_CLOGGED: Duration = Duration::from_secs(6);
/// Until anything is answered the first picture is enough for so long: of a path of 32 kb/s it takes a second and a half,
/// and those that would follow it before the first answer three seconds more.
const LONGEST_UNANSWERED: Duration = Duration::from_millis(500);
/// A path of which nothing is heard for so long after the first words may be narrow: what is sent into it until something
/// is, all waits before what is said then.
const UNHEARD: Duration = Duration::from_millis(250);
/// What is planned with until more is known of a path that may be narrow.
const ASSUMED: Bitrate = Bitrate::from_kbps(32);
/// As much on the way is no queue that matters.
const HARMLESS: ByteCount = ByteCount::new(2_000);
/// What a picture that waits has saved at most, and what it may owe.
const MOST_SAVED: Duration = Duration::from_millis(200);
const MOST_OWED: Duration = Duration::from_secs(4);

/// What is on the way, with all that a link carries with it.
fn carried(in_flight: OnTheWay) -> ByteCount {
    in_flight.bytes + ByteCount::new(CARRIAGE * in_flight.fragments as u64)
}

/// What sound and pictures may have of a narrow path.
#[derive(Debug)]
pub(crate) struct NarrowWay {
    path: NarrowPath,
    plan: SoundPlan,
    /// Bytes that pictures may have, or owe, at `at`.
    tokens: f64,
    at: Timestamp,
    /// When a picture last left.
    picture_at: Timestamp,
    /// When a datagram of sound first left, and last.
    first_sound_at: Option<Timestamp>,
    sound_at: Timestamp,
}

impl NarrowWay {
    /// Of a path of which nothing is known.
    pub(crate) fn new() -> Self {
        let plan = SoundPlan::within(Bitrate::ZERO, None);
        Self {
            path: NarrowPath::default(),
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

    /// How sound is to be sent, where `target` is what it and the pictures may have.
    pub(crate) fn plan(&mut self, now: Timestamp, target: Bitrate) -> SoundPlan {
        let may_be = self.is_unheard(now) || (self.path.is_unproven() && self.is_suspected(now));
        let assumed = if may_be { Some(ASSUMED) } else { None };
        self.plan = SoundPlan::within(target, self.path.capacity().or(assumed));
        self.plan
    }

    /// What of `rate` words leave, while somebody talks.
    fn left_by_words(&self, rate: Bitrate, talks: bool) -> Bitrate {
        rate.saturating_sub(if talks { self.plan.carried() } else { Bitrate::ZERO })
    }

    /// What pictures may have of the path while somebody talks, or is silent; none where the path is not narrow.
    fn left(&self, talks: bool) -> Option<Bitrate> {
        let left = self.left_by_words(self.path.capacity()?.mul_f64(PLANNED), talks);
        Some(if left < LEAST_FOR_PICTURES { Bitrate::ZERO } else { left })
    }

    /// Whether pictures are to wait; `talks` says that sound flows.
    pub(crate) fn must_wait(&mut self, now: Timestamp, talks: bool, in_flight: InFlight) -> bool {
        let Some(left) = self.left(talks) else {
            (self.tokens, self.at) = (0.0, now);
            // Until more is known of a path than what trickles out of it, what is on the way is enough.
            let unanswered = self.path.is_unanswered() && now.saturating_since(self.picture_at) < LONGEST_UNANSWERED;
            let unknown = (self.path.is_unproven() || unanswered) && in_flight.bytes > HARMLESS;
            return unknown || self.is_suspected(now);
        };
        let earned = left.bytes_in(now.saturating_since(self.at)).as_f64();
        let bytes_in = |time| self.path.capacity().unwrap_or(left).bytes_in(time).as_f64();
        self.tokens = (self.tokens.max(-bytes_in(MOST_OWED)) + earned).min(bytes_in(MOST_SAVED));
        self.at = now;
        let waits = self.tokens <= 0.0 || self.is_suspected(now) || in_flight.bytes.as_f64() > bytes_in(ONE_PICTURE);
        // Into a queue that stands, one more would only come late, and make later all that is said after it.
        let longest = if in_flight.bytes.as_f64() > bytes_in(MOST_ON_THE_WAY).max(ALWAYS_ON_THE_WAY.as_f64()) {
            LONGEST_CLOGGED
        } else {
            LONGEST_WITHOUT
        };
        waits && now.saturating_since(self.picture_at) < longest
    }

    /// Whether sound is to wait, with so much on the way: what is left out at this end is heard sooner than what queues.
    pub(crate) fn must_hold(&self, now: Timestamp, in_flight: OnTheWay) -> bool {
        let enough = match self.path.capacity() {
            Some(capacity) => capacity.bytes_in(MOST_ON_THE_WAY).max(ALWAYS_ON_THE_WAY),
            None if self.is_suspected(now) && self.path.is_unproven() => HARMLESS,
            None if self.is_suspected(now) => NARROW.bytes_in(MOST_ON_THE_WAY),
            None => return false,
        };
        carried(in_flight) > enough && now.saturating_since(self.sound_at) < LONGEST_WITHOUT_SOUND
    }

    /// A datagram of sound leaves.
    pub(crate) fn on_sound(&mut self, now: Timestamp) {
        self.first_sound_at.get_or_insert(now);
        self.sound_at = now;
    }

    /// A picture of `size` leaves, all headers included.
    pub(crate) fn on_picture(&mut self, now: Timestamp, size: ByteCount) {
        self.picture_at = now;
        self.tokens -= size.as_f64();
    }

    /// How much of a picture one fragment may carry, so that words do not wait behind it for long; no less than is worth its
    /// headers.
    pub(crate) fn most_payload(&self) -> Option<ByteCount> {
        let capacity = self.path.capacity()?;
        Some(capacity.bytes_in(ONE_FRAGMENT).saturating_sub(ByteCount::new(CARRIAGE)).max(LEAST_PAYLOAD))
    }

    /// For how long after a fragment of a picture, `payload` bytes long at most, the next is to wait, with so much on the way:
    /// what else goes over the path, words and acknowledgements, would wait behind all that left at once.
    pub(crate) fn least_pause(&self, payload: ByteCount, talks: bool, in_flight: OnTheWay) -> Duration {
        let Some(capacity) = self.path.capacity() else { return Duration::ZERO };
        let fragment = payload + ByteCount::new(CARRIAGE);
        if carried(in_flight) > capacity.bytes_in(ONE_PICTURE).max(fragment) {
            return LONGEST_PAUSE;
        }
        self.left_by_words(capacity, talks).max(LEAST_FOR_PICTURES).time_for(fragment).min(LONGEST_PAUSE)
    }

    /// Whether it seems to be narrow, which is not sure yet.
    fn is_suspected(&self, now: Timestamp) -> bool {
        self.path.is_suspected(now)
    }

    /// Whether sound was sent for a while, and nothing is known to have come out of the path.
    fn is_unheard(&self, now: Timestamp) -> bool {
        self.path.is_unanswered() && self.first_sound_at.is_some_and(|at| now.saturating_since(at) > UNHEARD)
    }

    /// Whether this end is to acknowledge as seldom as there is.
    pub(crate) fn thins_feedback(&self, now: Timestamp) -> bool {
        self.is_narrow() || self.is_suspected(now) || self.is_unheard(now)
    }

    /// Whether the path is narrow: then a picture whose time has come goes, as small as there is, whatever the controller
    /// has left.
    pub(crate) fn is_narrow(&self) -> bool {
        self.path.capacity().is_some()
    }
}

impl Limit for NarrowWay {
    fn kind(&self) -> LimitedBy {
        LimitedBy::NarrowPath
    }

    /// Words wait no longer than for one picture.
    fn limit(&self, _path: &PathView<'_>, budget: Budget) -> Budget {
        let Some(capacity) = self.path.capacity() else { return budget };
        Budget { target: budget.target.min(capacity), ..budget }.capped(capacity.bytes_in(ONE_PICTURE))
    }
}

#[cfg(test)]
mod tests {
    use lockstep_control::PathObserver;
    use lockstep_transport::{AcknowledgedFragment, Estimate, SOUND};

    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    /// A way of so many bits a second after a second of words, one of 150 bytes each 20 ms, all of which queue.
    fn after_a_second_of_words(bits_per_second: u64) -> (NarrowWay, Timestamp) {
        let mut observer = PathObserver::new(ByteCount::new(1_200));
        let mut way = NarrowWay::new();
        let mut free_at = Timestamp::ZERO;
        for word in 0..50 {
            let sent_at = Timestamp::from_millis(20 * word);
            way.on_sound(sent_at);
            let bits = 8 * (150 + CARRIAGE);
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
    fn over_a_narrow_way_words_go_between_the_fragments_of_a_picture_and_wait_for_none_for_long() {
        for kbps in [24, 32, 48, 64] {
            let rate = Bitrate::from_kbps(kbps);
            let (mut way, now) = after_a_second_of_words(rate.as_bps());
            let plan = way.plan(now, Bitrate::from_kbps(500));
            let payload = way.most_payload().expect("it is narrow");
            let fragment = rate.time_for(payload + ByteCount::new(CARRIAGE));
            assert!(fragment < 200 * MILLISECOND, "{kbps} kb/s: a fragment takes {fragment:?}");
            let empty = OnTheWay { fragments: 0, bytes: ByteCount::ZERO };
            let (talk, silence) = (way.least_pause(payload, true, empty), way.least_pause(payload, false, empty));
            // In silence a picture has the way, beside somebody who talks what words leave of it.
            assert!(silence >= fragment.mul_f64(0.8) && talk > silence, "{kbps} kb/s: {silence:?}, {talk:?}, {plan:?}");
            let queue = OnTheWay { fragments: 4, bytes: rate.bytes_in(300 * MILLISECOND) };
            assert_eq!(way.least_pause(payload, true, queue), LONGEST_PAUSE, "{kbps} kb/s");
        }
    }

    #[test]
    fn over_any_other_way_pictures_are_neither_cut_smaller_nor_held_back() {
        let (mut way, now) = after_a_second_of_words(1_000_000);
        let queue = OnTheWay { fragments: 40, bytes: ByteCount::new(48_000) };
        assert_eq!((way.most_payload(), way.least_pause(ByteCount::new(1_200), true, queue)), (None, Duration::ZERO));
        assert!(!way.thins_feedback(now));
        assert_eq!(way.plan(now, Bitrate::from_kbps(500)).frames, 1);
    }

    #[test]
    fn into_a_way_that_answers_nothing_for_long_less_is_said() {
        let mut way = NarrowWay::new();
        way.on_sound(Timestamp::from_millis(10));
        let target = Bitrate::from_kbps(500);
        let round_trip = Timestamp::from_millis(210);
        assert!(!way.thins_feedback(round_trip) && way.plan(round_trip, target).frames == 1);
        let later = Timestamp::from_millis(300);
        let plan = way.plan(later, target);
        assert!(way.thins_feedback(later) && plan.carried() < ASSUMED, "{plan:?}");
    }
}
