//! How a controller or an estimator that lives outside of this program reports that it failed.

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};

/// Why a controller or an estimator failed.
pub type FailureReason = Box<dyn Error + Send + Sync>;

/// Holds the error of a controller or an estimator until the driver of the call asks for it: neither can return one.
#[derive(Debug, Clone, Default)]
pub struct Failure(Arc<Mutex<Option<FailureReason>>>);

impl Failure {
    /// Takes the error out.
    ///
    /// # Errors
    /// The first error since the last check.
    pub fn check(&self) -> Result<(), FailureReason> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }

    /// Keeps `reason`, unless an earlier error waits.
    pub fn set(&self, reason: FailureReason) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason);
    }
}
