//! The receiver's states: frames in a decoder's slots.

use lockstep_transport::StateId;
use lockstep_vp8::Picture;

use crate::header::{FrameHeader, FrameKind, SLOTS, Sequence, temporal_units};
use crate::name::target_name;

/// A frame in a slot.
#[derive(Debug, Clone, Copy)]
struct Held {
    name: StateId,
    /// Number of the frame at the encoder.
    serial: u32,
}

impl Held {
    /// Whether it was coded after the frame `serial`; the numbers wrap around.
    fn is_newer_than(self, serial: u32) -> bool {
        serial.wrapping_sub(self.serial) > u32::MAX / 2
    }
}

/// A frame that can be decoded from the present slots.
#[derive(Debug, Clone, Copy)]
struct Decodable<'f> {
    /// Key frame that comes first and writes all slots.
    start: Option<&'f [u8]>,
    unit: &'f [u8],
    sequence: Option<Sequence>,
    serial: u32,
    /// Slot that `unit` writes.
    writes: usize,
}

/// Names of the frames in the slots of a decoder.
#[derive(Debug, Default)]
pub(crate) struct SlottedDecoder {
    sequence: Option<Sequence>,
    slots: [Option<Held>; SLOTS as usize],
}

/// Reads the header of `unit`. None if its pictures exceed `pixel_limit`.
fn header(unit: &[u8], sequence: &mut Option<Sequence>, pixel_limit: usize) -> Option<FrameHeader> {
    let header = FrameHeader::read(unit, sequence).ok()?;
    let Sequence { width, height, .. } = (*sequence)?;
    (u64::from(width) * u64::from(height) <= pixel_limit as u64).then_some(header)
}

impl SlottedDecoder {
    /// The units of `frame`, which claims to start from the state `source`, in the order of decoding. The first of two is
    /// a key frame. None if the frame cannot be decoded now.
    pub(crate) fn units<'f>(&self, source: StateId, frame: &'f [u8], pixel_limit: usize) -> Option<Vec<&'f [u8]>> {
        let Decodable { start, unit, .. } = self.check(source, frame, pixel_limit)?;
        Some(start.into_iter().chain([unit]).collect())
    }

    /// Checks the headers of `frame`. None if one is damaged, or its slot holds another state than `source`. Also if a
    /// later frame has written the slot that it writes: the sender counts on that one.
    fn check<'f>(&self, source: StateId, frame: &'f [u8], pixel_limit: usize) -> Option<Decodable<'f>> {
        let (serial, units) = frame.split_first_chunk::<4>()?;
        let serial = u32::from_le_bytes(*serial);
        let mut sequence = self.sequence;
        let units = temporal_units(units).ok()?;
        let (start, unit) = match units[..] {
            [unit] => (None, unit),
            [start, unit] => (Some(start), unit),
            _ => return None,
        };
        let is_newer = |slot: &Option<Held>| slot.is_some_and(|held| held.is_newer_than(serial));
        if let Some(start) = start {
            let header = header(start, &mut sequence, pixel_limit)?;
            if header.kind != FrameKind::Key || header.written != u8::MAX || self.slots.iter().any(is_newer) {
                return None;
            }
        }
        let header = header(unit, &mut sequence, pixel_limit)?;
        let base = self.slots.get(usize::from(header.references[0]))?;
        let is_held = start.is_some() || base.is_some_and(|held| held.name == source);
        let from_base = header.context.is_none_or(|context| context == header.references[0]);
        let writes = header.written.trailing_zeros() as usize;
        let is_one = header.written.count_ones() == 1;
        let sound = header.kind == FrameKind::Inter && is_held && from_base && is_one && !is_newer(&self.slots[writes]);
        sound.then_some(Decodable { start, unit, sequence, serial, writes })
    }

    /// Decodes `frame` with `decode`, which decodes one unit. Returns the name of the state that it leads to, and the
    /// picture. None if the frame cannot be decoded now ([`SlottedDecoder::units`]), or `decode` fails.
    pub(crate) fn decode(
        &mut self,
        source: StateId,
        frame: &[u8],
        pixel_limit: usize,
        mut decode: impl FnMut(&[u8]) -> Option<Picture>,
    ) -> Option<(StateId, Picture)> {
        let Decodable { start, unit, sequence, serial, writes } = self.check(source, frame, pixel_limit)?;
        self.sequence = sequence;
        let mut source = source;
        if let Some(start) = start {
            // If a decoder refuses a unit, nobody knows what its slots hold.
            self.slots = [None; SLOTS as usize];
            source = target_name(StateId::EMPTY, start, &decode(start)?);
            self.slots = [Some(Held { name: source, serial }); SLOTS as usize];
        }
        self.slots[writes] = None;
        let picture = decode(unit)?;
        let name = target_name(source, unit, &picture);
        self.slots[writes] = Some(Held { name, serial });
        Some((name, picture))
    }
}
