//! What came of a scenario, by the metrics of RFC 8868, section 3: rates and goodput over time, delays, losses, use of
//! the links, fairness, and the time until rates settle.

use std::time::Duration;

use lockstep_call::Distribution;
use lockstep_measure::Scores;
use lockstep_units::{Bitrate, Timestamp};
use serde::{Deserialize, Serialize};

use crate::meter::{FlowMeter, METER_INTERVAL};

/// A rate has settled where its mean over this time is near what it is in the end.
const SETTLED_WINDOW: Duration = Duration::from_secs(5);
/// How near.
const SETTLED_SHARE: f64 = 0.1;

/// Quantiles of delays, milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DelayReport {
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// The longest.
    pub longest: f64,
}

impl DelayReport {
    pub(super) fn of(mut delays: Distribution) -> Option<Self> {
        let mut at = |share| delays.quantile(share);
        Some(Self { p50: at(0.5)?, p95: at(0.95)?, p99: at(0.99)?, longest: at(1.0)? })
    }
}

/// What a TCP connection did.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TransferReport {
    /// Times that its timer ran out.
    pub timeouts: u64,
    /// Files that it carried.
    pub files: u64,
    /// The mean time that one took, seconds.
    pub mean_file_seconds: Option<f64>,
}

/// What the viewer of a call saw.
pub type VideoReport = Scores;

/// One flow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FlowReport {
    /// Its name in the scenario.
    pub name: String,
    /// What it is.
    pub kind: String,
    /// When it was active, of what is evaluated: (from, to) in seconds.
    pub active_seconds: Vec<(f64, f64)>,
    /// Rate at which it sent while it was active, headers included.
    pub sent_bps: Bitrate,
    /// Rate at which its packets arrived.
    pub received_bps: Bitrate,
    /// Rate of what was of use: frames that were shown, data of TCP without headers and repetitions.
    pub goodput_bps: Bitrate,
    /// Share of its packets that never arrived.
    pub loss: f64,
    /// Share of those that arrived which a queue had marked (ECN).
    pub marked: f64,
    /// Rate of what its receiver sent back.
    pub feedback_bps: Bitrate,
    /// Its priority among media.
    pub priority: f64,
    /// From its sender to its receiver.
    pub one_way_delay_ms: Option<DelayReport>,
    /// The part of that in queues.
    pub queueing_delay_ms: Option<DelayReport>,
    /// What the viewer of a call saw. A pause counts as a stall.
    pub video: Option<VideoReport>,
    /// What a TCP connection did.
    pub transfers: Option<TransferReport>,
    /// Time between two points of the rates below, milliseconds.
    pub interval_ms: u64,
    /// Rate at which it sent over time.
    pub sent_series_bps: Vec<Bitrate>,
    /// Rate at which its packets arrived over time.
    pub received_series_bps: Vec<Bitrate>,
}

/// One link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkReport {
    /// Its name in the scenario.
    pub name: String,
    /// What it could have carried.
    pub capacity_bps: Bitrate,
    /// What it carried of that.
    pub utilisation: f64,
    /// Share of packets that its queue dropped.
    pub dropped: f64,
    /// Share of packets that its queue marked instead (ECN).
    pub marked: f64,
    /// Mean time in its queue, milliseconds.
    pub mean_queueing_delay_ms: f64,
    /// The longest time in its queue, milliseconds.
    pub longest_queueing_delay_ms: f64,
}

/// One medium whose airtime links share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MediumReport {
    /// Its name in the scenario.
    pub name: String,
    /// Share of the time in which it was in use.
    pub busy: f64,
    /// What it carried, IP packets whole.
    pub carried_bps: Bitrate,
    /// Collisions over frames that were carried.
    pub collisions: f64,
}

/// The rate of one flow in a phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhaseRate {
    /// The flow's name.
    pub flow: String,
    /// The rate of its arrivals in the second half of the phase.
    pub received_bps: Bitrate,
}

/// The time from a change until a flow's rate was what it stayed at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SettleTime {
    /// The flow's name.
    pub flow: String,
    /// Time until the mean rate of five seconds is within 10 % of that of the phase's second half; none if it never is.
    pub seconds: Option<f64>,
}

/// A time between two changes of a capacity or of the flows that are there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// When it begins, seconds.
    pub from_seconds: f64,
    /// When it ends, seconds.
    pub to_seconds: f64,
    /// The rates of the flows that are there throughout.
    pub rates: Vec<PhaseRate>,
    /// Jain's index of the media among them that shares a link or a medium, each rate over its priority; the worst,
    /// where several are shared, none where none is.
    pub fairness: Option<f64>,
    /// The lowest of those rates over the highest (RFC 8868, section 3: a third at least).
    pub lowest_over_highest: Option<f64>,
    /// The mean rate of media over that of TCP without files, where both are there.
    pub media_over_tcp: Option<f64>,
    /// When the media settled; empty in phases of less than ten seconds.
    pub settled: Vec<SettleTime>,
}

/// A finished scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScenarioReport {
    /// The scenario's name.
    pub scenario: String,
    /// Where it is from.
    pub source: String,
    /// Seed of everything random in it.
    pub seed: u64,
    /// How long it took, seconds.
    pub seconds: f64,
    /// What of that counts: (from, to), seconds.
    pub evaluated_seconds: (f64, f64),
    /// Each flow.
    pub flows: Vec<FlowReport>,
    /// Each link.
    pub links: Vec<LinkReport>,
    /// Each medium that links share.
    pub shared_media: Vec<MediumReport>,
    /// Each time between two changes.
    pub phases: Vec<Phase>,
    /// The mean of the phases' fairness, by their length.
    pub fairness: Option<f64>,
}

impl ScenarioReport {
    /// The times that flow `name` took to settle, over all phases in which it did, seconds; and whether it failed to in
    /// one.
    #[must_use]
    pub fn settle_times(&self, name: &str) -> (Vec<f64>, bool) {
        let settled = self.phases.iter().flat_map(|phase| &phase.settled).filter(|settled| settled.flow == name);
        let times: Vec<Option<f64>> = settled.map(|settled| settled.seconds).collect();
        (times.iter().copied().flatten().collect(), times.contains(&None))
    }
}

/// The time from `from` until the rate settles at what it has in the second half of the phase.
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

/// Phases shorter than this say nothing of settling.
pub(super) const LEAST_SETTLING: Duration = SETTLED_WINDOW.saturating_mul(2);
