//! Which estimator a receiver runs, by the number that the sender's hello carries.

use crate::{BobHeuristic, Estimator, GracePeriod, InterArrival, RateBounds};

/// An estimator that a controller can ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EstimatorKind {
    /// Salsify's inter-arrival average, with or without the grace period.
    InterArrival(GracePeriod),
    /// BoB's heuristic.
    BobHeuristic,
}

impl EstimatorKind {
    /// The estimator.
    #[must_use]
    pub fn make(self, bounds: RateBounds) -> Box<dyn Estimator> {
        match self {
            Self::InterArrival(grace_period) => Box::new(InterArrival::new(grace_period)),
            Self::BobHeuristic => Box::new(BobHeuristic::new(bounds)),
        }
    }

    /// Its number in a hello. Numbers are never given to another estimator.
    #[must_use]
    pub fn number(self) -> u16 {
        match self {
            Self::InterArrival(GracePeriod::LinkIdle) => 1,
            Self::InterArrival(GracePeriod::None) => 2,
            Self::BobHeuristic => 3,
        }
    }

    /// The estimator of that number; 0 stands for any. None if the number is none's, as that of a later version may be.
    #[must_use]
    pub fn from_number(number: u16) -> Option<Self> {
        match number {
            0 | 1 => Some(Self::InterArrival(GracePeriod::LinkIdle)),
            2 => Some(Self::InterArrival(GracePeriod::None)),
            3 => Some(Self::BobHeuristic),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimator_is_known_by_its_number_and_another_number_is_refused() {
        let known: Vec<EstimatorKind> = (0..=u16::MAX).filter_map(EstimatorKind::from_number).collect();
        assert_eq!(known.len(), 4, "three, and the one for any");
        for kind in known {
            assert_eq!(EstimatorKind::from_number(kind.number()), Some(kind));
        }
    }
}
