//! Families of generated traces that resemble recordings. [`crate::fit::fit`] fits them.
//!
//! A trace has a mean rate, drawn from the means of the recordings. A Markov chain moves between [`LEVELS`] levels, as
//! the recordings did. Levels are multiples of the mean at equal logarithmic distances. A log-normal factor models the
//! variation within a level. Outages begin at random and have lengths from the recordings.

use std::time::Duration;

use lockstep_units::Bitrate;
use lockstep_units::excerpt;
use lockstep_units::quantity::MAX_RATE;
use lockstep_units::random::{happens, normal};
use rand::Rng;
use serde::{Deserialize, Serialize};

use crate::error::TraceError;
use crate::limits::MAX_SEGMENTS;
use crate::random::{Purpose, generator};
use crate::timeline::End;
use crate::trace::{Conditions, Segment, Trace};

/// Number of levels, from 1/32 of the mean to eight times the mean, half an octave apart.
pub const LEVELS: usize = 17;
/// Octaves from the mean to the lowest level, and from one level to the next.
const MIN_LOG_SHARE: f64 = -5.0;
const SPACING: f64 = 0.5;
/// Number of quantiles of means and of outage lengths, at equal distances from the minimum to the maximum.
pub const QUANTILES: usize = 11;
/// Longest text that is read as families, bytes: 4 MiB, for about a thousand families.
pub const MAX_FAMILIES: usize = 4 << 20;
/// Longest name of a family, bytes.
const MAX_NAME: usize = 100;
/// Largest number of names listed in an error.
const LISTED_NAMES: usize = 20;

/// The level `index` as a multiple of the mean.
#[must_use]
pub fn level(index: usize) -> f64 {
    libm::exp2(MIN_LOG_SHARE + SPACING * index as f64)
}

/// The level nearest to `share` of the mean, on a logarithmic scale.
#[must_use]
pub fn nearest_level(share: f64) -> usize {
    let place = (libm::log2(share.max(1e-9)) - MIN_LOG_SHARE) / SPACING;
    (place.round().max(0.0) as usize).min(LEVELS - 1)
}

/// Error of a family on recordings that were not part of the fit: 0 means equal. Distances between distributions are
/// Kolmogorov-Smirnov statistics, 0 to 1. Each pair is the mean over the recordings, and the worst recording.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FitError {
    /// Number of recordings in the fit, and number held out.
    pub traces: (u32, u32),
    /// Distance of the rates over 100 ms, relative to each trace's mean. `None` if the recordings are coarser.
    pub rates_100ms: Option<(f64, f64)>,
    /// Distance of the rates over a second.
    pub rates_1s: (f64, f64),
    /// Distance of the rates over ten seconds.
    pub rates_10s: (f64, f64),
    /// Difference of the autocorrelation of the rate at a lag of one second.
    pub autocorrelation_1s: (f64, f64),
    /// Difference of the autocorrelation of the rate at a lag of five seconds.
    pub autocorrelation_5s: (f64, f64),
    /// Distance of the lengths of all outages. `None` without outages on either side.
    pub outage_lengths: Option<f64>,
}

/// Model of traces of one kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Family {
    /// Name of the family.
    pub name: String,
    /// Source of the recordings in the fit, or a note that there are none.
    pub provenance: String,
    /// Duration of a rate, milliseconds.
    pub step_ms: u32,
    /// Quantiles of the mean rates of traces, bit/s.
    pub mean_bps: Vec<f64>,
    /// Share of time at each level.
    pub occupancy: Vec<f64>,
    /// For each level, the probabilities of the levels in the next step.
    pub transitions: Vec<Vec<f64>>,
    /// For each level, mean and deviation of the natural logarithm of the rate relative to the level.
    pub within: Vec<(f64, f64)>,
    /// Probability that an outage begins in a step.
    pub outage_start: f64,
    /// Quantiles of the lengths of outages, in steps.
    pub outage_steps: Vec<f64>,
    /// Error on held-out recordings. `None` if not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_out: Option<FitError>,
}

/// Value of ascending `quantiles` at `share` (0 to 1), interpolated linearly.
fn at_share(quantiles: &[f64], share: f64) -> f64 {
    let place = share * (quantiles.len() - 1) as f64;
    let low = (place as usize).min(quantiles.len() - 1);
    let high = (low + 1).min(quantiles.len() - 1);
    quantiles[low] + (place - low as f64) * (quantiles[high] - quantiles[low])
}

/// An index drawn with these probabilities.
fn drawn(probabilities: &[f64], draw: f64) -> usize {
    let mut left = draw * probabilities.iter().sum::<f64>();
    for (index, &probability) in probabilities.iter().enumerate() {
        left -= probability;
        if left < 0.0 {
            return index;
        }
    }
    probabilities.iter().rposition(|&probability| probability > 0.0).unwrap_or(0)
}

impl Family {
    /// Checks the name of a family. It must fit into a trace description and on one line.
    ///
    /// # Errors
    /// Why the name is invalid.
    pub fn check_name(name: &str) -> Result<(), String> {
        let why = if name.is_empty() {
            "a family has no name"
        } else if name.len() > MAX_NAME {
            "the name of a family has more than 100 bytes"
        } else if name.trim() != name || name.contains(|letter: char| letter == ',' || letter.is_control()) {
            "the name of a family has a comma, a control character, or surrounding spaces"
        } else {
            return Ok(());
        };
        Err(format!("{why}: {:?}", excerpt(name)))
    }

    /// Checks the name and the numbers.
    ///
    /// # Errors
    /// What is invalid.
    pub fn validate(&self) -> Result<(), String> {
        Self::check_name(&self.name)?;
        let wrong = |what: &str| Err(format!("family {}: {what}", self.name));
        let share = |value: &f64| (0.0..=1.0 + 1e-9).contains(value);
        let rising = |values: &[f64]| {
            values.iter().all(|value| value.is_finite() && *value >= 0.0)
                && values.windows(2).all(|pair| pair[0] <= pair[1])
        };
        if !(1..=60_000).contains(&self.step_ms) {
            return wrong("step_ms must be from 1 to 60,000");
        }
        if self.mean_bps.len() != QUANTILES || !rising(&self.mean_bps) || self.mean_bps[0] < 1.0 {
            return wrong("mean_bps must be 11 ascending rates");
        }
        if self.mean_bps[QUANTILES - 1] > MAX_RATE.as_bps() as f64 {
            return wrong("mean_bps exceeds the largest rate of a link");
        }
        if self.outage_steps.len() != QUANTILES || !rising(&self.outage_steps) || !share(&self.outage_start) {
            return wrong("outages must be a probability and 11 ascending lengths");
        }
        let row = |row: &Vec<f64>| row.len() == LEVELS && row.iter().all(share);
        if !row(&self.occupancy) || self.occupancy.iter().sum::<f64>() <= 0.0 {
            return wrong("occupancy must have one probability per level");
        }
        if self.transitions.len() != LEVELS || !self.transitions.iter().all(row) {
            return wrong("transitions must have one probability per pair of levels");
        }
        let bounded = |&(mean, deviation): &(f64, f64)| mean.abs() <= 5.0 && (0.0..=3.0).contains(&deviation);
        if self.within.len() != LEVELS || !self.within.iter().all(bounded) {
            return wrong("within must have one mean and deviation per level");
        }
        Ok(())
    }

    /// Generates a trace of `duration`. Equal seeds give equal traces. `mean` replaces the random mean.
    ///
    /// # Errors
    /// [`TraceError::NoTime`], [`TraceError::TooManySegments`], [`TraceError::TooLong`].
    pub fn trace(&self, duration: Duration, seed: u64, mean: Option<Bitrate>) -> Result<Trace, TraceError> {
        let step = Duration::from_millis(u64::from(self.step_ms));
        let steps = duration.as_nanos().div_ceil(step.as_nanos().max(1));
        if duration.is_zero() {
            return Err(TraceError::NoTime);
        }
        if steps > MAX_SEGMENTS as u128 {
            return Err(TraceError::TooManySegments);
        }
        let mut generator = generator(seed, Purpose::FittedTrace);
        let drawn_mean = libm::exp(at_share(
            &self.mean_bps.iter().map(|&mean| libm::log(mean)).collect::<Vec<_>>(),
            generator.random(),
        ));
        let mean = mean.map_or(drawn_mean, |mean| mean.as_bps() as f64);
        let mut state = drawn(&self.occupancy, generator.random());
        let mut outage = 0.0;
        let mut segments = Vec::new();
        for _ in 0..steps {
            if outage <= 0.0 && happens(&mut generator, self.outage_start) {
                outage = at_share(&self.outage_steps, generator.random()).round().max(1.0);
            }
            let rate = if outage > 0.0 {
                outage -= 1.0;
                0.0
            } else {
                state = match self.transitions[state].iter().sum::<f64>() > 0.0 {
                    true => drawn(&self.transitions[state], generator.random()),
                    false => drawn(&self.occupancy, generator.random()),
                };
                let (shift, deviation) = self.within[state];
                mean * level(state) * libm::exp(shift + deviation * normal(&mut generator).clamp(-3.0, 3.0))
            };
            let rate = Bitrate::from_bps(rate as u64).min(MAX_RATE);
            segments.push(Segment { duration: step, rate, conditions: Conditions::NONE });
        }
        Trace::from_segments(&segments, End::Repeat)
    }
}

/// Families of a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Families {
    /// The families.
    pub families: Vec<Family>,
}

impl Families {
    /// The built-in families: `lockstep data fit` on the recordings that each names, a fifth (seed 1) held out.
    #[must_use]
    pub fn built_in() -> Self {
        // A test reads the file, so a build with a damaged file fails its tests.
        Self::from_json(include_str!("fitted.json")).unwrap_or_else(|_| Self { families: Vec::new() })
    }

    /// Reads families from JSON: the built-in ones, or the output of `lockstep data fit`.
    ///
    /// # Errors
    /// What is invalid, on one line. Texts longer than [`MAX_FAMILIES`] bytes are refused.
    pub fn from_json(text: &str) -> Result<Self, String> {
        if text.len() > MAX_FAMILIES {
            return Err(format!("a file of families must not have more than {MAX_FAMILIES} bytes"));
        }
        let families: Self = serde_json::from_str(text).map_err(|error| not_families(&error))?;
        families.families.iter().try_for_each(Family::validate)?;
        let mut names: Vec<&str> = families.families.iter().map(|family| family.name.as_str()).collect();
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(format!("duplicate name of a family: {}", pair[0])),
            None => Ok(families),
        }
    }

    /// The family called `name`.
    ///
    /// # Errors
    /// [`TraceError::Family`] with the known names if there is none.
    pub fn named(&self, name: &str) -> Result<&Family, TraceError> {
        self.families
            .iter()
            .find(|family| family.name == name)
            .ok_or_else(|| TraceError::Family { name: excerpt(name), known: self.names() })
    }

    /// The family called `name`, or the only one without a name.
    ///
    /// # Errors
    /// [`TraceError::Family`] for an unknown name, [`TraceError::NoFamily`] without a family.
    /// [`TraceError::ManyFamilies`] for several families and no name.
    pub fn named_or_only(&self, name: Option<&str>) -> Result<&Family, TraceError> {
        match (&self.families[..], name) {
            ([], _) => Err(TraceError::NoFamily),
            (_, Some(name)) => self.named(name),
            ([only], None) => Ok(only),
            (_, None) => Err(TraceError::ManyFamilies { known: self.names() }),
        }
    }

    /// The first [`LISTED_NAMES`] names, separated by commas.
    fn names(&self) -> String {
        let mut names: Vec<&str> = self.families.iter().map(|family| family.name.as_str()).collect();
        if names.len() > LISTED_NAMES {
            names.truncate(LISTED_NAMES);
            names.push("...");
        }
        names.join(", ")
    }
}

/// Why a text has no families, on one line. The text may have any length and any characters.
fn not_families(error: &serde_json::Error) -> String {
    const SHOWN: usize = 120;
    let (line, column) = (error.line(), error.column());
    let message = error.to_string();
    let message = message.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&message);
    let message: String = message.chars().filter(|letter| !letter.is_control()).take(SHOWN).collect();
    format!(
        "not families of traces as `lockstep data fit --output` writes them: {message} (line {line}, column {column})"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn built_in_families_have_a_provenance() {
        let families = Families::from_json(include_str!("fitted.json")).unwrap();
        for name in ["lte", "umts", "broadband", "wifi", "wired"] {
            assert!(!families.named(name).unwrap().provenance.is_empty(), "{name}");
        }
        assert!(families.named("dialup").is_err());
    }

    #[test]
    fn trace_depends_on_the_seed() {
        let families = Families::built_in();
        let minute = Duration::from_secs(60);
        for family in &families.families {
            let trace = |seed| family.trace(minute, seed, None).unwrap();
            assert_eq!(trace(7), trace(7));
            assert_ne!(trace(7), trace(8));
            assert_eq!(trace(7).period(), minute);
        }
        let lte = families.named("lte").unwrap();
        assert!(lte.trace(Duration::ZERO, 1, None).is_err());
        assert!(lte.trace(Duration::MAX, 1, None).is_err());
    }

    #[test]
    fn invalid_families_are_refused() {
        let family = Families::built_in().families[0].clone();
        let refused = |change: fn(&mut Family)| {
            let mut family = family.clone();
            change(&mut family);
            family.validate().unwrap_err()
        };
        assert!(refused(|family| family.step_ms = 0).contains("step_ms"));
        assert!(refused(|family| family.mean_bps.reverse()).contains("mean_bps"));
        assert!(refused(|family| family.outage_start = 2.0).contains("outages"));
        assert!(refused(|family| family.transitions.truncate(3)).contains("transitions"));
        assert!(refused(|family| family.within[0].1 = f64::NAN).contains("within"));
        assert!(refused(|family| family.occupancy = vec![0.0; LEVELS]).contains("occupancy"));
    }

    /// The text of a file with the family `lte`, modified by `change`.
    fn changed(change: impl FnOnce(&mut serde_json::Value)) -> String {
        let lte = Families::built_in().named("lte").unwrap().clone();
        let mut document = serde_json::to_value(Families { families: vec![lte] }).unwrap();
        change(&mut document);
        document.to_string()
    }

    #[test]
    fn families_survive_a_json_round_trip() {
        let families = Families::built_in();
        assert_eq!(Families::from_json(&serde_json::to_string(&families).unwrap()), Ok(families));
    }

    #[test]
    fn damaged_files_are_refused_with_an_error_on_one_line() {
        use serde_json::json;
        let family =
            |field: &'static str, value: serde_json::Value| changed(|document| document["families"][0][field] = value);
        let whole = changed(|_| ());
        for (text, why) in [
            (String::new(), "not families of traces"),
            ("10\n20\n".to_owned(), "not families of traces"),
            ("{}".to_owned(), "missing field `families`"),
            (r#"{"uplink": {"trace_pattern": []}}"#.to_owned(), "unknown field `uplink`"),
            (format!("{{\"{}\": 1}}", "x\\u001b".repeat(100_000)), "unknown field"),
            ("[".repeat(1_000_000), "line 1"),
            (" ".repeat(MAX_FAMILIES + 1), "more than 4194304 bytes"),
            (whole[..whole.len() / 2].to_owned(), "line 1"),
            (whole.replacen("\"outage_start\":", "\"outage_start\":NaN,\"x\":", 1), "line 1"),
            (whole.replacen("\"step_ms\":100", "\"step_ms\":1e999", 1), "number out of range"),
            (family("step_ms", json!(1u64 << 40)), "invalid value"),
            (family("step_ms", json!(-1)), "invalid value"),
            (family("mean_bps", json!([])), "mean_bps"),
            (family("mean_bps", json!(vec![1e300; QUANTILES])), "exceeds the largest rate"),
            (family("mean_bps", json!(vec![(); QUANTILES])), "invalid type: null"),
            (family("occupancy", json!([])), "occupancy"),
            (family("transitions", json!([])), "transitions"),
            (family("transitions", json!(vec![Vec::<f64>::new(); LEVELS])), "transitions"),
            (family("transitions", json!(vec![vec![-1.0; LEVELS]; LEVELS])), "transitions"),
            (family("within", json!(vec![(1e308, 1e308); LEVELS])), "within"),
            (family("outage_steps", json!([])), "outages"),
            (family("name", json!("")), "no name"),
            (family("name", json!("a,b")), "comma"),
            (family("name", json!("a\nb")), "control character"),
            (family("name", json!("n".repeat(101))), "more than 100 bytes"),
            (
                changed(|document| {
                    let twice = document["families"][0].clone();
                    document["families"].as_array_mut().unwrap().push(twice);
                }),
                "duplicate name of a family: lte",
            ),
        ] {
            let error = Families::from_json(&text).expect_err(why);
            assert!(error.contains(why), "{why}: {error}");
            assert!(error.len() < 400 && !error.contains(char::is_control), "{error}");
        }
    }

    #[test]
    fn file_with_several_families_requires_a_name() {
        let families = Families::built_in();
        assert_eq!(families.named_or_only(Some("umts")).unwrap().name, "umts");
        let error = families.named_or_only(None).unwrap_err().to_string();
        assert!(error.contains("several families") && error.contains("lte"), "{error}");
        let error = families.named_or_only(Some("dialup")).unwrap_err().to_string();
        assert!(error.contains("unknown family \"dialup\"") && error.contains("umts"), "{error}");
        let one = Families { families: vec![families.families[0].clone()] };
        assert_eq!(one.named_or_only(None).unwrap(), &one.families[0]);
        let none = Families { families: Vec::new() };
        assert_eq!(none.named_or_only(Some("lte")), Err(TraceError::NoFamily));
    }

    proptest! {
        #[test]
        fn valid_families_give_traces_of_the_requested_length(
            field in prop::sample::select(vec!["step_ms", "mean_bps", "occupancy", "outage_start", "outage_steps"]),
            inner in any::<prop::sample::Index>(),
            value in prop_oneof![
                Just(0.0), Just(1.0), Just(-1.0), Just(5e-324), Just(f64::MAX), 0.0..2.0, 0.0..1e13,
            ],
            seed in any::<u64>(),
        ) {
            let text = changed(|document| match &mut document["families"][0][field] {
                serde_json::Value::Array(values) => *inner.get_mut(values) = value.into(),
                number => *number = if value.fract() == 0.0 { (value as i64).into() } else { value.into() },
            });
            if let Ok(families) = Families::from_json(&text) {
                let family = &families.families[0];
                let step = Duration::from_millis(u64::from(family.step_ms));
                let trace = family.trace(20 * step, seed, None).unwrap();
                prop_assert_eq!(trace.period(), 20 * step);
            }
        }

        #[test]
        fn changed_byte_never_panics(at in any::<prop::sample::Index>(), byte in 0x20u8..0x7f) {
            let mut text = changed(|_| ()).into_bytes();
            *at.get_mut(&mut text) = byte;
            if let Ok(families) = Families::from_json(std::str::from_utf8(&text).unwrap()) {
                let _ = families.families[0].trace(Duration::from_secs(10), 1, None);
            }
        }
    }
}
