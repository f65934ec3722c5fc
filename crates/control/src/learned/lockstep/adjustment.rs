//! What a model that was reinforced says beside its forecast: by how much the next frame departs from the rule, picture by
//! picture. And what is kept of calls in which such departures are tried out (`python/lockstep/learn/reinforce.py`).

use libm::{exp, log};
use lockstep_units::Timestamp;

use super::{LEVELS, MODEL_STATE};

/// How many numbers an adjustment has.
pub const ADJUSTMENT: usize = 2;

/// What is said is multiplied by these, so that what is tried of either makes as much of a difference.
const SCALES: [f64; ADJUSTMENT] = [2.0, 0.5];
/// Bounds of what is added to the logarithm of the odds, and of the logarithm of the factor: what was not tried in training is
/// not done in calls.
const MOST: [f64; ADJUSTMENT] = [2.0, 0.7];

/// By how much a frame departs from the [`Rule`](super::Rule).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Adjustment([f64; ADJUSTMENT]);

impl Adjustment {
    /// From what a model says: half of what is added to the logarithm of the odds of the rule's level, and twice the natural
    /// logarithm of what its deadline is multiplied by; none if one is no number.
    pub fn of(said: &[f32]) -> Option<Self> {
        let said: [f32; ADJUSTMENT] = said.try_into().ok()?;
        said.iter().all(|value| value.is_finite()).then(|| Self(said.map(f64::from)))
    }

    /// The same and something that is tried.
    pub fn plus(self, tried: [f32; ADJUSTMENT]) -> Self {
        Self(std::array::from_fn(|index| self.0[index] + f64::from(tried[index])))
    }

    fn bounded(self, index: usize) -> f64 {
        (SCALES[index] * self.0[index]).clamp(-MOST[index], MOST[index])
    }

    /// The quantile in the place of `level`.
    pub fn level(self, level: f64) -> f64 {
        let added = self.bounded(0);
        if added == 0.0 {
            return level; // To the bit: without a model that says so nothing changes.
        }
        let odds = exp(log(level / (1.0 - level)) + added);
        (odds / (1.0 + odds)).clamp(LEVELS[0], LEVELS[LEVELS.len() - 1])
    }

    /// The deadline in the place of `deadline`.
    pub fn deadline(self, deadline: f64) -> f64 {
        deadline * exp(self.bounded(1))
    }
}

/// What was tried for a picture, beside what the model said.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    /// When the picture was first decided on.
    pub at: Timestamp,
    /// What the model remembered with it.
    pub remembered: [f32; MODEL_STATE],
    /// What was added to what it said.
    pub tried: [f32; ADJUSTMENT],
    /// Whether it was the rule that decided, and not Sprout.
    pub counts: bool,
}

/// Trials of a call.
#[derive(Debug)]
pub(super) struct Trials {
    /// What is yet to be tried, the last first.
    coming: Vec<[f32; ADJUSTMENT]>,
    began: Timestamp,
    /// What is tried for the present picture.
    pub tried: [f32; ADJUSTMENT],
    present: Option<Trial>,
    past: Vec<Trial>,
}

impl Trials {
    pub fn new(mut coming: Vec<[f32; ADJUSTMENT]>) -> Self {
        coming.reverse();
        Self { coming, began: Timestamp::ZERO, tried: [0.0; ADJUSTMENT], present: None, past: Vec::new() }
    }

    /// The next picture begins.
    pub fn next(&mut self, now: Timestamp) {
        self.began = now;
        self.past.extend(self.present.take());
        self.tried = self.coming.pop().unwrap_or_default();
    }

    /// It is decided on.
    pub fn decided(&mut self, remembered: [f32; MODEL_STATE], counts: bool) {
        self.present = Some(Trial { at: self.began, remembered, tried: self.tried, counts });
    }

    pub fn take(&mut self) -> Vec<Trial> {
        std::mem::take(&mut self.past)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_said_changes_nothing_and_anything_said_is_bounded() {
        let none = Adjustment::default();
        assert_eq!((none.level(0.55), none.deadline(0.05)), (0.55, 0.05));
        let much = Adjustment::of(&[1e9, 1e9]).unwrap();
        assert_eq!(much.level(0.55), LEVELS[LEVELS.len() - 1]);
        assert!((much.deadline(0.05) / 0.05 - 2.0).abs() < 0.02);
        assert!(Adjustment::of(&[-1.0, 0.0]).unwrap().level(0.55) < 0.35);
        assert_eq!(Adjustment::of(&[f32::NAN, 0.0]), None);
        assert_eq!(Adjustment::of(&[0.0]), None);
    }

    #[test]
    fn what_is_tried_for_a_picture_is_kept_with_it_once_the_next_begins() {
        let mut trials = Trials::new(vec![[0.1, 0.2], [0.3, 0.4]]);
        for picture in 0..3 {
            trials.next(Timestamp::from_millis(picture * 33));
            trials.decided([0.0; MODEL_STATE], true);
        }
        let tried: Vec<_> = trials.take().into_iter().map(|trial| trial.tried).collect();
        assert_eq!(tried, [[0.1, 0.2], [0.3, 0.4]]);
        assert!(trials.take().is_empty());
    }
}
