//! IVF files: a 32-byte header, then for each coded frame its length, its time and its bytes, all little-endian. The
//! format is libvpx's (its `ivfenc.c` and `ivfdec.c` define it; there is no standard).
//!
//! Own code: the `ivf` crate only writes, `av-ivf` brings a demuxer framework; the format is two records.

use std::io::{self, Read, Seek, SeekFrom, Write};

use lockstep_units::MAXIMUM_FRAME_RATE;

use crate::format::{FrameRate, VideoFormat};

/// Bytes of the header that every IVF file has.
const HEADER_BYTES: u16 = 32;
/// Where the header holds the number of frames.
const COUNT_OFFSET: u64 = 24;
/// The longest frame that is read, bytes: above what the largest VP8 picture takes at the finest quantizer.
const MAXIMUM_FRAME: u32 = 1 << 29;
/// Room taken for a frame before its bytes arrive; larger frames grow as they are read.
const INITIAL_CAPACITY: usize = 1 << 20;
/// The only codec here.
const FOURCC: [u8; 4] = *b"VP80";

/// What is wrong with an IVF file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IvfError {
    /// Reading or writing failed.
    #[error("ivf: {0}")]
    Io(#[from] io::Error),
    /// The file does not start as IVF files do, or ends in its header.
    #[error("not an ivf file: it does not start with a 32-byte \"DKIF\" header of version 0")]
    Header,
    /// Another codec.
    #[error("ivf file holds {0}, not VP80")]
    Codec(String),
    /// The size or the rate is zero, or a side is over VP8's limit.
    #[error("ivf header says {width}x{height} at {rate}/{scale}, which no VP8 video has")]
    Format {
        /// Width from the header.
        width: u16,
        /// Height from the header.
        height: u16,
        /// Numerator of the rate.
        rate: u32,
        /// Denominator of the rate.
        scale: u32,
    },
    /// More frames a second than anything shows.
    #[error(
        "ivf header says {rate}/{scale} frames a second, more than {MAXIMUM_FRAME_RATE}; rewrite it with: \
         ffmpeg -r 30 -i IN.ivf -c copy OUT.ivf"
    )]
    Rate {
        /// Numerator of the rate.
        rate: u32,
        /// Denominator of the rate.
        scale: u32,
    },
    /// The file ends inside a frame.
    #[error("ivf frame {frame} breaks off at byte {offset}")]
    Truncated {
        /// Number of the frame, from zero.
        frame: u64,
        /// Where the file ends.
        offset: u64,
    },
    /// A frame is longer than any VP8 frame.
    #[error("ivf frame {frame} at byte {offset} has {length} bytes, more than {MAXIMUM_FRAME}")]
    FrameLength {
        /// Number of the frame, from zero.
        frame: u64,
        /// Where its header starts.
        offset: u64,
        /// What its header says.
        length: u64,
    },
}

/// What an IVF header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IvfHeader {
    /// Size and time base: a frame's time counts units of one over the rate.
    pub format: VideoFormat,
    /// Number of frames that the header announces: what the writer knew, zero if it could not seek. Not to be relied on.
    pub frames: u32,
}

/// One coded frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IvfFrame {
    /// Presentation time, in units of one over the header's rate.
    pub time: u64,
    /// The frame's bytes.
    pub data: Vec<u8>,
}

/// Reads an IVF file from its start to its end.
#[derive(Debug)]
pub struct IvfReader<R> {
    reader: R,
    header: IvfHeader,
    offset: u64,
    frames: u64,
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Reads until `buffer` is full or the input ends; gives the number of bytes read.
fn read_up_to(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

impl<R: Read> IvfReader<R> {
    /// Reads the header. Give it a buffered reader.
    ///
    /// # Errors
    /// If this is not an IVF file of VP8.
    pub fn new(mut reader: R) -> Result<Self, IvfError> {
        let mut header = [0; HEADER_BYTES as usize];
        if read_up_to(&mut reader, &mut header)? < header.len() || &header[..4] != b"DKIF" || u16_at(&header, 4) != 0 {
            return Err(IvfError::Header);
        }
        let length = u16_at(&header, 6);
        let more = u64::from(length.checked_sub(HEADER_BYTES).ok_or(IvfError::Header)?);
        if io::copy(&mut reader.by_ref().take(more), &mut io::sink())? < more {
            return Err(IvfError::Header);
        }
        if header[8..12] != FOURCC {
            return Err(IvfError::Codec(String::from_utf8_lossy(&header[8..12]).escape_default().to_string()));
        }
        let (width, height) = (u16_at(&header, 12), u16_at(&header, 14));
        let (rate, scale) = (u32_at(&header, 16), u32_at(&header, 20));
        let sides = 1..=lockstep_vp8::MAXIMUM_DIMENSION;
        if !sides.contains(&width) || !sides.contains(&height) || rate == 0 || scale == 0 {
            return Err(IvfError::Format { width, height, rate, scale });
        }
        let frame_rate = FrameRate::new(rate, scale).ok_or(IvfError::Rate { rate, scale })?;
        let format = VideoFormat { width: width.into(), height: height.into(), frame_rate };
        let header = IvfHeader { format, frames: u32_at(&header, 24) };
        Ok(Self { reader, header, offset: u64::from(length), frames: 0 })
    }

    /// What the header says.
    #[must_use]
    pub fn header(&self) -> IvfHeader {
        self.header
    }

    /// Reads the next frame; None at the end of the file, whatever number of frames the header announced.
    ///
    /// # Errors
    /// If reading fails, the file breaks off inside a frame or a frame is too long.
    pub fn read_frame(&mut self) -> Result<Option<IvfFrame>, IvfError> {
        let (frame, start) = (self.frames, self.offset);
        let mut header = [0; 12];
        let read = read_up_to(&mut self.reader, &mut header)?;
        self.offset += read as u64;
        match read {
            0 => return Ok(None),
            12 => {}
            _ => return Err(IvfError::Truncated { frame, offset: self.offset }),
        }
        let length = u32_at(&header, 0);
        if length > MAXIMUM_FRAME {
            return Err(IvfError::FrameLength { frame, offset: start, length: length.into() });
        }
        let mut data = Vec::with_capacity((length as usize).min(INITIAL_CAPACITY));
        self.reader.by_ref().take(length.into()).read_to_end(&mut data)?;
        self.offset += data.len() as u64;
        if data.len() < length as usize {
            return Err(IvfError::Truncated { frame, offset: self.offset });
        }
        self.frames += 1;
        let time = u64::from(u32_at(&header, 4)) | u64::from(u32_at(&header, 8)) << 32;
        Ok(Some(IvfFrame { time, data }))
    }
}

/// Writes an IVF file of VP8.
#[derive(Debug)]
pub struct IvfWriter<W> {
    writer: W,
    frames: u64,
}

impl<W: Write> IvfWriter<W> {
    /// Writes the header, with no frames announced. Give it a buffered writer.
    ///
    /// # Errors
    /// If writing fails or the size is not one of VP8's.
    pub fn new(mut writer: W, format: VideoFormat) -> Result<Self, IvfError> {
        let (rate, scale) = (format.frame_rate.numerator(), format.frame_rate.denominator());
        let side = |side: usize| u16::try_from(side).ok().filter(|side| (1..=16_383).contains(side));
        let (Some(width), Some(height)) = (side(format.width), side(format.height)) else {
            let shown = |side: usize| u16::try_from(side).unwrap_or(u16::MAX);
            return Err(IvfError::Format { width: shown(format.width), height: shown(format.height), rate, scale });
        };
        let mut header = Vec::with_capacity(HEADER_BYTES.into());
        header.extend_from_slice(b"DKIF\0\0");
        header.extend_from_slice(&HEADER_BYTES.to_le_bytes());
        header.extend_from_slice(&FOURCC);
        header.extend_from_slice(&width.to_le_bytes());
        header.extend_from_slice(&height.to_le_bytes());
        header.extend_from_slice(&rate.to_le_bytes());
        header.extend_from_slice(&scale.to_le_bytes());
        header.extend_from_slice(&[0; 8]);
        writer.write_all(&header)?;
        Ok(Self { writer, frames: 0 })
    }

    /// Appends a coded frame that is shown at `time`, in units of one over the header's rate.
    ///
    /// # Errors
    /// If writing fails or the frame is too long to be read back.
    pub fn write_frame(&mut self, time: u64, data: &[u8]) -> Result<(), IvfError> {
        let length = u32::try_from(data.len())
            .ok()
            .filter(|&length| length <= MAXIMUM_FRAME)
            .ok_or(IvfError::FrameLength { frame: self.frames, offset: 0, length: data.len() as u64 })?;
        self.writer.write_all(&length.to_le_bytes())?;
        self.writer.write_all(&time.to_le_bytes())?;
        self.writer.write_all(data)?;
        self.frames += 1;
        Ok(())
    }

    /// Only the first `frames` frames were written after all, and are counted: for who finds that out by [`Self::flush`].
    pub fn forget_after(&mut self, frames: u64) {
        self.frames = self.frames.min(frames);
    }

    /// Hands on whatever was written so far.
    ///
    /// # Errors
    /// If writing fails.
    pub fn flush(&mut self) -> Result<(), IvfError> {
        Ok(self.writer.flush()?)
    }

    /// Flushes, and gives back what was written to. The header announces no frames: right for a pipe; for a file see
    /// [`IvfWriter::finish`].
    ///
    /// # Errors
    /// If writing fails.
    pub fn into_inner(mut self) -> Result<W, IvfError> {
        self.writer.flush()?;
        Ok(self.writer)
    }

    /// Puts the number of frames into the header, flushes, and gives back what was written to, positioned at its end.
    ///
    /// # Errors
    /// If writing or seeking fails.
    pub fn finish(mut self) -> Result<W, IvfError>
    where
        W: Seek,
    {
        let frames = u32::try_from(self.frames).unwrap_or(u32::MAX);
        self.writer.seek(SeekFrom::Start(COUNT_OFFSET))?;
        self.writer.write_all(&frames.to_le_bytes())?;
        self.writer.seek(SeekFrom::End(0))?;
        self.into_inner()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Cursor;

    fn read_all(bytes: &[u8]) -> Result<(IvfHeader, Vec<IvfFrame>), IvfError> {
        let mut reader = IvfReader::new(bytes)?;
        let mut frames = Vec::new();
        while let Some(frame) = reader.read_frame()? {
            frames.push(frame);
        }
        Ok((reader.header(), frames))
    }

    fn file(frames: &[(u64, &[u8])]) -> Vec<u8> {
        let mut writer = IvfWriter::new(Cursor::new(Vec::new()), VideoFormat::default()).unwrap();
        for (time, data) in frames {
            writer.write_frame(*time, data).unwrap();
        }
        writer.finish().unwrap().into_inner()
    }

    #[test]
    fn a_longer_header_is_skipped_and_a_shorter_one_refused() {
        let bytes = file(&[(7, b"abc")]);
        let mut longer = bytes[..32].to_vec();
        longer[6] = 36;
        longer.extend_from_slice(&[9; 4]);
        longer.extend_from_slice(&bytes[32..]);
        assert_eq!(read_all(&longer).unwrap().1, [IvfFrame { time: 7, data: b"abc".to_vec() }]);
        let mut shorter = bytes;
        shorter[6] = 31;
        assert!(matches!(read_all(&shorter), Err(IvfError::Header)));
    }

    #[test]
    fn a_frame_that_breaks_off_is_an_error_with_its_place() {
        let bytes = file(&[(0, b"abc"), (1, b"defg")]);
        for cut in [47 + 1, 47 + 11, 47 + 12, 47 + 15] {
            let Err(IvfError::Truncated { frame: 1, offset }) = read_all(&bytes[..cut]) else { panic!("{cut}") };
            assert_eq!(offset, cut as u64);
        }
        assert_eq!(read_all(&bytes[..47]).unwrap().1.len(), 1);
    }

    #[test]
    fn lengths_that_lie_cost_no_memory() {
        let mut bytes = file(&[(0, b"abc")]);
        bytes[32..36].copy_from_slice(&MAXIMUM_FRAME.to_le_bytes());
        assert!(matches!(read_all(&bytes), Err(IvfError::Truncated { .. })));
        bytes[32..36].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(matches!(read_all(&bytes), Err(IvfError::FrameLength { offset: 32, .. })));
    }

    #[test]
    fn a_rate_that_no_video_has_is_refused() {
        let mut bytes = file(&[]);
        for (rate, refused) in [(1_000, false), (1_001, true), (u32::MAX, true)] {
            bytes[16..20].copy_from_slice(&u32::to_le_bytes(rate));
            assert_eq!(matches!(read_all(&bytes), Err(IvfError::Rate { .. })), refused, "{rate}");
        }
    }

    #[test]
    fn other_codecs_are_named_in_the_error() {
        let mut bytes = file(&[]);
        bytes[8..12].copy_from_slice(b"AV01");
        assert_eq!(read_all(&bytes).unwrap_err().to_string(), "ivf file holds AV01, not VP80");
    }

    #[test]
    fn a_pipe_gets_a_header_without_a_count() {
        let mut writer = IvfWriter::new(Vec::new(), VideoFormat::default()).unwrap();
        writer.write_frame(0, b"x").unwrap();
        let (header, frames) = read_all(&writer.into_inner().unwrap()).unwrap();
        assert_eq!((header.frames, frames.len()), (0, 1));
    }

    proptest! {
        #[test]
        fn frames_survive_a_round_trip(
            frames in proptest::collection::vec((any::<u64>(), proptest::collection::vec(any::<u8>(), 0..99)), 0..9),
        ) {
            let borrowed: Vec<_> = frames.iter().map(|(time, data)| (*time, &data[..])).collect();
            let (header, read) = read_all(&file(&borrowed)).unwrap();
            prop_assert_eq!(header, IvfHeader { format: VideoFormat::default(), frames: frames.len() as u32 });
            let read: Vec<_> = read.into_iter().map(|frame| (frame.time, frame.data)).collect();
            prop_assert_eq!(read, frames);
        }

        #[test]
        fn garbage_is_an_error_or_frames_but_never_a_panic(
            body in proptest::collection::vec(any::<u8>(), 0..200), places in proptest::collection::vec(0..60_usize, 0..6),
        ) {
            let _ = read_all(&body);
            let mut bytes = file(&[(0, b"abc"), (1, &body)]);
            for (place, value) in places.into_iter().zip(body) {
                bytes[place] = value;
            }
            let _ = read_all(&bytes);
        }
    }
}
