//! Named tests of congestion control: which flows share which links when. As data, so that a file can describe another.
//!
//! [`Scenario::built_in`] has those of RFC 8867 and, as far as links that replay traces can stand for radio, of RFC 8869.

mod fairness;
mod report;
mod rfc8867;
mod rfc8869;
mod run;

use std::time::Duration;

use lockstep_link::{ConfigError, LinkConfig, QueueConfig};
use lockstep_units::{Bitrate, ByteCount, Timestamp};
use serde::{Deserialize, Serialize};

use crate::activity::Activity;
use crate::call_flow::SimulationError;
use crate::cross_traffic::{
    ConstantBitRate, CrossTraffic, Cubic, FileTransfers, NewReno, OnOff, PACKET, Period, Tcp, WindowAlgorithm, Workload,
};
use crate::network::{Route, TopologyError};

pub use fairness::jain;
pub use report::{
    DelayReport, FlowReport, LinkReport, Phase, PhaseRate, ScenarioReport, SettleTime, TransferReport, VideoReport,
};
pub use run::DRAIN;

/// The longest scenario.
const LONGEST: Duration = Duration::from_secs(86_400);
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
    /// A link cannot be like this.
    #[error("link `{name}`: {error}")]
    Link {
        /// The link's name.
        name: String,
        /// What is wrong with it.
        error: ConfigError,
    },
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
        }
    }

    /// The flow of cross traffic that this is; none for media.
    fn traffic(&self, activity: Activity, seed: u64) -> Option<CrossTraffic> {
        Some(match self.kind {
            FlowKind::Media => return None,
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
    /// RFC 8867, section 4.3: 150 kb/s to 1.5 Mb/s; at first 300 kb/s, as in WebRTC.
    fn default() -> Self {
        Self {
            initial_bps: Bitrate::from_kbps(300),
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
        all.extend(rfc8869::scenarios());
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
        let never = |flow: &&ScenarioFlow| flow.activity().start() >= Timestamp::ZERO + duration;
        if let Some(flow) = self.flows.iter().find(never) {
            return Err(ScenarioError::NeverActive(flow.name.clone()));
        }
        Ok(())
    }
}
