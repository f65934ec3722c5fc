//! Table of the options of a call: names, types, defaults and meanings.
//!
//! The command line and the keyword arguments of Python are parsed with this table. Reports record a call with it.

mod choices;
mod names;
mod option_value;
mod overrides;
mod values;

use std::fmt;
use std::num::NonZero;
use std::path::PathBuf;

use serde::Serialize;
use serde_json::Value;

use lockstep_call::{FIT_PASSES, MenuMode, Preset};
use lockstep_control::{Algorithm, GracePeriod, Latency};
use lockstep_link::{GilbertElliott, LossInterval, Reordering};
use lockstep_transport::FeedbackInterval;

use crate::MaxBitrate;
pub(crate) use choices::MenuKind;
pub use choices::{AsPublished, CodecKind, QueueKind};
pub use names::{ClipName, ControllerName, SoundName, TraceName};
pub use option_value::{Form, OptionValue};
pub use overrides::Overrides;
pub use values::{Milliseconds, Passes, Seconds, Share};

/// Part of a call that an option belongs to. Each command takes the options of some parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptionGroup {
    /// The video source and the length.
    Call,
    /// The emulated link.
    Link,
    /// The codec and its control.
    Control,
    /// An external estimator.
    Estimator,
    /// Settings of a run in virtual time.
    Simulation,
}

impl OptionGroup {
    /// All groups.
    pub const ALL: [Self; 5] = [Self::Call, Self::Link, Self::Control, Self::Estimator, Self::Simulation];

    /// Heading of the group's options in help; `None` for the options at the beginning.
    #[must_use]
    pub fn heading(self) -> Option<&'static str> {
        match self {
            Self::Call => None,
            Self::Link => Some("Link"),
            Self::Control | Self::Estimator => Some("Codec and control"),
            Self::Simulation => Some("Virtual time"),
        }
    }
}

/// Description of one option in the table.
#[derive(Debug, Clone, Copy)]
pub struct OptionDescription {
    /// Name in Python and reports, such as `delay_ms`; on the command line `--delay-ms`.
    pub name: &'static str,
    /// Part of a call that the option belongs to.
    pub group: OptionGroup,
    /// Whether the option is a flag, takes one value or many.
    pub form: Form,
    /// Name of the value, if it differs from the name of the option.
    pub value_name: Option<&'static str>,
    /// Names and meanings of the values, if the type is an enumeration.
    pub choices: &'static [(&'static str, &'static str)],
    /// Value of the option when it is given without one; `None` if it requires a value.
    pub implied_value: Option<&'static str>,
    /// Meaning of the option, line by line.
    help: &'static [&'static str],
    /// Parser that checks whether a word is a value of the option.
    check: fn(&str) -> Result<(), String>,
    /// Default value as words.
    default: fn() -> Vec<String>,
}

impl OptionDescription {
    /// Meaning of the option in one or more sentences, without the final full stop.
    #[must_use]
    pub fn help(&self) -> String {
        let lines: Vec<&str> = self.help.iter().map(|line| line.trim()).collect();
        lines.join(" ").trim_end_matches('.').to_owned()
    }

    /// Checks whether `word` is a value of the option.
    ///
    /// # Errors
    /// The problem with the word, in one line.
    pub fn check(&self, word: &str) -> Result<(), String> {
        (self.check)(word)
    }

    /// Words of the default value; empty if the option has none.
    #[must_use]
    pub fn default_values(&self) -> Vec<String> {
        (self.default)()
    }

    /// Name on the command line, with dashes.
    #[must_use]
    pub fn flag(&self) -> String {
        flag(self.name)
    }
}

/// The option called `name` on the command line.
fn flag(name: &str) -> String {
    format!("--{}", name.replace('_', "-"))
}

/// Error for options that do not describe a call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// No option has this name.
    #[error("unknown option `{0}`")]
    Unknown(String),
    /// The option does not accept this value.
    #[error("{name}: {problem}")]
    Value {
        /// The option.
        name: &'static str,
        /// Problem with the value.
        problem: String,
    },
    /// Two options contradict each other, or one has no effect with the other.
    #[error("`{name}` cannot be used with `{other}`")]
    Contradiction {
        /// First of the two options.
        name: &'static str,
        /// Second of the two options.
        other: &'static str,
    },
    /// An option has no effect without another one.
    #[error("`{name}` requires `{needs}`")]
    Alone {
        /// The option.
        name: &'static str,
        /// Option that it requires.
        needs: &'static str,
    },
    /// The queue discipline cannot mark packets.
    #[error("`ecn`: a drop-tail queue has nothing to mark; choose the queue codel or pie")]
    NothingToMark,
    /// The controller does not take the option.
    #[error("`{name}` is for the controller {takes}, not for {controller}; leave it out")]
    Controller {
        /// The option.
        name: &'static str,
        /// Controllers that take the option.
        takes: &'static str,
        /// Controller of the call.
        controller: Algorithm,
    },
}

impl OptionError {
    /// Message with the names of the command line.
    #[must_use]
    pub fn message_for_command(&self) -> String {
        match self {
            Self::Unknown(name) => format!("unknown option '{}'", flag(name)),
            Self::Value { name, problem } => format!("{}: {problem}", flag(name)),
            Self::Contradiction { name, other } => {
                format!("the argument '{}' cannot be used with '{}'", flag(name), flag(other))
            }
            Self::Alone { name, needs } => format!("'{}' requires '{}'", flag(name), flag(needs)),
            Self::NothingToMark => {
                "--ecn: a drop-tail queue has nothing to mark; choose --queue codel or --queue pie".to_owned()
            }
            Self::Controller { name, takes, controller } => {
                format!("{} is for the controller {takes}, not for {controller}; leave it out", flag(name))
            }
        }
    }
}

const fn first(names: &'static [&'static str]) -> Option<&'static str> {
    match names {
        [name, ..] => Some(*name),
        [] => None,
    }
}

/// A row of the table: `/// meaning`, group, name, value name if it differs, type, default if the option has one.
macro_rules! options {
    ($($(#[doc = $help:literal])+ $group:ident $name:ident $(($value_name:literal))? : $type:ty $(= $default:expr)?;)*) => {
        /// Options of a call as given, each `None` if it is not given.
        ///
        /// [`settings`](CallArguments::settings) resolves them.
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct CallArguments {
            $($(#[doc = $help])+ pub $name: Option<$type>,)*
        }

        impl CallArguments {
            /// Every option.
            pub const TABLE: &'static [OptionDescription] = &[$(OptionDescription {
                name: stringify!($name),
                group: OptionGroup::$group,
                form: <$type as OptionValue>::FORM,
                value_name: first(&[$($value_name)?]),
                choices: <$type as OptionValue>::CHOICES,
                implied_value: <$type as OptionValue>::MEANT,
                help: &[$($help),+],
                check: |word| <$type as OptionValue>::from_words(&[word.to_owned()]).map(drop),
                default: || Self::usual().$name.map_or_else(Vec::new, |value| value.to_words()),
            }),*];

            /// Default values.
            #[must_use]
            pub fn usual() -> Self {
                Self { $($name: { let none: Option<$type> = None; $(let none = none.or(Some($default));)? none }),* }
            }

            /// These options; `others` fills in the missing ones.
            #[must_use]
            pub fn or(self, others: Self) -> Self {
                Self { $($name: self.$name.or(others.$name)),* }
            }

            /// Sets the option `name` from words of the command line.
            ///
            /// # Errors
            /// If no option has this name, or a word is not a value of the option.
            pub fn set_values(&mut self, name: &str, words: &[String]) -> Result<(), OptionError> {
                let wrong = |name| move |problem| OptionError::Value { name, problem };
                match name {
                    $(stringify!($name) => {
                        self.$name = Some(OptionValue::from_words(words).map_err(wrong(stringify!($name)))?);
                    })*
                    _ => return Err(OptionError::Unknown(name.to_owned())),
                }
                Ok(())
            }

            /// Sets the option `name` from a number, a flag, a list of these, or a word of the command line.
            ///
            /// Null leaves the option unset. So does `false`, if the option may be given without a value.
            ///
            /// # Errors
            /// If no option has this name, or `value` is not a value of the option.
            pub fn set_value(&mut self, name: &str, value: &Value) -> Result<(), OptionError> {
                let wrong = |name| move |problem| OptionError::Value { name, problem };
                match name {
                    $(stringify!($name) => if !<$type as OptionValue>::is_not_given(value) {
                        self.$name = Some(OptionValue::read(value).map_err(wrong(stringify!($name)))?);
                    })*
                    _ => return Err(OptionError::Unknown(name.to_owned())),
                }
                Ok(())
            }

            /// Every option with its value for [`CallArguments::set_value`], null if it is not given.
            #[must_use]
            pub fn values(&self) -> Vec<(&'static OptionDescription, Value)> {
                let values = [$(self.$name.as_ref().map_or(Value::Null, OptionValue::to_value)),*];
                Self::TABLE.iter().zip(values).collect()
            }

            /// Command line for the options of `group`.
            #[must_use]
            pub fn words(&self, group: OptionGroup) -> Vec<String> {
                let said = [$(self.$name.as_ref().map(OptionValue::to_words)),*];
                let said = Self::TABLE.iter().zip(said).filter(|(option, _)| option.group == group);
                said.flat_map(|(option, words)| words.map_or_else(Vec::new, |words| option.command_line(&words))).collect()
            }
        }
    };
}

impl OptionDescription {
    /// Command line for the option with the values `words`.
    fn command_line(&self, words: &[String]) -> Vec<String> {
        match self.form {
            Form::Flag => {
                if words.is_empty() {
                    Vec::new()
                } else {
                    vec![self.flag()]
                }
            }
            Form::One | Form::Many => words.iter().map(|word| format!("{}={word}", self.flag())).collect(),
        }
    }
}

options! {
    /// Video source: `generated`, `generated:640x360@25`, a y4m file, or any other input of ffmpeg.
    Call clip: ClipName = ClipName::from("generated");
    /// Capacity from sender to receiver: a trace file (mahimahi, AlphaRTC JSON, BoB's text, CSV of seconds and Mb/s);
    /// or a generated trace such as `constant:500kbps` or `cellular:mean=3mbps,seed=7` (see `lockstep trace --help`).
    Link trace: TraceName = TraceName::from("cellular:mean=4mbps,seed=1");
    /// Capacity from receiver to sender, in the same forms; 100 Mb/s if not given.
    Link reverse: TraceName;
    /// Queue discipline of each direction.
    Link queue: QueueKind = QueueKind::default();
    /// Mark packets instead of dropping them (ECN), for controllers that respond to marks: gcc, nada, scream. Requires
    /// the queue codel or pie. Available in simulations and with `emulate --tun`.
    Link ecn: bool = false;
    /// Packets that the queue of each direction holds; it drops further packets.
    Link queue_packets: NonZero<u32> = const { NonZero::new(256).unwrap() };
    /// Bytes that each queue holds, instead of a number of packets.
    Link queue_bytes: NonZero<u64>;
    /// Propagation delay each way, milliseconds.
    Link delay_ms: Milliseconds = Milliseconds::whole(20);
    /// Share of packets lost at random on the forward link: `0.05` or `5%`.
    Link loss: Share = Share::ZERO;
    /// Share of packets lost at random on the reverse link.
    Link reverse_loss: Share = Share::ZERO;
    /// Loss in bursts on the forward link: the probabilities, packet by packet, that a burst begins and that it ends, such
    /// as `1%,30%`. All packets of a burst are lost (Gilbert-Elliott).
    Link burst_loss ("BEGIN,END"): GilbertElliott;
    /// Interval in which the forward link loses all packets, such as `10s+500ms`; may be repeated.
    Link loss_at ("START+LENGTH"): Vec<LossInterval>;
    /// Late packets of the forward link: their share and their delay, such as `1%,15ms`.
    Link reorder ("SHARE,DELAY"): Reordering;
    /// Mean of an additional, exponentially distributed delay, milliseconds; packets stay in order.
    Link jitter_ms: Milliseconds = Milliseconds::whole(0);
    /// Seed of all randomness in the run.
    Link seed: u64 = 1;
    /// Kind of the sender's codec.
    Control codec: CodecKind = CodecKind::default();
    /// Candidates that the encoder offers for a budget: frames fitted to the newest budget, or Salsify's two
    /// candidates. It codes the two one after the other, or in parallel on two cores.
    Control menu: MenuKind = MenuKind::of(MenuMode::default());
    /// Maximum number of codings of a picture to fit its budget.
    Control fit_passes: Passes = Passes::of(FIT_PASSES);
    /// Effort of the encoder.
    Control preset: Preset = Preset::default();
    /// Controller that decides how much to send: `lockstep` (the default), `sprout`, `gcc`, `fixed:RATE` and others;
    /// `lockstep controllers` lists them. In virtual time, a program that speaks JSON lines is also possible, such as
    /// `program:./mine` (docs/reference/controller-protocol.md).
    Control controller: ControllerName = Algorithm::default().into();
    /// Queueing delay to tolerate for better quality; `balanced` if not given. Only for `sprout` and `lockstep`: the
    /// publications of the other controllers fix it.
    Control latency: Latency;
    /// ONNX model for a learned controller, instead of its default model; for `concerto`, `rlv`, `lockstep`, `bob`,
    /// `hrcc`, `gemini` and `mmsys24`.
    Control model ("FILE"): PathBuf;
    /// Maximum long-term bit rate, all headers included: a rate such as `5mbps`, which bounds `fixed:RATE`, too;
    /// `auto`, beyond which pictures of this size and rate hardly improve (half a bit per pixel, at least 500 kb/s); or
    /// `none`. The coarsest frames of every other picture are sent even if they exceed it. No controller goes below 30
    /// kb/s.
    Control max_bitrate ("RATE"): MaxBitrate = MaxBitrate::default();
    /// Tuned constants to override, for research: `silence.margin=0.2,loss.weight=0.01`. `lockstep controllers --constants`
    /// lists them with units and ranges.
    Control tuning ("NAME=VALUE"): Overrides;
    /// Time that Salsify subtracts from the interval between two arrivals: the link's idle time, the sender's pause
    /// before a frame, or nothing. The default is the link's idle time; only for `salsify`.
    Control grace_period: GracePeriod;
    /// Follow a published system to the letter, where Lockstep does something better. It fixes the controller and the
    /// other options of its design.
    Control as_published: AsPublished;
    /// Estimator written for AlphaRTC: the Python file of its class `Estimator`, or a folder with
    /// `BandwidthEstimator.py`; or a model of the MMSys'24 challenge, an ONNX file. The sender sends at the estimate,
    /// or at the rate that losses allow if that is lower.
    Estimator estimator ("FILE"): PathBuf;
    /// Python interpreter that runs the estimator; LOCKSTEP_PYTHON, otherwise `python3`, if not given.
    Estimator python ("PROGRAM"): PathBuf;
    /// Maximum wall-clock time for one answer of the estimator or of the controller's program.
    Estimator estimator_limit ("SECONDS"): Seconds = Seconds::whole(10);
    /// Run a codec model instead of the codec: no pixels, hundreds of times faster. Only the size and frame rate of the
    /// clip matter; the preset determines the coding time.
    Simulation modelled: bool = false;
    /// Scored length of the call.
    Call seconds: Seconds = Seconds::whole(60);
    /// Coding times in virtual time, by picture size and preset: a file that `lockstep bench encode-time` wrote on the
    /// machine to simulate. The default is a built-in measurement of one machine, which the report names.
    Simulation encode_time ("FILE"): PathBuf;
    /// Virtual time for coding two candidates of a picture, one after the other, instead of the measured time. Other
    /// work of the encoder takes its measured share of this time.
    Simulation encode_ms: Milliseconds;
    /// Virtual time for decoding one frame, milliseconds.
    Simulation decode_ms: Milliseconds = Milliseconds::whole(3);
    /// Minimum interval between two acknowledgements, milliseconds. Each reports all arrivals since the last one; the
    /// outcome of a frame is reported at once. 0 acknowledges every fragment. Calls outside of simulations use the
    /// default.
    Simulation feedback_ms: Milliseconds = Milliseconds::whole(FeedbackInterval::CHOSEN_MILLISECONDS);
    /// Run a second call in the opposite direction, with the same settings and another seed. Its pictures share the
    /// path of the first call's feedback. Not available with an external estimator.
    Simulation two_way: bool = false;
    /// Sound of the call: `tone`, a synthetic voice with pauses; `silence`; or a WAV file, repeated. Without a value,
    /// it is `tone`. In a modelled call, only the presence of sound matters.
    Simulation audio ("SOUND"): SoundName;
    /// Measure VMAF of the displayed pictures, and the scores that require it. Requires an ffmpeg with libvmaf:
    /// LOCKSTEP_VMAF may name one, such as that in PyPI's imageio-ffmpeg. Without it, the scores report that it is
    /// missing.
    Simulation vmaf: bool = false;
    /// Compute an upper bound on QoE_d that no controller exceeds in this call. For modelled calls; requires seconds
    /// for each minute of the call.
    Simulation bound: bool = false;
}

/// Options that reports do not record: they change the duration of a run, not its result.
const UNRECORDED: [&str; 2] = ["python", "estimator_limit"];

impl CallArguments {
    /// Options of `groups` that affect the result of a call, with their values, for reports and rows of a sweep.
    ///
    /// [`CallArguments::set_value`] accepts each value.
    #[must_use]
    pub fn record(&self, groups: &[OptionGroup]) -> CallRecord {
        let values = self.values().into_iter();
        let recorded =
            values.filter(|(option, _)| groups.contains(&option.group) && !UNRECORDED.contains(&option.name));
        CallRecord(recorded.map(|(option, value)| (option.name, value)).collect())
    }

    /// Checks whether options contradict each other, or one has no effect with another.
    ///
    /// # Errors
    /// The first two such options.
    pub fn check(&self) -> Result<(), OptionError> {
        let clashes = |name, other, clash: bool| {
            if clash { Err(OptionError::Contradiction { name, other }) } else { Ok(()) }
        };
        // Reports name this controller for calls with an estimator, and may be read as arguments again.
        let follower = ControllerName::from(Algorithm::ReceiverEstimate);
        let decides = self.controller.as_ref().is_some_and(|controller| *controller != follower);
        clashes("estimator", "controller", self.estimator.is_some() && decides)?;
        // The default value counts as not given: arguments may start from the defaults.
        let limited = self.estimator_limit.is_some() && self.estimator_limit != Self::usual().estimator_limit;
        let is_program = self.controller.as_ref().is_some_and(|controller| controller.program().is_some());
        for (name, given) in [("python", self.python.is_some()), ("estimator_limit", limited && !is_program)] {
            if given && self.estimator.is_none() {
                return Err(OptionError::Alone { name, needs: "estimator" });
            }
        }
        if self.ecn == Some(true) && !self.queue.is_some_and(QueueKind::can_mark) {
            return Err(OptionError::NothingToMark);
        }
        clashes("two_way", "estimator", self.two_way == Some(true) && self.estimator.is_some())?;
        clashes("queue_bytes", "queue_packets", self.queue_bytes.is_some() && self.queue_packets.is_some())?;
        self.check_as_published()?;
        let passes = self.fit_passes.map_or(0, |passes| usize::from(passes.get()));
        if self.codec == Some(CodecKind::Av1) && passes > lockstep_av1::MAX_CANDIDATES {
            let most = lockstep_av1::MAX_CANDIDATES;
            let problem = format!("the codec av1 has slots for {most} candidates of a picture, got {passes}");
            return Err(OptionError::Value { name: "fit_passes", problem });
        }
        let fits = self.menu.is_none_or(|menu| menu == MenuKind::Fit);
        clashes("fit_passes", "menu", self.fit_passes.is_some() && !fits)
    }
}

/// Options of a call in a report: names and values, in the order of the table.
#[derive(Debug, Clone, PartialEq)]
pub struct CallRecord(pub Vec<(&'static str, Value)>);

impl Serialize for CallRecord {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl<'de> serde::Deserialize<'de> for CallArguments {
    /// Reads the output of [`CallArguments::record`].
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = CallArguments;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("the options of a call by name")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<CallArguments, A::Error> {
                let mut options = CallArguments::default();
                while let Some((name, value)) = map.next_entry::<String, Value>()? {
                    options.set_value(&name, &value).map_err(serde::de::Error::custom)?;
                }
                Ok(options)
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}
