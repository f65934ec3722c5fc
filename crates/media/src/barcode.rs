//! Frame numbers in the picture itself, which survive codecs and scaling: the ruler of the testbed.
//!
//! A picture carries two barcodes, as in the measurements of Salsify (Fouladi et al., NSDI 2018): one at the top
//! left, one at the bottom right. Both must say the same, so that a picture that tore (its top from one frame, its bottom from
//! another) is no reading. A reading that might be wrong is refused: an unread picture costs a measurement one point, a
//! misread one falsifies it.
//!
//! # Format
//! - **Geometry.** The picture's width is 80 units, its height 45: at 1280x720 a unit is a macroblock of 16x16 samples. A barcode
//!   is [`COLUMNS`] x [`ROWS`] cells of a unit each, and lies one unit from both borders of its corner. Edges are those
//!   fractions of the picture's sides, rounded to the nearest sample, so that a scaled picture has its barcodes where one of
//!   that size has them. The smallest picture is [`MINIMUM_WIDTH`] x [`MINIMUM_HEIGHT`], with cells of 4x4.
//! - **Bits.** Row by row from the left, the highest bit first: 24 of the number, then 16 of a checksum over the number's three
//!   bytes: CRC-16/EN-13757 (polynomial 0x3D65, start 0, complemented at the end). Any two words differ in six cells at least.
//!   At the top left a light cell (luma 224) is a one and a dark one (luma 32) a zero; at the bottom right it is the other way,
//!   so that what makes cells lighter or darker does not do the same to both. Chroma is 128 in both: grey.
//! - **Reading.** A cell's level is the mean of the luma samples whose centres lie in its middle half, across and down. From
//!   [`MIDDLE`] on it is light, below it is dark; less than [`UNCLEAR`] from there it is unclear as well. A barcode stands for
//!   the one word that differs from what was read in two cells at most, where these and the unclear ones are two together at
//!   most; there is no other such word. A barcode without one is refused, and so is a picture whose two barcodes stand for
//!   different numbers.
//!
//! The figures were chosen with pictures of 320x180 coded at the worst quantizers of VP8, VP9, H.264 and H.265, of which the
//! most are read so; `cargo run --release -p lockstep-libvpx --example barcode_errors` counts what is not read and what is
//! misread for VP8, and `docs/how-to/testbed.md` has the figures for the others.

use lockstep_vp8::{MAXIMUM_DIMENSION, Picture};

/// Cells in a row of a barcode.
pub const COLUMNS: usize = 10;
/// Rows of cells of a barcode.
pub const ROWS: usize = 4;
/// Width of the narrowest picture that carries barcodes, luma samples.
pub const MINIMUM_WIDTH: usize = 320;
/// Height of the lowest, luma samples.
pub const MINIMUM_HEIGHT: usize = 180;
/// The largest number that a barcode carries: at 60 pictures a second it takes three days to get there.
pub const MAXIMUM_NUMBER: u32 = (1 << NUMBER_BITS) - 1;

const NUMBER_BITS: usize = 24;
const CHECKSUM_BITS: usize = 16;
/// Units of a picture's width and of its height.
const UNITS: [usize; 2] = [80, 45];
const DARK: u8 = 32;
const LIGHT: u8 = 224;
/// The level between dark cells and light ones.
pub const MIDDLE: u8 = 128;
/// Cells whose level is closer to [`MIDDLE`] than this are unclear.
pub const UNCLEAR: u8 = 8;
/// Cells of a barcode that may be wrong or unclear: of words that differ in six cells, three would be as near to another one.
const MOST_WRONG: u32 = 2;
const GREY: u8 = 128;

const _: () = assert!(NUMBER_BITS + CHECKSUM_BITS == COLUMNS * ROWS);

/// Which of a picture's two barcodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Corner {
    /// The one at the top left.
    TopLeft,
    /// The one at the bottom right.
    BottomRight,
}

impl Corner {
    const BOTH: [Self; 2] = [Self::TopLeft, Self::BottomRight];

    /// The unit at which the barcode begins along an axis of `units` on which it has `cells`.
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

/// Why a picture gave no number, or cannot take one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BarcodeError {
    /// The picture is smaller than [`MINIMUM_WIDTH`] x [`MINIMUM_HEIGHT`], or a side is longer than [`MAXIMUM_DIMENSION`].
    #[error(
        "a picture of {width}x{height} carries no barcodes: sides are from {MINIMUM_WIDTH}x{MINIMUM_HEIGHT} to \
         {MAXIMUM_DIMENSION}x{MAXIMUM_DIMENSION}"
    )]
    Size {
        /// Luma samples in a row.
        width: usize,
        /// Luma rows.
        height: usize,
    },
    /// The number is above [`MAXIMUM_NUMBER`].
    #[error("{0} is above {MAXIMUM_NUMBER}, the largest number of a barcode")]
    Number(u32),
    /// The samples that were given are fewer than the picture or the region has.
    #[error("{corner} barcode: {expected} luma samples were expected, {actual} given", corner = corner.name())]
    Samples {
        /// Where they were missing.
        corner: Corner,
        /// Samples that the rows need up to the last.
        expected: usize,
        /// Samples that there are.
        actual: usize,
    },
    /// Rows are said to be closer together than they are long.
    #[error("rows of {width} luma samples cannot be {stride} apart")]
    Stride {
        /// Samples in a row.
        width: usize,
        /// The distance that was given.
        stride: usize,
    },
    /// Too many cells are neither light nor dark.
    #[error("{corner} barcode: {cells} cells are neither light nor dark", corner = corner.name())]
    Unclear {
        /// Which barcode.
        corner: Corner,
        /// How many cells.
        cells: u32,
    },
    /// Its cells are no number with its checksum, nor nearly one.
    #[error("{corner} barcode: the checksum is wrong", corner = corner.name())]
    Checksum {
        /// Which barcode.
        corner: Corner,
    },
    /// Both barcodes can be read, and say different numbers: the picture is made of two.
    #[error("the barcodes disagree: {0} at the top left, {1} at the bottom right")]
    Disagree(u32, u32),
}

/// A rectangle of a picture, in luma samples. All its edges are even, so that it can be cut out of 4:2:0.
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

/// The rectangles, at the top left and at the bottom right, that a picture of `width` x `height` has its barcodes in: what has to
/// be copied from it to read them.
///
/// # Errors
/// [`BarcodeError::Size`].
pub fn barcode_regions(width: usize, height: usize) -> Result<[BarcodeRegion; 2], BarcodeError> {
    let limit = usize::from(MAXIMUM_DIMENSION);
    if width < MINIMUM_WIDTH || height < MINIMUM_HEIGHT || width > limit || height > limit {
        return Err(BarcodeError::Size { width, height });
    }
    Ok(Corner::BOTH.map(|corner| {
        let [x, y] = [(width, UNITS[0], COLUMNS), (height, UNITS[1], ROWS)].map(|(side, units, cells)| {
            let first = corner.first(units, cells);
            // One unit is 4 samples at least: rounding to even numbers stays inside the picture.
            (edge(side, units, first) & !1)..edge(side, units, first + cells).next_multiple_of(2)
        });
        BarcodeRegion { x: x.start, y: y.start, width: x.len(), height: y.len() }
    }))
}

/// The sample at which unit `unit` begins, of `units` on a side of `side` samples: the nearest to the exact fraction.
fn edge(side: usize, units: usize, unit: usize) -> usize {
    (2 * unit * side + units) / (2 * units)
}

/// The first and the last sample whose centres lie in the middle half of unit `unit`.
fn middle(side: usize, units: usize, unit: usize) -> (usize, usize) {
    let first = ((4 * unit + 1) * side - 2 * units).div_ceil(4 * units);
    let last = ((4 * unit + 3) * side - 2 * units) / (4 * units);
    (first, last)
}

/// CRC-16/EN-13757 of the number's three bytes, the highest first.
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

/// Number and checksum, the first cell in bit 39.
fn word(number: u32) -> u64 {
    u64::from(number) << CHECKSUM_BITS | u64::from(checksum(number))
}

/// What the checksum of a word is wrong by if only the cell of this bit is.
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

/// The number of the word that differs from `bits` in [`MOST_WRONG`] cells at most, the `unclear` ones counted as well; none if
/// there is no such word.
fn nearest(bits: u64, unclear: u64) -> Option<u32> {
    let number = |bits: u64| (bits >> CHECKSUM_BITS) as u32;
    let syndrome = checksum(number(bits)) ^ bits as u16;
    let single = |wrong: u16| SYNDROMES.iter().position(|&syndrome| syndrome == wrong).map(|bit| 1u64 << bit);
    let pair = || (0..SYNDROMES.len()).find_map(|bit| Some(1u64 << bit | single(syndrome ^ SYNDROMES[bit])?));
    let wrong = if syndrome == 0 { Some(0) } else { single(syndrome).or_else(pair) }?;
    ((wrong | unclear).count_ones() <= MOST_WRONG).then(|| number(bits ^ wrong))
}

/// `picture` with the barcodes of `number` in it.
///
/// # Errors
/// [`BarcodeError::Size`] and [`BarcodeError::Number`].
pub fn write_barcode(picture: &Picture, number: u32) -> Result<Picture, BarcodeError> {
    let (width, height) = (picture.width(), picture.height());
    let regions = barcode_regions(width, height)?;
    if number > MAXIMUM_NUMBER {
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
    // The length is that of the picture whose samples these were.
    Picture::from_i420(width, height, samples).map_err(|_| BarcodeError::Size { width, height })
}

/// Luma samples of a picture or of a region of it.
struct Luma<'a> {
    samples: &'a [u8],
    stride: usize,
    /// The place in the picture that the first sample is from.
    origin: (usize, usize),
}

impl Luma<'_> {
    /// The number in the barcode at `corner` of a picture of `width` x `height`, whose region these samples hold.
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
        if cells > MOST_WRONG {
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

/// The number in `picture`'s barcodes.
///
/// # Errors
/// Why there is none, or none that is certain.
pub fn read_barcode(picture: &Picture) -> Result<u32, BarcodeError> {
    let (samples, stride) = picture.luma().samples();
    read_barcode_luma(samples, stride, picture.width(), picture.height())
}

/// The number in the barcodes of a picture of `width` x `height` whose luma is `samples`, rows `stride` apart.
///
/// # Errors
/// Why there is none, or none that is certain.
pub fn read_barcode_luma(samples: &[u8], stride: usize, width: usize, height: usize) -> Result<u32, BarcodeError> {
    barcode_regions(width, height)?;
    enough(Corner::BottomRight, samples, stride, width, height)?;
    let luma = Luma { samples, stride, origin: (0, 0) };
    agreed([luma.read(Corner::TopLeft, width, height)?, luma.read(Corner::BottomRight, width, height)?])
}

/// The number in the barcodes of a picture of `width` x `height` of which only the luma of its two [`barcode_regions`] was
/// copied: the samples of each and the distance between its rows.
///
/// # Errors
/// Why there is none, or none that is certain.
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
    fn the_checksum_is_the_catalogued_one() {
        // The check value of the catalogue of CRCs is over "123456789": as here, but of nine bytes.
        let remainder = b"123456789".iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1));
        let crc = remainder.fold(0u16, |crc, bit| crc << 1 ^ if crc >> 15 ^ u16::from(bit) == 1 { 0x3d65 } else { 0 });
        assert_eq!(!crc, 0xc2b7);
        let bytes = 0x31_32_33u32;
        let three = (0..24).rev().map(|bit| (bytes >> bit & 1) as u16);
        let crc = three.fold(0u16, |crc, bit| crc << 1 ^ if crc >> 15 ^ bit == 1 { 0x3d65 } else { 0 });
        assert_eq!(checksum(bytes), !crc);
    }

    #[test]
    fn any_two_words_differ_in_six_cells_and_none_is_the_reverse_of_another() {
        // The code is linear but for the constant: the least distance is the least weight.
        let zero = word(0);
        let least = (1..=MAXIMUM_NUMBER).map(|number| (word(number) ^ zero).count_ones()).min();
        assert_eq!(least, Some(6));
        let reverse = zero ^ ((1 << (COLUMNS * ROWS)) - 1);
        assert!((0..=MAXIMUM_NUMBER).all(|number| word(number) != reverse));
    }

    #[test]
    fn two_wrong_or_unclear_cells_are_put_right_and_three_are_refused() {
        let cells = COLUMNS * ROWS;
        for number in [0, 1, 0x123456, MAXIMUM_NUMBER] {
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
    fn cells_lie_on_macroblocks_at_720p_and_on_their_blocks_at_180p() {
        let [first, second] = barcode_regions(1280, 720).unwrap();
        assert_eq!(first, BarcodeRegion { x: 16, y: 16, width: 160, height: 64 });
        assert_eq!(second, BarcodeRegion { x: 1104, y: 640, width: 160, height: 64 });
        let [first, second] = barcode_regions(320, 180).unwrap();
        assert_eq!(first, BarcodeRegion { x: 4, y: 4, width: 40, height: 16 });
        assert_eq!(second, BarcodeRegion { x: 276, y: 160, width: 40, height: 16 });
    }
}
