//! Interface for the application's own controller: see [`Controller`] and
//! [`CallBuilder::controller`](crate::CallBuilder::controller).

pub use lockstep_control::{
    Allowance, Controller, ControllerSetup, CrossTraffic, InFlight, Input, LossRate, PathView, TokenBucket, Traits,
};
pub use lockstep_transport::{Feedback, LostFragment};
