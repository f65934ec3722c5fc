//! Names of a call's video streams.

use std::fmt;
use std::ops::Deref;
use std::str::FromStr;
use std::sync::Arc;

use thiserror::Error;

/// Most video streams that one end of a call sends.
pub const MAX_STREAMS: usize = 8;
/// Longest name of a stream in bytes.
pub const MAX_NAME_BYTES: usize = 32;

/// Name of a video stream: up to 32 letters, digits, `-` and `_`, so that it can be part of a file name. The only
/// stream of a call has an empty one.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamName(Arc<str>);

/// The text is not a valid stream name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("stream name {0:?}: expected 1 to 32 letters, digits, - and _")]
pub struct StreamNameError(String);

impl FromStr for StreamName {
    type Err = StreamNameError;

    fn from_str(text: &str) -> Result<Self, StreamNameError> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if (1..=MAX_NAME_BYTES).contains(&text.len()) && text.bytes().all(is_allowed) {
            Ok(Self(text.into()))
        } else {
            Err(StreamNameError(text.chars().take(MAX_NAME_BYTES + 1).collect()))
        }
    }
}

impl Deref for StreamName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for StreamName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_cannot_be_part_of_a_file_name_are_refused() {
        for name in ["front", "rear-2", "Arm_3", "0"] {
            assert_eq!(name.parse::<StreamName>().as_deref(), Ok(name));
        }
        for name in ["", "../x", "a b", "vorn\u{e4}", "a.b", &"x".repeat(33)] {
            assert!(name.parse::<StreamName>().is_err(), "{name}");
        }
    }
}
