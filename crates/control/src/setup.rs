//! Setup of a controller.

use std::sync::Arc;
use std::time::Duration;

use lockstep_nn::Model;
use lockstep_units::{Bitrate, ByteCount};

use crate::failure::Failure;
use crate::known_path::KnownPath;
use crate::latency::Latency;
use crate::tuning::Tuning;

/// Bounds of the bit rates of rate-based algorithms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateBounds {
    /// Initial rate.
    pub initial: Bitrate,
    /// Lower bound.
    pub min: Bitrate,
    /// Upper bound.
    pub max: Bitrate,
}

impl Default for RateBounds {
    /// 300 kb/s at the start, as in WebRTC and AlphaRTC; 30 kb/s to 20 Mb/s.
    fn default() -> Self {
        Self { initial: Bitrate::from_kbps(300), min: Bitrate::from_kbps(30), max: Bitrate::from_kbps(20_000) }
    }
}

/// The call that a controller is made for.
#[derive(Debug, Clone)]
pub struct ControllerSetup {
    /// Maximum payload of a fragment, bytes.
    pub payload: ByteCount,
    /// Time between two frames of the source.
    pub frame_interval: Duration,
    /// Bounds for controllers that decide on a rate.
    pub bounds: RateBounds,
    /// Known path for [`Hindsight`](crate::Hindsight) and for training samples; only a simulator provides it.
    pub path: Option<KnownPath>,
    /// Latency mode for controllers that support it ([`Algorithm::takes_latency`](crate::Algorithm::takes_latency)).
    pub latency: Latency,
    /// Model instead of the embedded one of a learned controller
    /// ([`Algorithm::takes_model`](crate::Algorithm::takes_model)).
    pub model: Option<Arc<Model>>,
    /// The tuned constants.
    pub tuning: Tuning,
    /// Seed of random choices in a controller; 0 in calls that are not simulated.
    pub seed: u64,
    /// Slot for the error of a controller that failed.
    pub failure: Failure,
}

impl ControllerSetup {
    /// A setup for frames every `frame_interval` in fragments of up to `payload` bytes, with default bounds and an
    /// unknown path.
    #[must_use]
    pub fn new(payload: ByteCount, frame_interval: Duration) -> Self {
        let (bounds, latency) = (RateBounds::default(), Latency::default());
        let (tuning, failure) = (Tuning::default(), Failure::default());
        Self { payload, frame_interval, bounds, path: None, latency, model: None, tuning, seed: 0, failure }
    }
}
