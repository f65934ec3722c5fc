//! What a person does in a call, and what the other end is told of it.

use lockstep_units::Timestamp;

use crate::connection::{Traffic, Way};

/// What a person wants of a running call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Silence one's own sound, or let it be heard again.
    Mute,
    /// Turn one's own camera off or on again.
    Camera,
    /// End the call.
    Leave,
}

/// What one end gives of itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Presence {
    /// Its sound is silenced.
    pub muted: bool,
    /// It captures no pictures: that they stand still is no fault of the path's.
    pub camera_off: bool,
}

impl Presence {
    /// As the other end is told, a bit for each.
    pub(crate) fn number(self) -> u8 {
        u8::from(self.muted) | (u8::from(self.camera_off) << 1)
    }

    /// Bits that a newer version may have are let be.
    pub(crate) fn from_number(number: u8) -> Self {
        Self { muted: number & 1 != 0, camera_off: number & 2 != 0 }
    }
}

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
