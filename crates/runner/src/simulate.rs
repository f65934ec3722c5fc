//! Runs calls in virtual time with a progress line.

use anyhow::Result;

use lockstep_configuration::{
    CallSettings, Observers, RoomSettings, Simulated, SimulationStatus, simulate_room as run_room, simulate_with,
};
use lockstep_measure::RoomReport;
use lockstep_units::Timestamp;

use crate::progress::Progress;

/// Progress of the calls of `settings`.
fn progress(settings: &CallSettings) -> Progress {
    Progress::new("simulate", settings.length.get().as_millis() as u64)
}

/// Shows `status` as progress.
fn show(progress: &mut Progress, status: &SimulationStatus) {
    let quantizer = status.quantizer.map_or_else(|| "-".to_owned(), |quantizer| quantizer.to_string());
    let done = status.now.saturating_since(Timestamp::ZERO).as_millis() as u64;
    let seconds = status.now.as_secs_f64();
    progress.update(done, &format!("{seconds:.1} s   target {}   q {quantizer}", status.target));
}

/// Runs the simulation of `settings` for `observers`, and shows its progress.
///
/// # Errors
/// If the call cannot start, or its estimator fails.
pub fn simulate(settings: &CallSettings, observers: Observers) -> Result<Simulated> {
    let mut progress = progress(settings);
    let simulated = simulate_with(settings, None, observers, |status| {
        show(&mut progress, status);
        Ok(())
    })?;
    progress.finish();
    Ok(simulated)
}

/// Runs the calls of `room`, and shows the progress of the first one.
///
/// # Errors
/// If a call cannot start or fails.
pub fn simulate_room(room: &RoomSettings) -> Result<RoomReport<CallSettings>> {
    let mut progress = progress(&room.call);
    let report = run_room(
        room,
        |_| None,
        |status| {
            show(&mut progress, status);
            Ok(())
        },
    )?;
    progress.finish();
    Ok(report)
}
