//! An estimator that is none of this project's.

use anyhow::Result;

use lockstep_alphartc::{AlphaRtcEstimator, EstimatorHost, Failure, Interruption, Process, ProcessOptions};
use lockstep_control::{Algorithm, Estimator, RateBounds};

use crate::{CallSettings, EstimatorFile};

/// The estimator of a call, and where it says that it failed.
pub(crate) struct CallEstimator {
    pub estimator: Box<dyn Estimator>,
    pub failure: Failure,
}

impl EstimatorFile {
    /// Starts its process. `interruption` may end every wait for it.
    ///
    /// # Errors
    /// If there is no such file or interpreter, if the estimator cannot be loaded, or what `interruption` says.
    pub fn start(&self, seed: u64, interruption: Option<Interruption>) -> Result<Box<dyn EstimatorHost>> {
        let named = || std::env::var("LOCKSTEP_PYTHON").ok().filter(|name| !name.is_empty());
        let given = self.python.as_ref().map(|program| program.to_string_lossy().into_owned());
        let options = ProcessOptions {
            interpreter: given.or_else(named).unwrap_or_else(|| "python3".to_owned()),
            seed,
            limit: self.limit.get(),
            interruption,
        };
        Ok(Box::new(Process::start(&self.path, &options)?))
    }
}

impl CallSettings {
    /// The settings as they are run, and the estimator: the one that lives at `host`, the one that the settings name, or
    /// the controller's own.
    pub(crate) fn with_estimator(&self, host: Option<Box<dyn EstimatorHost>>) -> Result<(Self, CallEstimator)> {
        let mut settings = self.clone();
        let host = match (host, &self.estimator) {
            (Some(host), _) => Some(host),
            (None, Some(estimator)) => Some(estimator.start(self.link.seed, None)?),
            (None, None) => None,
        };
        let call_estimator = match host {
            Some(host) => {
                settings.control.controller = Algorithm::ReceiverEstimate.into();
                let (estimator, failure) = AlphaRtcEstimator::new(host);
                CallEstimator { estimator: Box::new(estimator), failure }
            }
            None => {
                let algorithm = settings.control.controller.algorithm();
                CallEstimator { estimator: algorithm.estimator(RateBounds::default()), failure: Failure::default() }
            }
        };
        Ok((settings, call_estimator))
    }
}
