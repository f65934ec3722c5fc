//! Types of option values, with their parsers for words and JSON values, and their formatting.

use std::num::NonZero;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use lockstep_link::{GilbertElliott, LossInterval, Reordering};
use lockstep_units::quantity::{parse_share, parse_time};

use super::choices::{CodecKind, QueueKind};
use super::option_value::{Form, OptionValue};
use crate::MaxBitrate;

/// `value` as a number.
fn number(value: &Value) -> Result<f64, String> {
    value.as_f64().ok_or_else(|| format!("{value} is not a number"))
}

/// Values of a list of two.
fn pair(value: &Value) -> Result<(&Value, &Value), String> {
    match value.as_array().map(Vec::as_slice) {
        Some([first, second]) => Ok((first, second)),
        _ => Err(format!("{value} is not a list of two values")),
    }
}

/// Exact decimal of `value` without an exponent.
fn plain(value: f64) -> String {
    value.to_string()
}

/// Number of `unit`s, in nanoseconds, that is nearest to `time`.
fn in_units(time: Duration, unit: f64) -> f64 {
    time.as_nanos() as f64 / unit
}

impl OptionValue for bool {
    const FORM: Form = Form::Flag;

    fn from_word(word: &str) -> Result<Self, String> {
        word.parse().map_err(|_| format!("`{word}` is neither true nor false"))
    }

    fn from_value(value: &Value) -> Result<Self, String> {
        value.as_bool().ok_or_else(|| format!("{value} is neither true nor false"))
    }

    fn to_value(&self) -> Value {
        Value::Bool(*self)
    }

    fn to_words(&self) -> Vec<String> {
        if *self { vec![self.to_word()] } else { Vec::new() }
    }
}

/// Parses a whole number from `least` to `most`.
fn whole(text: &str, least: u64, most: u64) -> Result<u64, String> {
    match text.parse() {
        Ok(value) if (least..=most).contains(&value) => Ok(value),
        Ok(value) if most == u64::MAX => Err(format!("{value} is not in {least}..")),
        Ok(value) => Err(format!("{value} is not in {least}..={most}")),
        Err(_) => Err(format!("`{text}` is not a whole number of at least {least}")),
    }
}

/// Maximum number of codings of a picture to fit its budget, 1 to 8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passes(u8);

impl Passes {
    const MAX_PASSES: u8 = 8;

    /// `passes`, or the nearest number in the range.
    #[must_use]
    pub const fn of(passes: u8) -> Self {
        match passes {
            0 => Self(1),
            1..=Self::MAX_PASSES => Self(passes),
            _ => Self(Self::MAX_PASSES),
        }
    }

    /// As a number.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }
}

macro_rules! whole_numbers {
    ($($type:ty: $least:expr, $most:expr, |$value:ident| $make:expr, |$number:ident| $get:expr;)*) => {$(
        impl OptionValue for $type {
            fn from_word(word: &str) -> Result<Self, String> {
                let $value = whole(word, $least, $most)?;
                $make
            }

            fn from_value(value: &Value) -> Result<Self, String> {
                Self::from_word(&value.to_string())
            }

            fn to_value(&self) -> Value {
                let $number = self;
                Value::from($get)
            }
        }
    )*};
}

/// Error for a number that its type cannot hold although its range was checked.
const OUT_OF_RANGE: &str = "it is out of range";

whole_numbers! {
    u64: 0, u64::MAX, |value| Ok(value), |number| *number;
    Passes: 1, u64::from(Passes::MAX_PASSES),
        |value| Ok(Self::of(u8::try_from(value).map_err(|_| OUT_OF_RANGE)?)), |number| number.0;
    NonZero<u32>: 1, u64::from(u32::MAX),
        |value| Ok(u32::try_from(value).ok().and_then(Self::new).ok_or(OUT_OF_RANGE)?), |number| number.get();
    NonZero<u64>: 1, u64::MAX, |value| Ok(Self::new(value).ok_or(OUT_OF_RANGE)?), |number| number.get();
}

/// Time of up to one minute, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Milliseconds(Duration);

impl Milliseconds {
    const RANGE: &str = "between 0 and 60000 ms";

    /// `milliseconds`, at most one minute.
    #[must_use]
    pub const fn whole(milliseconds: u16) -> Self {
        Self(Duration::from_millis(if milliseconds < 60_000 { milliseconds as u64 } else { 60_000 }))
    }

    /// This time.
    ///
    /// # Errors
    /// If it is longer than a minute.
    pub fn new(time: Duration) -> Result<Self, String> {
        Self::of(in_units(time, 1e6)).map(|_| Self(time))
    }

    /// Time of `milliseconds`.
    fn of(milliseconds: f64) -> Result<Self, String> {
        if (0.0..=60_000.0).contains(&milliseconds) {
            Ok(Self(Duration::from_secs_f64(milliseconds / 1e3)))
        } else {
            Err(format!("`{milliseconds}` is not a time {}", Self::RANGE))
        }
    }

    /// As a time.
    #[must_use]
    pub const fn get(self) -> Duration {
        self.0
    }

    /// As a number.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        in_units(self.0, 1e6)
    }
}

/// Length above zero and up to one day, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seconds(Duration);

impl Seconds {
    const RANGE: &str = "of more than 0 and at most 86400 s";

    /// `seconds`, at least one.
    #[must_use]
    pub const fn whole(seconds: u16) -> Self {
        Self(Duration::from_secs(if seconds == 0 { 1 } else { seconds as u64 }))
    }

    /// This length.
    ///
    /// # Errors
    /// If it is zero, or longer than one day.
    pub fn new(length: Duration) -> Result<Self, String> {
        Self::of(in_units(length, 1e9)).map(|_| Self(length))
    }

    /// Length of `seconds`.
    fn of(seconds: f64) -> Result<Self, String> {
        // A duration below a nanosecond rounds to zero.
        match Duration::try_from_secs_f64(seconds) {
            Ok(length) if !length.is_zero() && seconds <= 86_400.0 => Ok(Self(length)),
            _ => Err(format!("`{seconds}` is not a time {}", Self::RANGE)),
        }
    }

    /// As a time.
    #[must_use]
    pub const fn get(self) -> Duration {
        self.0
    }

    /// As a number.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        in_units(self.0, 1e9)
    }
}

/// Times are parsed and written as numbers of their unit.
macro_rules! times {
    ($($kind:ident)*) => {$(
        impl OptionValue for $kind {
            fn from_word(word: &str) -> Result<Self, String> {
                word.parse().map_err(|_| format!("`{word}` is not a time {}", Self::RANGE)).and_then(Self::of)
            }

            fn from_value(value: &Value) -> Result<Self, String> {
                Self::of(number(value)?)
            }

            fn to_value(&self) -> Value {
                json!(self.as_f64())
            }

            fn to_word(&self) -> String {
                plain(self.as_f64())
            }
        }
    )*};
}

times! { Milliseconds Seconds }

/// Share, 0-1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share(f64);

impl Share {
    /// Share of zero.
    pub const ZERO: Self = Self(0.0);

    /// As a number, 0-1.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl OptionValue for Share {
    fn from_word(word: &str) -> Result<Self, String> {
        parse_share(word).map(Self).map_err(|problem| problem.to_string())
    }

    fn from_value(value: &Value) -> Result<Self, String> {
        Self::from_word(&plain(number(value)?))
    }

    fn to_value(&self) -> Value {
        json!(self.0)
    }

    fn to_word(&self) -> String {
        plain(self.0)
    }
}

/// Loss model with bursts that lose all packets.
fn bursts(begins: Share, ends: Share) -> GilbertElliott {
    GilbertElliott { to_bad: begins.0, to_good: ends.0, loss_in_good: 0.0, loss_in_bad: 1.0 }
}

impl OptionValue for GilbertElliott {
    fn from_word(word: &str) -> Result<Self, String> {
        let (begins, ends) =
            word.split_once(',').ok_or_else(|| format!("`{word}` is not two shares such as 1%,30%"))?;
        Ok(bursts(Share::from_word(begins)?, Share::from_word(ends)?))
    }

    fn from_value(value: &Value) -> Result<Self, String> {
        let (begins, ends) = pair(value)?;
        Ok(bursts(Share::read(begins)?, Share::read(ends)?))
    }

    fn to_value(&self) -> Value {
        json!([self.to_bad, self.to_good])
    }

    fn to_word(&self) -> String {
        format!("{},{}", plain(self.to_bad), plain(self.to_good))
    }
}

impl OptionValue for Reordering {
    fn from_word(word: &str) -> Result<Self, String> {
        let (share, delay) = word.split_once(',').ok_or_else(|| format!("`{word}` is not like 1%,15ms"))?;
        let extra_delay = parse_time(delay).map_err(|problem| problem.to_string())?;
        Ok(Self { probability: Share::from_word(share)?.0, extra_delay })
    }

    /// A share and a delay in milliseconds.
    fn from_value(value: &Value) -> Result<Self, String> {
        let (share, delay) = pair(value)?;
        Ok(Self { probability: Share::read(share)?.0, extra_delay: Milliseconds::read(delay)?.0 })
    }

    fn to_value(&self) -> Value {
        json!([self.probability, in_units(self.extra_delay, 1e6)])
    }

    fn to_word(&self) -> String {
        format!("{},{}ms", plain(self.probability), plain(in_units(self.extra_delay, 1e6)))
    }
}

/// Interval from `start` of `length` in which all packets are lost.
fn outage(start: Duration, length: Duration) -> LossInterval {
    LossInterval { from: start, to: start.saturating_add(length), loss: 1.0 }
}

impl OptionValue for LossInterval {
    fn from_word(word: &str) -> Result<Self, String> {
        let (start, length) = word.split_once('+').ok_or_else(|| format!("`{word}` is not like 10s+500ms"))?;
        let time = |text| parse_time(text).map_err(|problem| problem.to_string());
        Ok(outage(time(start)?, time(length)?))
    }

    /// Start and length in seconds.
    fn from_value(value: &Value) -> Result<Self, String> {
        let (start, length) = pair(value)?;
        let time = |value| parse_time(&format!("{}s", plain(number(value)?))).map_err(|problem| problem.to_string());
        Ok(outage(time(start)?, time(length)?))
    }

    fn to_value(&self) -> Value {
        json!([in_units(self.from, 1e9), in_units(self.to.saturating_sub(self.from), 1e9)])
    }

    fn to_word(&self) -> String {
        let seconds = |time| plain(in_units(time, 1e9));
        format!("{}s+{}s", seconds(self.from), seconds(self.to.saturating_sub(self.from)))
    }
}

impl<T: OptionValue> OptionValue for Vec<T> {
    const FORM: Form = Form::Many;
    const CHOICES: &'static [(&'static str, &'static str)] = T::CHOICES;

    fn from_word(word: &str) -> Result<Self, String> {
        Ok(vec![T::from_word(word)?])
    }

    fn from_words(words: &[String]) -> Result<Self, String> {
        words.iter().map(|word| T::from_word(word)).collect()
    }

    fn from_value(value: &Value) -> Result<Self, String> {
        value.as_array().ok_or_else(|| format!("{value} is not a list"))?.iter().map(T::read).collect()
    }

    fn to_value(&self) -> Value {
        self.iter().map(T::to_value).collect()
    }

    fn to_words(&self) -> Vec<String> {
        self.iter().map(T::to_word).collect()
    }
}

impl OptionValue for MaxBitrate {
    fn from_word(word: &str) -> Result<Self, String> {
        word.parse()
    }

    fn to_value(&self) -> Value {
        Value::from(self.to_string())
    }
}

impl OptionValue for PathBuf {
    fn from_word(word: &str) -> Result<Self, String> {
        Ok(Self::from(word))
    }

    fn to_value(&self) -> Value {
        Value::from(self.to_string_lossy())
    }
}

/// Serializes types by [`OptionValue::to_value`].
macro_rules! written_so {
    ($($type:ty)*) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                self.to_value().serialize(serializer)
            }
        }
    )*};
}

written_so! { QueueKind CodecKind Milliseconds Seconds Share }
