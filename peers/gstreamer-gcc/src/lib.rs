//! Empty: `cargo build --package gst-plugin-rtp` builds the dependency itself.
