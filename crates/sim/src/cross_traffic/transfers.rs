//! Workloads of TCP connections.

use std::time::Duration;

use lockstep_units::ByteCount;
use lockstep_units::random::exponential;
use rand::Rng;
use rand_pcg::Pcg64;

/// Files with idle times between them (RFC 8868, section 6.3). Sizes are uniformly distributed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileTransfers {
    /// Size of the smallest file.
    pub smallest: ByteCount,
    /// Size of the largest file.
    pub largest: ByteCount,
    /// Mean of the pauses, which are exponentially distributed.
    pub mean_pause: Duration,
    /// Whether a pause precedes the first file.
    pub begins_paused: bool,
}

impl FileTransfers {
    pub(super) fn size(&self, random: &mut Pcg64) -> ByteCount {
        let (smallest, largest) = (self.smallest.get(), self.largest.get().max(self.smallest.get()));
        ByteCount::new(random.random_range(smallest..=largest).max(1))
    }

    pub(super) fn pause(&self, random: &mut Pcg64) -> Duration {
        self.mean_pause.mul_f64(exponential(random))
    }
}

/// Data that a TCP connection carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workload {
    /// Unlimited data.
    Bulk,
    /// Files with pauses between them.
    Files(FileTransfers),
}
