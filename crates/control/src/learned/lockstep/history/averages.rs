//! Exponential averages of one quantity over several times.

use libm::exp;

/// The times of the averages, seconds.
const TIMES: [f64; 5] = [0.03, 0.1, 0.4, 1.6, 6.4];

/// Share of each average that a new value replaces.
#[derive(Debug, Clone, Copy)]
pub(super) struct Weights([f64; TIMES.len()]);

impl Weights {
    /// The weights of a value that held for `elapsed` seconds.
    pub(super) fn after(elapsed: f64) -> Self {
        Self(TIMES.map(|time| 1.0 - exp(-elapsed / time)))
    }
}

/// One quantity, averaged over 30 ms, 0.1, 0.4, 1.6 and 6.4 s.
#[derive(Debug, Default)]
pub(super) struct Averages([f64; TIMES.len()]);

impl Averages {
    pub(super) fn put(&mut self, value: f64, Weights(weights): Weights) {
        for (average, weight) in self.0.iter_mut().zip(weights) {
            *average += weight * (value - *average);
        }
    }

    /// The averages, the shortest time first.
    pub(super) fn get(&self) -> [f64; TIMES.len()] {
        self.0
    }
}

/// The rate of a flow of bytes.
#[derive(Debug, Default)]
pub(super) struct Rate {
    /// Bytes since the averages were last advanced.
    bytes: f64,
    pub(super) averages: Averages,
}

impl Rate {
    pub(super) fn add(&mut self, bytes: f64) {
        self.bytes += bytes;
    }

    pub(super) fn advance(&mut self, elapsed: f64, weights: Weights) {
        self.averages.put(std::mem::take(&mut self.bytes) / elapsed, weights);
    }
}

/// The share of packets that were lost.
#[derive(Debug, Default)]
pub(super) struct Losses {
    /// Packets lost since the averages were last advanced.
    lost: f64,
    pub(super) averages: Averages,
}

impl Losses {
    pub(super) fn add(&mut self, packets: f64) {
        self.lost += packets;
    }

    /// Advances the averages, unless no packet was lost or `arrived`.
    pub(super) fn advance(&mut self, arrived: f64, weights: Weights) {
        let lost = std::mem::take(&mut self.lost);
        if arrived + lost > 0.0 {
            self.averages.put(lost / (arrived + lost), weights);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_share_stays_while_no_packet_arrives() {
        let mut losses = Losses::default();
        losses.add(1.0);
        losses.advance(3.0, Weights::after(1.0));
        let before = losses.averages.get();
        assert!(before[0] > before[4] && before[4] > 0.0 && before[0] <= 0.25, "{before:?}");
        losses.advance(0.0, Weights::after(1.0));
        assert_eq!(losses.averages.get(), before);
    }

    #[test]
    fn rate_falls_while_nothing_arrives() {
        let mut rate = Rate::default();
        rate.add(1_000.0);
        rate.advance(0.5, Weights::after(0.5));
        let before = rate.averages.get();
        assert!(before[0] > 1_999.0 && before[0] <= 2_000.0 && before[4] < 500.0, "{before:?}");
        rate.advance(0.5, Weights::after(0.5));
        let after = rate.averages.get();
        assert!(after.iter().zip(before).all(|(after, before)| *after < before), "{after:?}");
    }
}
