//! `lockstep completions`: the words of this command, for a shell.

use anyhow::Result;
use clap::{Args, Command};
use clap_complete::{Shell, generate};

use lockstep_runner::output_file;

/// What `lockstep completions` is told.
#[derive(Debug, Args)]
pub struct CompletionsArguments {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// `lockstep completions` for the command line that `command` describes.
pub fn run(arguments: &CompletionsArguments, mut command: Command) -> Result<()> {
    let name = command.get_name().to_owned();
    // First into memory: writing it out may fail, which clap_complete would take for a bug.
    let mut script = Vec::new();
    generate(arguments.shell, &mut command, name, &mut script);
    output_file::print(format_args!("{}", String::from_utf8(script)?));
    Ok(())
}
