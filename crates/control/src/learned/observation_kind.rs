//! Observations by name.

use std::fmt;
use std::str::FromStr;

use super::observation::Observation;
use super::{BobObservation, ConcertoObservation, GeminiObservation, HrccObservation};

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
        Self::ALL.into_iter().find(|kind| kind.to_string() == text).ok_or_else(|| UnknownObservation(text.to_owned()))
    }
}
