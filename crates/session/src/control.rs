//! Messages of the two ends in the control stream: joining, the transport's hellos, presence, and closing.
//!
//! A message is its length (2 bytes, without themselves), its kind (1 byte) and its body. At most [`MAX_MESSAGE_BYTES`] bytes
//! follow the length.

use crate::presence::Presence;
use crate::stream::StreamName;
use crate::ticket::Secret;

/// Version of these messages, in the first message of each side.
const VERSION: u8 = 4;
/// Longest message in bytes, without its length field.
const MAX_MESSAGE_BYTES: usize = 128;

const JOIN: u8 = 1;
const WELCOME: u8 = 2;
const TRANSPORT: u8 = 3;
const CLOSE: u8 = 4;
const PRESENCE: u8 = 5;
const STREAM: u8 = 6;

/// Direction of the pictures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind {
    /// Pictures go from the joiner to the listener.
    OneWay,
    /// Pictures go in both directions.
    TwoWay,
    /// Pictures go from the listener to the joiner.
    FromListener,
    /// No pictures: the joiner asks to enter a room.
    Room,
}

impl CallKind {
    fn number(self) -> u8 {
        match self {
            Self::OneWay => 1,
            Self::TwoWay => 2,
            Self::FromListener => 3,
            Self::Room => 4,
        }
    }

    fn from_number(number: u8) -> Option<Self> {
        [Self::OneWay, Self::TwoWay, Self::FromListener, Self::Room].into_iter().find(|kind| kind.number() == number)
    }
}

/// Why a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseReason {
    /// The call is over (0 on the wire).
    Done,
    /// This side failed (1 on the wire).
    Failed,
    /// This side does not know the estimator of the hello (2 on the wire).
    Unsupported,
    /// This side accepts fewer video streams than were announced (3 on the wire).
    TooManyStreams,
    /// A reason that this version does not know.
    Other(u16),
}

impl CloseReason {
    /// Wire format of the reason.
    pub fn number(self) -> u16 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Unsupported => 2,
            Self::TooManyStreams => 3,
            Self::Other(number) => number,
        }
    }

    /// The reason with this number on the wire.
    pub fn from_number(number: u16) -> Self {
        match number {
            0 => Self::Done,
            1 => Self::Failed,
            2 => Self::Unsupported,
            3 => Self::TooManyStreams,
            other => Self::Other(other),
        }
    }
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// First message of the joiner: proves that it knows the ticket's secret, and names the kind of call.
    Join {
        /// Secret of the ticket.
        secret: Secret,
        /// Direction of the pictures.
        kind: CallKind,
    },
    /// First message of the listener: accepts the call.
    Welcome,
    /// A hello of the transport or the answer to one, in its datagram format.
    Transport(Vec<u8>),
    /// The call is over.
    Close(CloseReason),
    /// The presence of this end has changed.
    Presence(Presence),
    /// Name of the video stream of a connection number, before its hello.
    Stream {
        /// The connection number.
        connection: u32,
        /// The name.
        name: StreamName,
    },
}

/// A message is too long, of an unknown kind, or has a malformed body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

impl Message {
    /// The message with its length field.
    pub fn to_bytes(&self) -> Vec<u8> {
        let (kind, body) = match self {
            Self::Join { secret, kind } => (JOIN, [&[VERSION, kind.number()][..], &secret[..]].concat()),
            Self::Welcome => (WELCOME, vec![VERSION]),
            Self::Transport(datagram) => (TRANSPORT, datagram.clone()),
            Self::Close(reason) => (CLOSE, reason.number().to_be_bytes().to_vec()),
            Self::Presence(presence) => (PRESENCE, vec![presence.number()]),
            Self::Stream { connection, name } => (STREAM, [&connection.to_be_bytes(), name.as_bytes()].concat()),
        };
        let mut bytes = ((body.len() + 1) as u16).to_be_bytes().to_vec();
        bytes.push(kind);
        bytes.extend(body);
        bytes
    }

    fn decode(kind: u8, body: &[u8]) -> Result<Self, Malformed> {
        match (kind, body) {
            (JOIN, [VERSION, kind, secret @ ..]) => Ok(Self::Join {
                secret: secret.try_into().map_err(|_| Malformed)?,
                kind: CallKind::from_number(*kind).ok_or(Malformed)?,
            }),
            (WELCOME, [VERSION]) => Ok(Self::Welcome),
            (TRANSPORT, datagram) => Ok(Self::Transport(datagram.to_vec())),
            (CLOSE, &[high, low]) => Ok(Self::Close(CloseReason::from_number(u16::from_be_bytes([high, low])))),
            (STREAM, body) => {
                let (connection, name) = body.split_first_chunk::<4>().ok_or(Malformed)?;
                let name = std::str::from_utf8(name).map_err(|_| Malformed)?.parse().map_err(|_| Malformed)?;
                Ok(Self::Stream { connection: u32::from_be_bytes(*connection), name })
            }
            (PRESENCE, &[number]) => Ok(Self::Presence(Presence::from_number(number))),
            _ => Err(Malformed),
        }
    }
}

/// Splits the bytes of a stream into messages.
#[derive(Debug, Default)]
pub struct Messages(Vec<u8>);

impl Messages {
    /// Appends bytes that arrived.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Bytes that wait for the rest of a message.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.0.len()
    }

    /// The next complete message.
    pub fn poll(&mut self) -> Result<Option<Message>, Malformed> {
        let Some((length, rest)) = self.0.split_first_chunk::<2>() else { return Ok(None) };
        let length = usize::from(u16::from_be_bytes(*length));
        if !(1..=MAX_MESSAGE_BYTES).contains(&length) {
            return Err(Malformed);
        }
        let Some(message) = rest.get(..length) else { return Ok(None) };
        let message = Message::decode(message[0], &message[1..]);
        self.0.drain(..2 + length);
        message.map(Some)
    }
}

/// Reads a stream in `parts`, for the fuzzer: each message must encode to itself, and few bytes may wait.
#[doc(hidden)]
pub fn read_messages<'a>(parts: impl Iterator<Item = &'a [u8]>) {
    let mut messages = Messages::default();
    for part in parts {
        messages.extend(part);
        loop {
            match messages.poll() {
                Ok(Some(message)) => {
                    let mut again = Messages::default();
                    again.extend(&message.to_bytes());
                    assert_eq!(again.poll(), Ok(Some(message)));
                }
                Ok(None) => break,
                // A peer that sends malformed messages is ignored.
                Err(Malformed) => return,
            }
        }
        assert!(messages.0.len() <= MAX_MESSAGE_BYTES + 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_any_split_of_the_stream() {
        let said = [
            Message::Join { secret: [3; 16], kind: CallKind::TwoWay },
            Message::Welcome,
            Message::Transport(vec![1, 2, 3]),
            Message::Presence(Presence { muted: false, camera_off: true, recording: true }),
            Message::Stream { connection: 7, name: "front".parse().expect("a name") },
            Message::Close(CloseReason::Failed),
        ];
        let bytes: Vec<u8> = said.iter().flat_map(Message::to_bytes).collect();
        for cut in 1..bytes.len() {
            let mut messages = Messages::default();
            let mut heard = Vec::new();
            for part in bytes.chunks(cut) {
                messages.extend(part);
                while let Some(message) = messages.poll().expect("all are proper") {
                    heard.push(message);
                }
            }
            assert_eq!(heard, said);
        }
    }

    #[test]
    fn malformed_message_is_refused_before_it_is_complete() {
        for bytes in [
            &[0, 0][..],
            &[255, 255],
            &[0, 2, 9, 9],
            &[0, 2, 2, 9],
            &[0, 3, 1, 1, 1],
            &[0, 2, 4, 1],
            &[0, 6, 6, 0, 0, 0, 1, b'.'],
        ] {
            let mut messages = Messages::default();
            messages.extend(bytes);
            assert_eq!(messages.poll(), Err(Malformed), "{bytes:?}");
        }
    }
}
