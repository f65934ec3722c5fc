//! Configuration and events of a [`Sender`](crate::Sender).

use std::time::Duration;

use lockstep_units::{ByteCount, Timestamp};

use crate::feedback_interval::FeedbackInterval;
use crate::loss::SentFragment;
use crate::payload::Payload;
use crate::wire::{CodecId, Datagram, VideoFormat};
use crate::{Estimate, StateId, Tuning};

/// Repair of losses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Recovery {
    /// The sender sends no fragment again. It encodes the next frame from a state that the receiver holds. For a
    /// functional codec.
    #[default]
    FromHeldState,
    /// The sender sends lost fragments again, as WebRTC does on NACK, and encodes the next frame from the last one. If
    /// that fails for too long, the last frame is no longer a source. A codec with hidden state must then code a key
    /// frame. For a conventional codec.
    Retransmit,
}

/// Configuration of a [`Sender`](crate::Sender).
#[derive(Debug, Clone)]
pub struct SenderConfig {
    /// Number of the connection; draw it at random for each call.
    pub connection: u32,
    /// Format of the video.
    pub format: VideoFormat,
    /// Estimator that the receiver must run, as an application-defined number; 0 for any. See
    /// [`Hello::estimator`](crate::Hello::estimator).
    pub estimator: u16,
    /// Codec of the pictures.
    pub codec: CodecId,
    /// Largest number of frame bytes in a fragment, 1 to [`MAX_PAYLOAD`](crate::wire::MAX_PAYLOAD).
    pub payload: usize,
    /// Number of states that the encoder keeps at most; at least 5. A smaller bound of the receiver takes precedence.
    /// [`Recovery::Retransmit`] keeps many more state ids, but only needs the last state.
    pub retained_states: usize,
    /// Repair of losses.
    pub recovery: Recovery,
    /// Initial pause between two hellos.
    pub hello_interval: Duration,
    /// How often the receiver acknowledges. A fragment does not count as lost before its acknowledgement may have
    /// arrived (RFC 9002, section 6.2.1).
    pub feedback: FeedbackInterval,
    /// Tuned constants.
    pub tuning: Tuning,
}

impl SenderConfig {
    /// Default configuration.
    #[must_use]
    pub fn new(connection: u32, format: VideoFormat) -> Self {
        Self {
            connection,
            format,
            estimator: 0,
            codec: CodecId::VP8,
            payload: 1200,
            retained_states: 32,
            recovery: Recovery::default(),
            hello_interval: Duration::from_millis(100),
            feedback: FeedbackInterval::default(),
            tuning: Tuning::default(),
        }
    }
}

/// A frame to send, whose content is a `P`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutgoingFrame<P = Vec<u8>> {
    /// State from which the frame was encoded.
    pub source: StateId,
    /// State that the frame yields; not [`StateId::EMPTY`].
    pub target: StateId,
    /// Time of capture.
    pub captured: Timestamp,
    /// Whether the frame is a key frame.
    pub key_frame: bool,
    /// Number of parity fragments, at most [`MAX_PARITY_FRAGMENTS`](crate::MAX_PARITY_FRAGMENTS). The frame survives the loss of this
    /// number of fragments.
    pub parity: u16,
    /// Compressed frame; may be empty.
    pub payload: P,
}

/// A datagram to transmit now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transmit<P = Vec<u8>> {
    /// The datagram.
    pub datagram: Datagram<P>,
    /// Size of the datagram, without the headers of IP and UDP.
    pub size: ByteCount,
    /// The part of a frame or of sound in the datagram. `None` for a hello, a reply or an acknowledgement.
    pub fragment: Option<TransmittedFragment>,
}

impl<P: Payload> Transmit<P> {
    /// A datagram without a part of a frame or of sound.
    pub(crate) fn of(datagram: Datagram<P>) -> Self {
        Self { size: datagram.size(), datagram, fragment: None }
    }
}

impl Transmit {
    /// Encodes the datagram.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.datagram.to_bytes()
    }
}

/// The part of a frame or of sound in a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransmittedFragment {
    /// Bytes of the frame; zero for parity and sound.
    pub payload: ByteCount,
    /// Whether this is a retransmission.
    pub retransmitted: bool,
}

/// Why a frame or a sound packet is not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The transport no longer keeps the source state.
    #[error("cannot send frame: its source state {0} is no longer kept")]
    UnknownSource(StateId),
    /// The frame yields the empty state.
    #[error("cannot send frame: its target state is the empty state")]
    EmptyTarget,
    /// The frame needs more fragments than can be numbered.
    #[error("cannot send frame of {0} bytes: it needs more fragments than a frame may have")]
    TooLong(usize),
    /// A sound packet is longer than a datagram, or not newer than the one before.
    #[error("cannot send sound frame {frame} of {length} bytes: it is too long, or not newer than the last one")]
    Sound {
        /// Sound frame of the packet.
        frame: u32,
        /// Size of the packet, bytes.
        length: usize,
    },
    /// Too many fragments wait for the pacer.
    #[error("cannot send frame: {0} fragments already wait for the pacer")]
    QueueFull(usize),
    /// All frame numbers are used.
    #[error("cannot send frame: all frame numbers are used")]
    NumbersExhausted,
}

/// A fragment that the receiver acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcknowledgedFragment {
    /// Number of the frame.
    pub frame: u32,
    /// Index of the fragment in the frame.
    pub fragment: u16,
    /// Size of the datagram.
    pub size: ByteCount,
    /// Time of transmission.
    pub sent_at: Timestamp,
    /// Time of arrival, receiver's clock.
    pub arrived_at: Timestamp,
    /// Time at which the acknowledgement arrived.
    pub acknowledged_at: Timestamp,
    /// Whether a queue on the path marked the datagram: congestion experienced (RFC 3168, RFC 9331).
    pub congestion_experienced: bool,
}

/// A fragment that counts as lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LostFragment {
    /// Number of the frame.
    pub frame: u32,
    /// Index of the fragment in the frame.
    pub fragment: u16,
    /// Size of the datagram.
    pub size: ByteCount,
    /// Time of transmission.
    pub sent_at: Timestamp,
}

impl From<SentFragment> for LostFragment {
    fn from(sent: SentFragment) -> Self {
        Self { frame: sent.frame, fragment: sent.fragment, size: sent.size, sent_at: sent.sent_at }
    }
}

/// Content of one acknowledgement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Feedback {
    /// Fragments that were not acknowledged before, in the order of arrival.
    pub acknowledged: Vec<AcknowledgedFragment>,
    /// Newest estimate of the receiver.
    pub estimate: Estimate,
    /// Round-trip time, if this acknowledgement is the first for the newest fragment.
    pub round_trip_time: Option<Duration>,
    /// Highest sequence number that arrived.
    pub highest_sequence: u64,
    /// Number of fragments that counted as lost but arrived, found since the last feedback.
    pub found: usize,
    /// Number of distinct data datagrams that arrived, redundant copies included. Together with `highest_sequence + 1`
    /// it gives the loss, even if other acknowledgements were lost.
    pub received: u64,
}

impl Feedback {
    /// Round-trip time of each fragment of [`Self::acknowledged`], seconds, as if each had been acknowledged at once.
    /// It is the measured round-trip time plus the difference of one-way delays to the newest fragment. Empty without a
    /// measurement.
    pub fn round_trip_times(&self) -> impl Iterator<Item = f64> + '_ {
        let one_way = |at: &AcknowledgedFragment| at.arrived_at.as_secs_f64() - at.sent_at.as_secs_f64();
        let newest = self.acknowledged.iter().max_by_key(|at| at.sent_at);
        let back = self.round_trip_time.zip(newest).map(|(sample, newest)| sample.as_secs_f64() - one_way(newest));
        back.into_iter().flat_map(move |back| self.acknowledged.iter().map(move |at| back + one_way(at)))
    }
}

/// Event for the owner of a [`Sender`](crate::Sender).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SenderEvent {
    /// The receiver has answered the first hello.
    Connected,
    /// The receiver has answered a later hello of [`Sender::send_hello`](crate::Sender::send_hello).
    Answered,
    /// An acknowledgement arrived.
    Feedback(Feedback),
    /// Fragments count as lost. If one is acknowledged later, it still appears in a [`Feedback`].
    FragmentsLost(Vec<LostFragment>),
    /// A frame will not be decoded, since fragments of it are lost. Reported once. After a spurious loss,
    /// [`Self::FrameAcknowledged`] may follow.
    FrameLost(u32),
    /// A frame arrived but was not decoded. The receiver failed to decode it, had no room, or had decoded a newer
    /// frame.
    FrameRefused(u32),
    /// The receiver has decoded a frame and holds its state.
    FrameAcknowledged {
        /// Number of the frame.
        frame: u32,
        /// State that the frame yielded.
        state: StateId,
    },
    /// No frame will be encoded from this state again: the owner may release it.
    Release(StateId),
}

/// Fragments in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FragmentsInFlight {
    /// Number of fragments that are neither acknowledged nor lost.
    pub fragments: usize,
    /// Total size of their datagrams.
    pub bytes: ByteCount,
}

/// Counters of a [`Sender`](crate::Sender).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct SenderStatistics {
    /// Datagrams passed to the sender, valid or not.
    pub datagrams: u64,
    /// Datagrams that do not decode.
    pub malformed: u64,
    /// Datagrams of another connection.
    pub foreign: u64,
    /// Datagrams of a kind that only receivers accept.
    pub unexpected: u64,
    /// Acknowledgements of datagrams that were never sent, or with impossible times or counts.
    pub absurd: u64,
    /// Valid acknowledgements.
    pub acknowledgements: u64,
    /// Valid acknowledgements that arrived after a newer one.
    pub overtaken_acknowledgements: u64,
    /// Sound packets transmitted; `bytes` includes them.
    pub sounds: u64,
    /// Frames passed to the sender.
    pub frames: u64,
    /// Frames that the receiver decoded.
    pub frames_acknowledged: u64,
    /// Lost frames.
    pub frames_lost: u64,
    /// Frames that arrived but were not decoded.
    pub frames_refused: u64,
    /// Fragments transmitted.
    pub fragments: u64,
    /// Parity fragments transmitted.
    pub parity: u64,
    /// Frame bytes transmitted, without headers, parity and retransmissions.
    pub payload_bytes: u64,
    /// Retransmitted fragments.
    pub retransmitted: u64,
    /// Total size of the transmitted datagrams with fragments and sound.
    pub bytes: u64,
    /// Fragments acknowledged individually.
    pub fragments_acknowledged: u64,
    /// Fragments known to have arrived only because their frame was decoded.
    pub fragments_implied: u64,
    /// Fragments declared lost.
    pub fragments_lost: u64,
    /// Fragments declared lost that arrived.
    pub spurious: u64,
    /// States evicted for lack of room.
    pub evicted_states: u64,
}
