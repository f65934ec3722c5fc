//! Draws the content of a call window into pixels: the remote picture as large as possible, the local one small in a
//! corner, and text. It opens no window.

use noto_sans_mono_bitmap::{FontWeight, RasterHeight, get_raster, get_raster_width};

/// Pixels of `0x00RRGGBB`, row by row.
#[derive(Debug, Clone, Default)]
pub(crate) struct Image {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) pixels: Vec<u32>,
}

/// A rectangle of a canvas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Area {
    pub(crate) left: usize,
    pub(crate) top: usize,
    pub(crate) width: usize,
    pub(crate) height: usize,
}

/// Size of letters.
const LETTERS: RasterHeight = RasterHeight::Size16;
/// Height of a line of text with its margin, pixels.
const LINE: usize = 22;
/// Left margin of text, pixels.
const INDENT: usize = 10;
/// Divisor of the window sides that limits the size of the local picture.
const OWN_SHARE: usize = 4;
/// Distance of the local picture from the corner, pixels.
const OWN_MARGIN: usize = 12;
/// Colour of the frame.
const FRAME: u32 = 0x00d0_d0d0;
/// Colour of text.
const WORDS: u32 = 0x00f0_f0f0;
/// Background colour.
const GROUND: u32 = 0x0018_1a1c;

impl Area {
    /// The largest centred area with the ratio `width` to `height` inside this one.
    fn fit(self, width: usize, height: usize) -> Self {
        if width == 0 || height == 0 {
            return Self { width: 0, height: 0, ..self };
        }
        let (across, down) = if self.width * height <= self.height * width {
            (self.width, self.width * height / width)
        } else {
            (self.height * width / height, self.height)
        };
        Self {
            left: self.left + (self.width - across) / 2,
            top: self.top + (self.height - down) / 2,
            width: across,
            height: down,
        }
    }
}

/// Blends `above` over `below` with a weight of `share` / 255.
fn blend(below: u32, above: u32, share: u32) -> u32 {
    let byte = |shift: u32| {
        let (below, above) = (below >> shift & 255, above >> shift & 255);
        ((above * share + below * (255 - share)) / 255) << shift
    };
    byte(16) | byte(8) | byte(0)
}

/// Content of the window.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scene<'a> {
    /// The remote picture. Without one, `notice` takes its position.
    pub(crate) remote: Option<&'a Image>,
    /// The local picture.
    pub(crate) local: Option<&'a Image>,
    pub(crate) notice: &'a str,
    /// Text at the bottom.
    pub(crate) caption: &'a str,
}

impl Image {
    fn area(&self) -> Area {
        Area { left: 0, top: 0, width: self.width, height: self.height }
    }

    /// Draws `scene` in a picture of this size.
    pub(crate) fn draw(&mut self, width: usize, height: usize, scene: &Scene<'_>) {
        (self.width, self.height) = (width, height);
        self.pixels.clear();
        self.pixels.resize(width * height, GROUND);
        if let Some(remote) = scene.remote {
            self.scale(remote, self.area().fit(remote.width, remote.height), false);
        }
        if !scene.notice.is_empty() {
            let across = scene.notice.chars().count() * get_raster_width(FontWeight::Regular, LETTERS);
            let left = width.saturating_sub(across) / 2;
            let (top, behind) = (height.saturating_sub(LINE) / 2, across + 2 * INDENT);
            let left_behind = left.saturating_sub(INDENT);
            self.shade(Area { left: left_behind, top, width: behind.min(width - left_behind), height: LINE });
            self.write(left, top + 3, scene.notice);
        }
        let caption = if scene.caption.is_empty() { 0 } else { LINE.min(height) };
        if let Some(local) = scene.local {
            let room = Area { width: width / OWN_SHARE, height: height / OWN_SHARE, left: 0, top: 0 };
            let Area { width: across, height: down, .. } = room.fit(local.width, local.height);
            let place = width.checked_sub(across + OWN_MARGIN).zip(height.checked_sub(down + OWN_MARGIN + caption));
            if let Some((left, top)) = place.filter(|_| across > 2 && down > 2) {
                let around = Area { left: left - 1, top: top - 1, width: across + 2, height: down + 2 };
                self.fill(around, FRAME);
                // Users expect to see themselves mirrored.
                self.scale(local, Area { left, top, width: across, height: down }, true);
            }
        }
        if caption > 0 {
            self.shade(Area { left: 0, top: height - caption, width, height: caption });
            self.write(INDENT, height - caption + 3, scene.caption);
        }
    }

    fn rows(&mut self, area: Area) -> impl Iterator<Item = &mut [u32]> {
        let width = self.width.max(1);
        let rows = self.pixels.chunks_exact_mut(width).skip(area.top).take(area.height);
        rows.map(move |row| &mut row[area.left.min(width)..(area.left + area.width).min(width)])
    }

    fn fill(&mut self, area: Area, colour: u32) {
        self.rows(area).for_each(|row| row.fill(colour));
    }

    /// Darkens an area, so that text on it is legible.
    fn shade(&mut self, area: Area) {
        self.rows(area).flatten().for_each(|pixel| *pixel = blend(*pixel, 0, 150));
    }

    /// Scales `image` to `area`, mirrored if `mirrored`.
    fn scale(&mut self, image: &Self, area: Area, mirrored: bool) {
        let column = |x: usize| {
            let x = if mirrored { area.width - 1 - x } else { x };
            x * image.width / area.width.max(1)
        };
        let columns: Vec<usize> = (0..area.width).map(column).collect();
        let whole = !mirrored && image.width == area.width;
        for (y, row) in self.rows(area).enumerate() {
            let from = y * image.height / area.height.max(1) * image.width;
            let Some(source) = image.pixels.get(from..from + image.width) else { return };
            if whole {
                row.copy_from_slice(source);
            } else {
                row.iter_mut().zip(&columns).for_each(|(pixel, &column)| *pixel = source[column]);
            }
        }
    }

    /// Draws a line of text and truncates it at the edge.
    fn write(&mut self, left: usize, top: usize, line: &str) {
        let across = get_raster_width(FontWeight::Regular, LETTERS);
        for (place, letter) in line.chars().enumerate() {
            let raster = get_raster(letter, FontWeight::Regular, LETTERS);
            let Some(raster) = raster.or_else(|| get_raster('?', FontWeight::Regular, LETTERS)) else { continue };
            let area = Area { left: left + place * across, top, width: across, height: LINE };
            if area.left + across > self.width {
                return;
            }
            for (row, shares) in self.rows(area).zip(raster.rows()) {
                for (pixel, &share) in row.iter_mut().zip(shares.iter()) {
                    *pixel = blend(*pixel, WORDS, share.into());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(width: usize, height: usize, colour: impl Fn(usize) -> u32) -> Image {
        Image { width, height, pixels: (0..width * height).map(|at| colour(at % width)).collect() }
    }

    #[test]
    fn remote_picture_fills_the_window_and_local_is_mirrored() {
        let (remote, local) = (image(320, 180, |_| 0xff), image(64, 36, |x| if x < 32 { 0xff00 } else { 0xff_0000 }));
        let mut canvas = Image::default();
        let count = |canvas: &Image, colour| canvas.pixels.iter().filter(|&&pixel| pixel == colour).count();
        canvas.draw(640, 400, &Scene { remote: Some(&remote), ..Scene::default() });
        assert_eq!((count(&canvas, GROUND), count(&canvas, 0xff)), (640 * 40, 640 * 360), "above and below");
        canvas.draw(640, 360, &Scene { remote: Some(&remote), local: Some(&local), ..Scene::default() });
        assert_eq!((count(&canvas, 0xff00), count(&canvas, 0xff_0000)), (80 * 90, 80 * 90));
        let at = |x: usize, y: usize| canvas.pixels[y * 640 + x];
        assert_eq!((at(640 - 14, 300), at(640 - 12 - 158, 300)), (0xff00, 0xff_0000), "as in a mirror");
    }

    #[test]
    fn text_is_legible_and_truncated_at_the_edge() {
        let remote = image(16, 9, |_| 0x80_8080);
        let light = |canvas: &Image, from: usize, to: usize| {
            canvas.pixels[from * canvas.width..to * canvas.width].iter().filter(|&&pixel| pixel > 0x00d0_0000).count()
        };
        let mut canvas = Image::default();
        canvas.draw(320, 180, &Scene { remote: Some(&remote), caption: "delay 80 ms", ..Scene::default() });
        assert!(light(&canvas, 158, 180) > 20 && light(&canvas, 0, 158) == 0);
        canvas.draw(320, 180, &Scene { notice: "camera off", ..Scene::default() });
        assert!(light(&canvas, 70, 110) > 20 && light(&canvas, 120, 180) == 0);
        for (width, height) in [(1, 1), (5, 40), (40, 5), (100, 100)] {
            let scene = Scene {
                remote: Some(&remote),
                local: Some(&remote),
                notice: "a notice",
                caption: "a longer caption é",
            };
            canvas.draw(width, height, &scene);
            assert_eq!(canvas.pixels.len(), width * height);
        }
    }
}
