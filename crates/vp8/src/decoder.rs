//! Decoding of one frame (RFC 6386, sections 5 and 9 to 15).

mod modes;
mod reconstruct;
mod residual;

use std::sync::Arc;

use crate::arena::Arena;
use crate::bool_decoder::BoolDecoder;
use crate::decode_error::DecodeError;
use crate::frame::FrameLayout;
use crate::header::{FrameHeader, FrameTag, Segmentation};
use crate::loop_filter::FrameFilter;
use crate::macroblock::MacroblockInfo;
use crate::picture::Picture;
use crate::predict::inter::Interpolation;
use crate::quantization::Steps;
use crate::state::State;
use reconstruct::StillRun;

/// Largest number of macroblocks per byte of a key frame. A frame with more is refused before anything is allocated.
///
/// The modes of a key frame's macroblock cost at least 3 bits (fixed probabilities of RFC 6386, section 11). So a
/// complete key frame has fewer than 3 macroblocks per byte; the rest is a safety margin.
const MACROBLOCKS_PER_BYTE: usize = 16;

/// Largest number of pixels that [`decode`] accepts: 8192x4352, the largest picture of level 6 of H.264, HEVC and AV1.
/// It suffices for 8K video of any aspect ratio. Decoding needs about 2 bytes per pixel.
pub const DEFAULT_PIXEL_LIMIT: usize = 8192 * 4352;

/// Decodes `frame` from `state` as [`decode_within`] does, with pictures of at most [`DEFAULT_PIXEL_LIMIT`] pixels.
///
/// # Errors
/// Same as [`decode_within`].
pub fn decode(state: &State, frame: &[u8]) -> Result<(State, Picture), DecodeError> {
    decode_within(state, frame, DEFAULT_PIXEL_LIMIT)
}

/// Decodes `frame` from `state`. Returns the target state and the picture.
///
/// This is a pure function: the result depends only on the arguments, and `state` can be used again. An empty frame
/// repeats the last picture and keeps the state. Past their ends, the frame and its coefficient partitions read as
/// zeros, as in the reference decoder (libvpx). A frame that is not to be shown ([`State::is_shown`], [`is_shown`]) has
/// a picture, too.
///
/// # Errors
/// - The frame's header is invalid.
/// - A partition extends beyond the frame.
/// - The frame needs a reference that the state does not have.
/// - A key frame has more than `limit` pixels.
///
/// Memory for a key frame is bounded by `limit` and by its length, which must be plausible for its size. Memory for an
/// interframe is bounded by the size in the state.
pub fn decode_within(state: &State, frame: &[u8], limit: usize) -> Result<(State, Picture), DecodeError> {
    decode_in(&Arena::default(), state, frame, limit)
}

/// Decodes as [`decode_within`] does, in the memory of `arena`. Use it to decode consecutive frames.
///
/// # Errors
/// Same as [`decode_within`].
pub fn decode_in(arena: &Arena, state: &State, frame: &[u8], limit: usize) -> Result<(State, Picture), DecodeError> {
    if frame.is_empty() {
        let picture = state.last_picture().ok_or(DecodeError::NoReference)?;
        return Ok((state.clone(), picture));
    }
    let (tag, rest) = FrameTag::parse(frame)?;
    if tag.first_partition > rest.len() {
        return Err(DecodeError::Partition { expected: tag.first_partition, actual: rest.len() });
    }
    let contents = state.contents();
    let size = match tag.size {
        Some(size) => {
            let macroblocks = usize::from(size.width).div_ceil(16) * usize::from(size.height).div_ceil(16);
            if frame.len() * MACROBLOCKS_PER_BYTE < macroblocks {
                return Err(DecodeError::ImplausibleSize { bytes: frame.len(), macroblocks });
            }
            let (width, height) = (size.width, size.height);
            if usize::from(width) * usize::from(height) > limit {
                return Err(DecodeError::TooManyPixels { width, height, limit });
            }
            size
        }
        None => contents.size,
    };
    if !tag.key_frame && contents.references.is_none() {
        return Err(DecodeError::NoReference);
    }
    let inherited = contents.inherited(tag.key_frame);
    // As in libvpx, the reader does not stop at the end of the first partition. In a damaged frame it reads on into the
    // next ones.
    let mut modes_reader = BoolDecoder::new(rest);
    let (_, rest) = rest.split_at(tag.first_partition);
    let header = FrameHeader::parse(tag.key_frame, &mut modes_reader, &inherited)?;
    let mut partitions = split_partitions(rest, 1 << header.partitions_log2)?;

    let layout = FrameLayout::new(usize::from(size.width), usize::from(size.height));
    let segments = if tag.key_frame { Arc::default() } else { contents.segment_map.clone() };
    let mut buffer = arena.frame(layout);
    let room = arena.macroblocks().take(layout.columns * layout.rows);
    let mut macroblocks = modes::read_modes(&modes_reader, &header, tag.key_frame, &layout, &segments, room);
    let steps = Steps::of_segments(&header.quantizer, &header.segmentation);
    let interpolation = if tag.version == 0 { Interpolation::SixTap } else { Interpolation::Bilinear };
    let mut reconstruction = reconstruct::Reconstruction {
        layout,
        references: contents.references.as_ref(),
        interpolation,
        full_sample_chroma: tag.version >= 3,
    };
    let mut residuals = residual::ResidualReader::new(layout.columns);
    let samples = buffer.samples_mut();
    for row in 0..layout.rows {
        let partition = row & (partitions.len() - 1);
        residuals.begin_row();
        let mut still = StillRun::default();
        for column in 0..layout.columns {
            let info = &mut macroblocks[row * layout.columns + column];
            let residual = residuals.read(
                &mut partitions[partition],
                column,
                info,
                &header.probabilities.coefficients,
                &steps[usize::from(info.segment)],
            );
            if residual.is_none() && still.takes(column, info) {
                continue;
            }
            reconstruction.still(samples, row, still.end(column));
            if residual.is_none() && still.takes(column, info) {
                continue;
            }
            reconstruction.macroblock(samples, column, row, info, residual);
        }
        reconstruction.still(samples, row, still.end(layout.columns));
    }
    let (filter, deltas) = (&header.loop_filter, &header.loop_filter_deltas);
    FrameFilter::new(&macroblocks, tag.key_frame, filter, deltas, &header.segmentation).apply(samples, &layout);
    let decoded = arena.finish(buffer);
    let picture = decoded.picture(usize::from(size.width), usize::from(size.height));
    let map = segment_map(&header.segmentation, segments, &macroblocks);
    arena.macroblocks().give_back(macroblocks);
    let next = contents.successor(&tag, size, header, decoded, map);
    Ok((next, picture))
}

/// Segment map after a frame: the new map, or the old one if the frame writes none. Empty if all segments are 0.
fn segment_map(segmentation: &Segmentation, before: Arc<[u8]>, macroblocks: &[MacroblockInfo]) -> Arc<[u8]> {
    if !(segmentation.enabled && segmentation.update_map) {
        before
    } else if macroblocks.iter().all(|info| info.segment == 0) {
        Arc::default()
    } else {
        macroblocks.iter().map(|info| info.segment).collect()
    }
}

/// Whether `frame` is to be shown (`show_frame`, section 9.1), from its first byte. False for an empty frame.
#[must_use]
pub fn is_shown(frame: &[u8]) -> bool {
    frame.first().is_some_and(|byte| byte >> 4 & 1 == 1)
}

/// Splits the coefficient partitions after the first partition (section 9.5). The last one takes all remaining bytes.
fn split_partitions(rest: &[u8], count: usize) -> Result<Vec<BoolDecoder<'_>>, DecodeError> {
    let table = 3 * (count - 1);
    if table > rest.len() {
        return Err(DecodeError::Partition { expected: table, actual: rest.len() });
    }
    let (sizes, mut rest) = rest.split_at(table);
    let mut partitions = Vec::with_capacity(count);
    for size in sizes.chunks_exact(3) {
        let size = usize::from(size[0]) | usize::from(size[1]) << 8 | usize::from(size[2]) << 16;
        let Some((partition, behind)) = rest.split_at_checked(size) else {
            return Err(DecodeError::Partition { expected: size, actual: rest.len() });
        };
        partitions.push(BoolDecoder::new(partition));
        rest = behind;
    }
    partitions.push(BoolDecoder::new(rest));
    Ok(partitions)
}
