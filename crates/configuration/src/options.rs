//! The options of a call: the one table of their names, types, defaults and meanings. The words of the command line and
//! the keyword arguments of Python are read by it, and what a report says of a call is written by it.

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

use lockstep_call::{FIT_PASSES, MenuMode};
use lockstep_control::{Algorithm, GracePeriod, Latency};
use lockstep_link::{GilbertElliott, LossInterval, Reordering};
use lockstep_transport::FeedbackInterval;
use lockstep_vp8::Preset;

use crate::MaxBitrate;
pub(crate) use choices::MenuKind;
pub use choices::{CodecKind, QueueKind};
pub use names::{ClipName, ControllerName, SoundName, TraceName};
pub use option_value::{Form, OptionValue};
pub use overrides::Overrides;
pub use values::{Milliseconds, Passes, Seconds, Share};

/// Which part of a call an option is of; commands take the options of some parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptionGroup {
    /// The pictures, and how long.
    Call,
    /// The emulated link.
    Link,
    /// The codec and its control.
    Control,
    /// An estimator that is none of this project's.
    Estimator,
    /// How it is run in virtual time.
    Simulation,
}

impl OptionGroup {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Call, Self::Link, Self::Control, Self::Estimator, Self::Simulation];

    /// The heading of its options in help; none for those that come first.
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

/// What the table says of one option.
#[derive(Debug, Clone, Copy)]
pub struct OptionDescription {
    /// Its name as Python and reports have it, such as `delay_ms`; on the command line `--delay-ms`.
    pub name: &'static str,
    /// Which part of a call it is of.
    pub group: OptionGroup,
    /// Whether it is a flag, has one value or many.
    pub form: Form,
    /// What its value is called where it is not called as the option is.
    pub value_name: Option<&'static str>,
    /// The names and meanings of its values, where they are few.
    pub choices: &'static [(&'static str, &'static str)],
    /// The value that is meant where it is given without one, if it may be.
    pub meant: Option<&'static str>,
    /// What it means, line by line.
    help: &'static [&'static str],
    /// Whether a word is a value of it.
    check: fn(&str) -> Result<(), String>,
    /// Its default, as words.
    default: fn() -> Vec<String>,
}

impl OptionDescription {
    /// What it means, in one or more sentences, without the last one's full stop.
    #[must_use]
    pub fn help(&self) -> String {
        let lines: Vec<&str> = self.help.iter().map(|line| line.trim()).collect();
        lines.join(" ").trim_end_matches('.').to_owned()
    }

    /// Finds out whether `word` is a value of it.
    ///
    /// # Errors
    /// What is wrong with it, in one line.
    pub fn check(&self, word: &str) -> Result<(), String> {
        (self.check)(word)
    }

    /// The words that say its default; none if it has none.
    #[must_use]
    pub fn default_words(&self) -> Vec<String> {
        (self.default)()
    }

    /// The name on the command line, with the dashes.
    #[must_use]
    pub fn flag(&self) -> String {
        flag(self.name)
    }
}

/// The option called `name` on the command line.
fn flag(name: &str) -> String {
    format!("--{}", name.replace('_', "-"))
}

/// Why options say no call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// There is no option of this name.
    #[error("there is no option `{0}`")]
    Unknown(String),
    /// An option does not have such values.
    #[error("{name}: {problem}")]
    Value {
        /// The option.
        name: &'static str,
        /// What is wrong with its value.
        problem: String,
    },
    /// Two options were given that contradict each other, or one that means nothing beside the other.
    #[error("`{name}` cannot be used with `{other}`")]
    Contradiction {
        /// One of them.
        name: &'static str,
        /// The other.
        other: &'static str,
    },
    /// An option was given that means nothing without another.
    #[error("`{name}` means nothing without `{needs}`")]
    Alone {
        /// The option.
        name: &'static str,
        /// The one that it is for.
        needs: &'static str,
    },
    /// A queue is to mark that cannot.
    #[error("`ecn`: a drop-tail queue has nothing to mark; choose the queue codel or pie")]
    NothingToMark,
    /// An option was given to a controller that does not take it.
    #[error("`{name}` is for the controller {takes}, not for {controller}; leave it out")]
    Controller {
        /// The option.
        name: &'static str,
        /// Which controller takes it.
        takes: &'static str,
        /// The controller that does not.
        controller: Algorithm,
    },
}

impl OptionError {
    /// The same with the options called as on the command line.
    #[must_use]
    pub fn in_words(&self) -> String {
        match self {
            Self::Unknown(name) => format!("there is no option '{}'", flag(name)),
            Self::Value { name, problem } => format!("{}: {problem}", flag(name)),
            Self::Contradiction { name, other } => {
                format!("the argument '{}' cannot be used with '{}'", flag(name), flag(other))
            }
            Self::Alone { name, needs } => format!("'{}' means nothing without '{}'", flag(name), flag(needs)),
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

/// A row of the table: `/// meaning`, group, name, the name of its value if it has another, type, default if it has one.
macro_rules! options {
    ($($(#[doc = $help:literal])+ $group:ident $name:ident $(($value_name:literal))? : $type:ty $(= $default:expr)?;)*) => {
        /// What somebody said of a call, option by option; nothing of those left out.
        /// [`settings`](CallArguments::settings) makes sense of it.
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct CallArguments {
            $($(#[doc = $help])+ pub $name: Option<$type>,)*
        }

        impl CallArguments {
            /// Every option there is.
            pub const TABLE: &'static [OptionDescription] = &[$(OptionDescription {
                name: stringify!($name),
                group: OptionGroup::$group,
                form: <$type as OptionValue>::FORM,
                value_name: first(&[$($value_name)?]),
                choices: <$type as OptionValue>::CHOICES,
                meant: <$type as OptionValue>::MEANT,
                help: &[$($help),+],
                check: |word| <$type as OptionValue>::from_words(&[word.to_owned()]).map(drop),
                default: || Self::usual().$name.map_or_else(Vec::new, |value| value.to_words()),
            }),*];

            /// The defaults.
            #[must_use]
            pub fn usual() -> Self {
                Self { $($name: { let none: Option<$type> = None; $(let none = none.or(Some($default));)? none }),* }
            }

            /// These, and of what they leave out what `others` say.
            #[must_use]
            pub fn or(self, others: Self) -> Self {
                Self { $($name: self.$name.or(others.$name)),* }
            }

            /// Says the option `name` in words.
            ///
            /// # Errors
            /// If there is no such option, or the words are no value of it.
            pub fn set_words(&mut self, name: &str, words: &[String]) -> Result<(), OptionError> {
                let wrong = |name| move |problem| OptionError::Value { name, problem };
                match name {
                    $(stringify!($name) => {
                        self.$name = Some(OptionValue::from_words(words).map_err(wrong(stringify!($name)))?);
                    })*
                    _ => return Err(OptionError::Unknown(name.to_owned())),
                }
                Ok(())
            }

            /// Says the option `name`: a number, a flag, a list of these, or what the command line takes as a word. Null
            /// says nothing, and nor does `false` of an option that may be given without a value.
            ///
            /// # Errors
            /// If there is no such option, or that is no value of it.
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

            /// Every option with its value as [`CallArguments::set_value`] takes it, null where nothing is said of it.
            #[must_use]
            pub fn values(&self) -> Vec<(&'static OptionDescription, Value)> {
                let values = [$(self.$name.as_ref().map_or(Value::Null, OptionValue::to_value)),*];
                Self::TABLE.iter().zip(values).collect()
            }

            /// The words of the command line that say these options, as far as they are of `group`.
            #[must_use]
            pub fn words(&self, group: OptionGroup) -> Vec<String> {
                let said = [$(self.$name.as_ref().map(OptionValue::to_words)),*];
                let said = Self::TABLE.iter().zip(said).filter(|(option, _)| option.group == group);
                said.flat_map(|(option, words)| words.map_or_else(Vec::new, |words| option.said(&words))).collect()
            }
        }
    };
}

impl OptionDescription {
    /// The option with the values `words`, as the command line has it.
    fn said(&self, words: &[String]) -> Vec<String> {
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
    /// The pictures: `generated`, `generated:640x360@25`, a y4m file, or anything else that ffmpeg reads.
    Call clip: ClipName = ClipName::from("generated");
    /// Capacity from sender to receiver: a trace file (mahimahi, AlphaRTC JSON, BoB's text, CSV of seconds and Mb/s) or
    /// a generated one such as `constant:500kbps` or `cellular:mean=3mbps,seed=7` (see `lockstep trace --help`).
    Link trace: TraceName = TraceName::from("cellular:mean=4mbps,seed=1");
    /// Capacity from receiver to sender, in the same forms; 100 Mb/s if not given.
    Link reverse: TraceName;
    /// How the queue of each direction drops packets.
    Link queue: QueueKind = QueueKind::default();
    /// Mark instead of dropping (ECN), for controllers that heed marks: gcc, nada, scream. For the queues codel and pie, in
    /// simulations and with `emulate --tun`.
    Link ecn: bool = false;
    /// Packets that the queue of each direction holds; more are dropped.
    Link queue_packets: NonZero<u32> = const { NonZero::new(256).unwrap() };
    /// Bytes that each queue holds, instead of packets.
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
    /// A time in which all packets of the forward link are lost, such as `10s+500ms`; may be given more than once.
    Link loss_at ("START+LENGTH"): Vec<LossInterval>;
    /// Packets of the forward link that come late: how many, and how late, such as `1%,15ms`.
    Link reorder ("SHARE,DELAY"): Reordering;
    /// Mean of an additional, exponentially distributed delay, milliseconds; packets stay in order.
    Link jitter_ms: Milliseconds = Milliseconds::whole(0);
    /// Seed of everything random in the run.
    Link seed: u64 = 1;
    /// Which kind of codec the sender has.
    Control codec: CodecKind = CodecKind::default();
    /// What the encoder offers for a budget: frames made to fit the newest budget, or Salsify's two candidates, one after
    /// the other or both at once on two cores.
    Control menu: MenuKind = MenuKind::of(MenuMode::default());
    /// How many times a picture may be coded to fit.
    Control fit_passes: Passes = Passes::of(FIT_PASSES);
    /// How hard the encoder works.
    Control preset: Preset = Preset::default();
    /// Who decides how much is sent: `lockstep` (the default), `sprout`, `gcc`, `fixed:RATE` and others; `lockstep
    /// controllers` lists them. Or a program that speaks JSON lines, such as `program:./mine`
    /// (docs/reference/controller-protocol.md).
    Control controller: ControllerName = Algorithm::default().into();
    /// How much delay is tolerated in the queue for a better picture; `balanced` if not given. Only for `sprout` and
    /// `lockstep`: the other controllers have it in what was published of them.
    Control latency: Latency;
    /// The model of a learned controller, an ONNX file, in the place of the one that comes with it; for `concerto`,
    /// `rlv`, `lockstep`, `bob`, `hrcc`, `gemini` and `mmsys24`.
    Control model ("FILE"): PathBuf;
    /// The most that is sent in the long run, all headers included: a bit rate such as `5mbps`, which bounds `fixed:RATE`, too;
    /// `auto`, what pictures of this size and rate gain by (half a bit a pixel, 500 kb/s at least); or `none`. Where the
    /// coarsest frames of every other picture take more, those are sent, and no controller goes below 30 kb/s.
    Control max_bitrate ("RATE"): MaxBitrate = MaxBitrate::default();
    /// Tuned constants to override, for research: `silence.margin=0.2,loss.weight=0.01`. `lockstep controllers --constants`
    /// lists them with units and ranges.
    Control tuning ("NAME=VALUE"): Overrides;
    /// What Salsify takes out of the time between two arrivals: the time in which the link idled, or nothing. The link's
    /// if not given; only for `salsify`.
    Control grace_period: GracePeriod;
    /// An estimator written for AlphaRTC: the Python file of its class `Estimator`, or a folder with
    /// `BandwidthEstimator.py` in it; or a model of the MMSys'24 challenge, an ONNX file. The sender sends at what it estimates, or at what losses allow if that is less.
    Estimator estimator ("FILE"): PathBuf;
    /// The Python interpreter that runs the estimator; LOCKSTEP_PYTHON, or else `python3`, if not given.
    Estimator python ("PROGRAM"): PathBuf;
    /// The longest that the estimator, or the program of the controller, may take for one answer, on the clock on the wall.
    Estimator estimator_limit ("SECONDS"): Seconds = Seconds::whole(10);
    /// Run a model in the place of the codec: no pixels, hundreds of times faster. Of the clip, its size and its frame rate
    /// count; of the preset, the time that coding takes.
    Simulation modelled: bool = false;
    /// Scored length of the call.
    Call seconds: Seconds = Seconds::whole(60);
    /// How long coding takes in virtual time, by picture size and preset: a file that `lockstep bench encode-time` wrote on
    /// the machine that is meant. Lockstep comes with the times of one that the report names.
    Simulation encode_time ("FILE"): PathBuf;
    /// Virtual time that a menu of two candidates of a picture takes, one after the other, in place of what was measured;
    /// everything else that an encoder does takes the measured share of it.
    Simulation encode_ms: Milliseconds;
    /// Virtual time that decoding one frame takes.
    Simulation decode_ms: Milliseconds = Milliseconds::whole(3);
    /// The least time between two acknowledgements, each of which tells of all that arrived since the last; what became of
    /// a frame is told at once. 0 acknowledges every fragment. Calls outside of simulations have the default.
    Simulation feedback_ms: Milliseconds = Milliseconds::whole(FeedbackInterval::CHOSEN_MILLISECONDS);
    /// Have another call go the opposite way at the same time, of the same settings but another seed: its pictures go where
    /// the feedback of the first goes. Not with an estimator of one's own.
    Simulation two_way: bool = false;
    /// Sound beside the pictures: `tone`, a voice of sorts that talks and is silent by turns; `silence`; or a WAV file, again
    /// and again. `tone` is meant where none is named. Of a modelled call, only that there is one counts.
    Simulation audio ("SOUND"): SoundName;
    /// Measure VMAF of what is shown, and the scores that need it. Takes an ffmpeg with libvmaf: LOCKSTEP_VMAF may name
    /// one, such as that in PyPI's imageio-ffmpeg. Without, the scores say that it is missing.
    Simulation vmaf: bool = false;
    /// Compute an upper bound on QoE_d that no controller exceeds in this call. For modelled calls; takes seconds for each
    /// minute of call.
    Simulation bound: bool = false;
}

/// Options of which reports say nothing: what they change is how long a call takes, not what comes of it.
const UNRECORDED: [&str; 2] = ["python", "estimator_limit"];

impl CallArguments {
    /// Every option that bears on what comes of a call, as far as it is of `groups`, with its value: what reports and rows
    /// of a sweep say of it. [`CallArguments::set_value`] takes each as it is here.
    #[must_use]
    pub fn record(&self, groups: &[OptionGroup]) -> CallRecord {
        let values = self.values().into_iter();
        let recorded =
            values.filter(|(option, _)| groups.contains(&option.group) && !UNRECORDED.contains(&option.name));
        CallRecord(recorded.map(|(option, value)| (option.name, value)).collect())
    }

    /// Finds out whether options were given that contradict each other, or one that means nothing beside another.
    ///
    /// # Errors
    /// The first two such options.
    pub fn check(&self) -> Result<(), OptionError> {
        let clashes = |name, other, clash: bool| {
            if clash { Err(OptionError::Contradiction { name, other }) } else { Ok(()) }
        };
        // What follows an estimator is called so in reports, whose words may be given again.
        let follower = ControllerName::from(Algorithm::ReceiverEstimate);
        let decides = self.controller.as_ref().is_some_and(|controller| *controller != follower);
        clashes("estimator", "controller", self.estimator.is_some() && decides)?;
        // What is as usual was not asked for: whoever begins with what is usual has it, too.
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
        let fits = self.menu.is_none_or(|menu| menu == MenuKind::Fit);
        clashes("fit_passes", "menu", self.fit_passes.is_some() && !fits)
    }
}

/// What a report says of the options of a call: names and values, in the order of the table.
#[derive(Debug, Clone, PartialEq)]
pub struct CallRecord(pub Vec<(&'static str, Value)>);

impl Serialize for CallRecord {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl<'de> serde::Deserialize<'de> for CallArguments {
    /// Reads what [`CallArguments::record`] writes.
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
