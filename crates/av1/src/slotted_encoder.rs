//! The sender's states: frames in libaom's slots.

use std::sync::{Arc, Weak};

use lockstep_transport::StateId;
use lockstep_vp8::Picture;

use crate::aom::{Coding, Encoder, EncoderLibrary, EncoderSettings, Tools};
use crate::error::Av1Error;
use crate::header::SLOTS;
use crate::name::target_name;

/// Quantizer of the grey picture that calls start from.
const START_QUANTIZER: u8 = 32;
/// Sample of a grey picture.
const GREY: u8 = 128;

/// A frame in a slot of the encoder. Another frame may use the slot when nobody holds this one.
#[derive(Debug)]
pub(crate) struct WrittenSlot {
    pub(crate) name: StateId,
    /// Picture that a decoder displays.
    pub(crate) picture: Picture,
    slot: u8,
    serial: u32,
}

/// A key frame, which any decoder can decode, and its slot.
struct Start {
    unit: Vec<u8>,
    written: Arc<WrittenSlot>,
}

/// libaom with a state in each slot.
pub(crate) struct SlottedEncoder {
    library: EncoderLibrary,
    /// The encoder for the present size.
    encoder: Option<(EncoderSettings, Encoder)>,
    slots: [Weak<WrittenSlot>; SLOTS as usize],
    /// Number of frames so far, thrown-away ones included.
    serial: u32,
    /// Start of the frames from the empty state, while such frames are coded.
    start: Option<Start>,
}

impl SlottedEncoder {
    pub(crate) fn new(library: EncoderLibrary) -> Self {
        Self { library, encoder: None, slots: Default::default(), serial: 0, start: None }
    }

    /// The slot of `state`, unless another frame has overwritten it.
    fn slot_of(&self, state: &Arc<WrittenSlot>) -> Option<u8> {
        (self.slots[usize::from(state.slot)].as_ptr() == Arc::as_ptr(state)).then_some(state.slot)
    }

    /// The slot for the next frame: a free one. If all are held, the oldest frame loses its slot.
    fn next_slot(&self, base: u8) -> u8 {
        let age = |slot: &u8| {
            let held = self.slots[usize::from(*slot)].upgrade();
            held.map_or(u32::MAX, |held| self.serial.wrapping_sub(held.serial))
        };
        let start = self.start.as_ref().map(|start| start.written.slot);
        let usable = (0..SLOTS).filter(|&slot| slot != base && Some(slot) != start);
        usable.max_by_key(age).unwrap_or_default()
    }

    fn write(&mut self, slot: u8, name: StateId, picture: Picture) -> Arc<WrittenSlot> {
        let written = Arc::new(WrittenSlot { name, picture, slot, serial: self.serial });
        self.slots[usize::from(slot)] = Arc::downgrade(&written);
        written
    }

    /// The encoder for pictures of this size; a new one forgets all states.
    fn encoder(&mut self, settings: EncoderSettings) -> Result<&mut Encoder, Av1Error> {
        let present = self.encoder.take().filter(|(present, _)| *present == settings);
        let made = match present {
            Some(present) => present,
            None => {
                (self.slots, self.start) = (Default::default(), None);
                (settings, Encoder::new(&self.library, &settings)?)
            }
        };
        Ok(&mut self.encoder.insert(made).1)
    }

    /// The slot and the name of a grey picture, coded as a key frame. All other states lose their slots.
    fn start(&mut self, settings: EncoderSettings) -> Result<(u8, StateId), Av1Error> {
        if let Some(Start { written, .. }) = &self.start {
            return Ok((written.slot, written.name));
        }
        let samples = vec![GREY; Picture::i420_length(settings.width, settings.height)];
        let Ok(grey) = Picture::from_i420(settings.width, settings.height, samples) else {
            return Err(Av1Error::Size(settings.width, settings.height));
        };
        let encoder = self.encoder(settings)?;
        let unit = encoder.encode_key(&grey, START_QUANTIZER)?.data;
        let reconstruction = encoder.reconstruction()?;
        self.slots = Default::default();
        let (slot, name) = (0, target_name(StateId::EMPTY, &unit, &reconstruction));
        self.start = Some(Start { unit, written: self.write(slot, name, reconstruction) });
        Ok((slot, name))
    }

    /// Codes a picture from the state `source`; without it, or if its slot was overwritten, from a grey picture. Returns
    /// the frame and the state that it leads to.
    pub(crate) fn encode(
        &mut self,
        picture: &Picture,
        source: Option<&Arc<WrittenSlot>>,
        speed: u8,
        quantizer: u8,
    ) -> Result<(Vec<u8>, Arc<WrittenSlot>), Av1Error> {
        let (width, height) = (picture.width(), picture.height());
        let settings = EncoderSettings { width, height, tools: Tools::default(), named_slots: true };
        self.encoder(settings)?.set_speed(speed)?;
        let source = source.and_then(|source| Some((self.slot_of(source)?, source.name)));
        let (base, source_name) = match source {
            Some(source) => {
                self.start = None;
                source
            }
            None => self.start(settings)?,
        };
        let slot = self.next_slot(base);
        let coding = Coding { base, second: None, writes: Some(slot), quantizer };
        let encoder = self.encoder(settings)?;
        let coded = encoder.encode(picture, &coding)?;
        let reconstruction = encoder.reconstruction()?;
        self.serial = self.serial.wrapping_add(1);
        let mut frame = self.serial.to_le_bytes().to_vec();
        frame.extend(self.start.iter().flat_map(|start| &start.unit));
        frame.extend_from_slice(&coded.data);
        let name = target_name(source_name, &coded.data, &reconstruction);
        let written = self.write(slot, name, reconstruction);
        Ok((frame, written))
    }
}
