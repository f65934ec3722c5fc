//! Reads and writes YUV4MPEG2 files (`.y4m`): a header line, then the line `FRAME` and the samples of each picture. The
//! manual page yuv4mpeg(5) of mjpegtools describes the format. The reader supports what VP8 can carry: progressive
//! 4:2:0 of eight bits.
//!
//! Own code instead of the `y4m` crate (0.8). The crate multiplies header sizes unchecked and allocates memory before
//! it reads a sample. It also takes a truncated picture for the end of the file.

use std::io::{self, BufRead, Read, Write};

use lockstep_units::MAX_FRAME_RATE;
use lockstep_vp8::{MAX_DIMENSION, Picture, PictureError};

use crate::format::{FrameRate, VideoFormat};

/// Maximum length of a header line, bytes. ffmpeg writes about 60.
pub(crate) const MAX_LINE: usize = 1024;
/// Memory reserved for a picture before its samples arrive, bytes. Larger pictures grow as they are read.
const INITIAL_CAPACITY: usize = 4 << 20;
/// Rate of a file without one, as in ffmpeg.
const UNSAID_RATE: (u32, u32) = (25, 1);

/// Error of reading or writing y4m.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Y4mError {
    /// Reading or writing failed.
    #[error("y4m: {0}")]
    Io(#[from] io::Error),
    /// The file does not start with a y4m header.
    #[error(
        "not a y4m file: it does not start with \"YUV4MPEG2\"; make one of a video with: ffmpeg -i IN -pix_fmt yuv420p OUT.y4m"
    )]
    Magic,
    /// A header line does not end.
    #[error("y4m header at byte {offset} is longer than {MAX_LINE} bytes")]
    Line {
        /// Offset of the line.
        offset: u64,
    },
    /// A field of the file header is invalid.
    #[error("y4m header field {field:?} is not valid; {allowed}")]
    Field {
        /// The field in the file.
        field: String,
        /// The allowed values.
        allowed: String,
    },
    /// The frame rate exceeds [`MAX_FRAME_RATE`].
    #[error(
        "y4m frame rate {numerator}:{denominator} is more than {MAX_FRAME_RATE} pictures a second; resample it with: \
         ffmpeg -i IN.y4m -vf fps=30 OUT.y4m"
    )]
    Rate {
        /// Numerator of the rate.
        numerator: u32,
        /// Denominator of the rate.
        denominator: u32,
    },
    /// The header has no size.
    #[error("y4m header has no width or no height")]
    Size,
    /// The colour format is not 4:2:0 of eight bits.
    #[error(
        "y4m colour format {format} is not 8-bit 4:2:0; convert it with: ffmpeg -i IN.y4m -pix_fmt yuv420p OUT.y4m"
    )]
    Colour {
        /// Colour format of the file.
        format: String,
    },
    /// The video is interlaced.
    #[error("y4m video is interlaced; convert it with: ffmpeg -i IN.y4m -vf yadif -pix_fmt yuv420p OUT.y4m")]
    Interlaced,
    /// A picture does not start with a `FRAME` line.
    #[error("y4m picture {picture} at byte {offset} does not start with \"FRAME\"")]
    Frame {
        /// Number of the picture, from zero.
        picture: u64,
        /// Offset of the picture.
        offset: u64,
    },
    /// The file ends inside a picture.
    #[error("y4m picture {picture} breaks off at byte {offset}")]
    Truncated {
        /// Number of the picture, from zero.
        picture: u64,
        /// Length of the file, bytes.
        offset: u64,
    },
    /// The size of the picture differs from that of the file.
    #[error("picture of {width}x{height} does not fit a y4m file of {format}")]
    Mismatch {
        /// Width of the picture.
        width: usize,
        /// Height of the picture.
        height: usize,
        /// Format of the file.
        format: VideoFormat,
    },
    /// The samples do not make a picture.
    #[error("y4m: {0}")]
    Picture(#[from] PictureError),
}

/// Reads a y4m file from start to end.
#[derive(Debug)]
pub struct Y4mReader<R> {
    reader: R,
    format: VideoFormat,
    offset: u64,
    pictures: u64,
}

/// Reads a line without its newline. None at the end of the input.
fn read_line(reader: &mut impl BufRead, offset: &mut u64) -> Result<Option<Vec<u8>>, Y4mError> {
    let start = *offset;
    let mut line = Vec::new();
    reader.take(MAX_LINE as u64 + 1).read_until(b'\n', &mut line)?;
    *offset += line.len() as u64;
    if line.is_empty() {
        return Ok(None);
    }
    if line.pop() == Some(b'\n') {
        return Ok(Some(line));
    }
    if line.len() >= MAX_LINE { Err(Y4mError::Line { offset: start }) } else { Ok(Some(line)) }
}

/// Error of a field that is not a valid side.
fn no_side(field: &str) -> Y4mError {
    let allowed = format!("VP8 has pictures of 1 to {MAX_DIMENSION} samples a side");
    Y4mError::Field { field: field.to_owned(), allowed }
}

/// Error of a field that is not a valid frame rate.
fn no_rate(field: &str) -> Y4mError {
    let allowed = "a rate is two whole numbers over zero, pictures and seconds, such as F25:1 or F30000:1001";
    Y4mError::Field { field: field.to_owned(), allowed: allowed.to_owned() }
}

fn ratio(value: &str) -> Option<(u32, u32)> {
    let (numerator, denominator) = value.split_once(':')?;
    Some((numerator.parse().ok()?, denominator.parse().ok()?))
}

impl<R: BufRead> Y4mReader<R> {
    /// Reads the header. Defaults are those of ffmpeg: 25 pictures per second, also for the rate 0:0, and the colour
    /// format 4:2:0. The position of chroma samples (`420jpeg`, `420mpeg2`, `420paldv`) is dropped, since VP8 does not
    /// carry it.
    ///
    /// # Errors
    /// If the input is not progressive y4m of 8-bit 4:2:0.
    pub fn new(mut reader: R) -> Result<Self, Y4mError> {
        let mut offset = 0;
        let mut magic = Vec::new();
        reader.by_ref().take(10).read_to_end(&mut magic)?;
        offset += magic.len() as u64;
        if magic != b"YUV4MPEG2 " {
            return Err(Y4mError::Magic);
        }
        let line = read_line(&mut reader, &mut offset)?.unwrap_or_default();
        let (mut width, mut height, mut rate) = (None, None, UNSAID_RATE);
        for field in line.split(|&byte| byte == b' ').filter(|field| !field.is_empty()) {
            let field = String::from_utf8_lossy(field);
            let mut rest = field.chars();
            let name = rest.next();
            let value = rest.as_str();
            let side = || {
                let side = value.parse().ok();
                side.filter(|side| (1..=usize::from(MAX_DIMENSION)).contains(side)).ok_or_else(|| no_side(&field))
            };
            match name {
                Some('W') => width = Some(side()?),
                Some('H') => height = Some(side()?),
                Some('F') => rate = ratio(value).ok_or_else(|| no_rate(&field))?,
                Some('C') if !matches!(value, "420" | "420jpeg" | "420mpeg2" | "420paldv") => {
                    return Err(Y4mError::Colour { format: value.to_owned() });
                }
                Some('I') if !matches!(value, "p" | "?") => return Err(Y4mError::Interlaced),
                _ => {} // aspect, comments, extensions, and fields of later versions
            }
        }
        let (Some(width), Some(height)) = (width, height) else { return Err(Y4mError::Size) };
        if rate == (0, 0) {
            rate = UNSAID_RATE;
        }
        let (numerator, denominator) = rate;
        let frame_rate = FrameRate::new(numerator, denominator).ok_or_else(|| match rate {
            (0, _) | (_, 0) => no_rate(&format!("F{numerator}:{denominator}")),
            _ => Y4mError::Rate { numerator, denominator },
        })?;
        Ok(Self { reader, format: VideoFormat { width, height, frame_rate }, offset, pictures: 0 })
    }

    /// Size and rate, from the header.
    #[must_use]
    pub fn format(&self) -> VideoFormat {
        self.format
    }

    /// Whether the input has ended. It blocks until more input arrives.
    ///
    /// # Errors
    /// If reading fails.
    pub fn is_at_end(&mut self) -> Result<bool, Y4mError> {
        Ok(self.reader.fill_buf()?.is_empty())
    }

    /// Reads the next picture; None at the end.
    ///
    /// # Errors
    /// If reading fails or the file ends inside a picture.
    pub fn read_picture(&mut self) -> Result<Option<Picture>, Y4mError> {
        let (start, picture) = (self.offset, self.pictures);
        let Some(line) = read_line(&mut self.reader, &mut self.offset)? else { return Ok(None) };
        if line != b"FRAME" && !line.starts_with(b"FRAME ") {
            return Err(Y4mError::Frame { picture, offset: start });
        }
        let length = Picture::i420_length(self.format.width, self.format.height);
        let mut samples = Vec::with_capacity(length.min(INITIAL_CAPACITY));
        self.reader.by_ref().take(length as u64).read_to_end(&mut samples)?;
        self.offset += samples.len() as u64;
        if samples.len() < length {
            return Err(Y4mError::Truncated { picture, offset: self.offset });
        }
        self.pictures += 1;
        Ok(Some(Picture::from_i420(self.format.width, self.format.height, samples)?))
    }
}

/// Writes a y4m file.
#[derive(Debug)]
pub struct Y4mWriter<W> {
    writer: W,
    format: VideoFormat,
}

impl<W: Write> Y4mWriter<W> {
    /// Writes the header, with the colour format `420mpeg2`. The writer should be buffered.
    ///
    /// # Errors
    /// If writing fails.
    pub fn new(mut writer: W, format: VideoFormat) -> Result<Self, Y4mError> {
        let VideoFormat { width, height, frame_rate } = format;
        let (numerator, denominator) = (frame_rate.numerator(), frame_rate.denominator());
        writeln!(writer, "YUV4MPEG2 W{width} H{height} F{numerator}:{denominator} Ip A1:1 C420mpeg2")?;
        Ok(Self { writer, format })
    }

    /// Flushes the writer.
    ///
    /// # Errors
    /// If writing fails.
    pub fn flush(&mut self) -> Result<(), Y4mError> {
        Ok(self.writer.flush()?)
    }

    /// Appends a picture.
    ///
    /// # Errors
    /// If writing fails or the picture has another size.
    pub fn write_picture(&mut self, picture: &Picture) -> Result<(), Y4mError> {
        let (width, height) = (picture.width(), picture.height());
        if (width, height) != (self.format.width, self.format.height) {
            return Err(Y4mError::Mismatch { width, height, format: self.format });
        }
        self.writer.write_all(b"FRAME\n")?;
        for plane in picture.planes() {
            for row in plane.rows() {
                self.writer.write_all(row)?;
            }
        }
        Ok(())
    }

    /// Flushes and returns the output.
    ///
    /// # Errors
    /// If writing fails.
    pub fn finish(mut self) -> Result<W, Y4mError> {
        self.writer.flush()?;
        Ok(self.writer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read_all(bytes: &[u8]) -> Result<(VideoFormat, Vec<Picture>), Y4mError> {
        let mut reader = Y4mReader::new(bytes)?;
        let mut pictures = Vec::new();
        while let Some(picture) = reader.read_picture()? {
            pictures.push(picture);
        }
        Ok((reader.format(), pictures))
    }

    fn header(fields: &str) -> Result<VideoFormat, Y4mError> {
        Ok(Y4mReader::new(format!("YUV4MPEG2 {fields}\n").as_bytes())?.format())
    }

    #[test]
    fn every_chroma_position_of_8_bit_420_is_accepted() {
        for colour in ["", " C420", " C420jpeg", " C420mpeg2", " C420paldv"] {
            assert!(header(&format!("W4 H2 F30:1{colour}")).is_ok(), "{colour}");
        }
        for colour in ["420p10", "422", "444", "mono", "411", "444alpha"] {
            let error = header(&format!("W4 H2 C{colour}")).unwrap_err();
            assert!(error.to_string().contains("ffmpeg -i"), "{error}");
        }
        assert!(matches!(header("W4 H2 It"), Err(Y4mError::Interlaced)));
    }

    #[test]
    fn wrong_sizes_in_headers_cost_no_memory() {
        assert!(matches!(header("W18446744073709551615 H2"), Err(Y4mError::Field { .. })));
        assert!(matches!(header("W0 H2"), Err(Y4mError::Field { .. })));
        assert!(matches!(header("W4"), Err(Y4mError::Size)));
        assert!(matches!(read_all(b"YUV4MPEG2 W16383 H16383\nFRAME\nabc"), Err(Y4mError::Truncated { .. })));
        let endless = [b"YUV4MPEG2 ".as_slice(), &[b'X'; 4096]].concat();
        assert!(matches!(Y4mReader::new(&endless[..]), Err(Y4mError::Line { offset: 10 })));
    }

    #[test]
    fn error_of_other_files_names_the_conversion() {
        for bytes in [&b""[..], b"\x1f\x8b\x08\0", b"\0\0\0\x20ftypisom", b"YUV4MPEG2\n"] {
            let error = Y4mReader::new(bytes).unwrap_err().to_string();
            assert!(error.starts_with("not a y4m file") && error.ends_with("-pix_fmt yuv420p OUT.y4m"), "{error}");
        }
    }

    #[test]
    fn error_of_an_invalid_field_names_the_allowed_values() {
        for field in ["W0", "W16384", "W-1", "W", "H\u{1b}"] {
            let error = header(&format!("W4 H2 {field}")).unwrap_err().to_string();
            assert!(error.contains(&format!("{field:?}")) && error.contains(" 1 to 16383 "), "{error}");
        }
        for field in ["F30:0", "F0:1", "F30", "F:", "F-30:1", "F29.97:1"] {
            let error = header(&format!("W4 H2 {field}")).unwrap_err().to_string();
            assert!(error.contains(&format!("{field:?}")) && error.contains("F30000:1001"), "{error}");
        }
        assert!(header("W16383 H16383").is_ok());
    }

    #[test]
    fn missing_rate_is_25_and_invalid_rate_is_refused() {
        assert_eq!(header("W4 H2").unwrap().frame_rate, FrameRate::new(25, 1).unwrap());
        assert_eq!(header("W4 H2 F0:0").unwrap().frame_rate, FrameRate::new(25, 1).unwrap());
        for fast in ["F1001:1", "F4294967295:1", "F1000001:1000"] {
            assert!(matches!(header(&format!("W4 H2 {fast}")), Err(Y4mError::Rate { .. })), "{fast}");
        }
        assert_eq!(header("W4 H2 F30000:1001").unwrap().frame_rate, FrameRate::new(30_000, 1001).unwrap());
        assert!(header("W4 H2 F30:0").is_err());
        assert!(header("W4 H2 F30").is_err());
    }

    #[test]
    fn truncated_file_is_an_error_with_its_offset() {
        let bytes = b"YUV4MPEG2 W2 H2 F30:1\nFRAME\n123456FRAME Ip\n1234";
        let Err(Y4mError::Truncated { picture: 1, offset }) = read_all(bytes) else { panic!() };
        assert_eq!(offset, bytes.len() as u64);
        let bytes = b"YUV4MPEG2 W2 H2\nFRAME\n123456FRAMX\n123456";
        assert!(matches!(read_all(bytes), Err(Y4mError::Frame { picture: 1, offset: 28 })));
    }

    proptest! {
        #[test]
        fn pictures_of_any_size_survive_a_round_trip(
            width in 1..40_usize, height in 1..40_usize, count in 0..4_usize, seed: u8, rate in 1..100_000_u32,
        ) {
            let format = VideoFormat { width, height, frame_rate: FrameRate::new(rate, 1001).unwrap() };
            let pictures: Vec<_> = (0..count).map(|number| {
                let length = Picture::i420_length(width, height);
                let samples = (0..length).map(|i| (i * 7 + number * 31) as u8 ^ seed).collect();
                Picture::from_i420(width, height, samples).unwrap()
            }).collect();
            let mut writer = Y4mWriter::new(Vec::new(), format).unwrap();
            for picture in &pictures {
                writer.write_picture(picture).unwrap();
            }
            prop_assert_eq!(read_all(&writer.finish().unwrap()).unwrap(), (format, pictures));
        }

        #[test]
        fn garbage_does_not_panic(
            fields in "[WHFCIAX0-9:p ?]{0,40}", body in proptest::collection::vec(any::<u8>(), 0..200), magic: bool,
        ) {
            let start = if magic { format!("YUV4MPEG2 {fields}\nFRAME\n") } else { fields };
            let _ = read_all(&[start.as_bytes(), &body].concat());
            let _ = read_all(&body);
        }
    }

    #[test]
    fn picture_of_another_size_is_refused() {
        let mut writer = Y4mWriter::new(Vec::new(), VideoFormat::default()).unwrap();
        let picture = Picture::from_i420(2, 2, vec![0; 6]).unwrap();
        assert!(matches!(writer.write_picture(&picture), Err(Y4mError::Mismatch { .. })));
    }
}
