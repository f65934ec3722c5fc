//! The datagram that carries a packet of sound.

use std::time::Duration;

use lockstep_units::Timestamp;

use super::{MAX_PAYLOAD, Reader, WireError};

/// Bytes of a sound datagram before its payload.
pub const SOUND_HEADER: usize = 32;

/// 20 ms of sound, or that there is silence, made of `P`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sound<P = Vec<u8>> {
    /// The connection.
    pub connection: u32,
    /// The lower 32 bits of the datagram's sequence number, of which data and sound have one series.
    pub sequence: u32,
    /// The frame of sound.
    pub frame: u32,
    /// When the datagram was transmitted, sender's clock.
    pub sent_at: Timestamp,
    /// How long before that its first sample was captured; saturates at 2^32 - 1 microseconds.
    pub age: Duration,
    /// As [`Data::idle`](super::Data::idle).
    pub idle: u32,
    /// The coded sound, at most [`MAX_PAYLOAD`] bytes; empty where there is silence.
    pub payload: P,
}

impl Sound {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let payload = &self.payload[..self.payload.len().min(MAX_PAYLOAD)];
        out.extend(self.sequence.to_be_bytes());
        out.extend(self.frame.to_be_bytes());
        out.extend(self.sent_at.as_micros().to_be_bytes());
        out.extend(u32::try_from(self.age.as_micros()).unwrap_or(u32::MAX).to_be_bytes());
        out.extend(self.idle.to_be_bytes());
        out.extend((payload.len() as u16).to_be_bytes());
        out.extend_from_slice(payload);
    }

    pub(super) fn decode(connection: u32, reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let sequence = reader.u32()?;
        let frame = reader.u32()?;
        let sent_at = reader.time()?;
        let age = Duration::from_micros(u64::from(reader.u32()?));
        let idle = reader.u32()?;
        let length = usize::from(reader.u16()?);
        if length > MAX_PAYLOAD {
            return Err(WireError::Payload(length));
        }
        Ok(Self { connection, sequence, frame, sent_at, age, idle, payload: reader.take(length)?.to_vec() })
    }
}
