//! Named tests of congestion control: flows, links and times as data, so that files can define further tests.
//!
//! [`Scenario::built_in`] has the test cases of RFC 8867. It also has those of RFC 8869 that the models of a cell and of
//! Wi-Fi ([`lockstep_link::Medium`]) can represent.
//!
//! ```text
//! Scenario --run--> ScenarioReport --metrics--> Metrics
//! ```

mod cellular;
mod fairness;
mod metrics;
mod report;
mod rfc8867;
mod run;
mod wifi;

use std::time::Duration;

use lockstep_link::{ConfigError, LinkConfig, MediumConfig, QueueConfig};
use lockstep_units::{Bitrate, ByteCount, Timestamp};
use serde::{Deserialize, Serialize};

use crate::activity::Activity;
use crate::call_flow::SimulationError;
use crate::cross_traffic::{
    ConstantBitRate, CrossTraffic, Cubic, FileTransfers, NewReno, OnOff, PACKET, Period, Tcp, WindowAlgorithm, Workload,
};
use crate::network::{Route, TopologyError};

pub use fairness::jain;
pub use metrics::Metrics;
pub use report::{
    DelayReport, FlowReport, LinkReport, MediumReport, Phase, PhaseRate, ScenarioReport, SettleTime, TransferReport,
    VideoReport,
};
pub use run::DRAIN;

/// Limit on the duration of a scenario.
const MAX_DURATION: Duration = Duration::from_secs(86_400);
/// Duration of the sound in one packet.
const AUDIO_INTERVAL: Duration = Duration::from_millis(20);
/// Size of the RTP, UDP and IPv4 headers of an audio packet.
const AUDIO_HEADERS: ByteCount = ByteCount::new(40);
/// Limit on flows, and on links.
const MAX_ENTRIES: usize = 1_024;

/// Reason why a scenario cannot be run, or why it stopped early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScenarioError {
    /// The text is not JSON of this form.
    #[error("cannot read the scenario: {0}")]
    Json(#[from] serde_json::Error),
    /// The duration is out of range.
    #[error("expected a scenario of one second to one day, found {0:?}")]
    Duration(Duration),
    /// The scenario has too many flows or links.
    #[error("expected at most {MAX_ENTRIES} flows and {MAX_ENTRIES} links")]
    TooMany,
    /// The caller stopped the scenario.
    #[error("{0}")]
    Stopped(crate::StopReason),
    /// A link's configuration is invalid.
    #[error("link `{name}`: {error}")]
    Link {
        /// Name of the link.
        name: String,
        /// Reason why the configuration is invalid.
        error: ConfigError,
    },
    /// A link names an unknown medium.
    #[error("link `{link}` names the unknown medium `{medium}`")]
    Medium {
        /// Name of the link.
        link: String,
        /// Name of the medium.
        medium: String,
    },
    /// A flow's priority is not a finite number above zero.
    #[error("flow `{0}`: expected a priority above zero")]
    Priority(String),
    /// A flow is never active.
    #[error("flow `{0}` is never active during the scenario")]
    NeverActive(String),
    /// The routes do not match the links.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// The number of calls is not the number of media flows.
    #[error("expected one call per media flow ({wanted}), found {given}")]
    Media {
        /// Number of media flows.
        wanted: usize,
        /// Number of calls.
        given: usize,
    },
    /// A call failed.
    #[error("flow `{name}`: {error}")]
    Call {
        /// Name of the flow.
        name: String,
        /// Reason why the call failed.
        error: SimulationError,
    },
}

/// A named link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioLink {
    /// Name in reports.
    pub name: String,
    /// Configuration of the link.
    pub config: LinkConfig,
}

/// A named medium. Links name it to share its airtime ([`LinkConfig::medium`]).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioMedium {
    /// Name in links and reports.
    pub name: String,
    /// Kind of the medium.
    pub kind: MediumConfig,
}

/// Congestion window algorithm of a TCP connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TcpWindow {
    /// [`NewReno`].
    NewReno,
    /// [`Cubic`].
    Cubic,
}

/// Files that a TCP connection transfers; see [`FileTransfers`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Files {
    /// Size of the smallest file, bytes.
    pub smallest_bytes: ByteCount,
    /// Size of the largest file, bytes.
    pub largest_bytes: ByteCount,
    /// Mean pause between files, seconds.
    pub mean_pause_seconds: f64,
    /// Whether a pause precedes the first file.
    #[serde(default)]
    pub begins_paused: bool,
}

/// Kind of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum FlowKind {
    /// A call with the controller under test.
    Media,
    /// Sound of a call: one packet every 20 ms, without congestion control.
    Audio {
        /// Bit rate of the codec, without headers (RFC 8867, section 4.3: 20 kb/s).
        codec_bps: Bitrate,
    },
    /// A TCP connection.
    Tcp {
        /// Congestion window algorithm.
        window: TcpWindow,
        /// Files to transfer; unlimited data if absent.
        #[serde(default)]
        files: Option<Files>,
    },
    /// Constant bit rate.
    ConstantBitRate {
        /// Rate on the link, bit/s.
        rate_bps: Bitrate,
    },
    /// On-off traffic with exponentially distributed periods.
    OnOff {
        /// Rate on the link in periods with packets, bit/s.
        rate_bps: Bitrate,
        /// Mean duration of a period with packets, seconds.
        mean_on_seconds: f64,
        /// Mean duration of a period without packets, seconds.
        mean_off_seconds: f64,
    },
}

impl FlowKind {
    /// Name in reports.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Media => "media",
            Self::Audio { .. } => "audio",
            Self::Tcp { window: TcpWindow::NewReno, files: None } => "TCP NewReno",
            Self::Tcp { window: TcpWindow::Cubic, files: None } => "TCP CUBIC",
            Self::Tcp { window: TcpWindow::NewReno, files: Some(_) } => "TCP NewReno files",
            Self::Tcp { window: TcpWindow::Cubic, files: Some(_) } => "TCP CUBIC files",
            Self::ConstantBitRate { .. } => "constant rate",
            Self::OnOff { .. } => "on and off",
        }
    }
}

/// A flow of a scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioFlow {
    /// Name in reports.
    pub name: String,
    /// Kind of the flow.
    pub kind: FlowKind,
    /// Indices of the links from the sender to the receiver.
    pub forward: Vec<usize>,
    /// Indices of the links from the receiver to the sender.
    pub reverse: Vec<usize>,
    /// Additional delay in each direction, ms.
    #[serde(default)]
    pub access_delay_ms: f64,
    /// Intervals of activity (from, to), seconds.
    pub active_seconds: Vec<(f64, f64)>,
    /// Whether both ends support ECN.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ecn: bool,
    /// Desired rate relative to other media on the same route (RFC 8867, section 6.1). If priorities differ, the flows
    /// of one route are coupled ([`lockstep_control::FlowGroup`]).
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub priority: f64,
}

fn one() -> f64 {
    1.0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_one(priority: &f64) -> bool {
    *priority == 1.0
}

impl ScenarioFlow {
    /// Times at which the flow is active.
    #[must_use]
    pub fn activity(&self) -> Activity {
        Activity::of(self.active_seconds.iter().map(|&(from, to)| (moment(from), moment(to))))
    }

    fn route(&self) -> Route {
        Route {
            forward: self.forward.clone(),
            reverse: self.reverse.clone(),
            access_delay: time(self.access_delay_ms / 1e3),
            ecn_capable: self.ecn,
        }
    }

    /// Cross traffic of this flow; `None` for media.
    fn traffic(&self, activity: Activity, seed: u64) -> Option<CrossTraffic> {
        Some(match self.kind {
            FlowKind::Media => return None,
            FlowKind::Audio { codec_bps } => {
                let packet = codec_bps.bytes_in(AUDIO_INTERVAL) + AUDIO_HEADERS;
                let rate = Bitrate::mean(packet, AUDIO_INTERVAL);
                CrossTraffic::ConstantBitRate(ConstantBitRate::new(rate, packet, activity))
            }
            FlowKind::Tcp { window, files } => {
                let window = match window {
                    TcpWindow::NewReno => WindowAlgorithm::NewReno(NewReno::default()),
                    TcpWindow::Cubic => WindowAlgorithm::Cubic(Cubic::default()),
                };
                let workload = files.map_or(Workload::Bulk, |files| {
                    Workload::Files(FileTransfers {
                        smallest: files.smallest_bytes,
                        largest: files.largest_bytes,
                        mean_pause: time(files.mean_pause_seconds),
                        begins_paused: files.begins_paused,
                    })
                });
                CrossTraffic::Tcp(Box::new(Tcp::new(window, workload, activity, seed)))
            }
            FlowKind::ConstantBitRate { rate_bps } => {
                CrossTraffic::ConstantBitRate(ConstantBitRate::new(rate_bps, PACKET, activity))
            }
            FlowKind::OnOff { rate_bps, mean_on_seconds, mean_off_seconds } => {
                let (on, off) = (time(mean_on_seconds), time(mean_off_seconds));
                let (on, off) = (Period::Exponential(on), Period::Exponential(off));
                CrossTraffic::OnOff(OnOff::new(rate_bps, PACKET, on, off, activity, seed))
            }
        })
    }
}

/// Duration of `seconds`, limited to zero and [`MAX_DURATION`].
fn time(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds)
        .unwrap_or(if seconds > 0.0 { MAX_DURATION } else { Duration::ZERO })
        .min(MAX_DURATION)
}

fn moment(seconds: f64) -> Timestamp {
    Timestamp::ZERO + time(seconds)
}

/// Bit rates of the media of a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MediaRates {
    /// Initial bit rate, bit/s.
    pub initial_bps: Bitrate,
    /// Lowest bit rate, bit/s.
    pub least_bps: Bitrate,
    /// Highest bit rate, bit/s.
    pub most_bps: Bitrate,
}

impl Default for MediaRates {
    /// 150 kb/s to 1.5 Mb/s, initially 150 kb/s (RFC 8867, section 4.3).
    fn default() -> Self {
        Self {
            initial_bps: Bitrate::from_kbps(150),
            least_bps: Bitrate::from_kbps(150),
            most_bps: Bitrate::from_kbps(1_500),
        }
    }
}

/// A test: links, flows and the expected behaviour.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Short name in kebab case.
    pub name: String,
    /// Topic in a few words.
    pub title: String,
    /// Source, such as an RFC's section.
    #[serde(default)]
    pub source: String,
    /// Expected behaviour of a good controller, in one sentence.
    #[serde(default)]
    pub expected: String,
    /// Duration, seconds.
    pub seconds: f64,
    /// Bit rates of the media.
    #[serde(default)]
    pub media: MediaRates,
    /// Part (from, to) in seconds that is evaluated for rates, losses and delays; everything if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluated_seconds: Option<(f64, f64)>,
    /// Media that links share.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shared_media: Vec<ScenarioMedium>,
    /// Links. Flows refer to them by index.
    pub links: Vec<ScenarioLink>,
    /// The flows.
    pub flows: Vec<ScenarioFlow>,
}

impl Scenario {
    /// All built-in scenarios.
    #[must_use]
    pub fn built_in() -> Vec<Self> {
        let mut all = rfc8867::scenarios();
        all.extend(cellular::scenarios());
        all.extend(wifi::scenarios());
        all
    }

    /// The built-in scenario `name`; `None` if there is none.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::built_in().into_iter().find(|scenario| scenario.name == name)
    }

    /// Parses and checks a scenario in JSON.
    ///
    /// # Errors
    /// If the text is not JSON of a [`Scenario`], or the scenario cannot be run.
    pub fn from_json(text: &str) -> Result<Self, ScenarioError> {
        let scenario: Self = serde_json::from_str(text)?;
        scenario.check()?;
        Ok(scenario)
    }

    /// Duration of the scenario.
    #[must_use]
    pub fn duration(&self) -> Duration {
        time(self.seconds)
    }

    /// Limits the scenario to its first `length`. Flows that start later are removed.
    #[must_use]
    pub fn shortened(mut self, length: Duration) -> Self {
        self.seconds = self.seconds.min(length.as_secs_f64());
        self.flows.retain(|flow| flow.activity().start() < moment(self.seconds));
        self
    }

    /// Replaces every queue by the result of `discipline`.
    #[must_use]
    pub fn with_queues(mut self, discipline: impl Fn(QueueConfig) -> QueueConfig) -> Self {
        for link in &mut self.links {
            link.config.queue = discipline(link.config.queue);
        }
        self
    }

    /// Enables ECN (RFC 8867, section 6.2): all queues mark packets, and the ends of media and TCP support it.
    /// Drop-tail queues cannot mark and become CoDel queues.
    #[must_use]
    pub fn with_ecn(self) -> Self {
        let mut scenario = self.with_queues(|queue| match queue {
            QueueConfig::DropTail { .. } => queue.with_codel().with_ecn(),
            other => other.with_ecn(),
        });
        for flow in &mut scenario.flows {
            flow.ecn = matches!(flow.kind, FlowKind::Media | FlowKind::Tcp { .. });
        }
        scenario
    }

    /// Evaluated interval: [`Scenario::evaluated_seconds`], limited to the duration. The whole scenario if that is
    /// empty.
    #[must_use]
    pub fn evaluated(&self) -> (Timestamp, Timestamp) {
        let end = Timestamp::ZERO + self.duration();
        match self.evaluated_seconds {
            Some((from, to)) if moment(from) < end => (moment(from), moment(to).min(end)),
            _ => (Timestamp::ZERO, end),
        }
    }

    /// Media flows in order, each with its activity within the scenario.
    pub fn media_flows(&self) -> impl Iterator<Item = (&ScenarioFlow, Activity)> {
        let end = Timestamp::ZERO + self.duration();
        let media = self.flows.iter().filter(|flow| flow.kind == FlowKind::Media);
        media.map(move |flow| (flow, flow.activity().until(end)))
    }

    /// Checks that the scenario can be run.
    ///
    /// # Errors
    /// If a duration, number, link, medium, priority or activity is invalid.
    pub fn check(&self) -> Result<(), ScenarioError> {
        let duration = self.duration();
        if !(Duration::from_secs(1)..=MAX_DURATION).contains(&duration) || !self.seconds.is_finite() {
            return Err(ScenarioError::Duration(duration));
        }
        if self.flows.len() > MAX_ENTRIES || self.links.len() > MAX_ENTRIES {
            return Err(ScenarioError::TooMany);
        }
        for link in &self.links {
            let error = link.config.validate().err();
            if let Some(error) = error {
                return Err(ScenarioError::Link { name: link.name.clone(), error });
            }
        }
        for link in &self.links {
            let medium = link.config.medium.as_ref();
            let known = |name: &String| self.shared_media.iter().any(|medium| medium.name == *name);
            if let Some(medium) = medium.filter(|&name| !known(name)) {
                return Err(ScenarioError::Medium { link: link.name.clone(), medium: medium.clone() });
            }
        }
        let sound = |flow: &&ScenarioFlow| flow.priority.is_finite() && flow.priority > 0.0;
        if let Some(flow) = self.flows.iter().find(|flow| !sound(flow)) {
            return Err(ScenarioError::Priority(flow.name.clone()));
        }
        let never = |flow: &&ScenarioFlow| flow.activity().start() >= Timestamp::ZERO + duration;
        if let Some(flow) = self.flows.iter().find(never) {
            return Err(ScenarioError::NeverActive(flow.name.clone()));
        }
        Ok(())
    }
}
