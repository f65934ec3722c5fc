//! What a TCP connection is asked to carry.

use std::time::Duration;

use lockstep_units::ByteCount;
use lockstep_units::random::exponential;
use rand::Rng;
use rand_pcg::Pcg64;

/// Files one after the other, with pauses between (RFC 8868, section 6.3: downloads with idle times).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileTransfers {
    /// The smallest file. Sizes are uniform.
    pub smallest: ByteCount,
    /// The largest file.
    pub largest: ByteCount,
    /// Mean of the pauses, which are exponential.
    pub mean_pause: Duration,
    /// Whether there is a pause before the first file.
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

/// What a TCP connection carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workload {
    /// As much as it can.
    Bulk,
    /// Files with pauses between.
    Files(FileTransfers),
}
