//! Distances between two blocks of samples. Free functions over slices and strides: what calls them needs no more, and
//! a kernel for another instruction set can stand beside each.

use super::source::Source;
use crate::frame::FrameLayout;

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

/// Sum of absolute Hadamard-transformed differences of a 4x4 block: half of [`sad`] where the difference is flat.
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

/// Sum of [`satd_4x4`] over a `W` x `H` block (multiples of four; eight columns at a time where there are as many).
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

/// Two neighbouring 4x4 blocks at once: eight lanes of sixteen bits fill a vector register.
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
        // Of |p + q| + |p - q| the larger one of |p| and |q| is what remains, twice.
        for x in 0..4 {
            total += u32::from(pairs[2 * x].unsigned_abs().max(pairs[2 * x + 1].unsigned_abs()));
        }
    }
    total
}

/// Sum of squared differences between the picture and its reconstruction, over the visible part of each plane.
pub(crate) fn squared_error(source: &Source, layout: &FrameLayout, samples: &[u8]) -> [u64; 3] {
    let chroma = (source.width.div_ceil(2), source.height.div_ceil(2));
    let sizes = [(source.width, source.height), chroma, chroma];
    std::array::from_fn(|index| {
        let (plane, layout, (width, height)) = (&source.planes[index], &layout.planes[index], sizes[index]);
        (0..height)
            .map(|y| {
                let a = &plane.samples[y * plane.stride..][..width];
                let b = &samples[layout.origin + y * layout.stride..][..width];
                row_squared_error(a, b)
            })
            .sum()
    })
}

/// Sum of squared differences of two rows. A row has at most 16383 samples: their sum fits.
#[inline]
pub(crate) fn row_squared_error(a: &[u8], b: &[u8]) -> u64 {
    let sum: u32 = a
        .iter()
        .zip(b)
        .map(|(a, b)| {
            let difference = i16::from(*a) - i16::from(*b);
            (i32::from(difference) * i32::from(difference)) as u32
        })
        .sum();
    u64::from(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sixteen rows of samples that mean nothing, 20 apart.
    fn noise(seed: u32) -> Vec<u8> {
        (0..20 * 16u32).map(|i| (i.wrapping_mul(2_654_435_761).wrapping_add(seed * 977) >> 13) as u8).collect()
    }

    #[test]
    fn sums_are_those_of_the_definition() {
        let (a, b) = (noise(1), noise(2));
        let differences = |w: usize, h: usize| {
            let (a, b) = (a.clone(), b.clone());
            (0..w * h).map(move |i| u32::from(a[i / w * 20 + i % w].abs_diff(b[i / w * 20 + i % w])))
        };
        assert_eq!(sad::<16, 16>(&a, 20, &b, 20), differences(16, 16).sum::<u32>());
        assert_eq!(sad::<8, 16>(&a, 20, &b, 20), differences(8, 16).sum::<u32>());
        assert_eq!(sse::<16, 8>(&a, 20, &b, 20), differences(16, 8).map(|d| d * d).sum::<u32>());
        assert_eq!(sse::<4, 4>(&a, 20, &b, 20), differences(4, 4).map(|d| d * d).sum::<u32>());
    }

    #[test]
    fn transformed_blocks_side_by_side_are_those_one_by_one() {
        let (a, b) = (noise(3), noise(4));
        let mut one_by_one = 0;
        for at in (0..16).step_by(4).flat_map(|y| (0..16).step_by(4).map(move |x| 20 * y + x)) {
            one_by_one += satd_4x4(&a[at..], 20, &b[at..], 20);
        }
        assert_eq!(satd::<16, 16>(&a, 20, &b, 20), one_by_one);
        assert_eq!(satd_4x4(&[10; 16], 4, &[7; 16], 4), 8 * 3);
    }
}
