//! What a [`Receiver`](crate::Receiver) and its owner say to each other.

use lockstep_units::Timestamp;

use crate::feedback_interval::FeedbackInterval;
use crate::sound::SoundPacket;
use crate::wire::Hello;
use crate::{Arrival, StateId};

/// How a [`Receiver`](crate::Receiver) is set up.
#[derive(Debug, Clone)]
pub struct ReceiverConfig {
    /// The connection, if both sides agreed on it before. Then data is accepted even before the hello. Without it the
    /// receiver learns the connection from the first hello and ignores data until then: data alone, perhaps a
    /// straggler of an earlier call, cannot choose the connection.
    pub connection: Option<u32>,
    /// Over how many frame numbers, the newest included, fragments may arrive in any order: several seconds, because a
    /// fragment that is sent again comes a round trip later.
    pub window: u32,
    /// About how many bytes of frames in the making are held.
    pub window_bytes: usize,
    /// The most fragments that a frame may have.
    pub frame_fragments: u16,
    /// How many states the decoder holds at most; at least 4, at most 255.
    pub retained_states: usize,
    /// How many of the latest arrivals each acknowledgement lists; at least 1, at most 255.
    pub repeated_fragments: usize,
    /// How often it acknowledges.
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

/// Why a frame of which something arrived is not handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropReason {
    /// It was complete but waited, for its source state until a newer frame was decoded, or for the decoder until there was
    /// a newer one to decode, and no newer frame needs it.
    Superseded,
    /// It was complete and waited until the window passed it.
    Expired,
    /// The window passed it before it was complete.
    Incomplete,
    /// The window's bytes were needed for newer frames.
    NoRoom,
    /// Its fragments, with parity in place of some, make no frame: they contradict each other.
    Contradictory,
}

/// What the owner of a [`Receiver`](crate::Receiver) must know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReceiverEvent<P = Vec<u8>> {
    /// The sender announced the video's format and its estimator. It comes again when the format changes.
    Hello(Hello),
    /// A fragment arrived: for the first time, or once more because it was sent again.
    Arrival(Arrival),
    /// A frame is complete and its source state is held: decode it, then call
    /// [`Receiver::frame_decoded`](crate::Receiver::frame_decoded) or
    /// [`Receiver::frame_failed`](crate::Receiver::frame_failed), or
    /// [`Receiver::supersede`](crate::Receiver::supersede) instead. A frame older than one that was shown is not to be shown:
    /// a newer one needs its target state.
    Frame {
        /// Its number.
        frame: u32,
        /// The state to decode from.
        source: StateId,
        /// The state that decoding must yield.
        target: StateId,
        /// When it was captured, sender's clock.
        captured: Timestamp,
        /// Whether it is a key frame.
        key_frame: bool,
        /// The compressed frame.
        payload: P,
    },
    /// A packet of sound came, for the first time.
    Sound(SoundPacket<P>),
    /// A frame will not be handed out.
    Dropped {
        /// Its number.
        frame: u32,
        /// Why.
        reason: DropReason,
    },
    /// No frame will name this state again: forget it.
    Release(StateId),
}
