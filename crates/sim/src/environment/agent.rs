//! Where an agent's decision enters a call: at the receiver as an estimate, or at the sender as a target.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockstep_control::learned::Observation;
use lockstep_control::{
    Allowance, Controller, ControllerSetup, Estimator, InFlight, Input, PathView, TokenBucket, Traits,
};
use lockstep_transport::{Arrival, Estimate, Feedback, LostFragment};
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

/// What the agent's model would see, if it sees anything; shared between the environment, which reads it, and the end of
/// the call at which the agent sits.
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

/// What an agent says at an end of the call, if it sits there, and what it sees of that end.
#[derive(Clone)]
pub(crate) struct Agent {
    pub(crate) rate: Option<AgentRate>,
    pub(crate) observation: AgentObservation,
}

/// An estimator that says what the agent says. Without an agent at the receiver it says nothing.
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
        // And the agent's word, which goes out with the next feedback whenever it was asked for.
        true
    }
}

/// A controller that targets what an agent beside it says, or else what the feedback's estimate says.
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
