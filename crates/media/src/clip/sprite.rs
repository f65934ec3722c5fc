//! Canvases and sprites. A sprite is painted once, then drawn on a canvas with a precision of a sixteenth of a sample.

use std::sync::Arc;

use lockstep_vp8::Picture;

use super::vectors::{Loop, with_vectors};

/// Red, green and blue from 0 to 1, gamma-coded.
pub(super) type Rgb = [f32; 3];

/// Transparent samples around a sprite, so that interpolation stays inside it.
const MARGIN: usize = 2;

/// Mixes a share of `b` into `a`.
pub(super) fn mix(a: Rgb, b: Rgb, share: f32) -> Rgb {
    std::array::from_fn(|i| a[i] + (b[i] - a[i]) * share)
}

/// Scales the brightness of a colour.
pub(super) fn shade(colour: Rgb, factor: f32) -> Rgb {
    colour.map(|part| part * factor)
}

/// Converts to BT.601 limited range, 0 to 255.
fn to_yuv(colour: Rgb) -> [f32; 3] {
    let [r, g, b] = colour.map(|part| part.clamp(0.0, 1.0));
    [
        16.0 + 65.481 * r + 128.553 * g + 24.966 * b,
        128.0 - 37.797 * r - 74.203 * g + 112.0 * b,
        128.0 + 112.0 * r - 93.786 * g - 18.214 * b,
    ]
}

fn to_sample(value: f32) -> u8 {
    (value + 0.5) as u8 // saturates
}

/// A picture under construction: packed I420, in the memory of the final picture.
pub(super) struct Canvas {
    width: usize,
    height: usize,
    /// The canvas is the only owner.
    samples: Arc<[u8]>,
}

impl Clone for Canvas {
    fn clone(&self) -> Self {
        Self { samples: Arc::from(&self.samples[..]), ..*self }
    }
}

impl Canvas {
    /// Paints a background. `colour` gives the colour at a chroma sample (column, row). Luma is interpolated between
    /// chroma samples. This costs a quarter of the time and looks slightly out of focus.
    pub(super) fn paint(width: usize, height: usize, colour: impl Fn(usize, usize) -> Rgb) -> Self {
        let (across, down) = (width.div_ceil(2), height.div_ceil(2));
        let mut samples = vec![0; Picture::i420_length(width, height)];
        let (luma, chroma) = samples.split_at_mut(width * height);
        let (blue, red) = chroma.split_at_mut(across * down);
        let mut coarse = vec![0.0; across * down];
        for y in 0..down {
            for x in 0..across {
                let at = y * across + x;
                let yuv = to_yuv(colour(x, y));
                coarse[at] = yuv[0];
                (blue[at], red[at]) = (to_sample(yuv[1]), to_sample(yuv[2]));
            }
        }
        let near_and_far = |at: usize, end: usize| {
            let near = at / 2;
            (near, if at.is_multiple_of(2) { near.saturating_sub(1) } else { (near + 1).min(end - 1) })
        };
        for (y, row) in luma.chunks_exact_mut(width).enumerate() {
            let (near, far) = near_and_far(y, down);
            for (x, sample) in row.iter_mut().enumerate() {
                let (beside, beyond) = near_and_far(x, across);
                let line = |line: usize| 0.75 * coarse[line * across + beside] + 0.25 * coarse[line * across + beyond];
                *sample = to_sample(0.75 * line(near) + 0.25 * line(far));
            }
        }
        Self { width, height, samples: samples.into() }
    }

    /// The planes and their widths.
    pub(super) fn planes(&mut self) -> [(&mut [u8], usize); 3] {
        let (across, down) = (self.width.div_ceil(2), self.height.div_ceil(2));
        let samples = Arc::get_mut(&mut self.samples).expect("a canvas has one owner");
        let (luma, chroma) = samples.split_at_mut(self.width * self.height);
        let (blue, red) = chroma.split_at_mut(across * down);
        [(luma, self.width), (blue, across), (red, across)]
    }

    pub(super) fn into_picture(self) -> Picture {
        Picture::from_shared_i420(self.width, self.height, self.samples).expect("the canvas has the size of a picture")
    }
}

/// Position of a sprite.
#[derive(Debug, Clone, Copy)]
pub(super) struct Placement {
    /// Shift to the right from its painted position, sixteenths of a luma sample.
    pub x: i32,
    /// Downward shift from its painted position, sixteenths of a luma sample.
    pub y: i32,
    /// Lean: shift to the right per row above the pivot, 1/4096.
    pub lean: i32,
    /// Row that does not lean, luma samples.
    pub pivot: i32,
}

/// One plane of a sprite: samples multiplied by opacity, and opacity.
struct Layer {
    width: usize,
    colour: Vec<u8>,
    opacity: Vec<u8>,
    /// For each row, the range of columns that are not fully transparent.
    spans: Vec<(usize, usize)>,
}

impl Layer {
    fn new(width: usize, colour: Vec<u8>, opacity: Vec<u8>) -> Self {
        let spans = opacity
            .chunks_exact(width)
            .map(|row| {
                let first = row.iter().position(|&opacity| opacity > 0).unwrap_or(0);
                (first, row.iter().rposition(|&opacity| opacity > 0).map_or(0, |last| last + 1))
            })
            .collect();
        Self { width, colour, opacity, spans }
    }

    /// Draws the layer on a plane. Without movement, sample (0, 0) of the plane is sample (`left`, `top`) of the layer.
    /// `placement` is in sixteenths of this plane's samples.
    fn lay(&self, plane: &mut [u8], plane_width: usize, left: i32, top: i32, placement: Placement) {
        for (y, row) in plane.chunks_exact_mut(plane_width).enumerate() {
            let y = y as i32;
            let down = (y - top) * 16 - placement.y;
            let (line, part_down) = (down >> 4, (down & 15) as u16);
            if line < 0 || line as usize + 1 >= self.spans.len() {
                continue;
            }
            let line = line as usize;
            let lean = ((placement.pivot - y) * placement.lean) >> 8;
            let across = -left * 16 - placement.x - lean;
            let (shift, part_across) = (across >> 4, (across & 15) as u16);
            // Column x of the plane uses column x + shift of the layer and the next one.
            let (upper, lower) = (self.spans[line], self.spans[line + 1]);
            let span = match (upper.1, lower.1) {
                (0, _) => lower,
                (_, 0) => upper,
                _ => (upper.0.min(lower.0), upper.1.max(lower.1)),
            };
            let first = (span.0 as i32 - 1).max(0).max(shift);
            let end = (span.1 as i32).min(self.width as i32 - 1).min(shift + plane_width as i32);
            if first >= end {
                continue;
            }
            let weights = [
                (16 - part_across) * (16 - part_down),
                part_across * (16 - part_down),
                (16 - part_across) * part_down,
                part_across * part_down,
            ];
            let count = (end - first) as usize;
            let at = line * self.width + first as usize;
            let under = &mut row[(first - shift) as usize..][..count];
            let (colour, opacity) = (&self.colour, &self.opacity);
            let [colour, opacity] = [colour, opacity].map(|samples| Taps::new(samples, at, self.width, count));
            with_vectors(Blend { under, colour, opacity, weights });
        }
    }
}

/// The four neighbours from which each sample of a run is interpolated.
struct Taps<'a>([&'a [u8]; 4]);

impl<'a> Taps<'a> {
    fn new(samples: &'a [u8], at: usize, stride: usize, count: usize) -> Self {
        Self([at, at + 1, at + stride, at + stride + 1].map(|start| &samples[start..start + count]))
    }

    /// The weights sum to 256, so a 16-bit sum holds 255 * 256 + 128.
    #[inline(always)]
    fn at(&self, i: usize, weights: [u16; 4]) -> u16 {
        let [a, b, c, d] = self.0;
        let sum = u16::from(a[i]) * weights[0]
            + u16::from(b[i]) * weights[1]
            + u16::from(c[i]) * weights[2]
            + u16::from(d[i]) * weights[3];
        (sum + 128) >> 8
    }
}

/// A run of samples and the run to draw over it.
struct Blend<'a> {
    under: &'a mut [u8],
    colour: Taps<'a>,
    opacity: Taps<'a>,
    weights: [u16; 4],
}

impl Loop for Blend<'_> {
    #[inline(always)]
    fn run(self) {
        let Self { under, colour, opacity, weights } = self;
        let count = under.len();
        let (colour, opacity) = (Taps(colour.0.map(|tap| &tap[..count])), Taps(opacity.0.map(|tap| &tap[..count])));
        for (i, sample) in under.iter_mut().enumerate() {
            // x / 255, rounded, for x up to 255^2.
            let through = (255 - opacity.at(i, weights)) * u16::from(*sample) + 128;
            let through = (through + (through >> 8)) >> 8;
            *sample = (colour.at(i, weights) + through).min(255) as u8;
        }
    }
}

/// Painted area of a sprite, in luma samples of the picture. Its edges are even.
#[derive(Debug, Clone, Copy)]
pub(super) struct Area {
    pub left: i32,
    pub top: i32,
    pub right: i32,
    pub bottom: i32,
}

impl Area {
    /// Intersection with `other`, with even sides and at least one chroma sample.
    pub(super) fn within(self, other: Self) -> Self {
        let even = |x: i32| x & !1;
        let (left, top) = (even(self.left.max(other.left)), even(self.top.max(other.top)));
        let right = even(self.right.min(other.right) + 1).max(left + 2);
        let bottom = even(self.bottom.min(other.bottom) + 1).max(top + 2);
        Self { left, top, right, bottom }
    }
}

/// A moving object that is painted once.
pub(super) struct Sprite {
    left: i32,
    top: i32,
    luma: Layer,
    chroma: [Layer; 2],
}

impl Sprite {
    /// Paints `area`. `colour` gives colour and opacity at the middle of a luma sample of the picture.
    pub(super) fn paint(area: Area, colour: impl Fn(f32, f32) -> (Rgb, f32)) -> Self {
        let (across, down) = (((area.right - area.left) / 2) as usize, ((area.bottom - area.top) / 2) as usize);
        let (width, height) = (2 * (across + MARGIN), 2 * (down + MARGIN));
        let (half_width, half_height) = (width / 2, height / 2);
        let (mut luma, mut opacity) = (vec![0; width * height], vec![0; width * height]);
        let mut chroma = [vec![0; half_width * half_height], vec![0; half_width * half_height]];
        let mut half_opacity = chroma[0].clone();
        let half_margin = MARGIN / 2;
        for y in 0..down {
            for x in 0..across {
                let mut sums = [0.0; 3];
                for corner in 0..4 {
                    let (dx, dy) = (2 * x + corner % 2, 2 * y + corner / 2);
                    let place = (area.left as f32 + dx as f32 + 0.5, area.top as f32 + dy as f32 + 0.5);
                    let (rgb, share) = colour(place.0, place.1);
                    let share = share.clamp(0.0, 1.0);
                    let yuv = to_yuv(rgb);
                    let at = (dy + MARGIN) * width + dx + MARGIN;
                    (luma[at], opacity[at]) = (to_sample(yuv[0] * share), to_sample(255.0 * share));
                    sums = [sums[0] + share, sums[1] + share * yuv[1], sums[2] + share * yuv[2]];
                }
                let at = (y + half_margin) * half_width + x + half_margin;
                half_opacity[at] = to_sample(255.0 * sums[0] / 4.0);
                chroma[0][at] = to_sample(sums[1] / 4.0);
                chroma[1][at] = to_sample(sums[2] / 4.0);
            }
        }
        let margin = MARGIN as i32;
        Self {
            left: area.left - margin,
            top: area.top - margin,
            luma: Layer::new(width, luma, opacity),
            chroma: chroma.map(|colour| Layer::new(half_width, colour, half_opacity.clone())),
        }
    }

    /// Draws the sprite on a canvas.
    pub(super) fn draw(&self, canvas: &mut Canvas, placement: Placement) {
        let half =
            Placement { x: placement.x >> 1, y: placement.y >> 1, lean: placement.lean, pivot: placement.pivot >> 1 };
        let [luma, blue, red] = canvas.planes();
        self.luma.lay(luma.0, luma.1, self.left, self.top, placement);
        for (layer, plane) in self.chroma.iter().zip([blue, red]) {
            layer.lay(plane.0, plane.1, self.left / 2, self.top / 2, half);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STILL: Placement = Placement { x: 0, y: 0, lean: 0, pivot: 0 };

    fn white_square(left: i32) -> Sprite {
        Sprite::paint(Area { left, top: 4, right: left + 4, bottom: 8 }, |_, _| ([1.0; 3], 1.0))
    }

    fn row_after(sprite: &Sprite, placement: Placement) -> Vec<u8> {
        let mut canvas = Canvas::paint(16, 12, |_, _| [0.0; 3]);
        sprite.draw(&mut canvas, placement);
        canvas.into_picture().luma().row(5).to_vec()
    }

    #[test]
    fn unmoved_sprite_covers_its_painted_area() {
        let row = row_after(&white_square(4), STILL);
        assert_eq!(row, [[16; 4], [235; 4], [16; 4], [16; 4]].concat());
    }

    #[test]
    fn sprite_at_a_fraction_of_a_sample_is_interpolated() {
        let row = row_after(&white_square(4), Placement { x: 4, ..STILL });
        assert_eq!(row[3], 16);
        assert!((row[4].abs_diff(180) <= 1) && row[8].abs_diff(71) <= 1, "{row:?}");
        assert_eq!(row[5..8], [235; 3]);
    }

    #[test]
    fn sprite_may_cross_every_edge_or_lie_outside() {
        for x in (-400..400).step_by(7) {
            for y in (-300..300).step_by(31) {
                row_after(&white_square(4), Placement { x, y, lean: 300, pivot: 9 });
            }
        }
        row_after(&white_square(-40), STILL);
        assert_eq!(row_after(&white_square(-2), STILL)[..3], [235, 235, 16]);
    }
}
