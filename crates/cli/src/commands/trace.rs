//! `lockstep trace`: describes and converts capacity traces.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;

use lockstep_configuration::{Milliseconds, OptionValue, Seconds, TraceName, open_trace};
use lockstep_link::{LinkConfig, Trace};
use lockstep_measure::VideoDelayFloor;
use lockstep_media::FrameRate;
use lockstep_runner::output_file::{self, is_standard_output, write_text};
use lockstep_units::{Bitrate, Timestamp};

/// Arguments of `lockstep trace`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Generated traces:
  constant:500kbps                    constant rate
  constant:500kbps,outage=10s+1s      outage from 10 s to 11 s
  steps:1mbps@40s/2.5mbps@20s         one rate after another
  ramp:100kbps-5mbps,duration=30s     from one rate to another
  onoff:500kbps,on=1s,off=5s          total loss for 1 s, none for 5 s, on average
  poisson:570kbps,seed=1              delivery opportunities of a Poisson process
  cellular:mean=4mbps,seed=1          a Markov chain of rates, like a cellular link
  fitted:family=lte,seed=1            like recordings of LTE; also umts, broadband, wifi, wired
  fitted:family=./mine.json,seed=1    like recordings in a family file of `lockstep data fit`
                                      (a path with a / or ending in .json; name= selects a family)
All take outage=START+LENGTH, loss=, delay=, jitter= and end=repeat|hold.")]
pub struct TraceArguments {
    /// Trace file or generated trace.
    trace: String,
    /// Output file: mahimahi for .up, .down, .trace and standard output (`-`), AlphaRTC for .json, seconds and Mb/s for
    /// .csv.
    #[arg(long)]
    output: Option<PathBuf>,
    /// Length to describe, from the start; one period of the trace if not given.
    #[arg(long, value_parser = Seconds::from_word)]
    seconds: Option<Seconds>,
    /// Interval of .json and .csv output, milliseconds.
    #[arg(long, default_value = "200", value_parser = Milliseconds::from_word)]
    interval_ms: Milliseconds,
    /// Print the minimum video delay: that of frames of one small packet on the idle link. It covers every capture of
    /// the described length, at most one day.
    #[arg(long)]
    floor: bool,
    /// Propagation delay, milliseconds.
    #[arg(long, default_value = "20", value_parser = Milliseconds::from_word, requires = "floor")]
    delay_ms: Milliseconds,
    /// Captures per second.
    #[arg(long, default_value_t = FrameRate::default(), requires = "floor")]
    rate: FrameRate,
    /// Minimum coding time of a picture, as `coding_times` in a report of `simulate`.
    #[arg(long, default_value = "7.2", value_parser = Milliseconds::from_word, requires = "floor")]
    encode_ms: Milliseconds,
    /// Decoding time of a frame, milliseconds.
    #[arg(long, default_value = "3", value_parser = Milliseconds::from_word, requires = "floor")]
    decode_ms: Milliseconds,
}

/// Longest time for the minimum video delay: one day, the maximum length of a call.
const MAX_FLOOR_TIME: Duration = Duration::from_secs(86_400);

/// Characters of a bar, from empty to full.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Maximum width of the drawing.
const COLUMNS: u32 = 72;

/// Prints the minimum video delay over the first `length` of `trace`.
fn print_floor(arguments: &TraceArguments, trace: &Trace, length: Duration) {
    let link = LinkConfig { delay: arguments.delay_ms.get(), ..LinkConfig::new(trace.clone()) };
    let floor =
        VideoDelayFloor::new(&link, Timestamp::ZERO).with_coding(arguments.encode_ms.get(), arguments.decode_ms.get());
    let captures = (0u64..).map(|index| arguments.rate.time_of(index));
    let captures = captures.take_while(|&at| at < length.min(MAX_FLOOR_TIME)).map(|at| Timestamp::ZERO + at);
    match floor.over(captures) {
        Some(delay) => {
            print_line!(
                "video delay floor   p50 {:.1} ms   mean {:.1} ms   p95 {:.1} ms",
                delay.p50,
                delay.mean,
                delay.p95
            );
        }
        None => print_line!("video delay floor   none: nothing ever passes"),
    }
}

/// `lockstep trace`.
pub fn run(arguments: &TraceArguments) -> Result<()> {
    output_file::check(
        &[("--output", arguments.output.as_deref())],
        &[TraceName::from(arguments.trace.as_str()).as_path()],
    )?;
    let trace = open_trace(&arguments.trace)?;
    let length = arguments.seconds.map_or_else(|| trace.period(), Seconds::get);
    let start = Timestamp::ZERO;
    // Delivery opportunities come at whole milliseconds: shorter columns would be empty or too full.
    //
    // The last column ends with the described length.
    let columns = (length.as_millis() as u32).clamp(1, COLUMNS);
    let edge = |index: u32| start + length * index / columns;
    let rates: Vec<Bitrate> = (0..columns).map(|index| trace.mean_capacity(edge(index), edge(index + 1))).collect();
    let most = rates.iter().copied().max().unwrap_or(Bitrate::ZERO);
    let drawing: String = rates
        .iter()
        .map(|rate| {
            let level = rate.as_bps().saturating_mul(BARS.len() as u64 - 1) / most.as_bps().max(1);
            BARS[(level as usize).min(BARS.len() - 1)]
        })
        .collect();
    let column = length / columns;
    let digits = if length < Duration::from_millis(100) { 3 } else { 1 };
    let column_digits = if column < Duration::from_millis(100) { 3 } else { 2 };
    print_line!("{}", trace.summary());
    print_line!(
        "{:.digits$} s   mean {}   lowest {}   highest {} (each over {:.column_digits$} s)",
        length.as_secs_f64(),
        trace.mean_capacity(start, start + length),
        rates.iter().copied().min().unwrap_or(Bitrate::ZERO),
        most,
        column.as_secs_f64(),
    );
    print_line!("{drawing}");
    if arguments.floor {
        print_floor(arguments, &trace, length);
    }
    let Some(path) = &arguments.output else { return Ok(()) };
    let interval = arguments.interval_ms.get();
    let text = match path.extension().and_then(|extension| extension.to_str()) {
        Some("up" | "down" | "trace") => trace.to_mahimahi(),
        Some("json") => trace.to_alphartc_json(interval),
        Some("csv") => trace.to_csv(interval),
        _ if is_standard_output(path) => trace.to_mahimahi(),
        _ => bail!("{}: the name must end in .up, .down, .trace, .json or .csv", path.display()),
    };
    write_text(path, &text.with_context(|| format!("cannot write {}", path.display()))?)?;
    print_line!("written to {}", path.display());
    Ok(())
}
