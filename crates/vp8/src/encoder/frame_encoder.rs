//! Encodes one frame with one quantizer: decides and codes one macroblock after another, then filters and writes.

use std::sync::Arc;

use super::analysis::Analysis;
use super::canvas::Canvas;
use super::contest::Contest;
use super::costs::Costs;
use super::encoded::{EncodeStatistics, Encoded};
use super::header_writer::write_frame;
use super::loop_filter_level::choose_level;
use super::mode_counts::ModeCounts;
use super::mode_decision::{decide, decide_again};
use super::parameters::MAXIMUM_QUANTIZER;
use super::steering::Steering;
use crate::header::{
    BufferCopy, FrameHeader, FrameSize, FrameTag, Inherited, LoopFilterDeltas, LoopFilterHeader, QuantizerIndices,
    ReferenceUpdates, Segmentation,
};
use crate::macroblock::ReferenceFrame;

/// The filter is a little weaker where little has changed and stronger where blocks show most: the values that libvpx's
/// frames carry by default.
const LOOP_FILTER_DELTAS: LoopFilterDeltas =
    LoopFilterDeltas { enabled: true, references: [2, 0, -2, -2], modes: [4, -2, 2, 4] };

impl Analysis {
    /// Encodes the picture with this quantizer (above 127 it is taken as 127).
    #[must_use]
    pub fn encode(&self, quantizer: u8) -> Encoded {
        let quantizer = quantizer.min(MAXIMUM_QUANTIZER);
        finish(self, quantizer, code_macroblocks(self, quantizer, None))
    }
}

/// Decides and codes all macroblocks; `steering`, if there is any, records them and keeps the frame to its plan.
pub(super) fn code_macroblocks(analysis: &Analysis, quantizer: u8, mut steering: Option<&mut Steering<'_>>) -> Canvas {
    let mut costs = Costs::new(analysis, quantizer);
    let mut canvas = Canvas::new(analysis);
    let mut contest = Contest::default();
    for row in 0..analysis.layout.rows {
        costs.follow(&canvas.counts);
        for column in 0..analysis.layout.columns {
            let place = canvas.place(column, row);
            if let Some(steering) = &mut steering {
                steering.correct(&mut costs);
            }
            let chosen = match steering.as_ref().and_then(|steering| steering.kept()) {
                Some(kept) => decide_again(&costs, &canvas, &place, kept, &mut contest),
                None => decide(&costs, &canvas, &place, &mut contest),
            };
            if let Some(steering) = &mut steering {
                steering.record(chosen);
            }
            canvas.add(&place, chosen, analysis.key_frame);
        }
    }
    canvas
}

/// The header of a frame, without the filter's level and with the probabilities that it inherits.
fn header_of(analysis: &Analysis, quantizer: u8, inherited: &Inherited, counts: &ModeCounts) -> FrameHeader {
    let key_frame = analysis.key_frame;
    let mut header = FrameHeader {
        color_space: false,
        clamping_unneeded: false,
        segmentation: Segmentation { enabled: false, update_map: false, update_data: false, ..inherited.segmentation },
        loop_filter: LoopFilterHeader { simple: false, level: 0, sharpness: 0 },
        loop_filter_deltas: LOOP_FILTER_DELTAS,
        partitions_log2: 0,
        quantizer: QuantizerIndices { base: quantizer, ..QuantizerIndices::default() },
        references: ReferenceUpdates {
            refresh_golden: key_frame || analysis.refresh_golden,
            refresh_altref: key_frame,
            copy_to_golden: BufferCopy::None,
            copy_to_altref: if !key_frame && analysis.refresh_golden { BufferCopy::Other } else { BufferCopy::None },
            golden_sign_bias: false,
            altref_sign_bias: false,
            refresh_last: true,
        },
        refresh_entropy: true,
        probabilities: inherited.probabilities.clone(),
        skip_probability: Some(counts.skip_probability()),
        intra_probability: 0,
        last_probability: 0,
        golden_probability: 0,
    };
    if !key_frame {
        [header.intra_probability, header.last_probability, header.golden_probability] =
            counts.reference_probabilities();
    }
    header
}

/// Filters a frame all of whose macroblocks are coded, chooses its probabilities, writes it.
pub(super) fn finish(analysis: &Analysis, quantizer: u8, mut canvas: Canvas) -> Encoded {
    let key_frame = analysis.key_frame;
    let contents = analysis.state.contents();
    let inherited = contents.inherited(key_frame);
    let mut header = header_of(analysis, quantizer, &inherited, &canvas.counts);
    header.loop_filter.level =
        choose_level(analysis, quantizer, canvas.buffer.samples(), &canvas.macroblocks.infos, &header);
    let squared_error = canvas.filter(analysis, &header);
    let Canvas { buffer, macroblocks, tokens, counts, .. } = canvas;
    let size = FrameSize {
        width: analysis.source.width as u16,
        height: analysis.source.height as u16,
        ..if key_frame { FrameSize::default() } else { contents.size }
    };
    let mut tag = FrameTag { key_frame, version: 0, shown: true, first_partition: 0, size: key_frame.then_some(size) };
    let written = write_frame(&mut tag, &mut header, &inherited, &macroblocks, &counts, &tokens);
    let same_size = (contents.size.width, contents.size.height) == (size.width, size.height);
    let segment_map = if same_size { contents.segment_map.clone() } else { Arc::default() };
    let loop_filter_level = header.loop_filter.level;
    let arena = &analysis.arena;
    let state = contents.successor(&tag, size, header, arena.finish(buffer), segment_map);
    let (width, height) = (analysis.source.width as u64, analysis.source.height as u64);
    let chroma = width.div_ceil(2) * height.div_ceil(2);
    let infos = macroblocks.infos;
    let skipped = infos.iter().filter(|info| info.skip).count() as u32;
    let intra = infos.iter().filter(|info| info.reference == ReferenceFrame::Intra).count() as u32;
    let count = infos.len() as u32;
    arena.macroblocks().give_back(infos);
    arena.tokens().give_back(tokens.into_tokens());
    Encoded {
        frame: written.frame,
        state,
        quantizer,
        key_frame,
        statistics: EncodeStatistics {
            squared_error,
            samples: [width * height, chroma, chroma],
            intra_macroblocks: intra,
            inter_macroblocks: count - intra,
            skipped_macroblocks: skipped,
            loop_filter_level,
            mode_bytes: written.mode_bytes,
            coefficient_bytes: written.coefficient_bytes,
        },
    }
}
