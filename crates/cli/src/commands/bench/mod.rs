//! `lockstep bench`: how good and how fast the parts are, as ratios to a yardstick in the same run.

mod codec;
mod sim;

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
    /// Size at equal quality and speed of the codec, beside libvpx's vpxenc and vpxdec.
    Codec(codec::CodecArguments),
    /// Virtual seconds that the simulator runs in a second on one core, with the modelled and with the real codec.
    Sim(sim::SimArguments),
}

/// `lockstep bench`.
pub fn run(arguments: &BenchArguments) -> Result<()> {
    match &arguments.bench {
        Bench::Codec(arguments) => codec::run(arguments),
        Bench::Sim(arguments) => sim::run(arguments),
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    quantile(&sorted, 0.5).unwrap_or(f64::NAN)
}
