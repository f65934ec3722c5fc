//! Interface of sender-side control: inputs of a sender go in, an allowance comes out.
//!
//! A [`Controller`] is a state machine without a clock. Its owner passes it every [`Input`] with a [`PathView`], which
//! holds the time and every measurement of the path. The owner asks for an [`Allowance`] before a frame, and for a
//! pacing interval before a datagram. The trait has no default bodies, so a wrapper that forgets to forward a method
//! does not compile.

use std::time::Duration;

use lockstep_transport::{Feedback, LostFragment, Payload, Sender};
use lockstep_units::{Bitrate, ByteCount};

use crate::PathView;

/// An event at the sender.
#[derive(Debug, Clone, Copy)]
pub enum Input<'a> {
    /// A datagram of this size, its header included, left the pacer.
    Sent(ByteCount),
    /// A frame of this size, its parity and headers included, entered the pacer. So a controller knows the bit rate of
    /// the encoder at once.
    Encoded(ByteCount),
    /// Feedback for the peer's media left this end, with this many link bytes. Only a controller that knows the link
    /// needs it; the others measure its effect on their own packets.
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

/// Data that the sender has in flight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InFlight {
    /// Fragments sent or waiting in the pacer, without acknowledged and lost ones.
    pub fragments: u64,
    /// Their bytes, headers included.
    pub bytes: ByteCount,
    /// The part of those bytes that still waits in the pacer.
    pub queued: ByteCount,
}

impl InFlight {
    /// Data that `sender` has in flight. Each fragment in the pacer counts as a full payload of `payload` bytes.
    #[must_use]
    pub fn of<P: Payload>(sender: &Sender<P>, payload: ByteCount) -> Self {
        let sent = sender.in_flight();
        let waiting = sender.queued_fragments() as u64;
        let queued = ByteCount::new(waiting * payload.get());
        Self { fragments: sent.fragments as u64 + waiting, bytes: sent.bytes + queued, queued }
    }
}

/// Limits for the sender now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// Payload bytes of the next frame, over all its fragments.
    pub budget: ByteCount,
    /// Interval between the transmissions of two fragments.
    pub pacing_interval: Duration,
    /// Bit rate at which the controller expects the video to be sent in the long run.
    pub target: Bitrate,
    /// The controller's estimate of the path's capacity, if it has one apart from its target.
    pub capacity: Option<Bitrate>,
    /// Bytes in flight that wait behind cross traffic. They do not show that the path is full.
    pub behind_cross_traffic: ByteCount,
}

impl Allowance {
    /// The allowance of a controller without a separate capacity estimate and without cross traffic.
    #[must_use]
    pub fn at_target(budget: ByteCount, pacing_interval: Duration, target: Bitrate) -> Self {
        Self { budget, pacing_interval, target, capacity: None, behind_cross_traffic: ByteCount::ZERO }
    }
}

/// Which rules of the sending end apply to a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traits {
    /// Whether the limits by path apply ([`crate::Delivered`] and others). False for reference controllers: a fixed
    /// rate, or a controller that knows the path.
    pub is_bounded: bool,
    /// Whether [`crate::Ceiling`] bounds the allowance at the bit rate beyond which pictures gain nothing. True also
    /// for a controller that knows the path, so that the reference obeys the same bound.
    pub has_ceiling: bool,
    /// Whether an occasional frame may be sent without a budget, to probe the path. May change during a call.
    pub wants_probes: bool,
}

impl Traits {
    /// A controller that estimates the path: every rule applies.
    pub const ESTIMATING: Self = Self { is_bounded: true, has_ceiling: true, wants_probes: true };
    /// A published system to the letter: no rule applies.
    pub const AS_PUBLISHED: Self = Self { is_bounded: false, has_ceiling: false, wants_probes: false };
}

/// Sender-side control: decides how many bytes the next frame may have and how fast its fragments leave.
///
/// Feedback lists the sending and arrival time of every fragment, as transport-wide feedback does for GCC. A controller
/// that follows an estimator at the receiver reads [`Feedback::estimate`].
pub trait Controller: Send {
    /// Which rules of the sending end apply.
    fn traits(&self) -> Traits;
    /// Handles an event at `path.now`. The view already includes it.
    fn handle(&mut self, path: &PathView<'_>, input: Input<'_>);
    /// Allowance at `path.now`, with `in_flight` data. May be called at any time, and repeatedly.
    fn allowance(&self, path: &PathView<'_>, in_flight: InFlight) -> Allowance;
    /// Only the pacing interval of [`Controller::allowance`]. Called for every datagram.
    fn pacing_interval(&self, path: &PathView<'_>, in_flight: InFlight) -> Duration;
    /// Number of decisions by kind, for reports. Empty if there is only one kind.
    fn counters(&self) -> Vec<(&'static str, u64)>;
}
