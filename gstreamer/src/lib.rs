//! GStreamer elements that send and receive Lockstep calls: [`lockstepsink`](sink) and [`lockstepsrc`](source).
//!
//! Each element is a bin around `appsink` or `appsrc`, which have clock synchronisation, preroll and the end of a stream.
//! A [`session::Session`] is the call of an element; it posts the call's events as messages on the bus.
#![deny(unsafe_code)]

mod messages;
mod pictures;
mod session;
mod settings;
mod sink;
mod sound;
mod source;

use gst::glib;

fn plugin_init(plugin: &gst::Plugin) -> Result<(), glib::BoolError> {
    sink::register(plugin)?;
    source::register(plugin)
}

gst::plugin_define!(
    lockstep,
    "Live video calls of Lockstep",
    plugin_init,
    env!("CARGO_PKG_VERSION"),
    "MIT/X11",
    "lockstep",
    "lockstep",
    "lockstep"
);
