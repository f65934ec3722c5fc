//! Conversions between I420 and the formats of cameras, windows and applications. All use BT.601 in limited range,
//! which is VP8's colour space 0 (RFC 6386, section 9.2).

use lockstep_vp8::{Picture, PictureError};

/// Fills `items` row by row with the result of `convert`, which receives red, green and blue of each pixel.
fn fill<T, const N: usize>(picture: &Picture, items: &mut [T], convert: impl Fn([u8; 3]) -> [T; N]) {
    let [luma, blue, red] = picture.planes();
    for (y, row) in items.chunks_exact_mut(N * picture.width()).enumerate() {
        let (luma, blue, red) = (luma.row(y), blue.row(y / 2), red.row(y / 2));
        for (x, (pixel, &luma)) in row.as_chunks_mut().0.iter_mut().zip(luma).enumerate() {
            let luma = (i32::from(luma) - 16) * 298 + 128;
            let (u, v) = (i32::from(blue[x / 2]) - 128, i32::from(red[x / 2]) - 128);
            let byte = |value: i32| (value >> 8).clamp(0, 255) as u8;
            *pixel = convert([byte(luma + 409 * v), byte(luma - 100 * u - 208 * v), byte(luma + 516 * u)]);
        }
    }
}

/// Converts a picture to packed RGB: red, green and blue of each pixel, row by row.
#[must_use]
pub fn picture_to_rgb(picture: &Picture) -> Vec<u8> {
    let mut bytes = vec![0; 3 * picture.width() * picture.height()];
    fill(picture, &mut bytes, |pixel| pixel);
    bytes
}

/// Converts packed RGB to a picture. Chroma is the mean of four pixels.
///
/// # Errors
/// If a side is outside 1 to 16383, or the number of bytes does not match.
pub fn picture_from_rgb(width: usize, height: usize, rgb: &[u8]) -> Result<Picture, PictureError> {
    let fits = Some(rgb.len()) == width.checked_mul(height).and_then(|pixels| pixels.checked_mul(3));
    if width == 0 || height == 0 || !fits {
        return Picture::from_i420(width, height, Vec::new());
    }
    let mut samples = Vec::with_capacity(Picture::i420_length(width, height));
    // Weights of BT.601 in limited range, 16-bit fixed point.
    samples.extend(rgb.chunks_exact(3).map(|pixel| {
        let [red, green, blue] = [pixel[0], pixel[1], pixel[2]].map(i32::from);
        (16 + ((16_829 * red + 33_039 * green + 6_416 * blue + 32_768) >> 16)) as u8
    }));
    for [red_weight, green_weight, blue_weight] in [[-9_714, -19_070, 28_784], [28_784, -24_103, -4_681]] {
        for y in (0..height).step_by(2) {
            let [first, second] = [y, (y + 1).min(height - 1)].map(|y| &rgb[3 * y * width..][..3 * width]);
            samples.extend((0..width).step_by(2).map(|x| {
                let (left, right) = (3 * x, 3 * (x + 1).min(width - 1));
                let sum = |colour: usize| {
                    let of = |row: &[u8]| i32::from(row[left + colour]) + i32::from(row[right + colour]);
                    of(first) + of(second)
                };
                let weighted = red_weight * sum(0) + green_weight * sum(1) + blue_weight * sum(2);
                (128 + ((weighted + (1 << 17)) >> 18)) as u8
            }));
        }
    }
    Picture::from_i420(width, height, samples)
}

/// Converts packed YUYV 4:2:2 with rows `stride` bytes apart. Chroma is the mean of two rows. Missing bytes of a short
/// buffer become grey, since the camera reports them itself.
#[cfg(any(test, all(feature = "camera", target_os = "linux")))]
pub(crate) fn from_yuyv(width: usize, height: usize, stride: usize, bytes: &[u8]) -> Result<Picture, PictureError> {
    let (chroma_width, chroma_height) = (width.div_ceil(2), height.div_ceil(2));
    let byte = |y: usize, at: usize| bytes.get(y * stride + at).copied().unwrap_or(128);
    let mut samples = Vec::with_capacity(Picture::i420_length(width, height));
    for y in 0..height {
        samples.extend((0..width).map(|x| byte(y, 2 * x)));
    }
    for offset in [1, 3] {
        for y in 0..chroma_height {
            let next = (2 * y + 1).min(height - 1);
            samples.extend((0..chroma_width).map(|x| {
                let at = 4 * x + offset;
                (u16::from(byte(2 * y, at)) + u16::from(byte(next, at))).div_ceil(2) as u8
            }));
        }
    }
    Picture::from_i420(width, height, samples)
}

/// Copies planar 4:2:0 whose chroma samples come in pairs (NV12), with rows `stride` bytes apart. Missing bytes are
/// grey.
#[cfg(any(test, all(feature = "camera", target_os = "linux")))]
pub(crate) fn from_nv12(width: usize, height: usize, stride: usize, bytes: &[u8]) -> Result<Picture, PictureError> {
    let byte = |row: usize, at: usize| bytes.get(row * stride + at).copied().unwrap_or(128);
    let mut samples = Vec::with_capacity(Picture::i420_length(width, height));
    for row in 0..height {
        samples.extend((0..width).map(|x| byte(row, x)));
    }
    for offset in [0, 1] {
        for row in 0..height.div_ceil(2) {
            samples.extend((0..width.div_ceil(2)).map(|x| byte(height + row, 2 * x + offset)));
        }
    }
    Picture::from_i420(width, height, samples)
}

/// Converts packed full-range YCbCr 4:4:4, the output of JPEG decoders. Chroma is the mean of four pixels.
#[cfg(any(test, all(feature = "camera", target_os = "linux")))]
pub(crate) fn from_full_range_ycbcr(width: usize, height: usize, bytes: &[u8]) -> Result<Picture, PictureError> {
    let expected = Picture::i420_length(width, height);
    if bytes.len() != 3 * width * height {
        return Picture::from_i420(width, height, Vec::new());
    }
    let mut samples = Vec::with_capacity(expected);
    // 219/255 and 224/255 in 16-bit fixed point.
    samples.extend(bytes.iter().step_by(3).map(|&luma| (16 + ((u32::from(luma) * 56_283 + 32_768) >> 16)) as u8));
    for plane in [1, 2] {
        for y in (0..height).step_by(2) {
            let rows = [y * width, (y + 1).min(height - 1) * width];
            samples.extend((0..width).step_by(2).map(|x| {
                let columns = [x, (x + 1).min(width - 1)];
                let sum: i32 = rows
                    .iter()
                    .flat_map(|row| columns.iter().map(move |column| i32::from(bytes[3 * (row + column) + plane])))
                    .sum();
                (128 + (((sum - 512) * 57_569 + (1 << 17)) >> 18)) as u8
            }));
        }
    }
    Picture::from_i420(width, height, samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primary_colours_are_preserved() {
        for ((y, u, v), expected) in [
            ((16, 128, 128), 0x00_00_00),
            ((235, 128, 128), 0xff_ff_ff),
            ((81, 90, 240), 0xff_00_00),
            ((145, 54, 34), 0x00_ff_00),
            ((41, 240, 110), 0x00_00_ff),
        ] {
            let pixel = picture_to_rgb(&Picture::from_i420(1, 1, vec![y, u, v]).unwrap());
            for (got, shift) in pixel.iter().zip([16, 8, 0]) {
                assert!((i32::from(*got) - (expected >> shift & 255)).abs() <= 2, "{pixel:?} for {expected:06x}");
            }
        }
    }

    #[test]
    fn rgb_survives_a_round_trip_through_i420() {
        for colour in [[0, 0, 0], [255, 255, 255], [255, 0, 0], [0, 255, 0], [0, 0, 255], [200, 120, 40]] {
            let rgb = colour.repeat(5 * 3);
            let back = picture_to_rgb(&picture_from_rgb(5, 3, &rgb).unwrap());
            assert_eq!(back.len(), rgb.len());
            assert!(back.iter().zip(&rgb).all(|(back, rgb)| back.abs_diff(*rgb) <= 3), "{colour:?}: {back:?}");
        }
    }

    #[test]
    fn rgb_chroma_is_the_mean_of_four_pixels() {
        let picture = picture_from_rgb(2, 2, &[[255, 0, 0], [0, 0, 255], [0, 0, 0], [255, 255, 255]].concat()).unwrap();
        assert_eq!(picture.luma().row(0), [81, 41]);
        assert_eq!(picture.luma().row(1), [16, 235]);
        // The four U values are 90.2, 240, 128 and 128, with mean 146.55. V has 240, 109.8, 128 and 128, with mean
        // 151.45.
        assert_eq!(picture.planes()[1].row(0), [147]);
        assert_eq!(picture.planes()[2].row(0), [151]);
    }

    #[test]
    fn rgb_of_another_size_is_refused() {
        assert!(picture_from_rgb(2, 2, &[0; 11]).is_err());
        assert!(picture_from_rgb(0, 2, &[]).is_err());
        assert!(picture_from_rgb(usize::MAX, 2, &[]).is_err());
    }

    #[test]
    fn yuyv_of_odd_size_with_padding_keeps_all_luma_samples() {
        let bytes: Vec<u8> = (0..3 * 10).collect();
        let picture = from_yuyv(3, 3, 10, &bytes).unwrap();
        assert_eq!(picture.luma().row(1), [10, 12, 14]);
        assert_eq!(picture.planes()[1].row(0), [6, 10]);
        assert_eq!(picture.planes()[2].row(1), [23, 27]);
        assert!(from_yuyv(3, 3, 10, &[]).is_ok());
    }

    #[test]
    fn pairs_of_chroma_samples_become_planes() {
        // 3x3 with rows of 5 bytes.
        let bytes: Vec<u8> = (0..25).collect();
        let picture = from_nv12(3, 3, 5, &bytes).unwrap();
        assert_eq!(picture.luma().row(1), [5, 6, 7]);
        assert_eq!(picture.planes()[1].row(1), [20, 22]);
        assert_eq!(picture.planes()[2].row(0), [16, 18]);
        assert!(from_nv12(3, 3, 5, &[]).is_ok());
    }

    #[test]
    fn full_range_shrinks_to_limited_range() {
        let bytes = [[0, 128, 255], [255, 128, 0]].concat();
        let picture = from_full_range_ycbcr(2, 1, &bytes).unwrap();
        assert_eq!(picture.luma().row(0), [16, 235]);
        assert_eq!(picture.planes()[1].row(0), [128]);
        assert!((127..=128).contains(&picture.planes()[2].row(0)[0]));
        let white = from_full_range_ycbcr(1, 1, &[255, 255, 0]).unwrap().to_i420();
        assert_eq!(white, [235, 240, 16]);
        assert!(from_full_range_ycbcr(2, 2, &bytes).is_err());
    }
}
