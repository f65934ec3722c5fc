//! The state of a call, for its observers.

use lockstep_units::Timestamp;

use crate::connection::{Traffic, Way};
use crate::presence::Presence;

/// How the other end's sound is heard so far.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct HeardSound {
    /// Packets that came.
    pub packets: u64,
    /// The share (0-1) of what was to be heard that was made up, because it was lost or late.
    pub concealed_share: f64,
}

/// What a call is at, beside what its ends know.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CallState {
    /// This moment.
    pub now: Timestamp,
    /// Pictures that were decoded and not shown, because the sink was too slow.
    pub dropped: u64,
    /// What the connection carried, if there is one.
    pub traffic: Option<Traffic>,
    /// How sound is heard, if there is a loudspeaker.
    pub sound: Option<HeardSound>,
    /// What this end gives.
    pub own: Presence,
    /// What the other end gives.
    pub peer: Presence,
    /// Which way it goes, once the other end is there.
    pub way: Option<Way>,
    /// Whether the rendezvous answers, if there is one.
    pub rendezvous_answers: Option<bool>,
}
