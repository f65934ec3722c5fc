//! Outcomes of packets by queue length, and the queue capacity that follows from them.

use crate::ShortQueueConfig;

/// Classes of queue lengths: exact below this number, then parts of an octave, for a number of octaves.
const EXACT: usize = 64;
const PARTS: usize = 8;
const OCTAVES: usize = 6;
const PLACES: usize = EXACT + PARTS * OCTAVES;
/// Prior: one lost packet of ten before any observation.
const DOUBT: (f64, f64) = (1.0, 10.0);

/// Outcomes of packets with about the same queue length.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    arrived: f64,
    lost: f64,
}

/// Outcomes of packets by queue length. The length includes the packet itself.
#[derive(Debug)]
pub(super) struct QueueOutcomes([Place; PLACES]);

impl Default for QueueOutcomes {
    fn default() -> Self {
        Self([Place::default(); PLACES])
    }
}

impl QueueOutcomes {
    /// Adds an arrival at a queue length of `packets`.
    pub(super) fn arrived(&mut self, packets: usize) {
        self.0[place_of(packets)].arrived += 1.0;
    }

    /// Adds a loss at a queue length of `packets`.
    pub(super) fn lost(&mut self, packets: usize) {
        self.0[place_of(packets)].lost += 1.0;
    }

    /// Multiplies all counts by `share`.
    pub(super) fn fade(&mut self, share: f64) {
        for place in &mut self.0 {
            place.arrived *= share;
            place.lost *= share;
        }
    }

    /// Capacity of the queue in packets: the length from which on packets are lost, if one exists.
    pub(super) fn capacity_packets(&self, config: &ShortQueueConfig) -> Option<usize> {
        let ShortQueueConfig { least_lost, worth_of_arrived, significance, .. } = *config;
        let (mut arrived, mut lost) = (0.0, 0.0);
        let mut best = (0.0, None);
        for (index, place) in self.0.iter().enumerate().rev() {
            arrived += place.arrived;
            lost += place.lost;
            let value = lost - worth_of_arrived * arrived;
            if lost >= least_lost && value > best.0 {
                best = (value, Some((index, arrived, lost)));
            }
        }
        let (from, arrived, lost) = best.1?;
        let inside = self.0[..from].iter().fold(Place::default(), |sum, place| Place {
            arrived: sum.arrived + place.arrived,
            lost: sum.lost + place.lost,
        });
        // Losses that other causes would explain.
        let share = (inside.lost + DOUBT.0) / (inside.arrived + inside.lost + DOUBT.1);
        let expected = share * (arrived + lost);
        let tells = from > 0 && lost > expected + significance * libm::sqrt(expected);
        tells.then(|| packets_at(from))
    }
}

/// Class of a queue length.
fn place_of(packets: usize) -> usize {
    if packets < EXACT {
        return packets;
    }
    let octave = packets.ilog2();
    let part = (packets >> (octave - PARTS.ilog2())) - PARTS;
    (EXACT + PARTS * (octave - EXACT.ilog2()) as usize + part).min(PLACES - 1)
}

/// Smallest queue length of a class.
fn packets_at(place: usize) -> usize {
    let Some(beyond) = place.checked_sub(EXACT) else { return place };
    (PARTS + beyond % PARTS) * ((EXACT / PARTS) << (beyond / PARTS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_lengths_are_exact_below_64_and_within_an_eighth_above() {
        for packets in 0..2 * (EXACT << OCTAVES) {
            let least = packets_at(place_of(packets));
            assert!(least <= packets, "{packets} counted as {least}");
            if packets < EXACT {
                assert_eq!(least, packets);
            } else if packets < EXACT << OCTAVES {
                assert!(packets < least + least.div_ceil(PARTS), "{packets} counted as {least}");
            }
        }
    }

    #[test]
    fn capacity_is_where_losses_begin() {
        for fits in [1, 20, 63, 64, 80, 256, 1_024, 2_048] {
            let mut places = QueueOutcomes::default();
            (0..fits).for_each(|packets| places.arrived(packets));
            assert_eq!(places.capacity_packets(&ShortQueueConfig::default()), None, "{fits}: nothing was lost");
            (fits..2 * fits + 20).for_each(|packets| places.lost(packets));
            assert_eq!(places.capacity_packets(&ShortQueueConfig::default()), Some(fits));
        }
    }
}
