//! Lines of JSON by which a process of a live call reports to its parent.

use serde::{Deserialize, Serialize};

use crate::live_stats::Sample;
use crate::output_file;

/// Report of a process on a line of JSON.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StatusLine {
    /// The receiver is ready for a call with this ticket.
    Ticket(String),
    /// Code with which a peer joins the same call.
    Code(String),
    /// Link with which a browser joins the same call.
    Link(String),
    /// Address of the page of `--monitor`.
    Monitor(String),
    /// Address of the metrics of `--metrics`.
    Metrics(String),
    /// Message for the user before the call starts.
    Notice(String),
    /// Whether the call waits for the other end, from which nothing arrives; on each change.
    Waiting(bool),
    /// The sender's state.
    Sending {
        /// The controller's target, bit/s.
        target_bps: u64,
        /// Quantizer of the last frame.
        quantizer: Option<u8>,
        /// Pictures captured so far.
        captured: u64,
    },
    /// State of one viewer of `send --viewers`.
    Viewer {
        /// Number of the viewer, from 1.
        viewer: u64,
        /// The controller's target, bit/s.
        target_bps: u64,
        /// Quantizer of the last frame.
        quantizer: Option<u8>,
        /// Frames sent so far.
        frames: u64,
    },
    /// A picture was shown.
    Showing {
        /// Frame number on the wire.
        frame: u32,
        /// Capture to display, milliseconds.
        delay_ms: f64,
    },
    /// Sample as for `--stats`, a few times per second.
    Stats(Box<Sample>),
}

/// Prints a line of JSON on standard output and flushes it. A closed reader does not stop the call.
pub fn print_status(line: &StatusLine) {
    if let Ok(text) = serde_json::to_string(line) {
        output_file::print(format_args!("{text}\n"));
    }
}
