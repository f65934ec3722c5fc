//! A population of sessions: places, hours, access networks, durations and programs of calls.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use lockstep_configuration::{ClipName, OptionValue, read_regular_text};
use lockstep_control::Algorithm;
use lockstep_link::Families;
use lockstep_runner::session_log::arguments::{ACCESS, numbered};

/// The built-in population; `docs/how-to/sessions.md` says which of its numbers are known and which are assumed.
const BUILT_IN: &str = include_str!("population.json");
/// Maximum duration of a session, seconds.
const MAX_DURATION_SECONDS: f64 = 86_400.0;

/// Weights by name. A share is a weight divided by their sum.
pub type Shares = BTreeMap<String, f64>;

/// Log-normal distribution: its median, and the standard deviation of its natural logarithm.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spread {
    pub median: f64,
    pub deviation: f64,
}

/// A place of calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// Name of the place.
    pub name: String,
    /// Its share of all sessions.
    pub share: f64,
    /// Range of the extra propagation delay each way, milliseconds.
    pub farther_ms: [f64; 2],
    /// The shares of the access networks.
    pub access: Shares,
}

/// An access network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Access {
    /// The family of its traces (`docs/how-to/traces.md`).
    pub family: String,
    /// Its mean rate, kb/s.
    pub mean_kbps: Spread,
    /// Share of the rate that cross traffic takes in the busiest hour.
    pub taken: f64,
    /// Range of the propagation delay each way, milliseconds.
    pub delay_ms: [f64; 2],
    /// Share of sessions with random loss.
    pub lossy: f64,
    /// Loss in these sessions.
    pub loss: Spread,
    /// Range of the queue size, packets.
    pub queue_packets: [u32; 2],
}

/// Duration of sessions, seconds: a bounded log-normal distribution.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Length {
    pub median: f64,
    pub deviation: f64,
    pub least: f64,
    pub most: f64,
}

/// A whole population.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Population {
    /// Description, and sources of its numbers.
    pub provenance: String,
    /// Shares of sessions that begin in each hour of local time.
    pub hours: Vec<f64>,
    /// Cross traffic in each hour, 0 to 1.
    pub busy: Vec<f64>,
    pub length_s: Length,
    pub places: Vec<Place>,
    pub access: BTreeMap<String, Access>,
    pub controllers: Shares,
    pub codecs: Shares,
    /// The pictures, as in `--clip`.
    pub clips: Shares,
}

fn check_shares(what: &str, shares: impl Iterator<Item = f64> + Clone) -> Result<()> {
    if shares.clone().any(|share| !share.is_finite() || share < 0.0) || shares.sum::<f64>() <= 0.0 {
        bail!("{what}: expected shares from 0 on that are not all 0");
    }
    Ok(())
}

fn check_range(what: &str, [from, to]: [f64; 2], most: f64) -> Result<()> {
    if !(0.0..=most).contains(&from) || !(from..=most).contains(&to) {
        bail!("{what}: expected a range within 0 and {most}, got [{from}, {to}]");
    }
    Ok(())
}

fn check_spread(what: &str, spread: Spread, most: f64) -> Result<()> {
    if !(spread.median > 0.0 && spread.median <= most && (0.0..=5.0).contains(&spread.deviation)) {
        bail!("{what}: expected a median above 0 and at most {most}, and a deviation from 0 to 5");
    }
    Ok(())
}

impl Population {
    /// The population in `path`, or the built-in one.
    pub fn open(path: Option<&Path>) -> Result<Self> {
        let Some(path) = path else { return Self::read(BUILT_IN) };
        let named = || format!("population {}", path.display());
        Self::read(&read_regular_text(path).with_context(named)?).with_context(named)
    }

    fn read(text: &str) -> Result<Self> {
        let population: Self = serde_json::from_str(text)?;
        population.check()?;
        Ok(population)
    }

    /// Hash of the whole population, as its number.
    pub fn number(&self) -> Result<i64> {
        Ok(numbered(&[&serde_json::to_string(self)?]))
    }

    fn check(&self) -> Result<()> {
        for (what, hours) in [("hours", &self.hours), ("busy", &self.busy)] {
            if hours.len() != 24 {
                bail!("{what}: expected 24 numbers, one per hour, got {}", hours.len());
            }
        }
        check_shares("hours", self.hours.iter().copied())?;
        if self.busy.iter().any(|busy| !(0.0..=1.0).contains(busy)) {
            bail!("busy: expected numbers from 0 to 1");
        }
        let Length { median, deviation, least, most } = self.length_s;
        check_spread("length_s", Spread { median, deviation }, MAX_DURATION_SECONDS)?;
        if !(least >= 1.0 && least <= most && most <= MAX_DURATION_SECONDS) {
            bail!("length_s: expected bounds from 1 to {MAX_DURATION_SECONDS} s, in order");
        }
        check_shares("places", self.places.iter().map(|place| place.share))?;
        for place in &self.places {
            check_range(&format!("{}: farther_ms", place.name), place.farther_ms, 1_000.0)?;
            check_shares(&format!("{}: access", place.name), place.access.values().copied())?;
            if let Some(name) = place.access.keys().find(|name| !self.access.contains_key(*name)) {
                bail!("{}: unknown access network `{name}`", place.name);
            }
        }
        for (name, access) in &self.access {
            if !ACCESS.contains(&name.as_str()) {
                bail!("access: unknown network `{name}`; expected one of: {}", ACCESS.join(", "));
            }
            access.check().with_context(|| format!("access network {name}"))?;
        }
        check_shares("controllers", self.controllers.values().copied())?;
        for name in self.controllers.keys() {
            name.parse::<Algorithm>()?;
        }
        check_shares("codecs", self.codecs.values().copied())?;
        if let Some(name) = self.codecs.keys().find(|name| !["functional", "conventional"].contains(&name.as_str())) {
            bail!("codecs: unknown codec `{name}`; expected functional or conventional");
        }
        check_shares("clips", self.clips.values().copied())?;
        for name in self.clips.keys() {
            ClipName::from_word(name).map_err(anyhow::Error::msg)?;
        }
        Ok(())
    }
}

impl Access {
    fn check(&self) -> Result<()> {
        Families::built_in().named(&self.family)?;
        check_spread("mean_kbps", self.mean_kbps, 1e6)?;
        check_range("taken", [0.0, self.taken], 0.99)?;
        check_range("delay_ms", self.delay_ms, 2_000.0)?;
        check_range("lossy", [0.0, self.lossy], 1.0)?;
        check_spread("loss", self.loss, 1.0)?;
        let [least, most] = self.queue_packets;
        if least == 0 || least > most || most > 100_000 {
            bail!("queue_packets: expected a range within 1 and 100000, got [{least}, {most}]");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_population_is_valid() {
        let population = Population::open(None).unwrap();
        assert!(population.provenance.contains("assum"), "it says that it is assumed");
    }

    /// Change of a population in a test.
    type Change<'a> = &'a dyn Fn(&mut serde_json::Value);

    #[test]
    fn error_of_an_invalid_population_names_the_fault() {
        let good: serde_json::Value = serde_json::from_str(BUILT_IN).unwrap();
        let refused = |change: Change<'_>| {
            let mut changed = good.clone();
            change(&mut changed);
            format!("{:#}", Population::read(&changed.to_string()).unwrap_err())
        };
        let cases: [(Change<'_>, &str); 9] = [
            (&|all| all["hours"] = serde_json::json!([1.0]), "expected 24 numbers"),
            (&|all| all["length_s"]["least"] = 0.0.into(), "from 1 to"),
            (&|all| all["places"][0]["share"] = (-1.0).into(), "not all 0"),
            (&|all| all["places"][0]["access"]["pigeon"] = 1.0.into(), "unknown access network `pigeon`"),
            (&|all| all["access"]["3g"]["family"] = "pigeon".into(), "pigeon"),
            (&|all| all["access"]["3g"]["taken"] = 1.0.into(), "expected a range"),
            (&|all| all["controllers"]["pigeon"] = 1.0.into(), "pigeon"),
            (&|all| all["codecs"] = serde_json::json!({"h264": 1.0}), "expected functional or"),
            (&|all| all["colour"] = 1.0.into(), "unknown field"),
        ];
        for (change, said) in cases {
            let error = refused(change);
            assert!(error.contains(said), "{error}");
        }
        assert!(Population::read("{").is_err());
    }
}
