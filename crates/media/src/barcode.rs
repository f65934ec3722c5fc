//! Frame numbers as barcodes in the picture. They survive codecs and scaling, so the testbed can measure other
//! programs.
//!
//! A picture carries two barcodes, as in the measurements of Salsify (Fouladi et al., NSDI 2018). One is at the top
//! left, one at the bottom right. Both must hold the same number, so that a torn picture (top and bottom from different
//! frames) is refused. An uncertain reading is refused, too. An unread picture costs a measurement one point, while a
//! misread one falsifies it.
//!
//! # Format
//! - **Geometry.** The picture is 80 units wide and 45 high. At 1280x720 a unit is a macroblock of 16x16 samples. A
//!   barcode has [`COLUMNS`] x [`ROWS`] cells of one unit each. It lies one unit from both borders of its corner. Edges
//!   are rounded from these fractions to the nearest sample, so barcodes scale with the picture. The smallest picture
//!   is [`MIN_WIDTH`] x [`MIN_HEIGHT`], with cells of 4x4 samples.
//! - **Bits.** Cells go row by row from the left, highest bit first. 24 bits hold the number, and 16 bits a checksum
//!   over its three bytes. The checksum is CRC-16/EN-13757 (polynomial 0x3D65, start 0, complemented at the end). Any
//!   two words differ in at least six cells. At the top left, a light cell (luma 224) is a one, and a dark cell (luma
//!   32) a zero. At the bottom right the levels are inverted, so that a change of brightness affects the two barcodes
//!   differently. Chroma is 128 (grey) in both.
//! - **Reading.** The level of a cell is a mean over luma samples. Their centres lie in the middle half of the cell,
//!   across and down. A cell is light from [`MIDDLE`] on and dark below. It is unclear if its level is closer to
//!   [`MIDDLE`] than [`UNCLEAR`]. The reader looks for the word that differs in at most two cells, unclear cells
//!   included. At most one such word exists. A barcode without one is refused, and so is a picture with two different
//!   numbers.
//!
//! These values maximize the readings of 320x180 pictures at the worst quantizers of VP8, VP9, H.264 and H.265. `cargo
//! run --release -p lockstep-libvpx --example barcode_errors` counts unread and misread pictures for VP8.
//! `docs/how-to/testbed.md` has the results for the others.

use lockstep_vp8::{MAX_DIMENSION, Picture};

/// Cells per row of a barcode.
pub const COLUMNS: usize = 10;
/// Rows of a barcode.
pub const ROWS: usize = 4;
/// Minimum width of a picture with barcodes, luma samples.
pub const MIN_WIDTH: usize = 320;
/// Minimum height of a picture with barcodes, luma samples.
pub const MIN_HEIGHT: usize = 180;
/// Largest number of a barcode. At 60 pictures per second it lasts for three days.
pub const MAX_NUMBER: u32 = (1 << NUMBER_BITS) - 1;

const NUMBER_BITS: usize = 24;
const CHECKSUM_BITS: usize = 16;
/// Units across the width and the height of a picture.
const UNITS: [usize; 2] = [80, 45];
const DARK: u8 = 32;
const LIGHT: u8 = 224;
/// Level between dark and light cells.
pub const MIDDLE: u8 = 128;
/// Cells whose level is closer to [`MIDDLE`] than this are unclear.
pub const UNCLEAR: u8 = 8;
/// Maximum number of wrong or unclear cells in a barcode. Words differ in six cells, so three errors would be
/// ambiguous.
const MAX_WRONG_CELLS: u32 = 2;
const GREY: u8 = 128;

const _: () = assert!(NUMBER_BITS + CHECKSUM_BITS == COLUMNS * ROWS);

/// Corner of the picture with a barcode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Corner {
    /// The one at the top left.
    TopLeft,
    /// The one at the bottom right.
    BottomRight,
}

impl Corner {
    const BOTH: [Self; 2] = [Self::TopLeft, Self::BottomRight];

    /// First unit of the barcode along an axis. The axis has `units` units, the barcode `cells` cells.
    fn first(self, units: usize, cells: usize) -> usize {
        match self {
            Self::TopLeft => 1,
            Self::BottomRight => units - 1 - cells,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::TopLeft => "top left",
            Self::BottomRight => "bottom right",
        }
    }
}

/// Error of reading or writing a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BarcodeError {
    /// The picture is smaller than [`MIN_WIDTH`] x [`MIN_HEIGHT`], or a side is longer than
    /// [`MAX_DIMENSION`].
    #[error(
        "a picture of {width}x{height} carries no barcodes: sides are from {MIN_WIDTH}x{MIN_HEIGHT} to \
         {MAX_DIMENSION}x{MAX_DIMENSION}"
    )]
    Size {
        /// Width, luma samples.
        width: usize,
        /// Height, luma samples.
        height: usize,
    },
    /// The number is above [`MAX_NUMBER`].
    #[error("{0} is above {MAX_NUMBER}, the largest number of a barcode")]
    Number(u32),
    /// The buffer has fewer samples than the picture or the region.
    #[error("{corner} barcode: {expected} luma samples were expected, {actual} given", corner = corner.name())]
    Samples {
        /// Corner with missing samples.
        corner: Corner,
        /// Required number of samples.
        expected: usize,
        /// Actual number of samples.
        actual: usize,
    },
    /// The stride is smaller than the width.
    #[error("rows of {width} luma samples cannot be {stride} apart")]
    Stride {
        /// Width of a row, samples.
        width: usize,
        /// Distance between two rows, samples.
        stride: usize,
    },
    /// Too many cells are neither light nor dark.
    #[error("{corner} barcode: {cells} cells are neither light nor dark", corner = corner.name())]
    Unclear {
        /// Corner of the barcode.
        corner: Corner,
        /// Number of unclear cells.
        cells: u32,
    },
    /// No number matches the cells closely enough.
    #[error("{corner} barcode: the checksum is wrong", corner = corner.name())]
    Checksum {
        /// Corner of the barcode.
        corner: Corner,
    },
    /// The two barcodes hold different numbers: the picture is torn.
    #[error("the barcodes disagree: {0} at the top left, {1} at the bottom right")]
    Disagree(u32, u32),
}

/// Rectangle in luma samples. All its edges are even, which suits 4:2:0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BarcodeRegion {
    /// First column.
    pub x: usize,
    /// First row.
    pub y: usize,
    /// Columns.
    pub width: usize,
    /// Rows.
    pub height: usize,
}

/// Rectangles of the barcodes at the top left and at the bottom right of a `width` x `height` picture. They are the
/// part to copy for reading.
///
/// # Errors
/// [`BarcodeError::Size`].
pub fn barcode_regions(width: usize, height: usize) -> Result<[BarcodeRegion; 2], BarcodeError> {
    let limit = usize::from(MAX_DIMENSION);
    if width < MIN_WIDTH || height < MIN_HEIGHT || width > limit || height > limit {
        return Err(BarcodeError::Size { width, height });
    }
    Ok(Corner::BOTH.map(|corner| {
        let [x, y] = [(width, UNITS[0], COLUMNS), (height, UNITS[1], ROWS)].map(|(side, units, cells)| {
            let first = corner.first(units, cells);
            // A unit has at least 4 samples, so rounding to even numbers stays inside the picture.
            (edge(side, units, first) & !1)..edge(side, units, first + cells).next_multiple_of(2)
        });
        BarcodeRegion { x: x.start, y: y.start, width: x.len(), height: y.len() }
    }))
}

/// First sample of unit `unit`. A side of `side` samples has `units` units. The exact fraction is rounded.
fn edge(side: usize, units: usize, unit: usize) -> usize {
    (2 * unit * side + units) / (2 * units)
}

/// First and last sample whose centres lie in the middle half of unit `unit`.
fn middle(side: usize, units: usize, unit: usize) -> (usize, usize) {
    let first = ((4 * unit + 1) * side - 2 * units).div_ceil(4 * units);
    let last = ((4 * unit + 3) * side - 2 * units) / (4 * units);
    (first, last)
}

/// CRC-16/EN-13757 of the number's three bytes, highest byte first.
const fn checksum(number: u32) -> u16 {
    let mut remainder = 0u16;
    let mut bit = NUMBER_BITS;
    while bit > 0 {
        bit -= 1;
        let carried = (remainder >> 15) ^ ((number >> bit) as u16 & 1);
        remainder = (remainder << 1) ^ if carried == 1 { 0x3d65 } else { 0 };
    }
    !remainder
}

/// Number and checksum, with the first cell in bit 39.
fn word(number: u32) -> u64 {
    u64::from(number) << CHECKSUM_BITS | u64::from(checksum(number))
}

/// Difference of the checksum if only the cell of this bit is wrong.
const fn syndrome_of(bit: usize) -> u16 {
    if bit < CHECKSUM_BITS { 1 << bit } else { checksum(1 << (bit - CHECKSUM_BITS)) ^ checksum(0) }
}

const SYNDROMES: [u16; COLUMNS * ROWS] = {
    let mut syndromes = [0; COLUMNS * ROWS];
    let mut bit = 0;
    while bit < syndromes.len() {
        syndromes[bit] = syndrome_of(bit);
        bit += 1;
    }
    syndromes
};

/// Number of the word that differs from `bits` in at most [`MAX_WRONG_CELLS`] cells, `unclear` ones included. None without
/// such a word.
fn nearest(bits: u64, unclear: u64) -> Option<u32> {
    let number = |bits: u64| (bits >> CHECKSUM_BITS) as u32;
    let syndrome = checksum(number(bits)) ^ bits as u16;
    let single = |wrong: u16| SYNDROMES.iter().position(|&syndrome| syndrome == wrong).map(|bit| 1u64 << bit);
    let pair = || (0..SYNDROMES.len()).find_map(|bit| Some(1u64 << bit | single(syndrome ^ SYNDROMES[bit])?));
    let wrong = if syndrome == 0 { Some(0) } else { single(syndrome).or_else(pair) }?;
    ((wrong | unclear).count_ones() <= MAX_WRONG_CELLS).then(|| number(bits ^ wrong))
}

/// Writes the barcodes of `number` into a copy of `picture`.
///
/// # Errors
/// [`BarcodeError::Size`] and [`BarcodeError::Number`].
pub fn write_barcode(picture: &Picture, number: u32) -> Result<Picture, BarcodeError> {
    let (width, height) = (picture.width(), picture.height());
    let regions = barcode_regions(width, height)?;
    if number > MAX_NUMBER {
        return Err(BarcodeError::Number(number));
    }
    let mut samples = picture.to_i420();
    let (luma, chroma) = samples.split_at_mut(width * height);
    for (corner, region) in Corner::BOTH.into_iter().zip(regions) {
        let bits = match corner {
            Corner::TopLeft => word(number),
            Corner::BottomRight => !word(number),
        };
        let (left, top) = (corner.first(UNITS[0], COLUMNS), corner.first(UNITS[1], ROWS));
        for cell in 0..COLUMNS * ROWS {
            let level = if bits >> (COLUMNS * ROWS - 1 - cell) & 1 == 1 { LIGHT } else { DARK };
            let (column, row) = (left + cell % COLUMNS, top + cell / COLUMNS);
            let columns = edge(width, UNITS[0], column)..edge(width, UNITS[0], column + 1);
            for y in edge(height, UNITS[1], row)..edge(height, UNITS[1], row + 1) {
                luma[y * width..][columns.clone()].fill(level);
            }
        }
        let stride = width.div_ceil(2);
        for plane in chroma.chunks_exact_mut(stride * height.div_ceil(2)) {
            for y in region.y / 2..(region.y + region.height) / 2 {
                plane[y * stride + region.x / 2..][..region.width / 2].fill(GREY);
            }
        }
    }
    // The samples come from a picture of this size.
    Picture::from_i420(width, height, samples).map_err(|_| BarcodeError::Size { width, height })
}

/// Luma samples of a picture or of a region.
struct Luma<'a> {
    samples: &'a [u8],
    stride: usize,
    /// Position of the first sample in the picture.
    origin: (usize, usize),
}

impl Luma<'_> {
    /// Reads the barcode at `corner` of a `width` x `height` picture. The samples cover its region.
    fn read(&self, corner: Corner, width: usize, height: usize) -> Result<u32, BarcodeError> {
        let (left, top) = (corner.first(UNITS[0], COLUMNS), corner.first(UNITS[1], ROWS));
        let (mut bits, mut unclear) = (0u64, 0u64);
        for cell in 0..COLUMNS * ROWS {
            let (from_x, to_x) = middle(width, UNITS[0], left + cell % COLUMNS);
            let (from_y, to_y) = middle(height, UNITS[1], top + cell / COLUMNS);
            let columns = to_x + 1 - from_x;
            let mut sum = 0u64;
            for y in from_y..=to_y {
                let start = (y - self.origin.1) * self.stride + from_x - self.origin.0;
                sum += self.samples[start..][..columns].iter().map(|&sample| u64::from(sample)).sum::<u64>();
            }
            let count = (columns * (to_y + 1 - from_y)) as u64;
            let centre = u64::from(MIDDLE) * count;
            bits = bits << 1 | u64::from(sum >= centre);
            unclear = unclear << 1 | u64::from(sum.abs_diff(centre) < u64::from(UNCLEAR) * count);
        }
        if corner == Corner::BottomRight {
            bits ^= (1 << (COLUMNS * ROWS)) - 1;
        }
        let cells = unclear.count_ones();
        if cells > MAX_WRONG_CELLS {
            return Err(BarcodeError::Unclear { corner, cells });
        }
        nearest(bits, unclear).ok_or(BarcodeError::Checksum { corner })
    }
}

fn agreed([first, second]: [u32; 2]) -> Result<u32, BarcodeError> {
    if first == second { Ok(first) } else { Err(BarcodeError::Disagree(first, second)) }
}

fn enough(corner: Corner, samples: &[u8], stride: usize, width: usize, height: usize) -> Result<(), BarcodeError> {
    if stride < width {
        return Err(BarcodeError::Stride { width, stride });
    }
    let expected = stride.saturating_mul(height - 1).saturating_add(width);
    let actual = samples.len();
    if actual < expected { Err(BarcodeError::Samples { corner, expected, actual }) } else { Ok(()) }
}

/// Reads the number in the barcodes of `picture`.
///
/// # Errors
/// If there is no certain reading.
pub fn read_barcode(picture: &Picture) -> Result<u32, BarcodeError> {
    let (samples, stride) = picture.luma().samples();
    read_barcode_luma(samples, stride, picture.width(), picture.height())
}

/// Reads the number in the barcodes of a `width` x `height` picture. `samples` are its luma, with rows `stride` apart.
///
/// # Errors
/// If there is no certain reading.
pub fn read_barcode_luma(samples: &[u8], stride: usize, width: usize, height: usize) -> Result<u32, BarcodeError> {
    barcode_regions(width, height)?;
    enough(Corner::BottomRight, samples, stride, width, height)?;
    let luma = Luma { samples, stride, origin: (0, 0) };
    agreed([luma.read(Corner::TopLeft, width, height)?, luma.read(Corner::BottomRight, width, height)?])
}

/// Reads the number in the barcodes of a `width` x `height` picture. `copied` holds the luma and the stride of each of
/// the two [`barcode_regions`].
///
/// # Errors
/// If there is no certain reading.
pub fn read_barcode_regions(copied: [(&[u8], usize); 2], width: usize, height: usize) -> Result<u32, BarcodeError> {
    let regions = barcode_regions(width, height)?;
    let read = |index: usize| {
        let (corner, (samples, stride), region) = (Corner::BOTH[index], copied[index], regions[index]);
        enough(corner, samples, stride, region.width, region.height)?;
        Luma { samples, stride, origin: (region.x, region.y) }.read(corner, width, height)
    };
    agreed([read(0)?, read(1)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_matches_the_catalogue() {
        // The check value of the CRC catalogue is that of the nine bytes "123456789".
        let remainder = b"123456789".iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1));
        let crc = remainder.fold(0u16, |crc, bit| crc << 1 ^ if crc >> 15 ^ u16::from(bit) == 1 { 0x3d65 } else { 0 });
        assert_eq!(!crc, 0xc2b7);
        let bytes = 0x31_32_33u32;
        let three = (0..24).rev().map(|bit| (bytes >> bit & 1) as u16);
        let crc = three.fold(0u16, |crc, bit| crc << 1 ^ if crc >> 15 ^ bit == 1 { 0x3d65 } else { 0 });
        assert_eq!(checksum(bytes), !crc);
    }

    #[test]
    fn words_differ_in_six_cells_and_no_word_reverses_another() {
        // The code is linear except for a constant, so the minimum distance is the minimum weight.
        let zero = word(0);
        let least = (1..=MAX_NUMBER).map(|number| (word(number) ^ zero).count_ones()).min();
        assert_eq!(least, Some(6));
        let reverse = zero ^ ((1 << (COLUMNS * ROWS)) - 1);
        assert!((0..=MAX_NUMBER).all(|number| word(number) != reverse));
    }

    #[test]
    fn two_wrong_or_unclear_cells_are_corrected_three_refused() {
        let cells = COLUMNS * ROWS;
        for number in [0, 1, 0x123456, MAX_NUMBER] {
            for (a, b) in (0..cells).flat_map(|a| (0..cells).map(move |b| (a, b))) {
                let two = 1u64 << a | 1 << b;
                assert_eq!(nearest(word(number) ^ two, 0), Some(number));
                assert_eq!(nearest(word(number), two), Some(number));
                assert_eq!(nearest(word(number) ^ 1 << a, 1 << b), Some(number));
                for c in (0..cells).filter(|&c| c != a && c != b && a != b) {
                    assert_eq!(nearest(word(number) ^ two ^ 1 << c, 0), None);
                    assert_eq!(nearest(word(number) ^ two, 1 << c), None);
                }
            }
        }
    }

    #[test]
    fn cells_align_with_macroblocks_at_720p_and_blocks_at_180p() {
        let [first, second] = barcode_regions(1280, 720).unwrap();
        assert_eq!(first, BarcodeRegion { x: 16, y: 16, width: 160, height: 64 });
        assert_eq!(second, BarcodeRegion { x: 1104, y: 640, width: 160, height: 64 });
        let [first, second] = barcode_regions(320, 180).unwrap();
        assert_eq!(first, BarcodeRegion { x: 4, y: 4, width: 40, height: 16 });
        assert_eq!(second, BarcodeRegion { x: 276, y: 160, width: 40, height: 16 });
    }
}
