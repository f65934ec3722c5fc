//! What the two ends say to each other in the stream: who joins, what the transport's hellos say, and the end. A message is
//! its length (2 bytes, of what follows), its kind (1 byte) and what it says; at most [`LONGEST`] bytes follow.

use crate::presence::Presence;
use crate::stream::StreamName;
use crate::ticket::Secret;

/// The version of these messages, in the first.
const VERSION: u8 = 4;
/// Longest message, without its length.
const LONGEST: usize = 128;

const JOIN: u8 = 1;
const WELCOME: u8 = 2;
const TRANSPORT: u8 = 3;
const CLOSE: u8 = 4;
const PRESENCE: u8 = 5;
const STREAM: u8 = 6;

/// Which way pictures go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind {
    /// From the joiner to the listener.
    OneWay,
    /// Both ways.
    TwoWay,
    /// From the listener to the joiner.
    FromListener,
}

impl CallKind {
    fn number(self) -> u8 {
        match self {
            Self::OneWay => 1,
            Self::TwoWay => 2,
            Self::FromListener => 3,
        }
    }

    fn from_number(number: u8) -> Option<Self> {
        [Self::OneWay, Self::TwoWay, Self::FromListener].into_iter().find(|kind| kind.number() == number)
    }
}

/// Why a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CloseReason {
    /// The call is over (0 on the wire).
    Done,
    /// This side cannot go on (1 on the wire).
    Failed,
    /// This side does not know the estimator of the hello (2 on the wire).
    Unsupported,
    /// This side takes fewer video streams than were announced (3 on the wire).
    TooManyStreams,
    /// A reason that this version does not know.
    Other(u16),
}

impl CloseReason {
    /// The reason as it is on the wire.
    pub(crate) fn number(self) -> u16 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Unsupported => 2,
            Self::TooManyStreams => 3,
            Self::Other(number) => number,
        }
    }

    /// The reason that has this number on the wire.
    pub(crate) fn from_number(number: u16) -> Self {
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
pub(crate) enum Message {
    /// The joiner's first: it knows the ticket's secret, and wants such a call.
    Join { secret: Secret, kind: CallKind },
    /// The listener's first: the call is on.
    Welcome,
    /// A hello of the transport's or the answer to one, as it would be as a datagram.
    Transport(Vec<u8>),
    /// The call is over.
    Close(CloseReason),
    /// What this end gives of itself has changed.
    Presence(Presence),
    /// The name of the video stream of a connection number, before its hello.
    Stream { connection: u32, name: StreamName },
}

/// A message is too long, of no known kind, or not what its kind says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

impl Message {
    /// The message with its length.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
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

/// Messages out of the bytes of a stream.
#[derive(Debug, Default)]
pub(crate) struct Messages(Vec<u8>);

impl Messages {
    /// More bytes came.
    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Bytes that wait for the rest of a message.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.0.len()
    }

    /// The next whole message.
    pub(crate) fn next(&mut self) -> Result<Option<Message>, Malformed> {
        let Some((length, rest)) = self.0.split_first_chunk::<2>() else { return Ok(None) };
        let length = usize::from(u16::from_be_bytes(*length));
        if !(1..=LONGEST).contains(&length) {
            return Err(Malformed);
        }
        let Some(message) = rest.get(..length) else { return Ok(None) };
        let message = Message::decode(message[0], &message[1..]);
        self.0.drain(..2 + length);
        message.map(Some)
    }
}

/// Reads a stream that comes in such parts, for the fuzzer: what is a message says itself again, and little waits.
#[doc(hidden)]
pub fn read_messages<'a>(parts: impl Iterator<Item = &'a [u8]>) {
    let mut messages = Messages::default();
    for part in parts {
        messages.extend(part);
        loop {
            match messages.next() {
                Ok(Some(message)) => {
                    let mut again = Messages::default();
                    again.extend(&message.to_bytes());
                    assert_eq!(again.next(), Ok(Some(message)));
                }
                Ok(None) => break,
                // Whoever says what is no message is not listened to any more.
                Err(Malformed) => return,
            }
        }
        assert!(messages.0.len() <= LONGEST + 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_out_as_they_went_in_however_the_stream_is_cut() {
        let said = [
            Message::Join { secret: [3; 16], kind: CallKind::TwoWay },
            Message::Welcome,
            Message::Transport(vec![1, 2, 3]),
            Message::Presence(Presence { muted: false, camera_off: true }),
            Message::Stream { connection: 7, name: "front".parse().expect("a name") },
            Message::Close(CloseReason::Failed),
        ];
        let bytes: Vec<u8> = said.iter().flat_map(Message::to_bytes).collect();
        for cut in 1..bytes.len() {
            let mut messages = Messages::default();
            let mut heard = Vec::new();
            for part in bytes.chunks(cut) {
                messages.extend(part);
                while let Some(message) = messages.next().expect("all are proper") {
                    heard.push(message);
                }
            }
            assert_eq!(heard, said);
        }
    }

    #[test]
    fn what_is_no_message_is_refused_before_it_is_waited_for() {
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
            assert_eq!(messages.next(), Err(Malformed), "{bytes:?}");
        }
    }
}
