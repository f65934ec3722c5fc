//! The datagrams. Every number is in network byte order; every time is in microseconds. A datagram has exactly the
//! length that its fields say.
//!
//! | bytes | all datagrams |
//! |---|---|
//! | 0 | version (upper four bits, 4) and kind (lower four bits) |
//! | 1 | flags; those that a kind does not name are zero |
//! | 2..6 | connection |
//!
//! | bytes | data, kind 1; flags: 1 key frame, 14 (three bits) doublings of the interval of acknowledgements, 16 parity |
//! |---|---|
//! | 6..10 | sequence: the lower 32 bits of the count of data datagrams transmitted before |
//! | 10..14 | frame |
//! | 14..16 | fragment, from 0; of parity, from the number of fragments |
//! | 16..18 | number of fragments of the frame, at least 1, parity not counted |
//! | 18..26 | source state |
//! | 26..34 | target state |
//! | 34..42 | time of transmission, sender's clock |
//! | 42..50 | time of capture, sender's clock |
//! | 50..54 | idle: the lower 32 bits of all grace periods so far, this fragment's included |
//! | 54..58 | keep from: states of older frames may be let go; that of this one stays even if the receiver runs out of room |
//! | 58..62 | anchor: another frame whose state must stay even then |
//! | 62..64 | length of the payload |
//! | 64..66, with flag 16 | number of parity fragments of the frame |
//! | 66..68, with flag 16 | bytes of the last of its other fragments |
//! | then | payload |
//!
//! | acknowledgement, kind 2; flags: 1 inter-arrival time known, 2 capacity known; each field a [number](number) that is as long as it is large |
//! |---|
//! | sequence of the acknowledgement |
//! | time of transmission, receiver's clock |
//! | the highest data sequence that arrived |
//! | that datagram's time of transmission, sender's clock |
//! | hold: from that datagram's arrival to this transmission |
//! | step (below) to the number after the highest from how many distinct data datagrams arrived so far (lower 32 bits) |
//! | with flag 1, smoothed inter-arrival time |
//! | with flag 2, estimated capacity, bit/s |
//! | number of fragments listed, at most 255, then runs until there are so many |
//! | number of states listed, at most 255: what the decoder holds, newest first; then runs until there are so many |
//! | number of frames refused, at most 255: complete, but not decodable, newest first; then runs until there are so many |
//!
//! A run of fragments, in the order of their arrival: its length less one, times four, with 2 added if they came marked
//! (congestion experienced) and 1 if they are packets of sound; step to its frame from the last one listed of this kind, or
//! from 0; but of sound, its first fragment; for each the time since the arrival of the one listed before, of the first of all
//! the time from its arrival to the acknowledgement's transmission. Fragments of a run belong to one frame and follow each
//! other; packets of sound have frames that do. A run of frames: step to its newest from the last one listed, or from 0; its
//! length less one. Each frame is older by one than the one before it. Runs are as long as they can be.
//!
//! A step is a difference that wraps at 2^32, times two, or if it is negative, times minus two less one.
//!
//! | bytes | hello, kind 3; flags: the [codec](CodecId) of the pictures |
//! |---|---|
//! | 6..8, 8..10 | width and height in pixels |
//! | 10..14, 14..18 | frame rate: numerator and denominator |
//! | 18..20 | the estimator that the sender's controller needs, by a number of the application's; 0 for any |
//!
//! | bytes | reply to hello, kind 4 |
//! |---|---|
//! | 6..8 | how many states the receiver can hold |
//!
//! | bytes | sound, kind 6 |
//! |---|---|
//! | 6..10 | sequence, as that of data and counted with them |
//! | 10..14 | frame of sound: 20 ms |
//! | 14..22 | time of transmission, sender's clock |
//! | 22..26 | age: from the capture of its first sample to this transmission |
//! | 26..30 | idle, as in data |
//! | 30..32 | upper three bits: k, how many frames follow, 0 to 5; others: length of the payload |
//! | 32.. | payload; none in silence |
//! | k times | length (2) and payload of the frame that follows, captured 20 ms after the one before |
//!
//! In an acknowledgement a packet of sound is listed by its (first) frame; to programs it is the fragment 65535
//! ([`SOUND`](crate::SOUND)) of it.
//!
//! Live calls go over QUIC, which encrypts and authenticates: data and acknowledgements each in a datagram of its own
//! ([`SEALING`]), hellos and their answers in a stream, where they need not be repeated. The driver's own message ends a
//! connection. Kind 5 was a close and is not reused.

mod acknowledgement;
mod data;
mod number;
mod sound;

use std::fmt;
use std::time::Duration;

use lockstep_units::{ByteCount, MAXIMUM_FRAME_RATE, Timestamp};
use thiserror::Error;

use crate::payload::Payload;

pub(crate) use acknowledgement::LONGEST_ESTIMATE;
pub use acknowledgement::{Acknowledgement, ReceivedFragment};
pub use data::Data;
pub use sound::{SOUND_HEADER, Sound};

/// The version of the wire format that this crate speaks.
pub const VERSION: u8 = 4;
/// Bytes that all datagrams begin with.
const COMMON_HEADER: usize = 6;
/// Bytes of a data datagram before its payload.
pub const DATA_HEADER: usize = 64;
/// Bytes that a parity fragment has before its payload beside these.
pub const PARITY_FIELDS: usize = 4;
/// Bytes of the headers of IPv4 and UDP (RFC 791, RFC 768).
pub const NETWORK_HEADERS: u64 = 28;
/// Bytes that QUIC adds to a datagram in which it carries one of these (RFC 9000, RFC 9221): a byte of flags, a connection
/// identifier of 4, a packet number of 1 or 2, a frame type, a length of 2, an authentication tag of 16, and on the mean 2 or
/// 3 of acknowledgements that ride along, as `lockstep call --trace constant:1mbps` counted them.
pub const SEALING: u64 = 28;
/// Bytes that a link carries with each datagram: simulated calls are charged with them, and live ones have them.
pub const CARRIAGE: u64 = NETWORK_HEADERS + SEALING;
/// The longest payload that a fragment may carry: with header, UDP and IPv4 or IPv6 it fits 1,500 and 1,516 bytes.
pub const MAX_PAYLOAD: usize = 1400;

/// Bytes of a frame in one datagram of a call: with the data header (64), what QUIC adds (28, and what is left for
/// acknowledgements), and the headers of UDP (8) and IPv6 (40) what Ethernet carries (1500). The fewer fragments a frame has,
/// the likelier it arrives whole. Live ends begin with less, until they know that the path takes as much.
pub const FRAGMENT_PAYLOAD: usize = 1340;

/// Bytes of a hello, and of a reply to one.
const HELLO_LENGTH: usize = 20;
const HELLO_REPLY_LENGTH: usize = 8;

const DATA: u8 = 1;
const ACKNOWLEDGEMENT: u8 = 2;
const HELLO: u8 = 3;
const HELLO_REPLY: u8 = 4;
const SOUND_KIND: u8 = 6;

/// Why bytes are not a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum WireError {
    /// The bytes end before the field at `offset` does.
    #[error("datagram ends inside the {needed} bytes at offset {offset}")]
    Truncated {
        /// Where the field begins.
        offset: usize,
        /// How many bytes the field has.
        needed: usize,
    },
    /// Bytes follow the last field.
    #[error("{0} bytes after the end of the datagram")]
    Trailing(usize),
    /// Another version of the format.
    #[error("datagram of unknown version {0}")]
    Version(u8),
    /// No kind of datagram has this number.
    #[error("datagram of unknown kind {0}")]
    Kind(u8),
    /// A flag that has no meaning is set.
    #[error("flags {0:#04x} have no meaning")]
    Flags(u8),
    /// A frame has no fragments or this is not one of them, nor of its parity.
    #[error("fragment {fragment} of a frame of {fragments}")]
    Fragment {
        /// The fragment's place.
        fragment: u16,
        /// The number of fragments.
        fragments: u16,
    },
    /// A payload is longer than [`MAX_PAYLOAD`].
    #[error("payload of {0} bytes is too long")]
    Payload(usize),
    /// A packet of sound of more than 120 ms.
    #[error("packet of sound of {0} frames is too long")]
    Frames(usize),
    /// A number that is larger than its field can be, or longer than it need be.
    #[error("number at offset {0} is too large, or longer than it need be")]
    Number(usize),
    /// A list whose run is longer than the list, or could be one with the run before it.
    #[error("run at offset {0} does not belong into its list")]
    List(usize),
    /// A time before the clock's origin or after its end.
    #[error("time at offset {0} is outside the clock's range")]
    Time(usize),
    /// A width, height or frame rate of zero, or a frame rate above [`MAXIMUM_FRAME_RATE`].
    #[error("video format without width or height, or a frame rate that is not between 0 and {MAXIMUM_FRAME_RATE}")]
    Format,
}

/// The video's format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VideoFormat {
    /// Pixels in a row, not zero.
    pub width: u16,
    /// Rows, not zero.
    pub height: u16,
    /// Frames, at most [`MAXIMUM_FRAME_RATE`] a second, ...
    pub frame_rate_numerator: u32,
    /// ... in so many seconds; neither is zero.
    pub frame_rate_denominator: u32,
}

impl VideoFormat {
    /// Time between two frames.
    #[must_use]
    pub fn frame_interval(&self) -> Duration {
        Duration::from_secs_f64(f64::from(self.frame_rate_denominator) / f64::from(self.frame_rate_numerator.max(1)))
    }
}

/// The codec of a call's pictures. A receiver refuses a call whose codec it cannot decode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord, Hash)]
pub struct CodecId(pub u8);

impl CodecId {
    /// The functional VP8 of this project, and the default. The other numbers, 1 to 255, belong to the application.
    pub const VP8: Self = Self(0);
}

impl fmt::Display for CodecId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// The sender names the connection, the video's format and what it needs of the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// The connection.
    pub connection: u32,
    /// What will be sent.
    pub format: VideoFormat,
    /// The estimator that the sender's controller needs at the receiver. The numbers are the application's (those of
    /// `lockstep-control` are in its `EstimatorKind`); 0 means that any will do. Any number is a proper hello: the
    /// application refuses those that it does not know.
    pub estimator: u16,
    /// The codec of the pictures. Any number is a proper hello: the application refuses a codec that it cannot decode.
    pub codec: CodecId,
}

/// The receiver has seen the [`Hello`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HelloReply {
    /// The connection.
    pub connection: u32,
    /// How many states the receiver can hold.
    pub retained_states: u16,
}

/// Any datagram. With a `P` other than bytes it cannot be written, but goes from one end to the other as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Datagram<P = Vec<u8>> {
    /// A fragment of a frame.
    Data(Data<P>),
    /// A packet of sound.
    Sound(Sound<P>),
    /// What arrived, what is held, what is estimated. Apart, so that a datagram is no larger than one of data: in
    /// virtual time datagrams are moved from queue to queue as they are.
    Acknowledgement(Box<Acknowledgement>),
    /// The connection begins.
    Hello(Hello),
    /// The receiver agrees.
    HelloReply(HelloReply),
}

/// The full number whose lower 32 bits are `low` and that lies nearest to `near`.
pub(crate) fn expand(low: u32, near: u64) -> u64 {
    let step = i64::from(low.wrapping_sub(near as u32) as i32);
    near.checked_add_signed(step).unwrap_or(u64::from(low))
}

impl<P: Payload> Datagram<P> {
    /// Bytes that it takes on the wire, which is how many [`Datagram::encode`] writes.
    #[must_use]
    pub fn size(&self) -> ByteCount {
        let fields = match self {
            Self::Data(data) => data.header() + data.payload.length().min(MAX_PAYLOAD),
            Self::Sound(sound) => SOUND_HEADER + sound.length(),
            Self::Acknowledgement(acknowledgement) => acknowledgement.length(),
            Self::Hello(_) => HELLO_LENGTH,
            Self::HelloReply(_) => HELLO_REPLY_LENGTH,
        };
        ByteCount::new(fields as u64)
    }

    /// The connection that it names.
    #[must_use]
    pub fn connection(&self) -> u32 {
        match self {
            Self::Data(data) => data.connection,
            Self::Sound(sound) => sound.connection,
            Self::Acknowledgement(acknowledgement) => acknowledgement.connection,
            Self::Hello(hello) => hello.connection,
            Self::HelloReply(reply) => reply.connection,
        }
    }
}

impl Datagram {
    /// The datagram's bytes; see [`Datagram::encode`].
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(usize::try_from(self.size().get()).unwrap_or(0));
        self.encode(&mut out);
        out
    }

    /// Appends the datagram to `out`. Times lose what is below a microsecond; of lists only the first 255 entries, and
    /// of a payload only the first [`MAX_PAYLOAD`] bytes, are written.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let (kind, flags) = match self {
            Self::Data(data) => (DATA, data.flags()),
            Self::Sound(_) => (SOUND_KIND, 0),
            Self::Acknowledgement(acknowledgement) => (ACKNOWLEDGEMENT, acknowledgement.flags()),
            Self::Hello(hello) => (HELLO, hello.codec.0),
            Self::HelloReply(_) => (HELLO_REPLY, 0),
        };
        out.extend([VERSION << 4 | kind, flags]);
        out.extend(self.connection().to_be_bytes());
        match self {
            Self::Data(data) => data.encode(out),
            Self::Sound(sound) => sound.encode(out),
            Self::Acknowledgement(acknowledgement) => acknowledgement.write(out),
            Self::Hello(Hello { format, estimator, .. }) => {
                out.extend(format.width.to_be_bytes());
                out.extend(format.height.to_be_bytes());
                out.extend(format.frame_rate_numerator.to_be_bytes());
                out.extend(format.frame_rate_denominator.to_be_bytes());
                out.extend(estimator.to_be_bytes());
            }
            Self::HelloReply(reply) => out.extend(reply.retained_states.to_be_bytes()),
        }
    }

    /// The datagram that `bytes` are, if they are one; allocates no more than a small multiple of `bytes`.
    ///
    /// # Errors
    /// [`WireError`] names what is wrong with the bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader { bytes, offset: 0 };
        let first = reader.u8()?;
        if first >> 4 != VERSION {
            return Err(WireError::Version(first >> 4));
        }
        let kind = first & 15;
        let known_flags = match kind {
            DATA => data::KNOWN_FLAGS,
            ACKNOWLEDGEMENT => acknowledgement::KNOWN_FLAGS,
            HELLO => u8::MAX,
            HELLO_REPLY | SOUND_KIND => 0,
            other => return Err(WireError::Kind(other)),
        };
        let flags = reader.u8()?;
        if flags & !known_flags != 0 {
            return Err(WireError::Flags(flags));
        }
        let connection = reader.u32()?;
        let datagram = match kind {
            DATA => Self::Data(Data::decode(connection, flags, &mut reader)?),
            SOUND_KIND => Self::Sound(Sound::decode(connection, &mut reader)?),
            ACKNOWLEDGEMENT => {
                Self::Acknowledgement(Box::new(Acknowledgement::decode(connection, flags, &mut reader)?))
            }
            HELLO => {
                let format = VideoFormat {
                    width: reader.u16()?,
                    height: reader.u16()?,
                    frame_rate_numerator: reader.u32()?,
                    frame_rate_denominator: reader.u32()?,
                };
                if [format.width, format.height].contains(&0)
                    || [format.frame_rate_numerator, format.frame_rate_denominator].contains(&0)
                    || u64::from(format.frame_rate_numerator)
                        > u64::from(format.frame_rate_denominator) * u64::from(MAXIMUM_FRAME_RATE)
                {
                    return Err(WireError::Format);
                }
                Self::Hello(Hello { connection, format, estimator: reader.u16()?, codec: CodecId(flags) })
            }
            _ => Self::HelloReply(HelloReply { connection, retained_states: reader.u16()? }),
        };
        match bytes.len() - reader.offset {
            0 => Ok(datagram),
            extra => Err(WireError::Trailing(extra)),
        }
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, needed: usize) -> Result<&'a [u8], WireError> {
        let rest = &self.bytes[self.offset..];
        let field = rest.get(..needed).ok_or(WireError::Truncated { offset: self.offset, needed })?;
        self.offset += needed;
        Ok(field)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let field = self.take(N)?;
        Ok(std::array::from_fn(|at| field[at]))
    }

    fn u8(&mut self) -> Result<u8, WireError> {
        Ok(u8::from_be_bytes(self.array()?))
    }

    fn u16(&mut self) -> Result<u16, WireError> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    fn u32(&mut self) -> Result<u32, WireError> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, WireError> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    /// A moment in microseconds that the clock, which counts nanoseconds, can tell.
    fn time(&mut self) -> Result<Timestamp, WireError> {
        let at = self.offset;
        let micros = self.u64()?;
        if micros > Timestamp::MAX.as_micros() { Err(WireError::Time(at)) } else { Ok(Timestamp::from_micros(micros)) }
    }
}

#[cfg(test)]
mod tests {
    use super::expand;

    #[test]
    fn a_sequence_number_is_extended_towards_the_nearest() {
        assert_eq!(expand(5, 0), 5);
        assert_eq!(expand(5, 0xffff_fff0), 0x1_0000_0005);
        assert_eq!(expand(0xffff_fff0, 0x1_0000_0005), 0xffff_fff0);
        assert_eq!(expand(0xffff_fff0, 3), 0xffff_fff0);
        assert_eq!(expand(7, u64::MAX - 1) as u32, 7);
    }
}
