//! Encoding of one frame with one quantizer.
//!
//! Each macroblock is decided and coded in turn, then the frame is written. The loop filter runs on first access to the
//! state.

use std::sync::Arc;

use super::analysis::Analysis;
use super::canvas::Canvas;
use super::contest::Contest;
use super::costs::Costs;
use super::decisions::Decisions;
use super::encoded::{EncodeStatistics, Encoded};
use super::header_writer::write_frame;
use super::loop_filter_level::{choose_level, level_from};
use super::mode_counts::ModeCounts;
use super::mode_decision::{decide, decide_again};
use super::parameters::MAX_QUANTIZER;
use super::steering::Steering;
use crate::header::{
    FrameHeader, FrameSize, FrameTag, Inherited, LoopFilterDeltas, LoopFilterHeader, QuantizerIndices, Segmentation,
};
use crate::loop_filter::FrameFilter;
use crate::macroblock::ReferenceFrame;

/// Loop filter deltas: weaker where little changes, stronger where block edges are most visible. These are libvpx's
/// defaults.
const LOOP_FILTER_DELTAS: LoopFilterDeltas =
    LoopFilterDeltas { enabled: true, references: [2, 0, -2, -2], modes: [4, -2, 2, 4] };

impl Analysis {
    /// Encodes the picture with `quantizer`. Values above 127 count as 127.
    #[must_use]
    pub fn encode(&self, quantizer: u8) -> Encoded {
        let quantizer = quantizer.min(MAX_QUANTIZER);
        let (encoded, decisions) = finish(self, quantizer, code_macroblocks(self, quantizer, None, None), None);
        self.arena.macroblocks().give_back(decisions.macroblocks.infos);
        encoded
    }

    /// [`Analysis::encode`] that also returns the decisions, for candidates of other quantizers
    /// ([`Analysis::encode_reusing`]).
    #[must_use]
    pub fn encode_first(&self, quantizer: u8) -> (Encoded, Decisions) {
        let quantizer = quantizer.min(MAX_QUANTIZER);
        finish(self, quantizer, code_macroblocks(self, quantizer, None, None), None)
    }

    /// Encodes the picture with `quantizer` (above 127 counts as 127) and reuses decisions of a `first` candidate of
    /// this analysis.
    ///
    /// It reuses references, vectors and the loop filter level. It needs a third to half of the time of
    /// [`Analysis::encode`]. If the quantizers are too different ([`Decisions::serve`]), it reuses nothing and returns
    /// the frame of [`Analysis::encode`].
    ///
    /// Encode the finest candidate first: candidates that are coarser than the first one lose fewer bits.
    /// `lab: 2026-11-notes-vp8`.
    ///
    /// # Panics
    /// If `first` visibly belongs to another picture: the frame kind or the number of macroblocks differs.
    #[must_use]
    pub fn encode_reusing(&self, quantizer: u8, first: &Decisions) -> Encoded {
        let quantizer = quantizer.min(MAX_QUANTIZER);
        if !first.serve(quantizer) {
            return self.encode(quantizer);
        }
        assert_eq!(
            first.macroblocks.infos.len(),
            self.layout.columns * self.layout.rows,
            "decisions of another picture"
        );
        assert_eq!(first.key_frame, self.key_frame, "decisions of another picture");
        let canvas = code_macroblocks(self, quantizer, Some(first), None);
        let (encoded, decisions) = finish(self, quantizer, canvas, Some(first));
        self.arena.macroblocks().give_back(decisions.macroblocks.infos);
        encoded
    }

    /// Encodes one candidate per quantizer. The first one equals [`Analysis::encode`]; the others reuse its decisions
    /// ([`Analysis::encode_reusing`]).
    #[must_use]
    pub fn menu(&self, quantizers: &[u8]) -> Vec<Encoded> {
        let Some((&first, others)) = quantizers.split_first() else { return Vec::new() };
        if others.is_empty() {
            return vec![self.encode(first)];
        }
        let (first, decisions) = self.encode_first(first);
        let mut candidates = vec![first];
        candidates.extend(others.iter().map(|&quantizer| self.encode_reusing(quantizer, &decisions)));
        self.arena.macroblocks().give_back(decisions.macroblocks.infos);
        candidates
    }
}

/// Decides and codes all macroblocks. `kept` are decisions of another pass to reuse. `steering` records the costs and,
/// if it has a plan, keeps the frame's size to it.
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
        costs.update_mode_costs(&canvas.counts);
        for column in 0..analysis.layout.columns {
            let place = canvas.place(column, row, analysis.key_frame);
            if let Some(steering) = &mut steering {
                steering.correct(&mut costs);
            }
            costs.set_macroblock(row * analysis.layout.columns + column);
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

/// The frame header before the loop filter level is chosen and the probabilities are updated.
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

/// Chooses loop filter level and probabilities of a coded frame and writes it. Returns the frame and its decisions. The
/// loop filter runs on first access to the target state. `kept` are the decisions that the pass reused.
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
        Some(kept) => level_from(quantizer, (kept.quantizer, kept.loop_filter_level)),
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
    // The filter runs on first access: most candidates of a menu and most passes are never sent or accessed.
    let decoded = arena.finish_on_access(buffer, move |buffer| {
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
