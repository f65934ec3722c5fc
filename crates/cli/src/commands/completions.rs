//! `lockstep completions`: prints a completion script for a shell.

use anyhow::Result;
use clap::{Args, Command};
use clap_complete::{Shell, generate};

use lockstep_runner::output_file;

/// Arguments of `lockstep completions`.
#[derive(Debug, Args)]
pub struct CompletionsArguments {
    /// Shell that runs the script.
    #[arg(value_enum)]
    shell: Shell,
}

/// `lockstep completions` for the command line that `command` describes.
pub fn run(arguments: &CompletionsArguments, mut command: Command) -> Result<()> {
    let name = command.get_name().to_owned();
    // The script is generated in memory first: `clap_complete` panics if writing fails.
    let mut script = Vec::new();
    generate(arguments.shell, &mut command, name, &mut script);
    output_file::print(format_args!("{}", String::from_utf8(script)?));
    Ok(())
}
