//! Cross traffic in episodes: a TCP connection or another call that shares the agent's link for a part of the episode.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use rand::Rng;
use rand_pcg::Pcg64;

use lockstep_control::{Algorithm, AlgorithmError, ControllerSetup};
use lockstep_units::Timestamp;

use super::EnvironmentError;
use crate::activity::Activity;
use crate::any_flow::AnyFlow;
use crate::cross_traffic::{CrossTraffic, Cubic, Tcp, WindowAlgorithm, Workload};
use crate::modelled::ModelledSetting;
use crate::modelled_clip::{ClipCurves, ModelledClip};

/// Kind of cross traffic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Company {
    /// TCP connection with CUBIC and unlimited data.
    Tcp,
    /// Modelled call under a controller.
    Call(Algorithm),
}

impl FromStr for Company {
    type Err = AlgorithmError;

    /// Reads `tcp`, or the name of a controller.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "tcp" { Ok(Self::Tcp) } else { text.parse().map(Self::Call) }
    }
}

impl fmt::Display for Company {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp => formatter.write_str("tcp"),
            Self::Call(algorithm) => algorithm.fmt(formatter),
        }
    }
}

/// Draws when the cross traffic of an episode of `length` is active. It begins in the first half of the episode.
pub(super) fn draw_activity(length: Duration, generator: &mut Pcg64) -> Activity {
    let begin = generator.random::<f64>() / 2.0;
    let end = begin + (1.0 - begin) * generator.random::<f64>();
    let at = |share| Timestamp::ZERO + length.mul_f64(share);
    Activity::between(at(begin), at(end))
}

impl Company {
    /// The flow, active during `activity`. A call has the `call`'s setting, and pictures of `clip`.
    pub(super) fn flow(
        &self,
        activity: Activity,
        call: &ModelledSetting,
        control: &ControllerSetup,
        clip: Arc<ClipCurves>,
        seed: u64,
    ) -> Result<AnyFlow, EnvironmentError> {
        let algorithm = match self {
            Self::Tcp => {
                let tcp = Tcp::new(WindowAlgorithm::Cubic(Cubic::default()), Workload::Bulk, activity, seed);
                return Ok(AnyFlow::Traffic(CrossTraffic::Tcp(Box::new(tcp))));
            }
            Self::Call(algorithm) => algorithm,
        };
        let refused = |error: AlgorithmError| EnvironmentError::CrossTraffic(error.to_string());
        let controller = algorithm.controller(control).map_err(refused)?;
        let estimator = algorithm.estimator_with(control.bounds, None).map_err(refused)?;
        let setting = ModelledSetting { activity, ..call.clone() };
        let clip = ModelledClip::new(clip, setting.frame_interval(), seed);
        Ok(AnyFlow::Modelled(Box::new(setting.call(controller, estimator, clip).unlogged())))
    }
}
