//! Option types with a few named values.

use serde_json::Value;

use lockstep_call::{MenuMode, Preset};
use lockstep_control::{GracePeriod, Latency};
use lockstep_link::QueueConfig;
use lockstep_vp8::Effort;

use super::option_value::OptionValue;

/// Error for a word that is none of the choices of `T`.
fn no_choice<T: OptionValue>(word: &str) -> String {
    let names: Vec<&str> = T::CHOICES.iter().map(|(name, _)| *name).collect();
    format!("`{word}` is none of {}", names.join(", "))
}

/// Implements [`OptionValue`] for types with a name for each value.
macro_rules! choices {
    ($($type:ty { $($name:literal = $value:path: $meaning:literal),* $(,)? })*) => {$(
        impl OptionValue for $type {
            const CHOICES: &'static [(&'static str, &'static str)] = &[$(($name, $meaning)),*];

            fn from_word(word: &str) -> Result<Self, String> {
                match word {
                    $($name => Ok($value),)*
                    _ => Err(no_choice::<Self>(word)),
                }
            }

            fn to_value(&self) -> Value {
                Value::from(match self { $($value => $name),* })
            }
        }
    )*};
}

/// Names and meanings of presets: automatic, then the effort levels in order.
const PRESETS: [(&str, &str); 11] = [
    (
        "auto",
        "For each picture, the highest level that the encoder's time allows: a quarter of the frame interval, with --latency low an eighth",
    ),
    ("real-time", "The fastest level"),
    ("1", ""),
    ("2", ""),
    ("3", ""),
    ("4", ""),
    ("5", ""),
    ("6", ""),
    ("7", ""),
    ("8", "Levels between them; a higher one takes more time and fewer bits"),
    ("quality", "The slowest level"),
];

impl OptionValue for Effort {
    const CHOICES: &'static [(&'static str, &'static str)] = PRESETS.split_at(1).1;

    fn from_word(word: &str) -> Result<Self, String> {
        let level = Self::CHOICES.iter().position(|(name, _)| *name == word);
        level.map(|level| Self::new(level as u8)).ok_or_else(|| no_choice::<Self>(word))
    }

    fn to_value(&self) -> Value {
        Value::from(Self::CHOICES[usize::from(self.level())].0)
    }
}

impl OptionValue for Preset {
    const CHOICES: &'static [(&'static str, &'static str)] = &PRESETS;

    fn from_word(word: &str) -> Result<Self, String> {
        match word {
            "auto" => Ok(Self::Auto),
            level => Effort::from_word(level).map(Self::Level).map_err(|_| no_choice::<Self>(word)),
        }
    }

    fn from_value(value: &Value) -> Result<Self, String> {
        Self::from_word(&value.to_string())
    }

    fn to_value(&self) -> Value {
        match self {
            Self::Auto => Value::from("auto"),
            Self::Level(effort) => effort.to_value(),
        }
    }
}

/// Queue discipline.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum QueueKind {
    /// Drops arriving packets when the queue is full.
    #[default]
    Droptail,
    /// Drops from the head, with rising frequency, while packets wait longer than 5 ms (RFC 8289).
    Codel,
    /// Drops at random, so that packets wait about 15 ms (RFC 8033).
    Pie,
}

impl QueueKind {
    /// This discipline with the capacity of `queue`; drop-tail returns `queue` unchanged.
    #[must_use]
    pub fn over(self, queue: QueueConfig) -> QueueConfig {
        match self {
            Self::Droptail => queue,
            Self::Codel => queue.with_codel(),
            Self::Pie => queue.with_pie(),
        }
    }

    /// Whether it can mark packets instead of dropping them (ECN). A drop-tail queue cannot.
    #[must_use]
    pub const fn can_mark(self) -> bool {
        matches!(self, Self::Codel | Self::Pie)
    }
}

/// The kind of codec.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CodecKind {
    /// Fits each frame to the current allowance, and codes it from any state that the receiver holds.
    #[default]
    Functional,
    /// Behaves like a codec of WebRTC.
    ///
    /// A rate control chooses one quantizer per frame before coding, and follows the controller's target once per
    /// second. Lost packets are retransmitted; a key frame is the last resort.
    Conventional,
    /// The functional codec over AV1, through the system's libaom and dav1d. A state is a frame in a reference slot.
    Av1,
}

/// A published system to follow to the letter, where Lockstep does something better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AsPublished {
    /// Salsify (NSDI 2018, section 3.2, and its published code). The menu `serial` is Salsify-1c, `parallel` Salsify-2c.
    Salsify,
    /// Salsify with a conventional codec that has a target for each frame (section 5.2, experiment 4).
    SalsifyFrameTarget,
    /// The same with a target that changes once per second.
    SalsifySecondTarget,
    /// BoB (IEEE TMM 2022, Algorithm 1): the heuristic of the paper's text, under `bob`, the default, or
    /// `bob-heuristic`.
    Bob,
}

/// Kind of a [`MenuMode`], without its number of passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MenuKind {
    Fit,
    Serial,
    Parallel,
}

impl MenuKind {
    pub(crate) const fn of(mode: MenuMode) -> Self {
        match mode {
            MenuMode::Fit { .. } => Self::Fit,
            MenuMode::Serial => Self::Serial,
            MenuMode::Parallel => Self::Parallel,
        }
    }
}

choices! {
    QueueKind {
        "droptail" = QueueKind::Droptail: "Drops arriving packets when the queue is full",
        "codel" = QueueKind::Codel: "Drops from the head, with rising frequency, while packets wait longer than 5 ms (RFC 8289)",
        "pie" = QueueKind::Pie: "Drops at random, so that packets wait about 15 ms (RFC 8033)",
    }
    CodecKind {
        "functional" = CodecKind::Functional:
            "Fits each frame to the current allowance, and codes it from any state that the receiver holds",
        "conventional" = CodecKind::Conventional:
            "Behaves like a codec of WebRTC: one quantizer per frame by a rate control that follows the target once per second; lost packets are retransmitted, or replaced by a key frame",
        "av1" = CodecKind::Av1:
            "As functional, over AV1 instead of VP8: states are frames in reference slots. With pixels, through the system's libaom 3.6 and dav1d 1.0",
    }
    AsPublished {
        "salsify" = AsPublished::Salsify:
            "Salsify (NSDI 2018): two candidates around the last sent quantizer, each fragment acknowledged, no parity and no limits by path; --menu serial is Salsify-1c, parallel, the default, Salsify-2c",
        "salsify-frame-target" = AsPublished::SalsifyFrameTarget:
            "Its ablation with a conventional codec: one version of each picture, for the budget of its frame",
        "salsify-second-target" = AsPublished::SalsifySecondTarget:
            "The same with a target that changes once per second",
        "bob" = AsPublished::Bob:
            "BoB (IEEE TMM 2022): the heuristic of Algorithm 1 as printed, instead of the released code's; for the controllers bob, the default, and bob-heuristic",
    }
    MenuKind {
        "fit" = MenuKind::Fit:
            "A frame fitted to the newest budget, in several passes if necessary; for one core",
        "serial" = MenuKind::Serial: "Salsify's two candidates, one after the other, for one core",
        "parallel" = MenuKind::Parallel: "Salsify's two candidates, in parallel, for two cores",
    }
    Latency {
        "low" = Latency::Low: "Minimum delay, for tele-operation and games",
        "balanced" = Latency::Balanced: "Balance of delay and quality, for conversations",
        "quality" = Latency::Quality: "More delay for better quality",
    }
    GracePeriod {
        "none" = GracePeriod::None: "Nothing",
        "link-idle" = GracePeriod::LinkIdle: "The link's idle time",
        "sender" = GracePeriod::Sender: "The sender's pause before a frame, as published",
    }
}
