//! Parsing (RFC 6386, section 13) and dequantization (section 14.1) of coefficients.

use crate::bool_decoder::BoolDecoder;
use crate::macroblock::MacroblockInfo;
use crate::quantization::Steps;
use crate::tables::{CATEGORY_BASES, CATEGORY_PROBABILITIES, COEFFICIENT_BANDS, CoefficientProbabilities, ZIGZAG};
use crate::transform::inverse_wht;

/// Which coefficients of a subblock can be nonzero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum BlockContent {
    #[default]
    Empty,
    OnlyDc,
    Full,
}

/// Dequantized coefficients of a macroblock's 24 subblocks: 16 of luma, 4 of each chroma plane.
#[derive(Debug)]
pub(crate) struct Residual {
    pub(crate) coefficients: [[i16; 16]; 24],
    pub(crate) content: [BlockContent; 24],
}

/// Types of blocks, each with separate probabilities (section 13.3).
const LUMA_WITHOUT_DC: usize = 0;
const SECOND_ORDER: usize = 1;
const CHROMA: usize = 2;
const LUMA_WITH_DC: usize = 3;

/// Whether neighbouring blocks have coefficients: four of luma, two of each chroma plane, one of Y2.
type Contexts = [u8; 9];
const SECOND_ORDER_CONTEXT: usize = 8;

/// Parses the coefficients of macroblocks in order.
pub(super) struct ResidualReader {
    above: Vec<Contexts>,
    left: Contexts,
    residual: Residual,
}

impl ResidualReader {
    pub(super) fn new(columns: usize) -> Self {
        let residual = Residual { coefficients: [[0; 16]; 24], content: [BlockContent::Empty; 24] };
        Self { above: vec![[0; 9]; columns], left: [0; 9], residual }
    }

    pub(super) fn begin_row(&mut self) {
        self.left = [0; 9];
    }

    /// Returns the coefficients of the next macroblock, or `None` if it has none.
    pub(super) fn read(
        &mut self,
        reader: &mut BoolDecoder<'_>,
        column: usize,
        info: &mut MacroblockInfo,
        probabilities: &CoefficientProbabilities,
        steps: &Steps,
    ) -> Option<&Residual> {
        let (above, left) = (&mut self.above[column], &mut self.left);
        let second_order = info.luma_mode.has_second_order();
        if info.skip {
            // A macroblock without a Y2 block keeps the context of that block.
            let kept = (above[SECOND_ORDER_CONTEXT], left[SECOND_ORDER_CONTEXT]);
            *above = [0; 9];
            *left = [0; 9];
            if !second_order {
                (above[SECOND_ORDER_CONTEXT], left[SECOND_ORDER_CONTEXT]) = kept;
            }
            return None;
        }
        if reader.is_exhausted() {
            // The partition is truncated. As in libvpx, no coefficients are read and inner edges are filtered.
            info.has_coefficients = true;
            return None;
        }
        let residual = &mut self.residual;
        for (block, content) in residual.coefficients.iter_mut().zip(&mut residual.content) {
            if *content != BlockContent::Empty {
                *block = [0; 16];
                *content = BlockContent::Empty;
            }
        }
        info.has_coefficients =
            versions::read_blocks(reader, (above, left), second_order, probabilities, steps, residual);
        info.has_coefficients.then_some(&self.residual)
    }
}

/// [`read_blocks`] compiled twice: for every processor, and for those with bit-manipulation instructions. The boolean
/// decoder mainly needs the position of the highest bit and variable shifts.
mod versions {
    #![allow(unsafe_code)]

    use super::{BoolDecoder, CoefficientProbabilities, Contexts, Residual, Steps};

    #[inline]
    pub(super) fn read_blocks(
        reader: &mut BoolDecoder<'_>,
        contexts: (&mut Contexts, &mut Contexts),
        second_order: bool,
        probabilities: &CoefficientProbabilities,
        steps: &Steps,
        residual: &mut Residual,
    ) -> bool {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("lzcnt") && is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("bmi2") {
            // SAFETY: the processor has these instructions.
            return unsafe { with_bit_instructions(reader, contexts, second_order, probabilities, steps, residual) };
        }
        super::read_blocks(reader, contexts, second_order, probabilities, steps, residual)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "lzcnt,bmi1,bmi2")]
    fn with_bit_instructions(
        reader: &mut BoolDecoder<'_>,
        contexts: (&mut Contexts, &mut Contexts),
        second_order: bool,
        probabilities: &CoefficientProbabilities,
        steps: &Steps,
        residual: &mut Residual,
    ) -> bool {
        super::read_blocks(reader, contexts, second_order, probabilities, steps, residual)
    }
}

/// Parses all blocks of a macroblock into `residual`, which is empty. Returns whether any has coefficients.
#[inline(always)]
fn read_blocks(
    reader: &mut BoolDecoder<'_>,
    (above, left): (&mut Contexts, &mut Contexts),
    second_order: bool,
    probabilities: &CoefficientProbabilities,
    steps: &Steps,
    residual: &mut Residual,
) -> bool {
    // A local copy lets the decoder's state stay in registers.
    let mut local = reader.clone();
    let mut any = false;
    let (first, kind) = if second_order {
        let mut block = [0i16; 16];
        let context = above[SECOND_ORDER_CONTEXT] + left[SECOND_ORDER_CONTEXT];
        let end = read_block(&mut local, &probabilities[SECOND_ORDER], context, 0, &steps.second_order, &mut block);
        above[SECOND_ORDER_CONTEXT] = u8::from(end > 0);
        left[SECOND_ORDER_CONTEXT] = u8::from(end > 0);
        if end > 0 {
            any = true;
            for (index, dc) in inverse_wht(&block).into_iter().enumerate() {
                residual.coefficients[index][0] = dc;
                if dc != 0 {
                    residual.content[index] = BlockContent::OnlyDc;
                }
            }
        }
        (1, LUMA_WITHOUT_DC)
    } else {
        (0, LUMA_WITH_DC)
    };
    for index in 0..24 {
        let (x, y, kind, first, steps) = if index < 16 {
            (index & 3, index >> 2, kind, first, &steps.luma)
        } else {
            let plane = (index - 16) >> 2;
            (4 + 2 * plane + (index & 1), 4 + 2 * plane + (index >> 1 & 1), CHROMA, 0, &steps.chroma)
        };
        let context = above[x] + left[y];
        let end =
            read_block(&mut local, &probabilities[kind], context, first, steps, &mut residual.coefficients[index]);
        let has_coefficients = u8::from(end > first);
        above[x] = has_coefficients;
        left[y] = has_coefficients;
        if end > first {
            any = true;
            residual.content[index] = if end > 1 { BlockContent::Full } else { BlockContent::OnlyDc };
        }
    }
    *reader = local;
    any
}

/// Parses one block from coefficient `first` on. Returns the position after its last coefficient, or `first` if there
/// is none.
#[inline(always)]
fn read_block(
    reader: &mut BoolDecoder<'_>,
    probabilities: &[[[u8; 11]; 3]; 8],
    context: u8,
    first: usize,
    steps: &[i32; 2],
    block: &mut [i16; 16],
) -> usize {
    let p = &probabilities[usize::from(COEFFICIENT_BANDS[first])][usize::from(context)];
    if !reader.read_bool(p[0]) {
        return first;
    }
    read_coefficients(reader, probabilities, p, first, steps, block)
}

/// Parses a block that has coefficients. The first decision, whether there are any, has already been read.
#[inline(always)]
fn read_coefficients<'p>(
    reader: &mut BoolDecoder<'_>,
    probabilities: &'p [[[u8; 11]; 3]; 8],
    mut p: &'p [u8; 11],
    first: usize,
    steps: &[i32; 2],
    block: &mut [i16; 16],
) -> usize {
    let mut position = first;
    loop {
        // The end of the block never follows a zero, so that decision is not coded there.
        while !reader.read_bool(p[1]) {
            position += 1;
            if position == 16 {
                return 16;
            }
            p = &probabilities[usize::from(COEFFICIENT_BANDS[position])][0];
        }
        let (magnitude, context) = if reader.read_bool(p[2]) { (read_magnitude(reader, p), 2) } else { (1, 1) };
        let value = if reader.read_bool(128) { -magnitude } else { magnitude };
        block[usize::from(ZIGZAG[position])] = (value * steps[usize::from(position > 0)]) as i16;
        position += 1;
        if position == 16 {
            return 16;
        }
        p = &probabilities[usize::from(COEFFICIENT_BANDS[position])][context];
        if !reader.read_bool(p[0]) {
            return position;
        }
    }
}

/// Reads the magnitude of a coefficient of at least two.
#[inline(always)]
fn read_magnitude(reader: &mut BoolDecoder<'_>, p: &[u8; 11]) -> i32 {
    if !reader.read_bool(p[3]) {
        return if !reader.read_bool(p[4]) { 2 } else { 3 + i32::from(reader.read_bool(p[5])) };
    }
    let category = if !reader.read_bool(p[6]) {
        usize::from(reader.read_bool(p[7]))
    } else {
        let high = usize::from(reader.read_bool(p[8]));
        2 + 2 * high + usize::from(reader.read_bool(p[9 + high]))
    };
    let mut extra = 0;
    for &probability in CATEGORY_PROBABILITIES[category] {
        extra = extra << 1 | i32::from(reader.read_bool(probability));
    }
    i32::from(CATEGORY_BASES[category]) + extra
}
