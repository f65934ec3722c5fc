//! Encodes one frame with one quantizer: decides and codes one macroblock after another, then writes. It is filtered once
//! somebody asks for its state.

use std::sync::Arc;

use super::analysis::Analysis;
use super::canvas::Canvas;
use super::contest::Contest;
use super::costs::Costs;
use super::decisions::Decisions;
use super::encoded::{EncodeStatistics, Encoded};
use super::header_writer::write_frame;
use super::loop_filter_level::{choose_level, level_beside};
use super::mode_counts::ModeCounts;
use super::mode_decision::{decide, decide_again};
use super::parameters::MAXIMUM_QUANTIZER;
use super::steering::Steering;
use crate::header::{
    FrameHeader, FrameSize, FrameTag, Inherited, LoopFilterDeltas, LoopFilterHeader, QuantizerIndices, Segmentation,
};
use crate::loop_filter::FrameFilter;
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
        let (encoded, decisions) = finish(self, quantizer, code_macroblocks(self, quantizer, None, None), None);
        self.arena.macroblocks().give_back(decisions.macroblocks.infos);
        encoded
    }

    /// [`Analysis::encode`], and what was decided on the way, for candidates of other quantizers
    /// ([`Analysis::encode_beside`]).
    #[must_use]
    pub fn encode_first(&self, quantizer: u8) -> (Encoded, Decisions) {
        let quantizer = quantizer.min(MAXIMUM_QUANTIZER);
        finish(self, quantizer, code_macroblocks(self, quantizer, None, None), None)
    }

    /// Encodes the picture with this quantizer (above 127 it is taken as 127), keeping the references, vectors and
    /// filter that were decided for the `first` candidate of this same analysis, in a third to half the time
    /// of [`Analysis::encode`]. Where the quantizers are far apart everything is decided anew, and the frame is that of
    /// [`Analysis::encode`].
    ///
    /// A clip each frame of which is such a second candidate takes -1.7 to +1.7 % of bits more at the same PSNR (mean +0.3)
    /// where the first one's quantizer was ten indices finer, and 0.5 to 6.3 % (mean 2.9) where it was ten coarser (twelve
    /// clips, 30 pictures, indices 15 to 106): the finest goes first. Where what was empty is decided anew for the finer one
    /// it is 0.5 to 2.2 % (mean 1.6), for the time that was saved.
    ///
    /// # Panics
    /// If `first` comes of the analysis of another picture or size, as far as that shows.
    #[must_use]
    pub fn encode_beside(&self, quantizer: u8, first: &Decisions) -> Encoded {
        let quantizer = quantizer.min(MAXIMUM_QUANTIZER);
        if !first.serve(quantizer) {
            return self.encode(quantizer);
        }
        assert_eq!(
            first.macroblocks.infos.len(),
            self.layout.columns * self.layout.rows,
            "another picture's decisions"
        );
        assert_eq!(first.key_frame, self.key_frame, "another picture's decisions");
        let canvas = code_macroblocks(self, quantizer, Some(first), None);
        let (encoded, decisions) = finish(self, quantizer, canvas, Some(first));
        self.arena.macroblocks().give_back(decisions.macroblocks.infos);
        encoded
    }

    /// A menu: one candidate for each quantizer. The first is that of [`Analysis::encode`]; what is decided for it serves
    /// the others ([`Analysis::encode_beside`]).
    #[must_use]
    pub fn menu(&self, quantizers: &[u8]) -> Vec<Encoded> {
        let Some((&first, others)) = quantizers.split_first() else { return Vec::new() };
        if others.is_empty() {
            return vec![self.encode(first)];
        }
        let (first, decisions) = self.encode_first(first);
        let mut candidates = vec![first];
        candidates.extend(others.iter().map(|&quantizer| self.encode_beside(quantizer, &decisions)));
        self.arena.macroblocks().give_back(decisions.macroblocks.infos);
        candidates
    }
}

/// Decides and codes all macroblocks, but keeps what was decided in another pass if that is `kept`; `steering`, if there is
/// any, records them and keeps the frame to its plan.
pub(super) fn code_macroblocks(
    analysis: &Analysis,
    quantizer: u8,
    kept: Option<&Decisions>,
    mut steering: Option<&mut Steering>,
) -> Canvas {
    let mut costs = Costs::new(analysis, quantizer);
    let mut canvas = Canvas::new(analysis, costs.widest_dead_zones);
    let mut contest = Contest::default();
    for row in 0..analysis.layout.rows {
        costs.follow(&canvas.counts);
        for column in 0..analysis.layout.columns {
            let place = canvas.place(column, row, analysis.key_frame);
            if let Some(steering) = &mut steering {
                steering.correct(&mut costs);
            }
            costs.go_to(row * analysis.layout.columns + column);
            let chosen = match kept {
                Some(kept) => decide_again(&costs, &canvas, &place, kept, &mut contest),
                None => decide(&costs, &canvas, &place, &mut contest),
            };
            if let Some(steering) = &mut steering {
                steering.record(chosen);
            }
            canvas.add(&place, chosen, analysis.key_frame);
        }
    }
    canvas.dead_zones = costs.widest_dead_zones;
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
        references: analysis.updates,
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

/// Chooses the filter and the probabilities of a frame all of whose macroblocks are coded, and writes it. The state behind it
/// is filtered when it is first asked for what it shows. Gives also what was decided, part of which may be what was decided
/// in another pass, which is `kept` then.
pub(super) fn finish(
    analysis: &Analysis,
    quantizer: u8,
    canvas: Canvas,
    kept: Option<&Decisions>,
) -> (Encoded, Decisions) {
    let key_frame = analysis.key_frame;
    let contents = analysis.state.contents();
    let inherited = contents.inherited(key_frame);
    let mut header = header_of(analysis, quantizer, &inherited, &canvas.counts);
    header.loop_filter.level = match kept {
        Some(kept) => level_beside(quantizer, (kept.quantizer, kept.loop_filter_level)),
        None => choose_level(analysis, quantizer, canvas.buffer.samples(), &canvas.macroblocks.infos, &header),
    };
    let infos = &canvas.macroblocks.infos;
    let filter =
        FrameFilter::new(infos, key_frame, &header.loop_filter, &header.loop_filter_deltas, &header.segmentation);
    let Canvas { buffer, macroblocks, tokens, counts, dead_zones, .. } = canvas;
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
    // Filtered once somebody asks for it: most candidates of a menu, and most passes, are not sent, and nobody does.
    let decoded = arena.finish_when_asked(buffer, move |buffer| {
        let layout = buffer.layout();
        filter.apply(buffer.samples_mut(), &layout);
    });
    let state = contents.successor(&tag, size, header, decoded, segment_map);
    let infos = &macroblocks.infos;
    let skipped = infos.iter().filter(|info| info.skip).count() as u32;
    let intra = infos.iter().filter(|info| info.reference == ReferenceFrame::Intra).count() as u32;
    let count = infos.len() as u32;
    arena.tokens().give_back(tokens.into_tokens());
    let encoded = Encoded {
        frame: written.frame,
        state,
        quantizer,
        key_frame,
        statistics: EncodeStatistics {
            intra_macroblocks: intra,
            inter_macroblocks: count - intra,
            skipped_macroblocks: skipped,
            loop_filter_level,
            mode_bytes: written.mode_bytes,
            coefficient_bytes: written.coefficient_bytes,
        },
    };
    (encoded, Decisions { key_frame, quantizer, loop_filter_level, macroblocks, dead_zones })
}
