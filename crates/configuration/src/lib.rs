//! What a call is told, in the words of the command line: the link, the codec and the control; and the ends and links
//! made of that. The command and the Python module share it, so that they run the same calls.
#![forbid(unsafe_code)]

mod counters;
mod estimator;
mod max_bitrate;
mod modelled;
mod scenario;
mod simulate;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use lockstep_call::{
    ConventionalEncoder, FIT_PASSES, FrameEncoder, FunctionalEncoder, MenuMode, ReceivingEnd, SendingEnd,
};
use lockstep_control::{Algorithm, Estimator, EstimatorKind, GracePeriod, KnownPath, Latency, RateBounds, Setting};
use lockstep_link::{
    GilbertElliott, Jitter, JitterDistribution, Link, LinkConfig, LossConfig, LossInterval, QueueConfig, Reordering,
    Trace, parse_share, parse_time,
};
use lockstep_media::VideoFormat;
use lockstep_transport::{ReceiverConfig, SenderConfig};
use lockstep_units::{Bitrate, ByteCount};
use lockstep_vp8::{Parameters, Preset};

pub use counters::counters;
pub use estimator::EstimatorArguments;
pub use max_bitrate::MaxBitrate;
pub use modelled::{simulate_full_throttle, simulate_modelled, simulate_modelled_with};
pub use scenario::{ScenarioArguments, run_scenario};
pub use simulate::{SimulateArguments, Simulated, SimulationStatus, simulate, simulate_with};

/// The reverse path's capacity where no trace is given for it: ample for acknowledgements.
const REVERSE_CAPACITY: Bitrate = Bitrate::from_kbps(100_000);

/// Bytes of a frame in one datagram: with the data header (68) and those of UDP (8) and IPv6 (40), what Ethernet carries
/// (1500). The fewer fragments a frame has, the likelier it arrives whole.
const FRAGMENT_PAYLOAD: usize = 1384;

/// The emulated link.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub struct LinkArguments {
    /// Capacity from sender to receiver: a trace file (mahimahi, AlphaRTC JSON, BoB's text, CSV of seconds and Mb/s) or
    /// a generated one such as `constant:500kbps` or `cellular:mean=3mbps,seed=7` (see `lockstep trace --help`).
    #[arg(long, default_value = "cellular:mean=4mbps,seed=1")]
    pub trace: String,
    /// Capacity from receiver to sender, in the same forms; 100 Mb/s if not given.
    #[arg(long)]
    pub reverse: Option<String>,
    /// How the queue of each direction drops packets.
    #[arg(long, value_enum, default_value_t = QueueArgument::Droptail)]
    #[serde(default)]
    pub queue: QueueArgument,
    /// Mark instead of dropping (ECN), for controllers that heed marks: gcc, nada, scream. For the queues codel and pie, in
    /// simulations only.
    #[arg(long)]
    #[serde(default)]
    pub ecn: bool,
    /// Packets that the queue of each direction holds; more are dropped.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    pub queue_packets: u32,
    /// Bytes that each queue holds, instead of packets.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub queue_bytes: Option<u64>,
    /// Propagation delay each way, milliseconds.
    #[arg(long, default_value_t = 20.0, value_parser = milliseconds)]
    pub delay_ms: f64,
    /// Share of packets lost at random on the forward link: `0.05` or `5%`.
    #[arg(long, default_value = "0", value_parser = share)]
    pub loss: f64,
    /// Share of packets lost at random on the reverse link.
    #[arg(long, default_value = "0", value_parser = share)]
    pub reverse_loss: f64,
    /// Loss in bursts on the forward link: the probabilities, packet by packet, that a burst begins and that it ends, such
    /// as `1%,30%`. All packets of a burst are lost (Gilbert-Elliott).
    #[arg(long, value_name = "BEGIN,END", value_parser = pair_of_shares)]
    pub burst_loss: Option<(f64, f64)>,
    /// A time in which all packets of the forward link are lost, such as `10s+500ms`; may be given more than once.
    #[arg(long, value_name = "START+LENGTH", value_parser = interval)]
    pub loss_at: Vec<(Duration, Duration)>,
    /// Packets of the forward link that come late: how many, and how late, such as `1%,15ms`.
    #[arg(long, value_name = "SHARE,DELAY", value_parser = reordering)]
    pub reorder: Option<(f64, Duration)>,
    /// Mean of an additional, exponentially distributed delay, milliseconds; packets stay in order.
    #[arg(long, default_value_t = 0.0, value_parser = milliseconds)]
    pub jitter_ms: f64,
    /// Seed of everything random in the run.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// The arguments of [`ControlArguments`] that a codec heeds and a model of it does not.
pub const CODEC_OPTIONS: [&str; 3] = ["menu", "fit_passes", "preset"];

/// The codec and its control.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub struct ControlArguments {
    /// Which kind of codec the sender has.
    #[arg(long, value_enum, default_value_t)]
    #[serde(default)]
    pub codec: CodecArgument,
    /// What the encoder offers for a budget: frames made to fit the newest budget, or Salsify's two candidates, one after
    /// the other or both at once on two cores.
    #[arg(long, value_enum, default_value_t)]
    pub menu: MenuArgument,
    /// How many times a picture may be coded to fit.
    #[arg(long, default_value_t = FIT_PASSES, value_parser = clap::value_parser!(u8).range(1..=8))]
    #[serde(default = "fit_passes")]
    pub fit_passes: u8,
    /// How hard the encoder works.
    #[arg(long, value_enum, default_value_t = PresetArgument::RealTime)]
    pub preset: PresetArgument,
    /// Who decides how much is sent: `sprout`, `gcc`, `fixed:RATE` and others; `lockstep controllers` lists them.
    #[arg(long, default_value = Algorithm::DEFAULT_NAME, value_parser = algorithm)]
    pub controller: String,
    /// How much delay is tolerated in the queue for a better picture; `balanced` if not given. Only for `sprout`: the
    /// other controllers have it in what was published of them.
    #[arg(long, value_enum)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<LatencyArgument>,
    /// The most that is sent in the long run: a bit rate such as `5mbps`; `auto`, what pictures of this size and rate gain
    /// by (half a bit a pixel, 500 kb/s at least); or `none`.
    #[arg(long, value_name = "RATE", default_value_t)]
    #[serde(default)]
    pub max_bitrate: MaxBitrate,
    /// What Salsify takes out of the time between two arrivals: the time in which the link idled, or nothing.
    #[arg(long, value_enum, default_value_t = GraceArgument::LinkIdle)]
    pub grace_period: GraceArgument,
}

/// How a queue drops packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueueArgument {
    /// Those that come when it is full.
    #[default]
    Droptail,
    /// From its head, ever more often, while packets wait longer than 5 ms (RFC 8289).
    Codel,
    /// At random, such that packets wait for about 15 ms (RFC 8033).
    Pie,
}

impl QueueArgument {
    /// This discipline in the memory of `queue`, which stays as it is for drop-tail.
    #[must_use]
    pub fn over(self, queue: QueueConfig) -> QueueConfig {
        match self {
            Self::Droptail => queue,
            Self::Codel => queue.with_codel(),
            Self::Pie => queue.with_pie(),
        }
    }
}

/// The kind of codec.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CodecArgument {
    /// Fits each frame to what may be sent at that moment, and codes it from any state that the receiver holds.
    #[default]
    Functional,
    /// As a WebRTC codec behaves: one quantizer a frame, decided before coding by a rate control that follows the
    /// controller's target once a second; what is lost is sent again, at last a key frame.
    Conventional,
}

fn fit_passes() -> u8 {
    FIT_PASSES
}

/// What the encoder offers for a budget.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MenuArgument {
    /// A frame made to fit, in several passes if need be, each to the newest budget; for one core.
    #[default]
    Fit,
    /// Salsify's two candidates, one after the other, for one core.
    Serial,
    /// Salsify's two candidates, both at once, for two cores.
    Parallel,
}

/// How hard the encoder works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PresetArgument {
    /// For calls.
    RealTime,
    /// Slower and smaller.
    Quality,
}

/// How much delay is tolerated in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LatencyArgument {
    /// As little as there can be: for tele-operation and games.
    Low,
    /// For conversations.
    Balanced,
    /// More delay for a better picture.
    Quality,
}

impl From<LatencyArgument> for Latency {
    fn from(latency: LatencyArgument) -> Self {
        match latency {
            LatencyArgument::Low => Self::Low,
            LatencyArgument::Balanced => Self::Balanced,
            LatencyArgument::Quality => Self::Quality,
        }
    }
}

/// What is taken out of the time between two arrivals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GraceArgument {
    /// Nothing.
    None,
    /// The time in which the link idled.
    LinkIdle,
}

impl PresetArgument {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::RealTime => "real-time",
            Self::Quality => "quality",
        }
    }
}

impl From<PresetArgument> for Preset {
    fn from(preset: PresetArgument) -> Self {
        match preset {
            PresetArgument::RealTime => Self::RealTime,
            PresetArgument::Quality => Self::Quality,
        }
    }
}

/// Reads `0.05` or `5%` as a share of one.
fn share(text: &str) -> Result<f64, String> {
    parse_share(text).map_err(|problem| problem.to_string())
}

/// Reads two shares with a comma between them.
fn pair_of_shares(text: &str) -> Result<(f64, f64), String> {
    let (first, second) = text.split_once(',').ok_or_else(|| format!("`{text}` is not two shares such as 1%,30%"))?;
    Ok((share(first)?, share(second)?))
}

/// Reads the start and the length of an interval.
fn interval(text: &str) -> Result<(Duration, Duration), String> {
    let (start, length) = text.split_once('+').ok_or_else(|| format!("`{text}` is not like 10s+500ms"))?;
    let time = |text| parse_time(text).map_err(|problem| problem.to_string());
    Ok((time(start)?, time(length)?))
}

/// Reads a share and a delay with a comma between them.
fn reordering(text: &str) -> Result<(f64, Duration), String> {
    let (probability, delay) = text.split_once(',').ok_or_else(|| format!("`{text}` is not like 1%,15ms"))?;
    Ok((share(probability)?, parse_time(delay).map_err(|problem| problem.to_string())?))
}

/// Reads the name of an algorithm, and keeps it as it is.
fn algorithm(text: &str) -> Result<String, String> {
    text.parse::<Algorithm>().map(|_| text.to_owned()).map_err(|error| error.to_string())
}

/// Reads a time of up to a minute in milliseconds.
pub fn milliseconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..=60_000.0).contains(&value) => Ok(value),
        _ => Err(format!("`{text}` is not a time between 0 and 60000 ms")),
    }
}

/// Reads a length of up to a day in seconds.
pub fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 86_400.0 => Ok(value),
        _ => Err(format!("`{text}` is not a time of more than 0 and at most 86400 s")),
    }
}

/// The trace that `text` names: a file, or a generated one.
pub fn open_trace(text: &str) -> Result<Trace> {
    if Path::new(text).exists() {
        Trace::open(Path::new(text)).with_context(|| format!("trace {text}"))
    } else if Trace::is_spec(text) {
        Ok(Trace::from_spec(text)?)
    } else {
        bail!("trace {text}: no such file, and no generated trace such as constant:500kbps or cellular:mean=3mbps")
    }
}

impl LinkArguments {
    /// The traces, as far as these names are those of files.
    #[must_use]
    pub fn inputs(&self) -> Vec<&Path> {
        [Some(&self.trace), self.reverse.as_ref()].into_iter().flatten().map(Path::new).collect()
    }

    /// The forward trace.
    pub fn forward_trace(&self) -> Result<Trace> {
        open_trace(&self.trace)
    }

    /// That a call of `control` may go over links like this.
    ///
    /// # Errors
    /// If they are to mark, and its controller does not heed marks.
    pub(crate) fn check_for(&self, control: &ControlArguments) -> Result<()> {
        let algorithm = control.algorithm();
        if self.ecn && !algorithm.heeds_marks() {
            bail!("--ecn: the controller {algorithm} does not heed marks; gcc, nada and scream do");
        }
        Ok(())
    }

    /// For links that carry real datagrams: a relay has no access to the field of their headers in which marks are.
    ///
    /// # Errors
    /// If they are to mark.
    pub fn refuse_ecn(&self) -> Result<()> {
        if self.ecn {
            bail!("--ecn: real datagrams cannot be marked here; it is for `lockstep simulate` and `lockstep scenario`");
        }
        Ok(())
    }

    /// The forward and the reverse link, for packets of any kind.
    pub fn links<P: Clone>(&self) -> Result<(Link<P>, Link<P>)> {
        let reverse = match &self.reverse {
            Some(text) => open_trace(text)?,
            None => Trace::constant(REVERSE_CAPACITY),
        };
        let forward_loss = LossConfig {
            random: self.loss,
            burst: self.burst_loss.map(|(to_bad, to_good)| GilbertElliott {
                to_bad,
                to_good,
                loss_in_good: 0.0,
                loss_in_bad: 1.0,
            }),
            scheduled: self
                .loss_at
                .iter()
                .map(|&(from, length)| LossInterval { from, to: from + length, loss: 1.0 })
                .collect(),
            ..LossConfig::default()
        };
        let reverse_loss = LossConfig { random: self.reverse_loss, ..LossConfig::default() };
        let reordering = self.reorder.map(|(probability, extra_delay)| Reordering { probability, extra_delay });
        let memory = match self.queue_bytes {
            Some(bytes) => QueueConfig::drop_tail_bytes(ByteCount::new(bytes)),
            None => QueueConfig::drop_tail(self.queue_packets as usize),
        };
        let queue = self.queue.over(memory);
        if self.ecn && self.queue == QueueArgument::Droptail {
            bail!("--ecn: a drop-tail queue has nothing to mark; choose --queue codel or --queue pie");
        }
        let queue = if self.ecn { queue.with_ecn() } else { queue };
        let link = |trace, loss, reordering, seed| {
            let mean = Duration::from_secs_f64(self.jitter_ms / 1e3);
            let distribution = JitterDistribution::Exponential { mean };
            let config = LinkConfig {
                queue,
                delay: Duration::from_secs_f64(self.delay_ms / 1e3),
                loss,
                reordering,
                jitter: (!mean.is_zero()).then_some(Jitter { distribution, reorders: false }),
                ..LinkConfig::new(trace)
            };
            Link::new(config, seed).context("the link")
        };
        Ok((
            link(self.forward_trace()?, forward_loss, reordering, self.seed)?,
            link(reverse, reverse_loss, None, self.seed.wrapping_add(1))?,
        ))
    }
}

/// What the sender tells of its video in its hello.
fn announced(format: &VideoFormat) -> lockstep_transport::VideoFormat {
    lockstep_transport::VideoFormat {
        width: format.width as u16,
        height: format.height as u16,
        frame_rate_numerator: format.frame_rate.numerator(),
        frame_rate_denominator: format.frame_rate.denominator(),
    }
}

impl ControlArguments {
    fn algorithm(&self) -> Algorithm {
        let named = self.controller.parse().unwrap_or(Algorithm::Salsify(GracePeriod::LinkIdle));
        match (named, self.grace_period) {
            (Algorithm::Salsify(_), GraceArgument::None) => Algorithm::Salsify(GracePeriod::None),
            (named, _) => named,
        }
    }

    /// What the controller is told of a call whose frames come every `frame_interval`, in fragments of up to `payload`
    /// bytes.
    fn setting(
        &self,
        payload: ByteCount,
        frame_interval: Duration,
        path: Option<KnownPath>,
        bounds: RateBounds,
    ) -> Result<Setting> {
        let algorithm = self.algorithm();
        if self.latency.is_some() && !algorithm.takes_latency() {
            bail!("--latency is for the controller sprout; {algorithm} has its own delay in what was published of it");
        }
        let latency = self.latency.map(Latency::from).unwrap_or_default();
        let most = match self.max_bitrate {
            MaxBitrate::At(rate) => rate.max(bounds.least),
            MaxBitrate::Auto | MaxBitrate::Unlimited => bounds.most,
        };
        let bounds = RateBounds { most, initial: bounds.initial.min(most), ..bounds };
        Ok(Setting { path, bounds, latency, ..Setting::new(payload, frame_interval) })
    }

    fn menu_mode(&self) -> MenuMode {
        match self.menu {
            MenuArgument::Fit => MenuMode::Fit { passes: usize::from(self.fit_passes) },
            MenuArgument::Parallel => MenuMode::Parallel,
            MenuArgument::Serial => MenuMode::Serial,
        }
    }

    /// The time until the encoder has something to send, as a share of that of a menu of two candidates.
    fn first_job_share(&self) -> f64 {
        match self.codec {
            CodecArgument::Functional => self.menu_mode().first_job_share(),
            CodecArgument::Conventional => 1.0,
        }
    }

    /// A sending end for pictures of `format`, on a path that is known or not.
    pub fn sending_end(&self, format: &VideoFormat, connection: u32, path: Option<KnownPath>) -> Result<SendingEnd> {
        self.sending_end_within(format, connection, path, RateBounds::default())
    }

    /// The same with other bounds for controllers that decide on a rate.
    pub fn sending_end_within(
        &self,
        format: &VideoFormat,
        connection: u32,
        path: Option<KnownPath>,
        bounds: RateBounds,
    ) -> Result<SendingEnd> {
        let mut transport = SenderConfig::new(connection, announced(format));
        transport.payload = FRAGMENT_PAYLOAD;
        transport.estimator = self.algorithm().estimator_kind().number();
        let payload = ByteCount::new(transport.payload as u64);
        let setting = self.setting(payload, format.frame_interval(), path, bounds)?;
        let parameters = Parameters { preset: self.preset.into(), ..Parameters::default() };
        let encoder: Box<dyn FrameEncoder> = match self.codec {
            CodecArgument::Functional => Box::new(FunctionalEncoder::new(parameters, self.menu_mode())),
            CodecArgument::Conventional => Box::new(ConventionalEncoder::new(parameters, format.frame_interval())),
        };
        let sender = SendingEnd::new(transport, self.algorithm().controller(&setting)?, encoder);
        Ok(sender.with_max_bitrate(self.max_bitrate.ceiling(format)))
    }

    /// A receiving end that takes the estimator that the sender asks for.
    pub fn receiving_end() -> ReceivingEnd {
        ReceivingEnd::taking(ReceiverConfig::default(), |number| {
            Some(EstimatorKind::from_number(number)?.make(RateBounds::default()))
        })
    }

    /// A receiving end with an estimator that its owner has chosen.
    pub fn receiving_end_with(estimator: Box<dyn Estimator>) -> ReceivingEnd {
        ReceivingEnd::new(ReceiverConfig::default(), estimator)
    }
}
