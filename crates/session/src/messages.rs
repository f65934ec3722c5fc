//! Messages of the application, next to the video of the same call.
//!
//! [`Delivery::Reliable`] messages arrive in order, in a separate QUIC stream. A [`Delivery::Latest`] message is one
//! unreliable datagram. It is never retransmitted, and it is discarded if a later message of its channel overtakes it.
//! Commands of a remote operator are latest messages; chat and file requests are reliable ones.
//!
//! Messages are sent before waiting frames, and their size is deducted from the frame budget.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use lockstep_units::{SlidingMinimum, Timestamp};

/// Longest reliable message, in bytes.
pub const MAX_MESSAGE_BYTES: usize = 64 << 10;
/// Longest latest message, in bytes: it fits one datagram on every path that carries QUIC (RFC 9000, section
/// 14.1).
pub const MAX_LATEST_BYTES: usize = 1_000;
/// Bytes of reliable messages that may wait to leave.
pub const MAX_UNSENT_BYTES: usize = 256 << 10;
/// Received messages that may wait for the application; beyond this, the oldest are dropped.
const MAX_RECEIVED_MESSAGES: usize = 1_024;
/// Bytes of these messages.
const MAX_RECEIVED_BYTES: usize = 4 << 20;
/// Window of the delay's sliding minimum; the base delay of the path observer uses the same.
const DELAY_MEMORY: Duration = Duration::from_secs(60);

/// First byte of a datagram with a latest message. Datagrams of the transport start with 0x40 or more.
const LATEST: u8 = 4;
/// Bytes before its payload: kind, channel, number (4), sending time (8).
const LATEST_HEADER: usize = 14;
/// Bytes before a reliable message: length (4), sending time (8).
const RELIABLE_HEADER: usize = 12;

/// How a message is delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// In order, sent again until it arrives.
    Reliable,
    /// At most once; a message that a later one of the same channel overtakes is discarded.
    Latest {
        /// Channels do not overtake each other.
        channel: u8,
    },
}

/// A message for the other end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// How it is delivered.
    pub delivery: Delivery,
    /// At most [`MAX_MESSAGE_BYTES`] bytes, or [`MAX_LATEST_BYTES`].
    pub payload: Vec<u8>,
}

impl Message {
    /// A reliable message.
    #[must_use]
    pub fn reliable(payload: impl Into<Vec<u8>>) -> Self {
        Self { delivery: Delivery::Reliable, payload: payload.into() }
    }

    /// A latest message of `channel`.
    #[must_use]
    pub fn latest(channel: u8, payload: impl Into<Vec<u8>>) -> Self {
        Self { delivery: Delivery::Latest { channel }, payload: payload.into() }
    }

    /// Whether its payload is short enough for its delivery.
    ///
    /// # Errors
    /// [`MessageError::TooLong`].
    pub fn check(&self) -> Result<(), MessageError> {
        let limit = match self.delivery {
            Delivery::Reliable => MAX_MESSAGE_BYTES,
            Delivery::Latest { .. } => MAX_LATEST_BYTES,
        };
        let length = self.payload.len();
        if length > limit { Err(MessageError::TooLong { length, limit }) } else { Ok(()) }
    }
}

/// A message from the other end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedMessage {
    /// How it was delivered.
    pub delivery: Delivery,
    /// Its bytes.
    pub payload: Vec<u8>,
    /// When the other end sent it, on the other end's clock.
    pub sent_at: Timestamp,
    /// Time from sending to arrival. The fastest packets of both directions align the clocks, assuming equal delays.
    pub delay: Duration,
}

/// Why a message cannot be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// The payload is too long.
    #[error("cannot send message: its {length} bytes exceed the limit of {limit}")]
    TooLong {
        /// Its length.
        length: usize,
        /// The limit for its delivery.
        limit: usize,
    },
    /// The other end has not joined, or the call has ended.
    #[error("cannot send message: the call is not connected")]
    NotConnected,
    /// Too many reliable messages wait to leave.
    #[error("cannot send message: {waiting} bytes of earlier messages wait to leave; send less, or wait")]
    QueueFull {
        /// Bytes that wait.
        waiting: usize,
    },
}

/// Wire format of a reliable message.
pub fn reliable(sent_at: Timestamp, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(RELIABLE_HEADER + payload.len());
    bytes.extend((payload.len() as u32).to_be_bytes());
    bytes.extend(sent_at.as_micros().to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// The stream is not a sequence of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

/// Splits the bytes of a stream into reliable messages. At most one incomplete message waits.
#[derive(Debug, Default)]
pub struct ReliableReader(Vec<u8>);

impl ReliableReader {
    /// Appends bytes that arrived.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// The next complete message: sending time and payload.
    pub fn poll(&mut self) -> Result<Option<(Timestamp, Vec<u8>)>, Malformed> {
        let Some((length, rest)) = self.0.split_first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_be_bytes(*length) as usize;
        if length > MAX_MESSAGE_BYTES {
            return Err(Malformed);
        }
        let Some((sent_at, rest)) = rest.split_first_chunk::<8>() else { return Ok(None) };
        let Some(payload) = rest.get(..length) else { return Ok(None) };
        let message = (Timestamp::from_micros(u64::from_be_bytes(*sent_at)), payload.to_vec());
        self.0.drain(..RELIABLE_HEADER + length);
        Ok(Some(message))
    }
}

/// Latest-only messages of both directions: the next number to send, and the newest number received per channel.
#[derive(Debug, Default)]
pub struct LatestChannels {
    next: u32,
    newest: BTreeMap<u8, u32>,
}

impl LatestChannels {
    /// The datagram of a latest message.
    pub fn datagram(&mut self, channel: u8, sent_at: Timestamp, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(LATEST_HEADER + payload.len());
        bytes.extend([LATEST, channel]);
        bytes.extend(self.next.to_be_bytes());
        bytes.extend(sent_at.as_micros().to_be_bytes());
        bytes.extend(payload);
        self.next = self.next.wrapping_add(1);
        bytes
    }

    /// The message of a datagram, unless a later one of its channel arrived before.
    pub fn received(&mut self, datagram: &[u8]) -> Option<(u8, Timestamp, Vec<u8>)> {
        let [LATEST, channel, rest @ ..] = datagram else { return None };
        let (number, rest) = rest.split_first_chunk::<4>()?;
        let (sent_at, payload) = rest.split_first_chunk::<8>()?;
        let number = u32::from_be_bytes(*number);
        let newest = self.newest.entry(*channel);
        let is_newer = match newest {
            std::collections::btree_map::Entry::Vacant(vacant) => {
                vacant.insert(number);
                true
            }
            std::collections::btree_map::Entry::Occupied(mut occupied) => {
                let ahead = number.wrapping_sub(*occupied.get()) as i32;
                if ahead > 0 {
                    occupied.insert(number);
                }
                ahead > 0
            }
        };
        is_newer.then(|| (*channel, Timestamp::from_micros(u64::from_be_bytes(*sent_at)), payload.to_vec()))
    }
}

/// Whether a datagram carries a latest message.
pub fn is_latest(datagram: &[u8]) -> bool {
    datagram.first() == Some(&LATEST)
}

/// Received messages that wait for the application, and the sliding minimum of their delays.
#[derive(Debug, Default)]
pub struct ReceivedMessages {
    waiting: VecDeque<ReceivedMessage>,
    bytes: usize,
    least: SlidingMinimum<i64>,
}

impl ReceivedMessages {
    /// Adds a message that arrived at `now`. `video_min` is the smallest delay of video packets, with the same clock
    /// offset.
    pub fn push(
        &mut self,
        now: Timestamp,
        delivery: Delivery,
        sent_at: Timestamp,
        payload: Vec<u8>,
        video_min: Option<i64>,
        round_trip: Duration,
    ) {
        let delay = now.as_nanos().wrapping_sub(sent_at.as_nanos()) as i64;
        let least = self.least.put(now, delay, DELAY_MEMORY);
        let least = video_min.map_or(least, |video| video.min(least));
        let age = lockstep_call::age(now, sent_at, least, round_trip);
        self.bytes += payload.len();
        self.waiting.push_back(ReceivedMessage { delivery, payload, sent_at, delay: age });
        while self.waiting.len() > MAX_RECEIVED_MESSAGES || self.bytes > MAX_RECEIVED_BYTES {
            self.bytes -= self.waiting.pop_front().map_or(0, |message| message.payload.len());
        }
    }

    /// The next message for the application.
    pub fn pop(&mut self) -> Option<ReceivedMessage> {
        let message = self.waiting.pop_front()?;
        self.bytes -= message.payload.len();
        Some(message)
    }
}

/// Reads a stream in `parts`, which are also read as datagrams, for the fuzzer.
#[doc(hidden)]
pub fn read_messages<'a>(parts: impl Iterator<Item = &'a [u8]>) {
    let (mut reader, mut latest) = (ReliableReader::default(), LatestChannels::default());
    for part in parts {
        let _ = latest.received(part);
        reader.extend(part);
        loop {
            match reader.poll() {
                Ok(Some((_, payload))) => assert!(payload.len() <= MAX_MESSAGE_BYTES),
                Ok(None) => break,
                Err(Malformed) => return,
            }
        }
        assert!(reader.0.len() <= MAX_MESSAGE_BYTES + RELIABLE_HEADER);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Timestamp {
        Timestamp::from_millis(milliseconds)
    }

    #[test]
    fn reliable_messages_survive_any_cut_of_the_stream() {
        let payloads: [&[u8]; 4] = [b"", b"stop", &[7; 3_000], b"go"];
        let bytes: Vec<u8> = payloads.iter().flat_map(|payload| reliable(at(5), payload)).collect();
        for cut in [1, 2, 3, 11, 12, 13, 1_000, bytes.len()] {
            let mut reader = ReliableReader::default();
            let mut received = Vec::new();
            for part in bytes.chunks(cut) {
                reader.extend(part);
                while let Some((sent_at, payload)) = reader.poll().expect("well-formed") {
                    assert_eq!(sent_at, at(5));
                    received.push(payload);
                }
            }
            assert_eq!(received, payloads);
        }
    }

    #[test]
    fn length_beyond_the_limit_is_refused_at_once() {
        let mut reader = ReliableReader::default();
        reader.extend(&(MAX_MESSAGE_BYTES as u32 + 1).to_be_bytes());
        assert_eq!(reader.poll(), Err(Malformed));
    }

    #[test]
    fn overtaken_latest_messages_are_discarded_per_channel() {
        let (mut sender, mut receiver) = (LatestChannels::default(), LatestChannels::default());
        let [first, second, other] =
            [(1, b"a"), (1, b"b"), (2, b"c")].map(|(channel, payload)| sender.datagram(channel, at(1), payload));
        assert_eq!(receiver.received(&second), Some((1, at(1), b"b".to_vec())));
        assert_eq!(receiver.received(&first), None, "overtaken");
        assert_eq!(receiver.received(&second), None, "a duplicate");
        assert_eq!(receiver.received(&other), Some((2, at(1), b"c".to_vec())));
        assert_eq!(receiver.received(&[LATEST, 1, 0]), None, "cut");
    }

    #[test]
    fn delay_is_measured_beyond_the_fastest_packet() {
        let mut received = ReceivedMessages::default();
        let round_trip = Duration::from_millis(40);
        // The other clock is 900 ms ahead.
        for (sent, arrived) in [(1_000, 120), (1_100, 250), (1_200, 320)] {
            received.push(at(arrived), Delivery::Reliable, at(sent), Vec::new(), None, round_trip);
        }
        let delays: Vec<u128> =
            std::iter::from_fn(|| received.pop()).map(|message| message.delay.as_millis()).collect();
        assert_eq!(delays, [20, 50, 20]);
    }

    #[test]
    fn waiting_messages_are_bounded_in_number_and_bytes() {
        let mut received = ReceivedMessages::default();
        for _ in 0..100 {
            received.push(at(1), Delivery::Reliable, at(1), vec![0; MAX_MESSAGE_BYTES], None, Duration::ZERO);
        }
        assert_eq!((received.waiting.len(), received.bytes), (64, MAX_RECEIVED_BYTES));
    }
}
