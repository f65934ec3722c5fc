//! What decides how much is sent: estimators at the receiver, controllers at the sender, one file each.
//!
//! An [`Estimator`] sees every datagram that arrives and says what goes into the feedback. A [`Controller`] sees every
//! feedback and says how many bytes the next frame may have and how far apart its fragments are sent. Both are
//! clock-free: they are told the time.
#![forbid(unsafe_code)]

mod algorithm;
mod base_delay;
mod bob_heuristic;
mod claimed_share;
#[cfg(test)]
mod closed_loop;
mod copa;
mod estimator_kind;
mod fixed;
mod flow_group;
mod foreign_queue;
mod fragments;
mod gcc;
mod inter_arrival;
mod latency;
pub mod learned;
mod loss_rate;
mod nada;
mod narrow_path;
mod oracle;
mod path_bound;
mod path_delay;
mod receiver_estimate;
mod recent_least;
pub mod recording;
mod reported_loss;
mod salsify;
mod scream;
mod short_queue;
mod sprout;
mod token_bucket;

use std::time::Duration;

use lockstep_transport::{Arrival, Estimate, Feedback, LostFragment, Payload, Sender};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

pub use algorithm::{Algorithm, AlgorithmError, KnownPath, RateBounds, Setting};
pub use bob_heuristic::{BobHeuristic, PathUse};
pub use claimed_share::ClaimRule;
pub use copa::Copa;
pub use estimator_kind::EstimatorKind;
pub use fixed::Fixed;
pub use flow_group::FlowGroup;
pub use gcc::{Gcc, Probing, Settings as GccSettings};
pub use inter_arrival::{GracePeriod, InterArrival};
pub use latency::{Latency, UnknownLatency};
pub use loss_rate::{LossRate, Protection};
pub use nada::Nada;
pub use narrow_path::{NARROW, NarrowPath};
pub use oracle::{Oracle, QOE_D_DELAY};
pub use path_bound::{Bounded, PathBound, bitrate_ceiling};
pub use receiver_estimate::ReceiverEstimate;
pub use salsify::SalsifyWindow;
pub use scream::Scream;
pub use sprout::Sprout;
pub use token_bucket::TokenBucket;

/// What the receiving end makes of the datagrams that arrive.
pub trait Estimator: Send {
    /// A data datagram arrived.
    fn on_arrival(&mut self, arrival: &Arrival);
    /// What goes into the next feedback.
    fn estimate(&mut self, now: Timestamp) -> Estimate;
    /// Whether nothing but arrivals changes it, so that it need not be asked but when feedback leaves. One that decides by
    /// the clock is asked after everything that happens to its end.
    fn follows_arrivals_alone(&self) -> bool {
        false
    }
}

/// What the sender has on the way.
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
    /// What `sender` has on the way; each fragment that waits counts as `payload` bytes, the most that it may carry.
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
    /// Bytes that the next frame may have, all its fragments' payloads together.
    pub budget: ByteCount,
    /// Time between two fragments' transmissions.
    pub pacing_interval: Duration,
    /// Bit rate at which the controller expects the video to be sent in the long run.
    pub target: Bitrate,
}

/// What the sending end decides by.
///
/// Feedback lists every fragment with the times of its transmission and its arrival, so a controller that estimates at
/// the sender (as GCC does from transport-wide feedback) has what it needs; one that trusts an estimator at the
/// receiver reads [`Feedback::estimate`].
pub trait Controller: Send {
    /// A datagram of `size` bytes, its header included, left the pacer.
    fn on_transmit(&mut self, _now: Timestamp, _size: ByteCount) {}
    /// Feedback on what the other end sends left this end, which took so many bytes of the link. For one that knows the link:
    /// others see what it does to their own.
    fn on_feedback_transmit(&mut self, _now: Timestamp, _carried: ByteCount) {}
    /// Feedback arrived.
    fn on_feedback(&mut self, now: Timestamp, feedback: &Feedback);
    /// It is `now`: silence is news, too. Called before what may be sent is asked for a picture.
    fn on_time(&mut self, _now: Timestamp) {}
    /// Fragments were declared lost.
    fn on_loss(&mut self, _now: Timestamp, _lost: &[LostFragment]) {}
    /// A picture was left out for the sake of the next: what it would have had is left for that. For one that works out what a frame may
    /// have from the time until the next one; others see it by what is on the way.
    fn on_picture_left_out(&mut self) {}
    /// What may be sent at this moment, with `in_flight` on the way. May be asked at any time and any number of times.
    fn allowance(&self, now: Timestamp, in_flight: InFlight) -> Allowance;
    /// The pacing interval of [`Controller::allowance`], which is all that each datagram asks for; to be implemented
    /// where the rest takes longer to work out.
    fn pacing_interval(&self, now: Timestamp, in_flight: InFlight) -> Duration {
        self.allowance(now, in_flight).pacing_interval
    }
    /// What it takes the path to carry, where that is something else than its target.
    fn estimate(&self) -> Option<Bitrate> {
        None
    }
    /// Bytes on the way that only wait because others' packets are before them: that they are still there does not say that
    /// the path takes no more.
    fn held_up(&self) -> ByteCount {
        ByteCount::ZERO
    }
    /// How often it decided in which way, by name, for reports; nothing where there is one way only.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
    /// Whether what it allows is bounded by what the path was seen to carry ([`PathBound`]). Not so for yardsticks:
    /// what sends at a given rate come what may, or knows the path.
    fn is_bounded(&self) -> bool {
        true
    }
    /// Whether it sends no more in the long run than pictures gain by ([`PathBound::below_ceiling`]). So also for what knows
    /// the path, or it would be measured by what nobody else may send; not so for what sends at a given rate.
    fn has_ceiling(&self) -> bool {
        true
    }
    /// Whether a frame may now and then be sent without a budget, so that something is learned of the path. Not so for what
    /// knows the path, and when the next frame will get through.
    fn wants_probes(&self) -> bool {
        true
    }
}
