//! Congestion control: estimators at the receiver and controllers at the sender.
//!
//! An [`Estimator`] processes every arriving datagram and returns the estimate for feedback. A [`Controller`] processes
//! every feedback. It returns the budget of the next frame and the pacing interval of its fragments. Both are state
//! machines without a clock: the caller passes the time.
#![forbid(unsafe_code)]

mod algorithm;
mod base_delay;
mod bob_heuristic;
mod claimed_share;
#[cfg(test)]
mod closed_loop;
mod controller;
mod controllers;
mod copa;
mod estimator_kind;
mod failure;
mod fixed;
mod flow_group;
mod fragments;
mod frame_bytes;
mod gcc;
mod hindsight;
mod hosted;
mod inter_arrival;
mod known_path;
mod latency;
pub mod learned;
mod limit;
mod loss_rate;
mod nada;
mod narrow_path;
mod path;
mod path_delay;
mod receiver_estimate;
pub mod recording;
mod registration;
mod reported_loss;
mod salsify;
mod scream;
mod setup;
mod short_queue;
mod sprout;
mod token_bucket;
mod tuning;

use lockstep_transport::{Arrival, Estimate};
use lockstep_units::Timestamp;

pub use algorithm::{Algorithm, AlgorithmError};
pub use bob_heuristic::{BobHeuristic, BobRules, PathUse};
pub use controller::{Allowance, Controller, InFlight, Input, Traits};
pub use controllers::Controllers;
pub use copa::Copa;
pub use estimator_kind::EstimatorKind;
pub use failure::{Failure, FailureReason};
pub use fixed::Fixed;
pub use flow_group::FlowGroup;
pub use frame_bytes::{Gross, Net};
pub use gcc::{Gcc, Probing, Settings as GccSettings};
pub use hindsight::Hindsight;
pub use hosted::{ControllerHost, Decision, HostedController, Sending};
pub use inter_arrival::{GracePeriod, InterArrival};
pub use known_path::{KnownCapacity, KnownPath, KnownQueue};
pub use latency::{Latency, UnknownLatency};
pub use limit::{
    Budget, Ceiling, Delivered, Limit, LimitedBy, ShortQueueLimit, SilenceLimit, bitrate_ceiling, is_binding, narrow,
};
pub use loss_rate::{LossRate, Protection};
pub use nada::Nada;
pub use narrow_path::NarrowPath;
pub use path::{Burst, CrossTraffic, PathObserver, PathView, Wait};
pub use receiver_estimate::ReceiverEstimate;
pub use registration::Registration;
pub use salsify::SalsifyWindow;
pub use scream::Scream;
pub use setup::{ControllerSetup, RateBounds};
pub use short_queue::BottleneckQueue;
pub use sprout::Sprout;
pub use token_bucket::TokenBucket;
pub use tuning::{
    CeilingConfig, ClaimConfig, CrossTrafficConfig, DeliveredConfig, JitterConfig, LockstepConfig, LossConfig,
    NarrowPathConfig, PathConfig, PathDelayConfig, ProbingConfig, RateFilterConfig, ShortQueueConfig, SilenceConfig,
    SproutConfig, Tuning,
};

/// Receiver-side algorithm that estimates capacity from arrivals.
pub trait Estimator: Send {
    /// A data datagram arrived.
    fn on_arrival(&mut self, arrival: &Arrival);
    /// The estimate for the next feedback.
    fn estimate(&mut self, now: Timestamp) -> Estimate;
    /// Whether only arrivals change the estimate. If so, it is read only when feedback leaves. An estimator that also
    /// decides by time is called after every event of its end.
    fn follows_arrivals_alone(&self) -> bool {
        false
    }
    /// Whether the receiving end of a live call acknowledges each fragment, as the published receiver of this estimator
    /// does. A simulated call sets its interval by an option.
    fn acknowledges_each_fragment(&self) -> bool {
        false
    }
}
