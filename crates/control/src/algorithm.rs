//! Every algorithm by its name: which estimator at the receiver goes with which controller at the sender.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use lockstep_nn::{Model, ModelError};
use lockstep_units::quantity::parse_rate;
use lockstep_units::{Bitrate, ByteCount};

use crate::known_path::KnownPath;
#[cfg(feature = "baselines")]
use crate::learned::Concerto;
use crate::learned::Lockstep;
use crate::learned::shipped::Shipped;
use crate::{
    Controller, Copa, Estimator, EstimatorKind, Failure, Fixed, Gcc, GracePeriod, Hindsight, Latency, Nada,
    ReceiverEstimate, Registration, SalsifyWindow, Scream, Sprout, Tuning,
};

/// The bit rates among which rate-based algorithms choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateBounds {
    /// What they start at.
    pub initial: Bitrate,
    /// What they never go below.
    pub least: Bitrate,
    /// What they never go above.
    pub most: Bitrate,
}

impl Default for RateBounds {
    /// 300 kb/s at first, as in WebRTC and in AlphaRTC; from 30 kb/s to 20 Mb/s.
    fn default() -> Self {
        Self { initial: Bitrate::from_kbps(300), least: Bitrate::from_kbps(30), most: Bitrate::from_kbps(20_000) }
    }
}

/// What a controller is told of the call.
#[derive(Debug, Clone)]
pub struct Setting {
    /// The most bytes of a frame that a fragment carries.
    pub payload: ByteCount,
    /// Time between two frames of the source.
    pub frame_interval: Duration,
    /// For controllers that decide on a rate.
    pub bounds: RateBounds,
    /// What the path carries, for [`Hindsight`] and for lessons; only a simulator provides it.
    pub path: Option<KnownPath>,
    /// For controllers that let their delay be chosen ([`Algorithm::takes_latency`]).
    pub latency: Latency,
    /// In the place of the model that comes with a learned controller ([`Algorithm::takes_model`]).
    pub model: Option<Arc<Model>>,
    /// The tuned constants.
    pub tuning: Tuning,
    /// Seed of what is random in a controller; 0 in calls that are not simulated.
    pub seed: u64,
    /// Where a controller that can fail leaves its error.
    pub failure: Failure,
}

impl Setting {
    /// Frames every `frame_interval` in fragments of up to `payload` bytes, the usual bounds, on a path that is not
    /// known.
    #[must_use]
    pub fn new(payload: ByteCount, frame_interval: Duration) -> Self {
        let (bounds, latency) = (RateBounds::default(), Latency::default());
        let (tuning, failure) = (Tuning::default(), Failure::default());
        Self { payload, frame_interval, bounds, path: None, latency, model: None, tuning, seed: 0, failure }
    }
}

/// An estimator and a controller that belong together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Algorithm {
    /// Salsify's window over its inter-arrival average.
    Salsify(GracePeriod),
    /// Google Congestion Control, estimated at the sender.
    Gcc,
    /// The same rate throughout.
    Fixed(Bitrate),
    /// BoB's heuristic at the receiver and a controller that trusts it.
    BobHeuristic,
    /// BoB: that heuristic and a learned estimator behind a selector, at the receiver.
    Bob,
    /// HRCC: a heuristic at the receiver that a model tunes.
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
    /// Concerto's imitation of an expert who knows the path.
    Concerto,
    /// RL-V: the same learned from a reward.
    Rlv,
    /// Lockstep's own: learned quantiles of the bytes that the path will take until a deadline. The one that calls have
    /// unless another is named: with pixels the best of those compared (`docs/controllers.md`).
    #[cfg_attr(feature = "learned", default)]
    Lockstep,
    /// What the path has carried and what waits in it, known exactly.
    Hindsight,
    /// A controller that trusts the receiver, for an estimator from elsewhere. The estimator that comes with it says
    /// nothing of the capacity, so it is no algorithm by itself, and not among [`Algorithm::NAMES`].
    ReceiverEstimate,
    /// A controller that a program registered ([`crate::Controllers`]).
    Registered(Registration),
}

/// Why there is no such algorithm.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AlgorithmError {
    /// No algorithm has this name.
    #[error("no controller is called `{name}`; there are: {names}")]
    Unknown {
        /// The name.
        name: String,
        /// Every name there is, with commas between them.
        names: String,
    },
    /// A controller cannot be registered under this name.
    #[error(
        "cannot register the controller `{0}`: a name is 1 to 64 letters, digits, `-`, `_` and `.`; choose such a name"
    )]
    Name(String),
    /// Another controller has this name.
    #[error("cannot register the controller `{0}`: another one has this name; choose a different name")]
    Taken(String),
    /// What follows `fixed:` is no bit rate.
    #[error("`fixed:{0}` names no bit rate; it should be like fixed:1.5mbps")]
    Rate(String),
    /// A controller that has to know the path was not told of it.
    #[error("the controller {0} must know what the path carries, which only a simulation tells it")]
    UnknownPath(&'static str),
    /// No model comes with a learned controller.
    #[error("no model comes with the controller {0}: name one with --model")]
    NoModel(&'static str),
    /// The model is none for this controller.
    #[error(transparent)]
    Model(#[from] ModelError),
}

impl Algorithm {
    /// Every name, and what it stands for.
    pub const NAMES: [(&'static str, &'static str); 17] = [
        ("salsify", "Salsify's window: what drains in 100 ms by the inter-arrival average at the receiver"),
        ("salsify-no-grace", "the same without the grace period"),
        ("gcc", "Google Congestion Control as in WebRTC: delay gradient, losses and probes, from 300 kb/s on"),
        ("fixed:RATE", "one bit rate, such as fixed:1.5mbps"),
        ("bob-heuristic", "BoB's delay-gradient heuristic at the receiver, a loss controller at the sender"),
        ("bob", "BoB: that heuristic, and a learned estimator where both are less than 30 % apart"),
        ("hrcc", "HRCC: such a heuristic at the receiver, tuned by a learned policy"),
        ("gemini", "Gemini: such a heuristic or a learned estimate at the receiver, as a safety detector says"),
        ("mmsys24", "a model in the format of the MMSys'24 challenge at the receiver; to be named with --model"),
        ("nada", "NADA: one congestion signal of delay and loss (RFC 8698)"),
        ("scream", "SCReAM version 2: a window around a target for the queueing delay"),
        ("sprout", "Sprout: a Bayesian filter over the link's rate, and what it will deliver at least by a deadline"),
        ("copa", "Copa: a window that keeps two packets in the queue"),
        ("concerto", "Concerto: a learned choice among bit rates, imitating an expert who knows the path"),
        ("rlv", "RL-V: the same choice, learned from a reward"),
        (
            "lockstep",
            "Lockstep's own, the default: learned quantiles of the bytes that the path will take until a deadline",
        ),
        ("hindsight", "a yardstick: knows what the path carried just now, and what waits; in simulations only"),
    ];

    /// One of each of [`Algorithm::NAMES`], in that order; where one takes a rate, of 1 Mb/s.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::NAMES.iter().filter_map(|(name, _)| name.replace("RATE", "1mbps").parse().ok())
    }

    /// Whether its controller lets the delay that it tolerates be chosen ([`Setting::latency`]).
    #[must_use]
    pub fn takes_latency(&self) -> bool {
        matches!(self, Self::Sprout | Self::Lockstep)
    }

    /// Whether its controller runs a model ([`Setting::model`]).
    #[must_use]
    pub fn takes_model(&self) -> bool {
        matches!(self, Self::Concerto | Self::Rlv | Self::Lockstep) || self.estimates_by_model()
    }

    /// Whether that model is the receiver's.
    #[must_use]
    pub fn estimates_by_model(&self) -> bool {
        matches!(self, Self::Bob | Self::Hrcc | Self::Gemini | Self::Mmsys24)
    }

    /// The model that comes with its controller at the sender, if that runs one.
    #[must_use]
    pub fn shipped(&self) -> Option<Shipped> {
        match self {
            Self::Concerto => Some(Shipped::Concerto),
            Self::Rlv => Some(Shipped::Rlv),
            Self::Lockstep => Some(Shipped::Lockstep),
            _ => None,
        }
    }

    /// Whether its controller must know what the path will carry ([`Setting::path`]), which a call that is not
    /// simulated never does.
    #[must_use]
    pub fn knows_path(&self) -> bool {
        matches!(self, Self::Hindsight)
    }

    /// Whether its controller answers marks of congestion (ECN). Of one that does not, no packet may say that it is
    /// ECN-capable (RFC 3168, section 5).
    #[must_use]
    pub fn heeds_marks(&self) -> bool {
        match self {
            Self::Registered(registration) => registration.heeds_marks(),
            _ => matches!(self, Self::Gcc | Self::Nada | Self::Scream),
        }
    }

    /// The estimator for the receiving end.
    #[must_use]
    pub fn estimator(&self, bounds: RateBounds) -> Box<dyn Estimator> {
        self.estimator_kind().make(bounds)
    }

    /// The same; a learned one has `model`, if that is given, instead of the one that comes with it.
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

    /// Which estimator the controller needs at the receiving end.
    #[must_use]
    pub fn estimator_kind(&self) -> EstimatorKind {
        match self {
            Self::Registered(registration) => registration.estimator(),
            Self::Salsify(grace_period) => EstimatorKind::InterArrival(*grace_period),
            Self::BobHeuristic => EstimatorKind::BobHeuristic,
            Self::Bob => EstimatorKind::Bob,
            Self::Hrcc => EstimatorKind::Hrcc,
            Self::Gemini => EstimatorKind::Gemini,
            Self::Mmsys24 => EstimatorKind::Mmsys24,
            // What it says is only read in logs.
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
    /// [`AlgorithmError::UnknownPath`] for [`Algorithm::Hindsight`] without [`Setting::path`];
    /// [`AlgorithmError::NoModel`] for a learned one that no model comes with, without [`Setting::model`];
    /// [`AlgorithmError::Model`] if the model does not fit the controller.
    pub fn controller(&self, setting: &Setting) -> Result<Box<dyn Controller>, AlgorithmError> {
        Ok(match self {
            Self::Registered(registration) => registration.controller(setting),
            Self::Salsify(_) => Box::new(SalsifyWindow::new(setting.payload)),
            Self::Gcc => Box::new(Gcc::new(setting)),
            Self::Fixed(rate) => Box::new(Fixed::new(*rate, setting)),
            Self::BobHeuristic | Self::ReceiverEstimate => Box::new(ReceiverEstimate::new(setting)),
            Self::Bob | Self::Hrcc | Self::Gemini | Self::Mmsys24 => {
                // The model is the receiver's. Where the sender is told of it, a wrong one is refused at once.
                if setting.model.is_some() {
                    self.estimator_with(setting.bounds, setting.model.clone())?;
                }
                Box::new(ReceiverEstimate::new(setting))
            }
            Self::Nada => Box::new(Nada::new(setting)),
            Self::Scream => Box::new(Scream::new(setting)),
            Self::Sprout => Box::new(Sprout::new(setting)),
            Self::Copa => Box::new(Copa::new(setting)),
            #[cfg(feature = "baselines")]
            Self::Concerto => Box::new(Concerto::new(setting, "concerto", model_of(setting, Shipped::Concerto)?)?),
            #[cfg(feature = "baselines")]
            Self::Rlv => Box::new(Concerto::new(setting, "rlv", model_of(setting, Shipped::Rlv)?)?),
            #[cfg(not(feature = "baselines"))]
            Self::Concerto | Self::Rlv => return Err(ModelError::NotBuilt("baselines").into()),
            Self::Lockstep => Box::new(Lockstep::with_model(setting, model_of(setting, Shipped::Lockstep)?)?),
            Self::Hindsight => Box::new(Hindsight::new(known_path(setting, "hindsight")?, setting)),
        })
    }
}

fn known_path(setting: &Setting, name: &'static str) -> Result<KnownPath, AlgorithmError> {
    setting.path.clone().ok_or(AlgorithmError::UnknownPath(name))
}

/// The model that was chosen, or else the one that comes with the controller.
fn model_of(setting: &Setting, shipped: Shipped) -> Result<Arc<Model>, ModelError> {
    setting.model.clone().map_or_else(|| shipped.model(), Ok)
}

impl fmt::Display for Algorithm {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Salsify(GracePeriod::LinkIdle) => formatter.write_str("salsify"),
            Self::Salsify(GracePeriod::None) => formatter.write_str("salsify-no-grace"),
            Self::Gcc => formatter.write_str("gcc"),
            Self::Fixed(rate) => write!(formatter, "fixed:{}bps", rate.as_bps()),
            Self::BobHeuristic => formatter.write_str("bob-heuristic"),
            Self::Bob => formatter.write_str("bob"),
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
            "bob-heuristic" => Ok(Self::BobHeuristic),
            "bob" => Ok(Self::Bob),
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
    use lockstep_link::Trace;

    use super::*;
    use crate::closed_loop::known_path;

    #[test]
    fn names_are_read_as_they_are_written() {
        let names = [
            "salsify",
            "salsify-no-grace",
            "gcc",
            "fixed:1500000bps",
            "bob-heuristic",
            "bob",
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
    fn there_is_one_of_each_name() {
        let named = |(algorithm, (name, _)): (Algorithm, (&str, &str))| match algorithm {
            Algorithm::Fixed(_) => name == "fixed:RATE",
            _ => name == algorithm.to_string(),
        };
        assert_eq!(Algorithm::all().count(), Algorithm::NAMES.len());
        assert!(Algorithm::all().zip(Algorithm::NAMES).all(named));
    }

    #[test]
    fn hindsight_is_refused_without_a_known_path() {
        let setting = Setting::new(ByteCount::new(1_200), Duration::from_millis(33));
        assert_eq!(Algorithm::Hindsight.controller(&setting).err(), Some(AlgorithmError::UnknownPath("hindsight")));
        let path = known_path(&Trace::constant(Bitrate::from_kbps(1_000)));
        assert!(Algorithm::Hindsight.controller(&Setting { path: Some(path), ..setting }).is_ok());
    }
}
