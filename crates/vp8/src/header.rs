//! The frame header (RFC 6386, sections 9 and 19.2).

use crate::bool_decoder::BoolDecoder;
use crate::decode_error::DecodeError;
use crate::probabilities::Probabilities;
use crate::tables::{COEFFICIENT_UPDATE_PROBABILITIES, MOTION_VECTOR_UPDATE_PROBABILITIES};

/// The uncompressed data chunk at the start of a frame (section 9.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameTag {
    pub(crate) key_frame: bool,
    pub(crate) version: u8,
    pub(crate) shown: bool,
    pub(crate) first_partition: usize,
    /// Picture size; `None` for interframes.
    pub(crate) size: Option<FrameSize>,
}

/// Picture size, valid from a key frame on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct FrameSize {
    pub(crate) width: u16,
    pub(crate) height: u16,
    /// Upscaling for display: 0 none, 1 by 5/4, 2 by 5/3, 3 by 2. Decoding ignores it.
    pub(crate) horizontal_scale: u8,
    pub(crate) vertical_scale: u8,
}

/// Length in bytes of the frame tag, and of the tag with start code and size of a key frame.
pub(crate) const TAG_LENGTH: usize = 3;
pub(crate) const KEY_FRAME_TAG_LENGTH: usize = 10;
/// Start code of a key frame, after the tag.
pub(crate) const START_CODE: [u8; 3] = [0x9d, 0x01, 0x2a];

impl FrameTag {
    /// Parses the tag. Returns it and the rest of the frame.
    pub(crate) fn parse(frame: &[u8]) -> Result<(Self, &[u8]), DecodeError> {
        let Some((tag, rest)) = frame.split_first_chunk::<TAG_LENGTH>() else {
            return Err(DecodeError::Truncated { expected: TAG_LENGTH, actual: frame.len() });
        };
        let bits = u32::from_le_bytes([tag[0], tag[1], tag[2], 0]);
        let key_frame = bits & 1 == 0;
        let mut tag = Self {
            key_frame,
            version: (bits >> 1 & 7) as u8,
            shown: bits >> 4 & 1 == 1,
            first_partition: (bits >> 5) as usize,
            size: None,
        };
        if !key_frame {
            return Ok((tag, rest));
        }
        let Some((fields, rest)) = rest.split_first_chunk::<7>() else {
            return Err(DecodeError::Truncated { expected: KEY_FRAME_TAG_LENGTH, actual: frame.len() });
        };
        if fields[..3] != START_CODE {
            return Err(DecodeError::StartCode([fields[0], fields[1], fields[2]]));
        }
        let (horizontal, vertical) =
            (u16::from_le_bytes([fields[3], fields[4]]), u16::from_le_bytes([fields[5], fields[6]]));
        let size = FrameSize {
            width: horizontal & 0x3fff,
            height: vertical & 0x3fff,
            horizontal_scale: (horizontal >> 14) as u8,
            vertical_scale: (vertical >> 14) as u8,
        };
        if size.width == 0 || size.height == 0 {
            return Err(DecodeError::EmptySize { width: size.width, height: size.height });
        }
        tag.size = Some(size);
        Ok((tag, rest))
    }
}

/// Segments of macroblocks with separate quantizers and filter levels (section 9.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Segmentation {
    pub(crate) enabled: bool,
    /// Whether each macroblock header of this frame has a segment number.
    pub(crate) update_map: bool,
    /// Whether this frame changes the values below.
    pub(crate) update_data: bool,
    /// Whether the values replace the frame's values instead of being added to them.
    pub(crate) absolute: bool,
    pub(crate) quantizers: [i8; 4],
    pub(crate) filter_levels: [i8; 4],
    pub(crate) tree_probabilities: [u8; 3],
}

impl Segmentation {
    /// The part that later frames inherit: everything except the flags and probabilities of one frame's map.
    pub(crate) fn inheritable(self) -> Self {
        Self { update_map: false, update_data: false, tree_probabilities: [0; 3], ..self }
    }
}

/// Adjustments of the filter level by reference frame and mode (section 9.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LoopFilterDeltas {
    pub(crate) enabled: bool,
    pub(crate) references: [i8; 4],
    pub(crate) modes: [i8; 4],
}

/// Loop filter parameters of a frame (section 9.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LoopFilterHeader {
    pub(crate) simple: bool,
    pub(crate) level: u8,
    pub(crate) sharpness: u8,
}

/// Quantizer index of a frame, and offsets for the types of coefficients (section 9.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct QuantizerIndices {
    pub(crate) base: u8,
    pub(crate) luma_dc: i8,
    pub(crate) second_order_dc: i8,
    pub(crate) second_order_ac: i8,
    pub(crate) chroma_dc: i8,
    pub(crate) chroma_ac: i8,
}

/// Buffer that is copied to the golden or altref frame if the frame does not refresh it (section 9.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum BufferCopy {
    #[default]
    None,
    Last,
    /// Altref for the golden frame, golden for the altref frame.
    Other,
}

impl BufferCopy {
    fn from_bits(bits: u32) -> Result<Self, DecodeError> {
        match bits {
            0 => Ok(Self::None),
            1 => Ok(Self::Last),
            2 => Ok(Self::Other),
            _ => Err(DecodeError::ReferenceCopy),
        }
    }

    /// The two bits in the header.
    pub(crate) fn bits(self) -> u32 {
        match self {
            Self::None => 0,
            Self::Last => 1,
            Self::Other => 2,
        }
    }
}

/// Updates of the reference frames (section 9.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ReferenceUpdates {
    pub(crate) refresh_golden: bool,
    pub(crate) refresh_altref: bool,
    pub(crate) copy_to_golden: BufferCopy,
    pub(crate) copy_to_altref: BufferCopy,
    pub(crate) golden_sign_bias: bool,
    pub(crate) altref_sign_bias: bool,
    pub(crate) refresh_last: bool,
}

/// The frame header after the tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub(crate) color_space: bool,
    pub(crate) clamping_unneeded: bool,
    pub(crate) segmentation: Segmentation,
    pub(crate) loop_filter: LoopFilterHeader,
    pub(crate) loop_filter_deltas: LoopFilterDeltas,
    /// Base-two logarithm of the number of coefficient partitions.
    pub(crate) partitions_log2: u8,
    pub(crate) quantizer: QuantizerIndices,
    pub(crate) references: ReferenceUpdates,
    /// Whether later frames inherit this frame's probabilities.
    pub(crate) refresh_entropy: bool,
    pub(crate) probabilities: Probabilities,
    /// Probability that a macroblock has coefficients; `None` if macroblocks have no skip flag.
    pub(crate) skip_probability: Option<u8>,
    pub(crate) intra_probability: u8,
    pub(crate) last_probability: u8,
    pub(crate) golden_probability: u8,
}

/// What a header inherits from the source state.
#[derive(Debug, Clone)]
pub(crate) struct Inherited {
    pub(crate) segmentation: Segmentation,
    pub(crate) loop_filter_deltas: LoopFilterDeltas,
    pub(crate) probabilities: Probabilities,
    pub(crate) golden_sign_bias: bool,
    pub(crate) altref_sign_bias: bool,
}

impl FrameHeader {
    /// Parses the header from the first partition.
    pub(crate) fn parse(
        key_frame: bool,
        reader: &mut BoolDecoder<'_>,
        inherited: &Inherited,
    ) -> Result<Self, DecodeError> {
        let (color_space, clamping_unneeded) =
            if key_frame { (reader.read_flag(), reader.read_flag()) } else { (false, false) };
        let segmentation = parse_segmentation(reader, &inherited.segmentation);
        let loop_filter = LoopFilterHeader {
            simple: reader.read_flag(),
            level: reader.read_literal(6) as u8,
            sharpness: reader.read_literal(3) as u8,
        };
        let loop_filter_deltas = parse_deltas(reader, &inherited.loop_filter_deltas);
        let partitions_log2 = reader.read_literal(2) as u8;
        let quantizer = parse_quantizer(reader);
        let mut references = ReferenceUpdates {
            refresh_golden: true,
            refresh_altref: true,
            refresh_last: true,
            golden_sign_bias: inherited.golden_sign_bias,
            altref_sign_bias: inherited.altref_sign_bias,
            ..ReferenceUpdates::default()
        };
        let refresh_entropy;
        if key_frame {
            refresh_entropy = reader.read_flag();
        } else {
            references.refresh_golden = reader.read_flag();
            references.refresh_altref = reader.read_flag();
            if !references.refresh_golden {
                references.copy_to_golden = BufferCopy::from_bits(reader.read_literal(2))?;
            }
            if !references.refresh_altref {
                references.copy_to_altref = BufferCopy::from_bits(reader.read_literal(2))?;
            }
            references.golden_sign_bias = reader.read_flag();
            references.altref_sign_bias = reader.read_flag();
            refresh_entropy = reader.read_flag();
            references.refresh_last = reader.read_flag();
        }
        let mut probabilities = inherited.probabilities.clone();
        update_coefficients(reader, &mut probabilities);
        let skip_probability = reader.read_flag().then(|| reader.read_literal(8) as u8);
        let (mut intra_probability, mut last_probability, mut golden_probability) = (0, 0, 0);
        if !key_frame {
            intra_probability = reader.read_literal(8) as u8;
            last_probability = reader.read_literal(8) as u8;
            golden_probability = reader.read_literal(8) as u8;
            if reader.read_flag() {
                probabilities.luma_modes = std::array::from_fn(|_| reader.read_literal(8) as u8);
            }
            if reader.read_flag() {
                probabilities.chroma_modes = std::array::from_fn(|_| reader.read_literal(8) as u8);
            }
            update_motion_vectors(reader, &mut probabilities);
        }
        Ok(Self {
            color_space,
            clamping_unneeded,
            segmentation,
            loop_filter,
            loop_filter_deltas,
            partitions_log2,
            quantizer,
            references,
            refresh_entropy,
            probabilities,
            skip_probability,
            intra_probability,
            last_probability,
            golden_probability,
        })
    }
}

fn parse_segmentation(reader: &mut BoolDecoder<'_>, inherited: &Segmentation) -> Segmentation {
    let mut segmentation = Segmentation { update_map: false, update_data: false, ..*inherited };
    segmentation.enabled = reader.read_flag();
    if !segmentation.enabled {
        return segmentation;
    }
    segmentation.update_map = reader.read_flag();
    segmentation.update_data = reader.read_flag();
    if segmentation.update_data {
        segmentation.absolute = reader.read_flag();
        segmentation.quantizers = std::array::from_fn(|_| reader.read_optional_signed(7).unwrap_or(0) as i8);
        segmentation.filter_levels = std::array::from_fn(|_| reader.read_optional_signed(6).unwrap_or(0) as i8);
    }
    if segmentation.update_map {
        segmentation.tree_probabilities =
            std::array::from_fn(|_| if reader.read_flag() { reader.read_literal(8) as u8 } else { 255 });
    }
    segmentation
}

fn parse_deltas(reader: &mut BoolDecoder<'_>, inherited: &LoopFilterDeltas) -> LoopFilterDeltas {
    let mut deltas = LoopFilterDeltas { enabled: reader.read_flag(), ..*inherited };
    if deltas.enabled && reader.read_flag() {
        for delta in deltas.references.iter_mut().chain(&mut deltas.modes) {
            if let Some(value) = reader.read_optional_signed(6) {
                *delta = value as i8;
            }
        }
    }
    deltas
}

fn parse_quantizer(reader: &mut BoolDecoder<'_>) -> QuantizerIndices {
    let base = reader.read_literal(7) as u8;
    let mut delta = || reader.read_optional_signed(4).unwrap_or(0) as i8;
    QuantizerIndices {
        base,
        luma_dc: delta(),
        second_order_dc: delta(),
        second_order_ac: delta(),
        chroma_dc: delta(),
        chroma_ac: delta(),
    }
}

fn update_coefficients(reader: &mut BoolDecoder<'_>, probabilities: &mut Probabilities) {
    let updates = COEFFICIENT_UPDATE_PROBABILITIES.as_flattened().as_flattened().as_flattened();
    let coefficients = probabilities.coefficients.as_flattened_mut().as_flattened_mut().as_flattened_mut();
    for (probability, &update) in coefficients.iter_mut().zip(updates) {
        if reader.read_bool(update) {
            *probability = reader.read_literal(8) as u8;
        }
    }
}

fn update_motion_vectors(reader: &mut BoolDecoder<'_>, probabilities: &mut Probabilities) {
    let updates = MOTION_VECTOR_UPDATE_PROBABILITIES.as_flattened();
    for (probability, &update) in probabilities.motion_vectors.as_flattened_mut().iter_mut().zip(updates) {
        if reader.read_bool(update) {
            let value = reader.read_literal(7) as u8;
            *probability = if value == 0 { 1 } else { value << 1 };
        }
    }
}
