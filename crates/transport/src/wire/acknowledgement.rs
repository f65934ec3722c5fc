//! The datagram in which a receiver says what arrived, what it holds and what its estimator says.

use std::time::Duration;

use lockstep_units::{Bitrate, Timestamp};

use super::{Reader, WireError};
use crate::{Estimate, StateId};

/// Bytes of an acknowledgement before its lists.
pub const ACKNOWLEDGEMENT_HEADER: usize = 53;

const FLAG_INTER_ARRIVAL: u8 = 1;
const FLAG_CAPACITY: u8 = 2;
/// The flags that have a meaning.
pub(super) const KNOWN_FLAGS: u8 = FLAG_INTER_ARRIVAL | FLAG_CAPACITY;

/// The bit beside a fragment's age that says that it came marked; ECN and arrival stand side by side in RFC 8888 too.
const CONGESTION_EXPERIENCED: u32 = 1 << 31;
/// The most that an age can say, microseconds.
const LONGEST_AGE: u32 = CONGESTION_EXPERIENCED - 1;

/// One fragment that an acknowledgement lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceivedFragment {
    /// The frame's number.
    pub frame: u32,
    /// The fragment's place in the frame.
    pub fragment: u16,
    /// When it arrived, receiver's clock; on the wire at most 2^31 - 1 microseconds before the acknowledgement.
    pub arrived_at: Timestamp,
    /// Whether a queue on the way had marked it: congestion experienced (RFC 3168, RFC 9331).
    pub congestion_experienced: bool,
}

/// What arrived lately, what the decoder holds and what the estimator says. Each one repeats the ones before, so that
/// the loss of some does no harm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acknowledgement {
    /// The connection.
    pub connection: u32,
    /// The lower 32 bits of the number of acknowledgements before this one.
    pub sequence: u32,
    /// When it was transmitted, receiver's clock.
    pub sent_at: Timestamp,
    /// The lower 32 bits of the highest data sequence that arrived.
    pub highest: u32,
    /// That datagram's time of transmission, sender's clock.
    pub echo: Timestamp,
    /// The time from that datagram's arrival to this transmission; saturates at 2^32 - 1 microseconds.
    pub hold: Duration,
    /// The lower 32 bits of the number of distinct data datagrams that arrived: a fragment that was sent again, and
    /// had only been late, counts twice.
    pub received: u32,
    /// What the estimator says; the inter-arrival time saturates at 2^32 - 1 microseconds.
    pub estimate: Estimate,
    /// The fragments that arrived last, oldest first, at most 255.
    pub fragments: Vec<ReceivedFragment>,
    /// The states that the decoder holds, by the frames that yielded them, newest first, at most 255.
    pub catalogue: Vec<(u32, StateId)>,
    /// The frames that were complete and could not be decoded, newest first, at most 255.
    pub refused: Vec<u32>,
}

fn short_micros(span: Duration) -> u32 {
    u32::try_from(span.as_micros()).unwrap_or(u32::MAX)
}

impl Acknowledgement {
    /// The flags that say which fields of the estimate are known.
    pub(super) fn flags(&self) -> u8 {
        let inter_arrival = if self.estimate.inter_arrival.is_some() { FLAG_INTER_ARRIVAL } else { 0 };
        inter_arrival | if self.estimate.capacity.is_some() { FLAG_CAPACITY } else { 0 }
    }

    /// Bytes of the whole datagram.
    pub(super) fn length(&self) -> usize {
        let listed = |length: usize| length.min(usize::from(u8::MAX));
        let lists =
            10 * listed(self.fragments.len()) + 12 * listed(self.catalogue.len()) + 4 * listed(self.refused.len());
        ACKNOWLEDGEMENT_HEADER + lists
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let listed = |length: usize| length.min(usize::from(u8::MAX));
        let (fragments, states, refused) =
            (listed(self.fragments.len()), listed(self.catalogue.len()), listed(self.refused.len()));
        out.extend(self.sequence.to_be_bytes());
        out.extend(self.sent_at.as_micros().to_be_bytes());
        out.extend(self.highest.to_be_bytes());
        out.extend(self.echo.as_micros().to_be_bytes());
        out.extend(short_micros(self.hold).to_be_bytes());
        out.extend(self.received.to_be_bytes());
        out.extend(self.estimate.inter_arrival.map_or(0, short_micros).to_be_bytes());
        out.extend(self.estimate.capacity.map_or(0, Bitrate::as_bps).to_be_bytes());
        out.extend([fragments as u8, states as u8, refused as u8]);
        for received in &self.fragments[..fragments] {
            let age = self.sent_at.as_micros().saturating_sub(received.arrived_at.as_micros());
            out.extend(received.frame.to_be_bytes());
            out.extend(received.fragment.to_be_bytes());
            let age = u32::try_from(age).map_or(LONGEST_AGE, |age| age.min(LONGEST_AGE));
            let mark = if received.congestion_experienced { CONGESTION_EXPERIENCED } else { 0 };
            out.extend((age | mark).to_be_bytes());
        }
        for (frame, state) in &self.catalogue[..states] {
            out.extend(frame.to_be_bytes());
            out.extend(state.0.to_be_bytes());
        }
        for frame in &self.refused[..refused] {
            out.extend(frame.to_be_bytes());
        }
    }

    pub(super) fn decode(connection: u32, flags: u8, reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let sequence = reader.u32()?;
        let sent_at = reader.time()?;
        let highest = reader.u32()?;
        let echo = reader.time()?;
        let hold = Duration::from_micros(u64::from(reader.u32()?));
        let received = reader.u32()?;
        let inter_arrival = reader.u32()?;
        let capacity = reader.u64()?;
        let contradicts = |flag: u8, value: u64| flags & flag == 0 && value != 0;
        if contradicts(FLAG_INTER_ARRIVAL, u64::from(inter_arrival)) || contradicts(FLAG_CAPACITY, capacity) {
            return Err(WireError::Flags(flags));
        }
        let estimate = Estimate {
            inter_arrival: (flags & FLAG_INTER_ARRIVAL != 0).then_some(Duration::from_micros(u64::from(inter_arrival))),
            capacity: (flags & FLAG_CAPACITY != 0).then_some(Bitrate::from_bps(capacity)),
        };
        let (fragments, states, refused) = (reader.u8()?, reader.u8()?, reader.u8()?);
        let fragments = (0..fragments)
            .map(|_| {
                let (frame, fragment, at) = (reader.u32()?, reader.u16()?, reader.offset);
                let word = reader.u32()?;
                let age = u64::from(word & LONGEST_AGE);
                let arrived_at = sent_at.as_micros().checked_sub(age).ok_or(WireError::Time(at))?;
                let arrived_at = Timestamp::from_micros(arrived_at);
                let congestion_experienced = word & CONGESTION_EXPERIENCED != 0;
                Ok(ReceivedFragment { frame, fragment, arrived_at, congestion_experienced })
            })
            .collect::<Result<_, WireError>>()?;
        let catalogue =
            (0..states).map(|_| Ok((reader.u32()?, StateId(reader.u64()?)))).collect::<Result<_, WireError>>()?;
        let refused = (0..refused).map(|_| reader.u32()).collect::<Result<_, WireError>>()?;
        Ok(Self {
            connection,
            sequence,
            sent_at,
            highest,
            echo,
            hold,
            received,
            estimate,
            fragments,
            catalogue,
            refused,
        })
    }
}
