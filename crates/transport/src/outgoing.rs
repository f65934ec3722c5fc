//! What a [`Sender`](crate::Sender) and its owner say to each other.

use std::time::Duration;

use lockstep_units::{ByteCount, Timestamp};

use crate::feedback_interval::FeedbackInterval;
use crate::loss::SentFragment;
use crate::payload::Payload;
use crate::wire::{CodecId, Datagram, VideoFormat};
use crate::{Estimate, StateId, Tuning};

/// What a sender does about a loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Recovery {
    /// It sends nothing again: the next frame is encoded from a state that the receiver is known to hold. For a
    /// functional codec.
    #[default]
    FromHeldState,
    /// It sends lost fragments again, as WebRTC does on NACK, and the next frame is encoded from the last one all the
    /// same. Only when that has failed for too long the last frame is no source any more; a codec whose state is opaque
    /// must then make a key frame. For a conventional codec.
    Retransmit,
}

/// How a [`Sender`](crate::Sender) is set up.
#[derive(Debug, Clone)]
pub struct SenderConfig {
    /// The connection's name, best drawn at random for each call.
    pub connection: u32,
    /// What will be sent.
    pub format: VideoFormat,
    /// The estimator that the receiver must run, by a number of the application's; 0 for any. See
    /// [`Hello::estimator`](crate::Hello::estimator).
    pub estimator: u16,
    /// The codec of the pictures.
    pub codec: CodecId,
    /// The most bytes of a frame that a fragment carries; 1 to [`MAX_PAYLOAD`](crate::wire::MAX_PAYLOAD).
    pub payload: usize,
    /// How many states the encoder is to keep at most; at least 5. The receiver's bound counts if it is less. With
    /// [`Recovery::Retransmit`] many more names are kept, but the last state is the only one that is needed.
    pub retained_states: usize,
    /// What is done about a loss.
    pub recovery: Recovery,
    /// The first pause between two hellos.
    pub hello_interval: Duration,
    /// How often the receiver acknowledges: nothing counts as lost for silence before it may have been told of (RFC 9002,
    /// section 6.2.1).
    pub feedback: FeedbackInterval,
    /// The tuned constants.
    pub tuning: Tuning,
}

impl SenderConfig {
    /// The usual setting.
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

/// A frame to send, made of `P`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutgoingFrame<P = Vec<u8>> {
    /// The state that it was encoded from.
    pub source: StateId,
    /// The state that it yields; not [`StateId::EMPTY`].
    pub target: StateId,
    /// When it was captured.
    pub captured: Timestamp,
    /// Whether it is a key frame.
    pub key_frame: bool,
    /// How many parity fragments follow its own, at most [`MOST_PARITY`](crate::MOST_PARITY): so many of all may be lost.
    pub parity: u16,
    /// The compressed frame; may be empty.
    pub payload: P,
}

/// A datagram that leaves now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transmit<P = Vec<u8>> {
    /// The datagram.
    pub datagram: Datagram<P>,
    /// Its bytes on the wire, without the headers of IP and UDP.
    pub size: ByteCount,
    /// What of a frame or of sound leaves with it; none where it only speaks of the connection, or of what arrived.
    pub fragment: Option<TransmittedFragment>,
}

impl<P: Payload> Transmit<P> {
    /// One that carries nothing of a frame.
    pub(crate) fn of(datagram: Datagram<P>) -> Self {
        Self { size: datagram.size(), datagram, fragment: None }
    }
}

impl Transmit {
    /// The datagram's bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.datagram.to_bytes()
    }
}

/// What of a frame or of sound leaves with a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransmittedFragment {
    /// Bytes of the frame; zero for parity and sound.
    pub payload: ByteCount,
    /// Whether they had been transmitted before.
    pub retransmitted: bool,
}

/// Why a frame is not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// Its source is none of the states that the transport still keeps.
    #[error("frame from state {0}, which is no longer kept")]
    UnknownSource(StateId),
    /// It yields the empty state.
    #[error("frame that yields the empty state")]
    EmptyTarget,
    /// It needs more fragments than can be numbered.
    #[error("frame of {0} bytes needs too many fragments")]
    TooLong(usize),
    /// A packet of sound is longer than a datagram carries, or no newer than one before.
    #[error("packet of sound of frame {frame} and {length} bytes is too long or too old")]
    Sound {
        /// Its frame.
        frame: u32,
        /// Bytes in it.
        length: usize,
    },
    /// Too many fragments wait for the pacer.
    #[error("{0} fragments wait already")]
    QueueFull(usize),
    /// Every frame number was used.
    #[error("no frame number is left")]
    NumbersExhausted,
}

/// A fragment that the receiver has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcknowledgedFragment {
    /// Its frame's number.
    pub frame: u32,
    /// Its place in the frame.
    pub fragment: u16,
    /// The whole datagram.
    pub size: ByteCount,
    /// When it was transmitted.
    pub sent_at: Timestamp,
    /// When it arrived, receiver's clock.
    pub arrived_at: Timestamp,
    /// When the sender learned it.
    pub acknowledged_at: Timestamp,
    /// Whether a queue on the way had marked it: congestion experienced (RFC 3168, RFC 9331).
    pub congestion_experienced: bool,
}

/// A fragment that counts as lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LostFragment {
    /// Its frame's number.
    pub frame: u32,
    /// Its place in the frame.
    pub fragment: u16,
    /// The whole datagram.
    pub size: ByteCount,
    /// When it was transmitted.
    pub sent_at: Timestamp,
}

impl From<SentFragment> for LostFragment {
    fn from(sent: SentFragment) -> Self {
        Self { frame: sent.frame, fragment: sent.fragment, size: sent.size, sent_at: sent.sent_at }
    }
}

/// What one acknowledgement taught.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Feedback {
    /// The fragments that were not acknowledged before, in the order of arrival.
    pub acknowledged: Vec<AcknowledgedFragment>,
    /// The receiver's newest estimate.
    pub estimate: Estimate,
    /// The round-trip time measured with this acknowledgement, if it brought news of the newest fragment.
    pub round_trip_time: Option<Duration>,
    /// The highest sequence number that arrived, according to this acknowledgement.
    pub highest_sequence: u64,
    /// How many fragments that had counted as lost are known to have arrived after all since the feedback before.
    pub found: usize,
    /// How many distinct data datagrams arrived, needless copies of fragments included, according to this
    /// acknowledgement: with `highest_sequence + 1` it gives the share that was lost, even if other acknowledgements
    /// were lost too.
    pub received: u64,
}

impl Feedback {
    /// The round-trip time of each fragment of [`Self::acknowledged`], seconds, as if it had been acknowledged by itself
    /// and at once: the one that was measured, and how much longer or shorter the fragment was on its way than the newest
    /// one. None where none was measured.
    pub fn round_trip_times(&self) -> impl Iterator<Item = f64> + '_ {
        let one_way = |at: &AcknowledgedFragment| at.arrived_at.as_secs_f64() - at.sent_at.as_secs_f64();
        let newest = self.acknowledged.iter().max_by_key(|at| at.sent_at);
        let back = self.round_trip_time.zip(newest).map(|(sample, newest)| sample.as_secs_f64() - one_way(newest));
        back.into_iter().flat_map(move |back| self.acknowledged.iter().map(move |at| back + one_way(at)))
    }
}

/// What the owner of a [`Sender`](crate::Sender) must know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SenderEvent {
    /// The receiver has answered the hello.
    Connected,
    /// The receiver has answered a later hello: [`Sender::greet`](crate::Sender::greet).
    Answered,
    /// An acknowledgement came.
    Feedback(Feedback),
    /// Fragments count as lost. One that is acknowledged later shows up in a [`Feedback`] all the same.
    FragmentsLost(Vec<LostFragment>),
    /// A frame will not be decoded: fragments of it were lost for good. Told once; if the loss was none,
    /// [`Self::FrameAcknowledged`] may follow.
    FrameLost(u32),
    /// A frame came, but was not decoded: the receiver could not, had no room for it, or had decoded a newer one by then.
    FrameRefused(u32),
    /// The receiver has decoded a frame and holds its state.
    FrameAcknowledged {
        /// The frame's number.
        frame: u32,
        /// The state that it yielded.
        state: StateId,
    },
    /// No frame will be encoded from this state again: forget it.
    Release(StateId),
}

/// What is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FragmentsInFlight {
    /// Fragments transmitted, neither acknowledged nor lost.
    pub fragments: usize,
    /// Their datagrams' sizes.
    pub bytes: ByteCount,
}

/// What a [`Sender`](crate::Sender) counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct SenderStatistics {
    /// Datagrams of any kind and quality that came.
    pub datagrams: u64,
    /// Those that were no datagram of this version.
    pub malformed: u64,
    /// Those of another connection.
    pub foreign: u64,
    /// Those of a kind that only receivers take, and all after the end.
    pub unexpected: u64,
    /// Acknowledgements of what was never sent, or with times or counts that cannot be.
    pub absurd: u64,
    /// Proper acknowledgements.
    pub acknowledgements: u64,
    /// Those that a newer one had overtaken.
    pub overtaken_acknowledgements: u64,
    /// Packets of sound transmitted; their bytes are counted with those of the fragments.
    pub sounds: u64,
    /// Frames given to the sender.
    pub frames: u64,
    /// Frames that the receiver decoded.
    pub frames_acknowledged: u64,
    /// Frames lost.
    pub frames_lost: u64,
    /// Frames that came and that the receiver did not decode.
    pub frames_refused: u64,
    /// Fragments transmitted.
    pub fragments: u64,
    /// Those of them that were parity.
    pub parity: u64,
    /// Bytes of frames in them, without headers and each only once.
    pub payload_bytes: u64,
    /// Those of the fragments that had been transmitted before.
    pub retransmitted: u64,
    /// Their datagrams' bytes.
    pub bytes: u64,
    /// Fragments acknowledged one by one.
    pub fragments_acknowledged: u64,
    /// Fragments known to have arrived only because their frame was decoded.
    pub fragments_implied: u64,
    /// Fragments declared lost.
    pub fragments_lost: u64,
    /// Fragments declared lost that had arrived.
    pub spurious: u64,
    /// States let go for want of room.
    pub evicted_states: u64,
}
