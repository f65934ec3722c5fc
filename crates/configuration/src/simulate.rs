//! Calls in virtual time, with pixels or without.

use anyhow::{Result, bail};

use lockstep_call::{EncodeWork, FrameEncoder, Vp8};
use lockstep_hosted::EstimatorHost;
use lockstep_media::{VideoFormat, open_source};
use lockstep_sim::{CodecModel, StopReason};

use crate::modelled::simulate_modelled_with;
use crate::run::{Coding, Observers, Simulated, SimulationStatus, run};
use crate::settings::CallSettings;

/// Runs the simulation that `settings` describe. `progress` hears of it once a frame interval, and may end it.
///
/// # Errors
/// If clip, trace or link cannot be had, if the source fails, or if `progress` does.
pub fn simulate(
    settings: &CallSettings,
    progress: impl FnMut(&SimulationStatus) -> Result<(), StopReason>,
) -> Result<Simulated> {
    simulate_with(settings, None, Observers::default(), progress)
}

/// The same with an encoder that the settings do not know: `encoder` makes it for the pictures of the clip, and
/// `first_work` is what it does until there is something to send.
///
/// # Errors
/// As [`simulate`], and what `encoder` refuses.
pub fn simulate_coded_by(
    settings: &CallSettings,
    first_work: EncodeWork,
    encoder: impl Fn(&VideoFormat) -> Result<Box<dyn FrameEncoder>>,
    progress: impl FnMut(&SimulationStatus) -> Result<(), StopReason>,
) -> Result<Simulated> {
    let coding = |settings: &CallSettings| {
        let source = open_source(settings.clip.as_str(), &settings.source_options())?;
        let encoder = encoder(&source.format())?;
        let feedback = settings.feedback();
        Ok(Coding { source, encoder, first_work, controller: None, feedback, sound: settings.sound(None)? })
    };
    run::<Vp8>(settings, coding, None, Observers::default(), progress)
}

/// [`simulate`] with the estimator that lives at `host`, if one is given, instead of that which `settings` name; and
/// heard by `observers`.
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
    // What is heard is the first call's.
    run(settings, |settings| settings.coding(sound.take()), host, observers, progress)
}
