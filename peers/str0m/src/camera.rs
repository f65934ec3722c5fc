//! The clip as a camera, and the encoder behind it, on a thread of their own.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use lockstep_vp8::{FrameKind, Parameters, Picture, State, encode_to_fit};

use crate::signalling::Words;
use crate::{Failure, now};

/// Of what the estimate allows, what pictures get: the rest is RTP, SRTP, UDP and IP (40 to 60 of 1,200 bytes), and what is
/// sent again.
const SHARE: f64 = 0.9;
/// Frames that may wait to be sent. While more do, pictures are left out.
const WAITING: usize = 2;
/// The longest header of y4m.
const LONGEST_HEADER: u64 = 1_024;

/// A frame that is to be sent.
pub struct Frame {
    pub captured: Instant,
    /// Since the first.
    pub elapsed: Duration,
    pub data: Vec<u8>,
}

/// The pictures of a y4m file.
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
        let header = file.by_ref().take(LONGEST_HEADER).read_line(&mut line)? as u64;
        let field = |name: char| line.split_whitespace().skip(1).find_map(|field| field.strip_prefix(name));
        let number = |name| field(name).and_then(|value| value.parse::<usize>().ok()).ok_or("the clip is no y4m");
        let (width, height) = (number('W')?, number('H')?);
        let (above, below) = field('F').and_then(|rate| rate.split_once(':')).ok_or("the clip has no rate")?;
        let rate = above.parse::<f64>()? / below.parse::<f64>()?;
        let mut clip = Self { file, header, width, height, rate, frames: 0 };
        clip.frames = (std::fs::metadata(path)?.len() - header) / clip.stride();
        if clip.frames == 0 || !(rate > 0.0 && rate.is_finite()) {
            return Err("the clip has no pictures".into());
        }
        Ok(clip)
    }

    fn size(&self) -> usize {
        self.width * self.height + 2 * self.width.div_ceil(2) * self.height.div_ceil(2)
    }

    /// From the beginning of a picture to that of the next, with the line before it.
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

/// What is told to the encoder while it works.
struct Told {
    rate: AtomicU64,
    begin_anew: AtomicBool,
}

/// The camera.
pub struct Camera {
    clip: Option<(Clip, File)>,
    told: Arc<Told>,
    most_bps: u64,
    frames: Receiver<Frame>,
    out: SyncSender<Frame>,
}

impl Camera {
    /// A camera that says in `times` which picture it handed over when.
    pub fn new(words: &Words, times: File) -> Result<Self, Failure> {
        let (out, frames) = sync_channel(WAITING);
        let told = Arc::new(Told { rate: AtomicU64::new(crate::FIRST_RATE.as_u64()), begin_anew: false.into() });
        Ok(Self { clip: Some((Clip::open(&words.clip)?, times)), told, most_bps: words.most_bps, frames, out })
    }

    pub fn most_bps(&self) -> u64 {
        self.most_bps
    }

    /// What pictures are coded for.
    pub fn target_bps(&self) -> u64 {
        (SHARE * self.told.rate.load(Ordering::Relaxed) as f64) as u64
    }

    /// The rate that the estimate allows from here on.
    pub fn allow(&self, rate: u64) {
        self.told.rate.store(rate.min(self.most_bps), Ordering::Relaxed);
    }

    /// The next frame is to be a key frame.
    pub fn begin_anew(&self) {
        self.told.begin_anew.store(true, Ordering::Relaxed);
    }

    pub fn next_frame(&self) -> Option<Frame> {
        self.frames.try_recv().ok()
    }

    /// Begins to play the clip, once.
    pub fn start(&mut self) -> Result<(), Failure> {
        let Some((clip, times)) = self.clip.take() else { return Ok(()) };
        let (told, out) = (self.told.clone(), self.out.clone());
        thread::Builder::new().name("camera".to_owned()).spawn(move || {
            if let Err(error) = play(clip, times, &told, &out) {
                eprintln!("the camera failed: {error}");
                std::process::exit(1);
            }
        })?;
        Ok(())
    }
}

fn play(mut clip: Clip, mut times: File, told: &Told, out: &SyncSender<Frame>) -> Result<(), Failure> {
    let began = Instant::now();
    let (mut state, mut number) = (State::default(), 0u64);
    loop {
        // What nobody took in time is left out.
        number = number.max((began.elapsed().as_secs_f64() * clip.rate) as u64);
        let picture = clip.picture(number)?;
        let due = began + Duration::from_secs_f64(number as f64 / clip.rate);
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let captured = Instant::now();
        writeln!(times, "{} {}", number % clip.frames, now())?;
        let budget = SHARE * told.rate.load(Ordering::Relaxed) as f64 / 8.0 / clip.rate;
        let anew = told.begin_anew.swap(false, Ordering::Relaxed);
        let frame_kind = if anew { FrameKind::Key } else { FrameKind::default() };
        let encoded =
            encode_to_fit(&state, &picture, budget as usize, &Parameters { frame_kind, ..Parameters::default() });
        let frame = Frame { captured, elapsed: due - began, data: encoded.frame };
        match out.try_send(frame) {
            Ok(()) => state = encoded.state,
            // As if it had never been captured: the next one is coded from the one before.
            Err(TrySendError::Full(_)) => told.begin_anew.store(anew, Ordering::Relaxed),
            Err(TrySendError::Disconnected(_)) => return Ok(()),
        }
        number += 1;
    }
}
