//! Observations by name.

use std::fmt;
use std::str::FromStr;

use super::observation::Observation;
use super::{BobObservation, ConcertoInputs, ConcertoObservation, GeminiObservation, HrccObservation};
use crate::BobRules;

/// Observations that an environment can use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ObservationKind {
    /// Concerto's, which RL-V shares.
    Concerto,
    /// Concerto's with the bit rate of the encoder ([`ConcertoInputs::Encoded`]).
    ConcertoEncoded,
    /// BoB's, at the receiver.
    Bob,
    /// BoB's with the heuristic of the paper's text ([`BobRules::Printed`]).
    BobPrinted,
    /// HRCC's, at the receiver.
    Hrcc,
    /// Gemini's, at the receiver.
    Gemini,
}

/// Error of an unknown observation name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown observation `{0}`: choose one of {names}", names = ObservationKind::ALL.map(|kind| kind.to_string()).join(", "))]
pub struct UnknownObservation(String);

impl ObservationKind {
    /// All observations.
    pub const ALL: [Self; 6] =
        [Self::Concerto, Self::ConcertoEncoded, Self::Bob, Self::BobPrinted, Self::Hrcc, Self::Gemini];

    /// Whether the receiver makes it from arrivals.
    #[must_use]
    pub fn is_receivers(self) -> bool {
        !matches!(self, Self::Concerto | Self::ConcertoEncoded)
    }

    /// An observation without inputs.
    #[must_use]
    pub fn make(self) -> Box<dyn Observation> {
        match self {
            Self::Concerto => {
                Box::new(ConcertoObservation::new(ConcertoObservation::USUAL_INTERVALS, ConcertoInputs::Acknowledged))
            }
            Self::ConcertoEncoded => {
                Box::new(ConcertoObservation::new(ConcertoObservation::USUAL_INTERVALS, ConcertoInputs::Encoded))
            }
            Self::Bob => Box::new(BobObservation::new(BobRules::Released)),
            Self::BobPrinted => Box::new(BobObservation::new(BobRules::Printed)),
            Self::Hrcc => Box::new(HrccObservation::new()),
            Self::Gemini => Box::new(GeminiObservation::new()),
        }
    }
}

impl fmt::Display for ObservationKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Concerto => "concerto",
            Self::ConcertoEncoded => "concerto-encoded",
            Self::Bob => "bob",
            Self::BobPrinted => "bob-printed",
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
