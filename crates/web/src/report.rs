//! Events and statistics as JSON, for JavaScript.

use std::time::Duration;

use lockstep_call::{ReceivingEnd, SendingEnd};
use lockstep_session::messages::Delivery;
use lockstep_session::{CallEvent, Ended, LiveError, TicketRefusal};
use lockstep_units::Timestamp;
use serde_json::{Value, json};

use crate::client::Client;

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
        | LiveError::TooManyPixels { .. }
        | LiveError::TooManyStreams { .. }
        | LiveError::StreamsRefused => "unsupported",
        _ => "other",
    }
}

/// An event as JSON, and the payload of a message.
pub(crate) fn event(event: CallEvent) -> (Value, Vec<u8>) {
    let value = match event {
        CallEvent::Joined => json!({"type": "joined"}),
        CallEvent::StreamAnnounced { stream, name } => {
            json!({"type": "stream", "stream": stream, "name": name.to_string()})
        }
        CallEvent::PathChanged(route) => json!({"type": "path", "route": route}),
        CallEvent::Interrupted => json!({"type": "interrupted"}),
        CallEvent::Resumed => json!({"type": "resumed"}),
        CallEvent::PeerChanged(presence) => {
            json!({"type": "presence", "muted": presence.muted, "cameraOff": presence.camera_off})
        }
        CallEvent::Stale { stream, age } => json!({"type": "stale", "stream": stream, "age": milliseconds(age)}),
        CallEvent::Fresh { stream } => json!({"type": "fresh", "stream": stream}),
        CallEvent::Message(message) => {
            let channel = match message.delivery {
                Delivery::Reliable => None,
                Delivery::Latest { channel } => Some(channel),
            };
            let value = json!({"type": "message", "channel": channel, "delay": milliseconds(message.delay)});
            return (value, message.payload);
        }
        CallEvent::Ended(ended) => {
            let by = if ended == Ended::ByPeer { "peer" } else { "self" };
            json!({"type": "ended", "by": by})
        }
        CallEvent::Failed(error) => json!({"type": "failed", "error": name(&error), "message": error.to_string()}),
        CallEvent::Warning(warning) => json!({"type": "warning", "message": warning.to_string()}),
        // Statistics hold the same values.
        _ => json!({"type": "quality"}),
    };
    (value, Vec::new())
}

fn sending(now: Timestamp, end: &SendingEnd) -> Value {
    let (status, counts, format) = (end.status(now), end.statistics(), end.format());
    json!({
        "target": status.target.as_bps(),
        "limitedBy": status.limited_by,
        "quantizer": status.quantizer,
        "roundTrip": status.round_trip_time.map(milliseconds),
        "frames": counts.frames,
        "framesLost": counts.frames_lost,
        "captured": end.captured(),
        "width": format.width,
        "height": format.height,
    })
}

fn receiving(end: &ReceivingEnd) -> Value {
    let counts = end.counts();
    json!({
        "frames": counts.decoded,
        "late": counts.late,
        "damaged": counts.undecodable + counts.mismatched,
        "missing": end.missing(),
        "jitter": milliseconds(end.jitter()),
        "width": end.format().map(|format| format.width),
        "height": end.format().map(|format| format.height),
    })
}

/// Statistics of a call. Times are in milliseconds, rates in bits per second.
pub(crate) fn statistics(now: Timestamp, client: &Client) -> Value {
    let (played, allowance) = (client.played(), client.allowance());
    let announced =
        client.receiving().iter().enumerate().filter(|(stream, end)| *stream == 0 || end.format().is_some());
    json!({
        "roundTrip": client.round_trip().map(milliseconds),
        "sending": client.sending().iter().map(|end| sending(now, end)).collect::<Vec<_>>(),
        "receiving": announced.map(|(_, end)| receiving(end)).collect::<Vec<_>>(),
        "sound": {
            "packets": played.playout.packets,
            "concealedShare": played.concealed_share(),
            "delay": client.sound_delay().map(milliseconds),
            "bitrate": allowance.bitrate.as_bps(),
            "loss": allowance.loss,
        },
    })
}
