//! Options whose values are few and have names.

use serde_json::Value;

use lockstep_call::MenuMode;
use lockstep_control::{GracePeriod, Latency};
use lockstep_link::QueueConfig;
use lockstep_vp8::Preset;

use super::option_value::OptionValue;

/// A type with a name for each of its values.
macro_rules! choices {
    ($($type:ty { $($name:literal = $value:path: $meaning:literal),* $(,)? })*) => {$(
        impl OptionValue for $type {
            const CHOICES: &'static [(&'static str, &'static str)] = &[$(($name, $meaning)),*];

            fn from_word(word: &str) -> Result<Self, String> {
                match word {
                    $($name => Ok($value),)*
                    _ => Err(format!("`{word}` is none of {}", Self::CHOICES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", "))),
                }
            }

            fn to_value(&self) -> Value {
                Value::from(match self { $($value => $name),* })
            }
        }
    )*};
}

/// How a queue drops packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum QueueKind {
    /// Those that come when it is full.
    #[default]
    Droptail,
    /// From its head, ever more often, while packets wait longer than 5 ms (RFC 8289).
    Codel,
    /// At random, such that packets wait for about 15 ms (RFC 8033).
    Pie,
}

impl QueueKind {
    /// This discipline in the memory of `queue`, which stays as it is for drop-tail.
    #[must_use]
    pub fn over(self, queue: QueueConfig) -> QueueConfig {
        match self {
            Self::Droptail => queue,
            Self::Codel => queue.with_codel(),
            Self::Pie => queue.with_pie(),
        }
    }

    /// Whether it can mark packets instead of dropping them (ECN). A drop-tail queue has nothing to mark before it is full.
    #[must_use]
    pub const fn can_mark(self) -> bool {
        matches!(self, Self::Codel | Self::Pie)
    }
}

/// The kind of codec.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CodecKind {
    /// Fits each frame to what may be sent at that moment, and codes it from any state that the receiver holds.
    #[default]
    Functional,
    /// As a WebRTC codec behaves: one quantizer a frame, decided before coding by a rate control that follows the
    /// controller's target once a second; what is lost is sent again, at last a key frame.
    Conventional,
}

/// Which [`MenuMode`], without its number of passes.
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
        "droptail" = QueueKind::Droptail: "Those that come when it is full",
        "codel" = QueueKind::Codel: "From its head, ever more often, while packets wait longer than 5 ms (RFC 8289)",
        "pie" = QueueKind::Pie: "At random, such that packets wait for about 15 ms (RFC 8033)",
    }
    CodecKind {
        "functional" = CodecKind::Functional:
            "Fits each frame to what may be sent at that moment, and codes it from any state that the receiver holds",
        "conventional" = CodecKind::Conventional:
            "As a WebRTC codec behaves: one quantizer a frame, decided before coding by a rate control that follows the controller's target once a second; what is lost is sent again, at last a key frame",
    }
    MenuKind {
        "fit" = MenuKind::Fit:
            "A frame made to fit, in several passes if need be, each to the newest budget; for one core",
        "serial" = MenuKind::Serial: "Salsify's two candidates, one after the other, for one core",
        "parallel" = MenuKind::Parallel: "Salsify's two candidates, both at once, for two cores",
    }
    Preset {
        "real-time" = Preset::RealTime: "For calls",
        "quality" = Preset::Quality: "Slower and smaller",
    }
    Latency {
        "low" = Latency::Low: "As little as there can be: for tele-operation and games",
        "balanced" = Latency::Balanced: "For conversations",
        "quality" = Latency::Quality: "More delay for a better picture",
    }
    GracePeriod {
        "none" = GracePeriod::None: "Nothing",
        "link-idle" = GracePeriod::LinkIdle: "The time in which the link idled",
    }
}
