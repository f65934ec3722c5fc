//! Parsing of the modes and motion vectors of all macroblocks (RFC 6386, sections 10, 11, 16 and 17).

use crate::bool_decoder::BoolDecoder;
use crate::frame::FrameLayout;
use crate::header::FrameHeader;
use crate::macroblock::{LumaMode, MacroblockInfo, ReferenceFrame, SubblockMode};
use crate::motion_vector::{MotionVector, VectorBounds};
use crate::neighbours::{
    NearVectors, SignBiases, find_near_vectors, first_subblock, key_subblock_probabilities, neighbouring_vectors,
    partition_vector_context,
};
use crate::tables::{
    CHROMA_MODE_TREE, DEFAULT_SUBBLOCK_MODE_PROBABILITIES, KEY_FRAME_CHROMA_MODE_PROBABILITIES,
    KEY_FRAME_LUMA_MODE_PROBABILITIES, KEY_FRAME_LUMA_MODE_TREE, LUMA_MODE_TREE, PARTITION_COUNTS, PARTITION_LAYOUTS,
    PARTITION_VECTOR_PROBABILITIES, PARTITION_VECTOR_TREE, PARTITIONING_PROBABILITIES, PARTITIONING_TREE, SEGMENT_TREE,
    SHORT_VECTOR_TREE, SUBBLOCK_MODE_TREE,
};

struct ModeReader<'a, 'b> {
    /// A copy lets its state stay in registers.
    reader: BoolDecoder<'b>,
    header: &'a FrameHeader,
    sign_biases: SignBiases,
}

/// Parses the header of every macroblock, row by row.
///
/// `segments` is the segment map of earlier frames, or empty. `macroblocks` is an empty vector to fill.
pub(super) fn read_modes(
    reader: &BoolDecoder<'_>,
    header: &FrameHeader,
    key_frame: bool,
    layout: &FrameLayout,
    segments: &[u8],
    mut macroblocks: Vec<MacroblockInfo>,
) -> Vec<MacroblockInfo> {
    macroblocks.resize(layout.columns * layout.rows, MacroblockInfo::default());
    versions::read(reader, header, key_frame, layout, segments, &mut macroblocks);
    macroblocks
}

/// [`read`] compiled twice: for every processor, and for those with bit-manipulation instructions.
mod versions {
    #![allow(unsafe_code)]

    use super::{BoolDecoder, FrameHeader, FrameLayout, MacroblockInfo};

    pub(super) fn read(
        reader: &BoolDecoder<'_>,
        header: &FrameHeader,
        key_frame: bool,
        layout: &FrameLayout,
        segments: &[u8],
        macroblocks: &mut [MacroblockInfo],
    ) {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("lzcnt") && is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("bmi2") {
            // SAFETY: the processor has these instructions.
            return unsafe { with_bit_instructions(reader, header, key_frame, layout, segments, macroblocks) };
        }
        super::read(reader, header, key_frame, layout, segments, macroblocks);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "lzcnt,bmi1,bmi2")]
    fn with_bit_instructions(
        reader: &BoolDecoder<'_>,
        header: &FrameHeader,
        key_frame: bool,
        layout: &FrameLayout,
        segments: &[u8],
        macroblocks: &mut [MacroblockInfo],
    ) {
        super::read(reader, header, key_frame, layout, segments, macroblocks);
    }
}

/// [`read_modes`] into `macroblocks`, which has one default element per macroblock of the frame.
#[inline(always)]
fn read(
    reader: &BoolDecoder<'_>,
    header: &FrameHeader,
    key_frame: bool,
    layout: &FrameLayout,
    segments: &[u8],
    macroblocks: &mut [MacroblockInfo],
) {
    let sign_biases = [false, false, header.references.golden_sign_bias, header.references.altref_sign_bias];
    let mut modes = ModeReader { reader: reader.clone(), header, sign_biases };
    let columns = layout.columns;
    for row in 0..layout.rows {
        for column in 0..columns {
            let index = row * columns + column;
            let (done, rest) = macroblocks.split_at_mut(index);
            let info = &mut rest[0];
            let neighbour = |inside: bool, distance: usize| {
                if inside { &done[index - distance] } else { &MacroblockInfo::OUTSIDE }
            };
            let above = neighbour(row > 0, columns);
            let left = neighbour(column > 0, 1);
            if header.segmentation.enabled {
                info.segment = if header.segmentation.update_map {
                    modes.reader.read_tree(&SEGMENT_TREE, &header.segmentation.tree_probabilities)
                } else {
                    segments.get(index).copied().unwrap_or(0)
                };
            }
            info.skip = header.skip_probability.is_some_and(|probability| modes.reader.read_bool(probability));
            if key_frame {
                modes.key_frame_modes(info, above, left);
            } else if modes.reader.read_bool(header.intra_probability) {
                let above_left = neighbour(row > 0 && column > 0, columns + 1);
                let bounds = VectorBounds::at(column, row, columns, layout.rows);
                modes.inter_modes(info, above, left, above_left, &bounds);
            } else {
                modes.intra_modes(info);
            }
        }
    }
}

impl ModeReader<'_, '_> {
    fn key_frame_modes(&mut self, info: &mut MacroblockInfo, above: &MacroblockInfo, left: &MacroblockInfo) {
        let mode = self.reader.read_tree(&KEY_FRAME_LUMA_MODE_TREE, &KEY_FRAME_LUMA_MODE_PROBABILITIES);
        info.luma_mode = LumaMode::from_intra(mode);
        info.subblock_modes = [SubblockMode::implied_by(info.luma_mode); 16];
        if info.luma_mode == LumaMode::Subblocks {
            for block in 0..16 {
                let probabilities = key_subblock_probabilities(block, info, above, left);
                info.subblock_modes[block] = self.subblock_mode(probabilities);
            }
        }
        info.chroma_mode =
            LumaMode::from_intra(self.reader.read_tree(&CHROMA_MODE_TREE, &KEY_FRAME_CHROMA_MODE_PROBABILITIES));
    }

    fn intra_modes(&mut self, info: &mut MacroblockInfo) {
        let mode = self.reader.read_tree(&LUMA_MODE_TREE, &self.header.probabilities.luma_modes);
        info.luma_mode = LumaMode::from_intra(mode);
        if info.luma_mode == LumaMode::Subblocks {
            for block in 0..16 {
                info.subblock_modes[block] = self.subblock_mode(&DEFAULT_SUBBLOCK_MODE_PROBABILITIES);
            }
        }
        info.chroma_mode =
            LumaMode::from_intra(self.reader.read_tree(&CHROMA_MODE_TREE, &self.header.probabilities.chroma_modes));
    }

    fn subblock_mode(&mut self, probabilities: &[u8; 9]) -> SubblockMode {
        SubblockMode::ALL[usize::from(self.reader.read_tree(&SUBBLOCK_MODE_TREE, probabilities))]
    }

    #[inline(always)]
    fn inter_modes(
        &mut self,
        info: &mut MacroblockInfo,
        above: &MacroblockInfo,
        left: &MacroblockInfo,
        above_left: &MacroblockInfo,
        bounds: &VectorBounds,
    ) {
        info.reference = if !self.reader.read_bool(self.header.last_probability) {
            ReferenceFrame::Last
        } else if !self.reader.read_bool(self.header.golden_probability) {
            ReferenceFrame::Golden
        } else {
            ReferenceFrame::AltRef
        };
        let near = find_near_vectors(above, left, above_left, info.reference, &self.sign_biases, bounds);
        let [zero, nearest, near_or, new] = near.mode_probabilities;
        let (mode, vector) = if !self.reader.read_bool(zero) {
            (LumaMode::Zero, MotionVector::ZERO)
        } else if !self.reader.read_bool(nearest) {
            (LumaMode::Nearest, near.nearest)
        } else if !self.reader.read_bool(near_or) {
            (LumaMode::Near, near.near)
        } else if !self.reader.read_bool(new) {
            (LumaMode::New, near.best + self.motion_vector())
        } else {
            self.split_vectors(info, above, left, &near);
            (LumaMode::Split, info.subblock_vectors[15])
        };
        info.luma_mode = mode;
        info.motion_vector = vector;
        if mode != LumaMode::Split && !vector.is_zero() {
            info.subblock_vectors = [vector; 16];
        }
    }

    fn split_vectors(
        &mut self,
        info: &mut MacroblockInfo,
        above: &MacroblockInfo,
        left: &MacroblockInfo,
        near: &NearVectors,
    ) {
        info.partitioning = self.reader.read_tree(&PARTITIONING_TREE, &PARTITIONING_PROBABILITIES);
        let layout = &PARTITION_LAYOUTS[usize::from(info.partitioning)];
        for partition in 0..PARTITION_COUNTS[usize::from(info.partitioning)] {
            let first = first_subblock(info.partitioning, partition);
            let [left_vector, above_vector] = neighbouring_vectors(first, &info.subblock_vectors, above, left);
            let context = partition_vector_context(left_vector, above_vector);
            let vector = match self.reader.read_tree(&PARTITION_VECTOR_TREE, &PARTITION_VECTOR_PROBABILITIES[context]) {
                0 => left_vector,
                1 => above_vector,
                2 => MotionVector::ZERO,
                _ => near.best + self.motion_vector(),
            };
            for (block, &of) in layout.iter().enumerate() {
                if usize::from(of) == partition {
                    info.subblock_vectors[block] = vector;
                }
            }
        }
    }

    fn motion_vector(&mut self) -> MotionVector {
        let y = self.vector_component(0);
        let x = self.vector_component(1);
        MotionVector { x, y }
    }

    /// One component of a motion vector difference, in quarter samples (section 17.2).
    fn vector_component(&mut self, component: usize) -> i16 {
        /// Offsets into a component's probabilities.
        const LONG: usize = 0;
        const SIGN: usize = 1;
        const SHORT: usize = 2;
        const BITS: usize = 9;
        let p = &self.header.probabilities.motion_vectors[component];
        let mut magnitude = 0i16;
        if self.reader.read_bool(p[LONG]) {
            for bit in [0, 1, 2, 9, 8, 7, 6, 5, 4] {
                magnitude |= i16::from(self.reader.read_bool(p[BITS + bit])) << bit;
            }
            // If only bits 0 to 3 could be set, bit 3 must be: a smaller number would have the short form.
            if magnitude & 0x7ff0 == 0 || self.reader.read_bool(p[BITS + 3]) {
                magnitude |= 8;
            }
        } else {
            magnitude = i16::from(self.reader.read_tree(&SHORT_VECTOR_TREE, &p[SHORT..BITS]));
        }
        if magnitude != 0 && self.reader.read_bool(p[SIGN]) { -magnitude } else { magnitude }
    }
}
