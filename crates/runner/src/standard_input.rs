//! Inputs that may be standard input.

use std::path::Path;

/// What names it in the place of a file.
const STANDARD_INPUT: &str = "-";
/// What people are told of it.
pub const NAME: &str = "standard input";

/// Whether the input `path` is standard input.
pub fn is_standard_input(path: &Path) -> bool {
    path.as_os_str() == STANDARD_INPUT
}

/// What people are told of the input `path`.
pub fn input_name(path: &Path) -> String {
    if is_standard_input(path) { NAME.to_owned() } else { path.display().to_string() }
}
