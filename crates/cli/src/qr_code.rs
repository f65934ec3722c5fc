//! QR codes of tickets and links, as text for terminals and as pictures for windows.

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

/// QR code of `text` in black on white, whatever the colours of the terminal, with a margin of four modules: cameras
/// expect both.
pub fn text(text: &str) -> Option<String> {
    let code = of(text)?;
    let image = code.render::<Dense1x2>().quiet_zone(true).build();
    let lines = image.lines().map(|line| format!("\x1b[38;5;16;48;5;231m{line}\x1b[0m"));
    Some(lines.collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_black_on_white_with_a_margin() {
        let code = text("http://127.0.0.1:4680/#LOCKSTEP-ABC").expect("it is short");
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
