//! Distances between two blocks of samples in portable code.

use super::subblock_differences::SubblockDifferences;

/// Sum of absolute differences over a `W` x `H` block.
#[inline]
pub(crate) fn sad<const W: usize, const H: usize>(a: &[u8], a_stride: usize, b: &[u8], b_stride: usize) -> u32 {
    let mut total = 0;
    for y in 0..H {
        let a: &[u8; W] = a[y * a_stride..][..W].try_into().expect("a row");
        let b: &[u8; W] = b[y * b_stride..][..W].try_into().expect("a row");
        total += a.iter().zip(b).map(|(a, b)| u32::from(a.abs_diff(*b))).sum::<u32>();
    }
    total
}

/// Sum of squared differences over a `W` x `H` block.
#[inline]
pub(crate) fn sse<const W: usize, const H: usize>(a: &[u8], a_stride: usize, b: &[u8], b_stride: usize) -> u32 {
    let mut total = 0;
    for y in 0..H {
        let a: &[u8; W] = a[y * a_stride..][..W].try_into().expect("a row");
        let b: &[u8; W] = b[y * b_stride..][..W].try_into().expect("a row");
        total += a
            .iter()
            .zip(b)
            .map(|(a, b)| {
                let difference = i16::from(*a) - i16::from(*b);
                (i32::from(difference) * i32::from(difference)) as u32
            })
            .sum::<u32>();
    }
    total
}

/// Sum of absolute Hadamard-transformed differences of a 4x4 block. For a constant difference it is half of [`sad`].
#[inline]
pub(crate) fn satd_4x4(a: &[u8], a_stride: usize, b: &[u8], b_stride: usize) -> u32 {
    let mut m = [[0i16; 4]; 4];
    for (y, row) in m.iter_mut().enumerate() {
        let a = &a[y * a_stride..][..4];
        let b = &b[y * b_stride..][..4];
        for x in 0..4 {
            row[x] = i16::from(a[x]) - i16::from(b[x]);
        }
    }
    let [r0, r1, r2, r3] = m;
    let mut sums = [[0i16; 4]; 4];
    for x in 0..4 {
        let (s, d, t, e) = (r0[x] + r1[x], r0[x] - r1[x], r2[x] + r3[x], r2[x] - r3[x]);
        sums[0][x] = s + t;
        sums[1][x] = s - t;
        sums[2][x] = d + e;
        sums[3][x] = d - e;
    }
    let mut total = 0u32;
    for [p, q, r, s] in sums {
        let (a, b, c, d) = (p + q, p - q, r + s, r - s);
        total += u32::from((a + c).unsigned_abs())
            + u32::from((a - c).unsigned_abs())
            + u32::from((b + d).unsigned_abs())
            + u32::from((b - d).unsigned_abs());
    }
    total / 2
}

/// Sum of [`satd_4x4`] over a `W` x `H` block. Both sides are multiples of four.
#[inline]
pub(crate) fn satd<const W: usize, const H: usize>(a: &[u8], a_stride: usize, b: &[u8], b_stride: usize) -> u32 {
    let mut total = 0;
    for y in (0..H).step_by(4) {
        let mut x = 0;
        while x + 8 <= W {
            total += satd_8x4(&a[y * a_stride + x..], a_stride, &b[y * b_stride + x..], b_stride);
            x += 8;
        }
        if x < W {
            total += satd_4x4(&a[y * a_stride + x..], a_stride, &b[y * b_stride + x..], b_stride);
        }
    }
    total
}

/// SATD of two adjacent 4x4 blocks: eight lanes of 16 bits fill a vector register.
#[inline]
fn satd_8x4(a: &[u8], a_stride: usize, b: &[u8], b_stride: usize) -> u32 {
    let mut m = [[0i16; 8]; 4];
    for (y, row) in m.iter_mut().enumerate() {
        let a: &[u8; 8] = a[y * a_stride..][..8].try_into().expect("eight samples");
        let b: &[u8; 8] = b[y * b_stride..][..8].try_into().expect("eight samples");
        for x in 0..8 {
            row[x] = i16::from(a[x]) - i16::from(b[x]);
        }
    }
    let [r0, r1, r2, r3] = m;
    let mut v = [[0i16; 8]; 4];
    for x in 0..8 {
        let (s, d, t, e) = (r0[x] + r1[x], r0[x] - r1[x], r2[x] + r3[x], r2[x] - r3[x]);
        v[0][x] = s + t;
        v[1][x] = s - t;
        v[2][x] = d + e;
        v[3][x] = d - e;
    }
    let mut total = 0u32;
    for row in v {
        let mut pairs = [0i16; 8];
        for x in 0..4 {
            pairs[x] = row[2 * x] + row[2 * x + 1];
            pairs[4 + x] = row[2 * x] - row[2 * x + 1];
        }
        // |p + q| + |p - q| is twice the larger of |p| and |q|. The factor of two cancels.
        for x in 0..4 {
            total += u32::from(pairs[2 * x].unsigned_abs().max(pairs[2 * x + 1].unsigned_abs()));
        }
    }
    total
}

/// [`sad`] at several positions of a reference. Each is the index of a block's first sample.
#[inline]
pub(crate) fn sad_each<const W: usize, const H: usize, const N: usize>(
    source: &[u8],
    source_stride: usize,
    reference: &[u8],
    reference_stride: usize,
    places: [usize; N],
) -> [u32; N] {
    places.map(|at| sad::<W, H>(source, source_stride, &reference[at..], reference_stride))
}

/// Sum of absolute differences between a block and interpolated samples of a reference.
///
/// The interpolation is cheaper than the decoder's prediction and close enough for a search. `fractions` are quarters
/// of a sample, horizontal and vertical, from the start of `reference`.
#[inline]
pub(crate) fn sad_between<const W: usize, const H: usize>(
    source: &[u8],
    source_stride: usize,
    reference: &[u8],
    reference_stride: usize,
    (x, y): (usize, usize),
) -> u32 {
    let line = |row: usize| -> [u8; W] {
        let samples = &reference[row * reference_stride..];
        std::array::from_fn(|column| {
            if x == 0 { samples[column] } else { quarter_mean(samples[column], samples[column + 1], x) }
        })
    };
    let mut total = 0;
    let mut upper = line(0);
    for row in 0..H {
        let lower = if y == 0 { upper } else { line(row + 1) };
        let source = &source[row * source_stride..][..W];
        for column in 0..W {
            let sample = if y == 0 { upper[column] } else { quarter_mean(upper[column], lower[column], y) };
            total += u32::from(source[column].abs_diff(sample));
        }
        upper = if y == 0 && row + 1 < H { line(row + 1) } else { lower };
    }
    total
}

/// Interpolates at `quarters` quarters from `a` to `b`. Means round up, as in vector instructions.
#[inline]
fn quarter_mean(a: u8, b: u8, quarters: usize) -> u8 {
    let mean = |a: u8, b: u8| ((u16::from(a) + u16::from(b) + 1) >> 1) as u8;
    let middle = mean(a, b);
    match quarters {
        0 => a,
        1 => mean(a, middle),
        2 => middle,
        _ => mean(middle, b),
    }
}

/// Compares the `N` subblocks of a `W` x `H` block with their prediction.
pub(crate) fn compare_subblocks<const W: usize, const H: usize, const N: usize>(
    a: &[u8],
    a_stride: usize,
    b: &[u8],
    b_stride: usize,
    limit: u32,
) -> SubblockDifferences<N> {
    const { assert!(16 * N == W * H) };
    let mut differences = SubblockDifferences { sums: [0; N], squared: 0, varied: 0 };
    for (block, total) in differences.sums.iter_mut().enumerate() {
        let (x, y) = (4 * block % W, 4 * (4 * block / W));
        let (mut sum, mut squares) = (0i32, 0i32);
        for line in y..y + 4 {
            for column in x..x + 4 {
                let difference = i32::from(a[line * a_stride + column]) - i32::from(b[line * b_stride + column]);
                sum += difference;
                squares += difference * difference;
            }
        }
        *total = sum as i16;
        differences.squared += squares as u32;
        let varied = (16 * squares - sum * sum) as u32;
        differences.varied += if varied >= limit { varied } else { 0 };
    }
    differences
}

/// Sum of squared differences of two rows. A row has at most 16383 samples, so the sum fits.
pub(crate) fn row_squared_error(a: &[u8], b: &[u8]) -> u32 {
    a.iter().zip(b).map(|(a, b)| u32::from(a.abs_diff(*b)).pow(2)).sum()
}
