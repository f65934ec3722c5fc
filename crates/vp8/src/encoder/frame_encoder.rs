//! Encoding of one frame with one quantizer.
//!
//! Each macroblock is decided and coded in turn, then the frame is written. Two lanes share the rows of a large frame. The
//! loop filter runs on first access to the state.

use std::sync::{Arc, OnceLock};

use super::analysis::Analysis;
use super::canvas::CanvasRow;
use super::contest::Contest;
use super::costs::Costs;
use super::decisions::Decisions;
use super::encoded::{EncodeStatistics, Encoded};
use super::frame_quantizers::{DeadZones, rounding_of};
use super::header_writer::write_frame;
use super::lanes::{Lanes, max_lanes};
use super::loop_filter_level::{choose_level, level_from};
use super::macroblocks::{Batches, Macroblocks};
use super::mode_counts::ModeCounts;
use super::mode_decision::{decide, decide_again};
use super::parameters::MAX_QUANTIZER;
use super::steering::{Steering, cost_of};
use super::tokens::{LaneTokens, TokenBuffer};
use crate::frame::{FrameBuffer, FrameLayout};
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
        let (encoded, decisions) = self.encode_first(quantizer);
        decisions.give_back(&self.arena);
        encoded
    }

    /// [`Analysis::encode`] that also returns the decisions, for candidates of other quantizers
    /// ([`Analysis::encode_reusing`]).
    #[must_use]
    pub fn encode_first(&self, quantizer: u8) -> (Encoded, Decisions) {
        let quantizer = quantizer.min(MAX_QUANTIZER);
        self.code(quantizer, None)
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
    /// If `first` visibly belongs to another picture: the frame kind or the size in macroblocks differs.
    #[must_use]
    pub fn encode_reusing(&self, quantizer: u8, first: &Decisions) -> Encoded {
        let quantizer = quantizer.min(MAX_QUANTIZER);
        if !first.serve(quantizer) {
            return self.encode(quantizer);
        }
        let (columns, count) = (first.macroblocks.columns(), first.macroblocks.infos.len());
        let FrameLayout { columns: own_columns, rows, .. } = self.layout;
        assert!(columns == own_columns && count == own_columns * rows, "decisions of another picture");
        assert!(first.key_frame == self.key_frame, "decisions of another picture");
        let (encoded, decisions) = self.code(quantizer, Some(first));
        decisions.give_back(&self.arena);
        encoded
    }

    /// Codes a frame without steering.
    fn code(&self, quantizer: u8, kept: Option<&Decisions>) -> (Encoded, Decisions) {
        let steering = Steering::none(f64::from(rounding_of(self.key_frame).ac));
        finish(self, quantizer, code_macroblocks(self, quantizer, kept, &steering), kept)
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
        decisions.give_back(&self.arena);
        candidates
    }
}

/// A frame whose macroblocks are coded, before its loop filter level and probabilities are chosen.
pub(super) struct CodedFrame {
    /// The reconstruction, unfiltered.
    buffer: FrameBuffer,
    pub(super) macroblocks: Macroblocks,
    tokens: TokenBuffer,
    end: RowEnd,
    /// The widest dead zones of all macroblocks.
    dead_zones: DeadZones,
}

/// What the end of a row tells later rows, and that of the last row the caller. Sums cover all macroblocks so far.
#[derive(Debug, Clone, Default)]
struct RowEnd {
    counts: ModeCounts,
    /// Cost of the coefficients in 1/256 bit.
    spent: u64,
    /// Sum of the roundings that steering chose.
    roundings: f64,
    /// Number of macroblocks since one moved, in this row and every `n`-th before it (`contest`).
    steady: u32,
}

impl CodedFrame {
    /// Mean rounding of AC coefficients, in 1/128 of a step.
    pub(super) fn mean_rounding(&self, steering: &Steering) -> f64 {
        steering.mean_rounding(self.end.roundings, self.macroblocks.infos.len())
    }
}

/// Decides and codes all macroblocks. `kept` are decisions of another pass to reuse.
///
/// If `n` lanes can share the picture, a row does not know the ends of the `n - 1` rows before it. It knows the
/// macroblocks around its own.
pub(super) fn code_macroblocks(
    analysis: &Analysis,
    quantizer: u8,
    kept: Option<&Decisions>,
    steering: &Steering,
) -> CodedFrame {
    let Analysis { arena, layout, key_frame, .. } = analysis;
    let FrameLayout { columns, rows, .. } = *layout;
    let mut buffer = arena.frame(*layout);
    let batches = Batches::new(columns, rows);
    let ends: Vec<OnceLock<RowEnd>> = (0..rows).map(|_| OnceLock::new()).collect();
    let (lanes, most) = (Lanes::default(), max_lanes(layout));
    let threads = most.min(arena.threads());
    let start = RowEnd::default();
    let coded = lanes.run(threads, buffer.rows_mut().enumerate(), |next| {
        let mut costs = Costs::new(analysis, quantizer);
        let mut contest = Contest::default();
        let mut tokens = LaneTokens::new(arena.tokens().take(rows * columns * 32 / threads));
        while let Some((row, samples)) = next() {
            let end_of = |row: Option<usize>| row.map_or(&start, |row| lanes.wait(&ends[row]));
            let known = end_of(row.checked_sub(most));
            costs.update_mode_costs(&known.counts);
            contest.steady = known.steady;
            let mut steering = steering.row(row * columns, (row + 1).saturating_sub(most) * columns, known.spent);
            let mut canvas = CanvasRow::new(row, *layout, *key_frame, &batches, samples);
            for column in 0..columns {
                let place = canvas.place(column, &lanes);
                let at = row * columns + column;
                steering.correct(at, (row + 1) * columns, &mut costs);
                costs.set_macroblock(at);
                let chosen = match kept {
                    Some(kept) => decide_again(&costs, &canvas, &place, kept, &mut contest),
                    None => decide(&costs, &canvas, &place, &mut contest),
                };
                let cost = cost_of(chosen);
                steering.record(cost);
                canvas.add(&place, chosen, cost, &mut tokens, &lanes);
            }
            tokens.end_row(row);
            let mut end = end_of(row.checked_sub(1)).clone();
            end.counts.merge(&canvas.counts);
            end.spent += steering.spent;
            end.roundings += steering.roundings;
            end.steady = contest.steady;
            lanes.publish(&ends[row], end);
        }
        (tokens, costs.widest_dead_zones)
    });
    let mut tokens = Vec::with_capacity(most);
    let mut dead_zones = coded[0].1;
    for (lane, zones) in coded {
        tokens.push(lane);
        dead_zones = dead_zones.widened(&zones);
    }
    let macroblocks = Macroblocks::new(batches, arena.macroblocks().take(columns * rows));
    let end = lanes.wait(&ends[rows - 1]).clone();
    CodedFrame { buffer, macroblocks, tokens: TokenBuffer::new(tokens), end, dead_zones }
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
    coded: CodedFrame,
    kept: Option<&Decisions>,
) -> (Encoded, Decisions) {
    let CodedFrame { buffer, macroblocks, tokens, end: RowEnd { counts, .. }, dead_zones } = coded;
    let key_frame = analysis.key_frame;
    let contents = analysis.state.contents();
    let inherited = contents.inherited(key_frame);
    let mut header = header_of(analysis, quantizer, &inherited, &counts);
    header.loop_filter.level = match kept {
        Some(kept) => level_from(quantizer, (kept.quantizer, kept.loop_filter_level)),
        None => choose_level(analysis, quantizer, buffer.samples(), &macroblocks.infos, &header),
    };
    let infos = &macroblocks.infos;
    let filter =
        FrameFilter::new(infos, key_frame, &header.loop_filter, &header.loop_filter_deltas, &header.segmentation);
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
    tokens.into_tokens().for_each(|tokens| arena.tokens().give_back(tokens));
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
