//! Algorithms by name: each one pairs an estimator at the receiver with a controller at the sender.

mod error;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use lockstep_nn::{Model, ModelError};
use lockstep_units::Bitrate;
use lockstep_units::quantity::parse_rate;

pub use self::error::AlgorithmError;
use crate::known_path::KnownPath;
#[cfg(feature = "baselines")]
use crate::learned::Concerto;
use crate::learned::Lockstep;
use crate::learned::shipped::Shipped;
use crate::{
    BobRules, Controller, ControllerSetup, Copa, Estimator, EstimatorKind, Fixed, Gcc, GracePeriod, Hindsight, Nada,
    RateBounds, ReceiverEstimate, Registration, SalsifyWindow, Scream, Sprout,
};

/// An estimator and a controller that belong together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Algorithm {
    /// Salsify's window over its inter-arrival average.
    Salsify(GracePeriod),
    /// Google Congestion Control, estimated at the sender.
    Gcc,
    /// A constant bit rate.
    Fixed(Bitrate),
    /// BoB's heuristic at the receiver, with a controller that follows its estimate.
    BobHeuristic(BobRules),
    /// BoB: that heuristic and a learned estimator behind a selector, at the receiver.
    Bob(BobRules),
    /// HRCC: a heuristic at the receiver, tuned by a model.
    Hrcc,
    /// Gemini: GCC and a learned estimator at the receiver, with a safety detector.
    Gemini,
    /// A model in the format of the MMSys'24 challenge, at the receiver.
    Mmsys24,
    /// NADA (RFC 8698).
    Nada,
    /// SCReAM, version 2.
    Scream,
    /// Sprout: the default of programs without learned controllers.
    #[cfg_attr(not(feature = "learned"), default)]
    Sprout,
    /// Copa.
    Copa,
    /// Concerto: a model that imitates an expert that knows the trace.
    Concerto,
    /// RL-V: the same model, trained by reinforcement learning.
    Rlv,
    /// Lockstep's own controller: a model predicts quantiles of the bytes that the path delivers until a deadline. It
    /// is the default (`docs/lab/2026-11-controllers.md`).
    #[cfg_attr(feature = "learned", default)]
    Lockstep,
    /// Hindsight: knows the exact capacity and queue of the path.
    Hindsight,
    /// A controller that follows the estimate of the receiver, for an estimator from elsewhere. Its own estimator gives
    /// no capacity estimate, so it is not in [`Algorithm::NAMES`].
    ReceiverEstimate,
    /// A controller that a program registered ([`crate::Controllers`]).
    Registered(Registration),
}

impl Algorithm {
    /// Every name with its description.
    pub const NAMES: [(&'static str, &'static str); 17] = [
        ("salsify", "Salsify's window: the fragments that drain in 100 ms, by the receiver's inter-arrival average"),
        ("salsify-no-grace", "the same without the grace period"),
        ("gcc", "Google Congestion Control as in WebRTC: delay gradient, losses and probes, from 300 kb/s on"),
        ("fixed:RATE", "constant bit rate, such as fixed:1.5mbps"),
        ("bob-heuristic", "BoB's delay-gradient heuristic at the receiver, a loss controller at the sender"),
        ("bob", "BoB: that heuristic, or a learned estimator if the two differ by less than 30 %"),
        ("hrcc", "HRCC: such a heuristic at the receiver, tuned by a learned policy"),
        ("gemini", "Gemini: such a heuristic or a learned estimate at the receiver, chosen by a safety detector"),
        ("mmsys24", "a model in the format of the MMSys'24 challenge at the receiver; requires --model"),
        ("nada", "NADA: one congestion signal of delay and loss (RFC 8698)"),
        ("scream", "SCReAM version 2: a window around a target for the queueing delay"),
        ("sprout", "Sprout: a Bayesian filter over the link's rate, and a lower bound of its deliveries by a deadline"),
        ("copa", "Copa: a window that keeps two packets in the queue"),
        ("concerto", "Concerto: a learned choice among bit rates, imitating an expert that knows the path"),
        ("rlv", "RL-V: the same choice, learned from a reward"),
        (
            "lockstep",
            "Lockstep's own, the default: learned quantiles of the bytes that the path delivers until a deadline",
        ),
        ("hindsight", "a reference that knows the capacity and queue of the path; in simulations only"),
    ];

    /// One algorithm for each of [`Algorithm::NAMES`], in that order. An algorithm that needs a rate gets 1 Mb/s.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::NAMES.iter().filter_map(|(name, _)| name.replace("RATE", "1mbps").parse().ok())
    }

    /// Whether [`ControllerSetup::latency`] changes its controller.
    #[must_use]
    pub fn takes_latency(&self) -> bool {
        matches!(self, Self::Sprout | Self::Lockstep)
    }

    /// Whether its estimator or controller runs a model ([`ControllerSetup::model`]).
    #[must_use]
    pub fn takes_model(&self) -> bool {
        matches!(self, Self::Concerto | Self::Rlv | Self::Lockstep) || self.estimates_by_model()
    }

    /// Whether that model runs at the receiver.
    #[must_use]
    pub fn estimates_by_model(&self) -> bool {
        matches!(self, Self::Bob(_) | Self::Hrcc | Self::Gemini | Self::Mmsys24)
    }

    /// The embedded model of its controller at the sender, if any.
    #[must_use]
    pub fn shipped(&self) -> Option<Shipped> {
        match self {
            Self::Concerto => Some(Shipped::Concerto),
            Self::Rlv => Some(Shipped::Rlv),
            Self::Lockstep => Some(Shipped::Lockstep),
            _ => None,
        }
    }

    /// Whether its controller must know the capacity of the path ([`ControllerSetup::path`]). Only a simulated call
    /// knows it.
    #[must_use]
    pub fn knows_path(&self) -> bool {
        matches!(self, Self::Hindsight)
    }

    /// Whether its controller responds to congestion marks (ECN). If it does not, packets must not be marked
    /// ECN-capable (RFC 3168, section 5).
    #[must_use]
    pub fn responds_to_marks(&self) -> bool {
        match self {
            Self::Registered(registration) => registration.responds_to_marks(),
            _ => matches!(self, Self::Gcc | Self::Nada | Self::Scream),
        }
    }

    /// The estimator for the receiving end.
    #[must_use]
    pub fn estimator(&self, bounds: RateBounds) -> Box<dyn Estimator> {
        self.estimator_kind().make(bounds)
    }

    /// The estimator for the receiving end. A learned one runs `model` if given, else its embedded model.
    ///
    /// # Errors
    /// As [`EstimatorKind::with_model`].
    pub fn estimator_with(
        &self,
        bounds: RateBounds,
        model: Option<Arc<Model>>,
    ) -> Result<Box<dyn Estimator>, AlgorithmError> {
        self.estimator_kind().with_model(bounds, model)
    }

    /// The kind of estimator that the controller needs at the receiving end.
    #[must_use]
    pub fn estimator_kind(&self) -> EstimatorKind {
        match self {
            Self::Registered(registration) => registration.estimator(),
            Self::Salsify(grace_period) => EstimatorKind::InterArrival(*grace_period),
            Self::BobHeuristic(rules) => EstimatorKind::BobHeuristic(*rules),
            Self::Bob(rules) => EstimatorKind::Bob(*rules),
            Self::Hrcc => EstimatorKind::Hrcc,
            Self::Gemini => EstimatorKind::Gemini,
            Self::Mmsys24 => EstimatorKind::Mmsys24,
            // Only logs read its estimate.
            Self::Gcc
            | Self::Fixed(_)
            | Self::Nada
            | Self::Scream
            | Self::Sprout
            | Self::Copa
            | Self::Concerto
            | Self::Rlv
            | Self::Lockstep
            | Self::Hindsight
            | Self::ReceiverEstimate => EstimatorKind::InterArrival(GracePeriod::LinkIdle),
        }
    }

    /// The controller for the sending end.
    ///
    /// # Errors
    /// [`AlgorithmError::UnknownPath`] for [`Algorithm::Hindsight`] without [`ControllerSetup::path`];
    /// [`AlgorithmError::NoModel`] for a learned one without an embedded model and without [`ControllerSetup::model`];
    /// [`AlgorithmError::Model`] if the model does not fit the controller.
    pub fn controller(&self, setup: &ControllerSetup) -> Result<Box<dyn Controller>, AlgorithmError> {
        Ok(match self {
            Self::Registered(registration) => registration.controller(setup),
            Self::Salsify(_) => Box::new(SalsifyWindow::new(setup.payload)),
            Self::Gcc => Box::new(Gcc::new(setup)),
            Self::Fixed(rate) => Box::new(Fixed::new(*rate, setup)),
            Self::BobHeuristic(_) | Self::ReceiverEstimate => Box::new(ReceiverEstimate::new(setup)),
            Self::Bob(_) | Self::Hrcc | Self::Gemini | Self::Mmsys24 => {
                // The receiver runs the model. If the sender has it too, a model of the wrong shape is refused at once.
                if setup.model.is_some() {
                    self.estimator_with(setup.bounds, setup.model.clone())?;
                }
                Box::new(ReceiverEstimate::new(setup))
            }
            Self::Nada => Box::new(Nada::new(setup)),
            Self::Scream => Box::new(Scream::new(setup)),
            Self::Sprout => Box::new(Sprout::new(setup)),
            Self::Copa => Box::new(Copa::new(setup)),
            #[cfg(feature = "baselines")]
            Self::Concerto => Box::new(Concerto::new(setup, "concerto", model_of(setup, Shipped::Concerto)?)?),
            #[cfg(feature = "baselines")]
            Self::Rlv => Box::new(Concerto::new(setup, "rlv", model_of(setup, Shipped::Rlv)?)?),
            #[cfg(not(feature = "baselines"))]
            Self::Concerto | Self::Rlv => return Err(ModelError::NotBuilt("baselines").into()),
            Self::Lockstep => Box::new(Lockstep::with_model(setup, model_of(setup, Shipped::Lockstep)?)?),
            Self::Hindsight => Box::new(Hindsight::new(known_path(setup, "hindsight")?, setup)),
        })
    }
}

fn known_path(setup: &ControllerSetup, name: &'static str) -> Result<KnownPath, AlgorithmError> {
    setup.path.clone().ok_or(AlgorithmError::UnknownPath(name))
}

/// The chosen model, else the embedded model of the controller.
fn model_of(setup: &ControllerSetup, shipped: Shipped) -> Result<Arc<Model>, ModelError> {
    setup.model.clone().map_or_else(|| shipped.model(), Ok)
}

impl fmt::Display for Algorithm {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The option `grace_period` names that of the sender.
            Self::Salsify(GracePeriod::LinkIdle | GracePeriod::Sender) => formatter.write_str("salsify"),
            Self::Salsify(GracePeriod::None) => formatter.write_str("salsify-no-grace"),
            Self::Gcc => formatter.write_str("gcc"),
            Self::Fixed(rate) => write!(formatter, "fixed:{}bps", rate.as_bps()),
            Self::BobHeuristic(BobRules::Released) => formatter.write_str("bob-heuristic"),
            Self::BobHeuristic(BobRules::Printed) => formatter.write_str("bob-heuristic-printed"),
            Self::Bob(BobRules::Released) => formatter.write_str("bob"),
            Self::Bob(BobRules::Printed) => formatter.write_str("bob-printed"),
            Self::Hrcc => formatter.write_str("hrcc"),
            Self::Gemini => formatter.write_str("gemini"),
            Self::Mmsys24 => formatter.write_str("mmsys24"),
            Self::Nada => formatter.write_str("nada"),
            Self::Scream => formatter.write_str("scream"),
            Self::Sprout => formatter.write_str("sprout"),
            Self::Copa => formatter.write_str("copa"),
            Self::Concerto => formatter.write_str("concerto"),
            Self::Rlv => formatter.write_str("rlv"),
            Self::Lockstep => formatter.write_str("lockstep"),
            Self::Hindsight => formatter.write_str("hindsight"),
            Self::ReceiverEstimate => formatter.write_str("receiver-estimate"),
            Self::Registered(registration) => formatter.write_str(registration.name()),
        }
    }
}

impl FromStr for Algorithm {
    type Err = AlgorithmError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(rate) = text.strip_prefix("fixed:") {
            return parse_rate(rate).map(Self::Fixed).map_err(|_| AlgorithmError::Rate(rate.to_owned()));
        }
        match text {
            "salsify" => Ok(Self::Salsify(GracePeriod::LinkIdle)),
            "salsify-no-grace" => Ok(Self::Salsify(GracePeriod::None)),
            "gcc" => Ok(Self::Gcc),
            "bob-heuristic" => Ok(Self::BobHeuristic(BobRules::Released)),
            "bob-heuristic-printed" => Ok(Self::BobHeuristic(BobRules::Printed)),
            "bob" => Ok(Self::Bob(BobRules::Released)),
            "bob-printed" => Ok(Self::Bob(BobRules::Printed)),
            "hrcc" => Ok(Self::Hrcc),
            "gemini" => Ok(Self::Gemini),
            "mmsys24" => Ok(Self::Mmsys24),
            "nada" => Ok(Self::Nada),
            "scream" => Ok(Self::Scream),
            "sprout" => Ok(Self::Sprout),
            "copa" => Ok(Self::Copa),
            "concerto" => Ok(Self::Concerto),
            "rlv" => Ok(Self::Rlv),
            "lockstep" => Ok(Self::Lockstep),
            "hindsight" => Ok(Self::Hindsight),
            "receiver-estimate" => Ok(Self::ReceiverEstimate),
            _ => Err(AlgorithmError::Unknown {
                name: text.to_owned(),
                names: Self::NAMES.map(|(name, _)| name).join(", "),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lockstep_link::Trace;
    use lockstep_units::ByteCount;

    use super::*;
    use crate::closed_loop::known_path;

    #[test]
    fn names_round_trip_through_text() {
        let names = [
            "salsify",
            "salsify-no-grace",
            "gcc",
            "fixed:1500000bps",
            "bob-heuristic",
            "bob-heuristic-printed",
            "bob",
            "bob-printed",
            "hrcc",
            "gemini",
            "mmsys24",
            "nada",
            "scream",
            "sprout",
            "copa",
            "concerto",
            "rlv",
            "lockstep",
            "hindsight",
        ];
        for text in names {
            assert_eq!(text.parse::<Algorithm>().map(|algorithm| algorithm.to_string()), Ok(text.to_owned()));
        }
        let error = "reno".parse::<Algorithm>().unwrap_err().to_string();
        assert!(error.contains("`reno`") && error.contains("salsify-no-grace"), "{error}");
    }

    #[test]
    fn all_lists_one_algorithm_per_name() {
        let named = |(algorithm, (name, _)): (Algorithm, (&str, &str))| match algorithm {
            Algorithm::Fixed(_) => name == "fixed:RATE",
            _ => name == algorithm.to_string(),
        };
        assert_eq!(Algorithm::all().count(), Algorithm::NAMES.len());
        assert!(Algorithm::all().zip(Algorithm::NAMES).all(named));
    }

    #[test]
    fn hindsight_is_refused_without_a_known_path() {
        let setup = ControllerSetup::new(ByteCount::new(1_200), Duration::from_millis(33));
        assert_eq!(Algorithm::Hindsight.controller(&setup).err(), Some(AlgorithmError::UnknownPath("hindsight")));
        let path = known_path(&Trace::constant(Bitrate::from_kbps(1_000)));
        assert!(Algorithm::Hindsight.controller(&ControllerSetup { path: Some(path), ..setup }).is_ok());
    }
}
