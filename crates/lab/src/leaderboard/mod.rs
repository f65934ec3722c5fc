//! `lockstep leaderboard`: a page of submitted sweep rows, and the check that runs their calls again.

mod ranking;
mod verify;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::{Args, Subcommand};

use lockstep_control::Controllers;
use lockstep_runner::output_file::{self, write_text};

use crate::sweep::submitted;

/// Arguments of `lockstep leaderboard`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct LeaderboardArguments {
    #[command(subcommand)]
    action: Option<Action>,
    /// Rows of sweeps, as `lockstep sweep` writes them.
    #[arg(required = true)]
    rows: Vec<PathBuf>,
    /// Write the page to this file, as HTML (.html) or Markdown (.md). Default: Markdown on standard output.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Run the calls of submitted rows again, and compare every score exactly.
    Verify(verify::VerifyArguments),
}

/// `lockstep leaderboard`.
pub fn run(arguments: &LeaderboardArguments, controllers: &Controllers) -> Result<()> {
    if let Some(Action::Verify(arguments)) = &arguments.action {
        return verify::run(arguments, controllers);
    }
    let output = arguments.output.as_deref().unwrap_or(Path::new("-"));
    let extension = output.extension().and_then(|extension| extension.to_str());
    let is_html = match extension {
        Some("html") => true,
        Some("md") => false,
        None if output_file::is_standard_output(output) => false,
        _ => bail!("output {}: the name must end in .html or .md", output.display()),
    };
    let inputs: Vec<&Path> = arguments.rows.iter().map(PathBuf::as_path).collect();
    output_file::check(&[("--output", Some(output))], &inputs)?;
    let mut rows = Vec::new();
    for path in &arguments.rows {
        rows.extend(submitted::read(path)?.into_iter().map(|row| (path.as_path(), row)));
    }
    let tables = ranking::ranked(&rows)?;
    write_text(output, &if is_html { ranking::html(&tables) } else { ranking::markdown(&tables) })?;
    print_line!("{} rows in {}", rows.len(), output.display());
    Ok(())
}
