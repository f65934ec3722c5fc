//! The fields of AV1 frame headers that name slots.
//!
//! A reader of sections 5.5 and 5.9 of the AV1 specification, up to `disable_frame_end_update_cdf`. It reads streams
//! without frame numbers, decoder models and frames of other sizes, as libaom writes them for a call.

/// Number of reference slots of an AV1 decoder.
pub const SLOTS: u8 = 8;

/// Why a header cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// The data ends within a header.
    #[error("truncated OBU")]
    Truncated,
    /// No frame is in the data.
    #[error("no frame in the temporal unit")]
    NoFrame,
    /// A frame came before the first sequence header.
    #[error("frame without a sequence header")]
    NoSequence,
    /// The header uses a part of the format that this reader does not know.
    #[error("unsupported field {0}")]
    Unsupported(&'static str),
}

/// Type of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind {
    /// A key frame: it resets all slots.
    Key,
    /// A frame that may read slots.
    Inter,
    /// A frame that reads no slot.
    IntraOnly,
    /// A switch frame.
    Switch,
}

/// Fields of a sequence header on which the layout of frame headers depends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sequence {
    /// Picture width in luma samples.
    pub width: u32,
    /// Picture height in luma samples.
    pub height: u32,
    /// Bits of an order hint; 0 if frames have none.
    pub order_hint_bits: u32,
    /// Whether frames may use motion vectors of reference frames (`enable_ref_frame_mvs`).
    pub reference_vectors: bool,
    /// Value of `seq_force_screen_content_tools`; 2 means that frames choose.
    screen_content_tools: u32,
    /// Value of `seq_force_integer_mv`; 2 means that frames choose.
    integer_vectors: u32,
    superres: bool,
}

/// Fields of a frame header that name slots, or depend on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// Type of the frame.
    pub kind: FrameKind,
    /// Whether the decoder displays the frame (`show_frame`).
    pub shown: bool,
    /// Whether the frame reads no state of other frames but their pictures (`error_resilient_mode`).
    pub error_resilient: bool,
    /// Low bits of the frame's place in display order (`order_hint`).
    pub order_hint: u32,
    /// Slot of the probabilities, loop filter deltas and segmentation that the frame starts from
    /// (`primary_ref_frame`). `None`: from the defaults.
    pub context: Option<u8>,
    /// Bit `n` is set if the frame writes slot `n` (`refresh_frame_flags`).
    pub written: u8,
    /// Whether a decoder derives the references from the order hints of all slots (`frame_refs_short_signaling`).
    pub short_references: bool,
    /// Slots of the seven references (`ref_frame_idx`). A frame need not use all of them for prediction.
    pub references: [u8; 7],
    /// Whether motion vectors of reference frames are used (`use_ref_frame_mvs`).
    pub reference_vectors: bool,
    /// Whether the written slots receive adapted probabilities (`!disable_frame_end_update_cdf`).
    pub adapts: bool,
}

/// Bits of an OBU, most significant first.
struct Bits<'a> {
    data: &'a [u8],
    at: usize,
}

impl Bits<'_> {
    fn read(&mut self, count: u32) -> Result<u32, HeaderError> {
        let mut value = 0;
        for _ in 0..count {
            let byte = *self.data.get(self.at / 8).ok_or(HeaderError::Truncated)?;
            value = value << 1 | u32::from(byte >> (7 - self.at % 8) & 1);
            self.at += 1;
        }
        Ok(value)
    }

    fn flag(&mut self) -> Result<bool, HeaderError> {
        Ok(self.read(1)? == 1)
    }

    /// Reads a flag that must be clear.
    fn expect_clear(&mut self, field: &'static str) -> Result<(), HeaderError> {
        if self.flag()? { Err(HeaderError::Unsupported(field)) } else { Ok(()) }
    }
}

/// An OBU: its type, its payload, and the bytes that follow it.
type Obu<'a> = (u8, &'a [u8], &'a [u8]);

/// The first OBU of `data`; none at its end.
fn first_obu(data: &[u8]) -> Result<Option<Obu<'_>>, HeaderError> {
    let Some(&first) = data.first() else { return Ok(None) };
    let (kind, extended, sized) = (first >> 3 & 15, first & 4 != 0, first & 2 != 0);
    if !sized {
        return Err(HeaderError::Unsupported("OBU without a size"));
    }
    let mut at = if extended { 2 } else { 1 };
    let (mut length, mut shift) = (0_usize, 0);
    loop {
        let byte = *data.get(at).ok_or(HeaderError::Truncated)?;
        length |= usize::from(byte & 127) << shift;
        (at, shift) = (at + 1, shift + 7);
        if byte & 128 == 0 || shift > 28 {
            break;
        }
    }
    let (payload, rest) =
        data.get(at..).and_then(|rest| rest.split_at_checked(length)).ok_or(HeaderError::Truncated)?;
    Ok(Some((kind, payload, rest)))
}

/// Splits temporal units that follow each other.
///
/// # Errors
/// If an OBU is truncated or has no size.
pub fn temporal_units(data: &[u8]) -> Result<Vec<&[u8]>, HeaderError> {
    let (mut units, mut begun, mut rest) = (Vec::new(), 0, data);
    while let Some((kind, _, after)) = first_obu(rest)? {
        let at = data.len() - rest.len();
        if kind == TEMPORAL_DELIMITER && at > begun {
            units.push(&data[begun..at]);
            begun = at;
        }
        rest = after;
    }
    units.push(&data[begun..]);
    Ok(units)
}

/// `OBU_SEQUENCE_HEADER`, `OBU_TEMPORAL_DELIMITER`, `OBU_FRAME_HEADER` and `OBU_FRAME`.
const SEQUENCE_HEADER: u8 = 1;
const TEMPORAL_DELIMITER: u8 = 2;
const FRAME_HEADER: u8 = 3;
const FRAME: u8 = 6;

impl Sequence {
    fn read(payload: &[u8]) -> Result<Self, HeaderError> {
        let mut bits = Bits { data: payload, at: 0 };
        bits.read(4)?; // seq_profile, still_picture
        bits.expect_clear("reduced_still_picture_header")?;
        bits.expect_clear("timing_info_present_flag")?;
        bits.expect_clear("initial_display_delay_present_flag")?;
        for _ in 0..=bits.read(5)? {
            bits.read(12)?; // operating_point_idc
            if bits.read(5)? > 7 {
                bits.read(1)?; // seq_tier
            }
        }
        let (width_bits, height_bits) = (bits.read(4)? + 1, bits.read(4)? + 1);
        let (width, height) = (bits.read(width_bits)? + 1, bits.read(height_bits)? + 1);
        bits.expect_clear("frame_id_numbers_present_flag")?;
        bits.read(3)?; // use_128x128_superblock, enable_filter_intra, enable_intra_edge_filter
        bits.read(4)?; // enable_interintra_compound, masked_compound, warped_motion, dual_filter
        let order_hints = bits.flag()?;
        let mut reference_vectors = false;
        if order_hints {
            bits.read(1)?; // enable_jnt_comp
            reference_vectors = bits.flag()?;
        }
        let screen_content_tools = if bits.flag()? { 2 } else { bits.read(1)? };
        let integer_vectors = if screen_content_tools == 0 || bits.flag()? { 2 } else { bits.read(1)? };
        let order_hint_bits = if order_hints { bits.read(3)? + 1 } else { 0 };
        let superres = bits.flag()?;
        Ok(Self { width, height, order_hint_bits, reference_vectors, screen_content_tools, integer_vectors, superres })
    }
}

impl FrameHeader {
    /// Reads the header of the only frame in a temporal unit. `sequence` is replaced by the unit's sequence header.
    ///
    /// # Errors
    /// If the unit has no frame. If a header is truncated, or uses a part of AV1 that this reader does not know.
    pub fn read(unit: &[u8], sequence: &mut Option<Sequence>) -> Result<Self, HeaderError> {
        let mut rest = unit;
        while let Some((kind, payload, after)) = first_obu(rest)? {
            match kind {
                SEQUENCE_HEADER => *sequence = Some(Sequence::read(payload)?),
                FRAME | FRAME_HEADER => {
                    return Self::of(payload, sequence.as_ref().ok_or(HeaderError::NoSequence)?);
                }
                _ => {}
            }
            rest = after;
        }
        Err(HeaderError::NoFrame)
    }

    fn of(payload: &[u8], sequence: &Sequence) -> Result<Self, HeaderError> {
        let mut bits = Bits { data: payload, at: 0 };
        bits.expect_clear("show_existing_frame")?;
        let kind = match bits.read(2)? {
            0 => FrameKind::Key,
            1 => FrameKind::Inter,
            2 => FrameKind::IntraOnly,
            _ => FrameKind::Switch,
        };
        let shown = bits.flag()?;
        if !shown {
            bits.read(1)?; // showable_frame
        }
        let resets = kind == FrameKind::Switch || kind == FrameKind::Key && shown;
        let error_resilient = resets || bits.flag()?;
        let fixed_probabilities = bits.flag()?;
        let screen_content_tools =
            if sequence.screen_content_tools == 2 { bits.flag()? } else { sequence.screen_content_tools == 1 };
        let integer_vectors = screen_content_tools
            && if sequence.integer_vectors == 2 { bits.flag()? } else { sequence.integer_vectors == 1 };
        if kind == FrameKind::Switch {
            return Err(HeaderError::Unsupported("frame_type of a switch frame"));
        }
        bits.expect_clear("frame_size_override_flag")?;
        let order_hint = bits.read(sequence.order_hint_bits)?;
        let intra = matches!(kind, FrameKind::Key | FrameKind::IntraOnly);
        let primary = if intra || error_resilient { 7 } else { bits.read(3)? as usize };
        let written = if resets { 0xff } else { bits.read(8)? as u8 };
        if (!intra || written != 0xff) && error_resilient && sequence.order_hint_bits > 0 {
            for _ in 0..SLOTS {
                bits.read(sequence.order_hint_bits)?;
            }
        }
        let mut header = Self {
            kind,
            shown,
            error_resilient,
            order_hint,
            context: None,
            written,
            short_references: false,
            references: [0; 7],
            reference_vectors: false,
            adapts: false,
        };
        if intra {
            return Ok(header);
        }
        header.short_references = sequence.order_hint_bits > 0 && bits.flag()?;
        if header.short_references {
            let (last, golden) = (bits.read(3)? as u8, bits.read(3)? as u8);
            // The decoder derives the others.
            header.references = [last, u8::MAX, u8::MAX, golden, u8::MAX, u8::MAX, u8::MAX];
        } else {
            for slot in &mut header.references {
                *slot = bits.read(3)? as u8;
            }
        }
        header.context = header.references.get(primary).copied();
        if sequence.superres {
            bits.expect_clear("use_superres")?;
        }
        bits.expect_clear("render_and_frame_size_different")?;
        if !integer_vectors {
            bits.read(1)?; // allow_high_precision_mv
        }
        if !bits.flag()? {
            bits.read(2)?; // interpolation_filter
        }
        bits.read(1)?; // is_motion_mode_switchable
        header.reference_vectors = !error_resilient && sequence.reference_vectors && bits.flag()?;
        header.adapts = !fixed_probabilities && !bits.flag()?;
        Ok(header)
    }
}

#[cfg(test)]
mod tests {
    use lockstep_units::random::mix;

    use super::*;

    #[test]
    fn damaged_units_return_errors_or_headers() {
        let mut sequence = None;
        for seed in 0..20_000 {
            let length = mix(seed, 0) as usize % 24;
            let mut unit: Vec<u8> = (1..=length as u64).map(|at| mix(seed, at) as u8).collect();
            for (at, kind) in [(0, SEQUENCE_HEADER), (8, FRAME)] {
                if let Some([header, size]) = unit.get_mut(at..at + 2) {
                    (*header, *size) = (kind << 3 | 2, *size % 9);
                }
            }
            let _ = FrameHeader::read(&unit, &mut sequence);
        }
        assert!(sequence.is_some(), "no random sequence header was valid");
    }

    #[test]
    fn truncated_and_missing_headers_are_named() {
        let read = |unit: &[u8]| FrameHeader::read(unit, &mut None);
        assert_eq!(read(&[]), Err(HeaderError::NoFrame));
        assert_eq!(read(&[FRAME << 3 | 2, 0]), Err(HeaderError::NoSequence));
        assert_eq!(read(&[FRAME << 3 | 2, 5, 1]), Err(HeaderError::Truncated));
        assert_eq!(read(&[FRAME << 3, 1]), Err(HeaderError::Unsupported("OBU without a size")));
    }
}
