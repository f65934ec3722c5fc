//! Applies an agent's rate to a call: as the receiver's estimate or as the sender's target.
//!
//! ```text
//! environment -- AgentRate --> call
//! environment <-- AgentObservation -- end of the call with the agent
//! ```

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockstep_control::learned::Observation;
use lockstep_control::{
    Allowance, Controller, ControllerSetup, Estimator, InFlight, Input, PathView, TokenBucket, Traits,
};
use lockstep_transport::{Arrival, Estimate, Feedback, LostFragment};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

/// Pacing rate over target, as in WebRTC.
const PACING_FACTOR: f64 = 2.5;

/// Rate of the agent's last action. The environment writes it and the call reads it.
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

/// Observation of the agent's model, if any. The agent's end of the call updates it and the environment reads it.
#[derive(Clone, Default)]
pub(crate) struct AgentObservation(Option<Arc<Mutex<Box<dyn Observation>>>>);

impl AgentObservation {
    pub(crate) fn new(observation: Option<Box<dyn Observation>>) -> Self {
        Self(observation.map(|observation| Arc::new(Mutex::new(observation))))
    }

    pub(crate) fn get(&self) -> Option<MutexGuard<'_, Box<dyn Observation>>> {
        self.0.as_ref().map(|observation| observation.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The agent's part at one end of a call. `rate` is `None` at the other end.
#[derive(Clone)]
pub(crate) struct Agent {
    pub(crate) rate: Option<AgentRate>,
    pub(crate) observation: AgentObservation,
}

/// Estimator that reports the agent's rate. It reports no estimate if the agent is not at the receiver.
pub(crate) struct AgentEstimator(pub(crate) Agent);

impl Estimator for AgentEstimator {
    fn on_arrival(&mut self, arrival: &Arrival) {
        if let Some(mut observation) = self.0.observation.get() {
            observation.on_arrival(arrival);
        }
    }

    fn estimate(&mut self, _now: Timestamp) -> Estimate {
        Estimate { inter_arrival: None, capacity: self.0.rate.as_ref().map(AgentRate::get) }
    }

    fn follows_arrivals_alone(&self) -> bool {
        // The estimate also depends on the agent's rate, but the next feedback carries that in any case.
        true
    }
}

/// Controller that targets the agent's rate, or the estimate in feedback if the agent is at the receiver.
pub(crate) struct AgentController {
    agent: Agent,
    estimate: Bitrate,
    bucket: TokenBucket,
}

impl AgentController {
    pub(crate) fn new(agent: Agent, setting: &ControllerSetup) -> Self {
        let bucket = TokenBucket::new(setting.payload, setting.frame_interval);
        Self { agent, estimate: setting.bounds.initial, bucket }
    }

    fn target(&self) -> Bitrate {
        self.agent.rate.as_ref().map_or(self.estimate, AgentRate::get)
    }
}

impl AgentController {
    fn on_sent(&mut self, now: Timestamp, size: ByteCount) {
        if let Some(mut observation) = self.agent.observation.get() {
            observation.on_transmit(now, size);
        }
        self.bucket.on_transmit(now, size, self.target());
    }

    fn on_encoded(&mut self, now: Timestamp, size: ByteCount) {
        if let Some(mut observation) = self.agent.observation.get() {
            observation.on_encoded(now, size);
        }
    }

    fn on_loss(&mut self, now: Timestamp, lost: &[LostFragment]) {
        if let Some(mut observation) = self.agent.observation.get() {
            observation.on_loss(now, lost);
        }
    }

    fn on_feedback(&mut self, now: Timestamp, feedback: &Feedback) {
        if let Some(mut observation) = self.agent.observation.get() {
            observation.on_feedback(now, feedback);
        }
        self.estimate = feedback.estimate.capacity.unwrap_or(self.estimate);
    }
}

impl Controller for AgentController {
    fn traits(&self) -> Traits {
        Traits::ESTIMATING
    }

    fn handle(&mut self, path: &PathView<'_>, input: Input<'_>) {
        match input {
            Input::Sent(size) => self.on_sent(path.now, size),
            Input::Lost(lost) => self.on_loss(path.now, lost),
            Input::Feedback(feedback) => self.on_feedback(path.now, feedback),
            Input::Encoded(size) => self.on_encoded(path.now, size),
            Input::FeedbackSent(_) | Input::Time | Input::PictureSkipped => {}
        }
    }

    fn allowance(&self, path: &PathView<'_>, in_flight: InFlight) -> Allowance {
        let target = self.target();
        self.bucket.allowance(path.now, in_flight, target, target.mul_f64(PACING_FACTOR))
    }

    fn pacing_interval(&self, _path: &PathView<'_>, _in_flight: InFlight) -> Duration {
        self.bucket.pacing_interval(self.target().mul_f64(PACING_FACTOR))
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}
