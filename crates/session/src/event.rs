//! Events of a call for the application.

use std::sync::Arc;
use std::time::Duration;

use lockstep_control::LimitedBy;
use lockstep_units::Bitrate;

use crate::carrier::Route;
use crate::messages::ReceivedMessage;
use crate::presence::Presence;
use crate::stream::StreamName;
use crate::{Ended, LiveError, Warning};

/// An event of a call.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum CallEvent {
    /// A condition degrades the call that is about to begin.
    Warning(Warning),
    /// The other end has joined.
    Joined,
    /// The other end sends a named stream.
    StreamAnnounced {
        /// The stream, as in [`CallEvent::Stale`].
        stream: usize,
        /// Its name.
        name: StreamName,
    },
    /// Packets take another path: the address of an end changed, or the relay replaced the direct path.
    PathChanged(Route),
    /// Nothing arrived from the other end for a second.
    Interrupted,
    /// Packets arrive again.
    Resumed,
    /// Another peer with the standing ticket tried to join during this call.
    Missed,
    /// The other end muted its sound or turned its camera off, or on again.
    PeerChanged(Presence),
    /// Quality of one stream, once per second.
    Quality(Quality),
    /// The newest picture of the other end is older than the limit of [`Freshness`](crate::Freshness). A remote-controlled
    /// machine should stop.
    Stale {
        /// The stream; 0 is the first, and the only one of most calls.
        stream: usize,
        /// Its age, from capture until now.
        age: Duration,
    },
    /// After [`CallEvent::Stale`], a picture younger than the limit is shown.
    Fresh {
        /// The stream.
        stream: usize,
    },
    /// A source cannot be opened, or failed. The other streams continue, in both directions. The pictures of a camera
    /// that failed during the call continue once it is there again.
    SourceFailed {
        /// The stream that this end sends.
        stream: usize,
        /// The reason.
        reason: String,
    },
    /// A message arrived.
    Message(ReceivedMessage),
    /// The call is over.
    Ended(Ended),
    /// The call failed.
    Failed(Arc<LiveError>),
}

/// Quality of one video stream of a call, in both directions.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Quality {
    /// The stream; 0 is the first, and the only one of most calls.
    pub stream: usize,
    /// Quality of the pictures that this end sends; `None` if it sends no such stream.
    pub sending: Option<SendingQuality>,
    /// Quality of the pictures that this end receives; `None` if it receives no such stream.
    pub receiving: Option<ReceivingQuality>,
}

/// Quality of the pictures that this end sends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SendingQuality {
    /// Bit rate that the controller aims at.
    pub target: Bitrate,
    /// Limit that bounds the size of the newest frame; `None` before the first frame.
    pub limited_by: Option<LimitedBy>,
    /// Smoothed round-trip time; `None` before the first feedback.
    pub round_trip: Option<Duration>,
    /// Frames sent since the call began.
    pub frames: u64,
}

/// Quality of the pictures that this end receives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReceivingQuality {
    /// Frames decoded since the call began.
    pub frames: u64,
    /// Missing packets, of those sent before the newest one that arrived.
    pub missing: u64,
    /// Interarrival jitter of packets (RFC 3550, section 6.4.1).
    pub jitter: Duration,
    /// Age of the newest picture, from capture until now; `None` before the first.
    pub age: Option<Duration>,
}
