//! Published systems to the letter: `--as-published`.
//!
//! A variant of [`AsPublished`] names a system. It fixes the options of the system's design ([`AsPublished::fixed`]) and
//! has other defaults for some ([`AsPublished::usual`]). The ends of the call follow it where no option exists.

use lockstep_call::{MenuMode, SalsifyVersions};
use lockstep_control::{Algorithm, BobRules, GracePeriod};
use lockstep_transport::FeedbackInterval;

use crate::options::{AsPublished, CallArguments, CodecKind, ControllerName, MenuKind, Milliseconds, OptionError};
use crate::{ControlSettings, MaxBitrate};

impl AsPublished {
    /// Options that the design fixes. Any other value of them is refused.
    #[must_use]
    pub fn fixed(self) -> CallArguments {
        match self {
            Self::Salsify | Self::SalsifyFrameTarget | Self::SalsifySecondTarget => CallArguments {
                controller: Some(Algorithm::Salsify(GracePeriod::LinkIdle).into()),
                codec: Some(CodecKind::Functional),
                max_bitrate: Some(MaxBitrate::Unlimited),
                feedback_ms: Some(Milliseconds::whole(0)),
                ..CallArguments::default()
            },
            Self::Bob => CallArguments::default(),
        }
    }

    /// Default values of further options, such as those that an ablation of the paper changes.
    #[must_use]
    pub fn usual(self) -> CallArguments {
        match self {
            Self::Salsify | Self::SalsifyFrameTarget | Self::SalsifySecondTarget => CallArguments {
                menu: Some(MenuKind::Parallel),
                grace_period: Some(GracePeriod::Sender),
                ..CallArguments::default()
            },
            Self::Bob => {
                CallArguments { controller: Some(Algorithm::Bob(BobRules::Printed).into()), ..CallArguments::default() }
            }
        }
    }
}

/// The controller with the rules of BoB's paper, for that with the rules of its code; none for other controllers.
fn with_printed_rules(controller: &ControllerName) -> Option<ControllerName> {
    match controller.as_str().parse() {
        Ok(Algorithm::Bob(_)) => Some(Algorithm::Bob(BobRules::Printed).into()),
        Ok(Algorithm::BobHeuristic(_)) => Some(Algorithm::BobHeuristic(BobRules::Printed).into()),
        _ => None,
    }
}

impl CallArguments {
    /// These arguments, completed by those of the published system, if one is to be followed.
    pub(crate) fn completed(&self) -> Self {
        let given = self.clone();
        match self.as_published {
            Some(AsPublished::Bob) => {
                let controller = self.controller.as_ref().and_then(with_printed_rules);
                Self { controller: controller.or_else(|| self.controller.clone()), ..given }
                    .or(AsPublished::Bob.usual())
            }
            Some(system) => given.or(system.fixed()).or(system.usual()),
            None => given,
        }
    }

    /// Checks that no option contradicts the published system.
    pub(crate) fn check_as_published(&self) -> Result<(), OptionError> {
        let Some(system) = self.as_published else { return Ok(()) };
        let contradicts = |name| Err(OptionError::Contradiction { name, other: "as_published" });
        for ((option, given), (_, fixed)) in self.values().into_iter().zip(system.fixed().values()) {
            if !given.is_null() && !fixed.is_null() && given != fixed {
                return contradicts(option.name);
            }
        }
        if self.estimator.is_some() {
            return contradicts("estimator");
        }
        match (system, self.menu) {
            (AsPublished::Salsify, None | Some(MenuKind::Serial | MenuKind::Parallel)) => Ok(()),
            (AsPublished::SalsifyFrameTarget | AsPublished::SalsifySecondTarget, None | Some(MenuKind::Parallel)) => {
                Ok(())
            }
            (AsPublished::Bob, _)
                if self.controller.as_ref().is_some_and(|name| with_printed_rules(name).is_none()) =>
            {
                contradicts("controller")
            }
            (AsPublished::Bob, _) => Ok(()),
            _ => contradicts("menu"),
        }
    }
}

impl ControlSettings {
    /// Versions of a picture that Salsify's encoder as published codes; none for another encoder.
    pub(crate) fn salsify_versions(&self) -> Option<SalsifyVersions> {
        Some(match self.as_published? {
            AsPublished::Salsify if self.menu == MenuMode::Serial => SalsifyVersions::Serial,
            AsPublished::Salsify => SalsifyVersions::Parallel,
            AsPublished::SalsifyFrameTarget => SalsifyVersions::FrameTarget,
            AsPublished::SalsifySecondTarget => SalsifyVersions::SecondTarget,
            AsPublished::Bob => return None,
        })
    }

    /// Interval of acknowledgements in a live call. The receiver chooses it by the estimator of the hello
    /// ([`Estimator::acknowledges_each_fragment`](lockstep_control::Estimator::acknowledges_each_fragment)).
    pub(crate) fn live_feedback(&self) -> FeedbackInterval {
        match self.controller.grace_period() {
            Some(GracePeriod::Sender) => FeedbackInterval::EveryFragment,
            _ => FeedbackInterval::default(),
        }
    }
}
