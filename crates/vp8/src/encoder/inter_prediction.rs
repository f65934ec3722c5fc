//! Inter prediction of a macroblock and its parts, identical to the decoder's.

use crate::frame::Frame;
use crate::motion_vector::MotionVector;
use crate::predict::inter::{Interpolation, predict};

/// Predicts a `W` x `H` luma block at (`x`, `y`) samples.
#[inline]
pub(crate) fn predict_luma<const W: usize, const H: usize>(
    reference: &Frame,
    x: usize,
    y: usize,
    vector: MotionVector,
    out: &mut [u8],
    stride: usize,
) {
    let eighths = (2 * i32::from(vector.x), 2 * i32::from(vector.y));
    let layout = reference.layout();
    let place = (x as i32, y as i32);
    predict::<W, H>(reference.samples(), &layout.planes[0], place, eighths, Interpolation::SixTap, out, stride);
}

/// Predicts both chroma planes of the macroblock at (`x`, `y`) luma samples, which has one vector.
pub(crate) fn predict_chroma(reference: &Frame, x: usize, y: usize, vector: MotionVector, out: &mut [[u8; 64]; 2]) {
    let layout = reference.layout();
    let place = (x as i32 / 2, y as i32 / 2);
    // A quarter of a luma sample is an eighth of a chroma sample.
    let eighths = (i32::from(vector.x), i32::from(vector.y));
    for (plane, out) in layout.planes[1..].iter().zip(out) {
        predict::<8, 8>(reference.samples(), plane, place, eighths, Interpolation::SixTap, out, 8);
    }
}

/// Predicts both chroma planes of a macroblock in split mode. Each 4x4 block moves by the mean of its four luma
/// subblocks' vectors (RFC 6386, section 5).
pub(crate) fn predict_split_chroma(
    reference: &Frame,
    x: usize,
    y: usize,
    vectors: &[MotionVector; 16],
    out: &mut [[u8; 64]; 2],
) {
    let layout = reference.layout();
    for block in 0..4 {
        let (column, row) = (block % 2, block / 2);
        let first = 8 * row + 2 * column;
        let four = [first, first + 1, first + 4, first + 5].map(|index| vectors[index]);
        let mean = |component: fn(&MotionVector) -> i16| {
            let sum: i32 = four.iter().map(|vector| i32::from(component(vector))).sum();
            (sum + 2 * sum.signum()) / 4
        };
        let eighths = (mean(|vector| vector.x), mean(|vector| vector.y));
        let place = ((x / 2 + 4 * column) as i32, (y / 2 + 4 * row) as i32);
        for (plane, out) in layout.planes[1..].iter().zip(out.iter_mut()) {
            let out = &mut out[32 * row + 4 * column..];
            predict::<4, 4>(reference.samples(), plane, place, eighths, Interpolation::SixTap, out, 8);
        }
    }
}
