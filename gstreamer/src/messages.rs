//! Messages on the bus: element messages whose structure is `lockstep-event`, with the field `type`.

use gst::glib;
use lockstep::{Delivery, Event, Message, Quality, Route};

/// The name of the structure.
pub const NAME: &str = "lockstep-event";
/// Channel number of reliable messages, in the field `channel` and in the signal `send-message`.
pub const RELIABLE: i32 = -1;

fn nanoseconds(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A structure of this type without other fields.
fn of(kind: &str) -> gst::structure::Builder {
    gst::Structure::builder(NAME).field("type", kind)
}

/// The structure of a listener's ticket.
pub fn of_ticket(ticket: &str) -> gst::Structure {
    of("ticket").field("ticket", ticket).build()
}

/// The structure of an event; none for events that this version does not know.
pub fn of_event(event: &Event) -> Option<gst::Structure> {
    Some(match event {
        Event::Warning(warning) => of("warning").field("text", warning.to_string()).build(),
        Event::Joined => of("joined").build(),
        Event::PathChanged(way) => {
            let way = match way {
                Route::Direct => "direct",
                Route::Relayed => "relayed",
            };
            of("path-changed").field("path", way).build()
        }
        Event::Interrupted => of("interrupted").build(),
        Event::Resumed => of("resumed").build(),
        Event::PeerChanged(presence) => {
            let of = of("peer-changed").field("muted", presence.muted).field("camera-off", presence.camera_off);
            of.field("recording", presence.recording).build()
        }
        Event::Quality(quality) => of_quality(quality),
        Event::Stale { age, .. } => of("stale").field("age", nanoseconds(*age)).build(),
        Event::Fresh { .. } => of("fresh").build(),
        Event::Message(message) => {
            let channel = match message.delivery {
                Delivery::Reliable => RELIABLE,
                Delivery::Latest { channel } => i32::from(channel),
            };
            let payload = glib::Bytes::from(&message.payload[..]);
            let delay = nanoseconds(message.delay);
            of("message").field("payload", payload).field("channel", channel).field("delay", delay).build()
        }
        Event::Ended(ended) => of("ended").field("reason", format!("{ended:?}")).build(),
        Event::Failed(error) => of("failed").field("reason", error.to_string()).build(),
        _ => return None,
    })
}

/// Times are nanoseconds, as everywhere in GStreamer; bit rates are bits per second. An unknown value has no field.
fn of_quality(quality: &Quality) -> gst::Structure {
    let mut structure = of("quality");
    if let Some(sending) = &quality.sending {
        structure = structure
            .field("target-bitrate", sending.target.as_bps())
            .field("frames-sent", sending.frames)
            .field_if_some("limited-by", sending.limited_by.map(lockstep::LimitedBy::name))
            .field_if_some("round-trip", sending.round_trip.map(nanoseconds));
    }
    if let Some(receiving) = &quality.receiving {
        structure = structure
            .field("frames-received", receiving.frames)
            .field("packets-missing", receiving.missing)
            .field("jitter", nanoseconds(receiving.jitter))
            .field_if_some("age", receiving.age.map(nanoseconds));
    }
    structure.build()
}

/// The message of the signal `send-message`; none for a channel outside -1 to 255.
pub fn message(payload: &[u8], channel: i32) -> Option<Message> {
    if channel == RELIABLE {
        return Some(Message::reliable(payload));
    }
    Some(Message::latest(u8::try_from(channel).ok()?, payload))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lockstep::{Bitrate, ReceivedMessage, SendingQuality, Timestamp};

    use super::*;

    #[test]
    fn message_keeps_payload_channel_and_delay() {
        gst::init().expect("GStreamer starts");
        let received = |delivery| ReceivedMessage {
            delivery,
            payload: vec![0, 255],
            sent_at: Timestamp::ZERO,
            delay: Duration::from_millis(20),
        };
        for (delivery, channel) in [(Delivery::Reliable, -1), (Delivery::Latest { channel: 3 }, 3)] {
            let structure = of_event(&Event::Message(received(delivery))).expect("known");
            assert_eq!(structure.get::<&str>("type"), Ok("message"));
            assert_eq!(structure.get::<glib::Bytes>("payload").expect("bytes").as_ref(), [0, 255]);
            assert_eq!(structure.get::<i32>("channel"), Ok(channel));
            assert_eq!(structure.get::<u64>("delay"), Ok(20_000_000));
            assert_eq!(message(&[0, 255], channel).expect("a channel").delivery, delivery);
        }
        assert_eq!(message(&[], 256), None);
        assert_eq!(message(&[], -2), None);
    }

    #[test]
    fn unknown_values_of_quality_have_no_field() {
        gst::init().expect("GStreamer starts");
        let sending = SendingQuality { target: Bitrate::from_kbps(500), limited_by: None, round_trip: None, frames: 4 };
        let structure =
            of_event(&Event::Quality(Quality { sending: Some(sending), ..Quality::default() })).expect("known");
        assert_eq!(structure.get::<u64>("target-bitrate"), Ok(500_000));
        assert_eq!(structure.get::<u64>("frames-sent"), Ok(4));
        assert!(!structure.has_field("round-trip") && !structure.has_field("age"));
    }
}
