//! The `lockstep` command: real-time video whose codec and transport are one control loop.
//!
//! [`run`] runs the whole command. A program may register its own controllers and pass them to it. Every command then
//! knows them by name, such as `simulate --controller mine` or `sweep --controllers gcc,mine`.
#![forbid(unsafe_code)]
// `println!` panics if the reader of standard output is gone.
#![deny(clippy::print_stdout, clippy::print_stderr)]

#[macro_use]
extern crate lockstep_runner;

mod call_files;
mod captions;
mod commands;
// Only `simulate` uses parts of this module and of `sound_file`.
#[cfg_attr(not(feature = "lab"), allow(dead_code))]
mod decisions;
mod destination;
mod frame_log;
mod help;
mod keys;
#[cfg(any(test, not(feature = "lab")))]
mod no_laboratory;
mod observation;
mod packet_csv;
mod prompt;
mod qr_code;
mod reporter;
mod shared_screen;
#[cfg_attr(not(feature = "lab"), allow(dead_code))]
mod sound_file;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::builder::Styles;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use lockstep_control::Controllers;
#[cfg(feature = "lab")]
use lockstep_lab::Laboratory;
use lockstep_runner::{interruption, output_file};

use commands::{Calls, Files, Simulation};

/// Real-time video in which codec and transport are one control loop, and its laboratory.
#[derive(Parser)]
#[command(name = "lockstep", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

// The process holds one value of this type.
#[allow(clippy::large_enum_variant)]
#[derive(Subcommand)]
enum Command {
    #[command(flatten)]
    Calls(Calls),
    #[command(flatten)]
    Files(Files),
    #[command(flatten)]
    Simulation(Simulation),
    #[cfg(feature = "lab")]
    #[command(flatten)]
    Laboratory(Laboratory),
    #[command(flatten)]
    Other(Other),
}

/// Commands for the use of this command.
#[derive(Subcommand)]
enum Other {
    /// Print a script that completes this command in a shell.
    ///
    /// bash: `lockstep completions bash > ~/.local/share/bash-completion/completions/lockstep`; zsh: into a file `_lockstep` in a
    /// folder of `$fpath`; fish: `lockstep completions fish > ~/.config/fish/completions/lockstep.fish`.
    Completions(commands::completions::CompletionsArguments),
}

/// Groups of commands in `lockstep --help`, with their commands.
fn groups() -> Vec<(&'static str, clap::Command)> {
    let empty = || clap::Command::new("");
    vec![
        ("Calls", Calls::augment_subcommands(empty())),
        ("Files and codec", Files::augment_subcommands(empty())),
        ("Simulation", Simulation::augment_subcommands(empty())),
        #[cfg(feature = "lab")]
        ("Laboratory", Laboratory::augment_subcommands(empty())),
        ("Other", Other::augment_subcommands(empty())),
    ]
}

/// Command line with its help in groups.
fn command_line() -> clap::Command {
    help::arranged(Arguments::command(), &groups())
}

/// Whether the command line has the option `name` of the innermost subcommand.
#[cfg(feature = "lab")]
fn given(matches: &clap::ArgMatches, name: &str) -> bool {
    match matches.subcommand() {
        Some((_, matches)) => given(matches, name),
        // `value_source` panics at names that the command does not have.
        None => {
            let is_known = matches.try_contains_id(name).is_ok();
            is_known && matches.value_source(name) == Some(clap::parser::ValueSource::CommandLine)
        }
    }
}

/// Lets options take negative numbers such as `-1` as values, so that the error names the accepted values.
fn with_negative_values(command: clap::Command) -> clap::Command {
    let takes = |argument: clap::Arg| {
        let takes_values = argument.get_action().takes_values();
        if takes_values { argument.allow_negative_numbers(true) } else { argument }
    };
    command.mut_args(takes).mut_subcommands(with_negative_values)
}

/// Prints help, or the `error` of a wrong command line. Control characters of an error are shown as escapes.
fn refused(error: clap::Error, words: Vec<OsString>) -> ExitCode {
    if !error.use_stderr() {
        error.exit();
    }
    // Colours are control sequences, too, so the same error is made without them.
    let plain = with_negative_values(command_line()).styles(Styles::plain());
    let parsed = plain.try_get_matches_from(words).and_then(|matches| Arguments::from_arg_matches(&matches));
    let error = parsed.err().unwrap_or(error);
    eprint_line!("{}", error.render().ansi().to_string().trim_end());
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// Runs the command line `words`, whose first word is the program's name, with `controllers` known by name.
///
/// A request for help ends the process.
pub fn run(words: impl IntoIterator<Item = OsString>, controllers: &Controllers) -> ExitCode {
    let words: Vec<OsString> = words.into_iter().collect();
    #[cfg(not(feature = "lab"))]
    if let Some(error) = no_laboratory::refusal(words.get(1).map(OsString::as_os_str)) {
        eprint_line!("lockstep: {error}");
        return ExitCode::from(2);
    }
    let matches = match with_negative_values(command_line()).try_get_matches_from(&words) {
        Ok(matches) => matches,
        Err(error) => return refused(error, words),
    };
    let arguments = match Arguments::from_arg_matches(&matches) {
        Ok(arguments) => arguments,
        Err(error) => return refused(error, words),
    };
    let result = match arguments.command {
        Command::Calls(command) => command.run(controllers),
        Command::Files(command) => command.run(),
        Command::Simulation(command) => command.run(controllers),
        #[cfg(feature = "lab")]
        Command::Laboratory(command) => command.run(controllers, &|name| given(&matches, name)),
        Command::Other(Other::Completions(arguments)) => commands::completions::run(&arguments, command_line()),
    };
    match result.and_then(|()| output_file::all_printed()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            #[cfg(all(target_os = "linux", feature = "lab"))]
            if let Some(commands::tunnel::ExitError { status, message }) = error.downcast_ref() {
                if !message.is_empty() {
                    eprint_line!("lockstep: {message}");
                }
                return ExitCode::from(*status);
            }
            match error.downcast_ref::<lockstep_configuration::OptionError>() {
                Some(wrong) => eprint_line!("lockstep: {}", wrong.message_for_command()),
                None => eprint_line!("lockstep: {}", output_file::in_one_line(&error)),
            }
            match error.downcast_ref::<interruption::Interrupted>() {
                Some(interrupted) => ExitCode::from(interrupted.status()),
                None => ExitCode::FAILURE,
            }
        }
    }
}

/// Examples of the tutorial, compiled as documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/tutorials/own-controller.md")]
struct OwnController;
