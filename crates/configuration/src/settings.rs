//! Typed and checked settings of a call.
//!
//! They are made from [`CallArguments`], for the command line and Python, and converted back for reports. The compiler
//! checks that no option is missing in either direction.

use std::fmt;
use std::num::NonZero;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use lockstep_call::{MenuMode, Preset};
use lockstep_control::{Algorithm, AlgorithmError, Controllers, GracePeriod, Latency, Registration};
use lockstep_link::{
    GilbertElliott, Jitter, JitterDistribution, LinkConfig, LossConfig, LossInterval, QueueConfig, REVERSE_CAPACITY,
    Reordering, Trace,
};
use lockstep_units::ByteCount;

use crate::MaxBitrate;
use crate::coding_time::EncodeTimeSettings;
use crate::family_file::open_families;
use crate::model_file::ModelFile;
use crate::options::{
    AsPublished, CallArguments, CallRecord, ClipName, CodecKind, ControllerName, MenuKind, Milliseconds, OptionError,
    OptionGroup, Overrides, Passes, QueueKind, Seconds, Share, SoundName, TraceName,
};

/// Controllers that respond to marks (ECN).
const CONTROLLERS_WITH_ECN: &str = "gcc, nada or scream";

/// Controllers that have a model.
const LEARNED: &str = "concerto, rlv, lockstep, bob, hrcc, gemini or mmsys24";

/// Settings of a call, the same for equal options of the command and of Python.
#[derive(Debug, Clone)]
pub struct CallSettings {
    /// Video source.
    pub clip: ClipName,
    /// Scored length of the call.
    pub length: Seconds,
    /// The emulated link.
    pub link: LinkSettings,
    /// The codec and its control.
    pub control: ControlSettings,
    /// Estimator at the receiver, if it is not that of the controller.
    pub estimator: Option<EstimatorFile>,
    /// Whether a codec model replaces the codec.
    pub modelled: bool,
    /// Coding time in virtual time.
    pub encode_time: EncodeTimeSettings,
    /// Virtual time for decoding one frame.
    pub decode_time: Milliseconds,
    /// Minimum interval between two acknowledgements
    /// ([`FeedbackInterval::aggregated`](lockstep_transport::FeedbackInterval)).
    pub feedback: Milliseconds,
    /// Whether a second call runs in the opposite direction.
    pub two_way: bool,
    /// Source of sound, if any.
    pub audio: Option<SoundName>,
    /// Whether VMAF of the displayed pictures is measured.
    pub vmaf: bool,
    /// Whether the upper bound on QoE_d is computed.
    pub bound: bool,
}

/// Trace with its name.
#[derive(Clone)]
pub struct NamedTrace {
    name: TraceName,
    trace: Trace,
}

impl NamedTrace {
    /// Opens the trace `name`: a file, or a generated one.
    ///
    /// # Errors
    /// If the trace does not exist or is invalid.
    pub fn open(name: &TraceName) -> Result<Self> {
        Ok(Self { name: name.clone(), trace: open_trace(name.as_str())? })
    }

    /// Name of the trace.
    #[must_use]
    pub fn name(&self) -> &TraceName {
        &self.name
    }

    /// The trace.
    #[must_use]
    pub fn trace(&self) -> &Trace {
        &self.trace
    }
}

impl fmt::Debug for NamedTrace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({:?})", self.name, self.trace)
    }
}

/// Opens the trace `text`: a file, or a generated one, whose family may be in a file (see [`TraceName::as_path`]).
///
/// # Errors
/// If the trace does not exist or is invalid.
pub fn open_trace(text: &str) -> Result<Trace> {
    if Path::new(text).exists() {
        Trace::open(Path::new(text)).with_context(|| format!("trace {text}"))
    } else if Trace::is_spec(text) {
        Ok(Trace::from_spec_with(text, &|path| open_families(path).map_err(|error| format!("{error:#}")))?)
    } else {
        bail!(
            "trace {text}: no such file; expected a file, or a generated trace such as constant:500kbps or cellular:mean=3mbps"
        )
    }
}

/// Capacity of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueMemory {
    /// Number of packets.
    Packets(NonZero<u32>),
    /// Number of bytes.
    Bytes(NonZero<u64>),
}

/// The emulated link, both directions.
#[derive(Debug, Clone)]
pub struct LinkSettings {
    /// Capacity from sender to receiver.
    pub trace: NamedTrace,
    /// Capacity from receiver to sender; 100 Mb/s where there is none.
    pub reverse: Option<NamedTrace>,
    /// Queue discipline of each direction.
    pub queue: QueueKind,
    /// Whether the queues mark packets instead of dropping them (ECN).
    pub ecn: bool,
    /// Capacity of the queue of each direction.
    pub queue_memory: QueueMemory,
    /// Propagation delay each way.
    pub delay: Milliseconds,
    /// Share of packets lost at random on the forward link.
    pub loss: Share,
    /// Share of packets lost at random on the reverse link.
    pub reverse_loss: Share,
    /// Loss in bursts on the forward link.
    pub burst_loss: Option<GilbertElliott>,
    /// Intervals in which packets of the forward link are lost.
    pub loss_at: Vec<LossInterval>,
    /// Late packets of the forward link.
    pub reorder: Option<Reordering>,
    /// Mean of an additional, exponentially distributed delay in each direction.
    pub jitter: Milliseconds,
    /// Seed of all randomness in the run.
    pub seed: u64,
}

/// The codec and its control.
#[derive(Debug, Clone)]
pub struct ControlSettings {
    /// Kind of the sender's codec.
    pub codec: CodecKind,
    /// Candidates that the functional codec offers for a budget.
    pub menu: MenuMode,
    /// Effort of the encoder.
    pub preset: Preset,
    /// Published system that both ends follow to the letter, if any.
    pub as_published: Option<AsPublished>,
    /// Controller that decides how much to send.
    pub controller: ControllerChoice,
    /// Model of the controller, if it is not the default one.
    pub model: Option<ModelFile>,
    /// Maximum long-term bit rate.
    pub max_bitrate: MaxBitrate,
    /// Overridden tuned constants.
    pub tuning: Overrides,
}

/// Controller with its own options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControllerChoice {
    algorithm: Algorithm,
    latency: Option<Latency>,
}

impl ControllerChoice {
    /// `algorithm` with the latency and the grace period, if given.
    ///
    /// # Errors
    /// [`OptionError::Controller`] if `algorithm` does not take one that was given.
    pub fn new(
        algorithm: Algorithm,
        latency: Option<Latency>,
        grace_period: Option<GracePeriod>,
    ) -> Result<Self, OptionError> {
        let refused = |name, takes, controller| OptionError::Controller { name, takes, controller };
        if latency.is_some() && !algorithm.takes_latency() {
            return Err(refused("latency", "sprout or lockstep", algorithm));
        }
        let algorithm = match (algorithm, grace_period) {
            (algorithm, None) => algorithm,
            (Algorithm::Salsify(GracePeriod::LinkIdle), Some(given))
            | (Algorithm::Salsify(given @ GracePeriod::None), Some(GracePeriod::None)) => Algorithm::Salsify(given),
            (algorithm, Some(_)) => return Err(refused("grace_period", "salsify", algorithm)),
        };
        Ok(Self { algorithm, latency })
    }

    /// Algorithm of the controller.
    #[must_use]
    pub const fn algorithm(&self) -> &Algorithm {
        &self.algorithm
    }

    /// File of the controller's program, if it is one.
    #[must_use]
    pub fn program(&self) -> Option<&Path> {
        match &self.algorithm {
            Algorithm::Registered(registration) => {
                registration.name().strip_prefix(ControllerName::PROGRAM).map(Path::new)
            }
            _ => None,
        }
    }

    /// The same choice, looked up in `controllers`, for settings that were parsed without them.
    ///
    /// # Errors
    /// If `controllers` do not contain it.
    pub fn found_in(self, controllers: &Controllers) -> Result<Self, AlgorithmError> {
        let algorithm = match self.algorithm {
            Algorithm::Registered(registration) if registration.is_missing() => {
                controllers.find(registration.name())?
            }
            algorithm => algorithm,
        };
        Ok(Self { algorithm, ..self })
    }

    /// Delay that it tolerates for better quality, if chosen.
    #[must_use]
    pub const fn latency(&self) -> Option<Latency> {
        self.latency
    }

    /// Time that it subtracts from the interval between two arrivals, if it does so.
    #[must_use]
    pub const fn grace_period(&self) -> Option<GracePeriod> {
        match self.algorithm {
            Algorithm::Salsify(grace_period) => Some(grace_period),
            _ => None,
        }
    }
}

impl From<Algorithm> for ControllerChoice {
    /// `algorithm` with its default options.
    fn from(algorithm: Algorithm) -> Self {
        Self { algorithm, latency: None }
    }
}

impl fmt::Display for ControllerChoice {
    /// Writes the name as on the command line.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.algorithm.fmt(formatter)
    }
}

/// Estimator written for AlphaRTC: a Python file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EstimatorFile {
    /// File of its class `Estimator`, or a folder with `BandwidthEstimator.py`.
    pub path: PathBuf,
    /// Interpreter that runs it; `LOCKSTEP_PYTHON`, otherwise `python3`, if `None`.
    pub python: Option<PathBuf>,
    /// Maximum wall-clock time for one answer.
    pub limit: Seconds,
}

/// Value of an option that has a default in [`CallArguments::usual`].
fn there<T>(value: Option<T>) -> Result<T> {
    value.context("an option without a default was not given")
}

impl CallArguments {
    /// Settings of these arguments, with defaults for those not given.
    ///
    /// # Errors
    /// If options contradict each other, or a trace cannot be opened.
    pub fn settings(&self) -> Result<CallSettings> {
        self.settings_with(&Controllers::default())
    }

    /// The same settings; the program knows `controllers` by name.
    ///
    /// # Errors
    /// As [`CallArguments::settings`].
    pub fn settings_with(&self, controllers: &Controllers) -> Result<CallSettings> {
        let usual = Self::usual();
        let control = self.control_settings_with(controllers)?;
        let given = self.completed();
        let algorithm = control.controller.algorithm();
        if self.ecn == Some(true) && !algorithm.responds_to_marks() {
            let controller = algorithm.clone();
            return Err(OptionError::Controller { name: "ecn", takes: CONTROLLERS_WITH_ECN, controller }.into());
        }
        let estimator = self.estimator.as_ref().map(|path| {
            let limit = there(self.estimator_limit.or(usual.estimator_limit))?;
            anyhow::Ok(EstimatorFile { path: path.clone(), python: self.python.clone(), limit })
        });
        Ok(CallSettings {
            clip: there(self.clip.clone().or(usual.clip))?,
            length: there(self.seconds.or(usual.seconds))?,
            link: self.link_settings()?,
            control,
            estimator: estimator.transpose()?,
            modelled: there(self.modelled.or(usual.modelled))?,
            encode_time: EncodeTimeSettings::open(self.encode_time.clone(), self.encode_ms)?,
            decode_time: there(self.decode_ms.or(usual.decode_ms))?,
            feedback: there(given.feedback_ms.or(usual.feedback_ms))?,
            two_way: there(self.two_way.or(usual.two_way))?,
            audio: self.audio.clone(),
            vmaf: there(self.vmaf.or(usual.vmaf))?,
            bound: there(self.bound.or(usual.bound))?,
        })
    }

    /// Link of these arguments.
    ///
    /// # Errors
    /// If options contradict each other, a trace cannot be opened, or the link is invalid.
    pub fn link_settings(&self) -> Result<LinkSettings> {
        self.check()?;
        let usual = Self::usual();
        let queue_memory = match self.queue_bytes {
            Some(bytes) => QueueMemory::Bytes(bytes),
            None => QueueMemory::Packets(there(self.queue_packets.or(usual.queue_packets))?),
        };
        let link = LinkSettings {
            trace: NamedTrace::open(&there(self.trace.clone().or(usual.trace))?)?,
            reverse: self.reverse.as_ref().or(usual.reverse.as_ref()).map(NamedTrace::open).transpose()?,
            queue: there(self.queue.or(usual.queue))?,
            ecn: there(self.ecn.or(usual.ecn))?,
            queue_memory,
            delay: there(self.delay_ms.or(usual.delay_ms))?,
            loss: there(self.loss.or(usual.loss))?,
            reverse_loss: there(self.reverse_loss.or(usual.reverse_loss))?,
            burst_loss: self.burst_loss.or(usual.burst_loss),
            loss_at: self.loss_at.clone().or(usual.loss_at).unwrap_or_default(),
            reorder: self.reorder.or(usual.reorder),
            jitter: there(self.jitter_ms.or(usual.jitter_ms))?,
            seed: there(self.seed.or(usual.seed))?,
        };
        for (config, _) in link.configs() {
            config.validate().context("the link")?;
        }
        Ok(link)
    }

    /// Codec and control of these arguments.
    ///
    /// # Errors
    /// If options contradict each other.
    pub fn control_settings(&self) -> Result<ControlSettings> {
        self.control_settings_with(&Controllers::default())
    }

    /// The same control; the program knows `controllers` by name.
    ///
    /// # Errors
    /// As [`CallArguments::control_settings`].
    pub fn control_settings_with(&self, controllers: &Controllers) -> Result<ControlSettings> {
        self.check()?;
        let usual = Self::usual();
        let given = self.completed();
        let algorithm = if self.estimator.is_some() {
            Algorithm::ReceiverEstimate
        } else {
            let name = there(given.controller.as_ref().or(usual.controller.as_ref()))?;
            match name.program() {
                Some(path) => {
                    let limit = there(self.estimator_limit.or(usual.estimator_limit))?;
                    program_controller(name, path, limit)?
                }
                None => {
                    let unknown =
                        |error: AlgorithmError| OptionError::Value { name: "controller", problem: error.to_string() };
                    controllers.find(name.as_str()).map_err(unknown)?
                }
            }
        };
        let menu = match there(given.menu.or(usual.menu))? {
            MenuKind::Fit => MenuMode::Fit { passes: usize::from(there(self.fit_passes.or(usual.fit_passes))?.get()) },
            MenuKind::Serial => MenuMode::Serial,
            MenuKind::Parallel => MenuMode::Parallel,
        };
        if self.model.is_some() && !algorithm.takes_model() {
            return Err(OptionError::Controller { name: "model", takes: LEARNED, controller: algorithm }.into());
        }
        // Published systems have one effort.
        let published = self.as_published.map(|_| Preset::REAL_TIME);
        Ok(ControlSettings {
            codec: there(given.codec.or(usual.codec))?,
            menu,
            preset: there(self.preset.or(published).or(usual.preset))?,
            as_published: self.as_published,
            controller: ControllerChoice::new(algorithm, self.latency, given.grace_period)?,
            model: self.model.as_deref().map(ModelFile::open).transpose()?,
            max_bitrate: there(given.max_bitrate.or(usual.max_bitrate))?,
            tuning: self.tuning.clone().unwrap_or_default(),
        })
    }
}

/// Controller in the program `path`, under the name `name`.
#[cfg(feature = "simulation")]
fn program_controller(name: &ControllerName, path: &Path, limit: Seconds) -> Result<Algorithm, OptionError> {
    Ok(Algorithm::Registered(lockstep_hosted::program_controller(name.as_str(), path, limit.get())))
}

/// Refuses the program: only calls in virtual time can wait for its answers.
#[cfg(not(feature = "simulation"))]
fn program_controller(name: &ControllerName, _: &Path, _: Seconds) -> Result<Algorithm, OptionError> {
    let problem =
        format!("{name}: programs decide in virtual time only, and this build makes live calls; name another");
    Err(OptionError::Value { name: "controller", problem })
}

impl CallArguments {
    /// Controllers with a placeholder for that of these options, for reports that name unknown controllers.
    ///
    /// A call with a placeholder fails at its start.
    pub(crate) fn named_controllers(&self) -> Controllers {
        let missing = self.controller.as_ref().map(|name| Registration::missing(name.as_str()));
        let controllers = Controllers::default();
        missing.map_or_else(Controllers::default, |missing| controllers.with(missing).unwrap_or_default())
    }
}

impl CallSettings {
    /// Arguments of these settings, without options that have no effect.
    #[must_use]
    pub fn options(&self) -> CallArguments {
        let Self {
            clip,
            length,
            link,
            control,
            estimator,
            modelled,
            encode_time,
            decode_time,
            feedback,
            two_way,
            audio,
            vmaf,
            bound,
        } = self.clone();
        let LinkSettings {
            trace,
            reverse,
            queue,
            ecn,
            queue_memory,
            delay,
            loss,
            reverse_loss,
            burst_loss,
            loss_at,
            reorder,
            jitter,
            seed,
        } = link;
        let ControlSettings { codec, menu, preset, as_published, controller, model, max_bitrate, tuning } = control;
        let (queue_packets, queue_bytes) = match queue_memory {
            QueueMemory::Packets(packets) => (Some(packets), None),
            QueueMemory::Bytes(bytes) => (None, Some(bytes)),
        };
        let fit_passes = match menu {
            MenuMode::Fit { passes } => Some(Passes::of(u8::try_from(passes).unwrap_or(u8::MAX))),
            MenuMode::Serial | MenuMode::Parallel => None,
        };
        let (estimator, python, estimator_limit) = match estimator {
            Some(EstimatorFile { path, python, limit }) => (Some(path), python, Some(limit)),
            None => (None, None, None),
        };
        // The algorithm's name contains its grace period.
        let grace_period = controller.grace_period();
        CallArguments {
            clip: Some(clip),
            seconds: Some(length),
            trace: Some(trace.name),
            reverse: reverse.map(|reverse| reverse.name),
            queue: Some(queue),
            ecn: Some(ecn),
            queue_packets,
            queue_bytes,
            delay_ms: Some(delay),
            loss: Some(loss),
            reverse_loss: Some(reverse_loss),
            burst_loss,
            loss_at: Some(loss_at),
            reorder,
            jitter_ms: Some(jitter),
            seed: Some(seed),
            codec: Some(codec),
            menu: Some(MenuKind::of(menu)),
            fit_passes,
            preset: Some(preset),
            controller: Some(controller.algorithm().into()),
            latency: controller.latency(),
            model: model.map(|model| model.path().to_owned()),
            max_bitrate: Some(max_bitrate),
            tuning: Some(tuning).filter(|tuning| !tuning.is_empty()),
            grace_period,
            as_published,
            estimator,
            python,
            estimator_limit,
            modelled: Some(modelled),
            encode_time: encode_time.file,
            encode_ms: encode_time.menu,
            decode_ms: Some(decode_time),
            feedback_ms: Some(feedback),
            two_way: Some(two_way),
            audio,
            vmaf: Some(vmaf),
            bound: Some(bound),
        }
    }

    /// Name and value of every setting that affects the result, in the order of [`CallArguments::TABLE`], for reports.
    ///
    /// The value is null if the setting is not given or has no effect in this call.
    #[must_use]
    pub fn record(&self) -> CallRecord {
        self.options().record(&OptionGroup::ALL)
    }

    /// Files that the call reads.
    #[must_use]
    pub fn inputs(&self) -> Vec<&Path> {
        let mut inputs = self.link.inputs();
        inputs.push(self.clip.as_path());
        inputs.extend(self.control.model.as_ref().map(ModelFile::path));
        inputs.extend(self.control.controller.program());
        inputs.extend(self.estimator.as_ref().map(|estimator| estimator.path.as_path()));
        inputs.extend(self.encode_time.file.as_deref());
        inputs.extend(self.audio.as_ref().and_then(SoundName::file));
        inputs
    }
}

impl Serialize for CallSettings {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.record().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for CallSettings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let options = CallArguments::deserialize(deserializer)?;
        options
            .settings_with(&options.named_controllers())
            .map_err(|error| serde::de::Error::custom(format!("{error:#}")))
    }
}

impl LinkSettings {
    /// Refuses ECN for links of real datagrams: the emulator cannot access the field of their headers with the marks.
    ///
    /// # Errors
    /// If the queues mark packets.
    pub fn refuse_ecn(&self) -> Result<()> {
        if self.ecn {
            bail!(
                "--ecn: real datagrams cannot be marked here; it is for `lockstep simulate`, `lockstep scenario` and \
                 `lockstep emulate --tun`"
            );
        }
        Ok(())
    }

    /// Files of the traces.
    #[must_use]
    pub fn inputs(&self) -> Vec<&Path> {
        [Some(&self.trace), self.reverse.as_ref()].into_iter().flatten().map(|trace| trace.name.as_path()).collect()
    }

    /// Configurations of the forward and the reverse link, each with a seed of its randomness.
    #[must_use]
    pub fn configs(&self) -> [(LinkConfig, u64); 2] {
        let memory = match self.queue_memory {
            QueueMemory::Packets(packets) => QueueConfig::drop_tail(packets.get() as usize),
            QueueMemory::Bytes(bytes) => QueueConfig::drop_tail_bytes(ByteCount::new(bytes.get())),
        };
        let mean = self.jitter.get();
        let distribution = JitterDistribution::Exponential { mean };
        let queue = self.queue.over(memory);
        let queue = if self.ecn { queue.with_ecn() } else { queue };
        let either = |trace, loss| LinkConfig {
            queue,
            delay: self.delay.get(),
            loss,
            jitter: (!mean.is_zero()).then_some(Jitter { distribution, reorders: false }),
            ..LinkConfig::new(trace)
        };
        let loss = LossConfig {
            random: self.loss.get(),
            burst: self.burst_loss,
            scheduled: self.loss_at.clone(),
            ..LossConfig::default()
        };
        let reverse_loss = LossConfig { random: self.reverse_loss.get(), ..LossConfig::default() };
        let reverse =
            self.reverse.as_ref().map_or_else(|| Trace::constant(REVERSE_CAPACITY), |reverse| reverse.trace.clone());
        let forward = LinkConfig { reordering: self.reorder, ..either(self.trace.trace.clone(), loss) };
        [(forward, self.seed), (either(reverse, reverse_loss), self.seed.wrapping_add(1))]
    }
}
