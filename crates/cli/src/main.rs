//! The `lockstep` command.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use lockstep_control::Controllers;
use mimalloc::MiMalloc;

/// Calls in virtual time allocate and free small pieces of memory often.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    lockstep_cli::run(std::env::args_os(), &Controllers::default())
}
