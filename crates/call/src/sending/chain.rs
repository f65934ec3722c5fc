//! The chain of frames, each coded from the one before it: what is known of its newest links, and when it has to break.

use std::time::Duration;

use lockstep_transport::StateId;
use lockstep_units::Timestamp;

/// The newest frames of a call.
#[derive(Debug)]
pub(super) struct Chain {
    /// Whether the last picture was coded from the one before it, so that a loss takes the frames of a round trip along.
    pub(super) is_whole: bool,
    /// Whether the path moved since the last frame was sent: that frame may arrive nowhere.
    pub(super) has_moved: bool,
    /// The state that the last frame leads to.
    last_target: StateId,
    /// Its fragments, without parity.
    last_fragments: u64,
    /// When the oldest frame was sent since one was last known to be decoded.
    undecoded_since: Option<Timestamp>,
}

impl Chain {
    pub(super) fn new() -> Self {
        Self { is_whole: true, has_moved: false, last_target: StateId::EMPTY, last_fragments: 1, undecoded_since: None }
    }

    /// Fragments of the last frame.
    pub(super) fn last_fragments(&self) -> u64 {
        self.last_fragments
    }

    /// Whether a frame from `source` recovers from a loss: it builds on a frame before the last.
    pub(super) fn recovers(&self, source: StateId) -> bool {
        source != self.last_target && source != StateId::EMPTY
    }

    /// Whether nothing that was sent in the last `patience` is known to be decoded, although frames were sent before.
    pub(super) fn is_stuck(&self, now: Timestamp, patience: Duration) -> bool {
        self.undecoded_since.is_some_and(|since| now.saturating_since(since) > patience)
    }

    /// A frame of `fragments` that leads to `target` was handed to the transport.
    pub(super) fn on_sent(&mut self, now: Timestamp, target: StateId, fragments: u64) {
        self.last_fragments = fragments;
        self.last_target = target;
        self.has_moved = false;
        self.undecoded_since.get_or_insert(now);
    }

    /// A frame was decoded.
    pub(super) fn on_decoded(&mut self) {
        self.undecoded_since = None;
    }
}
