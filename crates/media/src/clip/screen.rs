//! Generated screens: an editor in which somebody types, a terminal whose output scrolls, slides, and a page that is
//! scrolled. Text is drawn with antialiased letters. A picture is a function of its time, computed with integers.

use std::str::FromStr;

use lockstep_vp8::Picture;
use noto_sans_mono_bitmap::{FontWeight, RasterHeight, RasterizedChar, get_raster, get_raster_width};

use super::random::pair;
use crate::colour;

/// What a generated screen shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScreenContent {
    /// Coloured code on a dark ground; seven characters are typed per second.
    Editor,
    /// Output of programs: 40 lines in 1.5 s, then a pause until second 4.
    Terminal,
    /// Slides of six seconds, whose points appear one after the other.
    Slides,
    /// A page of text and pictures, scrolled by 600 pixels in one second of three.
    Page,
}

/// The text names no content of a screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("generated screens are: editor, terminal, slides, page")]
pub struct ScreenContentError;

impl FromStr for ScreenContent {
    type Err = ScreenContentError;

    fn from_str(text: &str) -> Result<Self, ScreenContentError> {
        match text {
            "editor" => Ok(Self::Editor),
            "terminal" => Ok(Self::Terminal),
            "slides" => Ok(Self::Slides),
            "page" => Ok(Self::Page),
            _ => Err(ScreenContentError),
        }
    }
}

/// Words of all texts.
const WORDS: [&str; 48] = [
    "state",
    "frame",
    "let",
    "budget",
    "return",
    "match",
    "delay",
    "packet",
    "encode",
    "for",
    "link",
    "the",
    "queue",
    "if",
    "loss",
    "rate",
    "path",
    "mut",
    "candidate",
    "call",
    "self",
    "sender",
    "receiver",
    "else",
    "picture",
    "while",
    "quantizer",
    "fn",
    "ack",
    "model",
    "estimate",
    "use",
    "trace",
    "seconds",
    "hash",
    "pub",
    "size",
    "next",
    "window",
    "struct",
    "feedback",
    "time",
    "block",
    "limit",
    "0",
    "17",
    "250",
    "codec",
];
/// Height of a line of small letters, pixels.
const LINE: usize = 20;
/// Height of a line of large letters, pixels.
const LARGE_LINE: usize = 44;
/// Left margin, pixels.
const MARGIN: usize = 16;
/// Characters that are typed in a second.
const TYPED: u64 = 7;

/// Time after which a screen begins again, milliseconds.
const REPEAT_MS: u64 = 3_600_000;

type Colour = [u8; 3];

const DARK: Colour = [30, 30, 34];
const BLACK: Colour = [12, 12, 12];
const PAPER: Colour = [252, 252, 250];
const INK: Colour = [32, 32, 36];
const GREY: Colour = [120, 124, 130];
const LIGHT: Colour = [214, 214, 214];
const SYNTAX: [Colour; 5] = [LIGHT, [86, 156, 214], [78, 201, 176], [206, 145, 120], [197, 134, 192]];
const BARS: [Colour; 4] = [[0, 114, 178], [230, 159, 0], [0, 158, 115], [204, 121, 167]];

/// A picture in packed RGB.
struct Screen {
    width: usize,
    height: usize,
    rgb: Vec<u8>,
}

/// A line of text: words with their colours.
struct Line {
    indent: usize,
    words: Vec<(&'static str, usize)>,
}

impl Line {
    /// Line `number` of the text `seed`, with up to `words` words.
    fn new(seed: u64, number: u64, words: u64) -> Self {
        let value = |index: u64| pair(pair(seed, number), index);
        let count = 1 + value(0) % words;
        let word = |index| (WORDS[(value(index) % WORDS.len() as u64) as usize], (value(index) >> 32) as usize);
        Self { indent: (value(1) % 4) as usize * 4, words: (2..2 + count).map(word).collect() }
    }

    /// Length in characters.
    fn length(&self) -> usize {
        self.indent + self.words.iter().map(|(word, _)| word.len() + 1).sum::<usize>()
    }
}

impl Screen {
    fn new(width: usize, height: usize, ground: Colour) -> Self {
        Self { width, height, rgb: ground.repeat(width * height) }
    }

    fn pixel(&mut self, x: i64, y: i64) -> Option<&mut [u8]> {
        let (x, y) = (usize::try_from(x).ok()?, usize::try_from(y).ok()?);
        if x < self.width && y < self.height {
            self.rgb.get_mut(3 * (y * self.width + x)..)?.get_mut(..3)
        } else {
            None
        }
    }

    fn fill(&mut self, left: i64, top: i64, width: usize, height: usize, colour: Colour) {
        for y in top..top + height as i64 {
            for x in left..left + width as i64 {
                if let Some(pixel) = self.pixel(x, y) {
                    pixel.copy_from_slice(&colour);
                }
            }
        }
    }

    /// Writes `text`, and returns its right edge.
    fn write(&mut self, left: i64, top: i64, text: &str, colour: Colour, size: RasterHeight) -> i64 {
        let across = get_raster_width(FontWeight::Regular, size) as i64;
        let mut x = left;
        for letter in text.chars() {
            let raster = get_raster(letter, FontWeight::Regular, size);
            for (y, row) in raster.iter().flat_map(RasterizedChar::rows).enumerate() {
                for (column, &share) in row.iter().enumerate().filter(|(_, share)| **share > 0) {
                    if let Some(pixel) = self.pixel(x + column as i64, top + y as i64) {
                        for (below, above) in pixel.iter_mut().zip(colour) {
                            let mixed =
                                u32::from(*below) * u32::from(255 - share) + u32::from(above) * u32::from(share);
                            *below = (mixed / 255) as u8;
                        }
                    }
                }
            }
            x += across;
        }
        x
    }

    /// Writes up to `limit` characters of a line, in colours or in `plain`. Returns the right edge.
    fn line(&mut self, left: i64, top: i64, line: &Line, limit: usize, plain: Option<Colour>) -> i64 {
        let across = get_raster_width(FontWeight::Regular, RasterHeight::Size16) as i64;
        let mut rest = limit.saturating_sub(line.indent);
        let mut x = left + line.indent as i64 * across;
        for (word, colour) in &line.words {
            let shown = &word[..word.len().min(rest)];
            let colour = plain.unwrap_or(SYNTAX[colour % SYNTAX.len()]);
            x = self.write(x, top, shown, colour, RasterHeight::Size16);
            rest = rest.saturating_sub(word.len() + 1);
            if rest == 0 {
                break;
            }
            x += across;
        }
        x
    }

    fn editor(&mut self, seed: u64, milliseconds: u64) {
        let rows = (self.height / LINE).max(1) as u64;
        let mut typed = (milliseconds * TYPED / 1_000) as usize;
        // The line at the cursor; those above it are complete.
        let mut current = rows / 2;
        let line = loop {
            let line = Line::new(seed, current, 9);
            if typed < line.length() {
                break line;
            }
            typed -= line.length();
            current += 1;
        };
        let first = current.saturating_sub(rows * 3 / 4);
        let text = MARGIN as i64 + 48;
        for row in 0..rows {
            let (number, top) = (first + row, (row as usize * LINE) as i64);
            self.write(MARGIN as i64, top, &format!("{number:>4}"), GREY, RasterHeight::Size16);
            if number == current {
                let edge = self.line(text, top, &line, typed, None);
                if milliseconds % 1_000 < 500 {
                    self.fill(edge, top, 2, LINE, LIGHT);
                }
            } else if number < current {
                self.line(text, top, &Line::new(seed, number, 9), usize::MAX, None);
            }
        }
    }

    fn terminal(&mut self, seed: u64, milliseconds: u64) {
        let (burst, within) = (milliseconds / 4_000, milliseconds % 4_000);
        let rows = (self.height / LINE).max(1) as u64;
        let last = rows / 2 + burst * 40 + (within * 40 / 1_500).min(40);
        let first = (last + 1).saturating_sub(rows);
        for number in first..=last {
            let top = ((number - first) as usize * LINE) as i64;
            self.line(MARGIN as i64, top, &Line::new(seed, number, 14), usize::MAX, Some(LIGHT));
        }
    }

    fn slides(&mut self, seed: u64, milliseconds: u64) {
        let (slide, within) = (milliseconds / 6_000, milliseconds % 6_000);
        let seed = pair(seed, slide);
        let left = 3 * MARGIN as i64;
        self.fill(0, 0, self.width, LARGE_LINE + 2 * MARGIN, BARS[(slide % 4) as usize]);
        let title: Vec<&str> = Line::new(seed, 0, 4).words.iter().map(|(word, _)| *word).collect();
        self.write(left, MARGIN as i64, &title.join(" "), PAPER, RasterHeight::Size32);
        for point in 0..(1 + within / 1_000).min(5) {
            let top = (LARGE_LINE + 4 * MARGIN + point as usize * 3 * LINE) as i64;
            self.fill(left, top + 5, 8, 8, BARS[(slide % 4) as usize]);
            self.line(left + 24, top, &Line { indent: 0, ..Line::new(seed, point + 1, 8) }, usize::MAX, Some(INK));
        }
        for bar in 0..4 {
            let tall = (pair(seed, 100 + bar) % (self.height as u64 / 2).max(1)) as usize;
            let x = self.width as i64 * 2 / 3 + bar as i64 * self.width as i64 / 14;
            self.fill(x, (self.height - tall) as i64, self.width / 18, tall, BARS[bar as usize]);
        }
    }

    fn page(&mut self, seed: u64, milliseconds: u64) {
        let (scroll, within) = (milliseconds / 3_000, (milliseconds % 3_000).min(1_000));
        // Smooth step in thousandths.
        let eased = within * within * (3_000 - 2 * within) / 1_000_000;
        let offset = (600 * scroll + 600 * eased / 1_000) as usize;
        let column = self.width * 3 / 4;
        for number in offset / LINE..=(offset + self.height) / LINE {
            let (top, left) = ((number * LINE) as i64 - offset as i64, self.width as i64 / 8);
            match number % 24 {
                0 => drop(self.write(
                    left,
                    top,
                    &Line::new(seed, number as u64, 4).words[0].0.to_uppercase(),
                    INK,
                    RasterHeight::Size16,
                )),
                1 | 12 | 23 => {}
                // A picture: a slow ramp under grain.
                13..=20 => {
                    for y in top..top + LINE as i64 {
                        for x in 0..column {
                            let grain = pair(seed ^ number as u64, (x / 2) as u64) % 24;
                            let value = (40 + x * 100 / column.max(1) + (number % 24) * 4) as u8 + grain as u8;
                            if let Some(pixel) = self.pixel(left + x as i64, y) {
                                pixel.copy_from_slice(&[value, value / 2 + 60, 200 - value / 2]);
                            }
                        }
                    }
                }
                _ => drop(self.line(
                    left,
                    top,
                    &Line { indent: 0, ..Line::new(seed, number as u64, 14) },
                    usize::MAX,
                    Some(INK),
                )),
            }
        }
    }
}

/// The screen at a time.
pub(super) fn picture(content: ScreenContent, width: usize, height: usize, seed: u64, nanoseconds: u64) -> Picture {
    let milliseconds = nanoseconds / 1_000_000 % REPEAT_MS;
    let ground = match content {
        ScreenContent::Editor => DARK,
        ScreenContent::Terminal => BLACK,
        ScreenContent::Slides | ScreenContent::Page => PAPER,
    };
    let mut screen = Screen::new(width, height, ground);
    match content {
        ScreenContent::Editor => screen.editor(seed, milliseconds),
        ScreenContent::Terminal => screen.terminal(seed, milliseconds),
        ScreenContent::Slides => screen.slides(seed, milliseconds),
        ScreenContent::Page => screen.page(seed, milliseconds),
    }
    colour::picture_from_rgb(width, height, &screen.rgb).expect("the clip has the size of a picture")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FrameRate, GeneratedClip, PictureQuality, VideoFormat, text_ssim};

    const CONTENTS: [(ScreenContent, &str); 4] = [
        (ScreenContent::Editor, "editor"),
        (ScreenContent::Terminal, "terminal"),
        (ScreenContent::Slides, "slides"),
        (ScreenContent::Page, "page"),
    ];

    fn clip(content: ScreenContent, width: usize, height: usize) -> GeneratedClip {
        GeneratedClip::screen(content, VideoFormat { width, height, frame_rate: FrameRate::default() }, 3).unwrap()
    }

    #[test]
    fn names_of_contents_are_read() {
        for (content, name) in CONTENTS {
            assert_eq!(name.parse(), Ok(content));
        }
        assert!("film".parse::<ScreenContent>().unwrap_err().to_string().contains("slides"));
    }

    #[test]
    fn screen_is_still_between_its_changes() {
        let changes = |content| {
            let clip = clip(content, 480, 270);
            let pictures: Vec<_> = (0..180).map(|index| clip.picture(index)).collect();
            pictures.windows(2).filter(|two| two[0] != two[1]).count()
        };
        let counts = CONTENTS.map(|(content, _)| changes(content));
        // Letters, spaces and blinks; 40 lines in each of two bursts; a slide and the points that fit; two scrolls.
        assert!((30..=54).contains(&counts[0]) && (60..=80).contains(&counts[1]), "{counts:?}");
        assert!((2..=6).contains(&counts[2]) && (50..=62).contains(&counts[3]), "{counts:?}");
    }

    #[test]
    fn every_screen_has_text_at_any_time_and_size() {
        for (content, _) in CONTENTS {
            for (width, height, index) in [(640, 360, 0), (1_280, 720, 987_654_321_012), (322, 181, u64::MAX / 2)] {
                let picture = clip(content, width, height).picture(index);
                assert_eq!((picture.width(), picture.height()), (width, height));
                assert_eq!(text_ssim(&picture, &picture), Ok(Some(1.0)), "{content:?} {index}");
            }
            assert_eq!(clip(content, 1, 1).picture(100).width(), 1);
        }
    }

    #[test]
    fn blurred_text_scores_less_than_the_picture() {
        let picture = clip(ScreenContent::Page, 640, 360).picture(0);
        let (width, height) = (picture.width(), picture.height());
        let mut samples = picture.to_i420();
        for row in samples[..width * height].chunks_exact_mut(width) {
            let sharp = row.to_vec();
            for (x, sample) in row.iter_mut().enumerate().skip(1).take(width - 2) {
                *sample = ((u16::from(sharp[x - 1]) + 2 * u16::from(sharp[x]) + u16::from(sharp[x + 1])) / 4) as u8;
            }
        }
        let blurred = Picture::from_i420(width, height, samples).unwrap();
        let quality = PictureQuality::of(&picture, &blurred, true).unwrap();
        assert!(quality.text_ssim.unwrap() < quality.ssim - 0.02, "{quality:?}");
        assert_eq!(PictureQuality::of(&picture, &blurred, false).unwrap().text_ssim, None);
        let grey = Picture::from_i420(width, height, vec![128; Picture::i420_length(width, height)]).unwrap();
        assert_eq!(text_ssim(&grey, &picture), Ok(None));
    }
}
