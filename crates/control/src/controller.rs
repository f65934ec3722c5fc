//! The seam of sender-side control: what happens at a sender goes in, what it may send comes out.
//!
//! A [`Controller`] is a state machine without a clock. Its owner passes it every [`Input`] with a [`PathView`], which holds the
//! time and every measurement of the path, and asks for an [`Allowance`] before a frame and for a pacing interval before a
//! datagram. The trait has no default bodies, so a wrapper
//! that forgets to forward something does not compile.

use std::time::Duration;

use lockstep_transport::{Feedback, LostFragment, Payload, Sender};
use lockstep_units::{Bitrate, ByteCount};

use crate::PathView;

/// Something that happened at the sender.
#[derive(Debug, Clone, Copy)]
pub enum Input<'a> {
    /// A datagram of this size, its header included, left the pacer.
    Sent(ByteCount),
    /// Feedback on the other end's media left this end; its bytes on the link. A controller that knows the link needs it;
    /// the others see its effect on their own packets.
    FeedbackSent(ByteCount),
    /// Feedback arrived.
    Feedback(&'a Feedback),
    /// These fragments were declared lost.
    Lost(&'a [LostFragment]),
    /// Time has passed, perhaps without feedback. It precedes every decision on a picture.
    Time,
    /// The encoder skipped a picture in favour of the next one, which may use the skipped picture's share.
    PictureSkipped,
}

/// What the sender has in flight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InFlight {
    /// Fragments sent or waiting in the pacer, less those acknowledged and those declared lost.
    pub fragments: u64,
    /// Their bytes, headers included.
    pub bytes: ByteCount,
    /// The part of those bytes that still waits in the pacer.
    pub queued: ByteCount,
}

impl InFlight {
    /// What `sender` has in flight; each fragment in the pacer counts as `payload` bytes, the most that it may carry.
    #[must_use]
    pub fn of<P: Payload>(sender: &Sender<P>, payload: ByteCount) -> Self {
        let sent = sender.in_flight();
        let waiting = sender.queued_fragments() as u64;
        let queued = ByteCount::new(waiting * payload.get());
        Self { fragments: sent.fragments as u64 + waiting, bytes: sent.bytes + queued, queued }
    }
}

/// What the sender may do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// Bytes that the next frame may have, the payloads of all its fragments together.
    pub budget: ByteCount,
    /// Time between the transmissions of two fragments.
    pub pacing_interval: Duration,
    /// Bit rate at which the controller expects the video to be sent in the long run.
    pub target: Bitrate,
    /// The controller's estimate of the path's capacity, where it has one beside its target.
    pub capacity: Option<Bitrate>,
    /// Bytes in flight that wait behind cross traffic. They do not show that the path is full.
    pub behind_cross_traffic: ByteCount,
}

impl Allowance {
    /// The allowance of a controller that estimates no capacity beside its target and sees no cross traffic.
    #[must_use]
    pub fn at_target(budget: ByteCount, pacing_interval: Duration, target: Bitrate) -> Self {
        Self { budget, pacing_interval, target, capacity: None, behind_cross_traffic: ByteCount::ZERO }
    }
}

/// Which rules of the sending end apply to a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traits {
    /// Whether the limits by path apply ([`crate::Delivered`] and others). False for yardsticks: a fixed rate,
    /// or a controller that knows the path.
    pub is_bounded: bool,
    /// Whether the bit rate beyond which pictures gain nothing bounds the allowance
    /// ([`crate::Ceiling`]). True also for a controller that knows the path: a yardstick obeys the bound
    /// of those it is compared with.
    pub has_ceiling: bool,
    /// Whether a frame may be sent without a budget now and then, to probe the path. May change during a call.
    pub wants_probes: bool,
}

impl Traits {
    /// A controller that estimates the path: every rule applies.
    pub const ESTIMATING: Self = Self { is_bounded: true, has_ceiling: true, wants_probes: true };
}

/// Sender-side control: decides how many bytes the next frame may have and how fast its fragments leave.
///
/// Feedback lists every fragment with the times of its transmission and its arrival, so a controller that estimates at
/// the sender (as GCC does from transport-wide feedback) has what it needs. A controller that follows an estimator at the
/// receiver reads [`Feedback::estimate`].
pub trait Controller: Send {
    /// Which rules of the sending end apply.
    fn traits(&self) -> Traits;
    /// Something happened at `path.now`. The view includes it.
    fn handle(&mut self, path: &PathView<'_>, input: Input<'_>);
    /// What may be sent at `path.now`, with `in_flight` under way. May be asked at any time and any number of times.
    fn allowance(&self, path: &PathView<'_>, in_flight: InFlight) -> Allowance;
    /// The pacing interval of [`Controller::allowance`], without the rest of it: every datagram asks for this.
    fn pacing_interval(&self, path: &PathView<'_>, in_flight: InFlight) -> Duration;
    /// How often the controller decided in which way, by name, for reports. Empty where there is one way only.
    fn counters(&self) -> Vec<(&'static str, u64)>;
}
