//! The live driver's clock.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lockstep_units::Timestamp;

/// A clock that counts from the Unix epoch, so that processes on one machine agree, and never goes backwards, because
/// it is read once from the system and from then on from the monotonic clock.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    epoch: Timestamp,
    started: Instant,
}

impl Clock {
    /// Reads the system's clock.
    #[must_use]
    pub fn start() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Self { epoch: Timestamp::ZERO + since_epoch, started: Instant::now() }
    }

    /// This moment.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.epoch + self.started.elapsed()
    }

    /// How long until `moment`; zero if it has passed.
    #[must_use]
    pub fn until(&self, moment: Timestamp) -> Duration {
        moment.saturating_since(self.now())
    }

    /// The same moment on the monotonic clock.
    #[must_use]
    pub fn instant(&self, moment: Timestamp) -> Instant {
        self.started + moment.saturating_since(self.epoch)
    }
}
