//! Encodes one frame with one quantizer.

use std::sync::Arc;

use super::analysis::Analysis;
use super::distortion::squared_error;
use super::fit::Steering;
use super::forward_quantizer::{ForwardQuantizer, Rounding};
use super::header_writer::{ModeCounts, write_frame};
use super::loop_filter_level::choose_level;
use super::mode_costs::{PartitionVector, inter_path, path_cost};
use super::rate_distortion::Lagrangian;
use super::residual::{EdgeContext, ForwardQuantizers};
use super::tokens::TokenBuffer;
use super::trial::{Place, Setting, Trial, USUAL_SKIP_WEIGHT};
use super::{EncodeStatistics, Encoded};
use crate::decoder::{inherit, succeed};
use crate::frame::FrameBuffer;
use crate::header::{
    BufferCopy, FrameHeader, FrameSize, FrameTag, LoopFilterDeltas, LoopFilterHeader, QuantizerIndices,
    ReferenceUpdates, Segmentation,
};
use crate::loop_filter::filter_row;
use crate::macroblock::{LumaMode, MacroblockInfo, NearVectors, ReferenceFrame, VectorBounds, find_near_vectors};
use crate::quantization::Steps;

/// Rounding of luma and chroma coefficients; the second-order block, which spreads over a whole macroblock, is rounded
/// more nearly to the nearest level.
const INTRA_ROUNDING: Rounding = Rounding { dc: 50, ac: 44 };
const INTER_ROUNDING: Rounding = Rounding { dc: 48, ac: 40 };
pub(super) const SECOND_ORDER_ROUNDING: Rounding = Rounding { dc: 52, ac: 48 };

/// The rounding of luma and chroma.
pub(super) fn rounding_of(key_frame: bool) -> Rounding {
    if key_frame { INTRA_ROUNDING } else { INTER_ROUNDING }
}

/// The filter is a little weaker where little has changed and stronger where blocks show most: the values that libvpx's
/// frames carry by default.
const LOOP_FILTER_DELTAS: LoopFilterDeltas =
    LoopFilterDeltas { enabled: true, references: [2, 0, -2, -2], modes: [4, -2, 2, 4] };

/// What stands for a neighbour outside the frame.
static OUTSIDE: MacroblockInfo = MacroblockInfo {
    luma_mode: LumaMode::Dc,
    chroma_mode: LumaMode::Dc,
    reference: ReferenceFrame::Intra,
    motion_vector: crate::macroblock::MotionVector::ZERO,
    segment: 0,
    partitioning: 0,
    skip: false,
    has_coefficients: false,
    subblock_modes: [crate::macroblock::SubblockMode::Dc; 16],
    subblock_vectors: [crate::macroblock::MotionVector::ZERO; 16],
};

/// The macroblocks of a frame in the making.
#[derive(Debug, Clone)]
pub(super) struct Macroblocks {
    pub(super) columns: usize,
    rows: usize,
    /// Those that are decided.
    pub(super) infos: Vec<MacroblockInfo>,
    /// How each partition's vector is coded, in split macroblocks.
    pub(super) partition_vectors: Vec<[PartitionVector; 16]>,
}

impl Macroblocks {
    /// The neighbours above, to the left, and above to the left.
    pub(super) fn neighbours(&self, column: usize, row: usize) -> [&MacroblockInfo; 3] {
        let at = row * self.columns + column;
        let neighbour = |exists: bool, back: usize| if exists { &self.infos[at - back] } else { &OUTSIDE };
        [neighbour(row > 0, self.columns), neighbour(column > 0, 1), neighbour(row > 0 && column > 0, self.columns + 1)]
    }

    /// What the neighbours say of a vector. No reference's vectors are turned round, so it is the same for all.
    pub(super) fn near_vectors(&self, column: usize, row: usize) -> NearVectors {
        let [above, left, above_left] = self.neighbours(column, row);
        let bounds = VectorBounds::at(column, row, self.columns, self.rows);
        find_near_vectors(above, left, above_left, ReferenceFrame::Last, &[false; 4], &bounds)
    }
}

/// The making of one frame.
pub(super) struct FrameEncoder<'a> {
    pub(super) analysis: &'a Analysis,
    quantizer: u8,
    pub(super) quantizers: ForwardQuantizers,
    pub(super) lagrangian: Lagrangian,
    pub(super) buffer: FrameBuffer,
    pub(super) macroblocks: Macroblocks,
    above: Vec<EdgeContext>,
    left: EdgeContext,
    tokens: TokenBuffer,
    pub(super) counts: ModeCounts,
    /// Costs of saying which reference a macroblock has; renewed row by row from what was counted so far.
    pub(super) reference_costs: [u32; 4],
    skip_costs: [u32; 2],
    /// The best way to code the present macroblock, and one that is being tried.
    pub(super) best: Box<Trial>,
    pub(super) trial: Box<Trial>,
    /// The step between luma AC levels.
    pub(super) step: u32,
    /// How readily residuals are left out, in 1/256 of the usual.
    pub(super) skip_weight: u32,
    /// Where the frame is to fit a budget.
    pub(super) steering: Option<Steering<'a>>,
}

impl<'a> FrameEncoder<'a> {
    pub(super) fn new(analysis: &'a Analysis, quantizer: u8) -> Self {
        let steps = Steps::new(quantizer, &QuantizerIndices { base: quantizer, ..QuantizerIndices::default() });
        let rounding = rounding_of(analysis.key_frame);
        let forward = |[dc, ac]: [i32; 2], rounding| ForwardQuantizer::new(dc, ac, rounding);
        let count = analysis.layout.columns * analysis.layout.rows;
        let last = analysis.state.contents().references.as_ref().map(|references| &references.last);
        let buffer = FrameBuffer::following(last, analysis.layout);
        let spares = buffer.spares();
        Self {
            analysis,
            quantizer,
            quantizers: ForwardQuantizers {
                luma: forward(steps.luma, rounding),
                second_order: forward(steps.second_order, SECOND_ORDER_ROUNDING),
                chroma: forward(steps.chroma, rounding),
            },
            lagrangian: Lagrangian::new(steps.luma[1]),
            buffer,
            macroblocks: Macroblocks {
                columns: analysis.layout.columns,
                rows: analysis.layout.rows,
                infos: spares.vector(count),
                partition_vectors: vec![[PartitionVector::Zero; 16]; count],
            },
            above: vec![EdgeContext::default(); analysis.layout.columns],
            left: EdgeContext::default(),
            tokens: TokenBuffer::new(spares.vector(count * 32)),
            counts: ModeCounts::default(),
            reference_costs: [0; 4],
            skip_costs: [0; 2],
            best: Box::default(),
            trial: Box::default(),
            step: steps.luma[1] as u32,
            skip_weight: USUAL_SKIP_WEIGHT,
            steering: None,
        }
    }

    /// What all macroblocks of the frame need.
    pub(super) fn code_trial(&mut self, place: &Place) {
        let setting = Setting {
            source: &self.analysis.source,
            quantizers: &self.quantizers,
            lagrangian: self.lagrangian,
            token_costs: &self.analysis.token_costs,
            skip_weight: self.skip_weight,
            exact_worth: self.steering.is_some(),
        };
        self.trial.code(&setting, place);
        if self.trial.cost < self.best.cost {
            std::mem::swap(&mut self.trial, &mut self.best);
        }
    }

    /// The quantizer of luma subblocks.
    pub(super) fn luma_quantizer(&self) -> &ForwardQuantizer {
        &self.quantizers.luma
    }

    /// The cost of an inter mode without its vector.
    pub(super) fn inter_mode_cost(&self, mode: LumaMode, reference: ReferenceFrame, near: &NearVectors) -> u32 {
        self.reference_costs[reference as usize] + path_cost(inter_path(mode), &near.mode_probabilities)
    }

    /// Encodes the frame.
    pub(super) fn encode(mut self) -> Encoded {
        self.code_macroblocks();
        self.finish()
    }

    /// Decides and codes all macroblocks.
    pub(super) fn code_macroblocks(&mut self) {
        let layout = self.analysis.layout;
        for row in 0..layout.rows {
            self.left = EdgeContext::default();
            self.reference_costs = self.counts.reference_costs();
            self.skip_costs = self.counts.skip_costs();
            for column in 0..layout.columns {
                let place =
                    Place { column, row, above: self.above[column], left: self.left, skip_costs: self.skip_costs };
                self.best.cost = u64::MAX;
                if self.keep_mode(&place) {
                    // It was decided before.
                } else if self.analysis.key_frame {
                    self.decide_intra(&place);
                } else {
                    self.decide_inter(&place);
                }
                self.record_cost();
                self.commit(&place);
            }
        }
    }

    /// Makes the best trial the macroblock.
    fn commit(&mut self, place: &Place) {
        let best = &mut self.best;
        let second_order = best.info.luma_mode.has_second_order();
        let empty = best.residual.is_empty();
        best.info.skip = empty;
        best.info.has_coefficients = !empty;
        let (above, left) = (&mut self.above[place.column], &mut self.left);
        if empty {
            above.clear(second_order);
            left.clear(second_order);
        } else {
            best.residual.push_tokens(second_order, above, left, &mut self.tokens);
        }
        // Before the samples: their lines are seldom in the cache, and what reads these flags waits for older stores.
        let at = place.row * self.macroblocks.columns + place.column;
        self.counts.add(&best.info, self.analysis.key_frame);
        debug_assert_eq!(at, self.macroblocks.infos.len());
        self.macroblocks.infos.push(best.info);
        if best.info.luma_mode == LumaMode::Split {
            self.macroblocks.partition_vectors[at] = best.partition_vectors;
        }
        let planes = self.analysis.layout.planes;
        let samples = self.buffer.samples_mut();
        let start = planes[0].origin + 16 * place.row * planes[0].stride + 16 * place.column;
        for (y, row) in best.luma.chunks_exact(16).enumerate() {
            samples[start + y * planes[0].stride..][..16].copy_from_slice(row);
        }
        for (plane, chroma) in planes[1..].iter().zip(&best.chroma) {
            let start = plane.origin + 8 * place.row * plane.stride + 8 * place.column;
            for (y, row) in chroma.chunks_exact(8).enumerate() {
                samples[start + y * plane.stride..][..8].copy_from_slice(row);
            }
        }
    }

    /// Filters the frame. Gives the squared error that it leaves in each plane, summed while lines are still in the cache.
    fn filter(&mut self, header: &FrameHeader) -> [u64; 3] {
        let (source, layout, infos) = (&self.analysis.source, &self.analysis.layout, &self.macroblocks.infos);
        let samples = self.buffer.samples_mut();
        let (filter, deltas, segmentation) = (&header.loop_filter, &header.loop_filter_deltas, &header.segmentation);
        let mut total = [0; 3];
        let mut first = 0;
        for row in 0..layout.rows {
            filter_row(samples, layout, infos, row, self.analysis.key_frame, filter, deltas, segmentation);
            // The row below changes three more lines of each plane; the last one has none below.
            let end = 16 * (row + 1) - if row + 1 < layout.rows { 8 } else { 0 };
            for (total, error) in total.iter_mut().zip(squared_error(source, layout, samples, first..end)) {
                *total += error;
            }
            first = end;
        }
        total
    }

    /// Filters the frame, chooses its probabilities, writes it.
    pub(super) fn finish(mut self) -> Encoded {
        let analysis = self.analysis;
        let key_frame = analysis.key_frame;
        let contents = analysis.state.contents();
        let inherited = inherit(contents, key_frame);
        let mut header = FrameHeader {
            color_space: false,
            clamping_unneeded: false,
            segmentation: Segmentation {
                enabled: false,
                update_map: false,
                update_data: false,
                ..inherited.segmentation
            },
            loop_filter: LoopFilterHeader { simple: false, level: 0, sharpness: 0 },
            loop_filter_deltas: LOOP_FILTER_DELTAS,
            partitions_log2: 0,
            quantizer: QuantizerIndices { base: self.quantizer, ..QuantizerIndices::default() },
            references: ReferenceUpdates {
                refresh_golden: key_frame || analysis.refresh_golden,
                refresh_altref: key_frame,
                copy_to_golden: BufferCopy::None,
                copy_to_altref: if !key_frame && analysis.refresh_golden {
                    BufferCopy::Other
                } else {
                    BufferCopy::None
                },
                golden_sign_bias: false,
                altref_sign_bias: false,
                refresh_last: true,
            },
            refresh_entropy: true,
            probabilities: inherited.probabilities.clone(),
            skip_probability: Some(self.counts.skip_probability()),
            intra_probability: 0,
            last_probability: 0,
            golden_probability: 0,
        };
        if !key_frame {
            [header.intra_probability, header.last_probability, header.golden_probability] =
                self.counts.reference_probabilities();
        }
        header.loop_filter.level =
            choose_level(analysis, self.quantizer, &mut self.buffer, &self.macroblocks.infos, &header);
        let squared_error = self.filter(&header);
        let size = FrameSize {
            width: analysis.source.width as u16,
            height: analysis.source.height as u16,
            ..if key_frame { FrameSize::default() } else { contents.size }
        };
        let mut tag =
            FrameTag { key_frame, version: 0, shown: true, first_partition: 0, size: key_frame.then_some(size) };
        let written = write_frame(&mut tag, &mut header, &inherited, &self.macroblocks, &self.counts, &self.tokens);
        let same_size = (contents.size.width, contents.size.height) == (size.width, size.height);
        let segment_map = if same_size { contents.segment_map.clone() } else { Arc::default() };
        let loop_filter_level = header.loop_filter.level;
        let spares = self.buffer.spares();
        let state = succeed(contents, &tag, size, header, self.buffer.finish(), segment_map);
        let (width, height) = (analysis.source.width as u64, analysis.source.height as u64);
        let chroma = width.div_ceil(2) * height.div_ceil(2);
        let skipped = self.macroblocks.infos.iter().filter(|info| info.skip).count() as u32;
        let intra = self.macroblocks.infos.iter().filter(|info| info.reference == ReferenceFrame::Intra).count() as u32;
        let macroblocks = self.macroblocks.infos.len() as u32;
        spares.keep_vector(self.macroblocks.infos);
        spares.keep_vector(self.tokens.into_tokens());
        Encoded {
            frame: written.frame,
            state,
            quantizer: self.quantizer,
            key_frame,
            statistics: EncodeStatistics {
                squared_error,
                samples: [width * height, chroma, chroma],
                intra_macroblocks: intra,
                inter_macroblocks: macroblocks - intra,
                skipped_macroblocks: skipped,
                loop_filter_level,
                mode_bytes: written.mode_bytes,
                coefficient_bytes: written.coefficient_bytes,
            },
        }
    }
}
