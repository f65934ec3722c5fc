//! A call in virtual time: what it is told, and what it leaves.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Args, CommandFactory, Parser};
use serde::{Deserialize, Serialize};

use lockstep_alphartc::EstimatorHost;
use lockstep_call::{CallObserver, CallReport, CodecModel, VideoDelayFloor};
use lockstep_control::KnownPath;
use lockstep_media::{SourceOptions, VmafMeter, open_source};
use lockstep_sim::{Simulation, SimulationOptions, StopReason};
use lockstep_units::{Bitrate, Timestamp};
use lockstep_vp8::DEFAULT_PIXEL_LIMIT;

use crate::estimator::CallEstimator;
use crate::{
    CODEC_OPTIONS, ControlArguments, EstimatorArguments, LinkArguments, counters, milliseconds, seconds,
    simulate_modelled_with,
};

/// What a simulation is told.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub struct SimulateArguments {
    /// The pictures: `generated`, `generated:640x360@25`, a y4m file, or anything else that ffmpeg reads.
    #[arg(long, default_value = "generated")]
    pub clip: String,
    #[command(flatten)]
    #[serde(flatten)]
    pub link: LinkArguments,
    #[command(flatten)]
    #[serde(flatten)]
    pub control: ControlArguments,
    #[command(flatten)]
    #[serde(flatten)]
    pub estimator: EstimatorArguments,
    /// Run a model in the place of the codec: no pixels, hundreds of times faster. Of the clip, its size and its frame rate
    /// count; of the options of the codec, its kind.
    #[arg(long, conflicts_with_all = CODEC_OPTIONS)]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub modelled: bool,
    /// Scored length of the call.
    #[arg(long, default_value_t = 60.0, value_parser = seconds)]
    pub seconds: f64,
    /// Virtual time that a menu of two candidates of a picture takes. A functional codec that makes frames fit needs 60 % of
    /// it until it has one to send.
    #[arg(long, default_value_t = 12.0, value_parser = milliseconds)]
    pub encode_ms: f64,
    /// Virtual time that decoding one frame takes.
    #[arg(long, default_value_t = 3.0, value_parser = milliseconds)]
    pub decode_ms: f64,
    /// Measure VMAF of what is shown, and the scores that need it. Takes an ffmpeg with libvmaf: LOCKSTEP_VMAF may name
    /// one, such as that in PyPI's imageio-ffmpeg. Without, the scores say that it is missing.
    #[arg(long)]
    #[serde(default)]
    pub vmaf: bool,
}

/// The words of a command line, without the command.
#[derive(Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct Words {
    #[command(flatten)]
    arguments: SimulateArguments,
}

impl SimulateArguments {
    /// What the words of `lockstep simulate` say, such as `--loss=5%`; of what they leave out, the defaults.
    ///
    /// # Errors
    /// What is wrong with them, in one line.
    pub fn from_words(words: impl IntoIterator<Item = String>) -> Result<Self> {
        match Words::try_parse_from(words) {
            Ok(words) => Ok(words.arguments),
            Err(error) => bail!("{}", in_one_line(&error.to_string())),
        }
    }

    /// What a call reads, as far as these names are those of files.
    #[must_use]
    pub fn inputs(&self) -> Vec<&Path> {
        let mut inputs = self.link.inputs();
        inputs.push(Path::new(&self.clip));
        inputs.extend(self.estimator.estimator.as_deref());
        inputs
    }

    /// The names of all options that [`SimulateArguments::from_words`] knows, without the dashes.
    #[must_use]
    pub fn option_names() -> Vec<String> {
        Words::command().get_arguments().filter_map(|argument| argument.get_long().map(str::to_owned)).collect()
    }
}

/// What clap says of wrong words, less what only helps at a command line: the choices that there are stay.
fn in_one_line(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let said = lines.take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"));
    let said: Vec<&str> = said.filter(|line| !line.starts_with("tip: to pass")).collect();
    let line = said.join(" ");
    line.strip_prefix("error: ").unwrap_or(&line).to_owned()
}

/// How a simulation goes.
#[derive(Debug, Clone, Copy)]
pub struct SimulationStatus {
    /// The virtual time.
    pub now: Timestamp,
    /// The controller's target.
    pub target: Bitrate,
    /// Quantizer index of the newest frame.
    pub quantizer: Option<u8>,
}

/// A finished simulation.
#[derive(Debug)]
pub struct Simulated {
    /// Scores, counters and series.
    pub report: CallReport<SimulateArguments>,
}

/// Runs the simulation that `arguments` describes. `progress` hears of it once a frame interval, and may end it.
///
/// # Errors
/// If clip, trace or link cannot be had, if the source fails, or if `progress` does.
pub fn simulate(
    arguments: &SimulateArguments,
    progress: impl FnMut(&SimulationStatus) -> Result<(), StopReason>,
) -> Result<Simulated> {
    simulate_with(arguments, None, None, progress)
}

/// The same with the estimator that lives at `host`, if one is given, instead of that which `arguments` name; and heard by
/// `observer`.
///
/// # Errors
/// As [`simulate`]; if the estimator fails, its error as [`SimulationError::Stopped`](lockstep_sim::SimulationError).
pub fn simulate_with(
    arguments: &SimulateArguments,
    host: Option<Box<dyn EstimatorHost>>,
    observer: Option<Box<dyn CallObserver>>,
    mut progress: impl FnMut(&SimulationStatus) -> Result<(), StopReason>,
) -> Result<Simulated> {
    if arguments.modelled {
        return simulate_modelled_with(arguments, &CodecModel::built_in()?, host, observer, progress);
    }
    let (arguments, CallEstimator { estimator, failure }) = arguments.with_estimator(host)?;
    arguments.link.check_for(&arguments.control)?;
    let source =
        open_source(&arguments.clip, &SourceOptions { seed: arguments.link.seed, ..SourceOptions::default() })?;
    let (forward, reverse) = arguments.link.links()?;
    let options = SimulationOptions {
        length: Duration::from_secs_f64(arguments.seconds),
        encode_time: Duration::from_secs_f64(arguments.encode_ms / 1e3),
        decode_time: Duration::from_secs_f64(arguments.decode_ms / 1e3),
    };
    let format = source.format();
    let first_job_time = options.encode_time.mul_f64(arguments.control.first_job_share());
    let floor =
        VideoDelayFloor::new(forward.config(), Timestamp::ZERO).with_coding(first_job_time, options.decode_time);
    let path = KnownPath { trace: arguments.link.forward_trace()?, start: Timestamp::ZERO };
    let sender = arguments.control.sending_end(&format, arguments.link.seed as u32, Some(path))?;
    // Both ends are ours: whatever the clip's size, it is decoded.
    let limit = DEFAULT_PIXEL_LIMIT.max(format.width * format.height);
    let receiver = ControlArguments::receiving_end_with(estimator).with_pixel_limit(limit);
    let mut simulation = Simulation::new(sender, receiver, source, forward, reverse, &options).compared_with(floor);
    if let Some(observer) = observer {
        simulation = simulation.observed_by(observer);
    }
    if arguments.vmaf {
        simulation = simulation.measuring_vmaf(VmafMeter::start(format));
    }
    let result = simulation.run(|now, sender| {
        failure.check()?;
        let status = sender.status(now);
        progress(&SimulationStatus { now, target: status.target, quantizer: status.quantizer })
    })?;
    let report = CallReport {
        lockstep: env!("CARGO_PKG_VERSION").to_owned(),
        kind: "simulate".to_owned(),
        seed: arguments.link.seed,
        config: arguments,
        scores: result.scores,
        counters: [
            ("sender".to_owned(), counters(&result.sender.statistics())),
            ("receiver".to_owned(), counters(&result.receiver.statistics())),
            ("decoder".to_owned(), counters(&result.receiver.counts())),
            ("link".to_owned(), counters(&result.forward)),
            ("reverse_link".to_owned(), counters(&result.reverse)),
        ]
        .into(),
        series: result.series,
    };
    Ok(Simulated { report })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from_words(words: &[&str]) -> Result<SimulateArguments> {
        SimulateArguments::from_words(words.iter().map(|&word| word.to_owned()))
    }

    #[test]
    fn a_model_is_not_told_what_only_the_codec_heeds() {
        for option in ["--preset=quality", "--menu=fit", "--fit-passes=2"] {
            let error = from_words(&["--modelled", option]).unwrap_err().to_string();
            let name = option.split_once('=').unwrap().0;
            assert!(error.contains("'--modelled' cannot be used with") && error.contains(name), "{error}");
            assert!(from_words(&[option]).is_ok());
        }
        assert!(from_words(&["--modelled", "--codec=conventional"]).unwrap().modelled);
    }
}
