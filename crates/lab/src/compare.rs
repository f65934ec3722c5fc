//! `lockstep compare`: runs the same call in virtual and in real time, and compares them.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Error, Result};
use clap::Args;
use serde::Serialize;

use lockstep_call::{Distribution, EncodeWork};
use lockstep_configuration::{
    CallArguments, CallSettings, ClipName, ControlArguments, EncodeTimeSettings, LinkArguments, Milliseconds,
    Observers, OptionValue, Seconds,
};
use lockstep_measure::{CodingTimes, FrameObserver, LoggedFrame, Scores};
use lockstep_media::{SourceOptions, source_format};
use lockstep_runner::call::{LiveCall, call};
use lockstep_runner::interruption::Interruption;
use lockstep_runner::output_file::{self, write_json};
use lockstep_runner::progress::figure;
use lockstep_runner::progress::warn_of_early_end;
use lockstep_runner::session_log::arguments::SessionArguments;
use lockstep_runner::simulate;
use lockstep_units::Timestamp;

/// Arguments of `lockstep compare`.
#[derive(Debug, Clone, Args)]
pub struct CompareArguments {
    /// The pictures, as in `lockstep call`.
    #[arg(long, default_value = "generated:640x360@30", value_parser = ClipName::from_word)]
    clip: ClipName,
    #[command(flatten)]
    link: LinkArguments,
    #[command(flatten)]
    control: ControlArguments,
    /// Scored length of each of the two calls.
    #[arg(long, default_value = "20", value_parser = Seconds::from_word)]
    seconds: Seconds,
    /// Write the numbers to this file as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// One score of both calls.
#[derive(Debug, Serialize)]
struct Row {
    figure: &'static str,
    /// None if no picture was shown.
    live: Option<f64>,
    simulated: Option<f64>,
    /// Simulated divided by live, minus one.
    difference: Option<f64>,
}

/// Times of the steps of a live call, milliseconds.
struct StepTimes {
    /// First encoder job on a picture. A picture that was encoded more than once is not measured: its first job took
    /// longer.
    first_work: EncodeWork,
    encode: Distribution,
    decode: Distribution,
}

impl FrameObserver for StepTimes {
    fn frame(&mut self, frame: &LoggedFrame) {
        let record = &frame.record;
        let milliseconds =
            |from: Option<Timestamp>, to: Option<Timestamp>| Some(to?.saturating_since(from?).as_secs_f64() * 1e3);
        let one_job = self.first_work != EncodeWork::FirstPass || record.candidates.len() == 1;
        if let Some(time) = milliseconds(record.encode_started_at, record.sent_at).filter(|_| one_job) {
            self.encode.add(time);
        }
        if let Some(time) = milliseconds(record.completed_at, record.displayed_at) {
            self.decode.add(time);
        }
    }
}

impl StepTimes {
    /// Medians of the first encoder job and of decoding. None for steps that did not occur.
    fn medians(&mut self) -> (Option<f64>, Option<f64>) {
        (self.encode.quantile(0.5), self.decode.quantile(0.5))
    }
}

/// A score and its name.
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

/// Describes the coding times of the simulated call and their source.
fn describe_coding_times(
    times: Option<&CodingTimes>,
    first_work: EncodeWork,
    measured: bool,
    decode_ms: f64,
) -> String {
    let Some(CodingTimes { machine, first_job_ms, later_pass_ms }) = times else { return String::new() };
    let processor = &machine.processor;
    let work = match first_work {
        EncodeWork::OneFrame => "coding a picture",
        EncodeWork::FirstPass | EncodeWork::LaterPass => "coding a picture for the first time",
        EncodeWork::SerialMenu | EncodeWork::ParallelMenu => "coding the two candidates of a picture",
    };
    let from = if measured { "the live call's median".to_owned() } else { format!("as on {processor}") };
    let later = if first_work == EncodeWork::FirstPass {
        format!(", each time more {later_pass_ms:.1} ms (in the proportion measured on {processor})")
    } else {
        String::new()
    };
    format!("simulated with {first_job_ms:.1} ms for {work} ({from}){later}, {decode_ms:.1} ms for decoding one")
}

/// A live call, and the same call in virtual time with the measured coding times.
pub struct LiveAndSimulated {
    /// Scores of the live call.
    pub live: Scores,
    /// Scores of the simulated call.
    pub simulated: Scores,
    /// Coding times of the simulated call.
    coding_times: String,
}

/// Runs `settings` as a live call over the emulator, and again in virtual time.
pub fn both_ways(settings: &CallSettings) -> Result<LiveAndSimulated> {
    let first_work = settings.control.first_work();
    let times = Arc::new(Mutex::new(StepTimes {
        first_work,
        encode: Distribution::of_milliseconds(),
        decode: Distribution::of_milliseconds(),
    }));
    let live = LiveCall {
        settings: settings.clone(),
        sink: "none".to_owned(),
        audio_output: None,
        session: SessionArguments::default(),
        decisions: None,
    };
    let interruption = Interruption::watch()?;
    let live = call(&live, &interruption, Some(Box::new(times.clone())), None)?;
    // A failed or interrupted call is no reference for a simulated one.
    if let Some(problem) = live.problem {
        return Err(problem);
    }
    drop(interruption);
    // The simulation does not know the speed of this machine, so it uses the measured coding times.
    let (first_job_ms, decode_ms) = times.lock().map(|mut times| times.medians()).unwrap_or_default();
    let duration = |milliseconds: f64| Duration::from_secs_f64(milliseconds / 1e3);
    let time = |time: Duration| Milliseconds::new(time).map_err(Error::msg);
    let format = source_format(settings.clip.as_str(), &SourceOptions::default())?;
    let (measured, _) = settings.job_times(format.width * format.height);
    let level = settings.control.preset.first_level();
    let menu = first_job_ms
        .map(|time| measured.scaled_to(first_work, level, duration(time)).of(EncodeWork::SerialMenu, level));
    let settings = CallSettings {
        encode_time: EncodeTimeSettings { menu: menu.map(time).transpose()?, ..settings.encode_time.clone() },
        decode_time: time(duration(decode_ms.unwrap_or(0.0)))?,
        ..settings.clone()
    };
    let simulated = simulate(&settings, Observers::default())?.report;
    let times = simulated.coding_times.as_ref();
    let coding_times = describe_coding_times(times, first_work, first_job_ms.is_some(), decode_ms.unwrap_or(0.0));
    Ok(LiveAndSimulated { live: live.report.scores, simulated: simulated.scores, coding_times })
}

/// `lockstep compare`.
pub fn run(arguments: &CompareArguments) -> Result<()> {
    let given = CallArguments {
        clip: Some(arguments.clip.clone()),
        seconds: Some(arguments.seconds),
        ..arguments.link.given().clone().or(arguments.control.given().clone())
    };
    let settings = given.settings()?;
    output_file::check(&[("--json", arguments.json.as_deref())], &settings.inputs())?;
    let LiveAndSimulated { live, simulated, coding_times } = both_ways(&settings)?;
    let rows = rows(&live, &simulated);
    warn_of_early_end(settings.length.as_f64(), &live);
    print_line!("{coding_times}\n");
    print_line!("{:<28}{:>12}{:>12}{:>12}", "", "live", "simulated", "difference");
    for Row { figure: name, live, simulated, difference } in &rows {
        let (live, simulated) = (figure(*live, 2), figure(*simulated, 2));
        let difference = difference.map(|share| format!("{:.1} %", 100.0 * share));
        print_line!("{name:<28}{live:>12}{simulated:>12}{:>12}", difference.as_deref().unwrap_or("-"));
    }
    if let Some(path) = &arguments.json {
        write_json(path, &rows)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lockstep_call::FrameRecord;
    use lockstep_measure::{CallLog, Machine, SeriesRecorder};
    use lockstep_units::ByteCount;

    use super::*;

    #[test]
    fn call_without_shown_pictures_is_compared_by_other_scores() {
        let length = Duration::from_secs(1);
        let log = CallLog::new(Timestamp::ZERO, length, Duration::from_millis(33));
        let recorder = SeriesRecorder::new(Timestamp::ZERO, length);
        let scores = log.finish(recorder, |_, _| ByteCount::ZERO).scores;
        let rows = rows(&scores, &scores);
        assert_eq!((rows[0].live, rows[0].difference), (None, None));
        let sent = rows.iter().find(|row| row.figure == "frames sent").expect("a figure");
        assert_eq!((sent.live, sent.difference), (Some(0.0), None));
    }

    #[test]
    fn example_of_the_page_has_every_score() {
        let page = include_str!("../../../docs/concepts/virtual-time.md");
        let example = page.split("$ lockstep compare").nth(1).and_then(|rest| rest.split("```").next());
        let example = example.expect("the page shows a comparison");
        for (figure, _) in FIGURES {
            assert!(example.contains(&format!("\n{figure}  ")), "{figure}");
        }
    }

    #[test]
    fn only_pictures_coded_once_measure_the_first_pass() {
        let mut times = StepTimes {
            first_work: EncodeWork::FirstPass,
            encode: Distribution::of_milliseconds(),
            decode: Distribution::of_milliseconds(),
        };
        for (passes, taken) in [(1, 5), (2, 9), (3, 13), (1, 5), (2, 9)] {
            let mut record = FrameRecord::captured(0, Timestamp::ZERO);
            record.encode_started_at = Some(Timestamp::ZERO);
            record.sent_at = Some(Timestamp::from_millis(taken));
            record.candidates = vec![ByteCount::new(1_000); passes];
            times.frame(&LoggedFrame { record, video_delay: Duration::ZERO, followed: true });
        }
        assert_eq!(times.medians(), (Some(5.0), None));
        let coding_times = CodingTimes {
            machine: Machine { processor: "an abacus".to_owned(), cores: 1 },
            first_job_ms: 5.0,
            later_pass_ms: 3.0,
        };
        let said = describe_coding_times(Some(&coding_times), EncodeWork::FirstPass, true, 1.0);
        assert!(said.contains("5.0 ms for coding a picture for the first time (the live call's median)"), "{said}");
        assert!(said.contains("each time more 3.0 ms"), "{said}");
        assert!(
            !describe_coding_times(Some(&coding_times), EncodeWork::OneFrame, true, 1.0).contains("each time more")
        );
    }
}
