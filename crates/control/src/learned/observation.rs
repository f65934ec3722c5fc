//! What models see, by name: the same object makes it in training and in calls.

#[cfg(feature = "baselines")]
pub use kinds::{ObservationKind, UnknownObservation};
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

#[cfg(feature = "baselines")]
mod kinds {
    use std::fmt;
    use std::str::FromStr;

    use super::Observation;
    use crate::learned::{BobObservation, ConcertoObservation, GeminiObservation, HrccObservation};

    /// The observations that environments can be asked for.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum ObservationKind {
        /// Concerto's; RL-V's is the same.
        Concerto,
        /// BoB's, at the receiver.
        Bob,
        /// HRCC's, at the receiver.
        Hrcc,
        /// Gemini's, at the receiver.
        Gemini,
    }

    /// There is no observation of this name.
    #[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
    #[error("no observation is called `{0}`; there are: {names}", names = ObservationKind::ALL.map(|kind| kind.to_string()).join(", "))]
    pub struct UnknownObservation(String);

    impl ObservationKind {
        /// All of them.
        pub const ALL: [Self; 4] = [Self::Concerto, Self::Bob, Self::Hrcc, Self::Gemini];

        /// Whether it is made at the receiver, of what arrives.
        #[must_use]
        pub fn is_receivers(self) -> bool {
            !matches!(self, Self::Concerto)
        }

        /// One that has not seen anything yet.
        #[must_use]
        pub fn make(self) -> Box<dyn Observation> {
            match self {
                Self::Concerto => Box::new(ConcertoObservation::new(ConcertoObservation::USUAL_INTERVALS)),
                Self::Bob => Box::new(BobObservation::new()),
                Self::Hrcc => Box::new(HrccObservation::new()),
                Self::Gemini => Box::new(GeminiObservation::new()),
            }
        }
    }

    impl fmt::Display for ObservationKind {
        fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str(match self {
                Self::Concerto => "concerto",
                Self::Bob => "bob",
                Self::Hrcc => "hrcc",
                Self::Gemini => "gemini",
            })
        }
    }

    impl FromStr for ObservationKind {
        type Err = UnknownObservation;

        fn from_str(text: &str) -> Result<Self, Self::Err> {
            Self::ALL
                .into_iter()
                .find(|kind| kind.to_string() == text)
                .ok_or_else(|| UnknownObservation(text.to_owned()))
        }
    }
}
