//! The clock of sessions in real time.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lockstep_units::Timestamp;

/// A clock of session time, which counts evenly from its start whatever happens to the system's clock. Only session time
/// goes over the wire.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    epoch: Timestamp,
    started: Instant,
}

impl Clock {
    /// Begins to count.
    #[must_use]
    pub fn start() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Self { epoch: Timestamp::ZERO + since_epoch, started: Instant::now() }
    }

    /// This moment, since the start.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        Timestamp::ZERO + self.started.elapsed()
    }

    /// The moment of the start, since the Unix epoch, as the system's clock had it then: for logs of processes of one
    /// machine, which are to be compared.
    #[must_use]
    pub fn epoch(&self) -> Timestamp {
        self.epoch
    }

    /// How long until `moment`; zero if it has passed.
    #[must_use]
    pub fn until(&self, moment: Timestamp) -> Duration {
        moment.saturating_since(self.now())
    }

    /// What session time is counted from.
    #[must_use]
    pub fn origin(&self) -> Origin {
        Origin(self.started)
    }
}

/// The start of session time on the monotonic clock, for state machines, which read no clock.
#[derive(Debug, Clone, Copy)]
pub struct Origin(Instant);

impl Origin {
    /// Session time begins at `instant`.
    #[must_use]
    pub fn new(instant: Instant) -> Self {
        Self(instant)
    }

    /// A moment of session time on the monotonic clock.
    #[must_use]
    pub fn instant(self, moment: Timestamp) -> Instant {
        self.0 + moment.saturating_since(Timestamp::ZERO)
    }

    /// A moment of the monotonic clock in session time.
    #[must_use]
    pub fn moment(self, instant: Instant) -> Timestamp {
        Timestamp::ZERO + instant.saturating_duration_since(self.0)
    }
}
