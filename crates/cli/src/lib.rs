//! The `lockstep` command: real-time video whose codec and transport are one control loop.
//!
//! [`run`] is the whole command. A program that registers its own controllers passes them to it, and has every command of
//! `lockstep` with them: `simulate --controller mine`, `sweep --controllers gcc,mine`, `scenario run NAME --controller mine`,
//! calls.
#![forbid(unsafe_code)]
// What the standard library has instead panics when nobody reads any more.
#![deny(clippy::print_stdout, clippy::print_stderr)]

/// Tells people a line, see [`output_file::say`].
macro_rules! say {
    ($($text:tt)*) => {
        $crate::output_file::say(format_args!($($text)*))
    };
}

/// Tells people a line on standard error, see [`output_file::aside`].
macro_rules! aside {
    ($($text:tt)*) => {
        $crate::output_file::aside(format_args!($($text)*))
    };
}

mod allowance_table;
mod call_files;
mod call_logs;
mod commands;
mod decisions;
mod destination;
mod frame_log;
mod interruption;
mod journal;
mod keys;
mod line_writer;
mod live_stats;
mod observation;
mod output_file;
mod packet_csv;
mod parquet_table;
mod progress;
mod reporter;
mod session_log;
mod sound_file;
mod standard_input;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use lockstep_configuration as configuration;
use lockstep_control::Controllers;

/// Real-time video in which codec and transport are one control loop, and its laboratory.
#[derive(Parser)]
#[command(name = "lockstep", version, about, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Code a y4m file as VP8 in an IVF file.
    Encode(commands::codec::EncodeArguments),
    /// Decode VP8 in an IVF file to y4m, or to one MD5 a frame.
    Decode(commands::codec::DecodeArguments),
    /// Write frame numbers into the pictures of a clip, or read them: the ruler of the testbed.
    Barcode(commands::barcode::BarcodeArguments),
    /// Run a call in virtual time, with the real codec, over an emulated link.
    Simulate(commands::simulate::SimulateCommand),
    /// Run a call in real time: sender and receiver as two processes, an emulated link between them.
    Call(commands::call::CallArguments),
    /// Run the same call simulated and live, and compare the two.
    Compare(commands::compare::CompareArguments),
    /// Tell a controller again what it was told in a call that was recorded with --decisions, and compare what it decides.
    Replay(commands::replay::ReplayArguments),
    /// Talk: print a ticket and wait, or join with one; video in both directions.
    Talk(commands::talk::TalkArguments),
    /// Send live video to whoever gave a ticket.
    Send(commands::live::SendArguments),
    /// Print a ticket, and receive live video from whoever joins with it.
    Receive(commands::live::ReceiveArguments),
    /// Host a rendezvous: where two who are behind routers find each other, and that relays for them when there is no other way.
    Rendezvous(commands::rendezvous::RendezvousArguments),
    /// Emulate a link between two ends of a call, or of anything else over UDP.
    Emulate(commands::emulate::EmulateArguments),
    /// Run the tests of congestion control that RFC 8867 and RFC 8869 describe.
    Scenario(commands::scenario::ScenarioCommand),
    /// Run many modelled or simulated calls, on every core: controllers, codecs, traces, seeds; one Parquet row a call.
    Sweep(commands::sweep::SweepArguments),
    /// Run sources that always fill GCC's target, video, and what lies between, over the same links: Concerto's observation,
    /// and what makes the difference (pauses, pacing, the codec, probes, padding).
    Sources(commands::sources::SourcesArguments),
    /// Run claims again, of the papers (BoB, Concerto, Salsify) and of this project.
    Study(commands::study::StudyArguments),
    /// Measure unmodified programs, such as Chromium's WebRTC, and Lockstep over the same link with the same clip and ruler:
    /// `lockstep testbed run verizon`. Requires the extra `testbed`.
    Testbed(commands::python_module::ModuleWords),
    /// Session logs: make those of a population of calls, report what Concerto measured, ask in SQL.
    Sessions(commands::sessions::SessionsArguments),
    /// Train a learned controller: `lockstep train concerto --seed 1 --output DIR`. Requires the extra `learn`.
    Train(commands::python_module::ModuleWords),
    /// Write the ONNX model of a training run again: `lockstep export DIR`.
    Export(commands::python_module::ModuleWords),
    /// Measure the codec beside libvpx, or the simulator beside real time.
    Bench(commands::bench::BenchArguments),
    /// List the controllers that calls can run with, or the tuned constants of the default one.
    Controllers(commands::controllers::ControllersArguments),
    /// Fit or show the model of the codec that stands in for it where no pixels are wanted.
    Model(commands::model::ModelArguments),
    /// Describe a capacity trace, or convert it to another format.
    Trace(commands::trace::TraceArguments),
    /// Download, convert and split public sets of traces, and fit families of generated ones to them.
    Data(commands::data::DataArguments),
    /// Print what makes a shell complete this command's words.
    ///
    /// bash: `lockstep completions bash > ~/.local/share/bash-completion/completions/lockstep`; zsh: into a file `_lockstep` in a
    /// folder of `$fpath`; fish: `lockstep completions fish > ~/.config/fish/completions/lockstep.fish`.
    Completions(commands::completions::CompletionsArguments),
}

/// Whether the person gave the option called `name` to the innermost of the subcommands in `matches`.
fn given(matches: &ArgMatches, name: &str) -> bool {
    match matches.subcommand() {
        Some((_, matches)) => given(matches, name),
        // Names that the command does not have are none that were given.
        None => matches.try_contains_id(name).is_ok() && matches.value_source(name) == Some(ValueSource::CommandLine),
    }
}

/// Has `-1` taken for the value of an option rather than for an option, so that whoever writes it is told what the value may be.
fn with_negative_values(command: clap::Command) -> clap::Command {
    let takes = |argument: clap::Arg| {
        let takes_values = argument.get_action().takes_values();
        if takes_values { argument.allow_negative_numbers(true) } else { argument }
    };
    command.mut_args(takes).mut_subcommands(with_negative_values)
}

/// Runs the command that `words` say, the program's name first; `controllers` are those that it knows by name. Wrong words
/// end the process.
pub fn run(words: impl IntoIterator<Item = OsString>, controllers: &Controllers) -> ExitCode {
    let matches = with_negative_values(Arguments::command()).get_matches_from(words);
    let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let given = |name: &str| given(&matches, name);
    let result = match arguments.command {
        Command::Encode(arguments) => commands::codec::encode(&arguments),
        Command::Decode(arguments) => commands::codec::decode(&arguments),
        Command::Barcode(arguments) => commands::barcode::run(&arguments),
        Command::Simulate(arguments) => commands::simulate::run(&arguments, controllers),
        Command::Call(arguments) => commands::call::run(&arguments, controllers),
        Command::Compare(arguments) => commands::compare::run(&arguments),
        Command::Replay(arguments) => commands::replay::run(&arguments),
        Command::Talk(arguments) => commands::talk::run(&arguments, controllers),
        Command::Send(arguments) => commands::live::send(&arguments, controllers),
        Command::Receive(arguments) => commands::live::receive(&arguments),
        Command::Rendezvous(arguments) => commands::rendezvous::run(&arguments),
        Command::Emulate(arguments) => commands::emulate::run(&arguments),
        Command::Scenario(command) => commands::scenario::run(&command, controllers),
        Command::Sweep(arguments) => commands::sweep::run(&arguments, controllers, &given),
        Command::Sources(arguments) => commands::sources::run(&arguments, &given),
        Command::Study(arguments) => commands::study::run(&arguments, &given),
        Command::Testbed(arguments) => commands::testbed::run(&arguments),
        Command::Sessions(arguments) => commands::sessions::run(&arguments),
        Command::Train(arguments) => commands::train::train(&arguments),
        Command::Export(arguments) => commands::train::export(&arguments),
        Command::Bench(arguments) => commands::bench::run(&arguments),
        Command::Controllers(arguments) => commands::controllers::run(&arguments, controllers),
        Command::Model(arguments) => commands::model::run(&arguments),
        Command::Trace(arguments) => commands::trace::run(&arguments),
        Command::Data(arguments) => commands::data::run(&arguments),
        Command::Completions(arguments) => commands::completions::run(&arguments, Arguments::command()),
    };
    match result.and_then(|()| output_file::all_printed()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            #[cfg(target_os = "linux")]
            if let Some(commands::tunnel::EndsWith { status, message }) = error.downcast_ref() {
                if !message.is_empty() {
                    aside!("lockstep: {message}");
                }
                return ExitCode::from(*status);
            }
            match error.downcast_ref::<configuration::OptionError>() {
                Some(wrong) => aside!("lockstep: {}", wrong.in_words()),
                None => aside!("lockstep: {}", output_file::in_one_line(&error)),
            }
            match error.downcast_ref::<interruption::Interrupted>() {
                Some(interrupted) => ExitCode::from(interrupted.status()),
                None => ExitCode::FAILURE,
            }
        }
    }
}
