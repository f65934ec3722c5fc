//! Commands that a build without the feature `lab` lacks, and how to get them.

use std::ffi::OsStr;

/// Instruction for a build with all commands.
pub const REMEDY: &str = "build it with: cargo build --release -p lockstep-cli";

/// Commands of the laboratory, and `simulate`.
pub const COMMANDS: [&str; 17] = [
    "simulate",
    "sweep",
    "study",
    "scenario",
    "leaderboard",
    "sources",
    "compare",
    "replay",
    "sessions",
    "data",
    "model",
    "train",
    "export",
    "bench",
    "testbed",
    "rate",
    "barcode",
];

/// Error for the command `name`, if it belongs to the laboratory.
pub fn refusal(name: Option<&OsStr>) -> Option<String> {
    let name = COMMANDS.into_iter().find(|command| name == Some(OsStr::new(command)))?;
    Some(format!("cannot run {name}: this build has no laboratory; {REMEDY}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(feature = "lab")]
    fn the_list_has_every_command_of_the_laboratory() {
        use clap::Subcommand;

        let laboratory = lockstep_lab::Laboratory::augment_subcommands(clap::Command::new(""));
        let names = laboratory.get_subcommands().map(clap::Command::get_name);
        let names: Vec<&str> = std::iter::once("simulate").chain(names).collect();
        assert_eq!(COMMANDS.as_slice(), names);
    }

    #[test]
    fn a_laboratory_command_is_refused_with_its_remedy() {
        let error = refusal(Some(OsStr::new("sweep"))).expect("an error");
        assert_eq!(
            error,
            "cannot run sweep: this build has no laboratory; build it with: cargo build --release -p lockstep-cli"
        );
        assert_eq!(refusal(Some(OsStr::new("talk"))), None);
        assert_eq!(refusal(None), None);
    }
}
