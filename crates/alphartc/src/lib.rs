//! Estimators written for AlphaRTC, as they are: a class `Estimator` with `report_states` for every packet and
//! `get_estimated_bandwidth` every 200 ms (OpenNetLab's challenge at MMSys 2021).
//!
//! An [`EstimatorHost`] is where such an estimator lives: a process of its own ([`Process`]), or whatever the caller has.
//! [`AlphaRtcEstimator`] makes it an estimator of a call. It is of use in virtual time only: the call waits for each
//! answer.
#![forbid(unsafe_code)]

mod estimator;
mod process;

pub use estimator::{AlphaRtcEstimator, ESTIMATE_INTERVAL, EstimatorHost, Failure, HostError, PacketReport};
pub use process::{Interruption, Process, ProcessError, ProcessOptions};
