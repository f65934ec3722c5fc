//! Plays a clip as a camera, and encodes it in a separate thread.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use lockstep_vp8::{FrameKind, Parameters, Picture, State, encode_to_fit};

use crate::signalling::Arguments;
use crate::{Failure, now};

/// Share of the estimate for video. RTP, SRTP, UDP and IP headers (40 to 60 of 1,200 bytes) and retransmissions need
/// the rest.
const SHARE: f64 = 0.9;
/// Limit on frames that wait to be sent. Further pictures are dropped.
const WAITING: usize = 2;
/// Longest header of a y4m file, bytes.
const MAX_HEADER_BYTES: u64 = 1_024;

/// Encoded frame that is ready to be sent.
pub struct Frame {
    pub captured: Instant,
    /// Capture time relative to the first picture.
    pub elapsed: Duration,
    pub data: Vec<u8>,
}

/// Pictures of a y4m file.
struct Clip {
    file: BufReader<File>,
    header: u64,
    width: usize,
    height: usize,
    rate: f64,
    frames: u64,
}

impl Clip {
    fn open(path: &Path) -> Result<Self, Failure> {
        let mut file = BufReader::new(File::open(path)?);
        let mut line = String::new();
        let header = file.by_ref().take(MAX_HEADER_BYTES).read_line(&mut line)? as u64;
        let field = |name: char| line.split_whitespace().skip(1).find_map(|field| field.strip_prefix(name));
        let number = |name| {
            field(name).and_then(|value| value.parse::<usize>().ok()).ok_or("cannot read the clip: expected a y4m file")
        };
        let (width, height) = (number('W')?, number('H')?);
        let (above, below) =
            field('F').and_then(|rate| rate.split_once(':')).ok_or("cannot read the clip: expected a frame rate")?;
        let rate = above.parse::<f64>()? / below.parse::<f64>()?;
        let mut clip = Self { file, header, width, height, rate, frames: 0 };
        clip.frames = (std::fs::metadata(path)?.len() - header) / clip.stride();
        if clip.frames == 0 || !(rate > 0.0 && rate.is_finite()) {
            return Err("cannot read the clip: expected at least one picture".into());
        }
        Ok(clip)
    }

    fn size(&self) -> usize {
        self.width * self.height + 2 * self.width.div_ceil(2) * self.height.div_ceil(2)
    }

    /// Bytes from the start of one picture to the next, including its header line.
    fn stride(&self) -> u64 {
        self.size() as u64 + b"FRAME\n".len() as u64
    }

    fn picture(&mut self, number: u64) -> Result<Picture, Failure> {
        let start = self.header + (number % self.frames) * self.stride() + b"FRAME\n".len() as u64;
        self.file.seek(SeekFrom::Start(start))?;
        let mut samples = vec![0; self.size()];
        self.file.read_exact(&mut samples)?;
        Ok(Picture::from_i420(self.width, self.height, samples)?)
    }
}

/// Settings that the encoder reads while it works.
struct Settings {
    rate: AtomicU64,
    request_key_frame: AtomicBool,
}

/// Camera with its encoder.
pub struct Camera {
    clip: Option<(Clip, File)>,
    settings: Arc<Settings>,
    max_bps: u64,
    frames: Receiver<Frame>,
    out: SyncSender<Frame>,
}

impl Camera {
    /// A camera that writes the number and time of each captured picture to `times`.
    pub fn new(arguments: &Arguments, times: File) -> Result<Self, Failure> {
        let (out, frames) = sync_channel(WAITING);
        let settings =
            Arc::new(Settings { rate: AtomicU64::new(crate::FIRST_RATE.as_u64()), request_key_frame: false.into() });
        Ok(Self {
            clip: Some((Clip::open(&arguments.clip)?, times)),
            settings,
            max_bps: arguments.max_bps,
            frames,
            out,
        })
    }

    pub fn max_bps(&self) -> u64 {
        self.max_bps
    }

    /// Target of the encoder, bit/s.
    pub fn target_bps(&self) -> u64 {
        (SHARE * self.settings.rate.load(Ordering::Relaxed) as f64) as u64
    }

    /// Sets the rate that the bandwidth estimate allows, bit/s.
    pub fn allow(&self, rate: u64) {
        self.settings.rate.store(rate.min(self.max_bps), Ordering::Relaxed);
    }

    /// Requests a key frame.
    pub fn request_key_frame(&self) {
        self.settings.request_key_frame.store(true, Ordering::Relaxed);
    }

    pub fn next_frame(&self) -> Option<Frame> {
        self.frames.try_recv().ok()
    }

    /// Starts to play the clip. Later calls do nothing.
    pub fn start(&mut self) -> Result<(), Failure> {
        let Some((clip, times)) = self.clip.take() else { return Ok(()) };
        let (settings, out) = (self.settings.clone(), self.out.clone());
        thread::Builder::new().name("camera".to_owned()).spawn(move || {
            if let Err(error) = play(clip, times, &settings, &out) {
                eprintln!("cannot play the clip: {error}");
                std::process::exit(1);
            }
        })?;
        Ok(())
    }
}

fn play(mut clip: Clip, mut times: File, settings: &Settings, out: &SyncSender<Frame>) -> Result<(), Failure> {
    let began = Instant::now();
    let (mut state, mut number) = (State::default(), 0u64);
    loop {
        // Skip pictures whose time has passed.
        number = number.max((began.elapsed().as_secs_f64() * clip.rate) as u64);
        let picture = clip.picture(number)?;
        let due = began + Duration::from_secs_f64(number as f64 / clip.rate);
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let captured = Instant::now();
        writeln!(times, "{} {}", number % clip.frames, now())?;
        let budget = SHARE * settings.rate.load(Ordering::Relaxed) as f64 / 8.0 / clip.rate;
        let key_requested = settings.request_key_frame.swap(false, Ordering::Relaxed);
        let frame_kind = if key_requested { FrameKind::Key } else { FrameKind::default() };
        let encoded =
            encode_to_fit(&state, &picture, budget as usize, &Parameters { frame_kind, ..Parameters::default() });
        let frame = Frame { captured, elapsed: due - began, data: encoded.frame };
        match out.try_send(frame) {
            Ok(()) => state = encoded.state,
            // Drop the frame: the next one is coded from the previous state.
            Err(TrySendError::Full(_)) => settings.request_key_frame.store(key_requested, Ordering::Relaxed),
            Err(TrySendError::Disconnected(_)) => return Ok(()),
        }
        number += 1;
    }
}
