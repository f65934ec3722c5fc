//! Counters of a receiver, for reports only.

/// Counters of a [`Receiver`](crate::Receiver).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct ReceiverStatistics {
    /// Datagrams passed to the receiver, valid or not.
    pub datagrams: u64,
    /// Datagrams that do not decode.
    pub malformed: u64,
    /// Datagrams of another connection.
    pub foreign: u64,
    /// Data that arrived before the connection was known.
    pub before_hello: u64,
    /// Datagrams of a kind that only senders accept.
    pub unexpected: u64,
    /// Data with impossible fields, such as a capture after the transmission or a frame number far ahead.
    pub absurd: u64,
    /// Fragments that contradict an earlier one of their frame.
    pub inconsistent: u64,
    /// Fragments that arrived before.
    pub duplicates: u64,
    /// Fragments of frames that the window had passed.
    pub late: u64,
    /// Fragments that arrived for the first time.
    pub fragments: u64,
    /// Sound packets that arrived for the first time.
    pub sounds: u64,
    /// Total size of the counted datagrams of data and sound.
    pub bytes: u64,
    /// Frames handed out.
    pub frames: u64,
    /// Frames handed out that were restored from parity.
    pub restored: u64,
    /// Frames decoded into their target state.
    pub decoded: u64,
    /// Frames that failed to decode, or that yielded another state.
    pub failed: u64,
    /// Complete frames dropped.
    pub refused: u64,
    /// Frames that were dropped incomplete.
    pub incomplete: u64,
    /// Verdicts on frames that the decoder did not have.
    pub unknown_verdicts: u64,
    /// States evicted for lack of room.
    pub evicted_states: u64,
    /// Acknowledgements sent.
    pub acknowledgements: u64,
}
