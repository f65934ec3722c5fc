//! An estimator that is none of this project's.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde::{Deserialize, Serialize};

use lockstep_alphartc::{AlphaRtcEstimator, EstimatorHost, Failure, Interruption, Process, ProcessOptions};
use lockstep_control::{Algorithm, Estimator, RateBounds};

use crate::{SimulateArguments, seconds};

/// The name of the controller that follows an estimator from elsewhere.
const FOLLOWER: &str = "receiver-estimate";

/// The estimator at the receiver, if it is not the controller's own.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub struct EstimatorArguments {
    /// An estimator written for AlphaRTC: the Python file of its class `Estimator`, or a folder with
    /// `BandwidthEstimator.py` in it. The sender sends at what it estimates, or at what losses allow if that is less.
    #[arg(long, value_name = "FILE", conflicts_with = "controller")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimator: Option<PathBuf>,
    /// The Python interpreter that runs the estimator; LOCKSTEP_PYTHON, or else `python3`, if not given.
    #[arg(long, value_name = "PROGRAM")]
    #[serde(skip)]
    pub python: Option<String>,
    /// The longest that the estimator may take for one answer, on the clock on the wall.
    #[arg(long, value_name = "SECONDS", default_value_t = DEFAULT_LIMIT, value_parser = seconds)]
    #[serde(skip, default = "default_limit")]
    pub estimator_limit: f64,
}

const DEFAULT_LIMIT: f64 = 10.0;

fn default_limit() -> f64 {
    DEFAULT_LIMIT
}

impl Default for EstimatorArguments {
    fn default() -> Self {
        Self { estimator: None, python: None, estimator_limit: DEFAULT_LIMIT }
    }
}

/// The estimator of a call, and where it says that it failed.
pub(crate) struct CallEstimator {
    pub estimator: Box<dyn Estimator>,
    pub failure: Failure,
}

impl EstimatorArguments {
    /// Starts the process of the estimator that they name, if they name one. `interruption` may end every wait for it.
    ///
    /// # Errors
    /// If there is no such file or interpreter, if the estimator cannot be loaded, or what `interruption` says.
    pub fn start(&self, seed: u64, interruption: Option<Interruption>) -> Result<Option<Box<dyn EstimatorHost>>> {
        let Some(path) = &self.estimator else { return Ok(None) };
        let named = || std::env::var("LOCKSTEP_PYTHON").ok().filter(|name| !name.is_empty());
        let options = ProcessOptions {
            interpreter: self.python.clone().or_else(named).unwrap_or_else(|| "python3".to_owned()),
            seed,
            limit: Duration::from_secs_f64(self.estimator_limit),
            interruption,
        };
        Ok(Some(Box::new(Process::start(path, &options)?)))
    }
}

impl SimulateArguments {
    /// The arguments as they are run, and the estimator: the one that lives at `host`, the one that the arguments name, or
    /// the controller's own.
    pub(crate) fn with_estimator(&self, host: Option<Box<dyn EstimatorHost>>) -> Result<(Self, CallEstimator)> {
        let mut arguments = self.clone();
        let host = match host {
            Some(host) => Some(host),
            None => self.estimator.start(self.link.seed, None)?,
        };
        let call_estimator = match host {
            Some(host) => {
                FOLLOWER.clone_into(&mut arguments.control.controller);
                let (estimator, failure) = AlphaRtcEstimator::new(host);
                CallEstimator { estimator: Box::new(estimator), failure }
            }
            None => {
                let algorithm: Algorithm = arguments.control.algorithm();
                CallEstimator { estimator: algorithm.estimator(RateBounds::default()), failure: Failure::default() }
            }
        };
        Ok((arguments, call_estimator))
    }
}
