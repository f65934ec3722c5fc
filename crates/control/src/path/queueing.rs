//! Queueing delays of packets: their one-way delay above the base delay.

use std::time::Duration;

use lockstep_transport::AcknowledgedFragment;

use crate::PathConfig;
use crate::PathDelayConfig;
use crate::path_delay::{PathDelay, Wait};

/// Queueing delays.
#[derive(Debug)]
pub(super) struct Queueing {
    path_delay: PathDelay,
    /// Delay of each packet in the last feedback.
    last: Vec<Wait>,
    /// Whether that feedback shows that the path became longer.
    path_changed: bool,
}

impl Queueing {
    pub(super) fn new(path: PathConfig, config: PathDelayConfig) -> Self {
        Self { path_delay: PathDelay::new(path.base_memory, config), last: Vec::new(), path_changed: false }
    }

    /// Computes the queueing delay of each packet in a feedback.
    pub(super) fn on_feedback(&mut self, arrivals: &[AcknowledgedFragment]) {
        let changes = self.path_delay.steps();
        self.last.clear();
        for arrival in arrivals {
            self.last.push(self.path_delay.wait(arrival));
        }
        self.path_changed = self.path_delay.steps() != changes;
    }

    /// Delay of each packet in the last feedback.
    pub(super) fn delays(&self) -> &[Wait] {
        &self.last
    }

    /// Delay of the last acknowledged packet.
    pub(super) fn delay(&self) -> Duration {
        self.last.last().copied().unwrap_or_default().queued
    }

    /// Whether the last feedback shows that the path became longer.
    pub(super) fn path_changed(&self) -> bool {
        self.path_changed
    }
}
