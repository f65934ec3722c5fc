//! Report of a scenario by the metrics of RFC 8868, section 3.
//!
//! It has rates and goodput over time, delays, losses, utilization of links, fairness and settling times.

use std::time::Duration;

use lockstep_call::Distribution;
use lockstep_measure::Scores;
use lockstep_units::{Bitrate, Timestamp};
use serde::{Deserialize, Serialize};

use crate::meter::{FlowMeter, METER_INTERVAL};

/// A rate has settled when its mean over this window is near its final mean.
const SETTLED_WINDOW: Duration = Duration::from_secs(5);
/// Largest relative difference of a settled rate from the final mean.
const SETTLED_SHARE: f64 = 0.1;

/// Quantiles of delays, ms.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DelayReport {
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Maximum.
    pub longest: f64,
}

impl DelayReport {
    pub(super) fn of(mut delays: Distribution) -> Option<Self> {
        let mut at = |share| delays.quantile(share);
        Some(Self { p50: at(0.5)?, p95: at(0.95)?, p99: at(0.99)?, longest: at(1.0)? })
    }
}

/// Results of a TCP connection.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TransferReport {
    /// Number of timeouts.
    pub timeouts: u64,
    /// Number of transferred files.
    pub files: u64,
    /// Mean transfer time of a file, seconds.
    pub mean_file_seconds: Option<f64>,
}

/// Scores of a call's video.
pub type VideoReport = Scores;

/// Results of one flow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FlowReport {
    /// Name in the scenario.
    pub name: String,
    /// Name of the flow's kind.
    pub kind: String,
    /// Intervals of activity (from, to) within the evaluated part, seconds.
    pub active_seconds: Vec<(f64, f64)>,
    /// Sending rate while the flow was active, headers included, bit/s.
    pub sent_bps: Bitrate,
    /// Arrival rate, headers included, bit/s.
    pub received_bps: Bitrate,
    /// Goodput, bit/s: shown frames of a call, or data of TCP without headers and retransmissions.
    pub goodput_bps: Bitrate,
    /// Share of packets that never arrived.
    pub loss: f64,
    /// Share of arrived packets with an ECN mark.
    pub marked: f64,
    /// Rate of packets from the receiver to the sender, bit/s.
    pub feedback_bps: Bitrate,
    /// Priority of a media flow.
    pub priority: f64,
    /// One-way delay from the sender to the receiver.
    pub one_way_delay_ms: Option<DelayReport>,
    /// Queueing delay, as a part of the one-way delay.
    pub queueing_delay_ms: Option<DelayReport>,
    /// Scores of a call. A pause counts as a stall.
    pub video: Option<VideoReport>,
    /// Results of a TCP connection.
    pub transfers: Option<TransferReport>,
    /// Interval of the series below, ms.
    pub interval_ms: u64,
    /// Sending rate over time, bit/s.
    pub sent_series_bps: Vec<Bitrate>,
    /// Arrival rate over time, bit/s.
    pub received_series_bps: Vec<Bitrate>,
}

/// Results of one link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkReport {
    /// Name in the scenario.
    pub name: String,
    /// Mean capacity, bit/s.
    pub capacity_bps: Bitrate,
    /// Served bytes over capacity, 0-1.
    pub utilisation: f64,
    /// Share of packets that the queue dropped.
    pub dropped: f64,
    /// Share of packets that the queue marked (ECN).
    pub marked: f64,
    /// Mean queueing delay, ms.
    pub mean_queueing_delay_ms: f64,
    /// Longest queueing delay, ms.
    pub longest_queueing_delay_ms: f64,
}

/// Results of one medium that links share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MediumReport {
    /// Name in the scenario.
    pub name: String,
    /// Share of time in which the medium was busy, 0-1.
    pub busy: f64,
    /// Rate of the IP packets that it carried, bit/s.
    pub carried_bps: Bitrate,
    /// Collisions per carried frame.
    pub collisions: f64,
}

/// Rate of one flow in a phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhaseRate {
    /// Name of the flow.
    pub flow: String,
    /// Arrival rate in the second half of the phase, bit/s.
    pub received_bps: Bitrate,
}

/// Settling time of a flow after a change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SettleTime {
    /// Name of the flow.
    pub flow: String,
    /// Time until the five-second mean is within 10 % of the mean of the phase's second half; `None` if never.
    pub seconds: Option<f64>,
}

/// Interval between two changes of a capacity or of the active flows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// Start of the phase, seconds.
    pub from_seconds: f64,
    /// End of the phase, seconds.
    pub to_seconds: f64,
    /// Rates of the flows that are active during the whole phase.
    pub rates: Vec<PhaseRate>,
    /// Jain's index of the media that share a link or medium, each rate over its priority. The worst one if several are
    /// shared; `None` if none is.
    pub fairness: Option<f64>,
    /// Lowest of these rates over the highest (RFC 8868, section 3: at least a third).
    pub lowest_over_highest: Option<f64>,
    /// Mean rate of media over that of TCP without files, if both are active.
    pub media_over_tcp: Option<f64>,
    /// Settling times of media; empty in phases of less than ten seconds.
    pub settled: Vec<SettleTime>,
}

/// Results of a scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScenarioReport {
    /// Name of the scenario.
    pub scenario: String,
    /// Source of the scenario.
    pub source: String,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Duration, seconds.
    pub seconds: f64,
    /// Evaluated interval (from, to), seconds.
    pub evaluated_seconds: (f64, f64),
    /// One report per flow.
    pub flows: Vec<FlowReport>,
    /// One report per link.
    pub links: Vec<LinkReport>,
    /// One report per shared medium.
    pub shared_media: Vec<MediumReport>,
    /// Phases of the scenario.
    pub phases: Vec<Phase>,
    /// Mean fairness of the phases, by length.
    pub fairness: Option<f64>,
}

impl ScenarioReport {
    /// Settling times of flow `name` over all phases, seconds, and whether it failed to settle in any phase.
    #[must_use]
    pub fn settle_times(&self, name: &str) -> (Vec<f64>, bool) {
        let settled = self.phases.iter().flat_map(|phase| &phase.settled).filter(|settled| settled.flow == name);
        let times: Vec<Option<f64>> = settled.map(|settled| settled.seconds).collect();
        (times.iter().copied().flatten().collect(), times.contains(&None))
    }
}

/// Time from `from` until the rate settles at its mean of the phase's second half.
pub(super) fn settle_time(meter: &FlowMeter, from: Timestamp, to: Timestamp) -> Option<Duration> {
    let length = to.saturating_since(from);
    let middle = from + length / 2;
    let stays = Bitrate::mean(meter.received_between(middle, to), to.saturating_since(middle)).as_bps() as f64;
    let mut start = from;
    while start + SETTLED_WINDOW <= to {
        let mean = Bitrate::mean(meter.received_between(start, start + SETTLED_WINDOW), SETTLED_WINDOW).as_bps() as f64;
        if (mean - stays).abs() <= SETTLED_SHARE * stays {
            return Some(start.saturating_since(from));
        }
        start += METER_INTERVAL;
    }
    None
}

/// Phases shorter than this have no settling times.
pub(super) const MIN_SETTLING_PHASE: Duration = SETTLED_WINDOW.saturating_mul(2);
