//! Runs a call in virtual time with a progress line.

use anyhow::Result;

use lockstep_configuration::{CallSettings, Observers, Simulated, simulate_with};
use lockstep_units::Timestamp;

use crate::progress::Progress;

/// Runs the simulation of `settings` for `observers`, and shows its progress.
///
/// # Errors
/// If the call cannot start, or its estimator fails.
pub fn simulate(settings: &CallSettings, observers: Observers) -> Result<Simulated> {
    let mut progress = Progress::new("simulate", settings.length.get().as_millis() as u64);
    let simulated = simulate_with(settings, None, observers, |status| {
        let quantizer = status.quantizer.map_or_else(|| "-".to_owned(), |quantizer| quantizer.to_string());
        let done = status.now.saturating_since(Timestamp::ZERO).as_millis() as u64;
        let seconds = status.now.as_secs_f64();
        progress.update(done, &format!("{seconds:.1} s   target {}   q {quantizer}", status.target));
        Ok(())
    })?;
    progress.finish();
    Ok(simulated)
}
