//! `lockstep bench call`: calls with this codec, and with unmodified libvpx as a conventional codec, of the same clips
//! over the same links.

use std::path::{Path, PathBuf};
use std::sync::mpsc;

use anyhow::{Context, Result};
use clap::Args;
use serde::{Deserialize, Serialize};

use lockstep_call::EncodeWork;
use lockstep_configuration::{CallArguments, CallSettings, simulate, simulate_coded_by};
use lockstep_libvpx::{Effort, Library, LibvpxEncoder, LibvpxError};
use lockstep_measure::Scores;
use lockstep_runner::output_file::{self, write_json};

use super::clip::all_named;
use super::median;
use crate::journal::Journal;
use crate::sweep::Contents;

/// Arguments of `lockstep bench call`.
#[derive(Args)]
pub(super) struct CallCommand {
    /// A clip with an optional name: `generated`, a y4m file, or any input of ffmpeg; `bunny=FILE`. Repeatable.
    #[arg(long = "clip", value_name = "[NAME=]CLIP", default_value = "generated:640x360@30")]
    clips: Vec<String>,
    /// A link, as in `lockstep simulate`. Repeatable.
    #[arg(long = "trace", value_name = "TRACE", default_values = TRACES)]
    traces: Vec<String>,
    /// The controller. Repeatable.
    #[arg(long = "controller", value_name = "CONTROLLER", default_values = ["lockstep", "gcc"])]
    controllers: Vec<String>,
    /// Maximum length of a call; shorter clips end it.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Share of packets lost at random.
    #[arg(long, default_value = "0")]
    loss: String,
    /// Write the numbers to this file as JSON. A journal next to it keeps finished calls.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Run every call again.
    #[arg(long)]
    fresh: bool,
}

/// Default links: a narrow one, and two that vary.
const TRACES: [&str; 3] = ["constant:500kbps", "cellular:mean=1mbps,seed=1", "cellular:mean=4mbps,seed=2"];
/// WebRTC's speed on a desktop computer (`cpu_speed_default` of its VP8 encoder).
const EFFORT: Effort = Effort::RealTime(-6);

/// Codec of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Codec {
    Functional,
    Libvpx,
}

struct Job {
    row: (String, String, String),
    codec: Codec,
    settings: CallSettings,
}

/// A call.
#[derive(Debug, Serialize)]
struct Row {
    clip: String,
    trace: String,
    controller: String,
    codec: Codec,
    scores: Scores,
}

#[derive(Debug, Serialize)]
struct CallBench {
    lockstep: &'static str,
    libvpx: Option<String>,
    seconds: u32,
    calls: Vec<Row>,
}

/// The settings of a call.
fn settings(arguments: &CallCommand, clip: &str, trace: &str, controller: &str) -> Result<CallSettings> {
    let mut options = CallArguments::usual();
    let seconds = arguments.seconds.to_string();
    let words = [
        ("clip", clip),
        ("trace", trace),
        ("controller", controller),
        ("seconds", &seconds),
        ("loss", &arguments.loss),
    ];
    for (name, word) in words {
        options.set_values(name, &[word.to_owned()])?;
    }
    options.settings()
}

/// All calls. The two codecs of a pair follow each other.
fn jobs(arguments: &CallCommand, clips: &[(String, String)], library: Option<&Library>) -> Result<Vec<(String, Job)>> {
    let mut contents = Contents::default();
    let program = contents.of_file(&std::env::current_exe().context("cannot find the lockstep program")?)?;
    let mut jobs = Vec::new();
    for (name, clip) in clips {
        for (trace, controller) in
            arguments.traces.iter().flat_map(|trace| arguments.controllers.iter().map(move |one| (trace, one)))
        {
            let settings = settings(arguments, clip, trace, controller)?;
            // The name of a generated clip identifies its content.
            let files = settings.inputs().into_iter().filter(|path| path.is_file());
            let inputs: Result<Vec<String>> = files.map(|path| contents.of_file(path)).collect();
            let inputs = inputs?.join(" ");
            for codec in [Codec::Functional, Codec::Libvpx] {
                let coder = match (codec, library) {
                    (Codec::Functional, _) => "functional".to_owned(),
                    (Codec::Libvpx, Some(library)) => library.version(),
                    (Codec::Libvpx, None) => continue,
                };
                let (seconds, loss) = (arguments.seconds, &arguments.loss);
                let key = format!("call {clip} {trace} {controller} {seconds} {loss} {inputs} {program} {coder}");
                let row = (name.clone(), trace.clone(), controller.clone());
                jobs.push((key, Job { row, codec, settings: settings.clone() }));
            }
        }
    }
    Ok(jobs)
}

fn call(job: &Job, library: Option<&Library>) -> Result<Scores> {
    let (refusals, refused) = mpsc::channel();
    let simulated = match job.codec {
        Codec::Functional => simulate(&job.settings, |_| Ok(())),
        Codec::Libvpx => simulate_coded_by(
            &job.settings,
            EncodeWork::OneFrame,
            |format| {
                let size = (format.width, format.height);
                let rate = (format.frame_rate.numerator(), format.frame_rate.denominator());
                let library = library.context("libvpx is not there")?;
                Ok(Box::new(LibvpxEncoder::new(library, size, rate, EFFORT, refusals.clone())?))
            },
            |_| refused.try_recv().map_or(Ok(()), |error: LibvpxError| Err(error.into())),
        ),
    };
    let (clip, trace, controller) = &job.row;
    Ok(simulated.with_context(|| format!("{clip} over {trace} under {controller}"))?.report.scores)
}

/// `lockstep bench call`.
pub(super) fn run(arguments: &CallCommand) -> Result<()> {
    let clips = all_named(&arguments.clips)?;
    let inputs = clips.iter().map(|(_, clip)| clip).chain(&arguments.traces);
    let inputs: Vec<&Path> = inputs.map(Path::new).collect();
    output_file::check(&[("--json", arguments.json.as_deref())], &inputs)?;
    let library = match Library::open() {
        Ok(library) => Some(library),
        Err(error) => {
            eprint_line!("lockstep: warning: {error}; calls are coded by our own codec only");
            None
        }
    };
    let mut journal = Journal::of_output(arguments.json.as_deref(), arguments.fresh)?;
    let jobs = jobs(arguments, &clips, library.as_ref())?;
    let scores = journal.each("bench call", &jobs, |job| call(job, library.as_ref()))?;
    let calls: Vec<Row> = jobs
        .into_iter()
        .zip(scores)
        .map(|((_, Job { row: (clip, trace, controller), codec, .. }), scores)| Row {
            clip,
            trace,
            controller,
            codec,
            scores,
        })
        .collect();
    print(&calls);
    let bench = CallBench {
        lockstep: env!("CARGO_PKG_VERSION"),
        libvpx: library.as_ref().map(Library::version),
        seconds: arguments.seconds,
        calls,
    };
    if let Some(path) = &arguments.json {
        write_json(path, &bench)?;
        print_line!("\nnumbers in {}", path.display());
    }
    Ok(())
}

/// Median and 95th percentile of the video delay, ms, and SSIM, dB.
fn figures(scores: &Scores) -> [Option<f64>; 3] {
    let delay = scores.video_delay_ms;
    [delay.map(|delay| delay.p50), delay.map(|delay| delay.p95), scores.ssim_db.map(|ssim| ssim.mean)]
}

fn print(calls: &[Row]) {
    let widest = |of: fn(&Row) -> &str| calls.iter().map(|row| of(row).chars().count()).max().unwrap_or(0) + 2;
    let (clips, links) = (widest(|row| &row.clip).max(6), widest(|row| &row.trace).max(6));
    let controllers = widest(|row| &row.controller).max(12);
    let start =
        |clip: &str, link: &str, controller: &str| format!("{clip:<clips$}{link:<links$}{controller:<controllers$}");
    print_line!("{}{:>28}{:>28}", start("", "", ""), "lockstep", "libvpx, conventional");
    let head = format!("{:>9}{:>9}{:>10}", "p50 (ms)", "p95", "SSIM (dB)");
    print_line!("{}{head}{head}", start("clip", "link", "controller"));
    let shown = |figures: [Option<f64>; 3]| {
        let figure =
            |value: Option<f64>, digits| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"));
        format!("{:>9}{:>9}{:>10}", figure(figures[0], 0), figure(figures[1], 0), figure(figures[2], 2))
    };
    let of_libvpx = |row: &Row| {
        let same = |other: &&Row| {
            (&other.clip, &other.trace, &other.controller) == (&row.clip, &row.trace, &row.controller)
                && other.codec == Codec::Libvpx
        };
        calls.iter().find(same).map(|other| figures(&other.scores))
    };
    let mut differences: [Vec<f64>; 3] = Default::default();
    for row in calls.iter().filter(|row| row.codec == Codec::Functional) {
        let (ours, theirs) = (figures(&row.scores), of_libvpx(row));
        let theirs_shown = theirs.map_or_else(|| format!("{:>28}", "not there"), shown);
        print_line!("{}{}{theirs_shown}", start(&row.clip, &row.trace, &row.controller), shown(ours));
        let Some(theirs) = theirs else { continue };
        for ((differences, ours), theirs) in differences.iter_mut().zip(ours).zip(theirs) {
            differences.extend(ours.zip(theirs).map(|(ours, theirs)| ours - theirs));
        }
    }
    let worst = |values: &[f64], sign: f64| values.iter().copied().max_by(|a, b| (sign * a).total_cmp(&(sign * b)));
    if let [Some(p50), Some(p95), Some(ssim)] =
        [(0, 1.0), (1, 1.0), (2, -1.0)].map(|(which, sign): (usize, f64)| worst(&differences[which], sign))
    {
        let [median_50, median_95, median_ssim] = differences.each_ref().map(|values| median(values));
        print_line!(
            "\nlockstep over libvpx, median (worst): p50 {median_50:+.0} ms ({p50:+.0}), p95 {median_95:+.0} ms ({p95:+.0}), SSIM {median_ssim:+.2} dB ({ssim:+.2})"
        );
    }
}
