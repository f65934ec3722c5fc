//! Parses rates, times and fractions as people write them.

use std::time::Duration;

use crate::{Bitrate, excerpt};

/// Longest time that is parsed, and longest period of a trace: 49 days, the range of 32 bits of milliseconds.
pub const MAX_PERIOD: Duration = Duration::from_secs(49 * 86_400);

/// Largest rate that is parsed, of a segment, and of the delivery opportunities in one millisecond: 1000 Gb/s.
pub const MAX_RATE: Bitrate = Bitrate::from_bps(1_000_000_000_000);

/// Why a text is not a quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuantityError {
    /// The text is not a number.
    #[error("{field} \"{text}\" is not a number")]
    Number {
        /// Kind of the quantity.
        field: &'static str,
        /// The text, shortened.
        text: String,
    },
    /// The number is negative, infinite or too large.
    #[error("{field} {text} is out of range, which is {range}")]
    Range {
        /// Kind of the quantity.
        field: &'static str,
        /// The text, shortened.
        text: String,
        /// Range of valid values.
        range: &'static str,
    },
    /// The unit is unknown or missing.
    #[error("{field} \"{text}\" needs a number and a unit such as {example}")]
    Unit {
        /// Kind of the quantity.
        field: &'static str,
        /// The text, shortened.
        text: String,
        /// A valid example.
        example: &'static str,
    },
}

/// `value * scale`, rounded to an integer from 0 to `limit`; `None` outside this range. The rounding is exact.
fn scaled(value: f64, scale: f64, limit: u64) -> Option<u64> {
    let whole = (value * scale).round();
    // -0.0 passes, NaN does not.
    (whole >= 0.0 && whole <= limit as f64).then_some(whole as u64)
}

/// Splits a text such as `5.5kbit` into its number, which may be negative, and its unit in lower case.
fn number_and_unit(text: &str) -> Option<(f64, String)> {
    let text = text.trim();
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let unit = unsigned.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let number = text[..text.len() - unit.len()].parse().ok()?;
    Some((number, unit.trim().to_ascii_lowercase()))
}

/// Parses a rate such as `500kbps`, `1.5 Mbit/s` or `800kbit`.
///
/// The number is a plain decimal. The unit is bps, kbps, Mbps or Gbps, also written bit, b/s or bit/s. Prefixes are
/// decimal. All units are bits; in Linux's `tc`, `kbps` means bytes.
///
/// # Errors
/// [`QuantityError::Unit`] if the text cannot be parsed, [`QuantityError::Range`] above [`MAX_RATE`].
pub fn parse_rate(text: &str) -> Result<Bitrate, QuantityError> {
    let unit = || QuantityError::Unit { field: "rate", text: excerpt(text), example: "500kbps" };
    let (number, name) = number_and_unit(text).ok_or_else(unit)?;
    let name = name.strip_suffix("/s").or(name.strip_suffix("ps")).unwrap_or(&name);
    let scale = match name.strip_suffix("bit").or(name.strip_suffix('b')) {
        Some("") => 1.0,
        Some("k") => 1e3,
        Some("m") => 1e6,
        Some("g") => 1e9,
        _ => return Err(unit()),
    };
    rate(number, scale, text)
}

/// A rate of `number * scale` bit/s, written as `text`.
///
/// # Errors
/// [`QuantityError::Range`] above [`MAX_RATE`].
pub fn rate(number: f64, scale: f64, text: &str) -> Result<Bitrate, QuantityError> {
    scaled(number, scale, MAX_RATE.as_bps()).map(Bitrate::from_bps).ok_or_else(|| QuantityError::Range {
        field: "rate",
        text: excerpt(text),
        range: "0 to 1000 Gb/s",
    })
}

/// Parses a time such as `10s`, `2.5ms`, `100us` or `2min`.
///
/// # Errors
/// [`QuantityError::Unit`] if the text cannot be parsed, [`QuantityError::Range`] above [`MAX_PERIOD`].
pub fn parse_time(text: &str) -> Result<Duration, QuantityError> {
    let unit = || QuantityError::Unit { field: "time", text: excerpt(text), example: "10s" };
    let (number, name) = number_and_unit(text).ok_or_else(unit)?;
    let scale = match name.as_str() {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" | "sec" => 1e9,
        "min" => 60e9,
        _ => return Err(unit()),
    };
    time("time", number, scale, text)
}

/// A time of `number * scale` nanoseconds, written as `text`.
///
/// # Errors
/// [`QuantityError::Range`] above [`MAX_PERIOD`].
pub fn time(field: &'static str, number: f64, scale: f64, text: &str) -> Result<Duration, QuantityError> {
    scaled(number, scale, MAX_PERIOD.as_nanos() as u64).map(Duration::from_nanos).ok_or_else(|| QuantityError::Range {
        field,
        text: excerpt(text),
        range: "0 to 49 days",
    })
}

/// Parses a fraction such as `0.08%` or `0.0008`.
///
/// # Errors
/// [`QuantityError::Number`] if the text cannot be parsed, [`QuantityError::Range`] outside 0 to 1.
pub fn parse_share(text: &str) -> Result<f64, QuantityError> {
    let trimmed = text.trim();
    let (number, scale) = match trimmed.strip_suffix('%') {
        Some(number) => (number.trim_end(), 100.0),
        None => (trimmed, 1.0),
    };
    let number: f64 = number.parse().map_err(|_| QuantityError::Number { field: "loss", text: excerpt(text) })?;
    share(number / scale, text)
}

/// Checks that `number`, written as `text`, is a fraction.
///
/// # Errors
/// [`QuantityError::Range`] outside 0 to 1.
pub fn share(number: f64, text: &str) -> Result<f64, QuantityError> {
    if (0.0..=1.0).contains(&number) {
        Ok(number)
    } else {
        Err(QuantityError::Range { field: "loss", text: excerpt(text), range: "0 to 1, or 0% to 100%" })
    }
}

/// Serializes durations as milliseconds in configuration files, exact to the nanosecond.
pub mod milliseconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    /// # Errors
    /// Those of `serializer`.
    pub fn serialize<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(time.as_nanos() as f64 / 1e6)
    }

    /// # Errors
    /// Those of `deserializer`, and a time out of range.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        let number = f64::deserialize(deserializer)?;
        super::time("time", number, 1e6, &number.to_string()).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn common_notations_are_parsed() {
        for text in ["500kbps", "500 kbit/s", "0.5Mbps", "500kbit", "500000bps", "0.5 Mb/s", "500000 bit"] {
            assert_eq!(parse_rate(text), Ok(Bitrate::from_kbps(500)), "{text}");
        }
        for text in ["1.5s", "1500ms", "1500000us", "0.025min"] {
            assert_eq!(parse_time(text), Ok(Duration::from_millis(1500)), "{text}");
        }
        assert_eq!(parse_share("0.08%"), parse_share("0.0008"));
    }

    #[test]
    fn negative_quantities_have_an_error_with_the_range() {
        for problem in [parse_time("-1s").map(drop), parse_rate("-5kbps").map(drop), parse_share("-1%").map(drop)] {
            assert!(matches!(problem, Err(QuantityError::Range { .. })), "{problem:?}");
        }
        for text in ["-", "--1s", "-s"] {
            assert!(matches!(parse_time(text), Err(QuantityError::Unit { .. })), "{text}");
        }
    }

    #[test]
    fn invalid_quantities_are_refused() {
        for text in ["", "500", "kbps", "-5kbps", "5kBps!", "1e9kbps", "NaNkbps", "1001Gbps", "5\u{e9}"] {
            assert!(parse_rate(text).is_err(), "{text}");
        }
        for text in ["", "5", "-1s", "inf s", "5000000min"] {
            assert!(parse_time(text).is_err(), "{text}");
        }
        for text in ["", "%", "101%", "-0.1", "NaN", "1.1"] {
            assert!(parse_share(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(text in "\\PC{0,20}") {
            let _ = (parse_rate(&text), parse_time(&text), parse_share(&text));
        }
    }
}
