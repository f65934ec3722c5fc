//! The receiver's states: frames in dav1d's slots.

use lockstep_transport::StateId;
use lockstep_vp8::Picture;

use crate::dav1d::{Decoder, DecoderLibrary};
use crate::error::Av1Error;
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

/// dav1d, with the name of the frame in each slot.
pub(crate) struct SlottedDecoder {
    library: DecoderLibrary,
    /// The decoder, and its limit of luma samples.
    decoder: Option<(usize, Decoder)>,
    sequence: Option<Sequence>,
    slots: [Option<Held>; SLOTS as usize],
}

impl SlottedDecoder {
    pub(crate) fn new(library: DecoderLibrary) -> Self {
        Self { library, decoder: None, sequence: None, slots: [None; SLOTS as usize] }
    }

    fn decoder(&mut self, pixel_limit: usize) -> Result<&mut Decoder, Av1Error> {
        let present = self.decoder.take().filter(|(limit, _)| *limit == pixel_limit);
        let made = match present {
            Some(present) => present,
            None => {
                (self.sequence, self.slots) = (None, [None; SLOTS as usize]);
                (pixel_limit, Decoder::new(&self.library, pixel_limit)?)
            }
        };
        Ok(&mut self.decoder.insert(made).1)
    }

    /// Reads the header of `unit`. None if its pictures exceed `pixel_limit`.
    fn header(&mut self, unit: &[u8], pixel_limit: usize) -> Option<FrameHeader> {
        let header = FrameHeader::read(unit, &mut self.sequence).ok()?;
        let Sequence { width, height, .. } = self.sequence?;
        (u64::from(width) * u64::from(height) <= pixel_limit as u64).then_some(header)
    }

    /// Decodes `frame`, which claims to start from the state `source`. Returns the name of the state that it leads to,
    /// and the picture. None if the frame is damaged, or its slot holds another state than `source`. Also if a later
    /// frame has written the slot that it writes: the sender counts on that one.
    pub(crate) fn decode(&mut self, source: StateId, frame: &[u8], pixel_limit: usize) -> Option<(StateId, Picture)> {
        let (serial, units) = frame.split_first_chunk::<4>()?;
        let serial = u32::from_le_bytes(*serial);
        let units = temporal_units(units).ok()?;
        self.decoder(pixel_limit).ok()?;
        let (unit, source) = match units[..] {
            [unit] => (unit, source),
            [start, unit] => (unit, self.start(start, serial, pixel_limit)?),
            _ => return None,
        };
        let header = self.header(unit, pixel_limit)?;
        let base = self.slots.get(usize::from(header.references[0]))?.as_ref()?;
        let from_base = header.context.is_none_or(|context| context == header.references[0]);
        let writes = header.written.trailing_zeros() as usize;
        if header.kind != FrameKind::Inter || base.name != source || !from_base || header.written.count_ones() != 1 {
            return None;
        }
        let slot = self.slots.get_mut(writes)?;
        if slot.is_some_and(|held| held.is_newer_than(serial)) {
            return None;
        }
        // If dav1d refuses the unit, nobody knows what the slot holds.
        *slot = None;
        let picture = self.decoder(pixel_limit).ok()?.decode(unit).ok()?;
        let name = target_name(source, unit, &picture);
        self.slots[writes] = Some(Held { name, serial });
        Some((name, picture))
    }

    /// Decodes the key frame at the start of a frame, which writes all slots. Returns the name of the state that it
    /// leads to. None if it is damaged.
    fn start(&mut self, unit: &[u8], serial: u32, pixel_limit: usize) -> Option<StateId> {
        let header = self.header(unit, pixel_limit)?;
        let is_late = self.slots.iter().flatten().any(|held| held.is_newer_than(serial));
        if header.kind != FrameKind::Key || header.written != u8::MAX || is_late {
            return None;
        }
        self.slots = [None; SLOTS as usize];
        let picture = self.decoder(pixel_limit).ok()?.decode(unit).ok()?;
        let name = target_name(StateId::EMPTY, unit, &picture);
        self.slots = [Some(Held { name, serial }); SLOTS as usize];
        Some(name)
    }
}
