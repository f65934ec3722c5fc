//! Reads arbitrary bytes as a y4m file and as an IVF file. Everything read must survive writing and reading again.

use std::io::{BufReader, Cursor};

use lockstep_media::{IvfReader, IvfWriter, Y4mReader, Y4mWriter};

use crate::memory::bounded;

/// A reader's initial buffer (4 MiB), twice while it is handed over.
const MEMORY: usize = 16 << 20;

fn y4m(data: &[u8], buffer: usize) {
    let Ok(mut reader) = Y4mReader::new(BufReader::with_capacity(buffer, data)) else { return };
    let format = reader.format();
    let mut writer = Y4mWriter::new(Vec::new(), format).expect("a format that was read");
    let mut pictures = Vec::new();
    while let Ok(Some(picture)) = reader.read_picture() {
        writer.write_picture(&picture).expect("a picture of the file's size");
        pictures.push(picture);
    }
    let written = writer.finish().expect("memory");
    let mut again = Y4mReader::new(&written[..]).expect("a file that was written");
    assert_eq!(again.format(), format);
    for picture in pictures {
        assert!(again.read_picture().expect("a picture that was written") == Some(picture));
    }
    assert!(matches!(again.read_picture(), Ok(None)));
}

fn ivf(data: &[u8], buffer: usize) {
    let Ok(mut reader) = IvfReader::new(BufReader::with_capacity(buffer, data)) else { return };
    let header = reader.header();
    let mut writer = IvfWriter::new(Cursor::new(Vec::new()), header.format).expect("a format that was read");
    let mut frames = Vec::new();
    while let Ok(Some(frame)) = reader.read_frame() {
        writer.write_frame(frame.time, &frame.data).expect("a frame that was read");
        frames.push(frame);
    }
    let written = writer.finish().expect("memory").into_inner();
    let mut again = IvfReader::new(&written[..]).expect("a file that was written");
    assert_eq!((again.header().format, again.header().frames as usize), (header.format, frames.len()));
    for frame in frames {
        assert_eq!(again.read_frame().expect("a frame that was written"), Some(frame));
    }
    assert!(matches!(again.read_frame(), Ok(None)));
}

/// Input: one byte for the size of the read buffer, then the file.
pub fn run(data: &[u8]) {
    let Some((&buffer, file)) = data.split_first() else { return };
    bounded(MEMORY, || {
        y4m(file, 1 + usize::from(buffer));
        ivf(file, 1 + usize::from(buffer));
    });
}
