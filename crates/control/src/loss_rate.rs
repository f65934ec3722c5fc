//! Loss rate of fragments, and the parity that frames need. A frame is useful only if all its fragments arrive, or
//! enough of them with parity.

use lockstep_transport::MAX_PARITY_FRAGMENTS;
use lockstep_units::ByteCount;

use crate::{Gross, LossConfig, Net};

/// Smaller losses count as zero, since the exponential average never reaches zero.
const NEGLIGIBLE: f64 = 1e-4;

/// Smoothed share of lost fragments.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LossRate {
    share: f64,
    /// Smoothed share of lost frames.
    frames: f64,
    config: LossConfig,
}

impl LossRate {
    /// No loss.
    #[must_use]
    pub fn new(config: LossConfig) -> Self {
        Self { share: 0.0, frames: 0.0, config }
    }

    /// Adds acknowledged fragments.
    pub fn on_acknowledged(&mut self, fragments: usize) {
        for _ in 0..fragments {
            self.share -= self.config.weight * self.share;
        }
    }

    /// Adds lost fragments.
    pub fn on_lost(&mut self, fragments: usize) {
        for _ in 0..fragments {
            self.share += self.config.weight * (1.0 - self.share);
        }
    }

    /// Subtracts fragments that were declared lost but arrived later, for example after an outage.
    pub fn on_found(&mut self, fragments: usize) {
        self.share = (self.share - self.config.weight * fragments as f64).max(0.0);
    }

    /// Adds a frame, which was decoded or lost despite its parity.
    pub fn on_frame(&mut self, lost: bool) {
        self.frames += self.config.frame_weight * (f64::from(u8::from(lost)) - self.frames);
    }

    /// Share of lost fragments, 0 to 1.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.share
    }

    /// Probability that enough fragments of a frame arrive, for this number of fragments and of parity fragments.
    /// Losses are independent.
    #[must_use]
    pub fn survival(&self, fragments: u64, parity: u16) -> f64 {
        let whole = libm::pow(1.0 - self.share, fragments as f64);
        whole + self.gains(fragments).take(parity.into()).sum::<f64>()
    }

    /// Increase of the survival probability by the first parity fragment, the second, and so on. It is the probability
    /// that exactly as many of the others are lost and this one arrives.
    fn gains(&self, fragments: u64) -> impl Iterator<Item = f64> {
        let (share, fragments) = (self.share, fragments as f64);
        let first = fragments * share * libm::pow(1.0 - share, fragments);
        let next = move |&(gain, parity): &(f64, f64)| {
            let parity = parity + 1.0;
            Some((gain * share * (fragments + parity) / (parity + 1.0), parity))
        };
        std::iter::successors(Some((first, 0.0)), next).map(|(gain, _)| gain)
    }

    /// Number of parity fragments for a frame of `fragments` fragments. `at_stake` is the number of frames that are not
    /// shown if it is lost. The result maximises the gain minus the picture quality that the bits would have brought.
    #[must_use]
    pub fn parity(&self, fragments: u64, at_stake: f64) -> u16 {
        self.best(fragments, at_stake).0
    }

    /// The best number of parity fragments, and the value that remains of a frame.
    fn best(&self, fragments: u64, at_stake: f64) -> (u16, f64) {
        if self.share <= NEGLIGIBLE {
            return (0, 0.0);
        }
        let whole = libm::pow(1.0 - self.share, fragments as f64);
        let mean = self.share * fragments as f64 / (1.0 - self.share).max(NEGLIGIBLE);
        let worth = self.config.worth;
        let (mut best, mut sum, mut most) = (0, 0.0, 0.0);
        for (parity, gain) in (1..=MAX_PARITY_FRAGMENTS).zip(self.gains(fragments)) {
            let net = gain * worth * at_stake - 1.0 / (fragments + u64::from(parity)) as f64;
            sum += net;
            if sum > most {
                (best, most) = (parity, sum);
            }
            if net < 0.0 && f64::from(parity) > mean {
                break;
            }
        }
        (best, most - (1.0 - whole) * worth * at_stake)
    }

    /// Whether frames are lost so often that each should be coded from a state that the receiver holds. `fragments` is
    /// their size, `at_stake` the number of frames not shown after the loss of a reference frame.
    #[must_use]
    pub fn breaks_chains(&self, fragments: u64, at_stake: f64) -> bool {
        if self.share <= NEGLIGIBLE {
            return false;
        }
        let LossConfig { cost_of_held, most_chained, .. } = self.config;
        self.frames > most_chained || self.best(fragments, 1.0).1 - cost_of_held > self.best(fragments, at_stake).1
    }
}

/// Protection of frames by parity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Protection {
    /// The loss rate.
    pub loss_rate: LossRate,
    /// Number of frames that are not shown if one is lost.
    pub at_stake: f64,
    /// Maximum payload of a fragment.
    pub payload: ByteCount,
}

impl Protection {
    /// No protection, in fragments of `payload` bytes.
    #[must_use]
    pub fn none(payload: ByteCount) -> Self {
        Self { loss_rate: LossRate::default(), at_stake: 1.0, payload }
    }

    /// Number of fragments of a frame of `size`, without parity.
    #[must_use]
    pub fn fragments(&self, size: ByteCount) -> u64 {
        size.get().div_ceil(self.payload.get().max(1)).max(1)
    }

    /// Number of parity fragments of a frame of `size`.
    #[must_use]
    pub fn parity(&self, size: ByteCount) -> u16 {
        self.parity_of(self.fragments(size))
    }

    fn parity_of(&self, fragments: u64) -> u16 {
        self.loss_rate.parity(fragments, self.at_stake)
    }

    /// The largest frame that fits into `budget` with its parity.
    #[must_use]
    pub fn frame_within(&self, budget: Gross) -> Net {
        if self.loss_rate.share <= NEGLIGIBLE {
            return Net(budget.0);
        }
        let (budget, payload) = (budget.0.get(), self.payload.get().max(1));
        let room = budget / payload;
        let (mut fits, mut beyond) = (0, room + 1);
        while beyond - fits > 1 {
            let middle = fits.midpoint(beyond);
            if middle + u64::from(self.parity_of(middle)) <= room {
                fits = middle;
            } else {
                beyond = middle;
            }
        }
        // One more fragment, all of them shorter.
        let fragments = u128::from(beyond + u64::from(self.parity_of(beyond)));
        let larger = (u128::from(beyond) * u128::from(budget) / fragments) as u64;
        Net(ByteCount::new(larger.min(beyond.saturating_mul(payload)).max(fits * payload)))
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

    const PAYLOAD: ByteCount = ByteCount::new(1_000);

    /// Probability that at most `parity` of all fragments are lost, by dynamic programming.
    fn survival_by_counting(share: f64, fragments: u64, parity: u16) -> f64 {
        let all = fragments + u64::from(parity);
        let mut probabilities = vec![1.0];
        for _ in 0..all {
            let mut next = vec![0.0; probabilities.len() + 1];
            for (lost, probability) in probabilities.iter().enumerate() {
                next[lost] += probability * (1.0 - share);
                next[lost + 1] += probability * share;
            }
            probabilities = next;
        }
        probabilities.iter().take(usize::from(parity) + 1).sum()
    }

    #[test]
    fn survival_matches_the_exact_probability() {
        let rate = after(9, 1, 400);
        for (fragments, parity) in [(1, 0), (1, 1), (1, 3), (5, 1), (20, 4), (100, 15)] {
            let (estimated, counted) =
                (rate.survival(fragments, parity), survival_by_counting(rate.share(), fragments, parity));
            assert!((estimated - counted).abs() < 1e-9, "{fragments} and {parity}: {estimated} and {counted}");
        }
    }

    #[test]
    fn parity_lets_most_frames_arrive_and_is_bounded() {
        for (lost_in, at_stake) in [(100, 1.0), (20, 3.0), (10, 3.0), (4, 1.0)] {
            let rate = after(lost_in - 1, 1, 100);
            for fragments in [5, 20, 100, 400] {
                let parity = rate.parity(fragments, at_stake);
                let survival = rate.survival(fragments, parity);
                assert!(survival > 0.8, "1 in {lost_in}, {fragments} and {parity}: {survival}");
                assert!(f64::from(parity) <= 3.0 + 3.0 * rate.share() * fragments as f64, "{fragments} and {parity}");
            }
        }
    }

    #[test]
    fn frame_with_parity_uses_the_budget() {
        for lost_in in [200, 50, 10, 4] {
            let rate = after(lost_in - 1, 1, 100);
            let protection = Protection { loss_rate: rate, at_stake: 3.0, payload: PAYLOAD };
            for budget in [300u64, 1_000, 1_900, 4_100, 25_000, 123_456, 900_000].map(ByteCount::new) {
                let frame = protection.frame_within(Gross(budget)).0;
                let fragments = frame.get().div_ceil(PAYLOAD.get());
                let parity = u64::from(protection.parity(frame));
                let all = frame.get() + parity * frame.get().div_ceil(fragments);
                assert!(all <= budget.get() + parity, "1 in {lost_in}, {budget}: {frame} and {parity} of parity");
                assert!(
                    all + 2 * PAYLOAD.get() > budget.get(),
                    "1 in {lost_in}, {budget}: {frame} and {parity} of parity"
                );
            }
        }
    }

    #[test]
    fn frames_without_loss_have_no_parity() {
        let rate = after(20, 0, 10);
        assert_eq!(rate.parity(100, 10.0), 0);
        let protection = Protection { loss_rate: rate, at_stake: 10.0, payload: PAYLOAD };
        let bytes = ByteCount::new(100_000);
        assert_eq!(protection.frame_within(Gross(bytes)), Net(bytes));
        assert!(!rate.breaks_chains(1_000, 10.0));
    }

    #[test]
    fn parity_is_a_share_of_an_unlimited_budget_too() {
        let protection = Protection { loss_rate: after(9, 1, 400), at_stake: 3.0, payload: PAYLOAD };
        let share = |budget| protection.frame_within(Gross(ByteCount::new(budget))).0.as_f64() / budget as f64;
        assert!((share(u64::MAX) - share(1 << 40)).abs() < 0.01, "{} and {}", share(u64::MAX), share(1 << 40));
    }

    #[test]
    fn chains_break_only_if_parity_cannot_compensate_losses() {
        let mut rate = after(49, 1, 100);
        assert!(!rate.breaks_chains(20, 3.0));
        rate.on_frame(true);
        assert!(rate.breaks_chains(20, 3.0), "one frame was lost despite parity");
        (0..4).for_each(|_| rate.on_frame(false));
        assert!(!rate.breaks_chains(20, 3.0));
        assert!(after(2, 1, 400).breaks_chains(1, 30.0), "parity gains little for a frame of one fragment");
    }

    #[test]
    fn late_fragments_are_not_losses() {
        let mut rate = after(0, 16, 1);
        rate.on_found(16);
        assert_eq!(rate.parity(100, 1.0), 0);
    }

    #[test]
    fn old_losses_expire() {
        let mut rate = after(0, 20, 1);
        assert!(rate.parity(20, 1.0) > 0);
        rate.on_acknowledged(4_000);
        assert_eq!(rate.parity(20, 1.0), 0, "{}", rate.share());
    }
}
