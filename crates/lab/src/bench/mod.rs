//! `lockstep bench`: how good and how fast the parts are, as ratios to a yardstick in the same run.

mod call;
mod clip;
mod codec;
mod encode_time;
mod sim;

use std::time::Instant;

use anyhow::Result;
use clap::{Args, Subcommand};

use lockstep_call::quantile;

/// What `lockstep bench` is told.
#[derive(Args)]
pub struct BenchArguments {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand)]
enum Bench {
    /// Video delay and quality of calls over the same links with this codec and with libvpx as a conventional codec.
    Call(call::CallCommand),
    /// Size at equal quality and speed of the codec over a set of clips, beside libvpx.
    Codec(codec::CodecArguments),
    /// How long this machine takes to code pictures, by their size, preset and what is done with them: a file for
    /// `--encode-time` of calls in virtual time.
    EncodeTime(encode_time::EncodeTimeArguments),
    /// Virtual seconds that the simulator runs in a second on one core, with the modelled and with the real codec.
    Sim(sim::SimArguments),
}

/// `lockstep bench`.
pub fn run(arguments: &BenchArguments) -> Result<()> {
    match &arguments.bench {
        Bench::Call(arguments) => call::run(arguments),
        Bench::Codec(arguments) => codec::run(arguments),
        Bench::EncodeTime(arguments) => encode_time::run(arguments),
        Bench::Sim(arguments) => sim::run(arguments),
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    quantile(&sorted, 0.5).unwrap_or(f64::NAN)
}

/// Seconds for which this thread has had a core; none where the system does not say.
#[cfg(unix)]
fn core_seconds() -> Option<f64> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Some(time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9)
}

/// Seconds for which this thread has had a core; none where the system does not say.
#[cfg(not(unix))]
fn core_seconds() -> Option<f64> {
    None
}

/// A clock that has been started.
struct Stopwatch {
    core: Option<f64>,
    wall: Instant,
}

impl Stopwatch {
    /// Starts one.
    fn start() -> Self {
        Self { core: core_seconds(), wall: Instant::now() }
    }

    /// Seconds since then for which this thread had a core, where the system says; on the wall elsewhere.
    fn seconds(&self) -> f64 {
        let core = self.core.zip(core_seconds()).map(|(before, now)| now - before);
        core.unwrap_or_else(|| self.wall.elapsed().as_secs_f64())
    }
}
