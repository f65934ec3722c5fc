//! What is done with a forecast: a deadline, a quantile, and which frames are too small to be sent. The numbers come with a
//! model, in its metadata, since they are tuned for it (`python/lockstep/learn/rule.py`).

use std::fmt;

use lockstep_units::tuning::{Constant, Tunable, Tuned};

use crate::Latency;
use crate::learned::purpose::printable;
use crate::learned::shipped::Shipped;

/// How many numbers a rule has.
const COUNT: usize = 8;

const fn field(name: &'static str, about: &'static str, unit: &'static str, least: f64, most: f64) -> Constant {
    // The default is the model's.
    Constant { name, about, unit, default: f64::NAN, least, most, is_whole: false, lab: "docs/learning.md, The rule" }
}

/// The numbers of a rule.
const FIELDS: [Constant; COUNT] = [
    field(
        "deadline",
        "Time from its decision until a frame is to be delivered, beside the frame intervals.",
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
    field(
        "shared",
        "Bursts this many times as fast as the mean rate show that others share the path.",
        "",
        1.2,
        1000.0,
    ),
    field(
        "shared_steady",
        "Such bursts count while the logarithm of the rate changes by no more than this in a second.",
        "1/s",
        0.0,
        10.0,
    ),
    field("latest", "Time by which nine in ten frames are to be delivered.", "s", 0.06, 0.5),
];

/// How a forecast becomes what a frame may have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rule {
    /// By when a frame is to be through: so many seconds, and so many frame intervals, from its decision on.
    pub deadline: f64,
    /// Frame intervals of the deadline.
    pub intervals: f64,
    /// The share of frames that may be late: the quantile of the forecast.
    pub level: f64,
    /// A frame is left out where it could have less than this share of what the forecast has through in a frame interval:
    /// with real pixels one frame that is larger is worth more than two that are small.
    pub smallest: f64,
    /// The quantile of the rate that a codec is given which follows one.
    pub target_level: f64,
    /// Bursts that come through so many times as fast as the mean rate say that others share the path,
    pub shared: f64,
    /// where the natural logarithm of that rate has changed by no more than this in a second.
    pub shared_steady: f64,
    /// By when nine in ten frames are to be through, seconds: after a pause most paths are as fast as before, and some are
    /// not, and there a frame that is likely to be through soon may be underway for seconds (`docs/learning.md`, "The rule").
    pub latest: f64,
}

impl Rule {
    /// Where no model says otherwise: where the search for one begins. Chosen by calls with pixels (`docs/learning.md`, "The
    /// rule"; `lockstep train lockstep --tuned-clip`).
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

    /// The name under which a model has its rule for `latency`.
    #[must_use]
    pub fn key(latency: Latency) -> String {
        format!("lockstep.rule.{latency}")
    }

    /// The rule in `text`, such as `deadline=0.01,level=0.4`; what is not in it is as in [`Rule::of`].
    ///
    /// # Errors
    /// What is wrong: an unknown name, or a number out of its bounds.
    pub fn read(latency: Latency, text: &str) -> Result<Self, String> {
        let mut rule = Self::of(latency);
        for part in text.split(',').filter(|part| !part.trim().is_empty()) {
            let (name, text) =
                part.split_once('=').ok_or_else(|| format!("`{}` of a rule has no `=`", printable(part)))?;
            let place = FIELDS.iter().position(|known| known.name == name.trim());
            let place = place.ok_or_else(|| format!("a rule has no `{}`", printable(name)))?;
            let Constant { name, least, most, .. } = FIELDS[place];
            let text = text.trim();
            let number: f64 = text.parse().map_err(|_| format!("`{}` of a rule is no number", printable(text)))?;
            if !(least..=most).contains(&number) {
                // As it stands there: written out, a number such as 1e300 has 300 digits.
                return Err(format!("{name}={} of a rule is not within {least} and {most}", printable(text)));
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

/// Numbers of the rule that are overridden. All others come with the model.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RuleTuning {
    given: [Option<f64>; COUNT],
}

impl RuleTuning {
    /// `rule` with what is overridden.
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
    fn a_rule_is_read_as_it_is_written() {
        for latency in Latency::ALL {
            let rule = Rule { level: 0.31, intervals: 1.7, ..Rule::of(latency) };
            assert_eq!(Rule::read(latency, &rule.to_string()), Ok(rule));
        }
    }

    #[test]
    fn what_is_no_rule_is_refused_and_named() {
        for (text, said) in [
            ("deadline", "has no `=`"),
            ("haste=1", "no `haste`"),
            ("level=0.9", "level=0.9 of a rule is not within 0.1 and 0.75"),
            ("deadline=1e300", "deadline=1e300 of a rule is not within 0 and 0.5"),
            (&format!("deadline={}", "9".repeat(300)), "9999... of a rule is not within 0 and 0.5"),
            ("level=NaN", "level=NaN of a rule is not within"),
            ("level=x", "`x` of a rule is no number"),
        ] {
            let error = Rule::read(Latency::Balanced, text).unwrap_err();
            assert!(error.contains(said) && error.len() < 120, "{error}");
        }
    }
}
