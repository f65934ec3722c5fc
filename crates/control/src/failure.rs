//! Error report of a controller or an estimator that runs outside this program.

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};

/// Reason why a controller or an estimator failed.
pub type FailureReason = Box<dyn Error + Send + Sync>;

/// Slot for the error of a controller or an estimator. The driver of the call checks it, since their methods return no
/// errors.
#[derive(Debug, Clone, Default)]
pub struct Failure(Arc<Mutex<Option<FailureReason>>>);

impl Failure {
    /// Takes the error out of the slot.
    ///
    /// # Errors
    /// The first error since the last check.
    pub fn check(&self) -> Result<(), FailureReason> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }

    /// Stores `reason`, unless the slot holds an earlier error.
    pub fn set(&self, reason: FailureReason) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason);
    }
}
