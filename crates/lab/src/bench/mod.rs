//! `lockstep bench`: quality and speed of the parts, relative to a reference in the same run.

mod call;
mod clip;
mod codec;
mod encode_time;
mod sim;
mod sound;

use std::time::Instant;

use anyhow::Result;
use clap::{Args, Subcommand};

use lockstep_call::quantile;

/// Arguments of `lockstep bench`.
#[derive(Args)]
pub struct BenchArguments {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand)]
enum Bench {
    /// Video delay and quality of calls with this codec and with libvpx as a conventional codec.
    Call(call::CallCommand),
    /// Size at equal quality and speed of the codec, compared with libvpx over several clips.
    Codec(codec::CodecArguments),
    /// Coding times of this machine by picture size, preset and kind of work: a file for `--encode-time` of calls in
    /// virtual time.
    EncodeTime(encode_time::EncodeTimeArguments),
    /// Virtual seconds per second of the simulator on one core, with the modelled and with the real codec.
    Sim(sim::SimArguments),
    /// Echo, noise and double talk in simulated rooms, through the processing of a microphone in calls.
    Sound(sound::SoundArguments),
}

/// `lockstep bench`.
pub fn run(arguments: &BenchArguments) -> Result<()> {
    match &arguments.bench {
        Bench::Call(arguments) => call::run(arguments),
        Bench::Codec(arguments) => codec::run(arguments),
        Bench::EncodeTime(arguments) => encode_time::run(arguments),
        Bench::Sim(arguments) => sim::run(arguments),
        Bench::Sound(arguments) => sound::run(arguments),
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    quantile(&sorted, 0.5).unwrap_or(f64::NAN)
}

/// Processor time of this thread, seconds. None if the system does not report it.
#[cfg(unix)]
fn core_seconds() -> Option<f64> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Some(time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9)
}

/// Processor time of this thread, seconds. None if the system does not report it.
#[cfg(not(unix))]
fn core_seconds() -> Option<f64> {
    None
}

/// A running stopwatch.
struct Stopwatch {
    core: Option<f64>,
    wall: Instant,
}

impl Stopwatch {
    /// Starts a stopwatch.
    fn start() -> Self {
        Self { core: core_seconds(), wall: Instant::now() }
    }

    /// Processor time of this thread since the start, seconds. Wall time if the system does not report it.
    fn seconds(&self) -> f64 {
        let core = self.core.zip(core_seconds()).map(|(before, now)| now - before);
        core.unwrap_or_else(|| self.wall.elapsed().as_secs_f64())
    }
}
