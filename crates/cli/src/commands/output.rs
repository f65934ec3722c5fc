//! Scores and per-frame log of commands that run a call.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use anyhow::Result;
use clap::Args;
use serde::Serialize;

#[cfg(feature = "lab")]
use lockstep_measure::RoomReport;
use lockstep_measure::{CallReport, FrameObserver};
use lockstep_runner::output_file::{self, write_json};
#[cfg(feature = "lab")]
use lockstep_runner::progress::print_room;
use lockstep_runner::progress::{print_scores, print_sound, warn_of_early_end};

use crate::frame_log::{self, FrameWriter};

/// Output files of a call.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Outputs")]
pub struct OutputArguments {
    /// JSON file for the scores; `-` is standard output, for every output file.
    #[arg(long)]
    json: Option<PathBuf>,
    /// File for the per-frame log, .csv or .parquet; standard output is CSV.
    #[arg(long)]
    frames: Option<PathBuf>,
}

impl OutputArguments {
    /// Checks whether the files can be written, before the call runs.
    ///
    /// The call also reads `inputs` and writes `others`, each named by its option.
    pub fn check(&self, others: &[(&str, Option<&Path>)], inputs: &[&Path]) -> Result<()> {
        if let Some(path) = &self.frames {
            frame_log::check_name(path)?;
        }
        let own = [("--json", self.json.as_deref()), ("--frames", self.frames.as_deref())];
        output_file::check(&[&own, others].concat(), inputs)
    }

    /// Prints the scores of a room with the planned length `seconds`, and writes the requested file.
    #[cfg(feature = "lab")]
    pub fn write_room(&self, seconds: f64, report: &RoomReport<impl Serialize>) -> Result<()> {
        if let Some(flow) = report.calls.first() {
            warn_of_early_end(seconds, &flow.call.scores);
        }
        print_room(report);
        self.write_scores(report)
    }

    /// Writes the scores `report` to the requested file.
    fn write_scores(&self, report: &impl Serialize) -> Result<()> {
        self.json.as_deref().map_or(Ok(()), |path| {
            write_json(path, report)?;
            print_line!("scores        {}", path.display());
            Ok(())
        })
    }

    /// Opens the per-frame log, so that a file that cannot be written fails before the call.
    pub fn open(&self) -> Result<OpenOutput<'_>> {
        let frames = self.frames.as_deref().map(FrameWriter::create).transpose()?;
        Ok(OpenOutput { arguments: self, frames: frames.map(|writer| Arc::new(Mutex::new(Some(writer)))) })
    }
}

/// Output of a running call.
pub struct OpenOutput<'a> {
    arguments: &'a OutputArguments,
    frames: Option<Arc<Mutex<Option<FrameWriter>>>>,
}

impl OpenOutput<'_> {
    /// Observer that writes the per-frame log, if requested.
    pub fn observer(&self) -> Option<Box<dyn FrameObserver>> {
        self.frames.as_ref().map(|frames| Box::new(frames.clone()) as Box<dyn FrameObserver>)
    }

    /// Prints the scores of a call with the planned length `seconds`, and writes the requested files.
    pub fn write(self, seconds: f64, report: &CallReport<impl Serialize>) -> Result<()> {
        warn_of_early_end(seconds, &report.scores);
        print_scores(&report.scores);
        if let Some(sound) = &report.sound {
            print_sound(sound);
        }
        if let Some(opposite) = &report.opposite {
            print_line!("the opposite way");
            print_scores(&opposite.scores);
            opposite.sound.iter().for_each(print_sound);
        }
        let scores = self.arguments.write_scores(report);
        let frames = self.frames.and_then(|frames| frames.lock().ok()?.take());
        let frames = frames.zip(self.arguments.frames.as_deref()).map_or(Ok(()), |(frames, path)| {
            frames.finish()?;
            print_line!("frames        {}", path.display());
            Ok(())
        });
        // A failure of one file does not prevent the other.
        output_file::all([scores, frames])
    }
}
