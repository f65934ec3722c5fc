//! The commands, one file each.

pub mod barcode;
pub mod bench;
pub mod call;
pub mod codec;
pub mod compare;
pub mod completions;
pub mod data;
pub mod emulate;
pub mod live;
pub mod live_sound;
pub mod model;
pub mod output;
pub mod python_module;
pub mod rendezvous;
pub mod scenario;
pub mod sessions;
pub mod simulate;
pub mod study;
pub mod sweep;
pub mod talk;
pub mod testbed;
pub mod trace;
pub mod train;
#[cfg(target_os = "linux")]
pub mod tunnel;

use lockstep_control::Algorithm;

/// `lockstep controllers`.
pub fn controllers() {
    let widest = Algorithm::NAMES.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, meaning) in Algorithm::NAMES {
        say!("{name:widest$}   {meaning}");
    }
}

/// A number with so many digits after the point; a dash where there is none.
fn figure(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}
