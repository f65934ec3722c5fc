//! Events and statistics as JSON, for JavaScript.

use std::time::Duration;

use crate::client::Client;
use crate::json::{Json, object};
use lockstep_av1::Vp8OrAv1;
use lockstep_call::{ReceivingEnd, SendingEnd};
use lockstep_control::LimitedBy;
use lockstep_session::messages::Delivery;
use lockstep_session::{CallEvent, Ended, LiveError, TicketRefusal};
use lockstep_units::Timestamp;

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Short name of an error, for the page's own text.
fn name(error: &LiveError) -> &'static str {
    match error {
        LiveError::Ticket(TicketRefusal::Wrong) => "ticket_wrong",
        LiveError::Ticket(TicketRefusal::Used) => "ticket_used",
        LiveError::Ticket(TicketRefusal::Busy) => "ticket_busy",
        LiveError::Ticket(TicketRefusal::OtherKind) => "other_kind",
        LiveError::Ticket(TicketRefusal::Malformed) => "other_version",
        LiveError::Unanswered { .. } => "unanswered",
        LiveError::Silent { .. } | LiveError::PeerSilent { .. } => "silent",
        LiveError::PeerFailed => "peer_failed",
        LiveError::Connection(_) => "connection",
        LiveError::Replaced => "replaced",
        LiveError::Refused
        | LiveError::UnknownEstimator { .. }
        | LiveError::UnknownCodec { .. }
        | LiveError::InvalidFormat
        | LiveError::TooManyPixels { .. }
        | LiveError::TooManyStreams { .. }
        | LiveError::StreamsRefused => "unsupported",
        _ => "other",
    }
}

/// An event as JSON, and the payload of a message.
pub(crate) fn event(event: CallEvent) -> (Json, Vec<u8>) {
    // An object with its type and more members.
    fn with<const N: usize>(kind: &'static str, members: [(&'static str, Json); N]) -> Json {
        Json::Object([("type", kind.into())].into_iter().chain(members).collect())
    }
    let value = match event {
        CallEvent::Joined => with("joined", []),
        CallEvent::StreamAnnounced { stream, name } => {
            with("stream", [("stream", (stream as u64).into()), ("name", name.to_string().into())])
        }
        CallEvent::PathChanged(route) => with("path", [("route", route.name().into())]),
        CallEvent::Interrupted => with("interrupted", []),
        CallEvent::Resumed => with("resumed", []),
        CallEvent::PeerChanged(presence) => with(
            "presence",
            [
                ("muted", presence.muted.into()),
                ("cameraOff", presence.camera_off.into()),
                ("recording", presence.recording.into()),
            ],
        ),
        CallEvent::Stale { stream, age } => {
            with("stale", [("stream", (stream as u64).into()), ("age", milliseconds(age).into())])
        }
        CallEvent::Fresh { stream } => with("fresh", [("stream", (stream as u64).into())]),
        CallEvent::Message(message) => {
            let channel = match message.delivery {
                Delivery::Reliable => None,
                Delivery::Latest { channel } => Some(channel),
            };
            let members = [("channel", channel.into()), ("delay", milliseconds(message.delay).into())];
            return (with("message", members), message.payload);
        }
        CallEvent::Ended(ended) => with("ended", [("by", if ended == Ended::ByPeer { "peer" } else { "self" }.into())]),
        CallEvent::Failed(error) => {
            with("failed", [("error", name(&error).into()), ("message", error.to_string().into())])
        }
        CallEvent::Warning(warning) => with("warning", [("message", warning.to_string().into())]),
        // Statistics hold the same values.
        _ => with("quality", []),
    };
    (value, Vec::new())
}

fn sending(now: Timestamp, end: &SendingEnd<Vp8OrAv1>) -> Json {
    let (status, counts, format) = (end.status(now), end.statistics(), end.format());
    object([
        ("target", status.target.as_bps().into()),
        ("limitedBy", status.limited_by.map(LimitedBy::name).into()),
        ("quantizer", status.quantizer.into()),
        ("roundTrip", status.round_trip_time.map(milliseconds).into()),
        ("frames", counts.frames.into()),
        ("framesLost", counts.frames_lost.into()),
        ("captured", end.captured().into()),
        ("width", format.width.into()),
        ("height", format.height.into()),
    ])
}

fn receiving(end: &ReceivingEnd<Vp8OrAv1>) -> Json {
    let counts = end.counts();
    object([
        ("frames", counts.decoded.into()),
        ("late", counts.late.into()),
        ("damaged", (counts.undecodable + counts.mismatched).into()),
        ("missing", end.missing().into()),
        ("jitter", milliseconds(end.jitter()).into()),
        ("width", end.format().map(|format| format.width).into()),
        ("height", end.format().map(|format| format.height).into()),
    ])
}

/// Statistics of a call. Times are in milliseconds, rates in bits per second.
pub(crate) fn statistics(now: Timestamp, client: &Client) -> Json {
    let (played, allowance) = (client.played(), client.allowance());
    let announced =
        client.receiving().iter().enumerate().filter(|(stream, end)| *stream == 0 || end.format().is_some());
    object([
        ("roundTrip", client.round_trip().map(milliseconds).into()),
        ("sending", client.sending().iter().map(|end| sending(now, end)).collect()),
        ("receiving", announced.map(|(_, end)| receiving(end)).collect()),
        (
            "sound",
            object([
                ("packets", played.playout.packets.into()),
                ("concealedShare", played.concealed_share().into()),
                ("delay", client.sound_delay().map(milliseconds).into()),
                ("bitrate", allowance.bitrate.as_bps().into()),
                ("loss", allowance.loss.into()),
            ]),
        ),
    ])
}
