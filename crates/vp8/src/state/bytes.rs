//! Serialisation of states: [`State::to_bytes`] and [`State::from_bytes`].
//!
//! The format, with little-endian numbers:
//!
//! 1. `LSV8`, the version of the format (2)
//! 2. Whether the frame is shown, whether there are references, the frame's quantizer index
//! 3. The parameters, the probabilities
//! 4. The number of macroblocks in the segment map (32 bits), the map
//! 5. The index of the last, golden and altref frame in the list of frames
//! 6. The number of frames; for each frame its macroblock-aligned planes
//! 7. The state's hash (64 bits)

use std::sync::Arc;

use super::{Contents, References, State};
use crate::frame::{Frame, FrameBuffer, FrameLayout};
use crate::header::{FrameSize, LoopFilterDeltas, Segmentation};
use crate::picture::MAX_DIMENSION;
use crate::probabilities::Probabilities;
use crate::quantization::MAX_QUANTIZER;
use crate::state_error::StateError;

const FORM: [u8; 5] = *b"LSV8\x02";

struct Reader<'a> {
    rest: &'a [u8],
    length: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], StateError> {
        let (bytes, rest) = self.rest.split_at_checked(count).ok_or(StateError::Truncated(self.length))?;
        self.rest = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], StateError> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(StateError::Truncated(self.length))?;
        self.rest = rest;
        Ok(*bytes)
    }

    fn byte(&mut self) -> Result<u8, StateError> {
        self.array().map(|[byte]| byte)
    }

    fn flag(&mut self, field: &'static str) -> Result<bool, StateError> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(StateError::Field(field)),
        }
    }

    fn signed<const N: usize>(&mut self) -> Result<[i8; N], StateError> {
        self.array::<N>().map(|bytes| bytes.map(|byte| byte as i8))
    }
}

impl State {
    /// Serialises the state. The length is about the number of samples in its distinct reference frames.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let contents = self.contents();
        let mut frames: Vec<&Frame> = Vec::new();
        let mut places = [0u8; 3];
        if let Some(references) = &contents.references {
            for (place, reference) in places.iter_mut().zip(references.all()) {
                let known = frames.iter().position(|frame| frame.is(reference));
                *place = known.unwrap_or(frames.len()) as u8;
                if known.is_none() {
                    frames.push(reference);
                }
            }
        }
        let mut bytes = FORM.to_vec();
        bytes.extend([contents.shown, contents.references.is_some()].map(u8::from));
        bytes.push(contents.quantizer);
        bytes.extend(contents.parameters());
        bytes.extend(contents.probabilities.to_bytes());
        bytes.extend((contents.segment_map.len() as u32).to_le_bytes());
        bytes.extend(&*contents.segment_map);
        bytes.extend(places);
        bytes.push(frames.len() as u8);
        for frame in frames {
            for row in frame.rows() {
                bytes.extend_from_slice(row);
            }
        }
        bytes.extend(self.id().to_le_bytes());
        bytes
    }

    /// Restores a state from the result of [`State::to_bytes`].
    ///
    /// # Errors
    /// If the bytes are not a complete, unchanged state. Allocations are limited to a small multiple of the input's
    /// length.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, StateError> {
        let mut reader = Reader { rest: bytes, length: bytes.len() };
        if reader.array::<5>()? != FORM {
            return Err(StateError::Form);
        }
        let shown = reader.flag("shown flag")?;
        let has_references = reader.flag("references flag")?;
        let quantizer = reader.byte()?;
        if quantizer > MAX_QUANTIZER {
            return Err(StateError::Field("quantizer"));
        }
        let mut contents = read_parameters(&mut reader)?;
        (contents.shown, contents.quantizer) = (shown, quantizer);
        contents.probabilities =
            Probabilities::from_bytes(reader.take(Probabilities::LENGTH)?).ok_or(StateError::Field("probability"))?;
        let (width, height) = (usize::from(contents.size.width), usize::from(contents.size.height));
        let macroblocks = width.div_ceil(16) * height.div_ceil(16);
        let count = u32::from_le_bytes(reader.array()?) as usize;
        if count != 0 && count != macroblocks {
            return Err(StateError::Field("segment map size"));
        }
        let map = reader.take(count)?;
        if map.iter().any(|&segment| segment > 3) {
            return Err(StateError::Field("segment"));
        }
        contents.segment_map = Arc::from(map);
        contents.references = read_references(&mut reader, has_references, width, height)?;
        let expected = u64::from_le_bytes(reader.array()?);
        if !reader.rest.is_empty() {
            return Err(StateError::Excess(reader.rest.len()));
        }
        let state = Self::new(contents);
        let actual = state.id();
        if actual == expected { Ok(state) } else { Err(StateError::Hash { expected, actual }) }
    }
}

/// Inverse of [`Contents::parameters`].
fn read_parameters(reader: &mut Reader<'_>) -> Result<Contents, StateError> {
    let size = FrameSize {
        width: u16::from_le_bytes(reader.array()?),
        height: u16::from_le_bytes(reader.array()?),
        horizontal_scale: reader.byte()?,
        vertical_scale: reader.byte()?,
    };
    if size.width > MAX_DIMENSION || size.height > MAX_DIMENSION {
        return Err(StateError::Field("size"));
    }
    if size.horizontal_scale > 3 || size.vertical_scale > 3 {
        return Err(StateError::Field("scaling"));
    }
    let version = reader.byte()?;
    if version > 7 {
        return Err(StateError::Field("version"));
    }
    let segmentation = Segmentation {
        enabled: reader.flag("segmentation flag")?,
        absolute: reader.flag("segmentation flag")?,
        quantizers: reader.signed()?,
        filter_levels: reader.signed()?,
        ..Segmentation::default()
    };
    let loop_filter_deltas = LoopFilterDeltas {
        enabled: reader.flag("loop filter flag")?,
        references: reader.signed()?,
        modes: reader.signed()?,
    };
    Ok(Contents {
        size,
        version,
        segmentation,
        loop_filter_deltas,
        golden_sign_bias: reader.flag("sign bias")?,
        altref_sign_bias: reader.flag("sign bias")?,
        ..Contents::default()
    })
}

fn read_references(
    reader: &mut Reader<'_>,
    expected: bool,
    width: usize,
    height: usize,
) -> Result<Option<References>, StateError> {
    let places: [u8; 3] = reader.array()?;
    let count = reader.byte()?;
    if !expected {
        return if count == 0 && places == [0; 3] { Ok(None) } else { Err(StateError::Field("frame count")) };
    }
    if !(1..=3).contains(&count) || places.iter().any(|&place| place >= count) {
        return Err(StateError::Field("frame count"));
    }
    if width == 0 || height == 0 {
        return Err(StateError::Field("size"));
    }
    let layout = FrameLayout::new(width, height);
    let samples = layout.planes.iter().map(|plane| plane.width * plane.height).sum();
    let frames = (0..count)
        .map(|_| {
            // Taking the samples first ensures that a buffer is allocated only if they exist.
            let mut samples = reader.take(samples)?;
            let mut buffer = FrameBuffer::new(layout);
            for plane in layout.planes {
                for row in buffer.samples_mut()[plane.origin..].chunks_mut(plane.stride).take(plane.height) {
                    let (from, rest) = samples.split_at(plane.width);
                    row[..plane.width].copy_from_slice(from);
                    samples = rest;
                }
            }
            Ok(buffer.finish())
        })
        .collect::<Result<Vec<_>, StateError>>()?;
    let [last, golden, altref] = places.map(|place| frames[usize::from(place)].clone());
    Ok(Some(References { last, golden, altref }))
}
