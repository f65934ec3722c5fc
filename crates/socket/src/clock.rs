//! Clock of sessions in real time.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lockstep_units::Timestamp;

/// Monotonic clock of session time, independent of changes of the system's clock. Only session time is sent to the
/// other end.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    epoch: Timestamp,
    started: Instant,
}

impl Clock {
    /// Starts the clock.
    #[must_use]
    pub fn start() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Self { epoch: Timestamp::ZERO + since_epoch, started: Instant::now() }
    }

    /// Current session time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        Timestamp::ZERO + self.started.elapsed()
    }

    /// Start time since the Unix epoch by the system's clock. It aligns the logs of processes on one machine.
    #[must_use]
    pub fn epoch(&self) -> Timestamp {
        self.epoch
    }

    /// Time until `moment`; zero if it has passed.
    #[must_use]
    pub fn until(&self, moment: Timestamp) -> Duration {
        moment.saturating_since(self.now())
    }

    /// Origin of session time.
    #[must_use]
    pub fn origin(&self) -> Origin {
        Origin(self.started)
    }
}

/// The start of session time on the monotonic clock, for state machines, which read no clock.
#[derive(Debug, Clone, Copy)]
pub struct Origin(Instant);

impl Origin {
    /// Starts session time at `instant`.
    #[must_use]
    pub fn new(instant: Instant) -> Self {
        Self(instant)
    }

    /// Converts session time to the monotonic clock.
    #[must_use]
    pub fn instant(self, moment: Timestamp) -> Instant {
        self.0 + moment.saturating_since(Timestamp::ZERO)
    }

    /// Converts the monotonic clock to session time.
    #[must_use]
    pub fn moment(self, instant: Instant) -> Timestamp {
        Timestamp::ZERO + instant.saturating_duration_since(self.0)
    }
}
