//! How many fragments get lost, and what that means for a frame: it is worth nothing unless all of its fragments
//! arrive.

/// Weight of one fragment in the average: the last few hundred fragments count.
const WEIGHT: f64 = 1.0 / 400.0;

/// A frame is kept so small that it arrives whole with this probability. Larger frames are better ones, but too rarely
/// whole: at a loss of 5 % a frame of 28 fragments arrives once in four times, one of ten six times in ten.
const LEAST_SURVIVAL: f64 = 0.6;

/// Frames of which a larger share than this is lost are coded from acknowledged states only. A frame coded from the one
/// before it costs fewer bits, but a loss then takes all frames of a round trip with it.
const MOST_CHAINED_LOSS: f64 = 0.05;

/// A smaller loss is none: the average forgets exponentially and never reaches zero again.
const NEGLIGIBLE: f64 = 1e-4;

/// The smoothed share of fragments that are lost.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LossRate {
    share: f64,
}

impl LossRate {
    /// So many fragments were acknowledged.
    pub fn on_acknowledged(&mut self, fragments: usize) {
        for _ in 0..fragments {
            self.share -= WEIGHT * self.share;
        }
    }

    /// So many fragments were declared lost.
    pub fn on_lost(&mut self, fragments: usize) {
        for _ in 0..fragments {
            self.share += WEIGHT * (1.0 - self.share);
        }
    }

    /// So many fragments that had been declared lost arrived after all, as they do after an outage.
    pub fn on_found(&mut self, fragments: usize) {
        self.share = (self.share - WEIGHT * fragments as f64).max(0.0);
    }

    /// The share of fragments lost, 0-1.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.share
    }

    /// Probability that a frame of so many fragments arrives whole, if losses are independent of each other.
    #[must_use]
    pub fn survival(&self, fragments: u64) -> f64 {
        libm::pow(1.0 - self.share, fragments as f64)
    }

    /// The most fragments that a frame should have; none if losses are too rare to matter.
    #[must_use]
    pub fn most_fragments(&self) -> Option<u64> {
        (self.share > NEGLIGIBLE)
            .then(|| ((libm::log(LEAST_SURVIVAL) / libm::log(1.0 - self.share)).floor() as u64).max(1))
    }

    /// Whether frames of so many fragments are lost so often that each should be coded from a state that the receiver
    /// is known to hold.
    #[must_use]
    pub fn breaks_chains(&self, fragments: u64) -> bool {
        self.share > NEGLIGIBLE && 1.0 - self.survival(fragments) > MOST_CHAINED_LOSS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(acknowledged: usize, lost: usize, rounds: usize) -> LossRate {
        let mut rate = LossRate::default();
        for _ in 0..rounds {
            rate.on_acknowledged(acknowledged);
            rate.on_lost(lost);
        }
        rate
    }

    #[test]
    fn a_loss_of_one_in_twenty_keeps_frames_at_ten_fragments() {
        let rate = after(19, 1, 200);
        assert!((rate.share() - 0.05).abs() < 0.005, "{}", rate.share());
        assert!((8..=11).contains(&rate.most_fragments().unwrap()), "{:?}", rate.most_fragments());
        assert!(rate.breaks_chains(10));
    }

    #[test]
    fn without_losses_frames_are_as_large_as_they_like() {
        let rate = after(20, 0, 10);
        assert_eq!(rate.most_fragments(), None);
        assert!(!rate.breaks_chains(1_000));
    }

    #[test]
    fn fragments_that_were_only_late_leave_no_loss_behind() {
        let mut rate = after(0, 16, 1);
        rate.on_found(16);
        assert_eq!(rate.most_fragments(), None);
    }

    #[test]
    fn losses_long_past_are_forgotten() {
        let mut rate = after(0, 20, 1);
        assert!(rate.breaks_chains(20));
        rate.on_acknowledged(4_000);
        assert!(!rate.breaks_chains(20) && rate.most_fragments().is_none(), "{}", rate.share());
    }
}
