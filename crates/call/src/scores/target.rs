//! Scores of what a controller decides: how steady its target is, and how near its estimate is to the capacity.

use super::{Series, mean};

/// Steadiness and truth, over the points of a [`Series`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct TargetScores {
    pub(super) smoothness_bps: Option<f64>,
    pub(super) smape_percent: Option<f64>,
    pub(super) accuracy: Option<f64>,
}

impl TargetScores {
    pub(super) fn of(series: &Series) -> Self {
        let targets: Vec<f64> = series.target_bps.iter().flatten().map(|&target| target as f64).collect();
        let pairs: Vec<(f64, f64)> = series
            .estimate_bps
            .iter()
            .zip(&series.capacity_bps)
            .filter_map(|(&estimate, &capacity)| Some((estimate? as f64, capacity as f64)))
            .collect();
        let accuracies = pairs
            .iter()
            .filter(|&&(_, capacity)| capacity > 0.0)
            .map(|&(estimate, capacity)| (1.0 - (estimate - capacity).abs() / capacity).max(0.0));
        Self {
            smoothness_bps: smoothness(&targets),
            smape_percent: symmetric_mean_absolute_percentage_error(&pairs),
            accuracy: mean(&accuracies.collect::<Vec<_>>()),
        }
    }
}

/// eta = the mean of |a(n+1) - a(n)|, in the unit of the series; smaller is steadier. None of fewer than two values.
pub(super) fn smoothness(actions: &[f64]) -> Option<f64> {
    mean(&actions.windows(2).map(|pair| (pair[1] - pair[0]).abs()).collect::<Vec<_>>())
}

/// sMAPE = the mean of 100 |e - c| / ((|e| + |c|) / 2) over pairs of an estimate and the truth: 0 where all are true, at
/// most 200; a pair of two zeros is true.
pub(super) fn symmetric_mean_absolute_percentage_error(pairs: &[(f64, f64)]) -> Option<f64> {
    let error = |&(estimate, truth): &(f64, f64)| {
        let middle = (estimate.abs() + truth.abs()) / 2.0;
        if middle > 0.0 { 100.0 * (estimate - truth).abs() / middle } else { 0.0 }
    };
    mean(&pairs.iter().map(error).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smoothness_is_the_mean_step() {
        assert_eq!(smoothness(&[1.0, 3.0, 2.0, 2.0]), Some(1.0));
        assert_eq!(smoothness(&[1.0]), None);
    }

    #[test]
    fn the_symmetric_error_of_half_and_of_double_is_the_same() {
        let error = |estimate| symmetric_mean_absolute_percentage_error(&[(estimate, 100.0)]).unwrap();
        assert!((error(50.0) - 100.0 * 50.0 / 75.0).abs() < 1e-9);
        assert!((error(50.0) - error(200.0)).abs() < 1e-9);
        assert_eq!(symmetric_mean_absolute_percentage_error(&[(0.0, 0.0), (7.0, 0.0)]), Some(100.0));
    }

    #[test]
    fn points_without_an_estimate_and_outages_count_for_no_accuracy() {
        let series = Series {
            capacity_bps: vec![100, 100, 0, 100],
            estimate_bps: vec![None, Some(80), Some(80), Some(500)],
            target_bps: vec![None, Some(80), Some(80), Some(500)],
            ..Series::default()
        };
        let scores = TargetScores::of(&series);
        assert_eq!(scores.smoothness_bps, Some(210.0));
        assert!((scores.accuracy.unwrap() - 0.4).abs() < 1e-12);
    }
}
