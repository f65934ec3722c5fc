//! Inputs that may be standard input.

use std::path::Path;

/// Name of standard input instead of a file.
const STANDARD_INPUT: &str = "-";
/// Name of standard input in messages.
pub const NAME: &str = "standard input";

/// Whether the input `path` is standard input.
pub fn is_standard_input(path: &Path) -> bool {
    path.as_os_str() == STANDARD_INPUT
}

/// Name of the input `path` in messages.
pub fn input_name(path: &Path) -> String {
    if is_standard_input(path) { NAME.to_owned() } else { path.display().to_string() }
}
