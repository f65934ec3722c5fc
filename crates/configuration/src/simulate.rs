//! A call in virtual time: how it runs, and what it leaves.

use anyhow::Result;

use lockstep_alphartc::EstimatorHost;
use lockstep_call::{CallObserver, CallReport, CodecModel, VideoDelayFloor};
use lockstep_control::KnownPath;
use lockstep_media::{SourceOptions, VmafMeter, open_source};
use lockstep_sim::{Simulation, SimulationOptions, StopReason};
use lockstep_units::{Bitrate, Timestamp};
use lockstep_vp8::DEFAULT_PIXEL_LIMIT;

use crate::estimator::CallEstimator;
use crate::{CallSettings, ControlSettings, counters, simulate_modelled_with};

/// How a simulation goes.
#[derive(Debug, Clone, Copy)]
pub struct SimulationStatus {
    /// The virtual time.
    pub now: Timestamp,
    /// The controller's target.
    pub target: Bitrate,
    /// Quantizer index of the newest frame.
    pub quantizer: Option<u8>,
}

/// A finished simulation.
#[derive(Debug)]
pub struct Simulated {
    /// Scores, counters and series.
    pub report: CallReport<CallSettings>,
}

/// Runs the simulation that `settings` describe. `progress` hears of it once a frame interval, and may end it.
///
/// # Errors
/// If clip, trace or link cannot be had, if the source fails, or if `progress` does.
pub fn simulate(
    settings: &CallSettings,
    progress: impl FnMut(&SimulationStatus) -> Result<(), StopReason>,
) -> Result<Simulated> {
    simulate_with(settings, None, None, progress)
}

/// The same with the estimator that lives at `host`, if one is given, instead of that which `settings` name; and heard by
/// `observer`.
///
/// # Errors
/// As [`simulate`]; if the estimator fails, its error as [`SimulationError::Stopped`](lockstep_sim::SimulationError).
pub fn simulate_with(
    settings: &CallSettings,
    host: Option<Box<dyn EstimatorHost>>,
    observer: Option<Box<dyn CallObserver>>,
    mut progress: impl FnMut(&SimulationStatus) -> Result<(), StopReason>,
) -> Result<Simulated> {
    if settings.modelled {
        return simulate_modelled_with(settings, &CodecModel::built_in()?, host, observer, progress);
    }
    let (settings, CallEstimator { estimator, failure }) = settings.with_estimator(host)?;
    let seed = settings.link.seed;
    let source = open_source(settings.clip.as_str(), &SourceOptions { seed, ..SourceOptions::default() })?;
    let (forward, reverse) = settings.link.links()?;
    let format = source.format();
    let (job_times, coding_times) = settings.job_times(format.width * format.height);
    let options =
        SimulationOptions { length: settings.length.get(), job_times, decode_time: settings.decode_time.get() };
    let first_job_time = job_times.of(settings.control.first_work());
    let floor =
        VideoDelayFloor::new(forward.config(), Timestamp::ZERO).with_coding(first_job_time, options.decode_time);
    let path = KnownPath { trace: settings.link.trace.trace().clone(), start: Timestamp::ZERO };
    let sender = settings.control.sending_end(&format, seed as u32, Some(path))?;
    // Both ends are ours: whatever the clip's size, it is decoded.
    let limit = DEFAULT_PIXEL_LIMIT.max(format.width * format.height);
    let receiver = ControlSettings::receiving_end_with(estimator).with_pixel_limit(limit);
    let mut simulation = Simulation::new(sender, receiver, source, forward, reverse, &options).compared_with(floor);
    if let Some(observer) = observer {
        simulation = simulation.observed_by(observer);
    }
    if settings.vmaf {
        simulation = simulation.measuring_vmaf(VmafMeter::start(format));
    }
    let result = simulation.run(|now, sender| {
        failure.check()?;
        let status = sender.status(now);
        progress(&SimulationStatus { now, target: status.target, quantizer: status.quantizer })
    })?;
    let report = CallReport {
        coding_times: Some(coding_times),
        lockstep: env!("CARGO_PKG_VERSION").to_owned(),
        kind: "simulate".to_owned(),
        seed,
        config: settings,
        scores: result.scores,
        counters: [
            ("sender".to_owned(), counters(&result.sender.statistics())),
            ("receiver".to_owned(), counters(&result.receiver.statistics())),
            ("decoder".to_owned(), counters(&result.receiver.counts())),
            ("link".to_owned(), counters(&result.forward)),
            ("reverse_link".to_owned(), counters(&result.reverse)),
        ]
        .into(),
        series: result.series,
    };
    Ok(Simulated { report })
}
