//! A path that carries so little that sound has it before anything else: how sound is sent there, and when pictures are.
//!
//! On any other path nothing here changes anything, nor where there is no sound.

use std::time::Duration;

use lockstep_control::{Allowance, Bounded, InFlight, NARROW, NarrowPath};
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
/// As much on the way is no queue that matters.
const HARMLESS: ByteCount = ByteCount::new(2_000);
/// What a picture that waits has saved at most, and what it may owe.
const MOST_SAVED: Duration = Duration::from_millis(200);
const MOST_OWED: Duration = Duration::from_secs(4);

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
    /// When a datagram of sound last left.
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
            sound_at: Timestamp::ZERO,
        }
    }

    pub(crate) fn on_feedback(&mut self, now: Timestamp, feedback: &Feedback) {
        self.path.on_feedback(now, feedback);
    }

    /// How sound is to be sent, where `target` is what it and the pictures may have.
    pub(crate) fn plan(&mut self, target: Bitrate) -> SoundPlan {
        self.plan = SoundPlan::within(target, self.path.capacity());
        self.plan
    }

    /// What pictures may have of the path while somebody talks, or is silent; none where the path is not narrow.
    fn left(&self, talks: bool) -> Option<Bitrate> {
        let planned = self.path.capacity()?.mul_f64(PLANNED);
        let sound = if talks { self.plan.carried() } else { Bitrate::ZERO };
        let left = Bitrate::from_bps(planned.as_bps().saturating_sub(sound.as_bps()));
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
        let carried = in_flight.bytes + ByteCount::new(CARRIAGE * in_flight.fragments as u64);
        carried > enough && now.saturating_since(self.sound_at) < LONGEST_WITHOUT_SOUND
    }

    /// A datagram of sound leaves.
    pub(crate) fn on_sound(&mut self, now: Timestamp) {
        self.sound_at = now;
    }

    /// A picture of `size` leaves, all headers included.
    pub(crate) fn on_picture(&mut self, now: Timestamp, size: ByteCount) {
        self.picture_at = now;
        self.tokens -= size.as_f64();
    }

    /// As much of what a picture may have as does not keep words waiting.
    pub(crate) fn limit(&self, bounded: Bounded) -> Bounded {
        let Some(capacity) = self.path.capacity() else { return bounded };
        let most = capacity.bytes_in(ONE_PICTURE);
        let Bounded { allowance, affordable } = bounded;
        let allowance =
            Allowance { budget: allowance.budget.min(most), target: allowance.target.min(capacity), ..allowance };
        Bounded { allowance, affordable: affordable.min(most) }
    }

    /// Whether it seems to be narrow, which is not sure yet.
    pub(crate) fn is_suspected(&self, now: Timestamp) -> bool {
        self.path.is_suspected(now)
    }

    /// Whether the path is narrow: then a picture whose time has come goes, as small as there is, whatever the controller
    /// has left.
    pub(crate) fn is_narrow(&self) -> bool {
        self.path.capacity().is_some()
    }
}
