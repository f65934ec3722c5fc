//! `lockstep model`: the codec without pixels.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};

use lockstep_call::{ClipModel, CodecModel};
use lockstep_media::{SourceOptions, open_source};

use crate::output_file::{self, write_json};
use crate::progress::Progress;

/// What `lockstep model` is told.
#[derive(Debug, Args)]
pub struct ModelArguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Fit a model to what the real codec makes of clips.
    Fit(FitArguments),
    /// Show the clips of a model.
    Show(ShowArguments),
}

/// What `lockstep model fit` is told.
#[derive(Debug, Args)]
pub struct FitArguments {
    /// A clip and its name in the model, such as `talk=generated:640x360@30` or `bunny=bigbuckbunny.mp4`; may be given
    /// more than once.
    #[arg(long = "clip", value_name = "NAME=CLIP", required = true)]
    clips: Vec<String>,
    /// Pictures of each clip.
    #[arg(long, default_value_t = 450, value_parser = clap::value_parser!(u32).range(60..=20_000))]
    pictures: u32,
    /// Seed of generated clips.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the model is written, as JSON.
    #[arg(long)]
    output: PathBuf,
}

/// What `lockstep model show` is told.
#[derive(Debug, Args)]
pub struct ShowArguments {
    /// The model; the built-in one if not given.
    #[arg(long)]
    model: Option<PathBuf>,
}

/// The model in `path`, or the built-in one.
pub fn open_model(path: Option<&PathBuf>) -> Result<CodecModel> {
    let Some(path) = path else { return Ok(CodecModel::built_in()?) };
    let text = fs::read_to_string(path).with_context(|| format!("model {}", path.display()))?;
    CodecModel::from_json(&text).with_context(|| format!("model {}", path.display()))
}

fn fit(arguments: &FitArguments) -> Result<()> {
    let inputs: Vec<&Path> =
        arguments.clips.iter().filter_map(|clip| Some(Path::new(clip.split_once('=')?.1))).collect();
    output_file::check(&[("--output", Some(&arguments.output))], &inputs)?;
    let mut clips: Vec<ClipModel> = Vec::new();
    for named in &arguments.clips {
        let Some((name, clip)) = named.split_once('=') else {
            bail!("clip `{named}` is not a name and a clip, such as talk=generated:640x360@30");
        };
        let mut source = open_source(clip, &SourceOptions { seed: arguments.seed, ..SourceOptions::default() })?;
        let interval = source.format().frame_interval();
        let mut pictures = Vec::new();
        while pictures.len() < arguments.pictures as usize
            && let Some(picture) = source.next()?
        {
            pictures.push(picture);
        }
        if pictures.len() < 60 {
            bail!("clip `{clip}` has {} pictures; a model needs 60 at least", pictures.len());
        }
        let mut progress = Progress::new("fit", 1_000);
        clips.push(ClipModel::fit(name, &pictures, interval, |share| progress.update((share * 1e3) as u64, name))?);
        progress.finish();
    }
    let model = CodecModel { clips };
    CodecModel::from_json(&serde_json::to_string(&model)?).context("the clips cannot be modelled")?;
    write_json(&arguments.output, &model)
}

fn show(arguments: &ShowArguments) -> Result<()> {
    for clip in open_model(arguments.model.as_ref())?.clips {
        say!(
            "{}: second to second {:.2}, frame to frame {:.2} (deviations of ln size), fill {:.2}",
            clip.name,
            clip.second_deviation,
            clip.frame_deviation,
            clip.fill
        );
        say!("    q   inter bits/sample   key bits/sample   SSIM");
        for point in clip.points {
            say!(
                "  {:>3}   {:>17.4}   {:>15.4}   {:>4.1} dB",
                point.quantizer,
                point.inter_bits,
                point.key_bits,
                point.ssim_db
            );
        }
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
