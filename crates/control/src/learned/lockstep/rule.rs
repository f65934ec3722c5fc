//! Rule that turns a forecast into a budget: a deadline, a quantile, and the smallest frame to send. Its numbers are
//! tuned for a model and stored in its metadata (`python/lockstep/learn/rule.py`).

use std::fmt;

use lockstep_units::tuning::{Constant, Tunable, Tuned};

use crate::Latency;
use crate::learned::purpose::printable;
use crate::learned::shipped::Shipped;

/// Number of fields in a rule.
const COUNT: usize = 8;

const fn field(name: &'static str, about: &'static str, unit: &'static str, min: f64, max: f64) -> Constant {
    // The shipped model gives the default.
    Constant { name, about, unit, default: f64::NAN, min, max, is_whole: false, lab: "2026-11-learning" }
}

/// Fields of a rule.
const FIELDS: [Constant; COUNT] = [
    field(
        "deadline",
        "Time from the decision to the delivery of a frame, in addition to the frame intervals.",
        "s",
        0.0,
        0.5,
    ),
    field("intervals", "Frame intervals of the deadline.", "frame intervals", 0.0, 4.0),
    field("level", "Share of frames that may be late: the quantile of the forecast.", "", 0.1, 0.75),
    field(
        "smallest",
        "A frame below this share of the bytes that the forecast delivers in a frame interval is skipped.",
        "",
        0.0,
        1.0,
    ),
    field("target_level", "Quantile of the rate for a codec that follows a rate.", "", 0.1, 0.75),
    field("shared", "Bursts this many times as fast as the mean rate indicate cross traffic.", "", 1.2, 1000.0),
    field(
        "shared_steady",
        "Such bursts count while the logarithm of the rate changes by no more than this in a second.",
        "1/s",
        0.0,
        10.0,
    ),
    field("latest", "Time by which nine of ten frames must be delivered.", "s", 0.06, 0.5),
];

/// Rule that turns a forecast into the budget of a frame.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rule {
    /// Deadline of a frame after its decision, in addition to `intervals`, seconds.
    pub deadline: f64,
    /// Frame intervals of the deadline.
    pub intervals: f64,
    /// Share of frames that may be late: the quantile of the forecast.
    pub level: f64,
    /// Smallest budget of a frame, as a share of the forecast's bytes per frame interval. Below it the frame is
    /// skipped. With pixels, one large frame is better than two small ones.
    pub smallest: f64,
    /// Quantile of the rate for a codec that follows a rate.
    pub target_level: f64,
    /// Bursts this many times as fast as the mean rate indicate cross traffic.
    pub shared: f64,
    /// Such bursts count only if the natural logarithm of the mean rate changes by at most this per second.
    pub shared_steady: f64,
    /// Time by which nine of ten frames must be delivered, seconds. After a pause max paths are as fast as before, but
    /// some are not. There a frame that is likely to arrive soon may take seconds (`docs/lab/2026-11-learning.md`, "The rule").
    pub latest: f64,
}

impl Rule {
    /// The default rule, from which the search for a model's rule starts. It was chosen by calls with pixels
    /// (`docs/lab/2026-11-learning.md`, "The rule"; `lockstep train lockstep --tuned-clip`).
    #[must_use]
    pub fn of(latency: Latency) -> Self {
        let balanced = Self {
            deadline: 0.0143,
            intervals: 1.05,
            level: 0.55,
            smallest: 0.4,
            target_level: 0.15,
            shared: 1.75,
            shared_steady: 0.3,
            latest: 0.5,
        };
        match latency {
            Latency::Low => Self { deadline: 0.005, ..balanced },
            Latency::Balanced => balanced,
            Latency::Quality => Self { deadline: 0.03, ..balanced },
        }
    }

    /// The rule of the shipped model.
    fn shipped(latency: Latency) -> Self {
        let text =
            Shipped::Lockstep.model().ok().and_then(|model| model.metadata(&Self::key(latency)).map(str::to_owned));
        text.and_then(|text| Self::read(latency, &text).ok()).unwrap_or_else(|| Self::of(latency))
    }

    /// The metadata key of a model's rule for `latency`.
    #[must_use]
    pub fn key(latency: Latency) -> String {
        format!("lockstep.rule.{latency}")
    }

    /// Parses a rule such as `deadline=0.01,level=0.4`. Missing fields are those of [`Rule::of`].
    ///
    /// # Errors
    /// A message about an unknown field or a number out of its bounds.
    pub fn read(latency: Latency, text: &str) -> Result<Self, String> {
        let mut rule = Self::of(latency);
        for part in text.split(',').filter(|part| !part.trim().is_empty()) {
            let (name, text) = part
                .split_once('=')
                .ok_or_else(|| format!("expected FIELD=NUMBER in the rule, found `{}`", printable(part)))?;
            let place = FIELDS.iter().position(|known| known.name == name.trim());
            let place = place.ok_or_else(|| format!("a rule has no field `{}`", printable(name)))?;
            let Constant { name, min, max, .. } = FIELDS[place];
            let text = text.trim();
            let number: f64 =
                text.parse().map_err(|_| format!("expected a number in the rule, found `{}`", printable(text)))?;
            if !(min..=max).contains(&number) {
                // The number is printed as written: formatted, 1e300 would have 300 digits.
                return Err(format!("{name}={} in the rule: expected a number from {min} to {max}", printable(text)));
            }
            *rule.field(place) = number;
        }
        Ok(rule)
    }

    fn field(&mut self, place: usize) -> &mut f64 {
        match place {
            0 => &mut self.deadline,
            1 => &mut self.intervals,
            2 => &mut self.level,
            3 => &mut self.smallest,
            4 => &mut self.target_level,
            5 => &mut self.shared,
            6 => &mut self.shared_steady,
            _ => &mut self.latest,
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rule = *self;
        for (place, Constant { name, .. }) in FIELDS.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            write!(formatter, "{comma}{name}={}", rule.field(place))?;
        }
        Ok(())
    }
}

/// Overrides of a rule's fields. Other fields come from the model.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RuleTuning {
    given: [Option<f64>; COUNT],
}

impl RuleTuning {
    /// `rule` with the overrides.
    #[must_use]
    pub fn apply(&self, mut rule: Rule) -> Rule {
        for (place, &given) in self.given.iter().enumerate() {
            if let Some(given) = given {
                *rule.field(place) = given;
            }
        }
        rule
    }
}

impl Tunable for RuleTuning {
    /// The defaults are those of the shipped model and balanced latency.
    fn each(&self, report: &mut dyn FnMut(Tuned)) {
        let mut rule = Rule::shipped(Latency::Balanced);
        for (place, &constant) in FIELDS.iter().enumerate() {
            let default = *rule.field(place);
            let constant = Constant { default, ..constant };
            report(Tuned { group: "rule", constant, value: self.given[place].unwrap_or(default) });
        }
    }

    fn put(&mut self, group: &str, name: &str, value: f64) -> bool {
        let place = FIELDS.iter().position(|field| field.name == name).filter(|_| group == "rule");
        place.is_some_and(|place| {
            self.given[place] = Some(value);
            true
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_round_trips_through_text() {
        for latency in Latency::ALL {
            let rule = Rule { level: 0.31, intervals: 1.7, ..Rule::of(latency) };
            assert_eq!(Rule::read(latency, &rule.to_string()), Ok(rule));
        }
    }

    #[test]
    fn invalid_rule_is_refused_and_named() {
        for (text, expected) in [
            ("deadline", "found `deadline`"),
            ("haste=1", "no field `haste`"),
            ("level=0.9", "level=0.9 in the rule: expected a number from 0.1 to 0.75"),
            ("deadline=1e300", "deadline=1e300 in the rule: expected a number from 0 to 0.5"),
            (&format!("deadline={}", "9".repeat(300)), "9999... in the rule: expected a number from 0 to 0.5"),
            ("level=NaN", "level=NaN in the rule: expected"),
            ("level=x", "expected a number in the rule, found `x`"),
        ] {
            let error = Rule::read(Latency::Balanced, text).unwrap_err();
            assert!(error.contains(expected) && error.len() < 120, "{error}");
        }
    }
}
