//! How a call ends: normally, or with an error.

use std::time::Duration;

use lockstep_socket::SystemError;
use lockstep_units::MAX_FRAME_RATE;

/// How a call ended without a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The time was up, or the source ended.
    Done,
    /// The other end closed the call.
    ByPeer,
    /// The user closed the window.
    WindowClosed,
    /// The application ended the call.
    Stopped,
    /// The user left with [`Command::Leave`](crate::presence::Command::Leave).
    Left,
}

/// A condition that degrades a call without ending it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Warning {
    /// The codec is compiled without optimisation, and too slow for most pictures.
    #[error(
        "this build codes video without optimisation, and most pictures are late or lost; build with --release, or put \
         `[profile.dev.package.\"*\"] opt-level = 3` into Cargo.toml"
    )]
    Unoptimised,
}

impl Warning {
    /// The warning about a build, if its codec is not optimised.
    #[must_use]
    pub fn of_build(is_optimised: bool) -> Option<Self> {
        (!is_optimised).then_some(Self::Unoptimised)
    }
}

/// Why a listener refuses a ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TicketRefusal {
    /// The ticket has another secret.
    #[error("the other end waits with another ticket; ask for a new one")]
    Wrong,
    /// The ticket was used before.
    #[error("the ticket was used already, and is valid for one call; ask for a new one")]
    Used,
    /// The standing ticket is in use by a call.
    #[error("the other end is in a call; try again later")]
    Busy,
    /// The ticket is for another kind of call.
    #[error(
        "the ticket is for the other kind of call: `lockstep receive` is joined by `send`, `lockstep talk` by `talk`"
    )]
    OtherKind,
    /// The other end could not parse the request.
    #[error("the other end does not understand this version of Lockstep; update both")]
    Malformed,
}

impl TicketRefusal {
    const ALL: [Self; 5] = [Self::Wrong, Self::Used, Self::Busy, Self::OtherKind, Self::Malformed];

    /// Number of the refusal on the wire.
    #[must_use]
    pub fn number(self) -> u32 {
        Self::ALL.iter().position(|&refusal| refusal == self).map_or(0, |place| place as u32)
    }

    /// The refusal with this number on the wire; unknown numbers mean [`Self::Malformed`].
    #[must_use]
    pub fn from_number(number: u64) -> Self {
        usize::try_from(number).ok().and_then(|place| Self::ALL.get(place).copied()).unwrap_or(Self::Malformed)
    }
}

/// Why a live call failed. Two errors are equal if their texts are equal.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LiveError {
    /// A socket or a thread failed.
    #[error(transparent)]
    System(#[from] SystemError),
    /// A key cannot be created or read.
    #[error("cannot create or read a key: {0}")]
    Identity(String),
    /// The listener refused the ticket.
    #[error("{0}")]
    Ticket(TicketRefusal),
    /// One of the ends detected a protocol error.
    #[error("the connection broke: {0}")]
    Connection(String),
    /// The other end no longer knows the call.
    #[error("the other end was restarted, and no longer knows this call")]
    Restarted,
    /// After a silence, the holder of the standing ticket joined again.
    #[error("the other end fell silent and joined again")]
    Replaced,
    /// The controller cannot be created.
    #[error("cannot make the controller: {0}")]
    Controller(String),
    /// The encoder of pictures failed.
    #[error("the encoder failed: {0}")]
    Encoder(String),
    /// The source of pictures failed.
    #[error("the source failed: {0}")]
    Source(String),
    /// Sound cannot be coded, captured or written.
    #[error("the sound failed: {0}")]
    Sound(String),
    /// The sink of pictures failed.
    #[error("the sink failed: {0}")]
    Sink(String),
    /// The sender's pictures have more pixels than the receiver accepts.
    #[error(
        "the sender's pictures of {width}x{height} have more than the {limit} pixels that are decoded here; allow more with \
         --max-pixels"
    )]
    TooManyPixels {
        /// Width that the sender announced.
        width: u16,
        /// Height that the sender announced.
        height: u16,
        /// The limit.
        limit: usize,
    },
    /// The sender announced pictures that cannot exist.
    #[error(
        "the sender announced pictures without a width, a height or a frame rate, or more than {MAX_FRAME_RATE} a second"
    )]
    InvalidFormat,
    /// The program lacks a feature of this crate.
    #[error("this program was built without the feature `{0}` of lockstep-live: build it with that feature")]
    NotBuilt(&'static str),
    /// The call must use a rendezvous, and the ticket names none.
    #[error(
        "the ticket names no rendezvous, and this call requires one; ask for a ticket that was made with --rendezvous"
    )]
    NoRendezvous,
    /// Nobody answered at the ticket's addresses.
    #[error(
        "nobody answered within {:.1} s {tried}; check that the other end still waits and can be reached from here",
        .waited.as_secs_f64()
    )]
    Unanswered {
        /// Duration of the attempt.
        waited: Duration,
        /// Description of the attempt: `at` addresses, `by` a rendezvous.
        tried: String,
    },
    /// The other end was silent for too long.
    #[error("nothing came from the other end for {:.1} s; the call is over", .silence.as_secs_f64())]
    Silent {
        /// The limit that passed.
        silence: Duration,
    },
    /// This end closed the call, and the other end, silent since before that, may not know.
    #[error(
        "the call is over, but the other end may not know: nothing came from it for {:.1} s",
        .silence.as_secs_f64()
    )]
    PeerSilent {
        /// Duration of the silence.
        silence: Duration,
    },
    /// Nobody joined.
    #[error("nobody joined with the ticket within {:.1} s", .waited.as_secs_f64())]
    NotCalled {
        /// The limit that passed.
        waited: Duration,
    },
    /// The other end ended the call because it failed.
    #[error("the other end ended the call because it failed; see the message there")]
    PeerFailed,
    /// The room has no place left.
    #[error("the room is full; ask somebody to leave, or open another room")]
    RoomFull,
    /// The receiver lacks the estimator of the sender's controller, or the decoder of its codec.
    #[error(
        "the other end lacks the estimator of this controller or the decoder of this codec; choose another --controller or codec, or update the other end"
    )]
    Refused,
    /// The sender announced more video streams than this end accepts.
    #[error(
        "the other end sends more than the {limit} video streams that this end takes; send fewer, or take more here"
    )]
    TooManyStreams {
        /// The limit.
        limit: usize,
    },
    /// The receiver accepts fewer video streams than this end sends.
    #[error("the other end takes fewer video streams than this call sends; send fewer, or take more there")]
    StreamsRefused,
    /// The names or priorities of the video streams are invalid.
    #[error("cannot send these video streams: {0}")]
    Streams(String),
    /// The sender's controller requires an estimator that this receiver does not know.
    #[error(
        "the sender's controller needs estimator {number}, which this receiver lacks; update it, or name the estimator's model with --model"
    )]
    UnknownEstimator {
        /// The estimator's number in the hello.
        number: u16,
    },
    /// This receiver has no decoder for the sender's codec.
    #[error(
        "cannot decode the sender's codec {number}: this receiver has no decoder of it; use the same codec at both ends (codec 1 is AV1, which takes libdav1d)"
    )]
    UnknownCodec {
        /// The codec's number in the hello.
        number: u8,
    },
}

impl PartialEq for LiveError {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::Warning;

    #[test]
    fn only_an_unoptimised_codec_causes_a_warning() {
        assert_eq!(Warning::of_build(true), None);
        let warning = Warning::of_build(false).expect("a warning").to_string();
        assert!(warning.contains("opt-level = 3"), "{warning}");
    }
}
