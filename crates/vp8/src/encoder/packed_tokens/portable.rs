//! Packing of tokens in portable code.

use crate::encoder::packed_token::{BLOCKS, BlockKind, END_OF_BLOCK, PackedToken, row_of, token_of};
use crate::tables::ZIGZAG;

/// Appends blocks to the first `count` tokens and returns the new count. The other arguments are those of
/// `PackedTokens::append`.
pub(crate) fn append(
    kind: BlockKind,
    levels: &[[i16; 16]],
    ends: &[u8],
    contexts: &[u8],
    tokens: &mut [PackedToken; 16 * BLOCKS],
    mut count: usize,
) -> usize {
    let first = kind.first();
    for ((levels, &end), &context) in levels.iter().zip(ends).zip(contexts) {
        let (end, mut context) = (usize::from(end).max(first), usize::from(context));
        let mut after_zero = false;
        for position in first..end {
            let level = levels[ZIGZAG[position] as usize];
            let magnitude = level.unsigned_abs();
            tokens[count] = PackedToken::new(row_of(kind, position, context), token_of(magnitude), after_zero, level);
            count += 1;
            context = usize::from(magnitude.min(2));
            after_zero = magnitude == 0;
        }
        if end < 16 {
            tokens[count] = PackedToken::new(row_of(kind, end, context), END_OF_BLOCK, false, 0);
            count += 1;
        }
    }
    count
}
