//! `lockstep bench codec`: this codec beside whatever libvpx is installed, interleaved in one run, on one core.

use std::fs::{self, File};
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Serialize;

use lockstep_call::mean;
use lockstep_media::{
    IvfReader, RatePoint, SourceOptions, VideoFormat, Y4mWriter, bjontegaard_delta_rate, open_source, psnr, ssim,
    ssim_db,
};
use lockstep_vp8::{
    Analysis, Arena, DEFAULT_PIXEL_LIMIT, Encoded, Parameters, Picture, Preset, State, decode, decode_in,
};

use super::median;
use crate::configuration::{OptionValue, value_of};
use crate::output_file::{self, write_json};
use crate::progress::Progress;

/// What `lockstep bench codec` is told.
#[derive(Args)]
pub(super) struct CodecArguments {
    /// The pictures: `generated`, a y4m file, or anything else that ffmpeg reads.
    #[arg(long, default_value = "generated")]
    clip: String,
    /// How many pictures of it.
    #[arg(long, default_value_t = 150, value_parser = clap::value_parser!(u32).range(2..=3000))]
    pictures: u32,
    /// Rounds of which the median time counts.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=50))]
    rounds: u32,
    /// How hard our encoder works.
    #[arg(long, value_parser = value_of::<Preset>(), default_value = "real-time")]
    preset: Preset,
    /// Where the numbers go, as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Quantizers of the five points of a curve: libvpx's scale of 0-63, and the index of 0-127 that each stands for
/// (`q_trans` of libvpx's VP8 encoder interface).
const POINTS: [(u8, u8); 5] = [(12, 15), (24, 29), (36, 51), (48, 82), (56, 106)];
/// The point at which speeds are compared: the middle one.
const SPEED_POINT: usize = 2;
/// libvpx's settings that are compared with.
const LIBVPX_SPEEDS: [(&str, &str, &str); 3] =
    [("libvpx --rt 4", "--rt", "4"), ("libvpx --rt -8", "--rt", "-8"), ("libvpx --good 0", "--good", "0")];

/// One encoder's curve.
#[derive(Debug, Serialize)]
struct EncoderResult {
    name: String,
    /// Kilobits a second, by point.
    kbps: Vec<f64>,
    /// Luma PSNR, dB, by point.
    psnr_db: Vec<f64>,
    /// Luma SSIM, dB, by point.
    ssim_db: Vec<f64>,
    /// Pictures coded a second at the middle point.
    frames_per_second: f64,
}

/// Bits that our encoder needs more than another at the same quality, as a share.
#[derive(Debug, Serialize)]
struct Comparison {
    against: String,
    bd_rate_psnr: Option<f64>,
    bd_rate_ssim: Option<f64>,
    /// Our pictures a second over theirs, the median of the rounds' ratios.
    speed_ratio: f64,
}

#[derive(Debug, Serialize)]
struct CodecReport {
    clip: String,
    width: usize,
    height: usize,
    pictures: usize,
    encoders: Vec<EncoderResult>,
    comparisons: Vec<Comparison>,
    /// Pictures decoded a second, ours and vpxdec's.
    decode_frames_per_second: (f64, Option<f64>),
    /// Time of a menu of two and of three candidates over that of one.
    menu_time: (f64, f64),
    /// Time of a key frame over an inter frame's at the same quantizer.
    key_frame_time: f64,
    /// Time of a state's hash over that of decoding its frame.
    hash_time: f64,
    /// Memory that keeping [`RETAINED`] consecutive states takes, bytes; none where the system does not say.
    retained_states_bytes: Option<u64>,
}

struct Clip {
    pictures: Vec<Picture>,
    format: VideoFormat,
    y4m: PathBuf,
}

fn load(arguments: &CodecArguments, folder: &Path) -> Result<Clip> {
    let mut source = open_source(&arguments.clip, &SourceOptions::default())?;
    let format = source.format();
    let y4m = folder.join("clip.y4m");
    let mut writer = Y4mWriter::new(BufWriter::new(File::create(&y4m)?), format)?;
    let mut pictures = Vec::new();
    while pictures.len() < arguments.pictures as usize {
        let Some(picture) = source.next()? else { break };
        writer.write_picture(&picture)?;
        pictures.push(picture);
    }
    writer.finish()?;
    if pictures.len() < 2 {
        bail!("{}: fewer than two pictures", arguments.clip);
    }
    Ok(Clip { pictures, format, y4m })
}

/// Luma PSNR and SSIM, dB, of what `frames` decode to.
fn quality(clip: &Clip, frames: &[Vec<u8>]) -> Result<(f64, f64)> {
    let mut state = State::default();
    let (mut psnrs, mut ssims) = (Vec::new(), Vec::new());
    for (original, frame) in clip.pictures.iter().zip(frames) {
        let (next, shown) = decode(&state, frame).context("a frame of the benchmark does not decode")?;
        psnrs.push(psnr(original, &shown)?);
        ssims.push(ssim(original, &shown)?);
        state = next;
    }
    let empty = "no frame decoded";
    Ok((mean(&psnrs).context(empty)?, ssim_db(mean(&ssims).context(empty)?)))
}

fn kbps(clip: &Clip, frames: &[Vec<u8>]) -> f64 {
    let bytes: usize = frames.iter().map(Vec::len).sum();
    bytes as f64 * 8e-3 / clip.format.time_of(frames.len() as u64).as_secs_f64()
}

/// Codes one picture of several, as whoever has an arena does.
fn encode(arena: &Arena, state: &State, picture: &Picture, parameters: &Parameters) -> Encoded {
    Analysis::new_in(arena, state, picture, parameters).encode(parameters.quantizer)
}

fn encode_ours(clip: &Clip, parameters: &Parameters) -> (Vec<Vec<u8>>, f64) {
    let started = Instant::now();
    let (arena, mut state) = (Arena::default(), State::default());
    let mut frames = Vec::with_capacity(clip.pictures.len());
    for picture in &clip.pictures {
        let encoded = encode(&arena, &state, picture, parameters);
        frames.push(encoded.frame);
        state = encoded.state;
    }
    (frames, started.elapsed().as_secs_f64())
}

/// The figure in front of `unit` in the last of libvpx's progress lines.
fn figure_before(text: &str, unit: &str) -> Option<f64> {
    let at = text.rfind(unit)?;
    let number =
        text[..at].trim_end().rsplit(|character: char| character.is_whitespace() || character == '(').next()?;
    number.parse().ok()
}

/// Codes the clip with vpxenc; the seconds are those that it counts for coding alone.
fn encode_libvpx(clip: &Clip, mode: &str, speed: &str, quantizer: u8, output: &Path) -> Result<(Vec<Vec<u8>>, f64)> {
    let quantizer = quantizer.to_string();
    let run = Command::new("vpxenc")
        .args([
            "--codec=vp8",
            "--ivf",
            "--disable-warning-prompt",
            mode,
            "--threads=1",
            "--lag-in-frames=0",
            "--auto-alt-ref=0",
            "--passes=1",
        ])
        .args(["--kf-max-dist=99999", "--end-usage=vbr", "--undershoot-pct=100", "--target-bitrate=100000"])
        .arg(format!("--cpu-used={speed}"))
        .arg(format!("--min-q={quantizer}"))
        .arg(format!("--max-q={quantizer}"))
        .arg("-o")
        .args([output, clip.y4m.as_path()])
        .output()
        .context("cannot run vpxenc")?;
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    if !run.status.success() {
        bail!("vpxenc failed: {}", said.lines().last().unwrap_or("it said nothing"));
    }
    let microseconds = figure_before(&said, "us ").or_else(|| figure_before(&said, "ms ").map(|ms| ms * 1e3));
    let microseconds = microseconds.with_context(|| format!("vpxenc did not say how long it took: {said}"))?;
    let mut reader = IvfReader::new(BufReader::new(File::open(output)?))?;
    let mut frames = Vec::new();
    while let Some(frame) = reader.read_frame()? {
        frames.push(frame.data);
    }
    Ok((frames, microseconds * 1e-6))
}

fn decode_libvpx(ivf: &Path) -> Option<f64> {
    let run = Command::new("vpxdec").args(["--codec=vp8", "--summary", "--noblit", "--threads=1"]).arg(ivf).output();
    figure_before(&String::from_utf8_lossy(&run.ok()?.stderr), "fps")
}

/// Seconds that `work` takes, the median over a sample of the clip's later pictures.
fn time_of(count: usize, mut work: impl FnMut(usize)) -> f64 {
    let times: Vec<f64> = (0..count)
        .map(|index| {
            let started = Instant::now();
            work(index);
            started.elapsed().as_secs_f64()
        })
        .collect();
    median(&times)
}

fn installed(program: &str) -> bool {
    Command::new(program).arg("--help").output().is_ok()
}

/// `lockstep bench codec`.
pub(super) fn run(arguments: &CodecArguments) -> Result<()> {
    output_file::check(&[("--json", arguments.json.as_deref())], &[Path::new(&arguments.clip)])?;
    let folder = tempfile::tempdir().context("cannot make a folder for the streams")?;
    let clip = load(arguments, folder.path())?;
    let libvpx: &[_] = if installed("vpxenc") { &LIBVPX_SPEEDS } else { &[] };
    if libvpx.is_empty() {
        eprintln!("vpxenc is not installed (Debian: vpx-tools); only our own codec is measured");
    }
    let parameters = |quantizer| Parameters { quantizer, preset: arguments.preset, ..Parameters::default() };
    let rounds = arguments.rounds as usize;
    let mut progress = Progress::new("bench codec", (POINTS.len() * (1 + libvpx.len()) + rounds) as u64);
    let mut done = 0;
    let mut step = |message: &str| {
        done += 1;
        progress.update(done, message);
    };

    let name = format!("lockstep {}", arguments.preset.to_word());
    let mut encoders = vec![EncoderResult::new(name)];
    encoders.extend(libvpx.iter().map(|(name, ..)| EncoderResult::new((*name).to_owned())));
    let ivf = folder.path().join("stream.ivf");
    for (libvpx_quantizer, quantizer) in POINTS {
        let (frames, _) = encode_ours(&clip, &parameters(quantizer));
        encoders[0].add(&clip, &frames)?;
        step(&format!("ours at {quantizer}"));
        for (index, (name, mode, speed)) in libvpx.iter().enumerate() {
            let (frames, _) = encode_libvpx(&clip, mode, speed, libvpx_quantizer, &ivf)?;
            encoders[1 + index].add(&clip, &frames)?;
            step(&format!("{name} at {libvpx_quantizer}"));
        }
    }

    // Speed: one after the other in every round, so that a machine whose speed drifts drifts for all.
    let (libvpx_quantizer, quantizer) = POINTS[SPEED_POINT];
    let mut seconds = vec![Vec::new(); encoders.len()];
    let (mut ours_decode, mut libvpx_decode) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let (frames, time) = encode_ours(&clip, &parameters(quantizer));
        seconds[0].push(time);
        for (index, (_, mode, speed)) in libvpx.iter().enumerate() {
            seconds[1 + index].push(encode_libvpx(&clip, mode, speed, libvpx_quantizer, &ivf)?.1);
        }
        ours_decode.push(decode_ours(&frames)?);
        if !libvpx.is_empty() {
            write_ivf(&ivf, &clip.format, &frames)?;
            libvpx_decode.extend(decode_libvpx(&ivf));
        }
        step(&format!("round {} of {rounds}", round + 1));
    }
    progress.finish();
    for (encoder, times) in encoders.iter_mut().zip(&seconds) {
        encoder.frames_per_second = clip.pictures.len() as f64 / median(times);
    }
    let comparisons = (1..encoders.len())
        .map(|index| {
            let ratios: Vec<f64> = seconds[index].iter().zip(&seconds[0]).map(|(theirs, ours)| theirs / ours).collect();
            encoders[0].compare(&encoders[index], median(&ratios))
        })
        .collect();

    let report = CodecReport {
        clip: arguments.clip.clone(),
        width: clip.format.width,
        height: clip.format.height,
        pictures: clip.pictures.len(),
        comparisons,
        encoders,
        decode_frames_per_second: (median(&ours_decode), libvpx_decode.first().map(|_| median(&libvpx_decode))),
        menu_time: menu_time(&clip, &parameters(quantizer)),
        key_frame_time: key_frame_time(&clip, &parameters(quantizer)),
        hash_time: hash_time(&clip, &parameters(quantizer))?,
        retained_states_bytes: retained_states(&clip, &parameters(quantizer)),
    };
    print(&report);
    if let Some(path) = &arguments.json {
        write_json(path, &report)?;
        say!("\nnumbers in {}", path.display());
    }
    Ok(())
}

impl EncoderResult {
    fn new(name: String) -> Self {
        Self { name, kbps: vec![], psnr_db: vec![], ssim_db: vec![], frames_per_second: 0.0 }
    }

    fn add(&mut self, clip: &Clip, frames: &[Vec<u8>]) -> Result<()> {
        let (psnr, ssim) = quality(clip, frames)?;
        self.kbps.push(kbps(clip, frames));
        self.psnr_db.push(psnr);
        self.ssim_db.push(ssim);
        Ok(())
    }

    fn points(&self, quality: &[f64]) -> Vec<RatePoint> {
        self.kbps.iter().zip(quality).map(|(&rate, &quality)| RatePoint { rate, quality }).collect()
    }

    fn compare(&self, anchor: &Self, speed_ratio: f64) -> Comparison {
        let delta =
            |theirs: &[f64], ours: &[f64]| bjontegaard_delta_rate(&anchor.points(theirs), &self.points(ours)).ok();
        Comparison {
            against: anchor.name.clone(),
            bd_rate_psnr: delta(&anchor.psnr_db, &self.psnr_db),
            bd_rate_ssim: delta(&anchor.ssim_db, &self.ssim_db),
            speed_ratio,
        }
    }
}

fn write_ivf(path: &Path, format: &VideoFormat, frames: &[Vec<u8>]) -> Result<()> {
    let mut writer = lockstep_media::IvfWriter::new(BufWriter::new(File::create(path)?), *format)?;
    for (index, frame) in frames.iter().enumerate() {
        writer.write_frame(index as u64, frame)?;
    }
    writer.finish()?;
    fs::metadata(path)?;
    Ok(())
}

/// Pictures decoded a second.
fn decode_ours(frames: &[Vec<u8>]) -> Result<f64> {
    let started = Instant::now();
    let (arena, mut state) = (Arena::default(), State::default());
    for frame in frames {
        state = decode_in(&arena, &state, frame, DEFAULT_PIXEL_LIMIT).context("our own frame does not decode")?.0;
    }
    Ok(frames.len() as f64 / started.elapsed().as_secs_f64())
}

/// How many pictures the side measurements look at.
const SAMPLE: usize = 30;

/// A state in the middle of the clip, coded at `parameters`, and the picture after it, for each of a sample.
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

fn menu_time(clip: &Clip, parameters: &Parameters) -> (f64, f64) {
    let sample = sample(clip, parameters);
    let (arena, center) = (Arena::default(), parameters.quantizer);
    let menu = |quantizers: &[u8]| {
        time_of(sample.len(), |index| {
            let (state, picture) = &sample[index];
            let analysis = Analysis::new_in(&arena, state, picture, parameters);
            for &quantizer in quantizers {
                std::hint::black_box(analysis.encode(quantizer));
            }
        })
    };
    let one = menu(&[center]);
    (menu(&[center, center + 10]) / one, menu(&[center - 10, center, center + 10]) / one)
}

fn key_frame_time(clip: &Clip, parameters: &Parameters) -> f64 {
    let (arena, sample) = (Arena::default(), sample(clip, parameters));
    let time = |from_nothing: bool| {
        time_of(sample.len(), |index| {
            let (state, picture) = &sample[index];
            let state = if from_nothing { &State::default() } else { state };
            std::hint::black_box(encode(&arena, state, picture, parameters));
        })
    };
    time(true) / time(false)
}

fn hash_time(clip: &Clip, parameters: &Parameters) -> Result<f64> {
    let ([coding_arena, arena], mut state) = (<[Arena; 2]>::default(), State::default());
    let (mut decoding, mut hashing) = (0.0, 0.0);
    for picture in clip.pictures.iter().take(SAMPLE) {
        let frame = encode(&coding_arena, &state, picture, parameters).frame;
        let started = Instant::now();
        state = decode_in(&arena, &state, &frame, DEFAULT_PIXEL_LIMIT).context("our own frame does not decode")?.0;
        let decoded = Instant::now();
        std::hint::black_box(state.hash());
        decoding += (decoded - started).as_secs_f64();
        hashing += decoded.elapsed().as_secs_f64();
    }
    Ok(hashing / decoding)
}

/// How many states are kept for [`CodecReport::retained_states_bytes`].
const RETAINED: usize = 20;

/// Memory of this process that is in use, bytes (Linux: the resident set).
fn resident() -> Option<u64> {
    const PAGE: u64 = 4096;
    let pages = fs::read_to_string("/proc/self/statm").ok()?.split_whitespace().nth(1)?.parse::<u64>().ok()?;
    Some(pages * PAGE)
}

fn retained_states(clip: &Clip, parameters: &Parameters) -> Option<u64> {
    // The codec's own working memory is there before the first state is kept.
    let arena = Arena::default();
    let mut state = encode(&arena, &State::default(), clip.pictures.first()?, parameters).state;
    let before = resident()?;
    let mut kept = Vec::with_capacity(RETAINED);
    for picture in clip.pictures.iter().cycle().skip(1).take(RETAINED) {
        state = encode(&arena, &state, picture, parameters).state;
        kept.push(state.clone());
    }
    let after = resident()?;
    drop(kept);
    Some(after.saturating_sub(before))
}

fn print(report: &CodecReport) {
    say!("{} x {}, {} pictures of {}\n", report.width, report.height, report.pictures, report.clip);
    say!("{:<22}{:>10}{:>32}{:>28}", "encoder", "fps", "kb/s at each point", "PSNR (dB)");
    let list = |values: &[f64], digits: usize| {
        values.iter().map(|value| format!("{value:.digits$}")).collect::<Vec<_>>().join(" ")
    };
    for encoder in &report.encoders {
        let (rates, qualities) = (list(&encoder.kbps, 0), list(&encoder.psnr_db, 1));
        say!("{:<22}{:>10.1}{rates:>32}{qualities:>28}", encoder.name, encoder.frames_per_second);
    }
    say!("\n{:<22}{:>14}{:>14}{:>10}", "ours against", "BD-rate PSNR", "BD-rate SSIM", "speed");
    let share = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{:+.1} %", 100.0 * value));
    for row in &report.comparisons {
        let (psnr, ssim) = (share(row.bd_rate_psnr), share(row.bd_rate_ssim));
        say!("{:<22}{psnr:>14}{ssim:>14}{:>9.2}x", row.against, row.speed_ratio);
    }
    let (ours, theirs) = report.decode_frames_per_second;
    let theirs = theirs.map_or_else(|| "not measured".to_owned(), |fps| format!("{fps:.0}"));
    say!("\ndecode                {ours:.0} pictures/s, vpxdec {theirs}");
    say!("menu of two, three    {:.2}x, {:.2}x the time of one", report.menu_time.0, report.menu_time.1);
    say!("key frame             {:.2}x an inter frame's time", report.key_frame_time);
    say!("state hash            {:.1} % of decoding", 100.0 * report.hash_time);
    if let Some(bytes) = report.retained_states_bytes {
        say!("{RETAINED} states kept        {:.1} MB", bytes as f64 * 1e-6);
    }
}
