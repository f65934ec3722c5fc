//! The commands, one file each.

pub mod barcode;
pub mod bench;
pub mod call;
pub mod codec;
pub mod compare;
pub mod completions;
pub mod controllers;
pub mod data;
pub mod emulate;
pub mod live;
pub mod live_sound;
pub mod model;
pub mod output;
pub mod program_arguments;
pub mod python_module;
pub mod rendezvous;
pub mod replay;
pub mod scenario;
pub mod serving;
pub mod sessions;
pub mod simulate;
pub mod sources;
pub mod study;
pub mod sweep;
pub mod talk;
pub mod testbed;
pub mod trace;
pub mod train;
#[cfg(target_os = "linux")]
pub mod tunnel;

use std::num::NonZero;

/// The most that runs at once, each in a thread of its own: systems have room for some ten thousand threads.
const MOST_WORKERS: usize = 1_024;

/// How many run at once.
fn workers(text: &str) -> Result<NonZero<usize>, String> {
    let workers = text.parse().ok().filter(|workers: &NonZero<usize>| workers.get() <= MOST_WORKERS);
    workers.ok_or_else(|| format!("`{text}` is no whole number from 1 to {MOST_WORKERS}"))
}

/// A number with so many digits after the point; a dash where there is none.
fn figure(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}
