//! Metrics of a scenario in one row (RFC 8868, section 3), over all media flows.

use serde::Serialize;

use lockstep_call::mean;

use super::report::{FlowReport, ScenarioReport};

/// Metrics of RFC 8868, section 3, one number each. Rates and delays are means over the media flows. `None` if the
/// scenario has nothing to measure.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Metrics {
    /// Sending rate, kb/s (metric 1).
    pub sent_kbps: f64,
    /// Goodput, kb/s: rate of the frames that were shown.
    pub goodput_kbps: f64,
    /// Median of the one-way delay, ms (metric 4).
    pub delay_p50_ms: Option<f64>,
    /// 95th percentile of the one-way delay, ms.
    pub delay_p95_ms: Option<f64>,
    /// 95th percentile of the queueing delay, ms (RFC 8867, section 4.1: queue length).
    pub queue_p95_ms: Option<f64>,
    /// Lost packets, % (metric 5).
    pub loss_percent: f64,
    /// ECN-marked packets among those that arrived, %.
    pub marked_percent: f64,
    /// Lowest rate over highest rate of media that share a link, each over its priority (metric 7). Mean over the
    /// phases, by length.
    pub lowest_over_highest: Option<f64>,
    /// Rate of media over that of a long TCP connection (metric 7). Mean over the phases, by length.
    pub media_over_tcp: Option<f64>,
    /// Convergence time, seconds (metric 8): median over flows and changes. Rates that never settle count as longest.
    /// `None` if the median never settles.
    pub settles_seconds: Option<f64>,
    /// Instability, % (metric 9): mean change of the sending rate between seconds over the mean rate. Starts ten
    /// seconds after the start of the flow.
    pub unsteadiness_percent: Option<f64>,
    /// Utilization of the most used link or medium, % (metric 10).
    pub used_percent: f64,
    /// Rate of feedback, kb/s (RFC 8867, section 4.1: feedback overhead).
    pub feedback_kbps: f64,
}

/// Weighted mean of (weight, value) pairs.
fn weighted(values: impl Iterator<Item = (f64, f64)>) -> Option<f64> {
    let (sum, weights) =
        values.fold((0.0, 0.0), |(sum, weights), (weight, value)| (sum + weight * value, weights + weight));
    (weights > 0.0).then(|| sum / weights)
}

/// Mean change of the rate from second to second over its mean. Starts ten seconds after the flow starts, when it has
/// found its rate.
fn unsteadiness(flow: &FlowReport) -> Option<f64> {
    let in_a_second = usize::try_from(1_000 / flow.interval_ms.max(1)).ok()?.max(1);
    let (mut rates, mut steps) = (Vec::new(), Vec::new());
    for &(from, to) in &flow.active_seconds {
        let (first, last) = ((from + 10.0).ceil() as usize * in_a_second, to as usize * in_a_second);
        let points = flow.sent_series_bps.get(first..last.min(flow.sent_series_bps.len())).unwrap_or_default();
        let seconds = points.chunks_exact(in_a_second);
        let before = rates.len();
        rates.extend(seconds.map(|rates| mean(rates.iter().map(|rate| rate.as_bps() as f64)).unwrap_or(0.0)));
        steps.extend(rates[before..].windows(2).map(|pair| (pair[1] - pair[0]).abs()));
    }
    let average = mean(rates).filter(|&average| average > 0.0)?;
    Some(mean(steps)? / average)
}

impl ScenarioReport {
    /// Metrics of the scenario.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        let media = || self.flows.iter().filter(|flow| flow.kind == "media" && !flow.active_seconds.is_empty());
        let kbps = |rate: fn(&FlowReport) -> u64| mean(media().map(|flow| rate(flow) as f64 / 1e3)).unwrap_or(0.0);
        let percent = |share: fn(&FlowReport) -> f64| 100.0 * mean(media().map(share)).unwrap_or(0.0);
        let over_time = |value: fn(&super::Phase) -> Option<f64>| {
            let phases = self.phases.iter();
            weighted(phases.filter_map(|phase| Some((phase.to_seconds - phase.from_seconds, value(phase)?))))
        };
        let settled = || self.phases.iter().flat_map(|phase| &phase.settled).map(|settled| settled.seconds);
        let mut times: Vec<f64> = settled().map(|time| time.unwrap_or(f64::INFINITY)).collect();
        times.sort_by(f64::total_cmp);
        let links = self.links.iter().map(|link| link.utilisation);
        // The load of a link on a medium does not show how much the medium is used.
        let used = self.shared_media.iter().map(|medium| medium.busy).chain(links).fold(0.0, f64::max);
        Metrics {
            sent_kbps: kbps(|flow| flow.sent_bps.as_bps()),
            goodput_kbps: kbps(|flow| flow.goodput_bps.as_bps()),
            delay_p50_ms: mean(media().filter_map(|flow| Some(flow.one_way_delay_ms?.p50))),
            delay_p95_ms: mean(media().filter_map(|flow| Some(flow.one_way_delay_ms?.p95))),
            queue_p95_ms: mean(media().filter_map(|flow| Some(flow.queueing_delay_ms?.p95))),
            loss_percent: percent(|flow| flow.loss),
            marked_percent: percent(|flow| flow.marked),
            lowest_over_highest: over_time(|phase| phase.lowest_over_highest),
            media_over_tcp: over_time(|phase| phase.media_over_tcp),
            settles_seconds: times.get(times.len() / 2).copied().filter(|time| time.is_finite()),
            unsteadiness_percent: mean(media().filter_map(unsteadiness)).map(|share| 100.0 * share),
            used_percent: 100.0 * used,
            feedback_kbps: kbps(|flow| flow.feedback_bps.as_bps()),
        }
    }
}
