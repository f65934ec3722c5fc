//! Synthetic clips for the encoder's tests: the same samples on every machine for a given seed.

#![allow(dead_code)] // Each test uses a part of the module.

use lockstep_vp8::Picture;

/// Content of a clip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// One repeated picture.
    Static,
    /// A pan over a texture by fractions of a sample.
    Pan,
    /// A pan over a texture by less than a third of a sample per picture.
    SlowPan,
    /// A zoom into a texture.
    Zoom,
    /// A zoom into a texture by 1/700 per picture.
    SlowZoom,
    /// Discs that cross a static texture.
    Objects,
    /// Independent noise.
    Noise,
    /// A pan with a cut to another texture every four pictures.
    Cuts,
    /// A pan with a little sensor noise.
    Camera,
    /// A pan with patches whose content changes from picture to picture.
    Patches,
}

/// All contents except the slow ones.
pub const CONTENTS: [Content; 8] = [
    Content::Static,
    Content::Pan,
    Content::Zoom,
    Content::Objects,
    Content::Noise,
    Content::Cuts,
    Content::Camera,
    Content::Patches,
];

fn hash(x: i64, y: i64, seed: u64) -> u64 {
    let mut h = seed ^ (x as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (y as u64).wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
    h = (h ^ (h >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    h = (h ^ (h >> 32)).wrapping_mul(0x94d0_49bb_1331_11eb);
    h ^ (h >> 29)
}

/// Smooth noise at a position in 1/256 of a lattice cell. The value is 0 to 255, in 1/256.
fn lattice(x: i64, y: i64, seed: u64) -> i64 {
    let (cx, cy) = (x >> 8, y >> 8);
    let ease = |t: i64| (t * t * (768 - 2 * t)) >> 16;
    let (fx, fy) = (ease(x & 255), ease(y & 255));
    let corner = |dx, dy| (hash(cx + dx, cy + dy, seed) & 255) as i64;
    let top = corner(0, 0) * (256 - fx) + corner(1, 0) * fx;
    let bottom = corner(0, 1) * (256 - fx) + corner(1, 1) * fx;
    (top * (256 - fy) + bottom * fy) >> 8
}

/// A texture of several octaves at a position in 1/256 of a sample.
fn texture(x: i64, y: i64, seed: u64) -> i64 {
    let octaves = [(64, 110), (16, 70), (5, 50), (2, 26)];
    octaves
        .iter()
        .enumerate()
        .map(|(i, &(size, weight))| lattice(x / size, y / size, seed + i as u64) * weight)
        .sum::<i64>()
        >> 16
}

/// Picture `index` of a clip.
pub fn picture(content: Content, width: usize, height: usize, index: usize, seed: u64) -> Picture {
    let t = index as i64;
    let place = |x: i64, y: i64| match content {
        Content::Pan | Content::Cuts | Content::Camera | Content::Patches => (256 * x + 420 * t, 256 * y + 150 * t),
        Content::SlowPan => (256 * x + 77 * t, 256 * y),
        Content::SlowZoom => {
            // In units of 1/4096, because the change is small.
            let scale = 4096 - 6 * t;
            ((x - width as i64 / 2) * scale / 16, (y - height as i64 / 2) * scale / 16)
        }
        Content::Zoom => {
            let scale = 256 - 2 * t;
            ((x - width as i64 / 2) * scale, (y - height as i64 / 2) * scale)
        }
        _ => (256 * x, 256 * y),
    };
    let seed = if content == Content::Cuts { seed + 100 * (index as u64 / 4) } else { seed };
    let disc = |x: i64, y: i64| {
        (0..4i64).find_map(|n| {
            let radius = width.min(height) as i64 / (6 + n);
            let cx = (width as i64 * (n + 1) / 5 + t * (3 - 2 * n)).rem_euclid(width as i64);
            let cy = (height as i64 * (4 - n) / 5 + t * (n - 1)).rem_euclid(height as i64);
            let (dx, dy) = (x - cx, y - cy);
            (dx * dx + dy * dy < radius * radius).then(|| texture(256 * dx, 256 * dy, seed + 1000 * (n as u64 + 1)))
        })
    };
    let sample = |x: i64, y: i64, plane: u64| -> u8 {
        let (px, py) = place(x, y);
        let value = match content {
            Content::Noise => (hash(x, y, seed + 7919 * t as u64 + plane) & 255) as i64,
            Content::Objects => disc(x, y).unwrap_or_else(|| texture(px, py, seed + 50 * plane)),
            Content::Camera => {
                let noise = hash(x, y, seed + 31 * t as u64 + plane) & 0x3f3f;
                texture(px, py, seed + 50 * plane) + ((noise & 63) as i64 + (noise >> 8) as i64 - 63) / 12
            }
            Content::Patches if hash(x / 24, y / 24, seed + t as u64) & 3 == 0 => {
                texture(px / 3, py / 3, seed + 50 * plane + 1000 * t as u64)
            }
            _ => texture(px, py, seed + 50 * plane),
        };
        let contrast = if plane == 0 { value } else { 128 + (value - 128) / 3 };
        contrast.clamp(0, 255) as u8
    };
    let mut samples = Vec::with_capacity(Picture::i420_length(width, height));
    for y in 0..height as i64 {
        samples.extend((0..width as i64).map(|x| sample(x, y, 0)));
    }
    for plane in 1..3 {
        for y in 0..height.div_ceil(2) as i64 {
            samples.extend((0..width.div_ceil(2) as i64).map(|x| sample(2 * x, 2 * y, plane)));
        }
    }
    Picture::from_i420(width, height, samples).unwrap()
}

/// Sum of squared differences between the luma of two pictures.
pub fn squared_error(a: &Picture, b: &Picture) -> u64 {
    let rows = a.luma().rows().zip(b.luma().rows());
    rows.flat_map(|(a, b)| a.iter().zip(b)).map(|(a, b)| u64::from(a.abs_diff(*b)).pow(2)).sum()
}

/// Luma PSNR of two pictures in dB.
pub fn psnr(a: &Picture, b: &Picture) -> f64 {
    let error = squared_error(a, b).max(1) as f64;
    10.0 * (255.0f64.powi(2) * (a.width() * a.height()) as f64 / error).log10()
}
