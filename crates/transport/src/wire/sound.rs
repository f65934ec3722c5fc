//! Sound datagram.

use std::time::Duration;

use lockstep_units::Timestamp;

use super::{MAX_PAYLOAD, Reader, WireError};
use crate::payload::Payload;
use crate::sound::{FURTHER_HEADER, MAX_BUNDLED_FRAMES};

/// Length of the header of a sound datagram, bytes.
pub const SOUND_HEADER: usize = 32;

/// Number of bits for the length of the payload; the upper bits are the number of further frames.
const LENGTH_BITS: u32 = 13;

/// One or more consecutive sound frames of 20 ms, whose content is a `P`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sound<P = Vec<u8>> {
    /// Number of the connection.
    pub connection: u32,
    /// Lower 32 bits of the sequence number; data and sound share one series.
    pub sequence: u32,
    /// Number of the first sound frame.
    pub frame: u32,
    /// Time of transmission, sender's clock.
    pub sent_at: Timestamp,
    /// Time from the capture of the first sample to the transmission; saturates at 2^32 - 1 microseconds.
    pub age: Duration,
    /// As [`Data::idle`](super::Data::idle).
    pub idle: u32,
    /// Coded sound, at most [`MAX_PAYLOAD`] bytes; empty in silence.
    pub payload: P,
    /// Further frames, each captured 20 ms after the one before; at most [`MAX_BUNDLED_FRAMES`] with the first. On narrow
    /// paths, a datagram per frame would have more header than sound.
    pub further: Vec<P>,
}

impl<P: Payload> Sound<P> {
    /// Length of the first frame, and of the further ones with their length fields.
    pub(crate) fn length(&self) -> usize {
        let further = self.further.iter().take(MAX_BUNDLED_FRAMES - 1);
        let further = further.map(|next| FURTHER_HEADER + next.length().min(MAX_PAYLOAD)).sum::<usize>();
        self.payload.length().min(MAX_PAYLOAD) + further
    }
}

impl Sound {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let payload = &self.payload[..self.payload.len().min(MAX_PAYLOAD)];
        out.extend(self.sequence.to_be_bytes());
        out.extend(self.frame.to_be_bytes());
        out.extend(self.sent_at.as_micros().to_be_bytes());
        out.extend(u32::try_from(self.age.as_micros()).unwrap_or(u32::MAX).to_be_bytes());
        out.extend(self.idle.to_be_bytes());
        let further = &self.further[..self.further.len().min(MAX_BUNDLED_FRAMES - 1)];
        out.extend((payload.len() as u16 | (further.len() as u16) << LENGTH_BITS).to_be_bytes());
        out.extend_from_slice(payload);
        for next in further {
            let next = &next[..next.len().min(MAX_PAYLOAD)];
            out.extend((next.len() as u16).to_be_bytes());
            out.extend_from_slice(next);
        }
    }

    pub(super) fn decode(connection: u32, reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let sequence = reader.u32()?;
        let frame = reader.u32()?;
        let sent_at = reader.time()?;
        let age = Duration::from_micros(u64::from(reader.u32()?));
        let idle = reader.u32()?;
        let field = reader.u16()?;
        let count = usize::from(field >> LENGTH_BITS);
        if count >= MAX_BUNDLED_FRAMES {
            return Err(WireError::Frames(count + 1));
        }
        let take = |reader: &mut Reader<'_>, length: usize| {
            if length > MAX_PAYLOAD { Err(WireError::Payload(length)) } else { Ok(reader.take(length)?.to_vec()) }
        };
        let payload = take(reader, usize::from(field & ((1 << LENGTH_BITS) - 1)))?;
        let further = (0..count)
            .map(|_| {
                let length = usize::from(reader.u16()?);
                take(reader, length)
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { connection, sequence, frame, sent_at, age, idle, payload, further })
    }
}
