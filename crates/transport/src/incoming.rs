//! Configuration and events of a [`Receiver`](crate::Receiver).

use lockstep_units::Timestamp;

use crate::feedback_interval::FeedbackInterval;
use crate::sound::SoundPacket;
use crate::wire::Hello;
use crate::{Arrival, StateId};

/// Configuration of a [`Receiver`](crate::Receiver).
#[derive(Debug, Clone)]
pub struct ReceiverConfig {
    /// Number of the connection, if both ends agreed on it before. The receiver then accepts data even before the
    /// hello. With `None` it takes the number from the first hello and ignores data until then. Data alone cannot
    /// choose the connection, since it may belong to an earlier call.
    pub connection: Option<u32>,
    /// Size of the reassembly window, in frame numbers, the newest included. Within it, fragments may arrive in any
    /// order. It spans several seconds, since a retransmission arrives a round trip later.
    pub window: u32,
    /// Approximate limit on the bytes of incomplete frames, and of frames that wait for the decoder.
    pub window_bytes: usize,
    /// Largest number of fragments of a frame.
    pub frame_fragments: u16,
    /// Number of states that the decoder holds at most, 4 to 255.
    pub retained_states: usize,
    /// Number of latest arrivals that each acknowledgement lists at least, 1 to 255.
    pub repeated_fragments: usize,
    /// How often the receiver acknowledges.
    pub feedback: FeedbackInterval,
}

impl Default for ReceiverConfig {
    fn default() -> Self {
        Self {
            connection: None,
            window: 256,
            window_bytes: 8 << 20,
            frame_fragments: 8192,
            retained_states: 32,
            repeated_fragments: 12,
            feedback: FeedbackInterval::default(),
        }
    }
}

/// Why a frame that arrived at least in part is not handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropReason {
    /// The frame was complete and waited for its source state or for the decoder. Then a newer frame was decoded
    /// or became ready, and no frame needs this one.
    Superseded,
    /// The frame was complete and waited until the window passed it.
    Expired,
    /// The window passed the frame before it was complete.
    Incomplete,
    /// Newer frames needed the bytes of the window.
    NoRoom,
    /// The fragments and the parity of the frame contradict each other.
    Contradictory,
}

/// Event for the owner of a [`Receiver`](crate::Receiver).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReceiverEvent<P = Vec<u8>> {
    /// The sender announced the video format and its estimator. A change of format repeats the event.
    Hello(Hello),
    /// A fragment arrived, for the first time or as a retransmission.
    Arrival(Arrival),
    /// A frame is complete and the decoder holds its source state. Decode it, then call
    /// [`Receiver::frame_decoded`](crate::Receiver::frame_decoded) or
    /// [`Receiver::frame_failed`](crate::Receiver::frame_failed). Alternatively call
    /// [`Receiver::supersede`](crate::Receiver::supersede). Do not display a frame that is older than a displayed one:
    /// a newer frame needs its target state.
    Frame {
        /// Number of the frame.
        frame: u32,
        /// State to decode from.
        source: StateId,
        /// State that decoding must yield.
        target: StateId,
        /// Time of capture, sender's clock.
        captured: Timestamp,
        /// Whether the frame is a key frame.
        key_frame: bool,
        /// Compressed frame.
        payload: P,
    },
    /// A sound packet arrived for the first time.
    Sound(SoundPacket<P>),
    /// The receiver will not hand out a frame.
    Dropped {
        /// Number of the frame.
        frame: u32,
        /// Why the frame is dropped.
        reason: DropReason,
    },
    /// No frame will name this state again: the owner may release it.
    Release(StateId),
}
