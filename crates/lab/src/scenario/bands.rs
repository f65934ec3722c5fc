//! Pass bands for the metrics of scenarios: a TOML file, the check of a run against it, and the page of differences.
//!
//! Virtual time makes a value exact for one build. The margins of the bands admit changes of the controller.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use serde::Deserialize;
use serde_json::Value;

use lockstep_configuration::read_regular_text;
use lockstep_sim::scenario::{Metrics, Scenario};

use crate::page::{Page, Row as PageRow, Table};

/// Range in which a metric passes, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Band {
    min: Option<f64>,
    max: Option<f64>,
}

impl Band {
    fn has(self, value: f64) -> bool {
        self.min.is_none_or(|min| value >= min) && self.max.is_none_or(|max| value <= max)
    }

    /// The problem with the band itself, if any.
    fn problem(self) -> Option<&'static str> {
        match (self.min, self.max) {
            (None, None) => Some("expected `min`, `max` or both"),
            (min, max) if !min.into_iter().chain(max).all(f64::is_finite) => Some("expected finite numbers"),
            (Some(min), Some(max)) if min > max => Some("`min` exceeds `max`"),
            _ => None,
        }
    }

    /// Band of `value` and the margin, with the unit that ends the name of `metric`. A value of zero or more keeps a
    /// band of zero or more.
    fn around(metric: &str, value: f64, margin: f64) -> Self {
        let width = (value.abs() * margin).max(min_margin(metric));
        let low = if value >= 0.0 { (value - width).max(0.0) } else { value - width };
        // Rounded away from the value.
        Self { min: Some((low * 1e3).floor() / 1e3), max: Some(((value + width) * 1e3).ceil() / 1e3) }
    }
}

impl fmt::Display for Band {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.min, self.max) {
            (Some(min), Some(max)) => write!(formatter, "{min} to {max}"),
            (Some(min), None) => write!(formatter, "at least {min}"),
            (None, Some(max)) => write!(formatter, "at most {max}"),
            (None, None) => formatter.write_str("anything"),
        }
    }
}

/// Minimum distance of a band's ends from the value, in the unit that ends the name of `metric`.
fn min_margin(metric: &str) -> f64 {
    match metric.rsplit('_').next() {
        Some("kbps") => 10.0,
        Some("ms") => 5.0,
        Some("percent" | "seconds") => 1.0,
        // A ratio.
        _ => 0.05,
    }
}

/// Bands by scenario and metric.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Bands {
    scenario: BTreeMap<String, BTreeMap<String, Band>>,
}

/// Values of `metrics` by name, `None` where a metric does not apply.
fn values(metrics: &Metrics) -> Result<BTreeMap<String, Option<f64>>> {
    match serde_json::to_value(metrics)? {
        Value::Object(values) => Ok(values.into_iter().map(|(name, value)| (name, value.as_f64())).collect()),
        _ => bail!("the metrics have no names"),
    }
}

/// Line of `text` at the byte `at`, from 1.
fn line_of(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|&byte| byte == b'\n').count()
}

impl Bands {
    /// Reads the bands in `path`.
    ///
    /// # Errors
    /// If the file is not TOML, a scenario or a metric does not exist, or a band is empty.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let read = || Self::parse(&read_regular_text(path)?);
        read().with_context(|| format!("cannot read the bands {}", path.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        let bands: Self = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| line_of(text, span.start));
            anyhow!("line {line}: {}", error.message().replace('\n', ", "))
        })?;
        let known = values(&Metrics::default())?;
        for (name, metrics) in &bands.scenario {
            if Scenario::named(name).is_none() {
                bail!("unknown scenario `{name}`; `lockstep scenario list` lists them");
            }
            for (metric, band) in metrics {
                if !known.contains_key(metric) {
                    let known: Vec<&str> = known.keys().map(String::as_str).collect();
                    bail!("scenario {name}: unknown metric `{metric}`; expected one of: {}", known.join(", "));
                }
                if let Some(problem) = band.problem() {
                    bail!("scenario {name}: {metric}: {problem}");
                }
            }
        }
        Ok(bands)
    }

    /// Bands around the metrics of a run, each `margin` wide in both directions.
    pub(super) fn around<'a>(rows: impl Iterator<Item = (&'a str, &'a Metrics)>, margin: f64) -> Result<Self> {
        let bands = |metrics: &Metrics| -> Result<BTreeMap<String, Band>> {
            let present = values(metrics)?.into_iter().filter_map(|(metric, value)| Some((metric, value?)));
            Ok(present.map(|(metric, value)| (metric.clone(), Band::around(&metric, value, margin))).collect())
        };
        let scenario = rows.map(|(name, metrics)| Ok((name.to_owned(), bands(metrics)?))).collect::<Result<_>>()?;
        Ok(Self { scenario })
    }

    /// The bands as TOML, with the settings of the run as JSON in a comment.
    pub(super) fn to_toml(&self, settings: &str) -> String {
        let mut text = format!(
            "# Pass bands, written by lockstep {} scenario all with the settings\n# {settings}\n\
             # Remove `min` or `max` where one end is free.\n",
            env!("CARGO_PKG_VERSION")
        );
        for (name, metrics) in &self.scenario {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "\n[scenario.{name}]");
            for (metric, band) in metrics {
                let ends = [("min", band.min), ("max", band.max)];
                let ends: Vec<String> =
                    ends.into_iter().filter_map(|(end, value)| Some(format!("{end} = {:?}", value?))).collect();
                let _ = writeln!(text, "{metric} = {{ {} }}", ends.join(", "));
            }
        }
        text
    }

    /// Checks the metrics of scenarios that ran. `None` stands for a scenario that failed. Bands of other scenarios are
    /// not checked.
    pub(super) fn check<'a>(&self, ran: impl Iterator<Item = (&'a str, Option<&'a Metrics>)>) -> Result<Vec<Check>> {
        let mut checks = Vec::new();
        for (name, metrics) in ran {
            let Some(bands) = self.scenario.get(name) else { continue };
            let found = metrics.map(values).transpose()?;
            for (metric, &band) in bands {
                let value = found.as_ref().and_then(|found| found.get(metric).copied().flatten());
                checks.push(Check { scenario: name.to_owned(), metric: metric.clone(), band, value });
            }
        }
        Ok(checks)
    }
}

/// A metric of a run and its band.
pub(super) struct Check {
    scenario: String,
    metric: String,
    band: Band,
    value: Option<f64>,
}

/// Columns of the table of failures.
pub(super) const COLUMNS: [&str; 5] = ["scenario", "metric", "result", "expected", "value"];

/// Number of the columns with text.
pub(super) const WORDS: usize = 3;

impl Check {
    /// Whether the value is in its band. A missing value is not.
    pub(super) fn passes(&self) -> bool {
        self.value.is_some_and(|value| self.band.has(value))
    }

    /// The value with four decimals, or in full where rounding hides the failure.
    fn shown(&self) -> String {
        let Some(value) = self.value else { return "none".to_owned() };
        let rounded = (value * 1e4).round() / 1e4;
        if self.band.has(rounded) == self.band.has(value) { rounded.to_string() } else { value.to_string() }
    }

    /// Cells of the table.
    pub(super) fn cells(&self) -> Vec<String> {
        let result = if self.passes() { "passes" } else { "fails" };
        vec![self.scenario.clone(), self.metric.clone(), result.to_owned(), self.band.to_string(), self.shown()]
    }
}

/// Page with every check: failures first, in red, then all checks.
pub(super) fn page(checks: &[Check], bands: &Path) -> String {
    let row = |check: &Check| PageRow { cells: check.cells(), fails: !check.passes() };
    let failures: Vec<PageRow> = checks.iter().filter(|check| !check.passes()).map(row).collect();
    let summary =
        format!("{} of {} metrics are outside their bands in {}.", failures.len(), checks.len(), bands.display());
    let table = |heading, rows| Table { heading, columns: &COLUMNS, words: WORDS, rows };
    let mut tables = Vec::new();
    if !failures.is_empty() {
        tables.push(table("Outside their bands", failures));
    }
    tables.push(table("All metrics", checks.iter().map(row).collect()));
    Page { title: "Scenarios against their bands", paragraphs: vec![summary], tables }.html()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics(goodput_kbps: f64, queue_p95_ms: Option<f64>) -> Metrics {
        Metrics { goodput_kbps, queue_p95_ms, ..Metrics::default() }
    }

    #[test]
    fn written_bands_are_read_back_and_hold_their_run() {
        let run = metrics(841.489, Some(29.76));
        let bands = Bands::around([("same-controller", &run)].into_iter(), 0.1).unwrap();
        let text = bands.to_toml("{}");
        assert_eq!(Bands::parse(&text).unwrap(), bands);
        assert!(text.contains("goodput_kbps = { min = 757.34, max = 925.638 }"), "{text}");
        // Five milliseconds are more than a tenth of the value.
        assert!(text.contains("queue_p95_ms = { min = 24.76, max = 34.76"), "{text}");
        assert!(text.contains("loss_percent = { min = 0.0, max = 1.0 }") && !text.contains("settles"), "{text}");
        let checks = bands.check([("same-controller", Some(&run))].into_iter()).unwrap();
        assert!(checks.len() > 5 && checks.iter().all(Check::passes));
    }

    #[test]
    fn values_outside_missing_or_not_run_fail() {
        let bands = Bands::around([("same-controller", &metrics(800.0, Some(30.0)))].into_iter(), 0.1).unwrap();
        let failing = |metrics: Option<&Metrics>| {
            let checks = bands.check([("same-controller", metrics), ("long-tcp", metrics)].into_iter()).unwrap();
            checks.iter().filter(|check| !check.passes()).map(|check| check.cells()[1].clone()).collect::<Vec<_>>()
        };
        assert_eq!(failing(Some(&metrics(719.9, Some(35.0)))), ["goodput_kbps"]);
        assert_eq!(failing(Some(&metrics(880.0, None))), ["queue_p95_ms"]);
        assert_eq!(failing(None).len(), values(&Metrics::default()).unwrap().len() - 6);
    }

    #[test]
    fn value_just_beyond_its_band_is_shown_in_full() {
        let band = Band { min: None, max: Some(10.0) };
        let shown = |value| Check { scenario: String::new(), metric: String::new(), band, value }.shown();
        assert_eq!(
            [shown(Some(10.000001)), shown(Some(9.999999)), shown(Some(12.34567)), shown(None)],
            ["10.000001", "10", "12.3457", "none"]
        );
    }

    #[test]
    fn invalid_bands_are_refused_in_one_line() {
        for (text, message) in [
            ("[scenario.same-controller]\nloss_percent = 1", "line 2: invalid type"),
            ("[scenario.same-controller]\nloss_percent = { max = \"a\" }", "line 2: invalid type"),
            ("[scenario.same-controller]\nloss_percent = { most = 1 }", "line 2: unknown field `most`"),
            ("[scenario.same-controller", "line 1: "),
            ("[scenarios.x]", "unknown field `scenarios`"),
            ("[scenario.nowhere]", "unknown scenario `nowhere`"),
            ("[scenario.same-controller]\nloss = { max = 1 }", "unknown metric `loss`; expected one of: "),
            ("[scenario.same-controller]\nloss_percent = {}", "expected `min`, `max` or both"),
            ("[scenario.same-controller]\nloss_percent = { max = nan }", "expected finite numbers"),
            ("[scenario.same-controller]\nloss_percent = { min = 2, max = 1 }", "`min` exceeds `max`"),
        ] {
            let error = format!("{:#}", Bands::parse(text).unwrap_err());
            assert!(error.contains(message) && !error.contains('\n'), "{text}: {error}");
        }
    }
}
