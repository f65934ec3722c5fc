//! `lockstep bench sim`: speed of calls in virtual time relative to real time, on one core.
//!
//! The clock is processor time on Linux, so that other programs on the machine have little influence. Other systems use
//! wall time.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;

use lockstep_call::{FunctionalEncoder, MenuMode, Preset, ReceivingEnd, SendingEnd, Tuning, Vp8, announced};
use lockstep_control::{Algorithm, ControllerSetup};
use lockstep_link::{Link, LinkConfig, REVERSE_CAPACITY, Trace};
use lockstep_media::{GeneratedClip, GeneratedSource, VideoFormat};
use lockstep_runner::output_file::{self, write_json};
use lockstep_runner::progress::Progress;
use lockstep_sim::modelled::{FeedbackInterval, ModelledSetting};
use lockstep_sim::{
    ClipCurves, CodecModel, EncodeTime, ModelledClip, Network, SharedLink, Simulation, SimulationOptions,
};
use lockstep_transport::{ReceiverConfig, SenderConfig};
use lockstep_units::{Bitrate, ByteCount, Timestamp};
use lockstep_vp8::Parameters;

use super::{Stopwatch, core_seconds, median};

/// Arguments of `lockstep bench sim`.
#[derive(Args)]
pub(super) struct SimArguments {
    /// Rounds; the median counts. Each round runs every kind of call once.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Write the numbers to this file as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Picture size of the calls with the real codec.
const REAL_SIZE: (usize, usize) = (640, 360);
/// Virtual length of a modelled call, seconds. It runs for almost a second.
const MODELLED_SECONDS: u64 = 6_000;
/// Virtual length of a call with the real codec, seconds. It runs for almost a second.
const REAL_SECONDS: u64 = 10;

/// Kind of call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Fixed 1 Mb/s, feedback every 50 ms, modelled codec.
    Modelled,
    /// Salsify over a link of 1 Mb/s, normal feedback, modelled codec.
    ModelledSalsify,
    /// Salsify over a link of 1 Mb/s with the real codec and its wire format at 640x360.
    Real,
}

/// Speed of one kind of call.
#[derive(Debug, Serialize)]
struct Speed {
    call: &'static str,
    /// Length of the call in virtual time.
    virtual_seconds: u64,
    /// Bit rate delivered by the link.
    throughput_bps: u64,
    /// Virtual seconds per second, median of the rounds.
    times_real_time: f64,
    slowest: f64,
    fastest: f64,
    /// Packets delivered by the forward link per second, in millions.
    million_packets_per_second: f64,
}

/// Results of all rounds.
#[derive(Debug, Serialize)]
struct SimReport {
    /// `core` for processor time, `wall` for wall time.
    clock: &'static str,
    rounds: u32,
    calls: Vec<Speed>,
}

/// One round of one kind of call.
struct Run {
    /// Time spent, seconds.
    spent: f64,
    packets: u64,
    bytes: ByteCount,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Modelled, Self::ModelledSalsify, Self::Real];

    fn name(self) -> &'static str {
        match self {
            Self::Modelled => "modelled, fixed 1 Mb/s",
            Self::ModelledSalsify => "modelled, salsify on 1 Mb/s",
            Self::Real => "real codec 640x360, salsify on 1 Mb/s",
        }
    }

    fn seconds(self) -> u64 {
        if self == Self::Real { REAL_SECONDS } else { MODELLED_SECONDS }
    }

    fn run(self) -> Result<Run> {
        match self {
            Self::Modelled => modelled(
                Algorithm::Fixed(Bitrate::from_kbps(1_000)),
                FeedbackInterval::Every(Duration::from_millis(50)),
            ),
            Self::ModelledSalsify => modelled("salsify".parse()?, FeedbackInterval::default()),
            Self::Real => real(),
        }
    }
}

fn link<P: Clone>(capacity: Bitrate) -> Result<SharedLink<P>> {
    let config = LinkConfig { delay: Duration::from_millis(20), ..LinkConfig::new(Trace::constant(capacity)) };
    Ok(Link::new(config, 1)?)
}

fn modelled(algorithm: Algorithm, feedback: FeedbackInterval) -> Result<Run> {
    let setting = ModelledSetting { feedback, ..ModelledSetting::new() };
    let control = ControllerSetup::new(setting.payload, setting.frame_interval());
    let model = CodecModel::built_in()?;
    let clip = model.clips.first().context("the built-in model has no clip")?;
    let curves = Arc::new(ClipCurves::new(clip, 1280, 720));
    let clip = ModelledClip::new(curves, setting.frame_interval(), 1);
    let call = setting.call(algorithm.controller(&control)?, algorithm.estimator(control.bounds), clip).unlogged();
    // Fixed rates vary around their mean. The spare capacity keeps their queue from growing.
    let capacity = if matches!(algorithm, Algorithm::Fixed(_)) { 1_200 } else { 1_000 };
    let mut network = Network::new(vec![call], link(Bitrate::from_kbps(capacity))?, link(REVERSE_CAPACITY)?);
    let started = Stopwatch::start();
    network.run_until(Timestamp::from_millis(MODELLED_SECONDS * 1_000));
    let spent = started.seconds();
    let delivered = network.links().first().context("the network has no link")?.statistics().delivered;
    Ok(Run { spent, packets: delivered.packets, bytes: delivered.bytes })
}

fn real() -> Result<Run> {
    let format = VideoFormat { width: REAL_SIZE.0, height: REAL_SIZE.1, ..VideoFormat::default() };
    let transport = SenderConfig::new(1, announced(&format));
    let algorithm: Algorithm = "salsify".parse()?;
    let setting = ControllerSetup::new(ByteCount::new(transport.payload as u64), format.frame_interval());
    let encoder = FunctionalEncoder::<Vp8>::new(Parameters::default(), MenuMode::default(), &Tuning::default());
    let sender = SendingEnd::new(transport, algorithm.controller(&setting)?, Box::new(encoder), &Tuning::default())
        .with_preset(Preset::REAL_TIME, setting.latency);
    let receiver = ReceivingEnd::new(ReceiverConfig::default(), algorithm.estimator(setting.bounds));
    let options = SimulationOptions {
        length: Duration::from_secs(REAL_SECONDS),
        job_times: EncodeTime::built_in()?.job_times(REAL_SIZE.0 * REAL_SIZE.1),
        decode_time: Duration::from_millis(3),
    };
    let source = Box::new(GeneratedSource::new(GeneratedClip::new(format, 1)?));
    let (forward, reverse) = (link(Bitrate::from_kbps(1_000))?, link(REVERSE_CAPACITY)?);
    let simulation = Simulation::new(sender, receiver, source, forward, reverse, &options);
    let started = Stopwatch::start();
    let result = simulation.run(|_, _| Ok(()))?;
    let spent = started.seconds();
    Ok(Run { spent, packets: result.forward.delivered.packets, bytes: result.forward.delivered.bytes })
}

fn speed(kind: Kind, runs: &[Run]) -> Speed {
    let ratios: Vec<f64> = runs.iter().map(|run| kind.seconds() as f64 / run.spent).collect();
    let packets: Vec<f64> = runs.iter().map(|run| run.packets as f64 * 1e-6 / run.spent).collect();
    let bytes = runs.first().map_or(ByteCount::ZERO, |run| run.bytes);
    Speed {
        call: kind.name(),
        virtual_seconds: kind.seconds(),
        throughput_bps: Bitrate::mean(bytes, Duration::from_secs(kind.seconds())).as_bps(),
        times_real_time: median(&ratios),
        slowest: ratios.iter().copied().fold(f64::INFINITY, f64::min),
        fastest: ratios.iter().copied().fold(0.0, f64::max),
        million_packets_per_second: median(&packets),
    }
}

/// `lockstep bench sim`.
pub(super) fn run(arguments: &SimArguments) -> Result<()> {
    output_file::check(&[("--json", arguments.json.as_deref())], &[])?;
    let mut progress = Progress::new("bench sim", u64::from(arguments.rounds));
    let mut runs: [Vec<Run>; Kind::ALL.len()] = Default::default();
    for round in 0..arguments.rounds {
        progress.update(u64::from(round), &format!("round {} of {}", round + 1, arguments.rounds));
        for (kind, runs) in Kind::ALL.into_iter().zip(&mut runs) {
            runs.push(kind.run()?);
        }
    }
    progress.finish();
    let speeds: Vec<Speed> = Kind::ALL.into_iter().zip(&runs).map(|(kind, runs)| speed(kind, runs)).collect();
    print_line!("{:<40}{:>16}{:>22}{:>14}{:>12}", "call", "x real time", "slowest to fastest", "M packets/s", "rate");
    for Speed { call, times_real_time, slowest, fastest, million_packets_per_second, throughput_bps, .. } in &speeds {
        let range = format!("{slowest:.0} - {fastest:.0}");
        let rate = Bitrate::from_bps(*throughput_bps).to_string();
        print_line!("{call:<40}{times_real_time:>16.0}{range:>22}{million_packets_per_second:>14.2}{rate:>12}");
    }
    if let Some(path) = &arguments.json {
        let clock = if core_seconds().is_some() { "core" } else { "wall" };
        write_json(path, &SimReport { clock, rounds: arguments.rounds, calls: speeds })?;
        print_line!("numbers in {}", path.display());
    }
    Ok(())
}
