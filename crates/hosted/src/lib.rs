//! Estimators and controllers of other programs, in calls in virtual time: the call waits for each answer.
//!
//! - Unmodified estimators for AlphaRTC (OpenNetLab's challenge at MMSys 2021): a class `Estimator` with `report_states` per
//!   packet and `get_estimated_bandwidth` every 200 ms. An [`EstimatorHost`] runs it, such as a [`Process`].
//!   [`AlphaRtcEstimator`] makes it the estimator of a call.
//! - Controllers that answer JSON lines: programs ([`program_controller`]), and implementations of [`ControllerLines`].
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
