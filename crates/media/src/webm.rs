//! Writes WebM and Matroska files of VP8 and Opus (RFC 9559). A truncated file still plays.
//!
//! ```text
//! EBML header | Segment { SeekHead | Info | Tracks | Cluster { SimpleBlock ... } ... | Cues }
//! ```
//!
//! Segment and clusters have unknown sizes, so writing a block changes no earlier byte. [`WebmWriter::finish`] appends
//! the cues. It also overwrites two reserved voids in seek head and info with the position of the cues and the
//! duration.
//!
//! Own code, because no Rust crate writes WebM. `webm` binds libwebm (C++, MPL), and `matroska` and `matroska-demuxer`
//! only read. `webm-iterable` only writes single EBML elements, and has twenty more dependencies.

use std::io::{self, Seek, SeekFrom, Write};
use std::time::Duration;

/// Track numbers.
const VIDEO: u8 = 1;
const SOUND: u8 = 2;
/// Maximum duration of a cluster, milliseconds. The time of a block is a 16-bit offset in its cluster.
const CLUSTER_MS: i64 = 5_000;
/// Unknown size: the element ends where the next child of its parent begins. Some readers support only this shortest
/// form.
const UNKNOWN_SIZE: u8 = 0xff;
/// Sampling rate of Opus in Matroska.
const OPUS_RATE: u32 = 48_000;
/// An Opus decoder converges within 80 ms after a seek (RFC 7845, section 4.6), in nanoseconds.
const SEEK_PRE_ROLL: u64 = 80_000_000;

/// Element identifiers (RFC 9559, section 5.1; RFC 8794, section 11.2).
mod id {
    pub const EBML: u32 = 0x1A45_DFA3;
    pub const EBML_VERSION: u32 = 0x4286;
    pub const EBML_READ_VERSION: u32 = 0x42F7;
    pub const EBML_MAX_ID_LENGTH: u32 = 0x42F2;
    pub const EBML_MAX_SIZE_LENGTH: u32 = 0x42F3;
    pub const DOC_TYPE: u32 = 0x4282;
    pub const DOC_TYPE_VERSION: u32 = 0x4287;
    pub const DOC_TYPE_READ_VERSION: u32 = 0x4285;
    pub const VOID: u32 = 0xEC;
    pub const SEGMENT: u32 = 0x1853_8067;
    pub const SEEK_HEAD: u32 = 0x114D_9B74;
    pub const SEEK: u32 = 0x4DBB;
    pub const SEEK_ID: u32 = 0x53AB;
    pub const SEEK_POSITION: u32 = 0x53AC;
    pub const INFO: u32 = 0x1549_A966;
    pub const TIMESTAMP_SCALE: u32 = 0x002A_D7B1;
    pub const MUXING_APP: u32 = 0x4D80;
    pub const WRITING_APP: u32 = 0x5741;
    pub const DURATION: u32 = 0x4489;
    pub const TRACKS: u32 = 0x1654_AE6B;
    pub const TRACK_ENTRY: u32 = 0xAE;
    pub const TRACK_NUMBER: u32 = 0xD7;
    pub const TRACK_UID: u32 = 0x73C5;
    pub const TRACK_TYPE: u32 = 0x83;
    pub const FLAG_LACING: u32 = 0x9C;
    pub const LANGUAGE: u32 = 0x0022_B59C;
    pub const CODEC_ID: u32 = 0x86;
    pub const CODEC_PRIVATE: u32 = 0x63A2;
    pub const CODEC_DELAY: u32 = 0x56AA;
    pub const SEEK_PRE_ROLL: u32 = 0x56BB;
    pub const VIDEO: u32 = 0xE0;
    pub const PIXEL_WIDTH: u32 = 0xB0;
    pub const PIXEL_HEIGHT: u32 = 0xBA;
    pub const AUDIO: u32 = 0xE1;
    pub const SAMPLING_FREQUENCY: u32 = 0xB5;
    pub const CHANNELS: u32 = 0x9F;
    pub const CLUSTER: u32 = 0x1F43_B675;
    pub const TIMESTAMP: u32 = 0xE7;
    pub const SIMPLE_BLOCK: u32 = 0xA3;
    pub const CUES: u32 = 0x1C53_BB6B;
    pub const CUE_POINT: u32 = 0xBB;
    pub const CUE_TIME: u32 = 0xB3;
    pub const CUE_TRACK_POSITIONS: u32 = 0xB7;
    pub const CUE_TRACK: u32 = 0xF7;
    pub const CUE_CLUSTER_POSITION: u32 = 0xF1;
}

/// The identifier without its leading zeros.
fn identifier(id: u32) -> Vec<u8> {
    id.to_be_bytes().into_iter().skip_while(|&byte| byte == 0).collect()
}

/// Encodes a size in the fewest bytes. All ones mean unknown, so the largest value of a length uses the next length.
fn size(value: usize) -> Vec<u8> {
    let value = value as u64;
    let bytes = (1..8).find(|&bytes| value + 1 < 1 << (7 * bytes)).unwrap_or(8);
    let marked = value | 1 << (7 * bytes);
    marked.to_be_bytes()[8 - bytes..].to_vec()
}

fn element(id: u32, content: &[u8]) -> Vec<u8> {
    [&identifier(id), &size(content.len()), content].concat()
}

/// Start of an element of unknown size.
fn open_element(id: u32) -> Vec<u8> {
    [&identifier(id)[..], &[UNKNOWN_SIZE]].concat()
}

/// An unsigned integer in eight bytes, so that the size of its element is constant.
fn number(id: u32, value: u64) -> Vec<u8> {
    element(id, &value.to_be_bytes())
}

fn float(id: u32, value: f64) -> Vec<u8> {
    element(id, &value.to_be_bytes())
}

fn text(id: u32, value: &str) -> Vec<u8> {
    element(id, value.as_bytes())
}

fn parent(id: u32, children: &[Vec<u8>]) -> Vec<u8> {
    element(id, &children.concat())
}

/// A void element with the size of `replaced`, which readers skip.
fn void(replaced: &[u8]) -> Vec<u8> {
    element(id::VOID, &vec![0; replaced.len().saturating_sub(2)])
}

/// A seek entry: position of a child of the segment, in bytes from the first child.
fn seek(child: u32, place: u64) -> Vec<u8> {
    parent(id::SEEK, &[element(id::SEEK_ID, &identifier(child)), number(id::SEEK_POSITION, place)])
}

/// The seek head. It reserves room for the position of the cues at its end.
fn seek_head(info_at: u64, tracks_at: u64) -> Vec<u8> {
    parent(id::SEEK_HEAD, &[seek(id::INFO, info_at), seek(id::TRACKS, tracks_at), void(&seek(id::CUES, 0))])
}

fn duration(length: Duration) -> Vec<u8> {
    float(id::DURATION, length.as_secs_f64() * 1e3)
}

/// The kind of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Container {
    /// `.webm`, which browsers play.
    Webm,
    /// `.mkv`, the general format.
    Matroska,
}

/// The tracks of a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tracks {
    /// Size of the first picture.
    pub width: usize,
    pub height: usize,
    /// Delay of the Opus encoder in samples. None without sound.
    pub sound_delay: Option<u16>,
}

impl Tracks {
    fn element(&self) -> Vec<u8> {
        let entry = |number_of: u8, kind: u64, codec: &str| {
            vec![
                number(id::TRACK_NUMBER, number_of.into()),
                number(id::TRACK_UID, number_of.into()),
                number(id::TRACK_TYPE, kind),
                number(id::FLAG_LACING, 0),
                text(id::LANGUAGE, "und"),
                text(id::CODEC_ID, codec),
            ]
        };
        let mut video = entry(VIDEO, 1, "V_VP8");
        let sides = [number(id::PIXEL_WIDTH, self.width as u64), number(id::PIXEL_HEIGHT, self.height as u64)];
        video.push(parent(id::VIDEO, &sides));
        let mut tracks = vec![parent(id::TRACK_ENTRY, &video)];
        if let Some(delay) = self.sound_delay {
            let mut sound = entry(SOUND, 2, "A_OPUS");
            sound.push(element(id::CODEC_PRIVATE, &opus_head(delay)));
            sound.push(number(id::CODEC_DELAY, u64::from(delay) * 1_000_000_000 / u64::from(OPUS_RATE)));
            sound.push(number(id::SEEK_PRE_ROLL, SEEK_PRE_ROLL));
            let format = [float(id::SAMPLING_FREQUENCY, OPUS_RATE.into()), number(id::CHANNELS, 1)];
            sound.push(parent(id::AUDIO, &format));
            tracks.push(parent(id::TRACK_ENTRY, &sound));
        }
        parent(id::TRACKS, &tracks)
    }
}

/// The identification header of Opus: one channel (RFC 7845, section 5.1).
fn opus_head(pre_skip: u16) -> Vec<u8> {
    let (version, channels, gain, mapping) = (1, 1, [0; 2], 0);
    [&b"OpusHead"[..], &[version, channels], &pre_skip.to_le_bytes(), &OPUS_RATE.to_le_bytes(), &gain, &[mapping]]
        .concat()
}

/// Writes a file. Times are rounded to milliseconds and must not decrease.
#[derive(Debug)]
pub(crate) struct WebmWriter<W> {
    writer: W,
    /// Offsets in the file of the seek entry of the cues and of the duration.
    cues_seek_at: u64,
    duration_at: u64,
    /// Length of the segment so far, bytes.
    written: u64,
    /// Time of the open cluster, milliseconds.
    cluster: Option<i64>,
    /// Time and position of each cluster that begins with a key frame.
    cues: Vec<(i64, u64)>,
    end: Duration,
}

impl<W: Write> WebmWriter<W> {
    /// Writes the header.
    pub(crate) fn new(mut writer: W, container: Container, tracks: &Tracks) -> io::Result<Self> {
        let kind = match container {
            Container::Webm => "webm",
            Container::Matroska => "matroska",
        };
        let application = concat!("lockstep ", env!("CARGO_PKG_VERSION"));
        let mut head = parent(
            id::EBML,
            &[
                number(id::EBML_VERSION, 1),
                number(id::EBML_READ_VERSION, 1),
                number(id::EBML_MAX_ID_LENGTH, 4),
                number(id::EBML_MAX_SIZE_LENGTH, 8),
                text(id::DOC_TYPE, kind),
                number(id::DOC_TYPE_VERSION, 4),
                number(id::DOC_TYPE_READ_VERSION, 2),
            ],
        );
        head.extend(open_element(id::SEGMENT));
        let segment = head.len() as u64;
        let info = [
            number(id::TIMESTAMP_SCALE, 1_000_000),
            text(id::MUXING_APP, application),
            text(id::WRITING_APP, application),
            void(&duration(Duration::ZERO)),
        ];
        let info = parent(id::INFO, &info);
        let info_at = seek_head(0, 0).len() as u64;
        head.extend(seek_head(info_at, info_at + info.len() as u64));
        let cues_seek_at = (head.len() - seek(id::CUES, 0).len()) as u64;
        head.extend(info);
        let duration_at = (head.len() - duration(Duration::ZERO).len()) as u64;
        head.extend(tracks.element());
        writer.write_all(&head)?;
        Ok(Self {
            writer,
            cues_seek_at,
            duration_at,
            written: head.len() as u64 - segment,
            cluster: None,
            cues: Vec::new(),
            end: Duration::ZERO,
        })
    }

    /// Appends a VP8 frame that is shown from `at` on. A key frame begins a cluster, to which players can seek.
    pub(crate) fn write_video(&mut self, at: Duration, frame: &[u8]) -> io::Result<()> {
        let is_key = frame.first().is_some_and(|tag| tag & 1 == 0);
        self.write_block(VIDEO, at, frame, is_key, is_key)
    }

    /// Appends an Opus packet whose sound begins at `at`.
    pub(crate) fn write_sound(&mut self, at: Duration, packet: &[u8]) -> io::Result<()> {
        self.write_block(SOUND, at, packet, true, false)
    }

    fn write_block(&mut self, track: u8, at: Duration, data: &[u8], is_key: bool, begins: bool) -> io::Result<()> {
        let time = i64::try_from(at.as_millis()).unwrap_or(i64::MAX);
        let open = self.cluster.filter(|start| !begins && (-CLUSTER_MS..CLUSTER_MS).contains(&(time - start)));
        let cluster = match open {
            Some(start) => start,
            None => self.begin_cluster(time, begins)?,
        };
        let offset = i16::try_from(time - cluster).unwrap_or(0);
        let [high, low] = offset.to_be_bytes();
        let head = [0x80 | track, high, low, if is_key { 0x80 } else { 0 }];
        self.write(&[&identifier(id::SIMPLE_BLOCK)[..], &size(head.len() + data.len()), &head, data].concat())?;
        self.end = self.end.max(at);
        Ok(())
    }

    fn begin_cluster(&mut self, time: i64, is_cue: bool) -> io::Result<i64> {
        if is_cue {
            self.cues.push((time, self.written));
        }
        let time_of = number(id::TIMESTAMP, time.unsigned_abs());
        self.write(&[open_element(id::CLUSTER), time_of].concat())?;
        self.cluster = Some(time);
        Ok(time)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.writer.write_all(bytes)?;
        self.written += bytes.len() as u64;
        Ok(())
    }

    /// Flushes the writer.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }

    /// Writes the cues and the duration. `last` is the duration of the last block.
    pub(crate) fn finish(mut self, last: Duration) -> io::Result<()>
    where
        W: Seek,
    {
        let cues_at = self.written;
        let points = self.cues.iter().map(|&(time, cluster)| {
            let position = [number(id::CUE_TRACK, VIDEO.into()), number(id::CUE_CLUSTER_POSITION, cluster)];
            let time = number(id::CUE_TIME, time.unsigned_abs());
            parent(id::CUE_POINT, &[time, parent(id::CUE_TRACK_POSITIONS, &position)])
        });
        let cues = parent(id::CUES, &points.collect::<Vec<_>>());
        self.write(&cues)?;
        self.flush()?;
        let length = duration(self.end.saturating_add(last));
        for (place, content) in [(self.cues_seek_at, seek(id::CUES, cues_at)), (self.duration_at, length)] {
            self.writer.seek(SeekFrom::Start(place))?;
            self.writer.write_all(&content)?;
        }
        self.writer.seek(SeekFrom::End(0))?;
        self.writer.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    const KEY: [u8; 4] = [0x10, 1, 2, 3];
    const INTER: [u8; 2] = [0x11, 4];

    /// Time in milliseconds, track, bytes and key frame flag of each block.
    fn blocks(file: &[u8]) -> Vec<(u64, u64, Vec<u8>, bool)> {
        let mut reader = matroska_demuxer::MatroskaFile::open(Cursor::new(file)).unwrap();
        let mut frame = matroska_demuxer::Frame::default();
        let mut blocks = Vec::new();
        // This reader reports a truncated block as an error.
        while reader.next_frame(&mut frame).unwrap_or(false) {
            blocks.push((frame.timestamp, frame.track, frame.data.clone(), frame.is_keyframe == Some(true)));
        }
        blocks
    }

    fn written(end: impl FnOnce(WebmWriter<&mut Cursor<Vec<u8>>>)) -> Vec<u8> {
        let mut file = Cursor::new(Vec::new());
        let tracks = Tracks { width: 64, height: 48, sound_delay: Some(312) };
        let mut writer = WebmWriter::new(&mut file, Container::Webm, &tracks).unwrap();
        let at = Duration::from_millis;
        writer.write_video(at(0), &KEY).unwrap();
        writer.write_sound(at(0), b"a").unwrap();
        writer.write_sound(at(20), b"b").unwrap();
        writer.write_video(at(33), &INTER).unwrap();
        writer.write_video(at(4_000), &KEY).unwrap();
        writer.write_sound(at(9_500), &[7; 300]).unwrap();
        end(writer);
        file.into_inner()
    }

    fn expected() -> Vec<(u64, u64, Vec<u8>, bool)> {
        vec![
            (0, 1, KEY.to_vec(), true),
            (0, 2, b"a".to_vec(), true),
            (20, 2, b"b".to_vec(), true),
            (33, 1, INTER.to_vec(), false),
            (4_000, 1, KEY.to_vec(), true),
            (9_500, 2, vec![7; 300], true),
        ]
    }

    #[test]
    fn blocks_survive_a_round_trip() {
        let file = written(|writer| writer.finish(Duration::from_millis(40)).unwrap());
        assert_eq!(blocks(&file), expected());
        let reader = matroska_demuxer::MatroskaFile::open(Cursor::new(&file)).unwrap();
        assert_eq!(reader.info().duration(), Some(9_540.0));
        let [video, sound] = reader.tracks() else { panic!("{:?}", reader.tracks()) };
        let size = video.video().map(|video| (video.pixel_width().get(), video.pixel_height().get()));
        assert_eq!((video.codec_id(), size), ("V_VP8", Some((64, 48))));
        assert_eq!((sound.codec_id(), sound.codec_delay()), ("A_OPUS", Some(6_500_000)));
    }

    #[test]
    fn truncated_file_keeps_the_blocks_before_the_cut() {
        let file = written(|writer| drop(writer));
        assert_eq!(blocks(&file), expected());
        let (mut counts, mut before) = (Vec::new(), 0);
        for cut in 0..file.len() {
            let Ok(_) = matroska_demuxer::MatroskaFile::open(Cursor::new(&file[..cut])) else { continue };
            let found = blocks(&file[..cut]);
            assert!(found.len() >= before && expected().starts_with(&found), "{cut}: {found:?}");
            before = found.len();
            counts.push(before);
        }
        counts.dedup();
        assert_eq!(counts, [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn sizes_use_the_fewest_bytes() {
        let cases: [(usize, &[u8]); 4] =
            [(0, &[0x80]), (126, &[0xfe]), (127, &[0x40, 0x7f]), (16_383, &[0x20, 0x3f, 0xff])];
        for (value, bytes) in cases {
            assert_eq!(size(value), bytes, "{value}");
        }
    }

    #[test]
    fn extreme_times_do_not_panic() {
        let mut writer =
            WebmWriter::new(Vec::new(), Container::Matroska, &Tracks { width: 2, height: 2, sound_delay: None })
                .unwrap();
        for time in [Duration::MAX, Duration::ZERO, Duration::MAX] {
            writer.write_video(time, &INTER).unwrap();
        }
    }
}
