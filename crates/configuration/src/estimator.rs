//! Starts an external estimator of a call.

use std::sync::Arc;

use anyhow::{Context, Result};

use lockstep_control::{Algorithm, Estimator, EstimatorKind, Failure, RateBounds};
use lockstep_hosted::{AlphaRtcEstimator, EstimatorHost, Interruption, Process, ProcessOptions};

use crate::{CallSettings, ControlSettings, EstimatorFile, ModelFile};

/// Estimator of a call, and its failure.
pub(crate) struct CallEstimator {
    pub estimator: Box<dyn Estimator>,
    pub failure: Failure,
}

impl ControlSettings {
    /// Estimator of the controller at the receiver.
    ///
    /// # Errors
    /// If a learned estimator's model does not fit.
    pub(crate) fn estimator(&self, bounds: RateBounds) -> Result<Box<dyn Estimator>> {
        let model = self.model.as_ref().map(|model| Arc::clone(model.model()));
        Ok(self.controller.algorithm().estimator_with(bounds, model)?)
    }
}

impl EstimatorFile {
    /// Whether it is an ONNX model, which runs in this process, and not a Python file.
    #[must_use]
    pub fn is_model(&self) -> bool {
        self.path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("onnx"))
    }

    /// Starts its process. `interruption` may end each wait for it.
    ///
    /// # Errors
    /// If the file or the interpreter is missing, the estimator cannot be loaded, or `interruption` ends the wait.
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
    /// Settings of the run, and the estimator: that of `host`, that of the settings, or that of the controller.
    pub(crate) fn with_estimator(&self, host: Option<Box<dyn EstimatorHost>>) -> Result<(Self, CallEstimator)> {
        let mut settings = self.clone();
        let host = match (host, &self.estimator) {
            (Some(host), _) => Some(host),
            (None, Some(estimator)) if estimator.is_model() => {
                settings.control.controller = Algorithm::ReceiverEstimate.into();
                let model = ModelFile::open(&estimator.path)?;
                let named = || format!("estimator {}", estimator.path.display());
                let kind = EstimatorKind::of_model(model.model()).with_context(named)?;
                let made = kind.with_model(RateBounds::default(), Some(Arc::clone(model.model())));
                let estimator = made.with_context(named)?;
                return Ok((settings, CallEstimator { estimator, failure: Failure::default() }));
            }
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
                let estimator = settings.control.estimator(RateBounds::default())?;
                CallEstimator { estimator, failure: Failure::default() }
            }
        };
        Ok((settings, call_estimator))
    }
}
