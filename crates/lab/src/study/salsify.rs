//! Salsify's ablation (NSDI 2018, section 5.2, experiment 4): the value of each part of the design.
//!
//! The first three [`DESIGNS`] are the whole: as published on two cores and on one, and as Lockstep has it. Each further
//! one replaces one more part. Rows as published have the published encoder's coding time ([`PUBLISHED_MENU_MS`]).
//!
//! The paper uses its Verizon LTE trace. Its analysis files give the p95 of the displayed delay and the SSIM:
//!
//! | design | p95 | SSIM |
//! |---|---|---|
//! | two cores | 323 ms | 16.5 dB |
//! | one core | 384 ms | 16.5 dB |
//! | no grace period | | 10.3 dB |
//! | conventional codec | 362 ms | 13.4 dB |
//! | conventional codec and transport | 2,625 ms | |

use std::time::Instant;

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use lockstep_configuration::{
    AsPublished, CallArguments, CallSettings, CodecKind, Milliseconds, OptionValue, Seconds, simulate,
};
use lockstep_control::{Algorithm, GracePeriod};
use lockstep_measure::{CodingTimes, Scores};
use lockstep_media::{SourceOptions, source_format};
use lockstep_runner::progress::figure;

use super::{Budget, CommonArguments, DECIDED, TRIED_SECONDS, each, refuse, write};

/// Coding time of the published encoder's two candidates at 1280x720, one after the other, milliseconds (lab:
/// 2026-11-papers-salsify).
const PUBLISHED_MENU_MS: f64 = 36.0;
/// Luma samples of the pictures of that time.
const PUBLISHED_SAMPLES: f64 = 1280.0 * 720.0;

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

/// Parts of a design.
#[derive(Debug, Clone, Copy)]
enum Parts {
    /// Salsify as published, with this menu and this grace period.
    Published(AsPublished, &'static str, GracePeriod),
    /// Salsify's controller with what Lockstep does better.
    Lockstep,
    /// A conventional codec with rate control, and Google Congestion Control.
    Conventional,
}

/// Every design by name. The first one is the whole with which the others are compared.
const DESIGNS: [(&str, Parts); 7] = {
    use AsPublished::{Salsify, SalsifyFrameTarget, SalsifySecondTarget};
    [
        ("whole as published, two cores", Parts::Published(Salsify, "parallel", GracePeriod::Sender)),
        ("whole as published, one core", Parts::Published(Salsify, "serial", GracePeriod::Sender)),
        ("whole as Lockstep has it", Parts::Lockstep),
        ("no grace period", Parts::Published(Salsify, "parallel", GracePeriod::None)),
        ("conventional codec", Parts::Published(SalsifyFrameTarget, "parallel", GracePeriod::Sender)),
        ("its target once per second", Parts::Published(SalsifySecondTarget, "parallel", GracePeriod::Sender)),
        ("conventional codec and transport", Parts::Conventional),
    ]
};

impl Parts {
    /// Options of a call with these parts. `menu_ms` is the coding time of the published encoder.
    fn arguments(self, menu_ms: Milliseconds) -> Result<CallArguments> {
        let mut arguments = CallArguments::default();
        match self {
            Self::Published(system, menu, grace_period) => {
                arguments.set_values("menu", &[menu.to_owned()])?;
                (arguments.as_published, arguments.grace_period) = (Some(system), Some(grace_period));
                arguments.encode_ms = Some(menu_ms);
            }
            Self::Lockstep => arguments.controller = Some(Algorithm::Salsify(GracePeriod::LinkIdle).into()),
            Self::Conventional => {
                (arguments.controller, arguments.codec) = (Some(Algorithm::Gcc.into()), Some(CodecKind::Conventional));
            }
        }
        Ok(arguments)
    }
}

#[derive(Serialize)]
struct Row {
    budget: Budget,
    design: &'static str,
    controller: String,
    codec: CodecKind,
    /// Published system that the row follows, by its name on the command line.
    as_published: Option<serde_json::Value>,
    coding_times: Option<CodingTimes>,
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

/// Settings of each design for the call `given`.
fn designs(given: &CallArguments) -> Result<Vec<CallSettings>> {
    let clip = given.clip.as_ref().map_or("generated", |clip| clip.as_str());
    let format = source_format(clip, &SourceOptions::default())?;
    let menu_ms = PUBLISHED_MENU_MS * (format.width * format.height) as f64 / PUBLISHED_SAMPLES;
    let menu_ms = Milliseconds::from_word(&format!("{menu_ms:.3}")).map_err(anyhow::Error::msg)?;
    DESIGNS.iter().map(|(_, parts)| given.clone().or(parts.arguments(menu_ms)?).settings()).collect()
}

/// Length of the call, scores and coding times of each design.
fn run_all(study: &str, calls: &[CallSettings]) -> Result<Vec<(Scores, Option<CodingTimes>)>> {
    each(study, calls, |call| {
        let report = simulate(call, |_| Ok(()))?.report;
        Ok((report.scores, report.coding_times))
    })
}

/// Prints the number of calls and the estimated time.
fn announce(budget: Budget, calls: &[CallSettings]) -> Result<()> {
    let length = calls.first().map_or(0.0, |call| call.length.as_f64());
    let what = format!("salsify, budget {}: {} calls of {length} s", budget.name(), calls.len());
    if length <= 5.0 * f64::from(TRIED_SECONDS) {
        eprint_line!("{what}");
        return Ok(());
    }
    let began = Instant::now();
    let short = |call: &CallSettings| CallSettings { length: Seconds::whole(TRIED_SECONDS), ..call.clone() };
    run_all("how long it takes", &calls.iter().map(short).collect::<Vec<_>>())?;
    let estimate = began.elapsed().as_secs_f64() * length / f64::from(TRIED_SECONDS);
    eprint_line!("{what}, about {estimate:.0} s in all");
    Ok(())
}

pub(super) fn run(arguments: &AblationArguments, given: &dyn Fn(&str) -> bool) -> Result<()> {
    refuse(&DECIDED, given)?;
    refuse(&["menu", "fit_passes", "max_bitrate", "feedback_ms"], given)?;
    let usual = arguments.budget.calls();
    let common = arguments.common.settings(usual.clone(), &[])?;
    let calls = designs(&arguments.common.given().or(usual))?;
    announce(arguments.budget, &calls)?;
    let results = run_all("study salsify", &calls)?;
    let whole = results.first().map(|(scores, _)| scores.clone());
    let rows: Vec<Row> = DESIGNS
        .iter()
        .zip(&calls)
        .zip(results)
        .map(|(((design, _), call), (scores, coding_times))| Row {
            budget: arguments.budget,
            design,
            controller: call.control.controller.to_string(),
            codec: call.control.codec,
            as_published: call.control.as_published.map(|system| system.to_value()),
            coding_times,
            worse: whole.as_ref().map_or([false; 3], |whole| worse(whole, &scores)),
            scores,
        })
        .collect();

    print_line!("{} s of {} over {}\n", common.length.as_f64(), common.clip, common.link.trace.name());
    print_line!("delays are those of the frames displayed, as in the paper, and of every frame captured; choices are");
    print_line!("the shares of coded pictures of which the better, the worse or no version was sent\n");
    print_line!(
        "{:<34}{:>11}{:>10}{:>11}{:>10}{:>12}{:>7}{:>8}{:>9}{:>15}   worse in",
        "",
        "shown p50",
        "p95 (ms)",
        "every p50",
        "p95 (ms)",
        "SSIM (dB)",
        "p25",
        "Mb/s",
        "states",
        "choices (%)"
    );
    for Row { design, worse, scores, .. } in &rows {
        let names = ["p50", "p95", "SSIM"].into_iter().zip(worse).filter_map(|(name, &worse)| worse.then_some(name));
        let states = scores.states.map(|states| format!("{:.1}/{:.1}", states.sender, states.receiver));
        let choices = scores.choices.map(|choices| {
            let shares = [choices.better, choices.worse, choices.none].map(|share| format!("{:.0}", 100.0 * share));
            shares.join("/")
        });
        print_line!(
            "{design:<34}{:>11}{:>10}{:>11}{:>10}{:>12}{:>7}{:>8.2}{:>9}{:>15}   {}",
            figure(scores.displayed_delay_ms.map(|delay| delay.p50), 0),
            figure(scores.displayed_delay_ms.map(|delay| delay.p95), 0),
            figure(scores.video_delay_ms.map(|delay| delay.p50), 0),
            figure(scores.video_delay_ms.map(|delay| delay.p95), 0),
            figure(scores.ssim_db.map(|ssim| ssim.mean), 2),
            figure(scores.ssim_db.map(|ssim| ssim.p25), 1),
            scores.throughput_bps as f64 * 1e-6,
            states.unwrap_or_default(),
            choices.unwrap_or_default(),
            names.collect::<Vec<_>>().join(", ")
        );
    }
    write(arguments.common.json.as_ref(), &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn designs_differ_in_their_parts_alone() {
        let given = CallArguments { clip: Some("generated:640x360@30".into()), ..CallArguments::default() };
        let calls = designs(&given).unwrap();
        let grace = |at: usize| calls[at].control.controller.grace_period();
        assert_eq!(grace(0), Some(GracePeriod::Sender));
        assert_eq!((grace(2), grace(3)), (Some(GracePeriod::LinkIdle), Some(GracePeriod::None)));
        assert_eq!(calls[4].control.as_published, Some(AsPublished::SalsifyFrameTarget));
        assert_eq!(calls[5].control.as_published, Some(AsPublished::SalsifySecondTarget));
        assert_eq!(calls[6].control.codec, CodecKind::Conventional);
        let (one, two) = (calls[1].job_times(640 * 360).1, calls[0].job_times(640 * 360).1);
        assert!((one.first_job_ms - 9.0).abs() < 1e-6, "a quarter of the time of 1280x720: {}", one.first_job_ms);
        assert!(two.first_job_ms < one.first_job_ms);
    }
}
