//! Drives a call over links in virtual time: the same call objects as in a live call, a clock that jumps from event to
//! event, and a real codec in between. Deterministic: the same seed gives the same log, byte for byte.
#![forbid(unsafe_code)]

mod simulation;

pub use simulation::{Simulation, SimulationError, SimulationOptions, SimulationResult};
