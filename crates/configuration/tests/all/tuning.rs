//! Tuned constants that a call overrides.

use lockstep_call::Tuning;
use lockstep_configuration::{CallArguments, Observers, Overrides, simulate_with};
use lockstep_measure::Scores;
use lockstep_units::tuning::constants;

/// A link with an outage, loss, a short queue and little capacity; then the options of a test.
fn call(options: &[(&str, &str)], overridden: Option<(&str, f64)>) -> Scores {
    let usual = [("modelled", "true"), ("clip", "generated:640x360@30"), ("seconds", "8"), ("audio", "tone")];
    let mut all = CallArguments::default();
    for (name, word) in usual.iter().chain(options) {
        all.set_values(name, &[(*word).to_owned()]).unwrap();
    }
    all.tuning = overridden.map(|(name, value)| {
        let mut overrides = Overrides::default();
        overrides.set(name, value).unwrap();
        overrides
    });
    simulate_with(&all.settings().unwrap(), None, Observers::default(), |_| Ok(())).unwrap().report.scores
}

const LOSSY: &[(&str, &str)] = &[("trace", "cellular:mean=1mbps,seed=3"), ("loss", "3%"), ("jitter_ms", "5")];
const OUTAGE: &[(&str, &str)] = &[("trace", "constant:1mbps,outage=3s+2s")];
const REORDERED: &[(&str, &str)] = &[("trace", "constant:2mbps"), ("reorder", "10%,30ms")];
const NARROW: &[(&str, &str)] = &[("trace", "constant:50kbps")];
const SHORT_QUEUE: &[(&str, &str)] = &[("trace", "constant:2mbps"), ("queue_packets", "5")];
const SLOW_FEEDBACK: &[(&str, &str)] = &[("trace", "constant:1mbps"), ("reverse", "constant:48kbps")];
const SLOW_DECODER: &[(&str, &str)] = &[("trace", "constant:3mbps"), ("decode_ms", "40")];
const FAST: &[(&str, &str)] = &[("trace", "constant:20mbps")];

/// A constant, another value of it, and the options of a call.
type Case = (&'static str, f64, &'static [(&'static str, &'static str)]);

/// A constant of each group with another value, and a call that depends on it.
const CASES: [Case; 21] = [
    ("path.window", 0.1, LOSSY),
    ("sprout.volatility", 2.0, LOSSY),
    ("rate_filter.first_dispersion", 4.0, LOSSY),
    ("jitter.weight", 0.5, LOSSY),
    ("lockstep.far", 0.01, LOSSY),
    ("silence.margin", 3.0, OUTAGE),
    ("probing.pause", 1.0, OUTAGE),
    ("loss.worth", 0.0, LOSSY),
    ("short_queue.used", 0.1, SHORT_QUEUE),
    ("narrow_path.rate", 10_000.0, NARROW),
    ("delivered.first_flight", 2_000.0, LOSSY),
    ("ceiling.bits_per_pixel", 0.1, FAST),
    ("rule.level", 0.2, LOSSY),
    ("loss_detection.most_time_threshold", 1.125, REORDERED),
    ("reverse_path.queue", 1.0, SLOW_FEEDBACK),
    ("waiting_sound.longest_held", 0.02, NARROW),
    ("narrow_way.picture", 0.02, NARROW),
    ("functional.aim", 0.4, LOSSY),
    ("size_curve.common_share", 0.05, LOSSY),
    ("frame_dropper.coarse", 0.0, LOSSY),
    ("decode_lag.least_feedback", 100.0, SLOW_DECODER),
];

#[test]
fn an_overridden_constant_of_each_group_changes_the_call() {
    for (name, value, options) in CASES {
        assert_ne!(call(options, Some((name, value))), call(options, None), "{name}");
    }
    // These groups require cross traffic, a path that becomes longer, or a screen, which no call of this test has.
    let is_single = |group: &str| !["cross_traffic", "claim", "path_delay", "screen"].contains(&group);
    for tuned in constants(&Tuning::default()).iter().filter(|tuned| is_single(tuned.group)) {
        assert!(CASES.iter().any(|(name, ..)| name.starts_with(&format!("{}.", tuned.group))), "{}", tuned.group);
    }
}

#[test]
fn constants_that_are_set_to_their_defaults_change_nothing() {
    let usual = call(LOSSY, None);
    let defaults = constants(&Tuning::default());
    for tuned in defaults.iter().filter(|tuned| tuned.group != "rule") {
        let mut overrides = Overrides::default();
        overrides.set(&tuned.name(), tuned.value).unwrap();
        assert_eq!(overrides.tuning(), Tuning::default(), "{tuned}");
    }
    let level = defaults.iter().find(|tuned| tuned.name() == "rule.level").unwrap();
    assert_eq!(call(LOSSY, Some(("rule.level", level.value))), usual);
}
