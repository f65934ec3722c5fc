//! Counts unread and misread barcodes after scaling and coding at every quantizer.
//!
//! Usage: `cargo run --release -p lockstep-libvpx --example barcode_errors -- [PICTURES] [QUANTIZER_STEP] [SEED]`.
//!
//! Each picture of a 1280x720 clip carries a number. The example scales the picture as browsers do, codes it, decodes
//! it and reads the number. The first frame is a key frame. The others are interframes, so each number has to replace
//! the one before. In half of the clips numbers jump from picture to picture; in the others they count up by one.
//!
//! It prints one line per codec and size, summed over all quantizers. The number of misread barcodes must be 0.

use std::error::Error;

use lockstep_libvpx::{Effort, Encoder, EncoderSettings, Library, QUANTIZER_INDICES, RateControl};
use lockstep_media::barcode::{MAX_NUMBER, read_barcode, write_barcode};
use lockstep_media::{GeneratedClip, VideoFormat};
use lockstep_vp8::{Parameters, Picture, State, decode, encode};

const SIZES: [(usize, usize); 6] = [(1280, 720), (960, 540), (640, 360), (480, 270), (426, 240), (320, 180)];

/// Filter of a scaler.
#[derive(Debug, Clone, Copy)]
enum Scaler {
    /// Mean of the source samples that the target sample covers.
    Area,
    /// Two source samples around the centre in each direction, at any scale. It aliases.
    Bilinear,
}

fn scaled(picture: &Picture, (width, height): (usize, usize), scaler: Scaler) -> Picture {
    if (picture.width(), picture.height()) == (width, height) {
        return picture.clone();
    }
    let mut samples = Vec::with_capacity(Picture::i420_length(width, height));
    for (index, plane) in picture.planes().iter().enumerate() {
        let (width, height) = if index == 0 { (width, height) } else { (width.div_ceil(2), height.div_ceil(2)) };
        // For each target sample: source samples and their weights.
        let weights = |from: usize, to: usize| -> Vec<Vec<(usize, f32)>> {
            let step = from as f32 / to as f32;
            let of = |at: usize| match scaler {
                Scaler::Area => {
                    let (start, end) = (at as f32 * step, (at + 1) as f32 * step);
                    let covered = |i: usize| (end.min((i + 1) as f32) - start.max(i as f32)).max(0.0) / step;
                    (start as usize..(end.ceil() as usize).min(from)).map(|i| (i, covered(i))).collect()
                }
                Scaler::Bilinear => {
                    let centre = ((at as f32 + 0.5) * step - 0.5).max(0.0);
                    let (first, share) = (centre as usize, centre.fract());
                    vec![(first, 1.0 - share), ((first + 1).min(from - 1), share)]
                }
            };
            (0..to).map(of).collect()
        };
        let (columns, rows) = (weights(plane.width(), width), weights(plane.height(), height));
        for row in &rows {
            for column in &columns {
                let across = |y: usize| -> f32 { column.iter().map(|&(x, w)| w * f32::from(plane.row(y)[x])).sum() };
                samples.push(row.iter().map(|&(y, w)| w * across(y)).sum::<f32>().round() as u8);
            }
        }
    }
    Picture::from_i420(width, height, samples).expect("a valid size")
}

#[derive(Debug, Default, Clone, Copy)]
struct Count {
    pictures: u64,
    unread: u64,
    misread: u64,
}

impl Count {
    fn add(&mut self, picture: &Picture, number: u32) {
        self.pictures += 1;
        match read_barcode(picture) {
            Ok(read) => self.misread += u64::from(read != number),
            Err(_) => self.unread += 1,
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let argument = |at: usize, otherwise: u64| -> Result<u64, Box<dyn Error>> {
        Ok(std::env::args().nth(at + 1).map_or(Ok(otherwise), |text| text.parse())?)
    };
    let (pictures, step, seed) = (argument(0, 12)?, argument(1, 1)?.max(1) as usize, argument(2, 1)?);
    let library = Library::open().map_err(|error| eprintln!("skipping libvpx: {error}")).ok();
    let clip = GeneratedClip::new(VideoFormat::default(), seed)?;
    println!("codec       size      scaler    pictures  unread  misread  unread by quantizer");
    for size in SIZES {
        for scaler in [Scaler::Area, Scaler::Bilinear] {
            if size == SIZES[0] && matches!(scaler, Scaler::Bilinear) {
                continue;
            }
            let numbered = |index: u64, jumps: bool| -> (u32, Picture) {
                let mixed = index.wrapping_add(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
                let number = if jumps { mixed as u32 & MAX_NUMBER } else { 1_000 + index as u32 };
                // Every seventh picture of the clip, so that the scene moves a lot.
                let picture = write_barcode(&clip.picture(7 * index), number).expect("a size with room for a barcode");
                (number, scaled(&picture, size, scaler))
            };
            let clips = [false, true].map(|jumps| (0..pictures).map(|i| numbered(i, jumps)).collect::<Vec<_>>());
            let (mut ours, mut theirs) = (vec![], vec![]);
            for quantizer in (0..=127u8).rev().step_by(step) {
                let mut count = Count::default();
                for clip in &clips {
                    let mut state = State::default();
                    for (number, picture) in clip {
                        let parameters = Parameters { quantizer, ..Parameters::default() };
                        let encoded = encode(&state, picture, &parameters);
                        let (next, decoded) = decode(&state, &encoded.frame)?;
                        count.add(&decoded, *number);
                        state = next;
                    }
                }
                ours.push((quantizer, count));
            }
            for (quantizer, &index) in QUANTIZER_INDICES.iter().enumerate().rev().step_by(step) {
                let Some(library) = &library else { continue };
                let mut count = Count::default();
                for clip in &clips {
                    let settings = EncoderSettings {
                        width: size.0,
                        height: size.1,
                        frame_rate: (30, 1),
                        effort: Effort::RealTime(-6),
                        rate_control: RateControl::Quantizer(quantizer as u8),
                    };
                    let mut encoder = Encoder::new(library, &settings)?;
                    let mut state = State::default();
                    for (index, (number, picture)) in clip.iter().enumerate() {
                        let Some(frame) = encoder.encode(picture, index as u64, index == 0)? else { continue };
                        let (next, decoded) = decode(&state, &frame.data)?;
                        count.add(&decoded, *number);
                        state = next;
                    }
                }
                theirs.push((index, count));
            }
            for (name, counts) in [("lockstep", ours), ("libvpx", theirs)] {
                let sum = |field: fn(&Count) -> u64| counts.iter().map(|(_, count)| field(count)).sum::<u64>();
                let unread: Vec<_> = counts.iter().filter(|(_, count)| count.unread > 0).collect();
                let unread: Vec<_> = unread.iter().map(|(q, count)| format!("{q}:{}", count.unread)).collect();
                println!(
                    "{name:<10}{:>5}x{:<5}{:<9}{:>9}{:>8}{:>9}  {}",
                    size.0,
                    size.1,
                    format!("{scaler:?}"),
                    sum(|count| count.pictures),
                    sum(|count| count.unread),
                    sum(|count| count.misread),
                    unread.join(" ")
                );
            }
        }
    }
    Ok(())
}
