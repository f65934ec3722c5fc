//! A path that carries so little that sound has it before anything else: how sound is sent there, and when pictures are.
//!
//! On any other path nothing here changes anything, nor where there is no sound.

use std::time::Duration;

use lockstep_control::{Allowance, Bounded, InFlight, NarrowPath};
use lockstep_sound::SoundPlan;
use lockstep_transport::Feedback;
use lockstep_units::{Bitrate, ByteCount, Timestamp};

/// Of what the path carries, the part that sound and pictures plan with together.
const PLANNED: f64 = 0.9;
/// Less than this is nothing for pictures: the smallest would be in the way of words for longer than a buffer waits for them.
const LEAST_FOR_PICTURES: Bitrate = Bitrate::from_kbps(8);
/// A picture may have what the path carries in so long, and goes when no more than that is on the way.
const ONE_PICTURE: Duration = Duration::from_millis(200);
/// After so long without a picture one goes whatever waits: somebody who sees nothing any more thinks that all is over.
const LONGEST_WITHOUT: Duration = Duration::from_millis(1_500);
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
}

impl NarrowWay {
    /// Of a path of which nothing is known.
    pub(crate) fn new() -> Self {
        let plan = SoundPlan::within(Bitrate::ZERO, None);
        Self { path: NarrowPath::default(), plan, tokens: 0.0, at: Timestamp::ZERO, picture_at: Timestamp::ZERO }
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
            let unknown = self.path.is_unproven() && in_flight.bytes > HARMLESS;
            return unknown || self.is_suspected(now);
        };
        let earned = left.bytes_in(now.saturating_since(self.at)).as_f64();
        let bytes_in = |time| self.path.capacity().unwrap_or(left).bytes_in(time).as_f64();
        self.tokens = (self.tokens.max(-bytes_in(MOST_OWED)) + earned).min(bytes_in(MOST_SAVED));
        self.at = now;
        let waits = self.tokens <= 0.0 || self.is_suspected(now) || in_flight.bytes.as_f64() > bytes_in(ONE_PICTURE);
        waits && now.saturating_since(self.picture_at) < LONGEST_WITHOUT
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
