//! Data datagram: a fragment of a frame.

use lockstep_units::Timestamp;

use super::{DATA_HEADER, MAX_PAYLOAD, PARITY_FIELDS, Reader, WireError};
use crate::StateId;
use crate::parity::{MAX_PARITY_FRAGMENTS, Parity};

const FLAG_KEY_FRAME: u8 = 1;
/// Bits for the number of doublings of the acknowledgement interval.
const DOUBLINGS: u8 = 14;
const FLAG_PARITY: u8 = 16;
pub(super) const KNOWN_FLAGS: u8 = FLAG_KEY_FRAME | DOUBLINGS | FLAG_PARITY;

/// A fragment of a frame, whose content is a `P`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Data<P = Vec<u8>> {
    /// Number of the connection.
    pub connection: u32,
    /// Lower 32 bits of the sequence number.
    pub sequence: u32,
    /// Number of the frame.
    pub frame: u32,
    /// Index of the fragment in the frame; parity has the indices after the others.
    pub fragment: u16,
    /// Number of fragments of the frame, without parity.
    pub fragments: u16,
    /// Parity fields, if this is a parity fragment.
    pub parity: Option<Parity>,
    /// State from which the frame is decoded.
    pub source: StateId,
    /// State that decoding yields.
    pub target: StateId,
    /// Time of transmission, sender's clock.
    pub sent_at: Timestamp,
    /// Time of capture, sender's clock.
    pub captured: Timestamp,
    /// Lower 32 bits of the time for which the sender chose to be idle so far, microseconds. It includes the gap before
    /// this fragment. Differences are grace periods, even if fragments in between are lost.
    pub idle: u32,
    /// The receiver may release states of frames older than this one. It must not evict the state of this frame.
    pub keep_from: u32,
    /// Another frame whose state the receiver must not evict.
    pub anchor: u32,
    /// Whether the frame is a key frame.
    pub key_frame: bool,
    /// Number of doublings of the acknowledgement interval that the sender requests, because acknowledgements queue.
    /// The range is 0 to 7; receivers apply at most 4. QUIC's draft-ietf-quic-ack-frequency has a similar request.
    pub feedback_doublings: u8,
    /// Part of the frame, or parity, at most [`MAX_PAYLOAD`] bytes.
    pub payload: P,
}

impl<P> Data<P> {
    /// Bytes before the payload.
    pub(crate) fn header(&self) -> usize {
        DATA_HEADER + if self.parity.is_some() { PARITY_FIELDS } else { 0 }
    }

    pub(super) fn flags(&self) -> u8 {
        let key_frame = if self.key_frame { FLAG_KEY_FRAME } else { 0 };
        let parity = if self.parity.is_some() { FLAG_PARITY } else { 0 };
        key_frame | parity | self.feedback_doublings.min(7) << 1
    }
}

impl Data {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let payload = &self.payload[..self.payload.len().min(MAX_PAYLOAD)];
        out.extend(self.sequence.to_be_bytes());
        out.extend(self.frame.to_be_bytes());
        out.extend(self.fragment.to_be_bytes());
        out.extend(self.fragments.to_be_bytes());
        out.extend(self.source.0.to_be_bytes());
        out.extend(self.target.0.to_be_bytes());
        out.extend(self.sent_at.as_micros().to_be_bytes());
        out.extend(self.captured.as_micros().to_be_bytes());
        out.extend(self.idle.to_be_bytes());
        out.extend(self.keep_from.to_be_bytes());
        out.extend(self.anchor.to_be_bytes());
        out.extend((payload.len() as u16).to_be_bytes());
        if let Some(Parity { count, last }) = self.parity {
            out.extend(count.to_be_bytes());
            out.extend(last.to_be_bytes());
        }
        out.extend_from_slice(payload);
    }

    pub(super) fn decode(connection: u32, flags: u8, reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let sequence = reader.u32()?;
        let frame = reader.u32()?;
        let fragment = reader.u16()?;
        let fragments = reader.u16()?;
        let source = StateId(reader.u64()?);
        let target = StateId(reader.u64()?);
        let sent_at = reader.time()?;
        let captured = reader.time()?;
        let idle = reader.u32()?;
        let keep_from = reader.u32()?;
        let anchor = reader.u32()?;
        let length = usize::from(reader.u16()?);
        if length > MAX_PAYLOAD {
            return Err(WireError::Payload(length));
        }
        let parity =
            if flags & FLAG_PARITY != 0 { Some(Parity { count: reader.u16()?, last: reader.u16()? }) } else { None };
        let its_places = match parity {
            None => 0..fragments,
            Some(parity) if fragments > 0 && parity.count <= MAX_PARITY_FRAGMENTS => {
                fragments..fragments.saturating_add(parity.count)
            }
            Some(_) => 0..0,
        };
        if !its_places.contains(&fragment) {
            return Err(WireError::Fragment { fragment, fragments });
        }
        Ok(Self {
            connection,
            sequence,
            frame,
            fragment,
            fragments,
            parity,
            source,
            target,
            sent_at,
            captured,
            idle,
            keep_from,
            anchor,
            key_frame: flags & FLAG_KEY_FRAME != 0,
            feedback_doublings: (flags & DOUBLINGS) >> 1,
            payload: reader.take(length)?.to_vec(),
        })
    }
}
