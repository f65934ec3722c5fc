//! Drives calls and cross traffic over links in virtual time: the same call objects as in a live call, and a clock that
//! jumps from event to event. Deterministic: the same seed gives the same log, byte for byte.
#![forbid(unsafe_code)]

mod activity;
mod any_flow;
mod call_flow;
mod call_pair;
pub mod cross_traffic;
pub mod environment;
mod flow;
mod flow_sound;
mod meter;
pub mod modelled;
mod network;
mod parallel;
mod qoe_bound;
pub mod scenario;
mod simulation;
pub mod step_statistics;

pub use activity::Activity;
pub use any_flow::{AnyFlow, AnyPacket};
pub use call_flow::{CallFlow, CallFlowOptions, CallResult, SimulationError, StopReason};
pub use call_pair::CallPacket;
pub use flow::{Arrived, Direction, Flow};
pub use meter::{FlowMeter, METER_INTERVAL};
pub use network::{Network, Route, SharedLink, TopologyError, Transit};
pub use parallel::in_parallel;
pub use qoe_bound::{BACKLOG_CELLS, BoundedCall, CELL, EXACT_CELLS, PENDING, QoeBound};
pub use simulation::{Simulation, SimulationOptions, SimulationResult};
