//! What a finished call leaves behind: its scores, its counters and a time series, as one JSON document.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use lockstep_call::SoundScores;

use crate::scores::Scores;
use crate::series::Series;

/// How long a call goes on after its scored length, so that the last scored frames have later ones to be followed by.
pub const DRAIN: Duration = Duration::from_secs(1);

/// The machine that was measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Its processor, as it calls itself.
    pub processor: String,
    /// How many cores it has. With two at least, candidates that may be coded at once are.
    pub cores: u32,
}

/// What coding took in a call in virtual time, and where that was measured: a report has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CodingTimes {
    /// The machine that was measured.
    pub machine: Machine,
    /// Time until there was something of a picture to send, milliseconds.
    pub first_job_ms: f64,
    /// Time of each pass more, where frames are made to fit, milliseconds.
    pub later_pass_ms: f64,
}

/// What came of the call in the opposite direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OppositeResult {
    /// Its scores.
    #[serde(flatten)]
    pub scores: Scores,
    /// How its sound was heard, if it had any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sound: Option<SoundScores>,
}

/// The JSON document of a call. `Configuration` is whatever the driver was told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallReport<Configuration> {
    /// What coding took in virtual time; none of a call in real time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coding_times: Option<CodingTimes>,
    /// Version of Lockstep that made it.
    pub lockstep: String,
    /// `simulate` or `call`.
    pub kind: String,
    /// Seed of everything random in it.
    pub seed: u64,
    /// What was run.
    pub config: Configuration,
    /// The scores, at the top level.
    #[serde(flatten)]
    pub scores: Scores,
    /// How its sound was heard; none of a call without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sound: Option<SoundScores>,
    /// What came of the call in the opposite direction; none of a call in one direction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opposite: Option<OppositeResult>,
    /// Counters of sender, receiver and link, by name.
    pub counters: BTreeMap<String, BTreeMap<String, u64>>,
    /// Rates and delays over time.
    pub series: Series,
}
