//! Estimators and controllers outside of Lockstep, in calls in virtual time: the call waits for each answer.
//!
//! - Estimators written for AlphaRTC, as they are: a class `Estimator` with `report_states` for every packet and
//!   `get_estimated_bandwidth` every 200 ms (OpenNetLab's challenge at MMSys 2021). An [`EstimatorHost`] is where such an
//!   estimator lives: a process of its own ([`Process`]), or whatever the caller has. [`AlphaRtcEstimator`] makes it an
//!   estimator of a call.
//! - Controllers that answer JSON lines: programs ([`program_controller`]), and whatever implements [`ControllerLines`].
#![forbid(unsafe_code)]

mod child;
mod estimator;
mod process;
mod program;
mod protocol;
mod report;

pub use child::Interruption;
pub use estimator::{AlphaRtcEstimator, ESTIMATE_INTERVAL, EstimatorHost, HostError, PacketReport};
pub use process::{Process, ProcessError, ProcessOptions};
pub use program::{ProgramError, program_controller};
pub use protocol::{ControllerLines, Event, line_controller};
