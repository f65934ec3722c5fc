//! Scales pictures.

use lockstep_vp8::{Picture, PictureError, Plane};

/// Weights of the samples that make one sample, from the one at `first` on. Their sum is 1.
struct Taps {
    first: usize,
    weights: Vec<f32>,
}

/// Weights for each of `to` samples out of `from` ones: linear interpolation, or a triangle over all samples that a
/// smaller picture unites.
fn taps(from: usize, to: usize) -> Vec<Taps> {
    let ratio = from as f32 / to as f32;
    let radius = ratio.max(1.0);
    let of = |place: usize| {
        let centre = (place as f32 + 0.5) * ratio - 0.5;
        let first = (centre - radius).ceil().max(0.0) as usize;
        let last = ((centre + radius) as usize).min(from - 1);
        let weight = |sample: usize| (1.0 - (sample as f32 - centre).abs() / radius).max(0.0);
        let weights: Vec<f32> = (first..=last).map(weight).collect();
        let sum: f32 = weights.iter().sum();
        Taps { first, weights: weights.into_iter().map(|weight| weight / sum).collect() }
    };
    (0..to).map(of).collect()
}

/// Appends `plane` in `width` times `height` samples.
fn scale_plane(plane: &Plane, width: usize, height: usize, samples: &mut Vec<u8>) {
    let across = taps(plane.width(), width);
    let mut narrow = Vec::with_capacity(width * plane.height());
    for row in plane.rows() {
        narrow.extend(across.iter().map(|taps| {
            let of_row = taps.weights.iter().zip(&row[taps.first..]);
            of_row.map(|(weight, &sample)| weight * f32::from(sample)).sum::<f32>()
        }));
    }
    let mut row = vec![0.0; width];
    for taps in taps(plane.height(), height) {
        row.fill(0.5); // rounds
        for (weight, from) in taps.weights.iter().zip(narrow[taps.first * width..].chunks_exact(width)) {
            row.iter_mut().zip(from).for_each(|(sum, sample)| *sum += weight * sample);
        }
        samples.extend(row.iter().map(|&sample| sample as u8));
    }
}

/// `picture` in another size. The whole picture fills the new one, as with ffmpeg.
///
/// # Errors
/// If the size is not one of a picture.
pub(crate) fn scaled(picture: &Picture, width: usize, height: usize) -> Result<Picture, PictureError> {
    let mut samples = Vec::with_capacity(width * height * 3 / 2);
    let half = (width.div_ceil(2), height.div_ceil(2));
    for (plane, (width, height)) in picture.planes().iter().zip([(width, height), half, half]) {
        scale_plane(plane, width, height, &mut samples);
    }
    Picture::from_i420(width, height, samples)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clip::GeneratedClip;
    use crate::format::VideoFormat;
    use crate::quality::ssim;

    #[test]
    fn picture_survives_scaling_up_and_down() {
        let format = VideoFormat { width: 161, height: 91, ..VideoFormat::default() };
        let picture = GeneratedClip::new(format, 1).unwrap().picture(0);
        assert!(scaled(&picture, 161, 91).unwrap() == picture);
        let large = scaled(&picture, 483, 273).unwrap();
        let back = scaled(&large, 161, 91).unwrap();
        let ssim = ssim(&picture, &back).unwrap();
        assert!(ssim > 0.95, "{ssim}");
    }

    #[test]
    fn flat_picture_stays_flat_in_any_size() {
        let flat = |width: usize, height: usize| {
            let chroma = width.div_ceil(2) * height.div_ceil(2);
            let samples = [vec![255; width * height], vec![0; chroma], vec![77; chroma]].concat();
            Picture::from_i420(width, height, samples).unwrap()
        };
        let sizes = [(1, 1), (2, 1), (3, 7), (16, 16), (640, 5)];
        for from in sizes {
            for to in sizes {
                assert!(scaled(&flat(from.0, from.1), to.0, to.1).unwrap() == flat(to.0, to.1), "{from:?} to {to:?}");
            }
        }
    }
}
