//! The acknowledgement: arrivals, states held by the decoder, and the estimate.

use std::time::Duration;

use lockstep_units::{Bitrate, Timestamp};

use super::number::{Length, Sink};
use super::{COMMON_HEADER, Reader, WireError};
use crate::Estimate;
use crate::sound::SOUND;

const FLAG_INTER_ARRIVAL: u8 = 1;
const FLAG_CAPACITY: u8 = 2;
/// Defined flags.
pub(super) const KNOWN_FLAGS: u8 = FLAG_INTER_ARRIVAL | FLAG_CAPACITY;

/// Largest encoded length of an estimate, bytes.
pub(crate) const MAX_ESTIMATE_BYTES: usize = 15;

/// Bits in the head of a run, below its length.
const RUN_OF_SOUND: u64 = 1;
const RUN_MARKED: u64 = 2;

/// A fragment that an acknowledgement lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceivedFragment {
    /// Number of the frame.
    pub frame: u32,
    /// Index of the fragment in the frame.
    pub fragment: u16,
    /// Time of arrival, receiver's clock.
    pub arrived_at: Timestamp,
    /// Whether a queue on the path marked the datagram: congestion experienced (RFC 3168, RFC 9331).
    pub congestion_experienced: bool,
}

/// Recent arrivals, states held by the decoder, and the estimate. An acknowledgement repeats earlier ones, so that
/// losses of some do no harm.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Acknowledgement {
    /// Number of the connection.
    pub connection: u32,
    /// Lower 32 bits of the number of acknowledgements before this one.
    pub sequence: u32,
    /// Time of transmission, receiver's clock.
    pub sent_at: Timestamp,
    /// Lower 32 bits of the highest sequence number that arrived.
    pub highest: u32,
    /// Time of transmission of that datagram, sender's clock.
    pub echo: Timestamp,
    /// Time from the arrival of that datagram to this transmission; saturates at 2^32 - 1 microseconds.
    pub hold: Duration,
    /// Lower 32 bits of the number of distinct datagrams of data and sound that arrived. A retransmission counts, even
    /// if the original was only late.
    pub received: u32,
    /// Estimate of the path. The inter-arrival time saturates at 2^32 - 1 microseconds.
    pub estimate: Estimate,
    /// Latest arrivals, in the order of arrival, at most 255. The encoding raises an arrival time to that of the entry
    /// before, and lowers it to `sent_at`.
    pub fragments: Vec<ReceivedFragment>,
    /// Frames whose states the decoder holds, newest first, at most 255. The frame identifies the state, since a
    /// receiver only holds the target state that the frame names.
    pub catalogue: Vec<u32>,
    /// Frames that were complete but not decoded, newest first, at most 255.
    pub refused: Vec<u32>,
}

fn short_micros(span: Duration) -> u32 {
    u32::try_from(span.as_micros()).unwrap_or(u32::MAX)
}

impl ReceivedFragment {
    fn is_sound(&self) -> bool {
        self.fragment == SOUND
    }

    /// Whether this fragment belongs to the same run as the one before it.
    fn continues(&self, before: &Self) -> bool {
        let (frames, fragments) = if self.is_sound() { (1, 0) } else { (0, 1) };
        before.is_sound() == self.is_sound()
            && before.frame.wrapping_add(frames) == self.frame
            && before.fragment.wrapping_add(fragments) == self.fragment
            && before.congestion_experienced == self.congestion_experienced
    }
}

/// The first 255 entries of a list, which is the limit of an acknowledgement.
fn listed<T>(list: &[T]) -> &[T] {
    &list[..list.len().min(usize::from(u8::MAX))]
}

/// Signed difference from `before` to `frame` modulo 2^32, with the sign in the lowest bit (zigzag encoding).
fn step(before: u32, frame: u32) -> u64 {
    let step = frame.wrapping_sub(before) as i32;
    u64::from((step << 1 ^ step >> 31) as u32)
}

/// Inverse of [`step`].
fn step_from(before: u32, step: u32) -> u32 {
    before.wrapping_add((step >> 1) ^ (step & 1).wrapping_neg())
}

fn write_fragments(out: &mut impl Sink, sent_at: Timestamp, fragments: &[ReceivedFragment]) {
    out.number(fragments.len() as u64);
    // Video and sound have separate frame numbers.
    let mut frames = [0; 2];
    let mut before: Option<u64> = None;
    for run in fragments.chunk_by(|before, listed| listed.continues(before)) {
        let Some(first) = run.first() else { continue };
        let sound = first.is_sound();
        let mark = if first.congestion_experienced { RUN_MARKED } else { 0 };
        out.number((run.len() as u64 - 1) << 2 | mark | if sound { RUN_OF_SOUND } else { 0 });
        let frame = &mut frames[usize::from(sound)];
        out.number(step(*frame, first.frame));
        *frame = run.last().map_or(*frame, |last| last.frame);
        if !sound {
            out.number(u64::from(first.fragment));
        }
        for received in run {
            let latest = received.arrived_at.as_micros().min(sent_at.as_micros());
            let arrived_at = before.map_or(latest, |before| latest.max(before));
            out.number(before.map_or(sent_at.as_micros() - arrived_at, |before| arrived_at - before));
            before = Some(arrived_at);
        }
    }
}

fn read_fragments(reader: &mut Reader<'_>, sent_at: Timestamp) -> Result<Vec<ReceivedFragment>, WireError> {
    let count = usize::from(reader.length()?);
    let mut fragments: Vec<ReceivedFragment> = Vec::with_capacity(count);
    let mut frames = [0; 2];
    let mut before: Option<u64> = None;
    while fragments.len() < count {
        let run_at = reader.offset;
        let head = reader.number()?;
        let length = head >> 2;
        let sound = head & RUN_OF_SOUND != 0;
        let congestion_experienced = head & RUN_MARKED != 0;
        let frame = &mut frames[usize::from(sound)];
        let first = step_from(*frame, reader.short_number()?);
        let fragment =
            if sound { SOUND } else { u16::try_from(reader.number()?).map_err(|_| WireError::List(run_at))? };
        let room = if sound { u64::from(u32::MAX) } else { u64::from(SOUND.saturating_sub(fragment)) };
        if length >= (count - fragments.len()) as u64 || length >= room {
            return Err(WireError::List(run_at));
        }
        for place in 0..=length as u16 {
            let at = reader.offset;
            let span = reader.number()?;
            let arrived_at = match before {
                Some(before) => before.checked_add(span).filter(|&arrived_at| arrived_at <= sent_at.as_micros()),
                None => sent_at.as_micros().checked_sub(span),
            };
            let arrived_at = arrived_at.ok_or(WireError::Time(at))?;
            before = Some(arrived_at);
            let arrived_at = Timestamp::from_micros(arrived_at);
            let (ahead, fragment) = if sound { (u32::from(place), SOUND) } else { (0, fragment + place) };
            let frame = first.wrapping_add(ahead);
            let received = ReceivedFragment { frame, fragment, arrived_at, congestion_experienced };
            if place == 0 && fragments.last().is_some_and(|before| received.continues(before)) {
                return Err(WireError::List(run_at));
            }
            fragments.push(received);
        }
        *frame = fragments.last().map_or(first, |last| last.frame);
    }
    Ok(fragments)
}

/// Writes a list of frames, newest first, as runs of consecutive frames.
fn write_frames(out: &mut impl Sink, frames: &[u32]) {
    out.number(frames.len() as u64);
    let mut before = 0;
    for run in frames.chunk_by(|before, frame| before.wrapping_sub(1) == *frame) {
        let (Some(&first), Some(&last)) = (run.first(), run.last()) else { continue };
        out.number(step(before, first));
        out.number(run.len() as u64 - 1);
        before = last;
    }
}

fn read_frames(reader: &mut Reader<'_>) -> Result<Vec<u32>, WireError> {
    let count = usize::from(reader.length()?);
    let mut frames: Vec<u32> = Vec::with_capacity(count);
    while frames.len() < count {
        let at = reader.offset;
        let first = step_from(frames.last().copied().unwrap_or(0), reader.short_number()?);
        let length = reader.number()?;
        let continues = frames.last().is_some_and(|before| before.wrapping_sub(1) == first);
        if continues || length >= (count - frames.len()) as u64 {
            return Err(WireError::List(at));
        }
        frames.extend((0..=length as u32).map(|older| first.wrapping_sub(older)));
    }
    Ok(frames)
}

impl Acknowledgement {
    /// Flags for the known fields of the estimate.
    pub(super) fn flags(&self) -> u8 {
        let inter_arrival = if self.estimate.inter_arrival.is_some() { FLAG_INTER_ARRIVAL } else { 0 };
        inter_arrival | if self.estimate.capacity.is_some() { FLAG_CAPACITY } else { 0 }
    }

    /// Length of the encoded datagram.
    pub(crate) fn length(&self) -> usize {
        let mut length = Length(COMMON_HEADER);
        self.write(&mut length);
        length.0
    }

    /// Writes all fields after the common header.
    pub(super) fn write(&self, out: &mut impl Sink) {
        out.number(u64::from(self.sequence));
        out.number(self.sent_at.as_micros());
        out.number(u64::from(self.highest));
        out.number(self.echo.as_micros());
        out.number(u64::from(short_micros(self.hold)));
        out.number(step(self.received, self.highest.wrapping_add(1)));
        if let Some(inter_arrival) = self.estimate.inter_arrival {
            out.number(u64::from(short_micros(inter_arrival)));
        }
        if let Some(capacity) = self.estimate.capacity {
            out.number(capacity.as_bps());
        }
        write_fragments(out, self.sent_at, listed(&self.fragments));
        write_frames(out, listed(&self.catalogue));
        write_frames(out, listed(&self.refused));
    }

    pub(super) fn decode(connection: u32, flags: u8, reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let micros = |number: u32| Duration::from_micros(u64::from(number));
        let sequence = reader.short_number()?;
        let sent_at = reader.short_time()?;
        let highest = reader.short_number()?;
        let echo = reader.short_time()?;
        let hold = micros(reader.short_number()?);
        let missing = reader.short_number()?;
        let received = highest.wrapping_add(1).wrapping_sub(step_from(0, missing));
        let known = |flag: u8| flags & flag != 0;
        let inter_arrival = known(FLAG_INTER_ARRIVAL).then(|| reader.short_number()).transpose()?.map(micros);
        let capacity = known(FLAG_CAPACITY).then(|| reader.number()).transpose()?.map(Bitrate::from_bps);
        Ok(Self {
            connection,
            sequence,
            sent_at,
            highest,
            echo,
            hold,
            received,
            estimate: Estimate { inter_arrival, capacity },
            fragments: read_fragments(reader, sent_at)?,
            catalogue: read_frames(reader)?,
            refused: read_frames(reader)?,
        })
    }
}
