//! Writing of a frame: tag, header and modes into the first partition, tokens into the second (RFC 6386, sections 9,
//! 19).

use super::bit_cost::{BIT, branch_cost, fitting_probability};
use super::bool_encoder::BoolEncoder;
use super::macroblocks::{Coded, Macroblocks};
use super::mode_costs::{
    PARTITIONING_PATHS, PartitionVector, chroma_path, inter_path, key_luma_path, luma_path, partition_path,
    reference_path, subblock_path, write_path,
};
use super::mode_counts::ModeCounts;
use super::tokens::TokenBuffer;
use super::vector_coding::{self, VectorCounts};
use crate::header::{FrameHeader, FrameTag, Inherited, LoopFilterDeltas, START_CODE};
use crate::macroblock::{LumaMode, MacroblockInfo, ReferenceFrame};
use crate::motion_vector::MotionVector;
use crate::neighbours::{
    NearVectors, first_subblock, key_subblock_probabilities, neighbouring_vectors, partition_vector_context,
};
use crate::tables::{
    DEFAULT_SUBBLOCK_MODE_PROBABILITIES, KEY_FRAME_CHROMA_MODE_PROBABILITIES, KEY_FRAME_LUMA_MODE_PROBABILITIES,
    PARTITION_COUNTS, PARTITION_VECTOR_PROBABILITIES, PARTITIONING_PROBABILITIES,
};

/// A frame and the sizes of its partitions in bytes.
pub(super) struct Written {
    pub(super) frame: Vec<u8>,
    pub(super) mode_bytes: usize,
    pub(super) coefficient_bytes: usize,
}

/// Chooses the remaining probabilities of `header`, and writes the frame.
pub(super) fn write_frame(
    tag: &mut FrameTag,
    header: &mut FrameHeader,
    inherited: &Inherited,
    macroblocks: &Macroblocks,
    counts: &ModeCounts,
    tokens: &TokenBuffer,
) -> Written {
    let mut first = BoolEncoder::with_capacity(macroblocks.infos.len() * 4 + 256);
    write_header(&mut first, tag.key_frame, header, inherited, macroblocks, counts, tokens);
    write_modes(&mut first, tag.key_frame, header, macroblocks);
    let first = first.finish();
    let second = BoolEncoder::with_capacity(tokens.len() / 2 + 64);
    let second = tokens.write(second, &header.probabilities.coefficients).finish();

    tag.first_partition = first.len();
    let mut frame = Vec::with_capacity(10 + first.len() + second.len());
    let bits = u32::from(!tag.key_frame)
        | u32::from(tag.version) << 1
        | u32::from(tag.shown) << 4
        | (tag.first_partition as u32) << 5;
    frame.extend_from_slice(&bits.to_le_bytes()[..3]);
    if let Some(size) = tag.size {
        frame.extend_from_slice(&START_CODE);
        frame.extend_from_slice(&(size.width | u16::from(size.horizontal_scale) << 14).to_le_bytes());
        frame.extend_from_slice(&(size.height | u16::from(size.vertical_scale) << 14).to_le_bytes());
    }
    frame.extend_from_slice(&first);
    frame.extend_from_slice(&second);
    Written { frame, mode_bytes: first.len(), coefficient_bytes: second.len() }
}

fn write_header(
    writer: &mut BoolEncoder,
    key_frame: bool,
    header: &mut FrameHeader,
    inherited: &Inherited,
    macroblocks: &Macroblocks,
    counts: &ModeCounts,
    tokens: &TokenBuffer,
) {
    if key_frame {
        writer.write_flag(header.color_space);
        writer.write_flag(header.clamping_unneeded);
    }
    debug_assert!(!header.segmentation.enabled, "the encoder does not use segments");
    writer.write_flag(false);
    writer.write_flag(header.loop_filter.simple);
    writer.write_literal(u32::from(header.loop_filter.level), 6);
    writer.write_literal(u32::from(header.loop_filter.sharpness), 3);
    write_deltas(writer, &header.loop_filter_deltas, &inherited.loop_filter_deltas);
    writer.write_literal(u32::from(header.partitions_log2), 2);
    let quantizer = &header.quantizer;
    writer.write_literal(u32::from(quantizer.base), 7);
    let deltas = [
        quantizer.luma_dc,
        quantizer.second_order_dc,
        quantizer.second_order_ac,
        quantizer.chroma_dc,
        quantizer.chroma_ac,
    ];
    for delta in deltas {
        writer.write_optional_signed((delta != 0).then_some(i32::from(delta)), 4);
    }
    if !key_frame {
        let references = &header.references;
        writer.write_flag(references.refresh_golden);
        writer.write_flag(references.refresh_altref);
        if !references.refresh_golden {
            writer.write_literal(references.copy_to_golden.bits(), 2);
        }
        if !references.refresh_altref {
            writer.write_literal(references.copy_to_altref.bits(), 2);
        }
        writer.write_flag(references.golden_sign_bias);
        writer.write_flag(references.altref_sign_bias);
    }
    writer.write_flag(header.refresh_entropy);
    if !key_frame {
        writer.write_flag(header.references.refresh_last);
    }
    tokens.count().write_updates(writer, &mut header.probabilities.coefficients);
    writer.write_flag(header.skip_probability.is_some());
    if let Some(probability) = header.skip_probability {
        writer.write_literal(u32::from(probability), 8);
    }
    if !key_frame {
        for probability in [header.intra_probability, header.last_probability, header.golden_probability] {
            writer.write_literal(u32::from(probability), 8);
        }
        write_mode_update(writer, &counts.luma, &mut header.probabilities.luma_modes);
        write_mode_update(writer, &counts.chroma, &mut header.probabilities.chroma_modes);
        count_vectors(macroblocks).write_updates(writer, &mut header.probabilities.motion_vectors);
    }
}

fn write_deltas(writer: &mut BoolEncoder, deltas: &LoopFilterDeltas, inherited: &LoopFilterDeltas) {
    writer.write_flag(deltas.enabled);
    if !deltas.enabled {
        return;
    }
    let new = deltas.references.iter().chain(&deltas.modes);
    let old = inherited.references.iter().chain(&inherited.modes);
    let changes: Vec<Option<i32>> = new.zip(old).map(|(new, old)| (new != old).then_some(i32::from(*new))).collect();
    let update = changes.iter().any(Option::is_some);
    writer.write_flag(update);
    if update {
        for change in changes {
            writer.write_optional_signed(change, 6);
        }
    }
}

/// Updates the probabilities of a mode tree if that saves bits in this frame.
fn write_mode_update<const N: usize>(writer: &mut BoolEncoder, counts: &[[u32; 2]; N], probabilities: &mut [u8; N]) {
    let fitting: [u8; N] = std::array::from_fn(|node| match counts[node] {
        [0, 0] => probabilities[node],
        [falses, trues] => fitting_probability(falses, trues),
    });
    let cost = |probabilities: &[u8; N]| -> u64 {
        counts.iter().zip(probabilities).map(|(&[falses, trues], &p)| branch_cost(falses, trues, p)).sum()
    };
    let update = cost(&fitting) + u64::from(8 * BIT) * (N as u64) < cost(probabilities);
    writer.write_flag(update);
    if update {
        for probability in fitting {
            writer.write_literal(u32::from(probability), 8);
        }
        *probabilities = fitting;
    }
}

/// Calls `visit` for each new vector that is written for a macroblock.
fn visit_new_vectors(info: &MacroblockInfo, sources: &[PartitionVector; 16], mut visit: impl FnMut(MotionVector)) {
    match info.luma_mode {
        LumaMode::New => visit(info.motion_vector),
        LumaMode::Split => {
            let count = PARTITION_COUNTS[usize::from(info.partitioning)];
            for (partition, &source) in sources.iter().enumerate().take(count) {
                if source == PartitionVector::New {
                    visit(info.subblock_vectors[first_subblock(info.partitioning, partition)]);
                }
            }
        }
        _ => {}
    }
}

fn count_vectors(macroblocks: &Macroblocks) -> VectorCounts {
    let mut counts = VectorCounts::default();
    for Coded { info, near, partition_vectors, .. } in macroblocks.all() {
        if matches!(info.luma_mode, LumaMode::New | LumaMode::Split) {
            visit_new_vectors(info, partition_vectors, |vector| {
                let (y, x) = vector.difference(near.best);
                counts.add(y, x);
            });
        }
    }
    counts
}

fn write_modes(writer: &mut BoolEncoder, key_frame: bool, header: &FrameHeader, macroblocks: &Macroblocks) {
    let references = [header.intra_probability, header.last_probability, header.golden_probability];
    for (at, Coded { info, near, partition_vectors, .. }) in macroblocks.all().enumerate() {
        let (column, row) = (at % macroblocks.columns(), at / macroblocks.columns());
        if let Some(probability) = header.skip_probability {
            writer.write(info.skip, probability);
        }
        if key_frame {
            write_path(writer, key_luma_path(info.luma_mode), &KEY_FRAME_LUMA_MODE_PROBABILITIES);
            if info.luma_mode == LumaMode::Subblocks {
                let [above, left, _] = macroblocks.neighbours(column, row);
                for block in 0..16 {
                    let probabilities = key_subblock_probabilities(block, info, above, left);
                    write_path(writer, subblock_path(info.subblock_modes[block]), probabilities);
                }
            }
            write_path(writer, chroma_path(info.chroma_mode), &KEY_FRAME_CHROMA_MODE_PROBABILITIES);
            continue;
        }
        write_path(writer, reference_path(info.reference), &references);
        if info.reference == ReferenceFrame::Intra {
            write_path(writer, luma_path(info.luma_mode), &header.probabilities.luma_modes);
            if info.luma_mode == LumaMode::Subblocks {
                for mode in info.subblock_modes {
                    write_path(writer, subblock_path(mode), &DEFAULT_SUBBLOCK_MODE_PROBABILITIES);
                }
            }
            write_path(writer, chroma_path(info.chroma_mode), &header.probabilities.chroma_modes);
            continue;
        }
        write_path(writer, inter_path(info.luma_mode), &near.mode_probabilities);
        match info.luma_mode {
            LumaMode::New => {
                let (y, x) = info.motion_vector.difference(near.best);
                vector_coding::write(writer, y, x, &header.probabilities.motion_vectors);
            }
            LumaMode::Split => {
                let [above, left, _] = macroblocks.neighbours(column, row);
                write_split(writer, info, partition_vectors, above, left, near, &header.probabilities.motion_vectors);
            }
            _ => {}
        }
    }
}

fn write_split(
    writer: &mut BoolEncoder,
    info: &MacroblockInfo,
    sources: &[PartitionVector; 16],
    above: &MacroblockInfo,
    left: &MacroblockInfo,
    near: &NearVectors,
    probabilities: &[[u8; 19]; 2],
) {
    let partitioning = usize::from(info.partitioning);
    write_path(writer, PARTITIONING_PATHS[partitioning], &PARTITIONING_PROBABILITIES);
    for (partition, &source) in sources.iter().enumerate().take(PARTITION_COUNTS[partitioning]) {
        let block = first_subblock(info.partitioning, partition);
        let [left, above] = neighbouring_vectors(block, &info.subblock_vectors, above, left);
        let context = partition_vector_context(left, above);
        write_path(writer, partition_path(source), &PARTITION_VECTOR_PROBABILITIES[context]);
        if source == PartitionVector::New {
            let (y, x) = info.subblock_vectors[block].difference(near.best);
            vector_coding::write(writer, y, x, probabilities);
        }
    }
}
