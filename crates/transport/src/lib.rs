//! Datagram transport for video whose codec is a pure function.
//!
//! A frame is decoded from a named *source state* and yields a *target state*. After a loss, the sender encodes the
//! next frame from a state that the receiver holds. The transport sends no fragment twice, unless the codec cannot go
//! back and the sender uses [`Recovery::Retransmit`].
//!
//! ```text
//! OutgoingFrame ──► Sender ─── data, sound, hello ──► Receiver ──► ReceiverEvent::Frame
//! SenderEvent   ◄──        ◄───── acknowledgement ───          ◄── frame_decoded, frame_failed
//! ```
//!
//! [`Sender`] and [`Receiver`] are state machines without clock or socket:
//!
//! - [`Sender`] cuts frames into fragments, paces them, handles acknowledgements and detects losses. It names the state
//!   from which the next frame must be encoded.
//! - [`Receiver`] reassembles frames, hands out those whose source state the decoder holds, and acknowledges.
//!
//! Both have the same interface. Pass datagrams to `handle_datagram`. Call `handle_timeout` no later than
//! `poll_timeout` returns. After each call, drain `poll_event` and then `poll_transmit` until both return `None`.
//!
//! [`wire`] describes the layout of every datagram.
#![forbid(unsafe_code)]

mod catalogue;
mod feedback_interval;
mod incoming;
mod loss;
mod outgoing;
mod overhead;
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

pub use feedback_interval::FeedbackInterval;
pub use incoming::{DropReason, ReceiverConfig, ReceiverEvent};
pub use loss::{LossDetectionConfig, PACKET_THRESHOLD};
pub use outgoing::{
    AcknowledgedFragment, Feedback, FragmentsInFlight, LostFragment, OutgoingFrame, Recovery, SendError, SenderConfig,
    SenderEvent, SenderStatistics, Transmit, TransmittedFragment,
};
pub use overhead::{PIGGYBACK_OVERHEAD, size_on_link, udp_size_on_link};
pub use parity::{MAX_PARITY_FRAGMENTS, Parity};
pub use payload::{Length, Payload};
pub use receiver::Receiver;
pub use receiver_statistics::ReceiverStatistics;
pub use reverse_path::ReversePathConfig;
pub use round_trip::RoundTripTime;
pub use sender::Sender;
pub use sound::{MAX_BUNDLED_FRAMES, SOUND, SOUND_FRAME, SoundPacket, WaitingSoundConfig};
pub use tuning::Tuning;
pub use wire::{CodecId, Datagram, Hello, VideoFormat, WireError};

/// Name of a codec state: its hash. The transport only compares names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct StateId(pub u64);

impl StateId {
    /// The initial state, which every codec always holds. A frame with this source is decoded from nothing.
    pub const EMPTY: Self = Self(0);
}

impl fmt::Display for StateId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}

/// Estimate of the path by the receiver's estimator. Acknowledgements carry it to the sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Estimate {
    /// Smoothed time between arriving fragments, without grace periods (Salsify, section 3.2). `None` if unknown.
    pub inter_arrival: Option<Duration>,
    /// Estimated capacity of the path. `None` if unknown.
    pub capacity: Option<Bitrate>,
}

/// Arrival of one fragment, for an estimator. A fragment that is sent again may arrive more than once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// Time of arrival, receiver's clock.
    pub arrived_at: Timestamp,
    /// Time of transmission, sender's clock, in whole microseconds.
    pub sent_at: Timestamp,
    /// Size of the datagram: header and payload, without the headers of IP and UDP.
    pub size: ByteCount,
    /// Sequence number of the datagram. A sequence number that never arrives is a loss.
    pub sequence: u64,
    /// Frame of the fragment. For a sound packet, which counts as a fragment here, it is the sound frame.
    pub frame: u32,
    /// Index of the fragment in its frame; [`SOUND`] for a sound packet.
    pub fragment: u16,
    /// Time for which the sender chose to be idle between the newest fragment that arrived before and this one. It
    /// includes the idle time before lost fragments in between. It is zero for a fragment that was overtaken.
    pub grace: Duration,
    /// Whether a queue on the path marked the datagram: congestion experienced (RFC 3168, RFC 9331).
    pub congestion_experienced: bool,
}
