//! Measures quality over time at one quantizer. The clips have no noise: one picture that is still, slowly panned, or
//! slowly zoomed. They show whether predictions lose detail.

use anyhow::Result;
use serde::{Deserialize, Serialize};

use lockstep_media::VideoFormat;
use lockstep_vp8::{Picture, Plane};

use super::super::clip::Clip;
use super::coder::{Coder, Libraries, quality};

/// Motion of the picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Motion {
    Still,
    Pan,
    Zoom,
}

pub(super) const MOTIONS: [Motion; 3] = [Motion::Still, Motion::Pan, Motion::Zoom];
/// Measured quantizer indices.
pub(super) const INDICES: [u8; 3] = [20, 51, 106];
const PICTURES: usize = 60;
/// Pan per picture, luma samples.
const PAN: f32 = 0.3;
/// Growth per picture, as a share.
const ZOOM: f32 = 0.001;
/// Start of the pan, and the width that it requires, luma samples. It is the same for all motions, so that all clips of
/// a picture have one size.
const ROOM: usize = 20;

/// One encoder on one clip.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Series {
    pub kbps: f64,
    /// Luma PSNR of each picture, dB.
    pub psnr_db: Vec<f64>,
}

impl Series {
    /// Gain of the last picture over the first, dB.
    pub(super) fn gain(&self) -> f64 {
        self.psnr_db.last().zip(self.psnr_db.first()).map_or(0.0, |(last, first)| last - first)
    }

    /// Gain of the worst picture over the first, dB, at most 0.
    pub(super) fn least(&self) -> f64 {
        let first = self.psnr_db.first().copied().unwrap_or_default();
        self.psnr_db.iter().map(|psnr| psnr - first).fold(0.0, f64::min)
    }
}

/// Both codecs on one motion at one quantizer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Drift {
    pub motion: Motion,
    pub index: u8,
    pub ours: Series,
    pub libvpx: Option<Series>,
}

/// Weights of four neighbours at a distance `t` after the second: the Catmull-Rom cubic.
fn weights(t: f32) -> [f32; 4] {
    let (t2, t3) = (t * t, t * t * t);
    [-t3 + 2.0 * t2 - t, 3.0 * t3 - 5.0 * t2 + 2.0, -3.0 * t3 + 4.0 * t2 + t, t3 - t2].map(|weight| 0.5 * weight)
}

/// For each of `count` samples, the first of four neighbours within `size` and their weights.
fn taps(count: usize, size: usize, place: impl Fn(usize) -> f32) -> Vec<([usize; 4], [f32; 4])> {
    let tap = |at: usize| {
        let place = place(at);
        let floor = place.floor();
        let neighbour = |offset: i32| (floor as i32 + offset).clamp(0, size as i32 - 1) as usize;
        ([-1, 0, 1, 2].map(neighbour), weights(place - floor))
    };
    (0..count).map(tap).collect()
}

fn resample(plane: &Plane, size: (usize, usize), x: impl Fn(usize) -> f32, y: impl Fn(usize) -> f32) -> Vec<u8> {
    let (across, down) = (taps(size.0, plane.width(), x), taps(size.1, plane.height(), y));
    let mut samples = Vec::with_capacity(size.0 * size.1);
    let mut lines = vec![0.0f32; plane.width()];
    for (rows, weights) in &down {
        lines.fill(0.0);
        for (&row, weight) in rows.iter().zip(weights) {
            for (sum, &sample) in lines.iter_mut().zip(plane.row(row)) {
                *sum += weight * f32::from(sample);
            }
        }
        samples.extend(across.iter().map(|(columns, weights)| {
            let sum: f32 = columns.iter().zip(weights).map(|(&column, weight)| weight * lines[column]).sum();
            (sum + 0.5) as u8 // saturates
        }));
    }
    samples
}

/// The clip from one picture. None if it is too narrow for the pan.
pub(super) fn moving(picture: &Picture, format: VideoFormat, motion: Motion) -> Option<Clip> {
    let (width, height) = (picture.width().checked_sub(ROOM)? & !1, picture.height() & !1);
    if width < 16 || height < 16 {
        return None;
    }
    let pictures = (0..PICTURES).map(|time| {
        let time = time as f32;
        let (shift, scale) = match motion {
            Motion::Still => (0.0, 1.0),
            Motion::Pan => (PAN * time, 1.0),
            Motion::Zoom => (0.0, 1.0 / (1.0 + ZOOM * time)),
        };
        let samples = picture.planes().iter().enumerate().flat_map(|(number, plane)| {
            // Chroma samples lie in the middle of four luma samples, at twice the distance.
            let (part, offset) = if number == 0 { (1.0, 0.0) } else { (0.5, -0.25) };
            let size = if number == 0 { (width, height) } else { (width / 2, height / 2) };
            let middle = (0.5 * size.0 as f32 - 0.5 + offset, 0.5 * size.1 as f32 - 0.5 + offset);
            resample(
                plane,
                size,
                move |x| (x as f32 - middle.0) * scale + middle.0 + part * shift,
                move |y| (y as f32 - middle.1) * scale + middle.1,
            )
        });
        Picture::from_i420(width, height, samples.collect()).expect("sides are even, and those of a part of a picture")
    });
    Some(Clip::new("moving", pictures.collect(), VideoFormat { width, height, ..format }))
}

/// Measures both codecs on the clip.
pub(super) fn measure(
    clip: &Clip,
    motion: Motion,
    index: u8,
    (ours, theirs): (Coder, Coder),
    libraries: &Libraries,
) -> Result<Drift> {
    let series = |coder: Coder| -> Result<Series> {
        let coded = coder.code(libraries, clip, index)?;
        Ok(Series { kbps: clip.kbps(coded.bytes()), psnr_db: quality(clip, &coded.stream)?.0 })
    };
    let libvpx = libraries.libvpx.as_ref().map(|_| series(theirs)).transpose()?;
    Ok(Drift { motion, index, ours: series(ours)?, libvpx })
}

#[cfg(test)]
mod tests {
    use lockstep_media::psnr;

    use super::*;

    #[test]
    fn still_does_not_move_and_pan_ends_at_its_position() {
        let source = Clip::open("generated:96x64", 2).unwrap();
        let picture = &source.pictures[0];
        let clip = |motion| moving(picture, source.format, motion).unwrap();
        let still = clip(Motion::Still);
        assert_eq!((still.format.width, still.format.height, still.pictures.len()), (76, 64, PICTURES));
        assert!(still.pictures.iter().all(|other| *other == still.pictures[0]));
        for (row, original) in still.pictures[0].luma().rows().zip(picture.luma().rows()) {
            assert_eq!(row, &original[..76]);
        }
        // After ten pictures, the pan is three samples.
        for (row, original) in clip(Motion::Pan).pictures[10].luma().rows().zip(picture.luma().rows()) {
            assert!(row.iter().zip(&original[3..]).all(|(a, b)| a.abs_diff(*b) <= 1));
        }
        let zoom = clip(Motion::Zoom);
        assert_eq!(zoom.pictures[0], still.pictures[0]);
        let apart = |time: usize| psnr(&zoom.pictures[0], &zoom.pictures[time]).unwrap();
        assert!(apart(59) < apart(10) && apart(10) < apart(1), "{} {} {}", apart(1), apart(10), apart(59));
        assert!(moving(&Clip::open("generated:32x16", 2).unwrap().pictures[0], source.format, Motion::Pan).is_none());
    }

    #[test]
    fn gains_are_relative_to_the_first_picture() {
        let series = Series { kbps: 1.0, psnr_db: vec![40.0, 39.5, 41.0] };
        assert_eq!((series.gain(), series.least()), (1.0, -0.5));
        let series = Series { kbps: 1.0, psnr_db: vec![40.0, 40.5] };
        assert_eq!((series.gain(), series.least()), (0.5, 0.0));
    }
}
