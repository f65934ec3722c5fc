//! Runs calls and cross traffic over links in virtual time.
//!
//! The call objects are those of a live call; the clock jumps from event to event. Runs are deterministic: equal seeds
//! give equal logs, byte for byte.
//!
//! ```text
//! flows (calls, cross traffic) <--> network <--> links
//!        |                            |
//!     scores, records              meters
//! ```
#![forbid(unsafe_code)]

mod activity;
mod any_flow;
mod call_flow;
mod call_pair;
mod codec_model;
mod codec_model_fit;
mod codec_model_measure;
pub mod cross_traffic;
mod encode_time;
pub mod environment;
mod flow;
mod flow_sound;
mod full_throttle;
mod known_path;
mod meter;
pub mod modelled;
mod modelled_clip;
mod modelled_codec;
mod modelled_sound;
mod network;
mod padded;
mod parallel;
mod qoe_bound;
mod room;
pub mod scenario;
mod simulation;
pub mod step_statistics;

pub use activity::Activity;
pub use any_flow::{AnyFlow, AnyPacket};
pub use call_flow::{CallFlow, CallFlowOptions, CallResult, SimulationError, StopReason};
pub use call_pair::CallPacket;
pub use codec_model::{
    ClipModel, CodecModel, CodecModelError, EffectTable, FOLLOWER_POINTS, HeldOutError, ModelPoint, NORMAL_POINTS,
    Persistence, REFERENCE_POINTS, ReferenceEffect,
};
pub use codec_model_measure::ClipMeasurements;
pub use encode_time::{EncodeTime, EncodeTimeError, JobTimes, TimePoint};
pub use flow::{Arrived, Direction, Flow};
pub use full_throttle::{Filling, FullThrottle};
pub use known_path::known_path;
pub use meter::{FlowMeter, METER_INTERVAL};
pub use modelled_clip::{BestFrame, ClipCurves, ModelledClip, ModelledFrame, ModelledPicture, ModelledReference};
pub use modelled_codec::{Modelled, ModelledState};
pub use modelled_sound::{ModelledVoice, modelled_sound};
pub use network::{Network, Route, SharedLink, TopologyError, Transit};
pub use padded::{Padded, Padding};
pub use parallel::in_parallel;
pub use qoe_bound::{BACKLOG_CELLS, BoundedCall, CELL, EXACT_CELLS, PENDING, QoeBound};
pub use room::{Access, PersonFlow, RoomResult, RoomSimulation};
pub use simulation::{Simulation, SimulationOptions, SimulationResult};
