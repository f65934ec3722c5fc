//! Salsify's ablation (NSDI 2018, section 5.4): the value of each part of the design. The scores of the paper are of
//! displayed frames ([`Scores::displayed_delay_ms`]), and so are those compared here. The delay of all captured frames
//! is printed, too. The paper uses its Verizon LTE trace. The whole design has a p95 of 323 ms and an SSIM of 16.5 dB.
//! A conventional codec has 362 ms and 13.4 dB, conventional codec and transport 2,625 ms. Without the grace period the
//! SSIM is 10.3 dB.

use std::time::Instant;

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use lockstep_configuration::{CallArguments, CallSettings, CodecKind, Seconds, simulate};
use lockstep_control::{Algorithm, GracePeriod};
use lockstep_measure::Scores;
use lockstep_runner::progress::figure;

use super::{Budget, CommonArguments, TRIED_SECONDS, each, write};

/// Arguments of `lockstep study salsify`: a trace, such as Salsify's recording of Verizon LTE, and all options of
/// `lockstep simulate`.
#[derive(Args)]
pub(super) struct AblationArguments {
    /// Amount of calls. Small: 30 s, 640x360 at 30 pictures per second. Full: 2 minutes, 1280x720 at 60. Paper: 10
    /// minutes of that. --seconds and --clip override each.
    #[arg(long, value_enum, default_value = "small")]
    budget: Budget,
    #[command(flatten)]
    common: CommonArguments,
}

/// A design: its name, its controller and its codec.
const DESIGNS: [(&str, Algorithm, CodecKind); 4] = [
    ("whole", Algorithm::Salsify(GracePeriod::LinkIdle), CodecKind::Functional),
    ("no grace period", Algorithm::Salsify(GracePeriod::None), CodecKind::Functional),
    ("conventional codec", Algorithm::Salsify(GracePeriod::LinkIdle), CodecKind::Conventional),
    ("conventional codec and transport", Algorithm::Gcc, CodecKind::Conventional),
];

#[derive(Serialize)]
struct Row {
    budget: Budget,
    design: &'static str,
    controller: String,
    codec: CodecKind,
    /// Whether it is worse than the whole design in p50 and p95 of the displayed delay, and in SSIM.
    worse: [bool; 3],
    #[serde(flatten)]
    scores: Scores,
}

/// Whether a design is worse than the whole design in each of three scores.
fn worse(whole: &Scores, other: &Scores) -> [bool; 3] {
    let later = |figure: fn(&lockstep_call::DelayScores) -> f64| {
        let delay = |scores: &Scores| scores.displayed_delay_ms.as_ref().map_or(f64::INFINITY, figure);
        delay(other) > delay(whole)
    };
    let quality = |scores: &Scores| scores.ssim_db.map_or(0.0, |ssim| ssim.mean);
    [later(|delay| delay.p50), later(|delay| delay.p95), quality(other) < quality(whole)]
}

impl Budget {
    /// The calls of this study.
    fn calls(self) -> CallArguments {
        let (clip, seconds) = match self {
            Self::Small => ("generated:640x360@30", 30),
            Self::Full => ("generated:1280x720@60", 120),
            Self::Paper => ("generated:1280x720@60", 600),
        };
        CallArguments { clip: Some(clip.into()), seconds: Some(Seconds::whole(seconds)), ..CallArguments::default() }
    }
}

/// The scores of each design in the call `given`.
fn scores(study: &str, given: &CallSettings) -> Result<Vec<Scores>> {
    each(study, &DESIGNS, |(_, controller, codec)| {
        let mut call = given.clone();
        call.control.controller = controller.clone().into();
        call.control.codec = *codec;
        Ok(simulate(&call, |_| Ok(()))?.report.scores)
    })
}

/// Prints the number of calls and the estimated time.
fn announce(budget: Budget, given: &CallSettings) -> Result<()> {
    let length = given.length.as_f64();
    let what = format!("salsify, budget {}: {} calls of {length} s", budget.name(), DESIGNS.len());
    if length <= 5.0 * f64::from(TRIED_SECONDS) {
        eprint_line!("{what}");
        return Ok(());
    }
    let began = Instant::now();
    scores("how long it takes", &CallSettings { length: Seconds::whole(TRIED_SECONDS), ..given.clone() })?;
    let estimate = began.elapsed().as_secs_f64() * length / f64::from(TRIED_SECONDS);
    eprint_line!("{what}, about {estimate:.0} s in all");
    Ok(())
}

pub(super) fn run(arguments: &AblationArguments) -> Result<()> {
    let given = arguments.common.settings(arguments.budget.calls(), &[])?;
    announce(arguments.budget, &given)?;
    let scores = scores("study salsify", &given)?;
    let whole = scores.first().cloned();
    let rows: Vec<Row> = DESIGNS
        .iter()
        .zip(scores)
        .map(|((design, controller, codec), scores)| {
            let worse = whole.as_ref().map_or([false; 3], |whole| worse(whole, &scores));
            let budget = arguments.budget;
            Row { budget, design, controller: controller.to_string(), codec: *codec, worse, scores }
        })
        .collect();

    print_line!("{} s of {} over {}\n", given.length.as_f64(), given.clip, given.link.trace.name());
    print_line!("delays are those of the frames displayed, as in the paper, and of every frame captured\n");
    print_line!(
        "{:<34}{:>11}{:>10}{:>11}{:>10}{:>12}{:>8}   worse in",
        "",
        "shown p50",
        "p95 (ms)",
        "every p50",
        "p95 (ms)",
        "SSIM (dB)",
        "Mb/s"
    );
    for Row { design, worse, scores, .. } in &rows {
        let names = ["p50", "p95", "SSIM"].into_iter().zip(worse).filter_map(|(name, &worse)| worse.then_some(name));
        print_line!(
            "{design:<34}{:>11}{:>10}{:>11}{:>10}{:>12}{:>8.2}   {}",
            figure(scores.displayed_delay_ms.map(|delay| delay.p50), 0),
            figure(scores.displayed_delay_ms.map(|delay| delay.p95), 0),
            figure(scores.video_delay_ms.map(|delay| delay.p50), 0),
            figure(scores.video_delay_ms.map(|delay| delay.p95), 0),
            figure(scores.ssim_db.map(|ssim| ssim.mean), 2),
            scores.throughput_bps as f64 * 1e-6,
            names.collect::<Vec<_>>().join(", ")
        );
    }
    write(arguments.common.json.as_ref(), &rows)
}
