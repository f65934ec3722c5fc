//! Tuned constants: fields of configuration structs that describe themselves.
//!
//! A tuned constant is a number that an experiment or a judgement chose. It changes which packets are sent, when, or how
//! a frame is coded. [`config!`](crate::config!) declares the constants of one algorithm, and [`tuning!`](crate::tuning!)
//! composes them.
//!
//! ```
//! use std::time::Duration;
//! use lockstep_units::tuning::{Tunable, constants, set};
//!
//! lockstep_units::config! {
//!     /// Silence of a path.
//!     pub struct SilenceConfig = "silence" {
//!         /// Feedback this much later than expected means silence.
//!         margin: Duration = 0.150, "s", 0.0..=2.0, "2026-11-silence";
//!     }
//! }
//! lockstep_units::tuning! {
//!     /// The constants of this crate.
//!     pub struct Tuning { silence: SilenceConfig, }
//! }
//!
//! let mut tuning = Tuning::default();
//! set(&mut tuning, "silence.margin", 0.2)?;
//! assert_eq!(tuning.silence.margin, Duration::from_millis(200));
//! assert_eq!(constants(&tuning)[0].to_string(), "silence.margin=0.2");
//! # Ok::<(), lockstep_units::tuning::TuningError>(())
//! ```
//!
//! These numbers are not tuned constants: wire formats, bounds on memory, numerical guards, definitions of published
//! standards, physical limits, and shapes of models.

use std::fmt;
use std::time::Duration;

use crate::{Bitrate, ByteCount};

/// Description of a tuned constant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Constant {
    /// Name inside its group.
    pub name: &'static str,
    /// Meaning, in one or more sentences.
    pub about: &'static str,
    /// Unit; empty for a plain number.
    pub unit: &'static str,
    /// Default value.
    pub default: f64,
    /// Smallest valid value.
    pub min: f64,
    /// Largest valid value.
    pub max: f64,
    /// Whether the value is an integer.
    pub is_whole: bool,
    /// Experiment that chose the constant: a page of `docs/lab`.
    pub lab: &'static str,
}

/// A tuned constant with its group and its current value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tuned {
    /// Group: one configuration struct.
    pub group: &'static str,
    /// Description of the constant.
    pub constant: Constant,
    /// Current value.
    pub value: f64,
}

impl Tuned {
    /// Full name, such as `silence.margin`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}.{}", self.group, self.constant.name)
    }

    /// Checks that `value` is in the range, and an integer if required.
    ///
    /// # Errors
    /// [`TuningError::Range`] if it is not.
    pub fn check(&self, value: f64) -> Result<(), TuningError> {
        let Constant { min, max, is_whole, .. } = self.constant;
        if (min..=max).contains(&value) && (!is_whole || value.fract() == 0.0) {
            return Ok(());
        }
        Err(TuningError::Range { name: self.name(), value, min, max, is_whole })
    }
}

impl fmt::Display for Tuned {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}={}", self.group, self.constant.name, self.value)
    }
}

/// Why a constant cannot be set.
#[derive(Debug, Clone, PartialEq)]
pub enum TuningError {
    /// No constant has this name.
    Unknown {
        /// Full name as given.
        name: String,
        /// Similar names.
        near: Vec<String>,
    },
    /// The value is out of range, NaN, or not an integer.
    Range {
        /// Full name of the constant.
        name: String,
        /// Given value.
        value: f64,
        /// Smallest valid value.
        min: f64,
        /// Largest valid value.
        max: f64,
        /// Whether the value must be an integer.
        is_whole: bool,
    },
}

impl fmt::Display for TuningError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { name, near } if near.is_empty() => {
                write!(formatter, "no constant is called {name}; `lockstep controllers --constants` lists them")
            }
            Self::Unknown { name, near } => {
                write!(formatter, "no constant is called {name}; similar names: {}", near.join(", "))
            }
            Self::Range { name, value, min, max, is_whole } => {
                let kind = if *is_whole { "a whole number" } else { "a number" };
                write!(formatter, "{name} = {value}: expected {kind} from {min} to {max}")
            }
        }
    }
}

impl std::error::Error for TuningError {}

/// Tuned constants that can be listed and set by name.
pub trait Tunable {
    /// Passes each constant with its current value to `report`, in order.
    fn each(&self, report: &mut dyn FnMut(Tuned));
    /// Sets the constant `name` of `group` to a value in its range. Returns `false` if there is no such constant.
    fn put(&mut self, group: &str, name: &str, value: f64) -> bool;
}

/// All constants of `tuning` with their current values.
pub fn constants(tuning: &impl Tunable) -> Vec<Tuned> {
    let mut found = Vec::new();
    tuning.each(&mut |tuned| found.push(tuned));
    found
}

/// Sets the constant with the full name `name`, such as `silence.margin`.
///
/// # Errors
/// [`TuningError`] for an unknown name, or a value out of range.
pub fn set(tuning: &mut impl Tunable, name: &str, value: f64) -> Result<(), TuningError> {
    let known = constants(tuning);
    let unknown = || TuningError::Unknown { name: shortened(name), near: near(name, &known) };
    let (group, field) = name.split_once('.').ok_or_else(unknown)?;
    let tuned = known.iter().find(|tuned| (tuned.group, tuned.constant.name) == (group, field));
    tuned.ok_or_else(unknown)?.check(value)?;
    if tuning.put(group, field, value) { Ok(()) } else { Err(unknown()) }
}

/// Longest part of an unknown name that an error shows, characters.
const MAX_NAME_CHARACTERS: usize = 60;
/// Largest number of similar names in an error.
const MAX_SIMILAR_NAMES: usize = 4;

fn shortened(name: &str) -> String {
    let mut text: String = name.chars().take(MAX_NAME_CHARACTERS).collect();
    if text.len() < name.len() {
        text.push_str("...");
    }
    text
}

/// The most similar names to `name`, at most [`MAX_SIMILAR_NAMES`].
fn near(name: &str, known: &[Tuned]) -> Vec<String> {
    let name = shortened(name);
    let (group, field) = name.split_once('.').unwrap_or(("", &name));
    let distance = |tuned: &Tuned| {
        let [group_edits, edits] =
            [(group, tuned.group), (field, tuned.constant.name)].map(|(given, known)| distance(given, known));
        let is_near = edits <= 1 + field.len() / 4 || (group == tuned.group && edits <= field.len().max(3));
        is_near.then_some((edits + group_edits, tuned.name()))
    };
    let mut found: Vec<(usize, String)> = known.iter().filter_map(distance).collect();
    found.sort_unstable();
    found.into_iter().take(MAX_SIMILAR_NAMES).map(|(_, name)| name).collect()
}

/// Edit distance of two words: insertions, deletions and replacements (Levenshtein).
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.chars().count()).collect();
    for (line, letter) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], line + 1);
        for (place, against) in other.chars().enumerate() {
            let replaced = diagonal + usize::from(letter != against);
            diagonal = row[place + 1];
            row[place + 1] = replaced.min(diagonal + 1).min(row[place] + 1);
        }
    }
    row.last().copied().unwrap_or(0)
}

/// Type of a tuned constant: a number with a unit.
pub trait Quantity: Copy {
    /// Whether all values are integers.
    const IS_WHOLE: bool;
    /// The value as a number of its unit.
    fn number(self) -> f64;
    /// The value of `number`, which is finite and not negative.
    fn of(number: f64) -> Self;
}

macro_rules! quantities {
    ($($type:ty: $whole:literal, |$value:ident| $number:expr, |$from:ident| $make:expr;)*) => {$(
        impl Quantity for $type {
            const IS_WHOLE: bool = $whole;

            fn number(self) -> f64 {
                let $value = self;
                $number
            }

            fn of($from: f64) -> Self {
                $make
            }
        }
    )*};
}

quantities! {
    f64: false, |value| value, |number| number;
    u8: true, |value| value.into(), |number| number as Self;
    u32: true, |value| value.into(), |number| number as Self;
    u64: true, |value| value as f64, |number| number as Self;
    usize: true, |value| value as f64, |number| number as Self;
    // A number of seconds.
    Duration: false, |value| value.as_nanos() as f64 / 1e9, |number| crate::duration_from_seconds(number);
    ByteCount: true, |value| value.as_f64(), |number| Self::new(number as u64);
    // Bit/s.
    Bitrate: true, |value| value.as_bps() as f64, |number| Self::from_bps(number as u64);
}

/// Declares the tuned constants of one algorithm: `/// meaning`, name, type, default, unit, range, experiment.
///
/// Makes a `Copy` struct with `Default` that implements [`Tunable`]. Times are in seconds, rates in bit/s.
#[macro_export]
macro_rules! config {
    (
        $(#[$about:meta])*
        $visibility:vis struct $config:ident = $group:literal {
            $($(#[doc = $help:literal])+
            $name:ident: $type:ty = $default:literal, $unit:literal, $min:literal..=$max:literal, $lab:literal;)*
        }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq)]
        $visibility struct $config {
            $($(#[doc = $help])+ pub $name: $type,)*
        }

        impl $config {
            /// Descriptions of the constants, in the order of the fields.
            pub const CONSTANTS: &'static [$crate::tuning::Constant] = &[$($crate::tuning::Constant {
                name: stringify!($name),
                about: concat!($($help),+).trim_ascii(),
                unit: $unit,
                default: $default as f64,
                min: $min as f64,
                max: $max as f64,
                is_whole: <$type as $crate::tuning::Quantity>::IS_WHOLE,
                lab: $lab,
            }),*];
        }

        impl Default for $config {
            fn default() -> Self {
                Self { $($name: $crate::tuning::Quantity::of($default as f64)),* }
            }
        }

        impl $crate::tuning::Tunable for $config {
            fn each(&self, report: &mut dyn FnMut($crate::tuning::Tuned)) {
                let values = [$($crate::tuning::Quantity::number(self.$name)),*];
                for (&constant, value) in Self::CONSTANTS.iter().zip(values) {
                    report($crate::tuning::Tuned { group: $group, constant, value });
                }
            }

            fn put(&mut self, group: &str, name: &str, value: f64) -> bool {
                if group != $group {
                    return false;
                }
                match name {
                    $(stringify!($name) => self.$name = $crate::tuning::Quantity::of(value),)*
                    _ => return false,
                }
                true
            }
        }
    };
}

/// Composes configurations into a struct that implements [`Tunable`](crate::tuning::Tunable).
#[macro_export]
macro_rules! tuning {
    (
        $(#[$about:meta])*
        $visibility:vis struct $tuning:ident { $($(#[$help:meta])* $name:ident: $type:ty,)* }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Default)]
        $visibility struct $tuning {
            $($(#[$help])* pub $name: $type,)*
        }

        impl $crate::tuning::Tunable for $tuning {
            fn each(&self, report: &mut dyn FnMut($crate::tuning::Tuned)) {
                $($crate::tuning::Tunable::each(&self.$name, report);)*
            }

            fn put(&mut self, group: &str, name: &str, value: f64) -> bool {
                false $(|| $crate::tuning::Tunable::put(&mut self.$name, group, name, value))*
            }
        }
    };
}

/// Asserts that all tuned constants are well declared: the default is in the range, and meaning and experiment are
/// given. Names must be unique. For tests of crates that declare constants.
///
/// # Panics
/// If a constant is not well declared.
pub fn assert_well_declared(tuning: &impl Tunable) {
    let all = constants(tuning);
    let mut names: Vec<String> = all.iter().map(Tuned::name).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count, "two constants share a name");
    for tuned in all {
        let (name, Constant { about, default, lab, .. }) = (tuned.name(), tuned.constant);
        assert!(about.len() > 10 && about.ends_with('.'), "{name}: its meaning is not a sentence: {about:?}");
        assert!(!lab.is_empty(), "{name} names no experiment");
        assert_eq!(tuned.check(default), Ok(()));
        assert_eq!(tuned.value, default, "{name}: its value is not its default");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::config! {
        /// A group.
        struct PathConfig = "path" {
            /// How long deliveries
            /// are remembered.
            memory: Duration = 0.15, "s", 0.0..=2.0, "none";
            /// Lowest rate.
            rate: Bitrate = 64_000, "bit/s", 1_000..=1_000_000, "none";
            /// Packets in a probe.
            packets: u32 = 2, "", 1..=8, "none";
        }
    }

    crate::config! {
        /// Another group.
        struct LossConfig = "loss" {
            /// Weight of a packet.
            weight: f64 = 0.01, "", 0.0001..=1.0, "none";
        }
    }

    crate::tuning! {
        /// Both.
        struct Tuning { path: PathConfig, loss: LossConfig, }
    }

    #[test]
    fn constant_is_set_by_name_and_listed_with_its_value() {
        let mut tuning = Tuning::default();
        assert_eq!(tuning.path.memory, Duration::from_millis(150));
        for (name, value) in
            [("path.memory", 0.2), ("path.rate", 32_000.0), ("path.packets", 3.0), ("loss.weight", 0.5)]
        {
            set(&mut tuning, name, value).unwrap();
        }
        assert_eq!((tuning.path.memory, tuning.path.packets), (Duration::from_millis(200), 3));
        assert_eq!((tuning.path.rate, tuning.loss.weight), (Bitrate::from_kbps(32), 0.5));
        let listed: Vec<String> = constants(&tuning).iter().map(Tuned::to_string).collect();
        assert_eq!(listed, ["path.memory=0.2", "path.rate=32000", "path.packets=3", "loss.weight=0.5"]);
        assert_eq!(constants(&tuning)[0].constant.about, "How long deliveries are remembered.");
    }

    #[test]
    fn value_out_of_range_is_refused_with_name_and_range() {
        let mut tuning = Tuning::default();
        for (name, value, text) in [
            ("path.memory", 3.0, "path.memory = 3: expected a number from 0 to 2"),
            ("path.memory", f64::NAN, "path.memory = NaN: expected a number from 0 to 2"),
            ("path.memory", -0.1, "path.memory = -0.1: expected a number from 0 to 2"),
            ("path.packets", 2.5, "path.packets = 2.5: expected a whole number from 1 to 8"),
        ] {
            assert_eq!(set(&mut tuning, name, value).unwrap_err().to_string(), text);
        }
        assert_eq!(tuning, Tuning::default());
    }

    #[test]
    fn unknown_name_is_refused_with_similar_names() {
        let refusal = |name: &str| set(&mut Tuning::default(), name, 1.0).unwrap_err().to_string();
        assert!(refusal("path.memry").starts_with("no constant is called path.memry; similar names: path.memory"));
        assert!(refusal("weight").contains("loss.weight"), "{}", refusal("weight"));
        assert!(refusal("quite.something.else").contains("lists them"));
        assert!(refusal(&"x".repeat(9_000)).len() < 200);
    }

    #[test]
    fn constants_are_well_declared() {
        assert_well_declared(&Tuning::default());
    }
}
