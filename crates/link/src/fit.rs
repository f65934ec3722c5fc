//! Fits a [`Family`] of traces to recordings, and measures its error on held-out recordings.

use std::time::Duration;

use lockstep_units::{ByteCount, Timestamp};

use crate::fitted::{Family, FitError, LEVELS, QUANTILES, level, nearest_level};
use crate::trace::Trace;

/// A rate below this fraction of a trace's mean is an outage.
const OUTAGE_SHARE: f64 = 0.01;
/// Longest part of a recording that is used.
const MAX_DURATION: Duration = Duration::from_secs(3_600);
/// Step for recordings whose rates last this long; other recordings use [`FINE`].
const COARSE: Duration = Duration::from_secs(1);
const FINE: Duration = Duration::from_millis(100);
/// Fraction of [`COARSE`] that counts as about a second, since lines of logs vary by some tenths.
const COARSE_SHARE: f64 = 0.4;

/// Why a family cannot be fitted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FittingError {
    /// Fewer than two recordings are long enough and have traffic.
    #[error("cannot fit a family: found {0} traces of at least 10 s with traffic, need at least 2")]
    TooFew(usize),
}

/// Rates of `trace` over steps of `step`, bit/s.
fn rates(trace: &Trace, step: Duration) -> Vec<f64> {
    let steps = (trace.period().min(MAX_DURATION).as_nanos() / step.as_nanos().max(1)) as u32;
    let bytes = |index: u32| -> ByteCount {
        trace.bytes_between(Timestamp::ZERO + step * index, Timestamp::ZERO + step * (index + 1))
    };
    (0..steps).map(|index| 8.0 * bytes(index).as_f64() / step.as_secs_f64()).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Whether at least half of the rates of a recording last about [`COARSE`].
fn is_coarse(trace: &Trace) -> bool {
    !trace.has_opportunities()
        && trace.to_segments(COARSE).is_ok_and(|segments| {
            let long = segments.iter().filter(|segment| segment.duration >= COARSE.mul_f64(COARSE_SHARE)).count();
            segments.len() > 1 && 2 * long >= segments.len()
        })
}

/// Quantiles of `values` at equal distances, from the minimum to the maximum; zeros if there are no values.
fn quantiles(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    let at = |index: usize| values.get(index * last / (QUANTILES - 1)).copied().unwrap_or(0.0);
    (0..QUANTILES).map(at).collect()
}

/// Lengths of the outages in `rates` with this mean, in steps.
fn outages(rates: &[f64], mean: f64) -> Vec<f64> {
    let mut lengths = Vec::new();
    let mut length = 0.0;
    for &rate in rates {
        if rate < OUTAGE_SHARE * mean {
            length += 1.0;
        } else if length > 0.0 {
            lengths.push(length);
            length = 0.0;
        }
    }
    lengths
}

/// Fits a family called `name` to `traces`. `provenance` describes the traces.
///
/// # Errors
/// [`FittingError::TooFew`].
pub fn fit(name: &str, provenance: &str, traces: &[&Trace]) -> Result<Family, FittingError> {
    let coarse = traces.iter().filter(|trace| is_coarse(trace)).count() * 2 > traces.len();
    let step = if coarse { COARSE } else { FINE };
    let series: Vec<(Vec<f64>, f64)> = traces
        .iter()
        .map(|trace| {
            let rates = rates(trace, step);
            let mean = mean(&rates);
            (rates, mean)
        })
        .filter(|(rates, mean)| *mean > 1.0 && step * rates.len() as u32 >= Duration::from_secs(10))
        .collect();
    if series.len() < 2 {
        return Err(FittingError::TooFew(series.len()));
    }
    let mut counts = vec![vec![0.0f64; LEVELS]; LEVELS];
    let mut seen = vec![(0.0f64, 0.0f64, 0.0f64); LEVELS];
    let (mut lengths, mut starts, mut steps) = (Vec::new(), 0.0, 0.0);
    for (rates, mean) in &series {
        let of_trace = outages(rates, *mean);
        starts += of_trace.len() as f64;
        lengths.extend(of_trace);
        let mut before = None;
        // Each recording has the same weight, whatever its length.
        let weight = 1.0 / rates.len() as f64;
        for &rate in rates.iter().filter(|&&rate| rate >= OUTAGE_SHARE * mean) {
            steps += 1.0;
            let state = nearest_level(rate / mean);
            let excess = libm::log(rate / (mean * level(state)));
            let (count, sum, squares) = &mut seen[state];
            (*count, *sum, *squares) = (*count + weight, *sum + weight * excess, *squares + weight * excess * excess);
            if let Some(before) = before {
                let row: &mut Vec<f64> = &mut counts[before];
                row[state] += weight;
            }
            before = Some(state);
        }
    }
    let all: f64 = seen.iter().map(|(count, ..)| count).sum();
    let share = |value: f64, of: f64| if of > 0.0 { value / of } else { 0.0 };
    Ok(Family {
        name: name.to_owned(),
        provenance: provenance.to_owned(),
        step_ms: step.as_millis() as u32,
        mean_bps: quantiles(series.iter().map(|(_, mean)| *mean).collect()),
        occupancy: seen.iter().map(|(count, ..)| share(*count, all)).collect(),
        transitions: counts
            .iter()
            .map(|row| {
                let sum = row.iter().sum();
                row.iter().map(|&count| share(count, sum)).collect()
            })
            .collect(),
        within: seen
            .iter()
            .map(|&(count, sum, squares)| {
                let shift = share(sum, count);
                (shift, libm::sqrt((share(squares, count) - shift * shift).max(0.0)))
            })
            .collect(),
        outage_start: share(starts, steps),
        outage_steps: quantiles(lengths),
        held_out: None,
    })
}

/// Largest difference between the distributions of two samples, 0 to 1 (two-sample Kolmogorov-Smirnov statistic). It is
/// 1 if either sample is empty.
#[must_use]
pub fn distance(first: &[f64], second: &[f64]) -> f64 {
    if first.is_empty() || second.is_empty() {
        return 1.0;
    }
    let sorted = |values: &[f64]| {
        let mut values = values.to_vec();
        values.sort_by(f64::total_cmp);
        values
    };
    let (first, second) = (sorted(first), sorted(second));
    let (mut one, mut other, mut most) = (0, 0, 0.0f64);
    while one < first.len() && other < second.len() {
        let value = first[one].min(second[other]);
        while one < first.len() && first[one] <= value {
            one += 1;
        }
        while other < second.len() && second[other] <= value {
            other += 1;
        }
        most = most.max((one as f64 / first.len() as f64 - other as f64 / second.len() as f64).abs());
    }
    most
}

/// Autocorrelation of `values` at a lag; zero if they do not vary.
fn autocorrelation(values: &[f64], lag: usize) -> f64 {
    let average = mean(values);
    let variance: f64 = values.iter().map(|value| (value - average) * (value - average)).sum();
    if values.len() <= lag || variance <= 0.0 {
        return 0.0;
    }
    let pairs = values.iter().zip(&values[lag..]);
    pairs.map(|(first, second)| (first - average) * (second - average)).sum::<f64>() / variance
}

/// Error of a family on the recordings `held_out`. Each recording is compared with `seeds` traces of its length and
/// mean. `fitted` is the number of recordings in the fit.
#[must_use]
pub fn held_out_error(family: &Family, held_out: &[&Trace], fitted: usize, seeds: u64) -> FitError {
    let step = Duration::from_millis(u64::from(family.step_ms));
    let mut distances: [Vec<f64>; 3] = Default::default();
    let mut correlations: [Vec<f64>; 2] = Default::default();
    let (mut real_outages, mut made_outages) = (Vec::new(), Vec::new());
    for (number, &real) in held_out.iter().enumerate() {
        let length = real.period().min(MAX_DURATION);
        let average = mean(&rates(real, step));
        let made: Vec<Trace> = (0..seeds)
            .filter_map(|seed| {
                let rate = lockstep_units::Bitrate::from_bps(average as u64);
                family.trace(length, 1_000 * number as u64 + seed, Some(rate)).ok()
            })
            .collect();
        let over_mean = |trace: &Trace, step: Duration| -> Vec<f64> {
            let rates = rates(trace, step);
            let mean = mean(&rates).max(1.0);
            rates.into_iter().map(|rate| rate / mean).collect()
        };
        for (distances, window) in distances.iter_mut().zip([FINE, COARSE, 10 * COARSE]) {
            let real = over_mean(real, window);
            if window < step || real.len() < 3 {
                continue;
            }
            let made: Vec<f64> = made.iter().flat_map(|trace| over_mean(trace, window)).collect();
            distances.push(distance(&real, &made));
        }
        for (correlations, lag) in correlations.iter_mut().zip([1, 5]) {
            let of = |trace: &Trace| autocorrelation(&rates(trace, COARSE), lag);
            let made: Vec<f64> = made.iter().map(of).collect();
            correlations.push((of(real) - mean(&made)).abs());
        }
        real_outages.extend(outages(&rates(real, step), average));
        made_outages.extend(made.iter().flat_map(|trace| outages(&rates(trace, step), average)));
    }
    let summary = |values: &[f64]| (mean(values), values.iter().copied().fold(0.0, f64::max));
    let any = !real_outages.is_empty() && !made_outages.is_empty();
    FitError {
        traces: (fitted as u32, held_out.len() as u32),
        rates_100ms: (!distances[0].is_empty()).then(|| summary(&distances[0])),
        rates_1s: summary(&distances[1]),
        rates_10s: summary(&distances[2]),
        autocorrelation_1s: summary(&correlations[0]),
        autocorrelation_5s: summary(&correlations[1]),
        outage_lengths: any.then(|| distance(&real_outages, &made_outages)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_is_0_for_equal_and_1_for_disjoint_samples() {
        assert_eq!(distance(&[1.0, 2.0, 3.0], &[3.0, 1.0, 2.0]), 0.0);
        assert_eq!(distance(&[1.0, 2.0], &[3.0, 4.0]), 1.0);
        assert_eq!(distance(&[1.0, 2.0, 3.0, 4.0], &[1.0, 2.0, 9.0, 9.0]), 0.5);
        assert_eq!(distance(&[], &[1.0]), 1.0);
    }

    #[test]
    fn fitted_family_resembles_held_out_traces_of_its_kind() {
        let spec = |seed: u64| Trace::from_spec(&format!("cellular:mean=2mbps,seed={seed},duration=300s")).unwrap();
        let traces: Vec<Trace> = (0..10).map(spec).collect();
        let all: Vec<&Trace> = traces.iter().collect();
        let family = fit("made", "cellular", &all[..7]).unwrap();
        family.validate().unwrap();
        assert_eq!(family.step_ms, 100);
        let error = held_out_error(&family, &all[7..], 7, 4);
        assert!(error.rates_1s.0 < 0.2, "{error:?}");
        // A first-order chain over noisy rates has less memory than the recordings. This known weakness must not grow.
        assert!(error.autocorrelation_1s.0 < 0.45, "{error:?}");
        let constant = Trace::from_spec("constant:2mbps,duration=300s").unwrap();
        let strange = held_out_error(&family, &[&constant], 7, 4);
        assert!(strange.rates_1s.0 > 2.0 * error.rates_1s.0, "{strange:?}");
    }

    #[test]
    fn one_trace_with_traffic_is_too_few() {
        let one = Trace::from_spec("constant:1mbps").unwrap();
        let none = Trace::from_spec("constant:0bps").unwrap();
        assert_eq!(fit("x", "", &[&one, &none, &none]), Err(FittingError::TooFew(1)));
    }
}
