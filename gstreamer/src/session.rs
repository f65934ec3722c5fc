//! The call of an element while its pipeline runs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread::{self, JoinHandle};

use gst::glib;
use gst::glib::subclass::Signal;
use gst::prelude::*;
use lockstep::{Call, CallBuilder, Event};

use crate::messages;
use crate::settings::Settings;

/// The debug category of both elements.
pub static CATEGORY: LazyLock<gst::DebugCategory> =
    LazyLock::new(|| gst::DebugCategory::new("lockstep", gst::DebugColorFlags::empty(), Some("Lockstep calls")));

/// A running call, whose events go to the bus.
#[derive(Debug)]
pub struct Session {
    call: Arc<Call>,
    is_over: Arc<AtomicBool>,
    events: JoinHandle<()>,
}

impl Session {
    /// Starts the call of `element`; returns the ticket of a listener.
    ///
    /// # Errors
    /// If the settings do not describe a call, or the system refuses an address or a thread.
    pub fn start(
        element: &gst::Element,
        settings: &Settings,
        builder: CallBuilder,
    ) -> Result<(Self, Option<String>), String> {
        let (call, ticket) = settings.start(builder)?;
        let call = Arc::new(call);
        let is_over = Arc::<AtomicBool>::default();
        let (weak, source, over) = (element.downgrade(), Arc::clone(&call), Arc::clone(&is_over));
        let events = thread::Builder::new()
            .name("lockstep events".to_owned())
            .spawn(move || {
                for event in source.events() {
                    if let Some(element) = weak.upgrade() {
                        report(&element, &event);
                    }
                }
                over.store(true, Ordering::Release);
            })
            .map_err(|error| format!("cannot start the thread of events: {error}"))?;
        Ok((Self { call, is_over, events }, ticket.map(|ticket| ticket.to_string())))
    }

    /// The call.
    pub fn call(&self) -> &Arc<Call> {
        &self.call
    }

    /// Whether the call has ended; the flag outlives the session.
    pub fn is_over(&self) -> &Arc<AtomicBool> {
        &self.is_over
    }

    /// Ends the call, and waits until the other end knows.
    pub fn stop(self) {
        self.call.end();
        let _ = self.events.join();
    }
}

/// Posts an event on the bus.
fn report(element: &gst::Element, event: &Event) {
    if let Some(structure) = messages::of_event(event) {
        post(element, structure);
    }
    if let Event::Failed(error) = event {
        gst::element_error!(element, gst::ResourceError::Failed, ("{error}"));
    }
}

/// Posts an element message.
pub fn post(element: &gst::Element, structure: gst::Structure) {
    let message = gst::message::Element::builder(structure).src(element).build();
    if element.post_message(message).is_err() {
        gst::debug!(CATEGORY, obj = element, "no bus takes the message");
    }
}

/// The action signal `send-message`: payload and channel; -1 is the reliable channel. It returns whether the message waits
/// to leave. `call_of` gives the call of the element.
pub fn send_message(call_of: fn(&glib::Object) -> Option<Arc<Call>>) -> Signal {
    Signal::builder("send-message")
        .action()
        .param_types([glib::Bytes::static_type(), i32::static_type()])
        .return_type::<bool>()
        .class_handler(move |arguments| {
            let [element, payload, channel] = arguments else { return Some(false.to_value()) };
            let element = element.get::<glib::Object>().ok()?;
            let sent = send(call_of(&element), payload.get().ok(), channel.get().unwrap_or(i32::MIN));
            if let Err(reason) = &sent {
                gst::warning!(CATEGORY, obj = element, "{reason}");
            }
            Some(sent.is_ok().to_value())
        })
        .build()
}

fn send(call: Option<Arc<Call>>, payload: Option<glib::Bytes>, channel: i32) -> Result<(), String> {
    let call = call.ok_or("cannot send message: the call has not started")?;
    let payload = payload.ok_or("cannot send message: it has no payload")?;
    let message = messages::message(&payload, channel);
    let message = message.ok_or_else(|| format!("cannot send message: channel {channel} is outside -1 to 255"))?;
    call.send_message(message).map_err(|error| error.to_string())
}
