//! Where an agent's decision enters a call: at the receiver as an estimate, or at the sender as a target.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockstep_control::{Allowance, Controller, Estimator, InFlight, Setting, TokenBucket};
use lockstep_transport::{Arrival, Estimate, Feedback};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

/// Pacing rate over target, as WebRTC has it.
const PACING_FACTOR: f64 = 2.5;

/// The rate that an agent has set last; shared between the environment, which sets it, and the call, which obeys.
#[derive(Debug, Clone)]
pub(crate) struct AgentRate(Arc<AtomicU64>);

impl AgentRate {
    pub(crate) fn new(rate: Bitrate) -> Self {
        Self(Arc::new(AtomicU64::new(rate.as_bps())))
    }

    pub(crate) fn set(&self, rate: Bitrate) {
        self.0.store(rate.as_bps(), Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> Bitrate {
        Bitrate::from_bps(self.0.load(Ordering::Relaxed))
    }
}

/// An estimator that says what the agent says. Without an agent at the receiver it says nothing.
pub(crate) struct AgentEstimator(pub(crate) Option<AgentRate>);

impl Estimator for AgentEstimator {
    fn on_arrival(&mut self, _arrival: &Arrival) {}

    fn estimate(&mut self, _now: Timestamp) -> Estimate {
        Estimate { inter_arrival: None, capacity: self.0.as_ref().map(AgentRate::get) }
    }
}

/// A controller that targets what an agent beside it says, or else what the feedback's estimate says.
pub(crate) struct AgentController {
    agent: Option<AgentRate>,
    estimate: Bitrate,
    bucket: TokenBucket,
}

impl AgentController {
    pub(crate) fn new(agent: Option<AgentRate>, setting: &Setting) -> Self {
        let bucket = TokenBucket::new(setting.payload, setting.frame_interval);
        Self { agent, estimate: setting.bounds.initial, bucket }
    }

    fn target(&self) -> Bitrate {
        self.agent.as_ref().map_or(self.estimate, AgentRate::get)
    }
}

impl Controller for AgentController {
    fn on_transmit(&mut self, now: Timestamp, size: ByteCount) {
        self.bucket.on_transmit(now, size, self.target());
    }

    fn on_feedback(&mut self, _now: Timestamp, feedback: &Feedback) {
        self.estimate = feedback.estimate.capacity.unwrap_or(self.estimate);
    }

    fn allowance(&self, now: Timestamp, in_flight: InFlight) -> Allowance {
        let target = self.target();
        self.bucket.allowance(now, in_flight, target, target.mul_f64(PACING_FACTOR))
    }

    fn pacing_interval(&self, _now: Timestamp, _in_flight: InFlight) -> Duration {
        self.bucket.pacing_interval(self.target().mul_f64(PACING_FACTOR))
    }
}
