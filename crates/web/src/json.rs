//! JSON for JavaScript: a value that is written and never read.
//!
//! serde_json, which also reads, takes 6 % of the module (lab: 2026-11-browser).

use std::fmt;

/// A JSON value.
pub(crate) enum Json {
    Null,
    Bool(bool),
    /// NaN and infinity become `null`.
    Number(f64),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(&'static str, Json)>),
}

/// An object from names and values, in this order.
pub(crate) fn object<const N: usize>(members: [(&'static str, Json); N]) -> Json {
    Json::Object(members.into())
}

impl From<bool> for Json {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<f64> for Json {
    fn from(value: f64) -> Self {
        Self::Number(value)
    }
}

impl From<u64> for Json {
    fn from(value: u64) -> Self {
        Self::Number(value as f64)
    }
}

impl From<u16> for Json {
    fn from(value: u16) -> Self {
        Self::Number(value.into())
    }
}

impl From<u8> for Json {
    fn from(value: u8) -> Self {
        Self::Number(value.into())
    }
}

impl From<&str> for Json {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for Json {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl<T: Into<Json>> From<Option<T>> for Json {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl<T: Into<Json>> FromIterator<T> for Json {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Self::List(values.into_iter().map(Into::into).collect())
    }
}

impl fmt::Display for Json {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => write!(out, "{value}"),
            Self::Number(value) if value.is_finite() => write!(out, "{value}"),
            Self::Null | Self::Number(_) => out.write_str("null"),
            Self::Text(text) => write_text(text, out),
            Self::List(values) => {
                for (index, value) in values.iter().enumerate() {
                    write!(out, "{}{value}", if index == 0 { '[' } else { ',' })?;
                }
                out.write_str(if values.is_empty() { "[]" } else { "]" })
            }
            Self::Object(members) => {
                for (index, (name, value)) in members.iter().enumerate() {
                    out.write_str(if index == 0 { "{" } else { "," })?;
                    write_text(name, out)?;
                    write!(out, ":{value}")?;
                }
                out.write_str(if members.is_empty() { "{}" } else { "}" })
            }
        }
    }
}

fn write_text(text: &str, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    out.write_str("\"")?;
    for letter in text.chars() {
        match letter {
            '"' | '\\' => write!(out, "\\{letter}")?,
            '\0'..' ' => write!(out, "\\u{:04x}", letter as u32)?,
            _ => write!(out, "{letter}")?,
        }
    }
    out.write_str("\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn written_values_are_read_by_another_parser() {
        let text = (0..0x300).filter_map(char::from_u32).collect::<String>() + "\u{1f600}\u{2028}";
        let written = object([
            ("text", text.clone().into()),
            ("numbers", [0.0, -1.5, 1e-9, 1e22, f64::NAN, f64::INFINITY].into_iter().collect()),
            ("count", 9_007_199_254_740_991u64.into()),
            ("none", None::<u64>.into()),
            ("nothing", Json::List(Vec::new())),
            ("empty", object([])),
            ("yes", true.into()),
        ]);
        let read: Value = serde_json::from_str(&written.to_string()).expect("JSON");
        assert_eq!(read["text"], json!(text));
        for (place, number) in [0.0, -1.5, 1e-9, 1e22].into_iter().enumerate() {
            assert_eq!(read["numbers"][place].as_f64(), Some(number));
        }
        assert_eq!(
            (&read["numbers"][4], &read["numbers"][5], &read["none"]),
            (&Value::Null, &Value::Null, &Value::Null)
        );
        assert_eq!(read["count"], json!(9_007_199_254_740_991u64));
        assert_eq!((&read["nothing"], &read["empty"], &read["yes"]), (&json!([]), &json!({}), &json!(true)));
    }
}
