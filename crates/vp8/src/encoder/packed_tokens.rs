//! Packing of quantized levels into tokens.

pub(crate) mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

use super::packed_token::{BLOCKS, BlockKind, PackedToken};

/// Tokens of a macroblock, or of a part of it, in coding order.
#[derive(Debug, Clone)]
pub(crate) struct PackedTokens {
    tokens: [PackedToken; 16 * BLOCKS],
    count: usize,
}

impl Default for PackedTokens {
    fn default() -> Self {
        Self { tokens: [PackedToken::default(); 16 * BLOCKS], count: 0 }
    }
}

impl PackedTokens {
    /// Removes all tokens.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.count = 0;
    }

    #[inline]
    pub(crate) fn all(&self) -> &[PackedToken] {
        &self.tokens[..self.count]
    }

    /// Appends blocks of one type. There is room for the blocks of one macroblock.
    ///
    /// `levels` are in raster order. `ends` are zigzag positions after the last nonzero level. `contexts` are the
    /// numbers of neighbours, above and to the left, that have coefficients.
    #[inline]
    pub(crate) fn append(&mut self, kind: BlockKind, levels: &[[i16; 16]], ends: &[u8], contexts: &[u8]) {
        #[cfg(target_arch = "x86_64")]
        if let Some(count) = x86::append(kind, levels, ends, contexts, &mut self.tokens, self.count) {
            self.count = count;
            return;
        }
        self.count = portable::append(kind, levels, ends, contexts, &mut self.tokens, self.count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoder::packed_token::end_of;
    use crate::tables::ZIGZAG;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn vector_packing_equals_portable_packing(
            kind in 0usize..4,
            blocks in proptest::collection::vec(
                (0u8..3, 0usize..=16, proptest::array::uniform16(prop_oneof![
                    3 => Just(0i16), 2 => -4i16..=4, 1 => -100i16..=100, 1 => -2047i16..=2047,
                ])),
                1..=16,
            ),
            before in 0usize..=9 * 16,
        ) {
            let kind = [BlockKind::LumaWithoutDc, BlockKind::SecondOrder, BlockKind::Chroma, BlockKind::Luma][kind];
            let (mut levels, mut ends, mut contexts) = (Vec::new(), Vec::new(), Vec::new());
            for (context, end, mut block) in blocks {
                (end..16).for_each(|position| block[ZIGZAG[position] as usize] = 0);
                if kind == BlockKind::LumaWithoutDc {
                    block[0] = 0;
                }
                ends.push(end_of(&block) as u8);
                contexts.push(context);
                levels.push(block);
            }
            let mut packed = PackedTokens { count: before, ..PackedTokens::default() };
            packed.append(kind, &levels, &ends, &contexts);
            let mut expected = [PackedToken::default(); 16 * BLOCKS];
            let count = portable::append(kind, &levels, &ends, &contexts, &mut expected, before);
            prop_assert_eq!(packed.all(), &expected[..count]);
        }
    }
}
