//! The measurements of one clip. Each is separate, so that an interrupted benchmark resumes after the last one.

use std::hint::black_box;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use lockstep_call::{mean, quantile};
use lockstep_libvpx::Decoder;
use lockstep_vp8::{Analysis, Arena, DEFAULT_PIXEL_LIMIT, MAX_QUANTIZER, Parameters, Picture, State, decode_in};

use super::super::clip::Clip;
use super::super::{Stopwatch, median};
use super::coder::{Coder, Libraries, Stream, encode, quality};

/// Rate and quality of one encoder at several quantizers.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Curve {
    /// Quantizer indices, 0 to 127.
    pub indices: Vec<u8>,
    pub kbps: Vec<f64>,
    /// Luma PSNR, mean over the pictures, dB.
    pub psnr_db: Vec<f64>,
    /// Luma SSIM, dB.
    pub ssim_db: Vec<f64>,
}

/// A point of a curve.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CurvePoint {
    kbps: f64,
    psnr_db: f64,
    ssim_db: f64,
}

impl Curve {
    pub(super) fn add(&mut self, index: u8, point: &CurvePoint) {
        self.indices.push(index);
        self.kbps.push(point.kbps);
        self.psnr_db.push(point.psnr_db);
        self.ssim_db.push(point.ssim_db);
    }
}

pub(super) fn curve_point(clip: &Clip, coder: Coder, libraries: &Libraries, index: u8) -> Result<CurvePoint> {
    let coded = coder.code(libraries, clip, index)?;
    let (psnrs, ssim_db) = quality(clip, &coded.stream)?;
    Ok(CurvePoint { kbps: clip.kbps(coded.bytes()), psnr_db: mean(&psnrs).context("no frame decoded")?, ssim_db })
}

/// Time of each of `coders` for the clip, seconds, by round. Encoders alternate in each round, so that changes of the
/// machine's speed affect all.
pub(super) fn speeds(
    clip: &Clip,
    coders: &[Coder],
    libraries: &Libraries,
    index: u8,
    rounds: usize,
) -> Result<Vec<Vec<f64>>> {
    let mut seconds = vec![Vec::new(); coders.len()];
    for round in 0..rounds {
        for turn in 0..coders.len() {
            let place = (round + turn) % coders.len();
            seconds[place].push(coders[place].code(libraries, clip, index)?.seconds);
        }
    }
    Ok(seconds)
}

/// Decoding of one of our streams.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Decoding {
    pub index: u8,
    /// Pictures decoded per second of processor time.
    pub frames_per_second: f64,
    /// Pictures that libvpx decodes per second of processor time.
    pub libvpx_frames_per_second: Option<f64>,
    /// Time of libvpx divided by ours, median of the rounds.
    pub speed_ratio: Option<f64>,
    /// Time of the state hashes divided by that of decoding.
    pub hash_time: f64,
}

/// Rounds of decoding per round of encoding. Decoding is faster, and its differences are smaller.
const DECODE_ROUNDS: usize = 3;

/// Number of clock readings that measure the time of one reading.
const CLOCK_SAMPLES: usize = 101;

pub(super) fn decoding(clip: &Clip, coder: Coder, libraries: &Libraries, index: u8, rounds: usize) -> Result<Decoding> {
    let library = libraries.libvpx.as_ref();
    let Stream::Frames(frames) = coder.code(libraries, clip, index)?.stream else {
        bail!("{} does not code VP8", coder.name());
    };
    let (mut ours, mut theirs, mut hashing) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds * DECODE_ROUNDS {
        let (arena, mut state) = (Arena::default(), State::default());
        let mut states = Vec::with_capacity(frames.len());
        let watch = Stopwatch::start();
        for frame in &frames {
            state = decode_in(&arena, &state, frame, DEFAULT_PIXEL_LIMIT).context("our own frame does not decode")?.0;
        }
        ours.push(watch.seconds());
        if let Some(library) = library {
            let mut decoder = Decoder::new(library)?;
            let watch = Stopwatch::start();
            for frame in &frames {
                decoder.decode(frame)?;
            }
            theirs.push(watch.seconds());
        }
        // Each state is hashed while it is in the processor's caches, as in a call. The time of a clock reading is
        // subtracted. It is a large part of the time for a small picture.
        let clock = median(&(0..CLOCK_SAMPLES).map(|_| Stopwatch::start().seconds()).collect::<Vec<_>>());
        let (mut decoded, mut hashed) = (0.0, 0.0);
        let (arena, mut state) = (Arena::default(), State::default());
        for frame in &frames {
            let watch = Stopwatch::start();
            state = decode_in(&arena, &state, frame, DEFAULT_PIXEL_LIMIT).context("our own frame does not decode")?.0;
            decoded += watch.seconds() - clock;
            let watch = Stopwatch::start();
            states.push(black_box(state.id()));
            hashed += watch.seconds() - clock;
        }
        hashing.push(hashed / decoded);
    }
    let count = frames.len() as f64;
    let ratios: Vec<f64> = theirs.iter().zip(&ours).map(|(theirs, ours)| theirs / ours).collect();
    Ok(Decoding {
        index,
        frames_per_second: count / median(&ours),
        libvpx_frames_per_second: library.map(|_| count / median(&theirs)),
        speed_ratio: library.map(|_| median(&ratios)),
        hash_time: median(&hashing),
    })
}

/// Times of the work of a call on one picture, divided by that of encoding it once. They include the state of the sent
/// candidate, which is the last of each menu here.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Menus {
    /// Menu of two candidates.
    pub two: f64,
    /// Menu of three candidates.
    pub three: f64,
    /// Key frame.
    pub key_frame: f64,
}

/// Number of pictures in the additional measurements.
const SAMPLE: usize = 30;
/// Distance of the quantizers in a menu.
const MENU_STEP: u8 = 10;

/// A sample of states within the clip, encoded with `parameters`, each with the next picture.
fn sample(clip: &Clip, parameters: &Parameters) -> Vec<(State, Picture)> {
    let (arena, mut state) = (Arena::default(), State::default());
    let mut pairs = Vec::new();
    for picture in clip.pictures.iter().take(SAMPLE + 1) {
        pairs.push((state.clone(), picture.clone()));
        state = encode(&arena, &state, picture, parameters).state;
    }
    pairs.remove(0);
    pairs
}

pub(super) fn menus(clip: &Clip, parameters: &Parameters, rounds: usize) -> Menus {
    let sample = sample(clip, parameters);
    let (arena, center) = (Arena::default(), parameters.quantizer);
    let nothing = State::default();
    let menu = |state: &State, picture: &Picture, quantizers: &[u8]| {
        let watch = Stopwatch::start();
        let candidates = Analysis::new_in(&arena, state, picture, parameters).menu(quantizers);
        black_box(candidates.last().expect("a candidate").state.last_picture());
        drop(candidates);
        watch.seconds()
    };
    let mut ratios: [Vec<f64>; 3] = Default::default();
    for _ in 0..rounds {
        let mut times = [0.0; 4];
        for (state, picture) in &sample {
            times[0] += menu(state, picture, &[center]);
            times[1] += menu(state, picture, &[center, center + MENU_STEP]);
            times[2] += menu(state, picture, &[center - MENU_STEP, center, center + MENU_STEP]);
            times[3] += menu(&nothing, picture, &[center]);
        }
        for (ratios, time) in ratios.iter_mut().zip(&times[1..]) {
            ratios.push(time / times[0]);
        }
    }
    let [two, three, key_frame] = ratios.map(|ratios| median(&ratios));
    Menus { two, three, key_frame }
}

/// Results of fitting frames to budgets.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Fits {
    /// Total time divided by that of encoding each picture once.
    pub time: f64,
    /// Used share of the budget: median, and 10th percentile.
    pub fill_median: f64,
    pub fill_p10: f64,
    /// Frames over a budget that a frame at quantizer 127 fits.
    pub over: usize,
    /// Number of frames.
    pub frames: usize,
}

/// Quantizers whose plain frames give the budgets. Budgets are slightly smaller, so that no plain frame has exactly
/// that size.
const FIT_INDICES: [u8; 3] = [20, 51, 106];
const FIT_SHARE: f64 = 0.97;
/// One out of this number of sampled pictures is fitted.
const FIT_STEP: usize = 3;

pub(super) fn fits(clip: &Clip, parameters: &Parameters) -> Fits {
    let arena = Arena::default();
    let (mut fitting, mut plain, mut fills, mut over) = (0.0, 0.0, Vec::new(), 0);
    for index in FIT_INDICES {
        let parameters = Parameters { quantizer: index, ..parameters.clone() };
        for (state, picture) in sample(clip, &parameters).iter().step_by(FIT_STEP) {
            let watch = Stopwatch::start();
            let once = encode(&arena, state, picture, &parameters);
            black_box(once.state.last_picture());
            plain += watch.seconds();
            let once = once.frame.len();
            let budget = (FIT_SHARE * once as f64) as usize;
            let watch = Stopwatch::start();
            let analysis = Analysis::new_in(&arena, state, picture, &parameters);
            let fitted = analysis.encode_to_fit(budget);
            black_box(fitted.state.last_picture());
            fitting += watch.seconds();
            let size = fitted.frame.len();
            if size > budget && analysis.encode(MAX_QUANTIZER).frame.len() <= budget {
                over += 1;
            }
            fills.push(size as f64 / budget.max(1) as f64);
        }
    }
    fills.sort_unstable_by(f64::total_cmp);
    let fill = |share| quantile(&fills, share).unwrap_or(f64::NAN);
    Fits { time: fitting / plain, fill_median: fill(0.5), fill_p10: fill(0.1), over, frames: fills.len() }
}
