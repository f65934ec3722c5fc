//! What a controller is made with.

use std::sync::Arc;
use std::time::Duration;

use lockstep_nn::Model;
use lockstep_units::{Bitrate, ByteCount};

use crate::failure::Failure;
use crate::known_path::KnownPath;
use crate::latency::Latency;
use crate::tuning::Tuning;

/// The bit rates among which rate-based algorithms choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateBounds {
    /// What they start at.
    pub initial: Bitrate,
    /// What they never go below.
    pub least: Bitrate,
    /// What they never go above.
    pub most: Bitrate,
}

impl Default for RateBounds {
    /// 300 kb/s at first, as in WebRTC and in AlphaRTC; from 30 kb/s to 20 Mb/s.
    fn default() -> Self {
        Self { initial: Bitrate::from_kbps(300), least: Bitrate::from_kbps(30), most: Bitrate::from_kbps(20_000) }
    }
}

/// The call that a controller is made for.
#[derive(Debug, Clone)]
pub struct ControllerSetup {
    /// The most bytes of a frame that a fragment carries.
    pub payload: ByteCount,
    /// Time between two frames of the source.
    pub frame_interval: Duration,
    /// For controllers that decide on a rate.
    pub bounds: RateBounds,
    /// What the path carries, for [`Hindsight`](crate::Hindsight) and for lessons; only a simulator provides it.
    pub path: Option<KnownPath>,
    /// For controllers that let their delay be chosen ([`Algorithm::takes_latency`](crate::Algorithm::takes_latency)).
    pub latency: Latency,
    /// In the place of the model that comes with a learned controller ([`Algorithm::takes_model`](crate::Algorithm::takes_model)).
    pub model: Option<Arc<Model>>,
    /// The tuned constants.
    pub tuning: Tuning,
    /// Seed of what is random in a controller; 0 in calls that are not simulated.
    pub seed: u64,
    /// Where a controller that can fail leaves its error.
    pub failure: Failure,
}

impl ControllerSetup {
    /// Frames every `frame_interval` in fragments of up to `payload` bytes, the usual bounds, on a path that is not
    /// known.
    #[must_use]
    pub fn new(payload: ByteCount, frame_interval: Duration) -> Self {
        let (bounds, latency) = (RateBounds::default(), Latency::default());
        let (tuning, failure) = (Tuning::default(), Failure::default());
        Self { payload, frame_interval, bounds, path: None, latency, model: None, tuning, seed: 0, failure }
    }
}
