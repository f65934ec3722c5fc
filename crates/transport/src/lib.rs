//! Datagrams for video whose codec is a pure function: each frame is decoded from a named *source state* and yields a
//! *target state*. A loss is repaired by encoding the next frame from a state that the receiver is known to hold;
//! nothing is sent twice, unless the codec cannot go back and [`Recovery::Retransmit`] is asked for.
//!
//! Two machines without clock or socket: [`Sender`] cuts frames into fragments, paces them, reads acknowledgements,
//! notices losses and says from which state the next frame must be encoded; [`Receiver`] puts frames together, hands
//! out those whose source state is held, and acknowledges. Both are used alike: give them datagrams
//! (`handle_datagram`) and the time (`handle_timeout`, no later than `poll_timeout` asked), and after each call drain
//! `poll_event` and then `poll_transmit` until they return nothing.
//!
//! [`wire`] has the layout of every datagram.
#![forbid(unsafe_code)]

mod carriage;
mod catalogue;
mod feedback_interval;
mod incoming;
mod loss;
mod outgoing;
mod pacer;
mod parity;
mod payload;
mod reassembly;
mod receiver;
mod receiver_statistics;
mod refusal;
mod repeat;
mod retransmission;
mod reverse_path;
mod ring;
mod round_trip;
mod sender;
mod sound;
mod states;
mod tuning;
pub mod wire;

use std::fmt;
use std::time::Duration;

use lockstep_units::{Bitrate, ByteCount, Timestamp};

pub use carriage::{RIDING, carried, on_the_link};
pub use feedback_interval::FeedbackInterval;
pub use incoming::{DropReason, ReceiverConfig, ReceiverEvent};
pub use loss::LossDetectionConfig;
pub use outgoing::{
    AcknowledgedFragment, Feedback, FragmentsInFlight, LostFragment, OutgoingFrame, Recovery, SendError, SenderConfig,
    SenderEvent, SenderStatistics, Transmit, TransmittedFragment,
};
pub use parity::{MOST_PARITY, Parity};
pub use payload::{Length, Payload};
pub use receiver::Receiver;
pub use receiver_statistics::ReceiverStatistics;
pub use reverse_path::ReversePathConfig;
pub use round_trip::RoundTripTime;
pub use sender::Sender;
pub use sound::{MOST_BUNDLED, SOUND, SOUND_FRAME, SoundPacket, WaitingSoundConfig};
pub use tuning::Tuning;
pub use wire::{CodecId, Datagram, Hello, VideoFormat, WireError};

/// The name of a codec state: its hash. The transport compares names and nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct StateId(pub u64);

impl StateId {
    /// The initial state, which every codec holds at all times. A frame with this source is decoded from nothing.
    pub const EMPTY: Self = Self(0);
}

impl fmt::Display for StateId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}

/// What the receiver's estimator says of the path; acknowledgements carry it to the sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Estimate {
    /// The smoothed time between arriving fragments less the grace periods (Salsify, section 3.2), if known.
    pub inter_arrival: Option<Duration>,
    /// What the path can carry, if known.
    pub capacity: Option<Bitrate>,
}

/// One fragment that arrived, for the first time or once more because it was sent again: what an estimator sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// When it arrived, on the receiver's clock.
    pub arrived_at: Timestamp,
    /// When it was transmitted, on the sender's clock, in whole microseconds.
    pub sent_at: Timestamp,
    /// The whole datagram, header and payload, without the headers of IP and UDP.
    pub size: ByteCount,
    /// The datagram's place in the order of transmission; a number that never arrives was lost.
    pub sequence: u64,
    /// The frame that it belongs to; of a packet of sound, which counts as a fragment here, its own.
    pub frame: u32,
    /// Its place in the frame; of a packet of sound [`SOUND`].
    pub fragment: u16,
    /// How long the sender chose to be idle between transmitting the newest fragment that had arrived before and this
    /// one, those between that were lost included; zero for a fragment that was overtaken.
    pub grace: Duration,
    /// Whether a queue on the way had marked it: congestion experienced (RFC 3168, RFC 9331).
    pub congestion_experienced: bool,
}
