//! The lines of JSON by which a process of a live call reports to the one that started it.

use serde::{Deserialize, Serialize};

use crate::live_stats::Sample;
use crate::output_file;

/// What a process says of itself on a line of JSON.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StatusLine {
    /// The receiver is ready for a call, and this is its ticket.
    Ticket(String),
    /// The page of `--monitor` is there.
    Monitor(String),
    /// What `--metrics` serves is there.
    Metrics(String),
    /// Something about the call that a person should know before it begins.
    Notice(String),
    /// The sender's state.
    Sending {
        /// The controller's target, bit/s.
        target_bps: u64,
        /// Quantizer of the last frame.
        quantizer: Option<u8>,
        /// Pictures captured so far.
        captured: u64,
    },
    /// A picture was shown.
    Showing {
        /// Frame number on the wire.
        frame: u32,
        /// Capture to display, milliseconds.
        delay_ms: f64,
    },
    /// What `--stats` says, a few times a second.
    Stats(Box<Sample>),
}

/// Prints a line of JSON at once, on standard output; a reader that went away is no reason to stop a call.
pub fn say(line: &StatusLine) {
    if let Ok(text) = serde_json::to_string(line) {
        output_file::print(format_args!("{text}\n"));
    }
}
