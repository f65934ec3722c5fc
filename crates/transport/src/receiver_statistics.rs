//! What a receiver counts; nothing of it decides anything.

/// What a [`Receiver`](crate::Receiver) counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct ReceiverStatistics {
    /// Datagrams of any kind and quality.
    pub datagrams: u64,
    /// Those that were no datagram of this version.
    pub malformed: u64,
    /// Those of another connection.
    pub foreign: u64,
    /// Data before the connection was known.
    pub before_hello: u64,
    /// Those of a kind that only senders take, and all after the end.
    pub unexpected: u64,
    /// Data that no sender would send: captured after transmission, a frame or sequence number far ahead, and so on.
    pub absurd: u64,
    /// Fragments that contradict an earlier one of their frame.
    pub inconsistent: u64,
    /// Fragments that had arrived before.
    pub duplicates: u64,
    /// Fragments of frames that the window had passed.
    pub late: u64,
    /// Fragments that arrived for the first time.
    pub fragments: u64,
    /// Packets of sound that came for the first time.
    pub sounds: u64,
    /// Bytes of the datagrams of fragments and packets of sound that came.
    pub bytes: u64,
    /// Frames handed out.
    pub frames: u64,
    /// Those of them of which fragments were lost and restored from parity.
    pub restored: u64,
    /// Frames decoded into the state that they named.
    pub decoded: u64,
    /// Frames that did not decode, or into another state.
    pub failed: u64,
    /// Complete frames dropped.
    pub refused: u64,
    /// Frames that never became complete.
    pub incomplete: u64,
    /// Verdicts of the owner on frames that were not handed out.
    pub unknown_verdicts: u64,
    /// States let go for want of room.
    pub evicted_states: u64,
    /// Acknowledgements sent.
    pub acknowledgements: u64,
}
