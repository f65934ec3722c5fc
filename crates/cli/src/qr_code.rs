//! QR codes of tickets and links, as text for terminals and as pictures for windows.

use std::env;
use std::io::{IsTerminal, stdout};
use std::iter;

use lockstep_vp8::Picture;
use qrcode::render::unicode::Dense1x2;
use qrcode::{Color, EcLevel, QrCode};

/// Margin that cameras expect, modules.
const MARGIN: usize = 4;
/// Side of a module in a picture: a macroblock.
const MODULE: usize = 16;

fn of(text: &str) -> Option<QrCode> {
    QrCode::with_error_correction_level(text, EcLevel::L).ok()
}

/// QR code of `text` as a picture, one macroblock per module, with a margin of four modules.
pub fn picture(text: &str) -> Option<Picture> {
    let code = of(text)?;
    let (modules, colours) = (code.width(), code.to_colors());
    let side = (modules + 2 * MARGIN) * MODULE;
    let sample = |at: usize| {
        let [x, y] =
            [at % side, at / side].map(|place| (place / MODULE).checked_sub(MARGIN).filter(|&at| at < modules));
        let is_dark = x.zip(y).is_some_and(|(x, y)| colours[y * modules + x] == Color::Dark);
        // Black and white (ITU-R BT.601).
        if is_dark { 16 } else { 235 }
    };
    let samples = (0..side * side).map(sample).chain(iter::repeat_n(128, side * side / 2)).collect();
    Picture::from_i420(side, side, samples).ok()
}

/// QR code of `text` for a terminal, with a margin of four modules: cameras expect it. With `has_colours` it is black on
/// white, whatever the colours of the terminal. Without, the terminal's text colour draws the light modules, because
/// most terminals are dark.
pub fn text(text: &str, has_colours: bool) -> Option<String> {
    let code = of(text)?;
    let mut renderer = code.render::<Dense1x2>();
    if !has_colours {
        renderer.dark_color(Dense1x2::Light).light_color(Dense1x2::Dark);
    }
    let image = renderer.quiet_zone(true).build();
    let line = |line: &str| match has_colours {
        true => format!("\x1b[38;5;16;48;5;231m{line}\x1b[0m"),
        false => line.to_owned(),
    };
    Some(image.lines().map(line).collect::<Vec<_>>().join("\n"))
}

/// Whether standard output is a terminal with colours, and the user has not declined them (no-color.org).
pub fn has_colours() -> bool {
    let is_set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
    stdout().is_terminal() && !is_set("NO_COLOR") && env::var_os("TERM").is_none_or(|term| term != "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: &str = "http://127.0.0.1:4680/#LOCKSTEP-ABC";

    /// What a camera reads from a terminal of this background and text colour that shows `text`.
    fn scanned(text: &str, background: u8, foreground: u8) -> Option<String> {
        /// Side of a module, and width of the terminal around the text, in pixels.
        const SCALE: usize = 4;
        const AROUND: usize = 40;
        let (black, white) = ("\x1b[38;5;16;48;5;231m", "\x1b[0m");
        let rows: Vec<Vec<u8>> = text
            .lines()
            .flat_map(|line| {
                let coloured = line.strip_prefix(black).and_then(|line| line.strip_suffix(white));
                let colours = if coloured.is_some() { (255, 0) } else { (background, foreground) };
                [true, false].map(|is_upper| {
                    let drawn = |letter| match letter {
                        ' ' => false,
                        '\u{2588}' => true,
                        '\u{2580}' => is_upper,
                        '\u{2584}' => !is_upper,
                        other => panic!("{other:?} is no block"),
                    };
                    let letters = coloured.unwrap_or(line).chars();
                    letters.map(|letter| if drawn(letter) { colours.1 } else { colours.0 }).collect()
                })
            })
            .collect();
        let (width, height) = (rows[0].len() * SCALE + 2 * AROUND, rows.len() * SCALE + 2 * AROUND);
        let mut image = rqrr::PreparedImage::prepare_from_greyscale(width, height, |x, y| {
            let row = y.checked_sub(AROUND).and_then(|y| rows.get(y / SCALE));
            let module = row.and_then(|row| row.get(x.checked_sub(AROUND)? / SCALE));
            module.copied().unwrap_or(background)
        });
        let (_, read) = image.detect_grids().first()?.decode().ok()?;
        Some(read)
    }

    #[test]
    fn coloured_code_is_read_from_dark_and_light_terminals() {
        let link = format!("https://example.org/{}", "A2".repeat(80));
        for text in [LINK, &link] {
            let code = super::text(text, true).expect("it is short");
            for (background, foreground) in [(0, 200), (30, 255), (255, 0), (250, 90)] {
                assert_eq!(scanned(&code, background, foreground).as_deref(), Some(text), "on {background}");
            }
        }
    }

    #[test]
    fn plain_code_is_read_from_dark_terminals() {
        let code = super::text(LINK, false).expect("it is short");
        assert!(!code.contains('\x1b'));
        assert_eq!(scanned(&code, 0, 200).as_deref(), Some(LINK));
    }

    #[test]
    fn text_has_a_margin_of_four_modules() {
        let code = text(LINK, true).expect("it is short");
        let (begin, end) = ("\x1b[38;5;16;48;5;231m", "\x1b[0m");
        let lines: Vec<&str> = code
            .lines()
            .map(|line| line.strip_prefix(begin).and_then(|line| line.strip_suffix(end)).expect("colours"))
            .collect();
        // A line has two rows of modules, and dark modules are drawn.
        assert!(lines[..2].iter().all(|line| line.trim().is_empty()));
        assert!(lines.iter().all(|line| line.starts_with("    ") && line.ends_with("    ")));
        assert!(lines[2].trim().starts_with("\u{2588}\u{2580}"), "{}", lines[2]);
    }

    #[test]
    fn picture_has_a_margin_and_square_modules() {
        let picture = picture("http://127.0.0.1:4680/#LOCKSTEP-ABC").expect("it is short");
        let (side, first) = (picture.width(), MARGIN * MODULE);
        assert!(picture.height() == side && side % MODULE == 0);
        let luma = picture.luma();
        assert!((0..first).all(|y| luma.row(y).iter().all(|&sample| sample == 235)));
        // The finder pattern has seven modules, then a light one.
        let row = luma.row(first);
        let dark = first..first + 7 * MODULE;
        assert!(row[dark.clone()].iter().all(|&sample| sample == 16) && row[dark.end] == 235 && row[first - 1] == 235);
    }
}
