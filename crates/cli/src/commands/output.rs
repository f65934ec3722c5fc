//! What the commands that run a call leave behind.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use lockstep_call::{CallReport, FrameRecord};
use lockstep_units::Timestamp;

use crate::frame_log;
use crate::output_file::{self, write_json};
use crate::progress::{print_scores, warn_of_early_end};

/// Where the results of a call go.
#[derive(Debug, Clone, Default, Args)]
pub struct OutputArguments {
    /// Where the scores go, as JSON; `-` is standard output, here and wherever a file is written.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Where the per-frame log goes, as .csv or .parquet; CSV on standard output.
    #[arg(long)]
    frames: Option<PathBuf>,
}

impl OutputArguments {
    /// Finds out whether the files can be written, before a call runs that reads `inputs` and writes to `sink`, too.
    pub fn check(&self, sink: Option<&Path>, inputs: &[&Path]) -> Result<()> {
        if let Some(path) = &self.frames {
            frame_log::writer(path)?;
        }
        let outputs = [("--json", self.json.as_deref()), ("--frames", self.frames.as_deref()), ("--sink", sink)];
        output_file::check(&outputs, inputs)
    }

    /// Prints the scores of a call that was to last `seconds`, and writes the files that were asked for. The call began at
    /// `start`.
    pub fn write(
        &self,
        seconds: f64,
        report: &CallReport<impl Serialize>,
        records: &[FrameRecord],
        start: Timestamp,
    ) -> Result<()> {
        warn_of_early_end(seconds, &report.scores);
        print_scores(&report.scores);
        if let Some(path) = &self.json {
            write_json(path, report)?;
            say!("scores        {}", path.display());
        }
        if let Some(path) = &self.frames {
            frame_log::write(path, records, start)?;
            say!("frames        {}", path.display());
        }
        Ok(())
    }
}
