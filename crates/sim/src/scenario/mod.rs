//! Named tests of congestion control: which flows share which links when. As data, so that a file can describe another.
//!
//! [`Scenario::built_in`] has those of RFC 8867 and, as far as our models of a cell and of a Wi-Fi channel can stand
//! for radio ([`lockstep_link::Medium`]), of RFC 8869.

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

/// The longest scenario.
const LONGEST: Duration = Duration::from_secs(86_400);
/// How much sound is in a packet, and the headers around it: RTP's, UDP's and IPv4's.
const AUDIO_INTERVAL: Duration = Duration::from_millis(20);
const AUDIO_HEADERS: ByteCount = ByteCount::new(40);
/// The most flows and links.
const MOST: usize = 1_024;

/// Why a scenario cannot be run, or ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScenarioError {
    /// It is no JSON of this form.
    #[error("the scenario cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    /// It lasts no time or too long.
    #[error("a scenario lasts from a second to a day, not {0:?}")]
    Duration(Duration),
    /// Too many flows or links.
    #[error("a scenario has at most {MOST} flows and links")]
    TooMany,
    /// The driver of the scenario ended it.
    #[error("{0}")]
    Stopped(crate::StopReason),
    /// A link cannot be like this.
    #[error("link `{name}`: {error}")]
    Link {
        /// The link's name.
        name: String,
        /// What is wrong with it.
        error: ConfigError,
    },
    /// A link names a medium that is not there.
    #[error("link `{link}` shares `{medium}`, which is none of the media of the scenario")]
    Medium {
        /// The link's name.
        link: String,
        /// The medium's.
        medium: String,
    },
    /// A flow without a priority.
    #[error("flow `{0}` has a priority that is no number above zero")]
    Priority(String),
    /// A flow is never there.
    #[error("flow `{0}` is active at no time")]
    NeverActive(String),
    /// The routes do not fit the links.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// Not one call was given for each flow of media.
    #[error("{given} calls were given for {wanted} flows of media")]
    Media {
        /// How many there are.
        wanted: usize,
        /// How many were given.
        given: usize,
    },
    /// A call failed.
    #[error("flow `{name}`: {error}")]
    Call {
        /// The flow's name.
        name: String,
        /// Why.
        error: SimulationError,
    },
}

/// A link and its name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioLink {
    /// What reports call it.
    pub name: String,
    /// What it is like.
    pub config: LinkConfig,
}

/// A medium whose airtime links share that name it ([`LinkConfig::medium`]), and its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioMedium {
    /// What links and reports call it.
    pub name: String,
    /// Which kind it is.
    pub kind: MediumConfig,
}

/// Which window a TCP connection has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TcpWindow {
    /// [`NewReno`].
    NewReno,
    /// [`Cubic`].
    Cubic,
}

/// Files that a TCP connection carries, see [`FileTransfers`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Files {
    /// Size of the smallest, bytes.
    pub smallest_bytes: ByteCount,
    /// Size of the largest, bytes.
    pub largest_bytes: ByteCount,
    /// Mean of the pauses between them, seconds.
    pub mean_pause_seconds: f64,
    /// Whether there is a pause before the first.
    #[serde(default)]
    pub begins_paused: bool,
}

/// What a flow is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum FlowKind {
    /// A call under the controller that is tested.
    Media,
    /// Sound beside a call: packets every 20 ms, whatever becomes of them.
    Audio {
        /// The codec's rate, without headers (RFC 8867, section 4.3: 20 kb/s).
        codec_bps: Bitrate,
    },
    /// A TCP connection.
    Tcp {
        /// Its window.
        window: TcpWindow,
        /// Files that it carries; as much as it can if none.
        #[serde(default)]
        files: Option<Files>,
    },
    /// A constant rate.
    ConstantBitRate {
        /// The rate on the link.
        rate_bps: Bitrate,
    },
    /// A rate that comes and goes, with exponential times.
    OnOff {
        /// The rate on the link while it is there.
        rate_bps: Bitrate,
        /// Mean time with packets, seconds.
        mean_on_seconds: f64,
        /// Mean time without, seconds.
        mean_off_seconds: f64,
    },
}

impl FlowKind {
    /// What reports call it.
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
    /// What reports call it.
    pub name: String,
    /// What it is.
    pub kind: FlowKind,
    /// The links from its sender to its receiver, counted from zero.
    pub forward: Vec<usize>,
    /// The links back.
    pub reverse: Vec<usize>,
    /// Delay each way on top of the links', milliseconds.
    #[serde(default)]
    pub access_delay_ms: f64,
    /// When it is active: (from, to) in seconds.
    pub active_seconds: Vec<(f64, f64)>,
    /// Whether its ends understand marks of congestion (ECN).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ecn: bool,
    /// How its rate should compare with those of other media on the same way (RFC 8867, section 6.1). Where they
    /// differ, the flows of one way are coupled ([`lockstep_control::FlowGroup`]).
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
    /// When it is active.
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

    /// The flow of cross traffic that this is; none for media.
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

/// So many seconds; what is no time that a scenario can have becomes zero or the longest.
fn time(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(if seconds > 0.0 { LONGEST } else { Duration::ZERO }).min(LONGEST)
}

fn moment(seconds: f64) -> Timestamp {
    Timestamp::ZERO + time(seconds)
}

/// Bit rates that the media of a scenario has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MediaRates {
    /// At first.
    pub initial_bps: Bitrate,
    /// At least.
    pub least_bps: Bitrate,
    /// At most.
    pub most_bps: Bitrate,
}

impl Default for MediaRates {
    /// RFC 8867, section 4.3: 150 kb/s to 1.5 Mb/s, at first 150 kb/s.
    fn default() -> Self {
        Self {
            initial_bps: Bitrate::from_kbps(150),
            least_bps: Bitrate::from_kbps(150),
            most_bps: Bitrate::from_kbps(1_500),
        }
    }
}

/// A test: links, flows and what is expected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// A short name in kebab case.
    pub name: String,
    /// What it is about, in a few words.
    pub title: String,
    /// Where it is from.
    #[serde(default)]
    pub source: String,
    /// What a good controller does, in a sentence.
    #[serde(default)]
    pub expected: String,
    /// How long it takes, seconds.
    pub seconds: f64,
    /// Bit rates of its media.
    #[serde(default)]
    pub media: MediaRates,
    /// The part of it, (from, to) in seconds, that counts for rates, losses and delays; all of it if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluated_seconds: Option<(f64, f64)>,
    /// Media whose airtime links share.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shared_media: Vec<ScenarioMedium>,
    /// The links; flows name them by their number, from zero.
    pub links: Vec<ScenarioLink>,
    /// The flows.
    pub flows: Vec<ScenarioFlow>,
}

impl Scenario {
    /// The scenarios that are known by name.
    #[must_use]
    pub fn built_in() -> Vec<Self> {
        let mut all = rfc8867::scenarios();
        all.extend(cellular::scenarios());
        all.extend(wifi::scenarios());
        all
    }

    /// The scenario called `name`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::built_in().into_iter().find(|scenario| scenario.name == name)
    }

    /// The scenario that `text` describes.
    ///
    /// # Errors
    /// If it is no JSON of a [`Scenario`], or cannot be run.
    pub fn from_json(text: &str) -> Result<Self, ScenarioError> {
        let scenario: Self = serde_json::from_str(text)?;
        scenario.check()?;
        Ok(scenario)
    }

    /// How long it takes.
    #[must_use]
    pub fn duration(&self) -> Duration {
        time(self.seconds)
    }

    /// Its first `length`. Flows that would begin later are left out.
    #[must_use]
    pub fn shortened(mut self, length: Duration) -> Self {
        self.seconds = self.seconds.min(length.as_secs_f64());
        self.flows.retain(|flow| flow.activity().start() < moment(self.seconds));
        self
    }

    /// The same with other queues: `discipline` makes one of the other.
    #[must_use]
    pub fn with_queues(mut self, discipline: impl Fn(QueueConfig) -> QueueConfig) -> Self {
        for link in &mut self.links {
            link.config.queue = discipline(link.config.queue);
        }
        self
    }

    /// The same with ECN (RFC 8867, section 6.2): every queue marks, and the ends of media and TCP understand it. A
    /// drop-tail queue, which has nothing to mark, becomes one of CoDel.
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

    /// The part of it that counts: what [`Scenario::evaluated_seconds`] says, unless it ends before.
    #[must_use]
    pub fn evaluated(&self) -> (Timestamp, Timestamp) {
        let end = Timestamp::ZERO + self.duration();
        match self.evaluated_seconds {
            Some((from, to)) if moment(from) < end => (moment(from), moment(to).min(end)),
            _ => (Timestamp::ZERO, end),
        }
    }

    /// The flows of media, in their order, each with its activity within the scenario.
    pub fn media_flows(&self) -> impl Iterator<Item = (&ScenarioFlow, Activity)> {
        let end = Timestamp::ZERO + self.duration();
        let media = self.flows.iter().filter(|flow| flow.kind == FlowKind::Media);
        media.map(move |flow| (flow, flow.activity().until(end)))
    }

    /// Whether it can be run.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), ScenarioError> {
        let duration = self.duration();
        if !(Duration::from_secs(1)..=LONGEST).contains(&duration) || !self.seconds.is_finite() {
            return Err(ScenarioError::Duration(duration));
        }
        if self.flows.len() > MOST || self.links.len() > MOST {
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
