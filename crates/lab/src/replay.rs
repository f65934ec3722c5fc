//! `lockstep replay`: replays recorded feedback to a controller in virtual time. The controller is the recorded one or
//! another.

use std::fmt;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use serde::Serialize;

use lockstep_call::Distribution;
use lockstep_configuration::{ModelFile, open_regular_file, sender_model_hash};
use lockstep_control::recording::{Answer, Ending, Event, Header, RecordingReader};
use lockstep_control::{Algorithm, Allowance, Controller, ControllerSetup, PathObserver, Tuning};
use lockstep_runner::output_file::{self, write_json};
use lockstep_runner::progress::figure;
use lockstep_units::{ByteCount, Timestamp};

use crate::allowance_table::{self, AllowanceTable};

/// Arguments of `lockstep replay`.
#[derive(Debug, Clone, Args)]
pub struct ReplayArguments {
    /// Recording of `--decisions` of `simulate`, `call`, `send` or `talk`.
    recording: PathBuf,
    /// Replay it to this controller instead, and print how its allowances differ.
    #[arg(long, value_name = "NAME")]
    controller: Option<Algorithm>,
    /// The model of a learned controller, an ONNX file, instead of the built-in one.
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// Write the results to this file as JSON; `-` is standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a table with one row per decision, with the recorded and the replayed allowance; as .parquet.
    #[arg(long, value_name = "FILE")]
    allowances: Option<PathBuf>,
}

/// A controller as reports identify it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Named {
    controller: String,
    /// SHA-256 of its model, if it has one.
    model_sha256: Option<String>,
}

impl fmt::Display for Named {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.controller)?;
        // The beginning identifies one's own models.
        self.model_sha256.iter().try_for_each(|hash| write!(formatter, " (model {:.12})", hash))
    }
}

/// Distribution of one quantity, recorded or replayed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct Spread {
    mean: f64,
    p5: f64,
    p50: f64,
    p95: f64,
}

impl Spread {
    fn of(distribution: &mut Distribution) -> Option<Self> {
        let mean = distribution.mean()?;
        let mut quantile = |share| distribution.quantile(share);
        Some(Self { mean, p5: quantile(0.05)?, p50: quantile(0.5)?, p95: quantile(0.95)? })
    }
}

/// A quantity, recorded and replayed.
#[derive(Debug, Serialize)]
struct Compared {
    quantity: &'static str,
    recorded: Option<Spread>,
    replayed: Option<Spread>,
}

/// First decision that differs from the recorded one.
#[derive(Debug, Serialize)]
struct Difference {
    event: u64,
    line: u64,
    seconds: f64,
    asked: String,
    recorded: String,
    replayed: String,
}

/// Results of a replay.
#[derive(Debug, Serialize)]
struct Outcome {
    lockstep: &'static str,
    /// Lockstep version that made the recording.
    recorded_by: String,
    recorded: Named,
    replayed: Named,
    /// `whole`, `cut off`, or `gap` if events are missing.
    ending: &'static str,
    events: u64,
    seconds: f64,
    decisions: u64,
    differences: u64,
    first_difference: Option<Difference>,
    compared: Vec<Compared>,
}

/// Comparable values of an allowance.
struct Allowed {
    budget: Distribution,
    pacing: Distribution,
    target: Distribution,
}

impl Allowed {
    fn new() -> Self {
        // Rounded to bytes, microseconds and bits per second.
        Self {
            budget: Distribution::new(1.0),
            pacing: Distribution::of_milliseconds(),
            target: Distribution::new(1e-3),
        }
    }

    fn add(&mut self, answer: &Answer) {
        if let Answer::Allowance(_, _, Allowance { budget, pacing_interval, target, .. }) = answer {
            self.budget.add(budget.as_f64());
            self.pacing.add(pacing_interval.as_secs_f64() * 1e3);
            self.target.add(target.as_bps() as f64 * 1e-3);
        }
    }
}

/// State of a replay.
struct Replay {
    /// Path observer for the controller, fed with the recorded inputs.
    path: PathObserver,
    controller: Box<dyn Controller>,
    recorded: Allowed,
    replayed: Allowed,
    first_at: Option<Timestamp>,
    now: Timestamp,
    decisions: u64,
    differences: u64,
    first_difference: Option<Difference>,
}

impl Replay {
    fn new(payload: ByteCount, controller: Box<dyn Controller>) -> Self {
        Self {
            path: PathObserver::new(payload, &Tuning::default()),
            controller,
            recorded: Allowed::new(),
            replayed: Allowed::new(),
            first_at: None,
            now: Timestamp::ZERO,
            decisions: 0,
            differences: 0,
            first_difference: None,
        }
    }

    fn seconds(&self) -> f64 {
        self.now.saturating_since(self.first_at.unwrap_or(self.now)).as_secs_f64()
    }

    /// Passes `event` to the controller. `number` and `line` are its position. Returns the recorded and the replayed
    /// answer.
    fn on_event(&mut self, event: &Event, number: u64, line: u64) -> Option<(Answer, Answer)> {
        if let Some(at) = event.at() {
            self.first_at.get_or_insert(at);
            self.now = at;
        }
        let again = event.replay(&mut self.path, self.controller.as_mut())?;
        let Event::Answer(recorded) = event else { return None };
        self.decisions += 1;
        self.recorded.add(recorded);
        self.replayed.add(&again);
        if again != *recorded {
            let seconds = self.seconds();
            self.differences += 1;
            self.first_difference.get_or_insert_with(|| Difference {
                event: number,
                line,
                seconds,
                asked: recorded.question(),
                recorded: recorded.to_string(),
                replayed: again.to_string(),
            });
        }
        Some((*recorded, again))
    }

    fn compared(&mut self) -> Vec<Compared> {
        let (recorded, replayed) = (&mut self.recorded, &mut self.replayed);
        let quantities = [
            ("budget_bytes", &mut recorded.budget, &mut replayed.budget),
            ("pacing_ms", &mut recorded.pacing, &mut replayed.pacing),
            ("target_kbps", &mut recorded.target, &mut replayed.target),
        ];
        let compared = quantities.map(|(quantity, recorded, replayed)| Compared {
            quantity,
            recorded: Spread::of(recorded),
            replayed: Spread::of(replayed),
        });
        compared.into()
    }
}

/// The replayed controller, and whether it is the recorded one.
struct Cast {
    recorded: Named,
    replayed: Named,
    controller: Box<dyn Controller>,
}

fn cast(arguments: &ReplayArguments, header: &Header) -> Result<Cast> {
    let algorithm = arguments.controller.as_ref().unwrap_or(&header.algorithm);
    if algorithm.knows_path() {
        bail!("--controller {algorithm}: it must know what the path carries, and the recording does not say");
    }
    let model = arguments.model.as_deref().map(ModelFile::open).transpose()?;
    if model.is_some() && algorithm.shipped().is_none() {
        let whose = if algorithm.estimates_by_model() { ": that is the receiver's" } else { "" };
        bail!("--model: the controller {algorithm} runs no model at the sender{whose}");
    }
    let hash = sender_model_hash(algorithm, model.as_ref());
    let recorded = Named { controller: header.algorithm.to_string(), model_sha256: header.model.clone() };
    let replayed = Named { controller: algorithm.to_string(), model_sha256: hash };
    if recorded != replayed && arguments.controller.is_none() && model.is_none() {
        bail!(
            "it was recorded by Lockstep {} with another model than comes with this one ({}): name the file of \
             that model with --model, or compare it with this one's by --controller {algorithm}",
            header.program,
            header.model.as_deref().unwrap_or("none"),
        );
    }
    let model = model.map(|file| Arc::clone(file.model()));
    let controller = algorithm.controller(&ControllerSetup { model, ..header.setup() })?;
    Ok(Cast { recorded, replayed, controller })
}

fn replay(arguments: &ReplayArguments, path: &Path) -> Result<Outcome> {
    let named = || path.display().to_string();
    let file = open_regular_file(path).context("cannot be read").with_context(named)?;
    let (header, mut reader) = RecordingReader::new(BufReader::new(file)).with_context(named)?;
    let Cast { recorded, replayed, controller } = cast(arguments, &header).with_context(named)?;
    let mut replay = Replay::new(header.setup().payload, controller);
    let mut table = arguments.allowances.as_deref().map(AllowanceTable::create).transpose()?;
    let mut events = 0;
    while let Some(event) = reader.next_event().with_context(named)? {
        if let (Some((recorded, replayed)), Some(table)) = (replay.on_event(&event, events, reader.line()), &mut table)
        {
            table.add(events, &recorded, &replayed)?;
        }
        events += 1;
    }
    if replay.decisions == 0 {
        bail!("{}: holds no decision", named());
    }
    table.map_or(Ok(()), AllowanceTable::finish)?;
    let seconds = replay.seconds();
    let ending = match reader.ending() {
        Some(Ending::Whole) => "whole",
        Some(Ending::Gap(missing)) => {
            eprint_line!(
                "lockstep: warning: {}: {missing} events are missing after event {}, {seconds:.3} s, since the \
                 disk took them too slowly; it is replayed up to there",
                path.display(),
                events - 1
            );
            "gap"
        }
        Some(Ending::CutOff) | None => {
            eprint_line!(
                "lockstep: warning: {}: it breaks off after event {}, {seconds:.3} s, as that of a killed call does; \
                 it is replayed up to there",
                path.display(),
                events - 1
            );
            "cut off"
        }
    };
    Ok(Outcome {
        lockstep: env!("CARGO_PKG_VERSION"),
        recorded_by: header.program,
        recorded,
        replayed,
        ending,
        events,
        seconds,
        decisions: replay.decisions,
        differences: replay.differences,
        compared: replay.compared(),
        first_difference: replay.first_difference,
    })
}

/// Displayed names of quantities, and their digits after the point.
const LABELS: [(&str, &str, usize); 3] =
    [("budget_bytes", "budget (B)", 0), ("pacing_ms", "pacing (ms)", 3), ("target_kbps", "target (kb/s)", 1)];

/// A statistic and its name.
type Figure = (&'static str, fn(&Spread) -> f64);

const FIGURES: [Figure; 4] = [
    ("mean", |spread| spread.mean),
    ("p5", |spread| spread.p5),
    ("p50", |spread| spread.p50),
    ("p95", |spread| spread.p95),
];

fn print_comparison(outcome: &Outcome) {
    let Outcome { recorded, replayed, decisions, differences, .. } = outcome;
    print_line!("of {decisions} answers {differences} are not the recorded ones");
    print_line!(
        "{} receives the feedback for the packets of {}: the table compares allowances at each time of \
         that call, and does not predict another call",
        replayed.controller,
        recorded.controller
    );
    print_line!("\n{:<22}{:>14}{:>14}{:>12}", "", "recorded", "replayed", "difference");
    for Compared { quantity, recorded, replayed } in &outcome.compared {
        let Some((_, label, digits)) = LABELS.iter().find(|(name, ..)| name == quantity) else { continue };
        for (name, value) in FIGURES {
            let (recorded, replayed) = (recorded.as_ref().map(value), replayed.as_ref().map(value));
            let difference = recorded.zip(replayed).map(|(recorded, replayed)| 100.0 * (replayed / recorded - 1.0));
            let difference = figure(difference.filter(|difference| difference.is_finite()), 1);
            let (recorded, replayed) = (figure(recorded, *digits), figure(replayed, *digits));
            print_line!("{:<22}{recorded:>14}{replayed:>14}{difference:>10} %", format!("{label}, {name}"));
        }
    }
}

/// `lockstep replay`.
pub fn run(arguments: &ReplayArguments) -> Result<()> {
    let path = &arguments.recording;
    let inputs: Vec<&Path> = [path.as_path()].into_iter().chain(arguments.model.as_deref()).collect();
    arguments.allowances.as_deref().map_or(Ok(()), allowance_table::check_name)?;
    let outputs = [("--json", arguments.json.as_deref()), ("--allowances", arguments.allowances.as_deref())];
    output_file::check(&outputs, &inputs)?;
    let outcome = replay(arguments, path)?;
    let Outcome { recorded, replayed, events, seconds, decisions, differences, .. } = &outcome;
    let is_same = recorded == replayed;
    print_line!("recorded      {recorded}, by Lockstep {}", outcome.recorded_by);
    print_line!("replayed      {replayed}: {events} events of {seconds:.3} s");
    let verdict = match &outcome.first_difference {
        None => {
            print_line!("every decision is the same: {decisions} answers");
            Ok(())
        }
        Some(_) if !is_same => Ok(()),
        Some(Difference { event, line, seconds, asked, recorded, replayed }) => Err(anyhow!(
            "{}: {differences} of {decisions} decisions differ, first event {event} (line {line}), {seconds:.3} s \
             from the beginning: asked for {asked}, it answered {recorded}, and now {replayed}",
            path.display()
        )),
    };
    if !is_same {
        print_comparison(&outcome);
    }
    let written = arguments.json.as_deref().map_or(Ok(()), |path| write_json(path, &outcome));
    output_file::all([verdict, written])
}
