//! Kinds of estimators at the receiver, and their numbers in a sender's hello.

use std::sync::Arc;

use lockstep_nn::{Model, ModelError};

use crate::learned::purpose::is_not_for;
use crate::learned::shipped::Shipped;
#[cfg(feature = "baselines")]
use crate::learned::{bob, gemini, hrcc, mmsys24};
use crate::{AlgorithmError, BobHeuristic, BobRules, Estimator, GracePeriod, InterArrival, RateBounds};

/// An estimator that a controller can ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EstimatorKind {
    /// Salsify's inter-arrival average, with or without the grace period.
    InterArrival(GracePeriod),
    /// BoB's heuristic, by its released code or as printed.
    BobHeuristic(BobRules),
    /// BoB: the heuristic and a learned estimator behind a selector.
    Bob(BobRules),
    /// HRCC: a heuristic, tuned by a model.
    Hrcc,
    /// Gemini: GCC and a learned estimator with a safety detector.
    Gemini,
    /// A model in the format of the MMSys'24 challenge.
    Mmsys24,
}

impl EstimatorKind {
    /// The estimator. A learned one runs its embedded model; without an embedded model it is BoB's heuristic.
    #[must_use]
    pub fn make(self, bounds: RateBounds) -> Box<dyn Estimator> {
        self.with_model(bounds, None).unwrap_or_else(|_| Box::new(BobHeuristic::new(bounds)))
    }

    /// The estimator. A learned one runs `model` if given, else its embedded model.
    ///
    /// # Errors
    /// [`AlgorithmError::NoModel`] if it is learned, `model` is none and no model is embedded;
    /// [`AlgorithmError::Model`] if the model does not fit.
    pub fn with_model(
        self,
        bounds: RateBounds,
        model: Option<Arc<Model>>,
    ) -> Result<Box<dyn Estimator>, AlgorithmError> {
        #[cfg(not(feature = "baselines"))]
        let _ = model;
        #[cfg(feature = "baselines")]
        let given = |name| match (model, self.shipped()) {
            (Some(model), _) => Ok(model),
            (None, Some(shipped)) => Ok(shipped.model()?),
            (None, None) => Err(AlgorithmError::NoModel(name)),
        };
        Ok(match self {
            Self::InterArrival(grace_period) => Box::new(InterArrival::new(grace_period)),
            Self::BobHeuristic(rules) => Box::new(BobHeuristic::with_rules(bounds, rules)),
            #[cfg(feature = "baselines")]
            Self::Bob(rules) => bob(given("bob")?, bounds, rules)?,
            #[cfg(feature = "baselines")]
            Self::Hrcc => hrcc(given("hrcc")?, bounds)?,
            #[cfg(feature = "baselines")]
            Self::Gemini => gemini(given("gemini")?, bounds)?,
            #[cfg(feature = "baselines")]
            Self::Mmsys24 => mmsys24(given("mmsys24")?, bounds)?,
            #[cfg(not(feature = "baselines"))]
            Self::Bob(_) | Self::Hrcc | Self::Gemini | Self::Mmsys24 => {
                return Err(ModelError::NotBuilt("baselines").into());
            }
        })
    }

    /// The embedded model of a learned estimator, if any.
    #[must_use]
    pub fn shipped(self) -> Option<Shipped> {
        match self {
            Self::Bob(_) => Some(Shipped::Bob),
            Self::Hrcc => Some(Shipped::Hrcc),
            Self::Gemini => Some(Shipped::Gemini),
            _ => None,
        }
    }

    /// The learned estimator that the model's metadata names (`lockstep.controller`). A model without this entry counts
    /// as one of the MMSys'24 challenge.
    ///
    /// # Errors
    /// [`ModelError::Unfit`] if the metadata names something else.
    pub fn of_model(model: &Model) -> Result<Self, ModelError> {
        match model.metadata("lockstep.controller") {
            Some("bob") => Ok(Self::Bob(BobRules::Released)),
            Some("hrcc") => Ok(Self::Hrcc),
            Some("gemini") => Ok(Self::Gemini),
            None | Some("mmsys24") => Ok(Self::Mmsys24),
            Some(_) => Err(is_not_for(model, "an estimator at the receiver")),
        }
    }

    /// Whether it can run a model of the estimator `other`: rules of the heuristic do not matter.
    #[must_use]
    pub fn runs_model_of(self, other: Self) -> bool {
        self == other || matches!((self, other), (Self::Bob(_), Self::Bob(_)))
    }

    /// Its number in a hello. A number is never reused for another estimator.
    #[must_use]
    pub fn number(self) -> u16 {
        match self {
            Self::InterArrival(GracePeriod::LinkIdle) => 1,
            Self::InterArrival(GracePeriod::None) => 2,
            Self::BobHeuristic(BobRules::Released) => 3,
            Self::Bob(BobRules::Released) => 4,
            Self::Hrcc => 5,
            Self::Gemini => 6,
            Self::Mmsys24 => 7,
            Self::InterArrival(GracePeriod::Sender) => 8,
            Self::BobHeuristic(BobRules::Printed) => 9,
            Self::Bob(BobRules::Printed) => 10,
        }
    }

    /// The estimator with this number; 0 means any. None if the number is unknown, for example of a later version, or
    /// if the build lacks the estimator.
    #[must_use]
    pub fn from_number(number: u16) -> Option<Self> {
        match number {
            0 | 1 => Some(Self::InterArrival(GracePeriod::LinkIdle)),
            2 => Some(Self::InterArrival(GracePeriod::None)),
            3 => Some(Self::BobHeuristic(BobRules::Released)),
            8 => Some(Self::InterArrival(GracePeriod::Sender)),
            9 => Some(Self::BobHeuristic(BobRules::Printed)),
            4..=7 | 10 if !cfg!(feature = "baselines") => None,
            4 => Some(Self::Bob(BobRules::Released)),
            10 => Some(Self::Bob(BobRules::Printed)),
            5 => Some(Self::Hrcc),
            6 => Some(Self::Gemini),
            7 => Some(Self::Mmsys24),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimator_numbers_round_trip_and_others_are_refused() {
        let known: Vec<EstimatorKind> = (0..=u16::MAX).filter_map(EstimatorKind::from_number).collect();
        assert_eq!(known.len(), 11, "ten estimators, and 0 for any");
        for kind in known {
            assert_eq!(EstimatorKind::from_number(kind.number()), Some(kind));
        }
    }
}
