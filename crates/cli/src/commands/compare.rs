//! `lockstep compare`: the same call in virtual and in real time, side by side.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Error, Result};
use clap::Args;
use serde::Serialize;

use lockstep_call::{CallObserver, Distribution, LoggedFrame, Scores};
use lockstep_units::Timestamp;

use crate::commands::call::{LiveCall, call};
use crate::commands::simulate::simulate;
use crate::configuration::{
    CallOptions, CallSettings, ClipName, ControlWords, LinkWords, Milliseconds, OptionValue, Seconds,
};
use crate::interruption::Interruption;
use crate::output_file::{self, write_json};
use crate::progress::warn_of_early_end;

/// What `lockstep compare` is told.
#[derive(Debug, Clone, Args)]
pub struct CompareArguments {
    /// The pictures, as for `lockstep call`.
    #[arg(long, default_value = "generated:640x360@30", value_parser = ClipName::from_word)]
    clip: ClipName,
    #[command(flatten)]
    link: LinkWords,
    #[command(flatten)]
    control: ControlWords,
    /// Scored length of each of the two calls.
    #[arg(long, default_value = "20", value_parser = Seconds::from_word)]
    seconds: Seconds,
    /// Where the numbers go, as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// One figure of both calls.
#[derive(Debug, Serialize)]
struct Row {
    figure: &'static str,
    /// None where nothing was shown.
    live: Option<f64>,
    simulated: Option<f64>,
    /// Simulated over live, less one.
    difference: Option<f64>,
}

/// How long the steps of a live call took, milliseconds.
struct StepTimes {
    encode: Distribution,
    decode: Distribution,
}

impl CallObserver for StepTimes {
    fn frame(&mut self, frame: &LoggedFrame) {
        let record = &frame.record;
        let milliseconds =
            |from: Option<Timestamp>, to: Option<Timestamp>| Some(to?.saturating_since(from?).as_secs_f64() * 1e3);
        if let Some(time) = milliseconds(record.encode_started_at, record.sent_at) {
            self.encode.add(time);
        }
        if let Some(time) = milliseconds(record.completed_at, record.displayed_at) {
            self.decode.add(time);
        }
    }
}

impl StepTimes {
    /// The medians of coding and of decoding.
    fn medians(&mut self) -> (f64, f64) {
        (self.encode.quantile(0.5).unwrap_or(0.0), self.decode.quantile(0.5).unwrap_or(0.0))
    }
}

/// A figure by its name.
type Figure = (&'static str, fn(&Scores) -> Option<f64>);

const FIGURES: [Figure; 12] = [
    ("video delay, mean (ms)", |scores| scores.video_delay_ms.map(|delay| delay.mean)),
    ("video delay, p95 (ms)", |scores| scores.video_delay_ms.map(|delay| delay.p95)),
    ("displayed delay, mean (ms)", |scores| scores.displayed_delay_ms.map(|delay| delay.mean)),
    ("displayed delay, p95 (ms)", |scores| scores.displayed_delay_ms.map(|delay| delay.p95)),
    ("throughput (kb/s)", |scores| Some(scores.throughput_bps as f64 * 1e-3)),
    ("SSIM, mean (dB)", |scores| scores.ssim_db.map(|ssim| ssim.mean)),
    ("frames sent", |scores| Some(scores.frames.sent as f64)),
    ("frames shown a second", |scores| Some(scores.frames_per_second)),
    ("harmonic frame rate (1/s)", |scores| scores.harmonic_frame_rate),
    ("longest freeze (s)", |scores| Some(scores.freezes.longest_seconds)),
    ("delay floor, p95 (ms)", |scores| scores.video_delay_floor_ms.map(|floor| floor.p95)),
    ("near the floor (%)", |scores| scores.near_floor.map(|share| 100.0 * share)),
];

fn rows(live: &Scores, simulated: &Scores) -> Vec<Row> {
    let row = |&(figure, value): &Figure| {
        let (live, simulated) = (value(live), value(simulated));
        let difference = live.zip(simulated).map(|(live, simulated)| simulated / live - 1.0);
        Row { figure, live, simulated, difference: difference.filter(|difference| difference.is_finite()) }
    };
    FIGURES.iter().map(row).collect()
}

fn shown(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}

/// `lockstep compare`.
pub fn run(arguments: &CompareArguments) -> Result<()> {
    let given = CallOptions {
        clip: Some(arguments.clip.clone()),
        seconds: Some(arguments.seconds),
        ..arguments.link.said().clone().or(arguments.control.said().clone())
    };
    let settings = given.settings()?;
    output_file::check(&[("--json", arguments.json.as_deref())], &settings.inputs())?;
    let times = Arc::new(Mutex::new(StepTimes {
        encode: Distribution::of_milliseconds(),
        decode: Distribution::of_milliseconds(),
    }));
    let live = LiveCall { settings: settings.clone(), sink: "none".to_owned() };
    let interruption = Interruption::watch()?;
    let live = call(&live, &interruption, Some(Box::new(times.clone())))?;
    // A call that failed or was cut short is no measure for a simulated one.
    if let Some(problem) = live.problem {
        return Err(problem);
    }
    drop(interruption);
    // Virtual time knows nothing of this machine's speed; it is told what the live call measured.
    let (encode_ms, decode_ms) = times.lock().map(|mut times| times.medians()).unwrap_or_default();
    let time = |milliseconds: f64| Milliseconds::new(Duration::from_secs_f64(milliseconds / 1e3)).map_err(Error::msg);
    let settings = CallSettings { encode_time: time(encode_ms)?, decode_time: time(decode_ms)?, ..settings };
    let simulated = simulate(&settings, None)?;
    let rows = rows(&live.report.scores, &simulated.report.scores);
    warn_of_early_end(settings.length.as_f64(), &live.report.scores);
    say!("coding took {encode_ms:.1} ms a picture, decoding {decode_ms:.1} ms\n");
    say!("{:<28}{:>12}{:>12}{:>12}", "", "live", "simulated", "difference");
    for Row { figure, live, simulated, difference } in &rows {
        let (live, simulated) = (shown(*live, 2), shown(*simulated, 2));
        say!("{figure:<28}{live:>12}{simulated:>12}{:>10} %", shown(difference.map(|share| 100.0 * share), 1));
    }
    if let Some(path) = &arguments.json {
        write_json(path, &rows)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lockstep_call::{CallLog, SeriesRecorder};
    use lockstep_units::ByteCount;

    use super::*;

    #[test]
    fn a_call_that_showed_nothing_is_compared_by_what_there_is() {
        let length = Duration::from_secs(1);
        let log = CallLog::new(Timestamp::ZERO, length, Duration::from_millis(33));
        let recorder = SeriesRecorder::new(Timestamp::ZERO, length);
        let scores = log.finish(recorder, |_, _| ByteCount::ZERO).scores;
        let rows = rows(&scores, &scores);
        assert_eq!((rows[0].live, rows[0].difference), (None, None));
        let sent = rows.iter().find(|row| row.figure == "frames sent").expect("a figure");
        assert_eq!((sent.live, sent.difference), (Some(0.0), None));
    }
}
