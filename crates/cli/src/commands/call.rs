//! `lockstep call`.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;

use lockstep_configuration::{
    CallArguments, CallSettings, ClipName, ControlArguments, LinkArguments, OptionValue, Seconds, SoundName,
};
use lockstep_control::Controllers;
use lockstep_media::sink_path;
use lockstep_runner::call::{CallResult, LiveCall, Observed, call};
use lockstep_runner::interruption::{Interrupted, Interruption};
use lockstep_runner::live_stats::Sample;
use lockstep_runner::output_file::{self, is_standard_output};
use lockstep_runner::session_log::arguments::SessionArguments;

use crate::commands::output::OutputArguments;
use crate::decisions::DecisionsArgument;
use crate::observation::{Observation, ObservationArguments};

/// Arguments of `lockstep call`.
#[derive(Debug, Clone, Args)]
pub struct CallCommand {
    /// Video source: `generated`, `generated:640x360@25`, a y4m file, `camera`, or any other input of ffmpeg.
    #[arg(long, default_value = "generated", value_parser = ClipName::from_word)]
    clip: ClipName,
    #[command(flatten)]
    link: LinkArguments,
    #[command(flatten)]
    control: ControlArguments,
    /// Scored length of the call.
    #[arg(long, default_value = "30", value_parser = Seconds::from_word)]
    seconds: Seconds,
    /// Where the receiver shows the pictures: `window`, `none`, a .webm or .mkv file (with sound), an .ivf or a .y4m
    /// file.
    #[arg(long, default_value = "none")]
    sink: String,
    /// Sound of the call: `tone`, a synthetic voice with pauses; `silence`; or a WAV file, repeated. Without a value,
    /// it is `tone`.
    #[arg(long, value_name = "SOUND", num_args = 0..=1, default_missing_value = "tone", value_parser = SoundName::from_word)]
    audio: Option<SoundName>,
    /// WAV file for the received sound; requires --audio.
    #[arg(long, value_name = "FILE", help_heading = "Outputs")]
    audio_output: Option<PathBuf>,
    #[command(flatten)]
    observation: ObservationArguments,
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    decisions: DecisionsArgument,
    #[command(flatten)]
    session: SessionArguments,
}

/// `lockstep call`.
pub fn run(arguments: &CallCommand, controllers: &Controllers) -> Result<()> {
    let sink = sink_path(&arguments.sink)?;
    if sink.is_some_and(is_standard_output) {
        bail!("--sink {}: the receiver is a separate process; name a file", arguments.sink);
    }
    let decisions = arguments.decisions.output();
    if decisions.1.is_some_and(is_standard_output) {
        bail!("--decisions -: the sender is a separate process; name a file");
    }
    let given = CallArguments {
        clip: Some(arguments.clip.clone()),
        seconds: Some(arguments.seconds),
        ..arguments.link.given().clone().or(arguments.control.given().clone())
    };
    let audio_output = arguments.audio_output.as_deref();
    if audio_output.is_some() && arguments.audio.is_none() {
        bail!("--audio-output requires --audio: without it, the call has no sound");
    }
    let settings = CallSettings { audio: arguments.audio.clone(), ..given.settings_with(controllers)? };
    let live = LiveCall {
        settings,
        sink: arguments.sink.clone(),
        audio_output: arguments.audio_output.clone(),
        session: arguments.session.clone(),
        decisions: decisions.1.map(Path::to_owned),
    };
    let observation = &arguments.observation;
    let receiver_qlog = observation.receiver_qlog();
    let own = [("--sink", sink), ("--audio-output", audio_output), decisions, ("--qlog", receiver_qlog.as_deref())];
    let others = [&own[..], &observation.outputs()].concat();
    arguments.output.check(&others, &live.settings.inputs())?;
    live.check()?;
    let output = arguments.output.open()?;
    let interruption = Interruption::watch()?;
    let qlog = observation.qlog_arguments();
    let mut observed = Observation::open(&observation.without_qlog())?;
    observed.print_addresses();
    let mut take = |sample: &Sample| observed.take(sample);
    let called = call(&live, &interruption, output.observer(), Some(Observed { take: &mut take, qlog }));
    let observed = observed.finish();
    let CallResult { report, problem } = called?;
    let interrupted = problem.as_ref().is_some_and(|problem| problem.is::<Interrupted>());
    if problem.is_some() && !interrupted && report.scores.frames.displayed == 0 {
        // A call that failed before its start has no report, and does not replace that of another call.
        return output_file::all([problem.map_or(Ok(()), Err), observed]);
    }
    // A failure of one output does not prevent the others.
    let written = output.write(live.settings.length.as_f64(), &report);
    match problem {
        // An interruption by the user determines the exit status.
        Some(problem) if interrupted => Err(problem),
        problem => output_file::all([problem.map_or(Ok(()), Err), written, observed]),
    }
}
