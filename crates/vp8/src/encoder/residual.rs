//! The residual of one macroblock: transform, quantization, tokens, and reconstruction.

use std::ops::Range;

use super::forward_quantizer::ForwardQuantizer;
use super::forward_transform::{forward_dct, forward_dct_plane, forward_wht};
use super::frame_quantizers::FrameQuantizers;
use super::packed_token::{BlockKind, PackedToken};
use super::packed_tokens::PackedTokens;
use super::trellis::{Block, Trellis};
use crate::transform::{inverse_dct_add, inverse_dct_add_dc_pair, inverse_dct_add_pair, inverse_wht};

/// Whether the neighbouring blocks on one side of a macroblock have coefficients (RFC 6386, section 13.3).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct EdgeContext {
    /// Four blocks of luma, two of U, two of V, and Y2.
    has_coefficients: [u8; 9],
}

const SECOND_ORDER_EDGE: usize = 8;

impl EdgeContext {
    /// No coefficients.
    pub(crate) const NONE: Self = Self { has_coefficients: [0; 9] };

    /// Updates the context after a macroblock without coefficients.
    pub(crate) fn clear(&mut self, has_second_order: bool) {
        let kept = if has_second_order { 0 } else { self.has_coefficients[SECOND_ORDER_EDGE] };
        self.has_coefficients = [0; 9];
        self.has_coefficients[SECOND_ORDER_EDGE] = kept;
    }
}

/// Index of the Y2 block. Luma has 0 to 15, U 16 to 19, V 20 to 23.
pub(crate) const SECOND_ORDER: usize = 24;

/// Ratio of squared coefficients to squared samples. The transform is twice the orthonormal one, and that of Y2 is
/// twice as large again.
const COEFFICIENT_SQUARE: u32 = 4;
const SECOND_ORDER_SQUARE: u32 = 16;

/// Inputs of trellis quantization: the trellis, and the contexts above and to the left of the macroblock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TrellisContext<'a> {
    pub(crate) trellis: Trellis<'a>,
    pub(crate) above: &'a EdgeContext,
    pub(crate) left: &'a EdgeContext,
}

/// Levels of one macroblock, and their dequantized values.
#[derive(Debug, Clone, Default)]
pub(crate) struct Residual {
    pub(crate) levels: [[i16; 16]; 25],
    restored: [[i16; 16]; 25],
    /// Coefficients of the last transform, of luma or chroma.
    coefficients: [[i16; 16]; 16],
    /// For each block, the zigzag position after its last nonzero level.
    pub(crate) ends: [u8; 25],
    tokens: PackedTokens,
}

impl Residual {
    /// Transforms and quantizes a 16x16 luma residual with its Y2 block. Returns the approximate reduction of the
    /// squared error.
    pub(crate) fn code_luma(
        &mut self,
        source: &[u8],
        source_stride: usize,
        prediction: &[u8; 256],
        quantizers: &FrameQuantizers,
        trellis_context: Option<TrellisContext<'_>>,
    ) -> u32 {
        let Self { levels, restored, ends, coefficients, .. } = self;
        forward_dct_plane::<16>(source, source_stride, prediction, coefficients);
        let mut dcs = [0i16; 16];
        for (dc, coefficients) in dcs.iter_mut().zip(&mut *coefficients) {
            *dc = std::mem::take(&mut coefficients[0]);
        }
        let blocks = Blocks {
            coefficients,
            levels: &mut levels[..16],
            restored: &mut restored[..16],
            ends: &mut ends[..16],
            edges: 0..4,
        };
        let gain = blocks.quantize(BlockKind::LumaWithoutDc, &quantizers.luma, trellis_context);
        let second = SECOND_ORDER..SECOND_ORDER + 1;
        let mut coefficients = [[0; 16]];
        forward_wht(&dcs, &mut coefficients[0]);
        let blocks = Blocks {
            coefficients: &coefficients,
            levels: &mut levels[second.clone()],
            restored: &mut restored[second.clone()],
            ends: &mut ends[second],
            edges: SECOND_ORDER_EDGE..SECOND_ORDER_EDGE + 1,
        };
        let second_gain = blocks.quantize(BlockKind::SecondOrder, &quantizers.second_order, trellis_context);
        if self.ends[SECOND_ORDER] > 0 {
            let dcs = inverse_wht(&self.restored[SECOND_ORDER]);
            for (restored, dc) in self.restored.iter_mut().zip(dcs) {
                restored[0] = dc;
            }
        }
        gain + second_gain
    }

    /// Adds the luma residual to the prediction, in place.
    pub(crate) fn restore_luma(&self, samples: &mut [u8; 256]) {
        let without_dc = self.ends[SECOND_ORDER] == 0;
        for first in (0..16).step_by(2) {
            let ends = self.ends[first].max(self.ends[first + 1]);
            let samples = &mut samples[64 * (first / 4) + 4 * (first % 4)..];
            // The DC coefficients come from Y2. If it is empty, only blocks with AC coefficients need a transform.
            match (without_dc, ends) {
                (true, 0) => (),
                (_, 0) => inverse_dct_add_dc_pair([self.restored[first][0], self.restored[first + 1][0]], samples, 16),
                _ => inverse_dct_add_pair(&[self.restored[first], self.restored[first + 1]], samples, 16),
            }
        }
    }

    /// Transforms and quantizes the residual of one luma subblock including DC, and adds it to the prediction in
    /// `samples`.
    #[inline]
    pub(crate) fn code_subblock(
        &mut self,
        block: usize,
        source: &[u8],
        source_stride: usize,
        samples: &mut [u8],
        stride: usize,
        quantizer: &ForwardQuantizer,
    ) {
        let mut coefficients = [0; 16];
        forward_dct(source, source_stride, samples, stride, &mut coefficients);
        self.ends[block] = quantizer.quantize(&coefficients, &mut self.levels[block], &mut self.restored[block]);
        if self.ends[block] > 0 {
            inverse_dct_add(&self.restored[block], samples, stride);
        }
    }

    /// Adds two adjacent blocks of luma or chroma to the prediction.
    fn restore_pair(&self, first: usize, samples: &mut [u8], stride: usize) {
        match self.ends[first].max(self.ends[first + 1]) {
            0 => (),
            1 => inverse_dct_add_dc_pair([self.restored[first][0], self.restored[first + 1][0]], samples, stride),
            _ => inverse_dct_add_pair(&[self.restored[first], self.restored[first + 1]], samples, stride),
        }
    }

    /// Transforms and quantizes all luma subblocks including DC against a whole prediction. Returns the approximate
    /// reduction of the squared error.
    pub(crate) fn code_luma_subblocks(
        &mut self,
        source: &[u8],
        source_stride: usize,
        prediction: &[u8; 256],
        quantizer: &ForwardQuantizer,
        trellis_context: Option<TrellisContext<'_>>,
    ) -> u32 {
        let Self { levels, restored, ends, coefficients, .. } = self;
        forward_dct_plane::<16>(source, source_stride, prediction, coefficients);
        levels[SECOND_ORDER] = [0; 16];
        ends[SECOND_ORDER] = 0;
        let blocks = Blocks {
            coefficients,
            levels: &mut levels[..16],
            restored: &mut restored[..16],
            ends: &mut ends[..16],
            edges: 0..4,
        };
        blocks.quantize(BlockKind::Luma, quantizer, trellis_context)
    }

    /// Adds luma subblocks including DC to the prediction, in place.
    pub(crate) fn restore_luma_subblocks(&self, samples: &mut [u8; 256]) {
        for block in (0..16).step_by(2) {
            self.restore_pair(block, &mut samples[64 * (block / 4) + 4 * (block % 4)..], 16);
        }
    }

    /// Transforms and quantizes both chroma planes. Returns the approximate reduction of the squared error.
    pub(crate) fn code_chroma(
        &mut self,
        source: [&[u8]; 2],
        source_stride: usize,
        prediction: &[[u8; 64]; 2],
        quantizer: &ForwardQuantizer,
        trellis_context: Option<TrellisContext<'_>>,
    ) -> u32 {
        let Self { levels, restored, ends, coefficients, .. } = self;
        let coefficients = &mut coefficients[..8];
        for ((source, prediction), coefficients) in source.iter().zip(prediction).zip(coefficients.chunks_exact_mut(4))
        {
            forward_dct_plane::<8>(source, source_stride, prediction, coefficients);
        }
        if trellis_context.is_none() {
            let (levels, restored, ends) = (&mut levels[16..24], &mut restored[16..24], &mut ends[16..24]);
            return quantizer.quantize_all(coefficients, levels, restored, ends) / COEFFICIENT_SQUARE;
        }
        let mut gain = 0;
        for (plane, coefficients) in coefficients.chunks_exact(4).enumerate() {
            let (first, edge) = (16 + 4 * plane, 4 + 2 * plane);
            let blocks = Blocks {
                coefficients,
                levels: &mut levels[first..first + 4],
                restored: &mut restored[first..first + 4],
                ends: &mut ends[first..first + 4],
                edges: edge..edge + 2,
            };
            gain += blocks.quantize(BlockKind::Chroma, quantizer, trellis_context);
        }
        gain
    }

    /// Adds the chroma residuals to the predictions, in place.
    pub(crate) fn restore_chroma(&self, samples: &mut [[u8; 64]; 2]) {
        for (index, first) in (16..24).step_by(2).enumerate() {
            self.restore_pair(first, &mut samples[index / 2][32 * (index % 2)..], 8);
        }
    }

    /// Whether no block has coefficients.
    pub(crate) fn is_empty(&self) -> bool {
        self.ends == [0; 25]
    }

    /// Marks all blocks as empty.
    pub(crate) fn clear(&mut self) {
        self.ends = [0; 25];
    }

    /// Packs all tokens of the macroblock, for their cost and for writing.
    pub(crate) fn pack_tokens(&mut self, second_order: bool, above: &EdgeContext, left: &EdgeContext) {
        let Self { levels, ends, tokens, .. } = self;
        tokens.clear();
        let (above, left) = (&above.has_coefficients, &left.has_coefficients);
        let kind = if second_order {
            let block = SECOND_ORDER..SECOND_ORDER + 1;
            let context = [above[SECOND_ORDER_EDGE] + left[SECOND_ORDER_EDGE]];
            tokens.append(BlockKind::SecondOrder, &levels[block.clone()], &ends[block], &context);
            BlockKind::LumaWithoutDc
        } else {
            BlockKind::Luma
        };
        let luma = contexts::<4, 16>(&ends[..16], &above[..4], &left[..4]);
        tokens.append(kind, &levels[..16], &ends[..16], &luma);
        let [u, v] = [0, 1].map(|plane| {
            let (first, edge) = (16 + 4 * plane, 4 + 2 * plane);
            contexts::<2, 4>(&ends[first..first + 4], &above[edge..edge + 2], &left[edge..edge + 2])
        });
        let chroma = [u[0], u[1], u[2], u[3], v[0], v[1], v[2], v[3]];
        tokens.append(BlockKind::Chroma, &levels[16..24], &ends[16..24], &chroma);
    }

    /// The tokens of the last [`Residual::pack_tokens`].
    pub(crate) fn tokens(&self) -> &[PackedToken] {
        self.tokens.all()
    }

    /// Updates the contexts for the macroblocks below and to the right.
    pub(crate) fn update_contexts(&self, second_order: bool, above: &mut EdgeContext, left: &mut EdgeContext) {
        const LAST: [usize; 8] = [12, 13, 14, 15, 18, 19, 22, 23];
        const RIGHT: [usize; 8] = [3, 7, 11, 15, 17, 19, 21, 23];
        for edge in 0..8 {
            above.has_coefficients[edge] = u8::from(self.ends[LAST[edge]] > 0);
            left.has_coefficients[edge] = u8::from(self.ends[RIGHT[edge]] > 0);
        }
        if second_order {
            let flag = u8::from(self.ends[SECOND_ORDER] > 0);
            above.has_coefficients[SECOND_ORDER_EDGE] = flag;
            left.has_coefficients[SECOND_ORDER_EDGE] = flag;
        }
    }
}

/// Blocks of one type, with one column of blocks per index in `edges` of an [`EdgeContext`].
struct Blocks<'a> {
    coefficients: &'a [[i16; 16]],
    levels: &'a mut [[i16; 16]],
    restored: &'a mut [[i16; 16]],
    ends: &'a mut [u8],
    edges: Range<usize>,
}

impl Blocks<'_> {
    /// Quantizes the blocks. Returns the approximate reduction of the samples' squared error.
    #[inline]
    fn quantize(
        self,
        kind: BlockKind,
        quantizer: &ForwardQuantizer,
        trellis_context: Option<TrellisContext<'_>>,
    ) -> u32 {
        let square = if kind == BlockKind::SecondOrder { SECOND_ORDER_SQUARE } else { COEFFICIENT_SQUARE };
        let Self { coefficients, levels, restored, ends, edges } = self;
        let Some(TrellisContext { trellis, above, left }) = trellis_context else {
            return quantizer.quantize_all(coefficients, levels, restored, ends) / square;
        };
        let across = edges.len();
        let (above, left) = (&above.has_coefficients[edges.clone()], &left.has_coefficients[edges]);
        let mut gain = 0i64;
        for (block, coefficients) in coefficients.iter().enumerate() {
            let up = if block < across { above[block] } else { u8::from(ends[block - across] > 0) };
            let beside = if block % across == 0 { left[block / across] } else { u8::from(ends[block - 1] > 0) };
            let (levels, restored) = (&mut levels[block], &mut restored[block]);
            let each = Block { kind, context: up + beside, square, coefficients };
            ends[block] = trellis.quantize(&each, quantizer, levels, restored);
            for (&coefficient, &restored) in coefficients.iter().zip(&*restored) {
                let (coefficient, restored) = (i64::from(coefficient), i64::from(restored));
                gain += restored * (2 * coefficient - restored);
            }
        }
        (gain.max(0) / i64::from(square)) as u32
    }
}

/// Contexts of `N` blocks in rows of `W`. `above` and `left` are the flags of neighbouring macroblocks.
#[inline]
fn contexts<const W: usize, const N: usize>(ends: &[u8], above: &[u8], left: &[u8]) -> [u8; N] {
    let ends: &[u8; N] = ends.try_into().expect("an end for each block");
    let flags = ends.map(|end| u8::from(end > 0));
    std::array::from_fn(|block| {
        let up = if block < W { above[block] } else { flags[block - W] };
        let beside = if block % W == 0 { left[block / W] } else { flags[block - 1] };
        up + beside
    })
}
