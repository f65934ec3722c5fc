//! `lockstep model`: fits and shows codec models.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};

use lockstep_configuration::read_regular_text;
use lockstep_media::{SourceOptions, open_source};
use lockstep_runner::output_file::{self, write_json};
use lockstep_sim::{ClipMeasurements, ClipModel, CodecModel, HeldOutError, in_parallel};
use lockstep_vp8::Picture;

/// Minimum number of pictures for a fit. Fewer do not show the variation over seconds.
const MIN_PICTURES: usize = 60;

/// Arguments of `lockstep model`.
#[derive(Debug, Args)]
pub struct ModelArguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Fit a model to the real codec's results on clips.
    Fit(FitArguments),
    /// Show the clips of a model.
    Show(ShowArguments),
}

/// Arguments of `lockstep model fit`.
#[derive(Debug, Args)]
pub struct FitArguments {
    /// A clip with its name in the model, such as `talk=generated:640x360@30` or `bunny=bigbuckbunny.mp4`. Repeatable.
    /// Several similar files form one clip: `signing=one.mkv+another.mkv`.
    #[arg(long = "clip", value_name = "NAME=CLIP", required = true)]
    clips: Vec<String>,
    /// Pictures per file.
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(MIN_PICTURES as i64..=20_000))]
    pictures: u32,
    /// Seed of generated clips.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the model to this file as JSON.
    #[arg(long)]
    output: PathBuf,
}

/// Arguments of `lockstep model show`.
#[derive(Debug, Args)]
pub struct ShowArguments {
    /// The model; default: the built-in one.
    #[arg(long)]
    model: Option<PathBuf>,
}

/// The model in `path`, or the built-in one.
pub fn open_model(path: Option<&PathBuf>) -> Result<CodecModel> {
    let Some(path) = path else { return Ok(CodecModel::built_in()?) };
    let text = read_regular_text(path).with_context(|| format!("model {}", path.display()))?;
    CodecModel::from_json(&text).with_context(|| format!("model {}", path.display()))
}

/// Pictures of a clip, by file.
struct Pictures {
    name: String,
    segments: Vec<Vec<Picture>>,
    frame_interval: Duration,
}

fn read(named: &str, pictures_of_each: u32, seed: u64) -> Result<Pictures> {
    let Some((name, clips)) = named.split_once('=') else {
        bail!("clip `{named}` is not a name and a clip, such as talk=generated:640x360@30");
    };
    let mut read = Pictures { name: name.to_owned(), segments: Vec::new(), frame_interval: Duration::ZERO };
    let mut format = None;
    for clip in clips.split('+') {
        let mut source = open_source(clip, &SourceOptions { seed, ..SourceOptions::default() })?;
        let this = source.format();
        if format.is_some_and(|format| format != this) {
            bail!("clip `{clip}` has another size or frame rate than those before it in `{named}`");
        }
        format = Some(this);
        read.frame_interval = this.frame_interval();
        let mut pictures = Vec::new();
        while pictures.len() < pictures_of_each as usize
            && let Some(picture) = source.next()?
        {
            pictures.push(picture);
        }
        if pictures.len() < MIN_PICTURES {
            bail!("clip `{clip}` has {} pictures; a model needs {MIN_PICTURES} at least", pictures.len());
        }
        read.segments.push(pictures);
    }
    Ok(read)
}

/// Measures the real codec on one of the clips.
fn measure(named: &str, pictures: u32, seed: u64) -> Result<ClipMeasurements> {
    let Pictures { name, segments, frame_interval } = read(named, pictures, seed)?;
    let mut said = 0.0;
    let progress = |share: f64| {
        if share >= said + 0.25 {
            said = share;
            eprint_line!("{name}: {:.0} % measured", 100.0 * share);
        }
    };
    Ok(ClipMeasurements::new(&name, &segments, frame_interval, progress)?)
}

/// A model of `clip` only, fitted to its first `pictures`. `seed` is that of a generated clip.
pub fn model_of(clip: &str, pictures: u32, seed: u64) -> Result<CodecModel> {
    let model = CodecModel { clips: vec![measure(&format!("clip={clip}"), pictures, seed)?.fit()] };
    CodecModel::from_json(&serde_json::to_string(&model)?).context("the clip cannot be modelled")
}

fn fit(arguments: &FitArguments) -> Result<()> {
    let files = arguments.clips.iter().filter_map(|clip| Some(clip.split_once('=')?.1.split('+').map(Path::new)));
    let inputs: Vec<&Path> = files.flatten().collect();
    output_file::check(&[("--output", Some(&arguments.output))], &inputs)?;
    let threads = available_parallelism().unwrap_or(NonZero::<usize>::MIN);
    let mut results: Vec<Option<Result<ClipMeasurements>>> = arguments.clips.iter().map(|_| None).collect();
    in_parallel(
        &arguments.clips,
        threads,
        |named| measure(named, arguments.pictures, arguments.seed),
        |index, result| {
            let go_on = result.is_ok();
            results[index] = Some(result);
            go_on
        },
    );
    let measured = results.into_iter().flatten().collect::<Result<Vec<ClipMeasurements>>>()?;
    let model = CodecModel { clips: measured.iter().map(ClipMeasurements::fit).collect() };
    let model = CodecModel::from_json(&serde_json::to_string(&model)?).context("the clips cannot be modelled")?;
    for clip in &model.clips {
        show_clip(clip);
    }
    for (index, clip) in measured.iter().enumerate() {
        let Some((other, error)) = model
            .clips
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != index)
            .map(|(_, other)| (&other.name, clip.error_of(other)))
            .min_by(|(_, one), (_, other)| mean_size_error(one).total_cmp(&mean_size_error(other)))
        else {
            continue;
        };
        let ssim = error.ssim_db.iter().map(|error| error.abs()).sum::<f64>() / error.ssim_db.len() as f64;
        print_line!(
            "{}, were it unknown: the nearest other clip, {other}, is off by {:.0} % in size and {ssim:.1} dB in SSIM",
            model.clips[index].name,
            100.0 * (mean_size_error(&error).exp() - 1.0)
        );
    }
    write_json(&arguments.output, &model)
}

/// Mean absolute error of ln(size) over the quantizers.
fn mean_size_error(error: &HeldOutError) -> f64 {
    error.size.iter().map(|error| (1.0 + error).max(1e-6).ln().abs()).sum::<f64>() / error.size.len() as f64
}

fn show_clip(clip: &ClipModel) {
    let middle = clip.points.iter().find(|point| point.quantizer >= 48).unwrap_or(&clip.points[0]);
    print_line!(
        "{}: {:.1} pictures a second, ln size at q {} varies by {:.2}, {:.0} % of it over seconds ({:.1} s); \
         correlation from frame to frame {:.2}; {:.2} scene cuts a second",
        clip.name,
        1.0 / clip.frame_interval,
        middle.quantizer,
        middle.inter_deviation,
        100.0 * clip.slow_share,
        clip.correlation_seconds,
        clip.frame_correlation,
        clip.scene_cuts
    );
    print_line!("    q   inter bits/sample   deviation   key bits/sample      SSIM   held out: size      SSIM");
    for (index, point) in clip.points.iter().enumerate() {
        let error = clip.held_out.as_ref().and_then(|error| Some((error.size.get(index)?, error.ssim_db.get(index)?)));
        let error = error.map_or_else(String::new, |(size, ssim)| format!("{:>14.1} % {ssim:>6.2} dB", 100.0 * size));
        print_line!(
            "  {:>3}   {:>17.4}   {:>9.2}   {:>15.4}   {:>4.1} dB{error}",
            point.quantizer,
            point.inter_bits,
            point.inter_deviation,
            point.key_bits,
            point.ssim_db
        );
    }
    if let Some(error) = &clip.held_out {
        print_line!(
            "  fitted to {} pictures, held out {}: scatter within a second {:+.0} %, deviation of seconds {:.2}, clip {:.2}",
            error.pictures.0,
            error.pictures.1,
            100.0 * error.frame_deviation,
            error.second_deviation.0,
            error.second_deviation.1
        );
    }
}

fn show(arguments: &ShowArguments) -> Result<()> {
    for clip in &open_model(arguments.model.as_ref())?.clips {
        show_clip(clip);
    }
    Ok(())
}

/// `lockstep model`.
pub fn run(arguments: &ModelArguments) -> Result<()> {
    match &arguments.action {
        Action::Fit(arguments) => fit(arguments),
        Action::Show(arguments) => show(arguments),
    }
}
