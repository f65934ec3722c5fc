//! JSON documents of calls.

use serde::Serialize;

/// JSON of `value` for files, indented, with a final line break.
///
/// The command and the Python module write the same bytes.
///
/// # Errors
/// If `value` cannot be serialized.
pub fn document(value: &impl Serialize) -> serde_json::Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}
