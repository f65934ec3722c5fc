//! Reading and writing of frame numbers in pictures.

use lockstep_media::barcode::{
    BarcodeError, MAX_NUMBER, MIN_HEIGHT, MIN_WIDTH, barcode_regions, read_barcode, read_barcode_luma,
    read_barcode_regions, write_barcode,
};
use lockstep_media::{GeneratedClip, VideoFormat};
use lockstep_vp8::{Parameters, Picture, State, decode, encode};
use proptest::prelude::*;

/// Pseudorandom samples, the same on every platform.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

fn noisy_picture(width: usize, height: usize, seed: u64) -> Picture {
    Picture::from_i420(width, height, noise(seed, Picture::i420_length(width, height))).unwrap()
}

/// Scales `picture`: each sample is the mean of the rectangle that it covers.
fn scaled(picture: &Picture, width: usize, height: usize) -> Picture {
    let mut samples = Vec::with_capacity(Picture::i420_length(width, height));
    for (index, plane) in picture.planes().iter().enumerate() {
        let (width, height) = if index == 0 { (width, height) } else { (width.div_ceil(2), height.div_ceil(2)) };
        let range = |at: usize, from: usize, to: usize| {
            let start = at * from / to;
            start..((at + 1) * from).div_ceil(to).max(start + 1).min(from)
        };
        for y in 0..height {
            for x in 0..width {
                let rows = range(y, plane.height(), height);
                let columns = range(x, plane.width(), width);
                let count = rows.len() * columns.len();
                let sum: usize =
                    rows.map(|y| plane.row(y)[columns.clone()].iter().map(|&v| usize::from(v)).sum::<usize>()).sum();
                samples.push((sum / count) as u8);
            }
        }
    }
    Picture::from_i420(width, height, samples).unwrap()
}

fn region(picture: &Picture, index: usize) -> Vec<u8> {
    let region = barcode_regions(picture.width(), picture.height()).unwrap()[index];
    let rows = (region.y..region.y + region.height).map(|y| &picture.luma().row(y)[region.x..][..region.width]);
    rows.flatten().copied().collect()
}

fn sizes() -> impl Strategy<Value = (usize, usize)> {
    prop_oneof![
        Just((MIN_WIDTH, MIN_HEIGHT)),
        (MIN_WIDTH..1400, MIN_HEIGHT..800),
        Just((1280, 720)),
        Just((1920, 1080))
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn number_is_read_at_any_size_from_picture_or_regions(
        (width, height) in sizes(), number in 0..=MAX_NUMBER, seed: u64
    ) {
        let picture = write_barcode(&noisy_picture(width, height, seed), number).unwrap();
        prop_assert_eq!(read_barcode(&picture), Ok(number));
        let regions = barcode_regions(width, height).unwrap();
        let copies = [0, 1].map(|index| region(&picture, index));
        let copied = [0, 1].map(|index| (&copies[index][..], regions[index].width));
        prop_assert_eq!(read_barcode_regions(copied, width, height), Ok(number));
        for region in regions {
            prop_assert!(region.x % 2 == 0 && region.y % 2 == 0 && region.width % 2 == 0 && region.height % 2 == 0);
            prop_assert!(region.x + region.width <= width && region.y + region.height <= height);
        }
    }

    #[test]
    fn strong_camera_noise_does_not_disturb_reading(
        (width, height) in sizes(), number in 0..=MAX_NUMBER, seed: u64, strength in 0i32..=60
    ) {
        let picture = write_barcode(&noisy_picture(width, height, seed), number).unwrap();
        let mut samples = picture.to_i420();
        for (sample, noise) in samples.iter_mut().zip(noise(!seed, width * height)) {
            let change = (i32::from(noise) - 128) * strength / 128;
            *sample = (i32::from(*sample) + change).clamp(0, 255) as u8;
        }
        prop_assert_eq!(read_barcode(&Picture::from_i420(width, height, samples).unwrap()), Ok(number));
    }

    #[test]
    fn scaling_to_any_allowed_size_keeps_the_number(
        (width, height) in sizes(), (to_width, to_height) in sizes(), number in 0..=MAX_NUMBER, seed: u64
    ) {
        let picture = write_barcode(&noisy_picture(width, height, seed), number).unwrap();
        let read = read_barcode(&scaled(&picture, to_width, to_height));
        // Cells of four samples with rounded edges, at a slightly larger size: their edges fall into neighbours.
        let loses = |side: usize, units: usize, to: usize| side < 8 * units || to < 6 * units;
        if loses(width, 80, to_width) || loses(height, 45, to_height) {
            prop_assert!(read == Ok(number) || read.is_err(), "misread {:?}", read);
        } else {
            prop_assert_eq!(read, Ok(number));
        }
    }

    #[test]
    fn random_pictures_have_no_number(seed: u64, (width, height) in sizes()) {
        prop_assert!(read_barcode(&noisy_picture(width, height, seed)).is_err());
    }

    #[test]
    fn random_cells_have_no_number(seed: u64) {
        // Each cell is light or dark at random. Only the checksum and the agreement of both barcodes can refuse it.
        let (width, height) = (640, 360);
        let cells = noise(seed, 80 * 45);
        let mut samples = vec![128; Picture::i420_length(width, height)];
        for (index, sample) in samples[..width * height].iter_mut().enumerate() {
            *sample = if cells[index / width / 8 * 80 + index % width / 8] & 1 == 1 { 224 } else { 32 };
        }
        prop_assert!(read_barcode(&Picture::from_i420(width, height, samples).unwrap()).is_err());
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..2000), stride in 0usize..4000, width: u16, height: u16
    ) {
        let (width, height) = (usize::from(width), usize::from(height));
        prop_assert!(read_barcode_luma(&bytes, stride, width, height).is_err());
        prop_assert!(read_barcode_luma(&bytes, usize::MAX, width, height).is_err());
        let copied = [(&bytes[..], stride), (&bytes[bytes.len() / 2..], usize::MAX)];
        prop_assert!(read_barcode_regions(copied, width, height).is_err());
    }
}

#[test]
fn sizes_of_a_browser_that_scales_down_are_read() {
    let clip = GeneratedClip::new(VideoFormat::default(), 5).unwrap();
    for number in [0, 1, 0x55_5555, 0xaa_aaaa, MAX_NUMBER] {
        let picture = write_barcode(&clip.picture(u64::from(number % 100)), number).unwrap();
        for (width, height) in [(960, 540), (854, 480), (640, 360), (480, 270), (426, 240), (320, 180)] {
            assert_eq!(read_barcode(&scaled(&picture, width, height)), Ok(number), "{width}x{height}");
        }
    }
}

#[test]
fn torn_picture_is_refused() {
    let plain = Picture::from_i420(640, 360, vec![90; Picture::i420_length(640, 360)]).unwrap();
    let [first, second] = [41, 42].map(|number| write_barcode(&plain, number).unwrap().to_i420());
    let torn = [&first[..640 * 180], &second[640 * 180..]].concat();
    let torn = Picture::from_i420(640, 360, torn).unwrap();
    assert_eq!(read_barcode(&torn), Err(BarcodeError::Disagree(41, 42)));
    // A cross-fade has cells between light and dark where the numbers differ.
    let faded = first.iter().zip(&second).map(|(&a, &b)| a.midpoint(b)).collect();
    let faded = Picture::from_i420(640, 360, faded).unwrap();
    assert!(matches!(read_barcode(&faded), Err(BarcodeError::Unclear { cells: 6.., .. })));
}

#[test]
fn up_to_two_lost_cells_per_barcode_are_corrected() {
    let plain = Picture::from_i420(640, 360, vec![90; Picture::i420_length(640, 360)]).unwrap();
    let written = write_barcode(&plain, 0xc0ffee).unwrap();
    let regions = barcode_regions(640, 360).unwrap();
    // Cells are 8x8 here.
    let with_lost = |lost: &[(usize, usize)]| {
        let mut samples = written.to_i420();
        for region in regions {
            for (column, row) in lost {
                for y in 0..8 {
                    let start = (region.y + row * 8 + y) * 640 + region.x + column * 8;
                    samples[start..start + 8].iter_mut().for_each(|sample| *sample = 255 - *sample);
                }
            }
        }
        read_barcode(&Picture::from_i420(640, 360, samples).unwrap())
    };
    assert_eq!(with_lost(&[(3, 1), (9, 3)]), Ok(0xc0ffee));
    assert!(matches!(with_lost(&[(3, 1), (9, 3), (0, 0)]), Err(BarcodeError::Checksum { .. })));
}

#[test]
fn picture_or_number_beyond_the_limits_is_refused() {
    let small = Picture::from_i420(318, 180, vec![90; Picture::i420_length(318, 180)]).unwrap();
    assert_eq!(write_barcode(&small, 1), Err(BarcodeError::Size { width: 318, height: 180 }));
    assert!(matches!(read_barcode(&small), Err(BarcodeError::Size { .. })));
    let picture = Picture::from_i420(320, 180, vec![128; Picture::i420_length(320, 180)]).unwrap();
    assert_eq!(write_barcode(&picture, MAX_NUMBER + 1), Err(BarcodeError::Number(MAX_NUMBER + 1)));
    assert!(matches!(read_barcode(&picture), Err(BarcodeError::Unclear { cells: 40, .. })));
}

#[test]
fn writing_changes_only_the_barcodes() {
    let picture = noisy_picture(642, 363, 8);
    let written = write_barcode(&picture, 77).unwrap();
    let regions = barcode_regions(642, 363).unwrap();
    for (y, (before, after)) in picture.luma().rows().zip(written.luma().rows()).enumerate() {
        for (x, (before, after)) in before.iter().zip(after).enumerate() {
            let inside = regions.iter().any(|region| {
                (region.x..region.x + region.width).contains(&x) && (region.y..region.y + region.height).contains(&y)
            });
            assert!(inside || before == after, "{x}, {y}");
        }
    }
    assert_eq!(read_barcode(&written), Ok(77));
    assert_eq!(read_barcode(&write_barcode(&written, 78).unwrap()), Ok(78));
}

#[test]
fn numbers_survive_the_coarsest_quantizers_at_any_size() {
    // `cargo run --release -p lockstep-libvpx --example barcode_errors` tests all quantizers and sizes, and libvpx.
    let clip = GeneratedClip::new(VideoFormat::default(), 3).unwrap();
    for (width, height) in [(1280, 720), (480, 270), (320, 180)] {
        for quantizer in [127, 90] {
            let parameters = Parameters { quantizer, ..Parameters::default() };
            let mut state = State::default();
            for number in [7, 8, 0xabc_def, 9] {
                let picture = write_barcode(&clip.picture(u64::from(number % 64)), number).unwrap();
                let encoded = encode(&state, &scaled(&picture, width, height), &parameters);
                let (next, decoded) = decode(&state, &encoded.frame).unwrap();
                assert_eq!(read_barcode(&decoded), Ok(number), "{width}x{height}, quantizer {quantizer}");
                state = next;
            }
        }
    }
}
