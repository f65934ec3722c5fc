//! Chain of frames, each coded from the previous one: the state of its newest frames, and when to break it.

use std::time::Duration;

use lockstep_transport::StateId;
use lockstep_units::Timestamp;

/// Newest frames of a call.
#[derive(Debug)]
pub(super) struct Chain {
    /// Whether the last picture was coded from the previous one. If so, a loss affects the frames of a round trip.
    pub(super) is_whole: bool,
    /// Whether the path changed after the last frame was sent. That frame may be lost.
    pub(super) has_moved: bool,
    /// Target state of the last frame.
    last_target: StateId,
    /// Number of its fragments without parity.
    last_fragments: u64,
    /// Sending time of the oldest frame since the last known decoding.
    undecoded_since: Option<Timestamp>,
}

impl Chain {
    pub(super) fn new() -> Self {
        Self { is_whole: true, has_moved: false, last_target: StateId::EMPTY, last_fragments: 1, undecoded_since: None }
    }

    /// Number of fragments of the last frame.
    pub(super) fn last_fragments(&self) -> u64 {
        self.last_fragments
    }

    /// Whether a frame from `source` recovers from a loss: it depends on an earlier frame than the last.
    pub(super) fn recovers(&self, source: StateId) -> bool {
        source != self.last_target && source != StateId::EMPTY
    }

    /// Whether frames were sent, but none is known to be decoded for longer than `patience`.
    pub(super) fn is_stuck(&self, now: Timestamp, patience: Duration) -> bool {
        self.undecoded_since.is_some_and(|since| now.saturating_since(since) > patience)
    }

    /// Records that a frame with `fragments` fragments and the target state `target` was passed to the transport.
    pub(super) fn on_sent(&mut self, now: Timestamp, target: StateId, fragments: u64) {
        self.last_fragments = fragments;
        self.last_target = target;
        self.has_moved = false;
        self.undecoded_since.get_or_insert(now);
    }

    /// Records that a frame was decoded.
    pub(super) fn on_decoded(&mut self) {
        self.undecoded_since = None;
    }
}
