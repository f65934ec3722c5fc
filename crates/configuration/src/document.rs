//! The documents that calls leave.

use serde::Serialize;

/// `value` as the JSON of a file that is for programs and for people: indented, with a line break at its end. The
/// command and the Python module write the same bytes.
///
/// # Errors
/// If `value` has no JSON.
pub fn document(value: &impl Serialize) -> serde_json::Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}
