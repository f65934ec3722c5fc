//! Fairness between flows.

use lockstep_units::Bitrate;

/// Jain's fairness index: 1 if all rates are equal, 1/n if one flow has everything (Jain, Chiu and Hawe 1984). `None`
/// if all rates are zero.
#[must_use]
pub fn jain(rates: &[Bitrate]) -> Option<f64> {
    let rates: Vec<f64> = rates.iter().map(|rate| rate.as_bps() as f64).collect();
    let (sum, squares): (f64, f64) = (rates.iter().sum(), rates.iter().map(|rate| rate * rate).sum());
    (squares > 0.0).then(|| sum * sum / (rates.len() as f64 * squares))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jains_index_is_one_for_equal_rates_and_less_for_others() {
        let rates = |kbps: &[u64]| kbps.iter().map(|&rate| Bitrate::from_kbps(rate)).collect::<Vec<_>>();
        assert_eq!(jain(&rates(&[500, 500, 500])), Some(1.0));
        assert_eq!(jain(&rates(&[900, 0, 0])), Some(1.0 / 3.0));
        assert_eq!(jain(&rates(&[0, 0])), None);
        assert_eq!(jain(&[]), None);
    }
}
