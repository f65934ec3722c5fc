//! What the commands that run a call leave behind.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use lockstep_call::{CallReport, FrameRecord};
use lockstep_units::Timestamp;

use crate::frame_log;
use crate::progress::{print_scores, warn_of_early_end, write_json};

/// Where the results of a call go.
#[derive(Debug, Clone, Default, Args)]
pub struct OutputArguments {
    /// Where the scores go, as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Where the per-frame log goes, as .csv or .parquet.
    #[arg(long)]
    frames: Option<PathBuf>,
}

impl OutputArguments {
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
