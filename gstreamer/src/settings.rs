//! The properties of the elements, and the calls that they describe.

use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use gst::glib;
use gst::prelude::*;
use lockstep::{Bitrate, Call, CallBuilder, Identity, Ticket};

/// How much delay a call tolerates for a better picture.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, glib::Enum)]
#[enum_type(name = "GstLockstepLatency")]
pub enum Latency {
    /// For tele-operation and games.
    #[enum_value(name = "Low: as little delay as possible, for tele-operation", nick = "low")]
    Low,
    /// For conversations.
    #[default]
    #[enum_value(name = "Balanced: for conversations", nick = "balanced")]
    Balanced,
    /// For watching.
    #[enum_value(name = "Quality: more delay for a better picture", nick = "quality")]
    Quality,
}

impl From<Latency> for lockstep::Latency {
    fn from(latency: Latency) -> Self {
        match latency {
            Latency::Low => Self::Low,
            Latency::Balanced => Self::Balanced,
            Latency::Quality => Self::Quality,
        }
    }
}

/// The values of an element's properties.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The ticket to join with; for a listener its own ticket.
    pub ticket: Option<String>,
    /// The address to listen at.
    pub listen: Option<String>,
    /// The file of a listener's standing identity.
    pub key_file: Option<String>,
    /// Whether the call resumes by itself.
    pub reconnect: bool,
    /// The delay that the sender tolerates.
    pub latency: Latency,
    /// Maximum bit rate in bits per second; zero derives it from the pictures.
    pub max_bitrate: u32,
    /// The age of a stale picture in milliseconds; zero means never.
    pub stale_after: u32,
}

/// The property that both elements have.
fn common() -> Vec<glib::ParamSpec> {
    let text = |name, nick, blurb| glib::ParamSpecString::builder(name).nick(nick).blurb(blurb).mutable_ready().build();
    vec![
        text("ticket", "Ticket", "Ticket of the end that listens; with listen, this end's ticket"),
        text("listen", "Listen", "Address to listen at, such as 0.0.0.0:0"),
        text("key-file", "Key file", "File of a standing identity: the ticket of listen stays the same"),
        glib::ParamSpecBoolean::builder("reconnect")
            .nick("Reconnect")
            .blurb("Resume the call whenever it breaks; a listener requires key-file")
            .mutable_ready()
            .build(),
    ]
}

/// The properties of `lockstepsink`.
pub fn of_sink() -> &'static [glib::ParamSpec] {
    static PROPERTIES: OnceLock<Vec<glib::ParamSpec>> = OnceLock::new();
    PROPERTIES.get_or_init(|| {
        let mut properties = common();
        properties.push(
            glib::ParamSpecEnum::builder_with_default("latency", Latency::default())
                .nick("Latency")
                .blurb("Delay that the call tolerates for a better picture")
                .mutable_playing()
                .build(),
        );
        properties.push(
            glib::ParamSpecUInt::builder("max-bitrate")
                .nick("Maximum bit rate")
                .blurb("Cap of the bit rate in bits per second; 0 derives it from the pictures")
                .mutable_playing()
                .build(),
        );
        properties
    })
}

/// The properties of `lockstepsrc`.
pub fn of_source() -> &'static [glib::ParamSpec] {
    static PROPERTIES: OnceLock<Vec<glib::ParamSpec>> = OnceLock::new();
    PROPERTIES.get_or_init(|| {
        let mut properties = common();
        properties.push(
            glib::ParamSpecUInt::builder("stale-after")
                .nick("Stale after")
                .blurb("Age in milliseconds at which the newest picture is reported as stale; 0 means never")
                .mutable_ready()
                .build(),
        );
        properties
    })
}

impl Settings {
    /// Sets the property `name`; the type of `value` is that of its specification.
    pub fn set(&mut self, name: &str, value: &glib::Value) {
        match name {
            "ticket" => self.ticket = value.get().ok().flatten(),
            "listen" => self.listen = value.get().ok().flatten(),
            "key-file" => self.key_file = value.get().ok().flatten(),
            "reconnect" => self.reconnect = value.get().unwrap_or_default(),
            "latency" => self.latency = value.get().unwrap_or_default(),
            "max-bitrate" => self.max_bitrate = value.get().unwrap_or_default(),
            "stale-after" => self.stale_after = value.get().unwrap_or_default(),
            _ => {}
        }
    }

    /// The property of this specification.
    pub fn get(&self, property: &glib::ParamSpec) -> glib::Value {
        match property.name() {
            "ticket" => self.ticket.to_value(),
            "listen" => self.listen.to_value(),
            "key-file" => self.key_file.to_value(),
            "reconnect" => self.reconnect.to_value(),
            "latency" => self.latency.to_value(),
            "max-bitrate" => self.max_bitrate.to_value(),
            "stale-after" => self.stale_after.to_value(),
            _ => property.default_value().clone(),
        }
    }

    /// Maximum bit rate. None derives it from the pictures.
    pub fn bitrate_cap(&self) -> Option<Bitrate> {
        (self.max_bitrate > 0).then(|| Bitrate::from_bps(u64::from(self.max_bitrate)))
    }

    /// Starts the call; returns the ticket of a listener.
    ///
    /// # Errors
    /// If the properties do not describe a call, or the address cannot be bound.
    pub fn start(&self, mut builder: CallBuilder) -> Result<(Call, Option<Ticket>), String> {
        builder = builder.latency(self.latency.into());
        if let Some(cap) = self.bitrate_cap() {
            builder = builder.max_bitrate(cap);
        }
        if self.stale_after > 0 {
            builder = builder.stale_after(Duration::from_millis(u64::from(self.stale_after)));
        }
        if self.reconnect {
            builder = builder.reconnect();
        }
        match (&self.listen, &self.ticket) {
            (Some(address), _) => {
                let wrong = |reason: String| format!("cannot listen at {address:?}: {reason}");
                let socket = address.parse().map_err(|_| wrong("expected an address such as 0.0.0.0:0".to_owned()))?;
                let identity = match &self.key_file {
                    Some(file) => Identity::standing(Path::new(file)),
                    None if self.reconnect => {
                        return Err(wrong("reconnect requires a standing identity; set key-file".to_owned()));
                    }
                    None => Identity::new(),
                };
                let started = identity.and_then(|identity| builder.listen_as(identity, socket));
                let (call, ticket) = started.map_err(|error| wrong(error.to_string()))?;
                Ok((call, Some(ticket)))
            }
            (None, Some(ticket)) => {
                let ticket = ticket.parse().map_err(|error| format!("cannot read the property ticket: {error}"))?;
                builder.join(ticket).map(|call| (call, None)).map_err(|error| error.to_string())
            }
            (None, None) => Err("cannot start the call: set the property ticket or listen".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(settings: &Settings) -> String {
        settings.start(Call::builder().receive_frames()).expect_err("refused")
    }

    #[test]
    fn properties_without_a_call_are_refused() {
        assert_eq!(refusal(&Settings::default()), "cannot start the call: set the property ticket or listen");
        let ticket = refusal(&Settings { ticket: Some("nonsense".to_owned()), ..Settings::default() });
        assert!(ticket.starts_with("cannot read the property ticket: "), "{ticket}");
        let address = refusal(&Settings { listen: Some("here".to_owned()), ..Settings::default() });
        assert_eq!(address, "cannot listen at \"here\": expected an address such as 0.0.0.0:0");
    }

    #[test]
    fn listener_that_reconnects_requires_a_key_file() {
        let settings = Settings { listen: Some("127.0.0.1:0".to_owned()), reconnect: true, ..Settings::default() };
        assert!(refusal(&settings).ends_with("set key-file"));
    }

    #[test]
    fn every_property_keeps_its_value() {
        gst::init().expect("GStreamer starts");
        let mut settings = Settings::default();
        for property in of_sink().iter().chain(of_source()) {
            let value = match property.value_type() {
                glib::Type::STRING => Some("text").to_value(),
                glib::Type::BOOL => true.to_value(),
                glib::Type::U32 => 7_u32.to_value(),
                _ => Latency::Low.to_value(),
            };
            settings.set(property.name(), &value);
            assert_eq!(format!("{:?}", settings.get(property)), format!("{value:?}"), "{}", property.name());
        }
    }
}
