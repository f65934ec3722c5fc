//! Observations of models. Training and calls use the same object.

use lockstep_transport::{Arrival, Feedback, LostFragment};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

/// Converts the inputs of one end into the numbers of a model.
///
/// An observation of one end uses only inputs that this end receives. It also receives decisions, since many models use
/// their last ones.
pub trait Observation: Send {
    /// Lengths of its dimensions. The numbers are in row-major order.
    fn shape(&self) -> Vec<usize>;
    /// The sender sent a datagram of `size` bytes.
    fn on_transmit(&mut self, _now: Timestamp, _size: ByteCount) {}
    /// The encoder at the sender finished a frame of `size` bytes, headers included.
    fn on_encoded(&mut self, _now: Timestamp, _size: ByteCount) {}
    /// The sender received feedback.
    fn on_feedback(&mut self, _now: Timestamp, _feedback: &Feedback) {}
    /// The sender declared fragments lost.
    fn on_loss(&mut self, _now: Timestamp, _lost: &[LostFragment]) {}
    /// A datagram arrived at the receiver.
    fn on_arrival(&mut self, _arrival: &Arrival) {}
    /// The controller or estimator decided on `rate`.
    fn on_decision(&mut self, _now: Timestamp, _rate: Bitrate) {}
    /// Writes the observation at `now` into `into`, whose length follows from [`Observation::shape`]. All numbers are
    /// finite.
    fn observe(&mut self, now: Timestamp, into: &mut [f32]);
}
