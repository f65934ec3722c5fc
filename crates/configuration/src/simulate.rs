//! Runs calls in virtual time, with or without pixels.

use anyhow::{Context, Result, bail};

use lockstep_av1::{Av1, Av1Parameters};
use lockstep_call::{EncodeWork, FrameEncoder, FunctionalEncoder, Vp8};
use lockstep_control::Failure;
use lockstep_hosted::EstimatorHost;
use lockstep_media::VideoFormat;
use lockstep_sim::{CodecModel, SimulationError, StopReason};

use crate::modelled::simulate_modelled_with;
use crate::options::CodecKind;
use crate::run::{Observers, Simulated, SimulationStatus, run};
use crate::settings::CallSettings;

/// Runs the simulation of `settings`. `progress` is called once per frame interval, and may end it.
///
/// # Errors
/// If the clip or the trace cannot be opened, the link is invalid, or the source or `progress` fails.
pub fn simulate(
    settings: &CallSettings,
    progress: impl FnMut(&SimulationStatus) -> Result<(), StopReason>,
) -> Result<Simulated> {
    simulate_with(settings, None, Observers::default(), progress)
}

/// Runs the same simulation with another encoder.
///
/// `encoder` makes it for the clip's format, and `first_work` is its work until it has a frame to send.
///
/// # Errors
/// As [`simulate`], and errors of `encoder`.
pub fn simulate_coded_by(
    settings: &CallSettings,
    first_work: EncodeWork,
    encoder: impl Fn(&VideoFormat) -> Result<Box<dyn FrameEncoder>>,
    progress: impl FnMut(&SimulationStatus) -> Result<(), StopReason>,
) -> Result<Simulated> {
    let coding = |settings: &CallSettings| settings.coding_by(&encoder, first_work, None);
    run::<Vp8>(settings, coding, None, Observers::default(), progress)
}

/// Runs the simulation of `settings` with AV1.
fn simulate_av1(
    settings: &CallSettings,
    host: Option<Box<dyn EstimatorHost>>,
    mut observers: Observers,
    mut progress: impl FnMut(&SimulationStatus) -> Result<(), StopReason>,
) -> Result<Simulated> {
    Av1::check().context("codec av1")?;
    if settings.encode_time.model.av1.is_empty() {
        bail!("codec av1: the encode times contain none of AV1; `lockstep bench encode-time` measures them");
    }
    let (failure, control) = (Failure::default(), &settings.control);
    let encoder = |_: &VideoFormat| {
        let parameters = Av1Parameters { failure: failure.clone() };
        let encoder = FunctionalEncoder::<Av1>::new(parameters, control.menu, &control.tuning.tuning());
        Ok(Box::new(encoder) as Box<dyn FrameEncoder<Av1>>)
    };
    let mut sound = observers.sound.take();
    let coding = |settings: &CallSettings| settings.coding_by(encoder, control.first_work(), sound.take());
    let simulated = run(settings, coding, host, observers, |status| {
        failure.check()?;
        progress(status)
    })?;
    failure.check().map_err(SimulationError::Stopped)?;
    Ok(simulated)
}

/// Runs [`simulate`] with the estimator of `host`, if given, instead of that of `settings`, and with `observers`.
///
/// # Errors
/// As [`simulate`]; if the estimator fails, its error as [`SimulationError::Stopped`](lockstep_sim::SimulationError).
pub fn simulate_with(
    settings: &CallSettings,
    host: Option<Box<dyn EstimatorHost>>,
    observers: Observers,
    progress: impl FnMut(&SimulationStatus) -> Result<(), StopReason>,
) -> Result<Simulated> {
    let mut observers = observers;
    let mut sound = observers.sound.take();
    if settings.modelled {
        return simulate_modelled_with(settings, &CodecModel::built_in()?, host, observers, progress);
    }
    if settings.bound {
        bail!("bound: only modelled calls have an upper bound on QoE_d; run a modelled call, or leave `bound` out");
    }
    if settings.control.codec == CodecKind::Av1 {
        observers.sound = sound;
        return simulate_av1(settings, host, observers, progress);
    }
    // The sink receives the sound of the first direction.
    run(settings, |settings| settings.coding(sound.take()), host, observers, progress)
}
