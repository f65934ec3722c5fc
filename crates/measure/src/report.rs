//! Report of a finished call as one JSON document: scores, counters and series.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use lockstep_call::SoundScores;

use crate::scores::Scores;
use crate::series::Series;

/// Time that a call continues after its scored part, so that later frames follow the last scored ones.
pub const DRAIN: Duration = Duration::from_secs(1);

/// Machine on which times were measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Name of the processor.
    pub processor: String,
    /// Number of cores. Two or more cores code candidates in parallel.
    pub cores: u32,
}

/// Encode times of a call in virtual time, with the machine on which they were measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CodingTimes {
    /// Machine on which the times were measured.
    pub machine: Machine,
    /// Time until the first frame of a picture can be sent, ms.
    pub first_job_ms: f64,
    /// Time of each further fit pass, ms.
    pub later_pass_ms: f64,
}

/// Results of the call in the opposite direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OppositeResult {
    /// Scores of that call.
    #[serde(flatten)]
    pub scores: Scores,
    /// Scores of its sound; `None` if it had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sound: Option<SoundScores>,
}

/// JSON report of a call. `Configuration` is the type of the driver's settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallReport<Configuration> {
    /// Encode times in virtual time; `None` for a call in real time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coding_times: Option<CodingTimes>,
    /// Version of Lockstep that wrote the report.
    pub lockstep: String,
    /// `simulate` or `call`.
    pub kind: String,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Settings of the call.
    pub config: Configuration,
    /// Scores, flattened into the top level.
    #[serde(flatten)]
    pub scores: Scores,
    /// Scores of the sound; `None` for a call without sound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sound: Option<SoundScores>,
    /// Results of the call in the opposite direction; `None` for a one-way call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opposite: Option<OppositeResult>,
    /// Counters of sender, receiver and link, by name.
    pub counters: BTreeMap<String, BTreeMap<String, u64>>,
    /// Rates and delays over time.
    pub series: Series,
}

/// Report of one direction between two people of a room.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PersonFlowReport<Configuration> {
    /// Number of the sender, from 1.
    pub from: usize,
    /// Number of the receiver, from 1.
    pub to: usize,
    /// Report of the call, flattened. Its link is the uplink of the sender.
    #[serde(flatten)]
    pub call: CallReport<Configuration>,
}

/// JSON report of a room: a call of several people.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RoomReport<Configuration> {
    /// Version of Lockstep that wrote the report.
    pub lockstep: String,
    /// `room`.
    pub kind: String,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Number of people.
    pub people: usize,
    /// Each direction between two people, ordered by sender, then by receiver.
    pub calls: Vec<PersonFlowReport<Configuration>>,
    /// Counters of the uplink and the downlink of each person, such as `uplink_1`.
    pub counters: BTreeMap<String, BTreeMap<String, u64>>,
}
