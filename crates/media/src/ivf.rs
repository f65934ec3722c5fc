//! Reads and writes IVF files. A 32-byte header precedes the frames, each with its length, time and bytes, all
//! little-endian. There is no standard: `ivfenc.c` and `ivfdec.c` of libvpx define the format.
//!
//! Own code, because the format is two records. The `ivf` crate only writes, and `av-ivf` requires a demuxer framework.

use std::io::{self, Read, Seek, SeekFrom, Write};

use lockstep_units::MAX_FRAME_RATE;

use crate::format::{FrameRate, VideoFormat};

/// Minimum length of the header, bytes.
const HEADER_BYTES: u16 = 32;
/// Offset of the number of frames in the header.
const COUNT_OFFSET: u64 = 24;
/// Maximum length of a frame, bytes. It exceeds the largest VP8 picture at the finest quantizer.
const MAX_FRAME: u32 = 1 << 29;
/// Most empty frames beyond the number of others. A decoder repeats the last picture for each, so 12 bytes become a whole
/// picture. Writers use them for frames that an encoder dropped; this many are five minutes at 30 per second.
const MAX_EMPTY: u64 = 9_000;
/// Memory reserved for a frame before its bytes arrive. Larger frames grow as they are read.
const INITIAL_CAPACITY: usize = 1 << 20;
/// VP8, the only supported codec.
const FOURCC: [u8; 4] = *b"VP80";

/// Error of reading or writing an IVF file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IvfError {
    /// Reading or writing failed.
    #[error("ivf: {0}")]
    Io(#[from] io::Error),
    /// The file does not start with an IVF header, or ends inside it.
    #[error("not an ivf file: it does not start with a 32-byte \"DKIF\" header of version 0")]
    Header,
    /// The codec is not VP8.
    #[error("ivf file holds {0}, not VP80")]
    Codec(String),
    /// The size or the rate is zero, or a side exceeds the limit of VP8.
    #[error("ivf header has {width}x{height} at {rate}/{scale}, which VP8 does not support")]
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
    /// The frame rate exceeds [`MAX_FRAME_RATE`].
    #[error(
        "ivf header says {rate}/{scale} frames a second, more than {MAX_FRAME_RATE}; rewrite it with: \
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
        /// Length of the file, bytes.
        offset: u64,
    },
    /// More frames are empty than a writer drops.
    #[error(
        "ivf frame {frame} at byte {offset} is empty, and so are {limit} before it; the file is damaged from there on"
    )]
    EmptyFrames {
        /// Number of the frame, from zero.
        frame: u64,
        /// Offset of its header.
        offset: u64,
        /// Empty frames that were read.
        limit: u64,
    },
    /// A frame is longer than any VP8 frame.
    #[error("ivf frame {frame} at byte {offset} has {length} bytes, more than {MAX_FRAME}")]
    FrameLength {
        /// Number of the frame, from zero.
        frame: u64,
        /// Offset of its header.
        offset: u64,
        /// Length in its header.
        length: u64,
    },
}

/// Content of an IVF header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IvfHeader {
    /// Size and time base. Frame times count units of one over the rate.
    pub format: VideoFormat,
    /// Number of frames in the header. It is unreliable, and zero if the writer could not seek.
    pub frames: u32,
}

/// One coded frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IvfFrame {
    /// Presentation time, in units of one over the header's rate.
    pub time: u64,
    /// Bytes of the frame.
    pub data: Vec<u8>,
}

/// Reads an IVF file from start to end.
#[derive(Debug)]
pub struct IvfReader<R> {
    reader: R,
    header: IvfHeader,
    offset: u64,
    frames: u64,
    /// Empty frames among them.
    empty: u64,
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Reads until `buffer` is full or the input ends. Returns the number of bytes read.
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
    /// Reads the header. The reader should be buffered.
    ///
    /// # Errors
    /// If the input is not an IVF file of VP8.
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
        let sides = 1..=lockstep_vp8::MAX_DIMENSION;
        if !sides.contains(&width) || !sides.contains(&height) || rate == 0 || scale == 0 {
            return Err(IvfError::Format { width, height, rate, scale });
        }
        let frame_rate = FrameRate::new(rate, scale).ok_or(IvfError::Rate { rate, scale })?;
        let format = VideoFormat { width: width.into(), height: height.into(), frame_rate };
        let header = IvfHeader { format, frames: u32_at(&header, 24) };
        Ok(Self { reader, header, offset: u64::from(length), frames: 0, empty: 0 })
    }

    /// The header of the file.
    #[must_use]
    pub fn header(&self) -> IvfHeader {
        self.header
    }

    /// Reads the next frame. None at the end of the file, whatever the header announced.
    ///
    /// # Errors
    /// If reading fails or the file ends inside a frame. Also if a frame is too long, or too many frames are empty.
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
        if length > MAX_FRAME {
            return Err(IvfError::FrameLength { frame, offset: start, length: length.into() });
        }
        if length == 0 && self.empty >= MAX_EMPTY + (frame - self.empty) {
            return Err(IvfError::EmptyFrames { frame, offset: start, limit: self.empty });
        }
        self.empty += u64::from(length == 0);
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
    /// Writes a header without a number of frames. The writer should be buffered.
    ///
    /// # Errors
    /// If writing fails or the size exceeds the limits of VP8.
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

    /// Appends a frame that is shown at `time`, in units of one over the header's rate.
    ///
    /// # Errors
    /// If writing fails or the frame is too long to be read back.
    pub fn write_frame(&mut self, time: u64, data: &[u8]) -> Result<(), IvfError> {
        let length = u32::try_from(data.len())
            .ok()
            .filter(|&length| length <= MAX_FRAME)
            .ok_or(IvfError::FrameLength { frame: self.frames, offset: 0, length: data.len() as u64 })?;
        self.writer.write_all(&length.to_le_bytes())?;
        self.writer.write_all(&time.to_le_bytes())?;
        self.writer.write_all(data)?;
        self.frames += 1;
        Ok(())
    }

    /// Sets the number of written frames to `frames`, after [`Self::flush`] failed and later frames were discarded.
    pub fn forget_after(&mut self, frames: u64) {
        self.frames = self.frames.min(frames);
    }

    /// Flushes the writer.
    ///
    /// # Errors
    /// If writing fails.
    pub fn flush(&mut self) -> Result<(), IvfError> {
        Ok(self.writer.flush()?)
    }

    /// Flushes and returns the output. The header announces no frames, which suits pipes. For files use
    /// [`IvfWriter::finish`].
    ///
    /// # Errors
    /// If writing fails.
    pub fn into_inner(mut self) -> Result<W, IvfError> {
        self.writer.flush()?;
        Ok(self.writer)
    }

    /// Writes the number of frames into the header and flushes. Returns the output, positioned at its end.
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
    fn longer_header_is_skipped_shorter_header_is_refused() {
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
    fn truncated_frame_is_an_error_with_its_offset() {
        let bytes = file(&[(0, b"abc"), (1, b"defg")]);
        for cut in [47 + 1, 47 + 11, 47 + 12, 47 + 15] {
            let Err(IvfError::Truncated { frame: 1, offset }) = read_all(&bytes[..cut]) else { panic!("{cut}") };
            assert_eq!(offset, cut as u64);
        }
        assert_eq!(read_all(&bytes[..47]).unwrap().1.len(), 1);
    }

    #[test]
    fn tail_of_zeros_is_an_error_and_dropped_frames_are_none() {
        let mut bytes = file(&[(0, b"abc")]);
        bytes.resize(bytes.len() + 12 * (MAX_EMPTY as usize + 1), 0);
        assert_eq!(read_all(&bytes).expect("frames that an encoder dropped").1.len(), MAX_EMPTY as usize + 2);
        bytes.resize(bytes.len() + 12, 0);
        let error = read_all(&bytes).expect_err("one too many").to_string();
        assert!(error.starts_with("ivf frame 9002 at byte 108059 is empty, and so are 9001 before it"), "{error}");
    }

    #[test]
    fn wrong_lengths_cost_no_memory() {
        let mut bytes = file(&[(0, b"abc")]);
        bytes[32..36].copy_from_slice(&MAX_FRAME.to_le_bytes());
        assert!(matches!(read_all(&bytes), Err(IvfError::Truncated { .. })));
        bytes[32..36].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(matches!(read_all(&bytes), Err(IvfError::FrameLength { offset: 32, .. })));
    }

    #[test]
    fn excessive_frame_rate_is_refused() {
        let mut bytes = file(&[]);
        for (rate, refused) in [(1_000, false), (1_001, true), (u32::MAX, true)] {
            bytes[16..20].copy_from_slice(&u32::to_le_bytes(rate));
            assert_eq!(matches!(read_all(&bytes), Err(IvfError::Rate { .. })), refused, "{rate}");
        }
    }

    #[test]
    fn error_names_the_unsupported_codec() {
        let mut bytes = file(&[]);
        bytes[8..12].copy_from_slice(b"AV01");
        assert_eq!(read_all(&bytes).unwrap_err().to_string(), "ivf file holds AV01, not VP80");
    }

    #[test]
    fn output_to_a_pipe_has_no_frame_count() {
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
        fn garbage_does_not_panic(
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
