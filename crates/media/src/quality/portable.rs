//! Portable kernels of the picture comparison. Each has an AVX2 version in `x86`.

use super::{BLOCK, BlockRow, Sums, WINDOW_SAMPLES};

/// Sum of squared differences between two rows of at most 16383 samples. It stays below 2^31.
pub(super) fn row_squared_error(first: &[u8], second: &[u8]) -> u32 {
    first
        .iter()
        .zip(second)
        .map(|(&a, &b)| {
            let difference = i32::from(a) - i32::from(b);
            (difference * difference) as u32
        })
        .sum()
}

/// Adds the sums of each block of four lines of both planes to `row`.
pub(super) fn sum_blocks(first: [&[u8]; BLOCK], second: [&[u8]; BLOCK], row: &mut BlockRow) {
    // Eight blocks at a time, columns first: compilers vectorize this form.
    const COLUMNS: usize = 8 * BLOCK;
    let whole = row.blocks * BLOCK / COLUMNS * COLUMNS;
    for at in (0..whole).step_by(COLUMNS) {
        let mut columns = [Sums::default(); COLUMNS];
        for (a, b) in first.iter().zip(second) {
            add_line(&mut columns, &a[at..at + COLUMNS], &b[at..at + COLUMNS]);
        }
        for (block, columns) in columns.as_chunks::<BLOCK>().0.iter().enumerate() {
            row.set(at / BLOCK + block, columns.iter().copied().fold(Sums::default(), Sums::plus));
        }
    }
    for block in whole / BLOCK..row.blocks {
        let mut columns = [Sums::default(); BLOCK];
        for (a, b) in first.iter().zip(second) {
            add_line(&mut columns, &a[BLOCK * block..][..BLOCK], &b[BLOCK * block..][..BLOCK]);
        }
        row.set(block, columns.into_iter().fold(Sums::default(), Sums::plus));
    }
}

fn add_line<const COLUMNS: usize>(columns: &mut [Sums; COLUMNS], first: &[u8], second: &[u8]) {
    for ((column, &a), &b) in columns.iter_mut().zip(first).zip(second) {
        let (a, b) = (i32::from(a), i32::from(b));
        *column = column.plus(Sums { first: a, second: b, squares: a * a + b * b, products: a * b });
    }
}

/// Adds the SSIM of each 8x8 window of two rows of blocks to `total`, from the left.
pub(super) fn add_windows(above: &BlockRow, below: &BlockRow, total: &mut f64) {
    let column = |x: usize| above.get(x).plus(below.get(x));
    let mut left = column(0);
    for x in 1..above.blocks {
        let right = column(x);
        *total += left.plus(right).ssim(WINDOW_SAMPLES);
        left = right;
    }
}
