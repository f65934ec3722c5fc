//! Former mean rates of the path, by Sprout's estimate.

use std::cmp::Reverse;
use std::time::Duration;

use libm::{exp, log};
use lockstep_units::{SlidingMinimum, Timestamp};

/// Time constants of the former mean rates, seconds.
const FORMER: [f64; 2] = [1.0, 0.2];
/// Window of the greatest mean rate.
const MEMORY: Duration = Duration::from_secs(10);

/// Mean rates before the present one, bytes per second.
#[derive(Debug)]
pub(super) struct MeanRates {
    /// Exponential averages; none before the first mean rate.
    former: Option<[f64; FORMER.len()]>,
    /// Sliding-window maximum.
    greatest: SlidingMinimum<Reverse<f64>>,
}

impl MeanRates {
    pub(super) fn new() -> Self {
        Self { former: None, greatest: SlidingMinimum::new() }
    }

    /// Adds Sprout's estimate `mean_rate`, `elapsed` seconds after its last one.
    pub(super) fn put(&mut self, at: Timestamp, elapsed: f64, mean_rate: f64) {
        let former = self.former.get_or_insert([mean_rate; FORMER.len()]);
        if elapsed > 0.0 {
            for (rate, time) in former.iter_mut().zip(FORMER) {
                *rate += (1.0 - exp(-elapsed / time)) * (mean_rate - *rate);
            }
        }
        self.greatest.put(at, Reverse(mean_rate), MEMORY);
    }

    /// The mean rates of about 1 s and 0.2 s ago; `mean_rate` if there was none.
    pub(super) fn former(&self, mean_rate: f64) -> [f64; FORMER.len()] {
        self.former.unwrap_or([mean_rate; FORMER.len()])
    }

    /// The greatest mean rate of ten seconds, including `mean_rate`.
    pub(super) fn greatest(&self, mean_rate: f64) -> f64 {
        self.greatest.get().map_or(mean_rate, |Reverse(rate)| rate.max(mean_rate))
    }

    /// Difference between the natural logarithms of `mean_rate` and of the mean rate a second ago, without sign.
    pub(super) fn change(&self, mean_rate: f64) -> f64 {
        let [former, _] = self.former(mean_rate);
        log(mean_rate.max(1.0) / former.max(1.0)).abs()
    }
}
