//! What a finished call leaves behind: its scores, its counters and a time series, as one JSON document.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use lockstep_transport::wire::{CARRIAGE, NETWORK_HEADERS};
use lockstep_units::{ByteCount, Timestamp};

use crate::encode_time::CodingTimes;
use crate::scores::Scores;
use crate::series::Series;
use crate::sound::SoundScores;

/// How long a call goes on after its scored length, so that the last scored frames have later ones to be followed by.
pub const DRAIN: Duration = Duration::from_secs(1);

/// What a link carries of a UDP datagram of `size`: its bytes and those of the headers before it.
#[must_use]
pub fn on_the_link(size: ByteCount) -> ByteCount {
    size + ByteCount::new(NETWORK_HEADERS)
}

/// What a link carries of one of the transport's datagrams of `size`: its bytes and all that
/// is wrapped around it on the way.
#[must_use]
pub fn carried(size: ByteCount) -> ByteCount {
    size + ByteCount::new(CARRIAGE)
}

/// What a datagram of the transport's adds to another with which it goes in one packet: a frame of QUIC's has its type and
/// a length before its bytes (RFC 9221, section 4).
pub const RIDING: u64 = 3;

/// When the receiver had a frame and when it showed it, as its own log has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DisplayRecord {
    /// Frame number on the wire.
    pub frame: u32,
    /// When the last fragment arrived.
    pub completed_at: Timestamp,
    /// When the picture was shown.
    pub displayed_at: Timestamp,
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
