//! `lockstep bench sound`: echo cancellation, noise suppression and gain control of calls, in simulated rooms.
//!
//! A call in each room has four parts: the far end talks, both talk, the near end talks, and the far end talks again.
//! The microphone's samples are resampled to the clock of the loudspeaker, as in a call.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use serde::Serialize;

use lockstep_runner::output_file::{self, write_json};
use lockstep_runner::progress::Progress;
use lockstep_sound::room::{Room, set_level, talk};
use lockstep_sound::{
    CaptureResampler, FRAME_SAMPLES, Frame, ProcessingSettings, SAMPLE_RATE, SoundProcessing, SoundSource,
    WavRecording, WavSource,
};

use super::Stopwatch;

/// Arguments of `lockstep bench sound`.
#[derive(Args)]
pub(super) struct SoundArguments {
    /// WAV file with the far end's voice, repeated; without it, a synthetic talker.
    #[arg(long, value_name = "FILE")]
    far: Option<PathBuf>,
    /// WAV file with the near end's voice, repeated; without it, a synthetic talker.
    #[arg(long, value_name = "FILE")]
    near: Option<PathBuf>,
    /// Seed of rooms, noise and talkers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Folder for the sound of each case: near voice, captured, and processed without gain control. Other programs
    /// can rate it.
    #[arg(long, value_name = "FOLDER")]
    recordings: Option<PathBuf>,
    /// Write the numbers to this file as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
}

const SECOND: usize = SAMPLE_RATE as usize;
/// Ends of the four parts, seconds.
const FAR_UNTIL: usize = 20;
const BOTH_UNTIL: usize = 30;
const NEAR_UNTIL: usize = 36;
const END: usize = 46;
/// Seconds at the begin of a far-end part that are not rated: the canceller converges, and gain control settles.
const SETTLING: usize = 5;
/// Active level of the far voice at the loudspeaker, dB of full scale.
const FAR_LEVEL: f64 = -23.0;
/// Active level of the near voice at the microphone, dB of full scale: nominal for telephony (ITU-T P.56).
const NEAR_LEVEL: f64 = -26.0;
/// Echo return loss enhancement that counts as converged, dB.
const CONVERGED: f64 = 30.0;
/// Power below which a second has no echo, relative to full scale.
const SILENT: f64 = 1e-6;

/// A room, and what is special about it.
struct Case {
    name: &'static str,
    room: Room,
}

fn cases(seed: u64) -> Vec<Case> {
    let base = Room { seed, ..Room::default() };
    let milliseconds = Duration::from_millis;
    let case = |name, room| Case { name, room };
    let worst = Room {
        reverberation: milliseconds(500),
        delay: milliseconds(200),
        drift: 100e-6,
        echo_level: -20.0,
        noise_level: -60.0,
        saturation: 4.0,
        ..base.clone()
    };
    vec![
        case("office, 60 ms", base.clone()),
        case("delay 20 ms", Room { delay: milliseconds(20), ..base.clone() }),
        case("delay 300 ms", Room { delay: milliseconds(300), ..base.clone() }),
        case("drift +100 ppm", Room { drift: 100e-6, ..base.clone() }),
        case("drift -100 ppm", Room { drift: -100e-6, ..base.clone() }),
        case("drift +250 ppm", Room { drift: 250e-6, ..base.clone() }),
        case("drift +500 ppm", Room { drift: 500e-6, ..base.clone() }),
        case("reverberation 600 ms", Room { reverberation: milliseconds(600), ..base.clone() }),
        case("noise -50 dB", Room { noise_level: -50.0, ..base.clone() }),
        case("echo +10 dB", Room { echo_level: NEAR_LEVEL + 10.0, ..base.clone() }),
        case("echo -10 dB", Room { echo_level: NEAR_LEVEL - 10.0, ..base.clone() }),
        case("saturated speaker", Room { saturation: 8.0, ..base.clone() }),
        case("moved after 12 s", Room { moves_after: Some(Duration::from_secs(12)), ..base }),
        case("all but the move", worst),
    ]
}

/// Scores of one case.
#[derive(Debug, Serialize)]
struct Scores {
    case: &'static str,
    /// Captured power over sent power while only the far end talks, all parts of the processing on, dB.
    erle_db: f64,
    /// The same in the worst second.
    worst_second_erle_db: f64,
    /// Seconds until the first second of which this is at least 30 dB has ended.
    converged_after_s: Option<usize>,
    /// The first score without gain control.
    erle_without_gain_db: f64,
    /// Near voice over everything else while both talk, as captured, dB.
    double_talk_captured_db: f64,
    /// The same as sent, relative to the near voice processed without an echo.
    double_talk_sent_db: f64,
    /// Level of the sent sound while only the near end talks, relative to its voice, without gain control, dB.
    near_level_db: f64,
    /// Processor time, percent of the call's length.
    core_percent: f64,
}

/// The sound of one case.
struct Sound {
    played: Vec<Frame>,
    near: Vec<Frame>,
    captured: Vec<Frame>,
    /// The captured sound without an echo.
    captured_near: Vec<Frame>,
}

fn frames(samples: &[f32]) -> Vec<Frame> {
    let frame = |samples: &[f32]| std::array::from_fn(|at| (32_768.0 * samples[at]).round() as i16);
    samples.chunks_exact(FRAME_SAMPLES).map(frame).collect()
}

/// Frames of a microphone whose samples last longer by `drift`. Every 10 ms it has new samples, up to 4 ms late.
fn captured_frames(samples: &[f32], drift: f64) -> Result<Vec<Frame>> {
    let mut random = Pcg64::seed_from_u64(0);
    let mut resampler = CaptureResampler::new(SAMPLE_RATE)?;
    let mut frames = Vec::new();
    for (number, samples) in (1..).zip(samples.chunks(SECOND / 100)) {
        let late = 0.004 * random.random::<f64>();
        let now = Duration::from_secs_f64(0.01 * f64::from(number) * (1.0 + drift) + late);
        resampler.capture(now, samples.iter().copied(), |frame| frames.push(frame));
    }
    Ok(frames)
}

/// A voice of the length of a call: that of a file, or a synthetic one.
fn voice(file: Option<&Path>, seed: u64) -> Result<Vec<f32>> {
    let Some(path) = file else { return Ok(talk(seed, END * SECOND)) };
    let mut source = WavSource::open(path, true)?;
    let mut samples = Vec::new();
    while samples.len() < END * SECOND
        && let Some(frame) = source.next_frame()?
    {
        samples.extend(frame.iter().map(|&sample| f32::from(sample) / 32_768.0));
    }
    samples.truncate(END * SECOND);
    Ok(samples)
}

impl Sound {
    fn new(room: &Room, far: &[f32], near: &[f32]) -> Result<Self> {
        let silence = vec![0.0; far.len()];
        Ok(Self {
            played: frames(far),
            near: frames(near),
            captured: captured_frames(&room.capture(far, near), room.drift)?,
            captured_near: captured_frames(&room.capture(&silence, near), room.drift)?,
        })
    }

    /// Processes `captured` while the loudspeaker plays `played`. Returns the sent sound and the processor time,
    /// seconds.
    fn process(captured: &[Frame], played: &[Frame], settings: ProcessingSettings) -> (Vec<Frame>, f64) {
        let mut processing = SoundProcessing::new(settings);
        let watch = Stopwatch::start();
        let mut sent = captured.to_vec();
        for (frame, played) in sent.iter_mut().zip(played) {
            processing.played(played);
            processing.captured(frame);
        }
        (sent, watch.seconds())
    }
}

/// Frames from one second to another.
fn part(frames: &[Frame], from: usize, to: usize) -> &[Frame] {
    let of = |seconds: usize| (seconds * SECOND / FRAME_SAMPLES).min(frames.len());
    &frames[of(from)..of(to)]
}

fn energy(frames: &[Frame]) -> f64 {
    let samples = frames.iter().flatten();
    samples.map(|&sample| (f64::from(sample) / 32_768.0).powi(2)).sum()
}

fn ratio_db(above: f64, below: f64) -> f64 {
    // A sample of the smallest size, so that silence has a finite ratio.
    let least = 1.0 / 32_768.0_f64.powi(2);
    10.0 * ((above + least) / (below + least)).log10()
}

/// Scale-invariant ratio of `voice` in `sound` to everything else, dB.
///
/// Source: Le Roux et al., "SDR - half-baked or well done?", ICASSP 2019.
fn si_sdr(sound: &[Frame], voice: &[Frame]) -> f64 {
    let pairs = || {
        let pairs = sound.iter().flatten().zip(voice.iter().flatten());
        pairs.map(|(&sound, &voice)| (f64::from(sound) / 32_768.0, f64::from(voice) / 32_768.0))
    };
    let product: f64 = pairs().map(|(sound, voice)| sound * voice).sum();
    let scale = product / energy(voice).max(f64::MIN_POSITIVE);
    let other: f64 = pairs().map(|(sound, voice)| (sound - scale * voice).powi(2)).sum();
    ratio_db(scale * scale * energy(voice), other)
}

/// Seconds in which only the far end talks.
fn far_seconds() -> impl Iterator<Item = usize> {
    (0..FAR_UNTIL).chain(NEAR_UNTIL..END)
}

/// The same without those at the begin of each part.
fn rated_seconds() -> impl Iterator<Item = usize> {
    (SETTLING..FAR_UNTIL).chain(NEAR_UNTIL + SETTLING..END)
}

fn measure(case: &Case, sound: &Sound) -> (Scores, Vec<Frame>) {
    let all = ProcessingSettings::default();
    let without_gain = ProcessingSettings { auto_gain_control: false, ..all };
    let (sent, seconds) = Sound::process(&sound.captured, &sound.played, all);
    let (plain, _) = Sound::process(&sound.captured, &sound.played, without_gain);
    let silence = vec![[0; FRAME_SAMPLES]; sound.played.len()];
    let (alone, _) = Sound::process(&sound.captured_near, &silence, without_gain);

    let of_second = |frames: &[Frame], second: usize| energy(part(frames, second, second + 1));
    let erle = |sent: &[Frame]| {
        let total = |frames: &[Frame]| rated_seconds().map(|second| of_second(frames, second)).sum();
        ratio_db(total(&sound.captured), total(sent))
    };
    let of_second = |second: usize| (of_second(&sound.captured, second), of_second(&sent, second));
    let has_echo = |captured: f64| captured > SILENT * SECOND as f64;
    let worst = rated_seconds()
        .map(of_second)
        .filter(|(captured, _)| has_echo(*captured))
        .map(|(captured, sent)| ratio_db(captured, sent))
        .fold(f64::INFINITY, f64::min);
    let converged = far_seconds().find(|&second| {
        let (captured, sent) = of_second(second);
        has_echo(captured) && ratio_db(captured, sent) >= CONVERGED
    });
    let both = |frames| part(frames, FAR_UNTIL, BOTH_UNTIL);
    let near = |frames| part(frames, BOTH_UNTIL + 1, NEAR_UNTIL);
    let scores = Scores {
        case: case.name,
        erle_db: erle(&sent),
        worst_second_erle_db: worst,
        converged_after_s: converged.map(|second| second + 1),
        erle_without_gain_db: erle(&plain),
        double_talk_captured_db: si_sdr(both(&sound.captured), both(&sound.captured_near)),
        double_talk_sent_db: si_sdr(both(&plain), both(&alone)),
        near_level_db: ratio_db(energy(near(&plain)), energy(near(&sound.near))),
        core_percent: 100.0 * seconds / END as f64,
    };
    (scores, plain)
}

/// Writes frames as a WAV file.
fn record(folder: &Path, case: &str, kind: &str, frames: &[Frame]) -> Result<()> {
    let name: String =
        case.chars().filter_map(|c| if c == ' ' { Some('-') } else { (c != ',').then_some(c) }).collect();
    let path = folder.join(format!("{name}.{kind}.wav"));
    let of = || format!("cannot write {}", path.display());
    let mut recording = WavRecording::create(&path).with_context(of)?;
    frames.iter().try_for_each(|frame| recording.write(frame)).with_context(of)?;
    recording.finish().with_context(of)
}

/// `lockstep bench sound`.
pub(super) fn run(arguments: &SoundArguments) -> Result<()> {
    let inputs: Vec<&Path> = [&arguments.far, &arguments.near].into_iter().filter_map(|file| file.as_deref()).collect();
    output_file::check(&[("--json", arguments.json.as_deref())], &inputs)?;
    if let Some(folder) = &arguments.recordings {
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    let mut far = voice(arguments.far.as_deref(), 2 * arguments.seed)?;
    far[BOTH_UNTIL * SECOND..NEAR_UNTIL * SECOND].fill(0.0);
    set_level(&mut far, FAR_LEVEL);
    let mut near = voice(arguments.near.as_deref(), 2 * arguments.seed + 1)?;
    near[..FAR_UNTIL * SECOND].fill(0.0);
    near[NEAR_UNTIL * SECOND..].fill(0.0);
    set_level(&mut near, NEAR_LEVEL);

    let cases = cases(arguments.seed);
    let mut progress = Progress::new("bench sound", cases.len() as u64);
    let mut scores = Vec::new();
    for case in &cases {
        progress.update(scores.len() as u64, case.name);
        let sound = Sound::new(&case.room, &far, &near)?;
        let (score, sent) = measure(case, &sound);
        if let Some(folder) = &arguments.recordings {
            record(folder, case.name, "near", &sound.near)?;
            record(folder, case.name, "captured", &sound.captured)?;
            record(folder, case.name, "sent", &sent)?;
        }
        scores.push(score);
    }
    progress.finish();
    scores.sort_by(|a, b| a.erle_db.total_cmp(&b.erle_db));
    print_line!(
        "{:<22}{:>8}{:>14}{:>11}{:>13}{:>14}{:>11}{:>8}",
        "case, dB",
        "ERLE",
        "worst second",
        "30 dB in s",
        "without AGC",
        "double talk",
        "near level",
        "core %"
    );
    for score in &scores {
        let converged = score.converged_after_s.map_or_else(|| "never".to_owned(), |seconds| seconds.to_string());
        let double_talk = format!("{:.1} > {:.1}", score.double_talk_captured_db, score.double_talk_sent_db);
        print_line!(
            "{:<22}{:>8.1}{:>14.1}{converged:>11}{:>13.1}{double_talk:>14}{:>11.1}{:>8.1}",
            score.case,
            score.erle_db,
            score.worst_second_erle_db,
            score.erle_without_gain_db,
            score.near_level_db,
            score.core_percent
        );
    }
    if let Some(path) = &arguments.json {
        write_json(path, &scores)?;
        print_line!("numbers in {}", path.display());
    }
    Ok(())
}
