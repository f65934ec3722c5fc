//! What is done with a forecast: a deadline, a quantile, and what is left to a call where nothing fits. The numbers come
//! with a model, in its metadata, since they are tuned for it (`python/lockstep/learn/lockstep.py`).

use std::fmt;

use libm::{exp, log1p};

use crate::Latency;
use crate::claimed_share::ClaimRule;

/// Numbers of a rule, each with its name and bounds.
const FIELDS: [(&str, f64, f64); 20] = [
    ("deadline", 0.0, 0.5),
    ("intervals", 0.0, 4.0),
    ("level", 0.1, 0.75),
    ("least", 0.0, 1.0),
    ("least_within", 0.0, 0.5),
    ("target_level", 0.1, 0.75),
    ("pacing", 1.5, 64.0),
    ("growth", 0.0, 8.0),
    ("shown_share", 0.0, 1.0),
    ("level_late", -0.3, 0.3),
    ("level_wait", -0.3, 0.3),
    ("level_loss", -5.0, 5.0),
    ("level_returned", -0.7, 0.7),
    ("shared", 1.2, 1000.0),
    ("shared_steady", 0.0, 10.0),
    ("shared_wait", 0.0, 1.0),
    ("claim", 0.0, 0.5),
    ("foreign_wait", 0.01, 10.0),
    ("foreign_span", 0.1, 10.0),
    ("claim_overdue", 0.0, 10.0),
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
    /// Where there is no room, a frame may still have this share of what the mean rate carries in a frame interval ...
    pub least: f64,
    /// ... if there would be room with a deadline so many seconds later.
    pub least_within: f64,
    /// The quantile of the rate that a codec is given which follows one.
    pub target_level: f64,
    /// How many times as fast as the mean rate the packets of a frame leave.
    pub pacing: f64,
    /// A frame may have at least so many times what the link carried of the last one that is known to be through ...
    pub growth: f64,
    /// ... as far as this share of the rate at which that came through takes it by the deadline, too.
    pub shown_share: f64,
    /// What is added to the level for each `ln(1 + t / 20 ms)` that the last delivery is overdue,
    pub level_late: f64,
    /// that packets of the last tenth of a second waited,
    pub level_wait: f64,
    /// for the share of packets lost over 6.4 s,
    pub level_loss: f64,
    /// and just after deliveries began again; this fades over a second.
    pub level_returned: f64,
    /// Bursts that come through so many times as fast as the mean rate say that others share the path,
    pub shared: f64,
    /// where the natural logarithm of that rate has changed by no more than this in a second,
    pub shared_steady: f64,
    /// and packets waited so long at least in the mean of 1.6 s, seconds.
    pub shared_wait: f64,
    /// What is claimed beside those who keep the queue filled.
    pub claim: ClaimRule,
}

/// What a level depends on beside the rule.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    /// How long the last delivery is overdue, and how long packets waited lately, seconds.
    pub late: f64,
    pub wait: f64,
    /// Share of packets lost.
    pub loss: f64,
    /// How long the path has delivered since it last paused, seconds.
    pub since_return: f64,
}

impl Rule {
    /// Where no model says otherwise: where the search for one begins.
    #[must_use]
    pub fn of(latency: Latency) -> Self {
        let balanced = Self {
            deadline: 0.01,
            intervals: 1.1,
            level: 0.42,
            least: 0.3,
            least_within: 0.15,
            target_level: 0.15,
            pacing: 4.0,
            growth: 0.0,
            shown_share: 0.5,
            level_late: 0.0,
            level_wait: 0.0,
            level_loss: 0.0,
            level_returned: 0.0,
            shared: 1.75,
            shared_steady: 0.3,
            shared_wait: 0.0,
            claim: ClaimRule::default(),
        };
        match latency {
            Latency::Low => Self { deadline: 0.0, ..balanced },
            Latency::Balanced => balanced,
            Latency::Quality => Self { deadline: 0.05, ..balanced },
        }
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
            let (name, number) = part.split_once('=').ok_or_else(|| format!("`{part}` of a rule has no `=`"))?;
            let place = FIELDS.iter().position(|(known, ..)| *known == name.trim());
            let place = place.ok_or_else(|| format!("a rule has no `{name}`"))?;
            let (_, least, most) = FIELDS[place];
            let number: f64 = number.trim().parse().map_err(|_| format!("`{number}` of a rule is no number"))?;
            if !(least..=most).contains(&number) {
                return Err(format!("{name}={number} of a rule is not within {least} and {most}"));
            }
            *rule.field(place) = number;
        }
        Ok(rule)
    }

    /// The quantile at this moment.
    pub(super) fn level_at(&self, moment: &Moment) -> f64 {
        let time = |seconds: f64| log1p(seconds.clamp(0.0, 1.0) / 0.02);
        self.level
            + self.level_late * time(moment.late)
            + self.level_wait * time(moment.wait)
            + self.level_loss * moment.loss
            + self.level_returned * exp(-moment.since_return)
    }

    fn field(&mut self, place: usize) -> &mut f64 {
        match place {
            0 => &mut self.deadline,
            1 => &mut self.intervals,
            2 => &mut self.level,
            3 => &mut self.least,
            4 => &mut self.least_within,
            5 => &mut self.target_level,
            6 => &mut self.pacing,
            7 => &mut self.growth,
            8 => &mut self.shown_share,
            9 => &mut self.level_late,
            10 => &mut self.level_wait,
            11 => &mut self.level_loss,
            12 => &mut self.level_returned,
            13 => &mut self.shared,
            14 => &mut self.shared_steady,
            15 => &mut self.shared_wait,
            16 => &mut self.claim.share,
            17 => &mut self.claim.wait,
            18 => &mut self.claim.span,
            _ => &mut self.claim.overdue,
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rule = *self;
        for (place, (name, ..)) in FIELDS.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            write!(formatter, "{comma}{name}={}", rule.field(place))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_read_as_it_is_written() {
        for latency in Latency::ALL {
            let rule = Rule { level: 0.31, intervals: 1.7, pacing: 3.0, ..Rule::of(latency) };
            assert_eq!(Rule::read(latency, &rule.to_string()), Ok(rule));
        }
    }

    #[test]
    fn the_level_depends_on_the_moment_as_the_rule_says() {
        let calm = Moment { late: 0.0, wait: 0.0, loss: 0.0, since_return: 60.0 };
        let rule = Rule {
            level: 0.4,
            level_late: -0.05,
            level_wait: 0.1,
            level_loss: -1.0,
            level_returned: 0.2,
            ..Rule::of(Latency::Balanced)
        };
        let more = |moment: Moment| rule.level_at(&moment) - 0.4;
        assert!(more(calm).abs() < 1e-9);
        assert!((more(Moment { loss: 0.05, ..calm }) + 0.05).abs() < 1e-9);
        assert!((more(Moment { since_return: 0.0, ..calm }) - 0.2).abs() < 1e-9);
        assert!((more(Moment { late: 0.02, ..calm }) + 0.05 * 2.0_f64.ln()).abs() < 1e-9);
        assert!((more(Moment { wait: 0.02, ..calm }) - 0.1 * 2.0_f64.ln()).abs() < 1e-9);
    }

    #[test]
    fn what_is_no_rule_is_refused_and_named() {
        for (text, said) in [
            ("deadline", "has no `=`"),
            ("haste=1", "no `haste`"),
            ("level=0.9", "level=0.9 of a rule is not within 0.1 and 0.75"),
            ("level=NaN", "level=NaN of a rule is not within"),
            ("level=x", "`x` of a rule is no number"),
        ] {
            let error = Rule::read(Latency::Balanced, text).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }
}
