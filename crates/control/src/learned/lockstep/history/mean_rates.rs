//! The path's former mean rates, in Sprout's estimate.

use std::cmp::Reverse;
use std::time::Duration;

use libm::{exp, log};
use lockstep_units::{SlidingMinimum, Timestamp};

/// The times over which former mean rates fade, seconds.
const FORMER: [f64; 2] = [1.0, 0.2];
/// The window of the greatest mean rate.
const MEMORY: Duration = Duration::from_secs(10);

/// The mean rates before the present one, bytes per second.
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

    /// Sprout estimates `mean_rate`, `elapsed` seconds after its last estimate.
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

    /// The greatest mean rate of ten seconds, `mean_rate` included.
    pub(super) fn greatest(&self, mean_rate: f64) -> f64 {
        self.greatest.get().map_or(mean_rate, |Reverse(rate)| rate.max(mean_rate))
    }

    /// Difference between the natural logarithms of `mean_rate` and of the mean rate a second ago, without sign.
    pub(super) fn change(&self, mean_rate: f64) -> f64 {
        let [former, _] = self.former(mean_rate);
        log(mean_rate.max(1.0) / former.max(1.0)).abs()
    }
}
