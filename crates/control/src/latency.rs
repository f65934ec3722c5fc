//! Latency modes: the trade of delay for picture quality.

use std::fmt;
use std::str::FromStr;

/// Delay that a call tolerates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Latency {
    /// The lowest delay: for tele-operation and games.
    Low,
    /// For conversations.
    #[default]
    Balanced,
    /// More delay for better pictures: for watching.
    Quality,
}

impl Latency {
    /// All modes.
    pub const ALL: [Self; 3] = [Self::Low, Self::Balanced, Self::Quality];

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Balanced => "balanced",
            Self::Quality => "quality",
        }
    }
}

impl fmt::Display for Latency {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Error of an unknown mode name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown latency `{0}`: choose one of low, balanced, quality")]
pub struct UnknownLatency(String);

impl FromStr for Latency {
    type Err = UnknownLatency;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = Self::ALL.into_iter().find(|latency| latency.name() == text);
        named.ok_or_else(|| UnknownLatency(text.to_owned()))
    }
}
