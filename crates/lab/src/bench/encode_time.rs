//! `lockstep bench encode-time`: measures the coding times of this machine for calls in virtual time.
//!
//! It runs the jobs of calls and measures the processor time of their thread. So other programs on the machine have
//! little influence.

use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;

use lockstep_av1::{Av1, Av1Parameters};
use lockstep_call::{
    EncodeJob, EncodeWork, FrameEncoder, FrameRequest, FrameStart, FunctionalCodec, FunctionalEncoder, Menu, MenuMode,
    PictureCodec, SerialMenu, Tuning, Vp8,
};
use lockstep_measure::Machine;
use lockstep_media::{SourceOptions, open_source, parse_size};
use lockstep_runner::output_file::{self, write_json};
use lockstep_runner::progress::Progress;
use lockstep_sim::{EncodeTime, TimePoint};
use lockstep_transport::StateId;
use lockstep_units::{Bitrate, ByteCount, Timestamp};
use lockstep_vp8::{Effort, Parameters, Picture};

use super::{Stopwatch, median};

/// Arguments of `lockstep bench encode-time`.
#[derive(Args)]
pub(super) struct EncodeTimeArguments {
    /// The pictures: `generated`, a y4m file, or any input of ffmpeg. They are scaled to each size.
    #[arg(long, default_value = "generated")]
    clip: String,
    /// Picture size to measure. Repeatable.
    #[arg(long = "size", value_name = "WIDTHxHEIGHT", default_values = ["320x180", "640x360", "1280x720", "1920x1080", "3840x2160"])]
    sizes: Vec<String>,
    /// Pictures per size; the median of their times counts.
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u32).range(4..=1_000))]
    pictures: u32,
    /// Seed of a generated clip.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the times to this file as JSON.
    #[arg(long)]
    output: PathBuf,
}

/// Nominal time between two pictures.
const FRAME_INTERVAL: Duration = Duration::from_nanos(1_000_000_000 / 30);
/// Budgets of pictures, in turn, bits per luma sample: 140 kb/s to 1 Mb/s at 640x360 and 30 pictures per second.
const BUDGETS: [f64; 3] = [0.02, 0.06, 0.15];
/// Budget of a fit pass as a share of the last size. Most fit passes miss their budget by less.
const REFINED: f64 = 0.8;

/// Runs a job. Adds its kind and its time in milliseconds to `works`, except for frames from the empty state.
fn timed<C: PictureCodec>(job: EncodeJob<C>, from_nothing: bool, works: &mut Vec<(EncodeWork, f64)>) -> Menu<C> {
    let kind = job.kind();
    let watch = Stopwatch::start();
    let menu = job.run(&SerialMenu);
    if !from_nothing {
        works.push((kind, 1e3 * watch.seconds()));
    }
    menu
}

/// Encodes `pictures` as in a call with this menu. Returns the time of each interframe job in milliseconds, by kind.
fn job_times<C: FunctionalCodec + PictureCodec>(
    parameters: &C::Parameters,
    effort: Effort,
    mode: MenuMode,
    pictures: &[Picture],
) -> Vec<(EncodeWork, f64)> {
    let mut works = Vec::new();
    let mut encoder = FunctionalEncoder::<C>::new(parameters.clone(), mode, &Tuning::default());
    let mut source = StateId::EMPTY;
    // The conventional codec has another state and other memory.
    let (arena, mut state, mut with_effort) = (C::Arena::default(), C::State::default(), parameters.clone());
    C::set_effort(&mut with_effort, effort);
    for (index, picture) in pictures.iter().enumerate() {
        let bits = BUDGETS[index % BUDGETS.len()];
        let bytes = (picture.width() * picture.height()) as f64 * bits / 8.0;
        let budget = ByteCount::new(bytes as u64);
        let now = Timestamp::ZERO + FRAME_INTERVAL * index as u32;
        let target = Bitrate::from_bps((8.0 * bytes / FRAME_INTERVAL.as_secs_f64()) as u64);
        let request = FrameRequest { budget, effort, ..FrameRequest::at_rate(now, picture, source, target) };
        let Some(FrameStart { job, .. }) = encoder.begin(&request) else { continue };
        let from_nothing = source == StateId::EMPTY;
        let menu = timed(job, from_nothing, &mut works);
        // The job of a conventional codec: the same picture at the same quantizer.
        if let Some(first) = menu.candidates.first() {
            let watch = Stopwatch::start();
            let coded = C::encode(&C::analyse(&arena, &state, picture, &with_effort), first.quantizer);
            black_box(C::name(&coded.state));
            if !from_nothing {
                works.push((EncodeWork::OneFrame, 1e3 * watch.seconds()));
            }
            state = coded.state;
        }
        let size = menu.candidates.first().map_or(ByteCount::ZERO, |candidate| candidate.size());
        let smaller = ByteCount::new((REFINED * size.as_f64()) as u64);
        let menu = match encoder.refine(menu, smaller) {
            Ok(job) => timed(job, from_nothing, &mut works),
            Err(menu) => menu,
        };
        let choice = encoder.choose(&menu, ByteCount::new(u64::MAX), true);
        if let Some((name, _)) = encoder.commit(menu, choice) {
            encoder.forget(source);
            source = name;
        }
    }
    works
}

fn measure<C: FunctionalCodec + PictureCodec>(
    parameters: &C::Parameters,
    effort: Effort,
    pictures: &[Picture],
) -> Result<TimePoint> {
    let mut works = job_times::<C>(parameters, effort, MenuMode::Fit { passes: 2 }, pictures);
    works.extend(job_times::<C>(parameters, effort, MenuMode::Serial, pictures));
    let time = |work| {
        let times: Vec<f64> = works.iter().filter(|(kind, _)| *kind == work).map(|(_, time)| *time).collect();
        if times.is_empty() {
            bail!("no picture required {work:?}: raise --pictures")
        } else {
            Ok((1e3 * median(&times)).round() / 1e3)
        }
    };
    let first = pictures.first().context("the clip has no pictures")?;
    Ok(TimePoint {
        pixels: (first.width() * first.height()) as u32,
        one_frame_ms: time(EncodeWork::OneFrame)?,
        first_pass_ms: time(EncodeWork::FirstPass)?,
        later_pass_ms: time(EncodeWork::LaterPass)?,
        serial_menu_ms: time(EncodeWork::SerialMenu)?,
    })
}

/// Name and speed of this machine.
fn machine() -> Machine {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let processor = field("model name").unwrap_or_else(|| format!("unnamed {}", std::env::consts::ARCH));
    let details = [("family", "cpu family"), ("model", "model\t"), ("at", "cpu MHz")];
    let details = details.into_iter().filter_map(|(word, name)| Some(format!("{word} {}", field(name)?)));
    let details = details.collect::<Vec<String>>().join(", ");
    let processor = if details.is_empty() { processor } else { format!("{processor} ({details} MHz)") };
    Machine { processor, cores: available_parallelism().map_or(1, |cores| cores.get() as u32) }
}

/// `lockstep bench encode-time`.
pub(super) fn run(arguments: &EncodeTimeArguments) -> Result<()> {
    output_file::check(&[("--output", Some(&arguments.output))], &[Path::new(&arguments.clip)])?;
    let mut sizes = Vec::new();
    for size in &arguments.sizes {
        sizes.push(parse_size(size)?);
    }
    sizes.sort_by_key(|(width, height)| width * height);
    sizes.dedup_by_key(|(width, height)| *width * *height);
    let (mut real_time, mut quality) = (Vec::new(), Vec::new());
    let (mut av1_real_time, mut av1_quality) = (Vec::new(), Vec::new());
    let has_av1 = Av1::check_libraries().inspect_err(|error| eprint_line!("skipped av1: {error}")).is_ok();
    let mut progress = Progress::new("measure", sizes.len() as u64);
    for size in sizes {
        let options = SourceOptions { seed: arguments.seed, size: Some(size), ..SourceOptions::default() };
        let mut source = open_source(&arguments.clip, &options)?;
        let mut pictures = Vec::new();
        while pictures.len() < arguments.pictures as usize
            && let Some(picture) = source.next()?
        {
            pictures.push(picture);
        }
        let name = format!("{}x{}", size.0, size.1);
        let of = || format!("{} at {name}", arguments.clip);
        for (effort, points) in [(Effort::REAL_TIME, &mut real_time), (Effort::QUALITY, &mut quality)] {
            points.push(measure::<Vp8>(&Parameters::default(), effort, &pictures).with_context(of)?);
        }
        if has_av1 {
            let parameters = Av1Parameters::default();
            for (effort, points) in [(Effort::REAL_TIME, &mut av1_real_time), (Effort::QUALITY, &mut av1_quality)] {
                points.push(measure::<Av1>(&parameters, effort, &pictures).with_context(of)?);
            }
            parameters.failure.check().map_err(anyhow::Error::from_boxed).with_context(of)?;
        }
        progress.update(real_time.len() as u64, &name);
    }
    progress.finish();
    let model =
        EncodeTime { machine: machine(), clip: arguments.clip.clone(), real_time, quality, av1_real_time, av1_quality };
    let model = EncodeTime::from_json(&serde_json::to_string(&model)?)?;
    print_line!("{}, {} cores, milliseconds a picture:", model.machine.processor, model.machine.cores);
    print_line!(
        "{:<14}{:>10}{:>11}{:>12}{:>12}{:>13}",
        "preset",
        "pixels",
        "one frame",
        "first pass",
        "later pass",
        "serial menu"
    );
    let tables = [
        ("real-time", &model.real_time),
        ("quality", &model.quality),
        ("av1 real-time", &model.av1_real_time),
        ("av1 quality", &model.av1_quality),
    ];
    for (name, points) in tables {
        for TimePoint { pixels, one_frame_ms, first_pass_ms, later_pass_ms, serial_menu_ms } in points {
            print_line!(
                "{name:<14}{pixels:>10}{one_frame_ms:>11.2}{first_pass_ms:>12.2}{later_pass_ms:>12.2}{serial_menu_ms:>13.2}"
            );
        }
    }
    write_json(&arguments.output, &model)
}
