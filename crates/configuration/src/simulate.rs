//! Runs calls in virtual time, with or without pixels.

use anyhow::{Result, bail};

use lockstep_call::{EncodeWork, FrameEncoder, Vp8};
use lockstep_hosted::EstimatorHost;
use lockstep_media::VideoFormat;
use lockstep_sim::{CodecModel, StopReason};

use crate::modelled::simulate_modelled_reporting;
use crate::run::{MakeCoding, Observers, Progress, Simulated, SimulationStatus, run};
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
    mut progress: impl FnMut(&SimulationStatus) -> Result<(), StopReason>,
) -> Result<Simulated> {
    let mut coding = |settings: &CallSettings| settings.coding_by(&encoder, first_work, None);
    simulate_coding(settings, &mut coding, &mut progress)
}

fn simulate_coding(
    settings: &CallSettings,
    coding: &mut MakeCoding<'_, Vp8>,
    progress: &mut Progress<'_>,
) -> Result<Simulated> {
    run(settings, coding, None, Observers::default(), progress)
}

/// Runs [`simulate`] with the estimator of `host`, if given, instead of that of `settings`, and with `observers`.
///
/// # Errors
/// As [`simulate`]; if the estimator fails, its error as [`SimulationError::Stopped`](lockstep_sim::SimulationError).
pub fn simulate_with(
    settings: &CallSettings,
    host: Option<Box<dyn EstimatorHost>>,
    observers: Observers,
    mut progress: impl FnMut(&SimulationStatus) -> Result<(), StopReason>,
) -> Result<Simulated> {
    simulate_reporting(settings, host, observers, &mut progress)
}

fn simulate_reporting(
    settings: &CallSettings,
    host: Option<Box<dyn EstimatorHost>>,
    mut observers: Observers,
    progress: &mut Progress<'_>,
) -> Result<Simulated> {
    let mut sound = observers.sound.take();
    if settings.modelled {
        return simulate_modelled_reporting(settings, &CodecModel::built_in()?, host, observers, progress);
    }
    if settings.bound {
        bail!("bound: only modelled calls have an upper bound on QoE_d; run a modelled call, or leave `bound` out");
    }
    // The sink receives the sound of the first direction.
    run(settings, &mut |settings| settings.coding(sound.take()), host, observers, progress)
}
