//! What the commands that run a call leave behind.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use lockstep_measure::{CallObserver, CallReport};
use lockstep_runner::output_file::{self, write_json};
use lockstep_runner::progress::{print_scores, print_sound, warn_of_early_end};

use crate::frame_log::{self, FrameWriter};

/// Where the results of a call go.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Outputs")]
pub struct OutputArguments {
    /// Where the scores go, as JSON; `-` is standard output, here and wherever a file is written.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Where the per-frame log goes, as .csv or .parquet; CSV on standard output.
    #[arg(long)]
    frames: Option<PathBuf>,
}

impl OutputArguments {
    /// Finds out whether the files can be written, before a call runs that reads `inputs` and writes `others`, too,
    /// each of which has the option that names it.
    pub fn check(&self, others: &[(&str, Option<&Path>)], inputs: &[&Path]) -> Result<()> {
        if let Some(path) = &self.frames {
            frame_log::check_name(path)?;
        }
        let own = [("--json", self.json.as_deref()), ("--frames", self.frames.as_deref())];
        output_file::check(&[&own, others].concat(), inputs)
    }

    /// Opens what is written while the call runs, so that a file that cannot be written is known before.
    pub fn open(&self) -> Result<OpenOutput<'_>> {
        let frames = self.frames.as_deref().map(FrameWriter::create).transpose()?;
        Ok(OpenOutput { arguments: self, frames: frames.map(|writer| Arc::new(Mutex::new(Some(writer)))) })
    }
}

/// The results of a call that is running.
pub struct OpenOutput<'a> {
    arguments: &'a OutputArguments,
    frames: Option<Arc<Mutex<Option<FrameWriter>>>>,
}

impl OpenOutput<'_> {
    /// What hears of the frames of the call, if they are written.
    pub fn observer(&self) -> Option<Box<dyn CallObserver>> {
        self.frames.as_ref().map(|frames| Box::new(frames.clone()) as Box<dyn CallObserver>)
    }

    /// Prints the scores of the call, which was to last `seconds`, and writes the files that were asked for.
    pub fn write(self, seconds: f64, report: &CallReport<impl Serialize>) -> Result<()> {
        warn_of_early_end(seconds, &report.scores);
        print_scores(&report.scores);
        if let Some(sound) = &report.sound {
            print_sound(sound);
        }
        if let Some(opposite) = &report.opposite {
            say!("the opposite way");
            print_scores(&opposite.scores);
            opposite.sound.iter().for_each(print_sound);
        }
        let scores = self.arguments.json.as_deref().map_or(Ok(()), |path| {
            write_json(path, report)?;
            say!("scores        {}", path.display());
            Ok(())
        });
        let frames = self.frames.and_then(|frames| frames.lock().ok()?.take());
        let frames = frames.zip(self.arguments.frames.as_deref()).map_or(Ok(()), |(frames, path)| {
            frames.finish()?;
            say!("frames        {}", path.display());
            Ok(())
        });
        // One that has no room is no reason to lose the other.
        output_file::all([scores, frames])
    }
}
