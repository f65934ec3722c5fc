//! State of a running call, for its observers.

use std::time::Duration;

use lockstep_units::Timestamp;

use lockstep_session::Route;

use crate::connection::Traffic;
use lockstep_session::presence::Presence;

/// Quality of the received sound so far.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SoundQuality {
    /// Packets received.
    pub packets: u64,
    /// Share (0-1) of the played sound that was concealed, because packets were lost or late.
    pub concealed_share: f64,
}

/// State of a call that its ends do not hold.
#[derive(Debug, Clone, PartialEq)]
pub struct CallState {
    /// The current time.
    pub now: Timestamp,
    /// Decoded pictures that the sink was too slow to display, by stream.
    pub dropped: Vec<u64>,
    /// Traffic of the connection, if there is one.
    pub traffic: Option<Traffic>,
    /// Quality of the received sound, if there is a loudspeaker.
    pub sound: Option<SoundQuality>,
    /// Presence of this end.
    pub own: Presence,
    /// Presence of the other end.
    pub peer: Presence,
    /// Route of the call, once the other end has joined.
    pub route: Option<Route>,
    /// Whether the rendezvous answers, if there is one.
    pub rendezvous_answers: Option<bool>,
    /// How long nothing has arrived from the other end, once it is a second: the call waits for the other end.
    pub silence: Option<Duration>,
}
