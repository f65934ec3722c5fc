//! What models see, by name: the same object makes it in training and in calls.

use lockstep_transport::{Arrival, Feedback, LostFragment};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

/// Makes of what an end hears the numbers that a model is given.
///
/// One that is for an end looks only at what that end can know. It is told of decisions, too, since many models look at
/// their last ones.
pub trait Observation: Send {
    /// The lengths of its dimensions; the numbers are in the order of rows.
    fn shape(&self) -> Vec<usize>;
    /// The sender's datagram of `size` bytes left.
    fn on_transmit(&mut self, _now: Timestamp, _size: ByteCount) {}
    /// The sender heard from the receiver.
    fn on_feedback(&mut self, _now: Timestamp, _feedback: &Feedback) {}
    /// The sender takes fragments for lost.
    fn on_loss(&mut self, _now: Timestamp, _lost: &[LostFragment]) {}
    /// A datagram reached the receiver.
    fn on_arrival(&mut self, _arrival: &Arrival) {}
    /// `rate` was decided on.
    fn on_decision(&mut self, _now: Timestamp, _rate: Bitrate) {}
    /// Writes what is seen at `now` over `into`, which has as many numbers as [`Observation::shape`] says; all of them
    /// are finite.
    fn observe(&mut self, now: Timestamp, into: &mut [f32]);
}
