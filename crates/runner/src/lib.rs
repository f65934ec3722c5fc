//! Runs a call for a command, simulated or live, and writes its results.
//!
//! `simulate` and [`call`] run one call each. Commands share the rest: [`progress`] and [`interruption`] while something
//! runs, [`output_file`], [`parquet_table`] and [`session_log`] for its results.
#![forbid(unsafe_code)]
// `println!` panics if the reader of standard output is gone.
#![deny(clippy::print_stdout, clippy::print_stderr)]

/// Prints a line for the user, see [`output_file::print_line`].
#[macro_export]
macro_rules! print_line {
    ($($text:tt)*) => {
        $crate::output_file::print_line(format_args!($($text)*))
    };
}

/// Prints a line for the user on standard error, see [`output_file::eprint_line`].
#[macro_export]
macro_rules! eprint_line {
    ($($text:tt)*) => {
        $crate::output_file::eprint_line(format_args!($($text)*))
    };
}

pub mod call;
pub mod call_logs;
pub mod interruption;
pub mod line_writer;
pub mod live_stats;
pub mod output_file;
pub mod parquet_table;
pub mod progress;
pub mod session_log;
#[cfg(feature = "simulation")]
mod simulate;
pub mod standard_input;
pub mod status_line;

#[cfg(feature = "simulation")]
pub use simulate::{simulate, simulate_room};
