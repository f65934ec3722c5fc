//! Rates, times and shares as people write them.

use std::time::Duration;

use crate::{Bitrate, excerpt};

/// The longest time that is read, and the longest trace before it repeats: 49 days, what 32 bits of milliseconds hold.
pub const MAXIMUM_PERIOD: Duration = Duration::from_secs(49 * 86_400);

/// The highest rate that is read, of a segment, and of the delivery opportunities of one millisecond: 1000 Gb/s.
pub const MAXIMUM_RATE: Bitrate = Bitrate::from_bps(1_000_000_000_000);

/// Why a text is no quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuantityError {
    /// Text where a number belongs.
    #[error("{field} \"{text}\" is not a number")]
    Number {
        /// What the number would have been.
        field: &'static str,
        /// What stands there.
        text: String,
    },
    /// A negative, infinite or too large number.
    #[error("{field} {text} is out of range, which is {range}")]
    Range {
        /// What the number is.
        field: &'static str,
        /// What stands there.
        text: String,
        /// What may stand there.
        range: &'static str,
    },
    /// A quantity with an unknown unit or none.
    #[error("{field} \"{text}\" needs a number and a unit such as {example}")]
    Unit {
        /// What the quantity is.
        field: &'static str,
        /// What stands there.
        text: String,
        /// A good one.
        example: &'static str,
    },
}

/// `value` times `scale` as the nearest whole number from 0 to `limit`, or none. Correctly rounded everywhere.
fn scaled(value: f64, scale: f64, limit: u64) -> Option<u64> {
    let whole = (value * scale).round();
    // -0.0 passes, a NaN does not.
    (whole >= 0.0 && whole <= limit as f64).then_some(whole as u64)
}

/// Splits `5.5kbit` into its number, which may be below zero, and its unit in lower case.
fn number_and_unit(text: &str) -> Option<(f64, String)> {
    let text = text.trim();
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let unit = unsigned.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let number = text[..text.len() - unit.len()].parse().ok()?;
    Some((number, unit.trim().to_ascii_lowercase()))
}

/// A rate such as `500kbps`, `1.5 Mbit/s` or `800kbit`: a plain decimal and one of bps, kbps, Mbps, Gbps (also written
/// bit, b/s or bit/s). Thousands are decimal, and all of these are bits: not bytes, as `kbps` is to Linux's `tc`.
///
/// # Errors
/// [`QuantityError::Unit`] if it cannot be read so, [`QuantityError::Range`] above [`MAXIMUM_RATE`].
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

/// `number` times `scale` bit/s; `text` is how it was written.
///
/// # Errors
/// [`QuantityError::Range`] above [`MAXIMUM_RATE`].
pub fn rate(number: f64, scale: f64, text: &str) -> Result<Bitrate, QuantityError> {
    scaled(number, scale, MAXIMUM_RATE.as_bps()).map(Bitrate::from_bps).ok_or_else(|| QuantityError::Range {
        field: "rate",
        text: excerpt(text),
        range: "0 to 1000 Gb/s",
    })
}

/// A time such as `10s`, `2.5ms`, `100us`, `2min`.
///
/// # Errors
/// [`QuantityError::Unit`] if it cannot be read so, [`QuantityError::Range`] above [`MAXIMUM_PERIOD`].
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

/// `number` times `scale` nanoseconds; `text` is how it was written.
///
/// # Errors
/// [`QuantityError::Range`] above [`MAXIMUM_PERIOD`].
pub fn time(field: &'static str, number: f64, scale: f64, text: &str) -> Result<Duration, QuantityError> {
    scaled(number, scale, MAXIMUM_PERIOD.as_nanos() as u64)
        .map(Duration::from_nanos)
        .ok_or_else(|| QuantityError::Range { field, text: excerpt(text), range: "0 to 49 days" })
}

/// A share such as `0.08%` or `0.0008`.
///
/// # Errors
/// [`QuantityError::Number`] if it cannot be read so, [`QuantityError::Range`] outside 0 to 1.
pub fn parse_share(text: &str) -> Result<f64, QuantityError> {
    let trimmed = text.trim();
    let (number, scale) = match trimmed.strip_suffix('%') {
        Some(number) => (number.trim_end(), 100.0),
        None => (trimmed, 1.0),
    };
    let number: f64 = number.parse().map_err(|_| QuantityError::Number { field: "loss", text: excerpt(text) })?;
    share(number / scale, text)
}

/// `number` if it is a share; `text` is how it was written.
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

/// Durations as milliseconds in configuration files, exact to the nanosecond.
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
    fn quantities_are_read_as_people_write_them() {
        for text in ["500kbps", "500 kbit/s", "0.5Mbps", "500kbit", "500000bps", "0.5 Mb/s", "500000 bit"] {
            assert_eq!(parse_rate(text), Ok(Bitrate::from_kbps(500)), "{text}");
        }
        for text in ["1.5s", "1500ms", "1500000us", "0.025min"] {
            assert_eq!(parse_time(text), Ok(Duration::from_millis(1500)), "{text}");
        }
        assert_eq!(parse_share("0.08%"), parse_share("0.0008"));
    }

    #[test]
    fn what_is_below_zero_is_told_the_range() {
        for problem in [parse_time("-1s").map(drop), parse_rate("-5kbps").map(drop), parse_share("-1%").map(drop)] {
            assert!(matches!(problem, Err(QuantityError::Range { .. })), "{problem:?}");
        }
        for text in ["-", "--1s", "-s"] {
            assert!(matches!(parse_time(text), Err(QuantityError::Unit { .. })), "{text}");
        }
    }

    #[test]
    fn quantities_without_sense_are_refused() {
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
        fn no_text_makes_a_quantity_panic(text in "\\PC{0,20}") {
            let _ = (parse_rate(&text), parse_time(&text), parse_share(&text));
        }
    }
}
