//! Wire format of all datagrams.
//!
//! [`Datagram::encode`] writes a datagram and [`Datagram::decode`] reads one. Numbers are in network byte order, times
//! in microseconds. A datagram has exactly the length that its fields define.
//!
//! | bytes | all datagrams |
//! |---|---|
//! | 0 | version (upper four bits, 4) and kind (lower four bits) |
//! | 1 | flags; undefined flags are zero |
//! | 2..6 | connection |
//!
//! | bytes | data, kind 1; flags: 1 key frame, 14 (three bits) doublings of the acknowledgement interval, 16 parity |
//! |---|---|
//! | 6..10 | sequence number: the lower 32 bits of the number of datagrams of data and sound transmitted before |
//! | 10..14 | frame |
//! | 14..16 | index of the fragment, from 0; parity has the indices from the number of fragments on |
//! | 16..18 | number of fragments of the frame, at least 1, without parity |
//! | 18..26 | source state |
//! | 26..34 | target state |
//! | 34..42 | time of transmission, sender's clock |
//! | 42..50 | time of capture, sender's clock |
//! | 50..54 | idle: the lower 32 bits of the sum of all grace periods so far, including that of this fragment |
//! | 54..58 | keep from: states of older frames may be released; the state of this frame must not be evicted |
//! | 58..62 | anchor: another frame whose state must not be evicted |
//! | 62..64 | length of the payload |
//! | 64..66, with flag 16 | number of parity fragments of the frame |
//! | 66..68, with flag 16 | length of the last fragment that is not parity |
//! | then | payload |
//!
//! | acknowledgement, kind 2; flags: 1 inter-arrival time known, 2 capacity known; each field is a variable-length number (LEB128) |
//! |---|
//! | number of the acknowledgement |
//! | time of transmission, receiver's clock |
//! | highest sequence number that arrived |
//! | time of transmission of that datagram, sender's clock |
//! | hold: from the arrival of that datagram to this transmission |
//! | step (below) from the number of distinct datagrams that arrived (lower 32 bits) to the highest sequence number plus one |
//! | with flag 1: smoothed inter-arrival time |
//! | with flag 2: estimated capacity, bit/s |
//! | number of listed fragments, at most 255; then runs with that number of fragments |
//! | number of states that the decoder holds, at most 255; then runs with that number of frames, newest first |
//! | number of refused frames (complete, but not decoded), at most 255; then runs with that number of frames, newest first |
//!
//! A run of fragments, in the order of their arrival:
//!
//! 1. Four times its length minus one. Plus 2 if the fragments were marked (congestion experienced). Plus 1 if they are
//!    sound packets.
//! 2. Step to its first frame from the last listed frame of the same kind (video or sound), or from 0.
//! 3. For video: the index of its first fragment.
//! 4. For each fragment: the time since the arrival of the fragment listed before. For the first fragment of all: the
//!    time from its arrival to the transmission of the acknowledgement.
//!
//! Fragments of a run belong to one frame and have consecutive indices. Sound packets of a run have consecutive frames.
//!
//! A run of frames:
//!
//! 1. Step to its newest frame from the last listed one, or from 0.
//! 2. Its length minus one. Each frame is older by one than the one before.
//!
//! Runs have maximal length.
//!
//! A step is a difference modulo 2^32 with sign. It is encoded as twice the difference, or as minus twice the
//! difference minus one if that is negative.
//!
//! | bytes | hello, kind 3; flags: the [codec](CodecId) of the pictures |
//! |---|---|
//! | 6..8, 8..10 | width and height in pixels |
//! | 10..14, 14..18 | frame rate: numerator and denominator |
//! | 18..20 | estimator that the sender's controller needs, an application-defined number; 0 for any |
//!
//! | bytes | reply to hello, kind 4 |
//! |---|---|
//! | 6..8 | number of states that the receiver can hold |
//!
//! | bytes | sound, kind 6 |
//! |---|---|
//! | 6..10 | sequence number; data and sound share one series |
//! | 10..14 | sound frame: 20 ms |
//! | 14..22 | time of transmission, sender's clock |
//! | 22..26 | age: from the capture of the first sample to this transmission |
//! | 26..30 | idle, as in data |
//! | 30..32 | upper three bits: k, the number of further frames, 0 to 5; other bits: length of the payload |
//! | 32.. | payload; empty in silence |
//! | k times | length (2) and payload of the next frame, captured 20 ms after the one before |
//!
//! An acknowledgement lists a sound packet by its (first) frame. In the interface, that is fragment 65535
//! ([`SOUND`](crate::SOUND)) of the frame.
//!
//! Live calls use QUIC, which encrypts and authenticates. Each datagram of data, sound or acknowledgement is one QUIC
//! datagram ([`QUIC_OVERHEAD`]). Hellos and replies use a stream and need no repetition. The driver's own message ends a
//! connection. Kind 5 was a close and is not reused.

mod acknowledgement;
mod data;
mod number;
mod sound;

use std::fmt;
use std::time::Duration;

use lockstep_units::{ByteCount, MAX_FRAME_RATE, Timestamp};
use thiserror::Error;

use crate::payload::Payload;

pub(crate) use acknowledgement::MAX_ESTIMATE_BYTES;
pub use acknowledgement::{Acknowledgement, ReceivedFragment};
pub use data::Data;
pub use sound::{SOUND_HEADER, Sound};

/// Version of the wire format.
pub const VERSION: u8 = 4;
/// Length of the header of all datagrams, bytes.
const COMMON_HEADER: usize = 6;
/// Length of the header of a data datagram, bytes.
pub const DATA_HEADER: usize = 64;
/// Length of the additional header fields of a parity fragment, bytes.
pub const PARITY_FIELDS: usize = 4;
/// Length of the headers of IPv4 and UDP (RFC 791, RFC 768), bytes.
pub const NETWORK_HEADERS: u64 = 28;
/// Overhead of QUIC for a datagram (RFC 9000, RFC 9221), bytes:
///
/// - 1: flags
/// - 4: connection id
/// - 1 or 2: packet number
/// - 1: frame type
/// - 2: length
/// - 16: authentication tag
/// - 2 or 3: QUIC's own acknowledgements, the mean of `lockstep call --trace constant:1mbps`
pub const QUIC_OVERHEAD: u64 = 28;
/// Bytes that a link carries in addition to each datagram, in simulated and live calls.
pub const DATAGRAM_OVERHEAD: u64 = NETWORK_HEADERS + QUIC_OVERHEAD;
/// Largest payload of a fragment, bytes. With its header, UDP and IP it fits 1,500 bytes (IPv4) or 1,516 bytes (IPv6).
pub const MAX_PAYLOAD: usize = 1400;

/// Default payload of a fragment in a call, bytes.
///
/// Ethernet carries 1,500 bytes. The sum leaves room for QUIC's acknowledgements: data header (64), QUIC (28), UDP (8),
/// IPv6 (40) and payload. A frame of fewer fragments is more likely to arrive whole. Live ends start with a smaller
/// payload, until they know that the path carries this one.
pub const FRAGMENT_PAYLOAD: usize = 1340;

/// Lengths of a hello and of its reply, bytes.
const HELLO_LENGTH: usize = 20;
const HELLO_REPLY_LENGTH: usize = 8;

const DATA: u8 = 1;
const ACKNOWLEDGEMENT: u8 = 2;
const HELLO: u8 = 3;
const HELLO_REPLY: u8 = 4;
const SOUND_KIND: u8 = 6;

/// Why bytes do not decode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum WireError {
    /// The bytes end before the field at `offset` does.
    #[error("cannot decode datagram: it ends inside the field of {needed} bytes at offset {offset}")]
    Truncated {
        /// Offset of the field.
        offset: usize,
        /// Length of the field, bytes.
        needed: usize,
    },
    /// Bytes follow the last field.
    #[error("cannot decode datagram: {0} extra bytes after its end")]
    Trailing(usize),
    /// The version is not [`VERSION`].
    #[error("cannot decode datagram: unknown version {0}")]
    Version(u8),
    /// The kind is undefined.
    #[error("cannot decode datagram: unknown kind {0}")]
    Kind(u8),
    /// An undefined flag is set.
    #[error("cannot decode datagram: undefined flags {0:#04x}")]
    Flags(u8),
    /// The frame has no fragments, or the index is not one of its fragments or parity fragments.
    #[error("cannot decode datagram: fragment {fragment} of a frame of {fragments} fragments")]
    Fragment {
        /// Index of the fragment.
        fragment: u16,
        /// Number of fragments of the frame.
        fragments: u16,
    },
    /// A payload is longer than [`MAX_PAYLOAD`].
    #[error("cannot decode datagram: payload of {0} bytes is longer than {MAX_PAYLOAD}")]
    Payload(usize),
    /// A sound packet is longer than 120 ms.
    #[error("cannot decode datagram: sound packet of {0} frames is longer than 120 ms")]
    Frames(usize),
    /// A number is larger than its field, or has a longer encoding than necessary.
    #[error("cannot decode datagram: number at offset {0} is too large, or its encoding is too long")]
    Number(usize),
    /// A run is longer than its list, or could be part of the run before.
    #[error("cannot decode datagram: run at offset {0} does not fit its list")]
    List(usize),
    /// A time is outside the range of [`Timestamp`].
    #[error("cannot decode datagram: time at offset {0} is out of range")]
    Time(usize),
    /// The width, height or frame rate is zero, or the frame rate exceeds [`MAX_FRAME_RATE`].
    #[error("cannot decode datagram: zero width or height, or frame rate not in (0, {MAX_FRAME_RATE}]")]
    Format,
}

/// Format of the video.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VideoFormat {
    /// Width in pixels, not zero.
    pub width: u16,
    /// Height in pixels, not zero.
    pub height: u16,
    /// Numerator of the frame rate, not zero. The frame rate is at most [`MAX_FRAME_RATE`] frames per second.
    pub frame_rate_numerator: u32,
    /// Denominator of the frame rate, not zero.
    pub frame_rate_denominator: u32,
}

impl VideoFormat {
    /// Time between two frames.
    #[must_use]
    pub fn frame_interval(&self) -> Duration {
        Duration::from_secs_f64(f64::from(self.frame_rate_denominator) / f64::from(self.frame_rate_numerator.max(1)))
    }
}

/// Codec of the pictures of a call. A receiver refuses a call whose codec it cannot decode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord, Hash)]
pub struct CodecId(pub u8);

impl CodecId {
    /// Functional VP8 of this project, the default.
    pub const VP8: Self = Self(0);
    /// AV1 with states in named slots. The other numbers, 2 to 255, are application-defined.
    pub const AV1: Self = Self(1);
}

impl fmt::Display for CodecId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// First datagram of a sender: connection, video format, estimator and codec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// Number of the connection.
    pub connection: u32,
    /// Format of the video.
    pub format: VideoFormat,
    /// Estimator that the sender's controller needs, as an application-defined number; 0 for any. `EstimatorKind` of
    /// `lockstep-control` defines its numbers. Any number is valid here; the application refuses unknown ones.
    pub estimator: u16,
    /// Codec of the pictures. Any number is valid here; the application refuses a codec that it cannot decode.
    pub codec: CodecId,
}

/// Reply of the receiver to a [`Hello`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HelloReply {
    /// Number of the connection.
    pub connection: u32,
    /// Number of states that the receiver can hold.
    pub retained_states: u16,
}

/// Any datagram. With a `P` other than bytes it cannot be encoded; simulated links carry it as a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Datagram<P = Vec<u8>> {
    /// A fragment of a frame.
    Data(Data<P>),
    /// A sound packet.
    Sound(Sound<P>),
    /// Arrivals, states held and estimate. Boxed, so that a datagram is no larger than one of data: the simulator moves
    /// datagrams by value.
    Acknowledgement(Box<Acknowledgement>),
    /// Beginning of a connection, or a later test of the path.
    Hello(Hello),
    /// Reply to a hello.
    HelloReply(HelloReply),
}

/// The number whose lower 32 bits are `low` and that is nearest to `near`.
pub(crate) fn expand(low: u32, near: u64) -> u64 {
    let step = i64::from(low.wrapping_sub(near as u32) as i32);
    near.checked_add_signed(step).unwrap_or(u64::from(low))
}

impl<P: Payload> Datagram<P> {
    /// Length of the encoded datagram, which is what [`Datagram::encode`] writes.
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

    /// Number of the connection.
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
    /// Encodes the datagram; see [`Datagram::encode`].
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(usize::try_from(self.size().get()).unwrap_or(0));
        self.encode(&mut out);
        out
    }

    /// Appends the encoded datagram to `out`. Times are truncated to microseconds, lists to 255 entries, and payloads
    /// to [`MAX_PAYLOAD`] bytes.
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

    /// Decodes a datagram. Allocates at most a small multiple of the length of `bytes`.
    ///
    /// # Errors
    /// [`WireError`] if the bytes are not exactly one datagram.
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
                        > u64::from(format.frame_rate_denominator) * u64::from(MAX_FRAME_RATE)
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

    /// Reads a time in microseconds within the range of [`Timestamp`].
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
    fn sequence_number_expands_to_the_nearest() {
        assert_eq!(expand(5, 0), 5);
        assert_eq!(expand(5, 0xffff_fff0), 0x1_0000_0005);
        assert_eq!(expand(0xffff_fff0, 0x1_0000_0005), 0xffff_fff0);
        assert_eq!(expand(0xffff_fff0, 3), 0xffff_fff0);
        assert_eq!(expand(7, u64::MAX - 1) as u32, 7);
    }
}
