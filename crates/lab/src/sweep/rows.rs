//! The rows of a sweep: all settings and all scores of each call.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;
use serde_json::{Map, Value};

use lockstep_call::{DelayScores, mean};
use lockstep_measure::Scores;
use lockstep_runner::parquet_table::{self, Values};

use super::jobs::Job;

/// The first column: name of the controller with its model or estimator.
pub const NAME: &str = "name";

/// The second column: version of the command that ran the call.
pub const VERSION: &str = "lockstep";

/// The first settings; the others follow by name.
const FIRST: [&str; 6] = ["controller", "codec", "trace", "seed", "clip", "seconds"];

/// Integer settings that may be null in every row. Other settings without values are text.
const WHOLE_NUMBERS: [&str; 3] = ["fit_passes", "queue_bytes", "queue_packets"];

/// Text of a setting: JSON for lists, empty for null.
fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

/// The values of the setting `name` as a column of their type.
fn column(name: &str, values: &[&Value]) -> Values {
    let every = |is: fn(&Value) -> bool| {
        let mut there = values.iter().filter(|value| !value.is_null()).peekable();
        there.peek().is_some() && there.all(|value| is(value))
    };
    let whole = |value: &Value| value.is_i64() || value.is_u64();
    if every(whole) || (values.iter().all(|value| value.is_null()) && WHOLE_NUMBERS.contains(&name)) {
        return Values::Integers(values.iter().map(|value| value.as_i64()).collect());
    }
    if every(Value::is_number) {
        return Values::Numbers(values.iter().map(|value| value.as_f64()).collect());
    }
    // A missing flag is false.
    if every(Value::is_boolean) {
        return Values::Flags(values.iter().map(|value| value.as_bool().unwrap_or(false)).collect());
    }
    Values::Texts(values.iter().map(|value| text(value)).collect())
}

/// Column of the setting `name`: the name itself, or with a suffix if a score has this name.
pub fn column_name(name: &str) -> String {
    let is_score = SCORES.iter().any(|(score, _)| *score == name);
    if is_score { format!("{name}_asked") } else { name.to_owned() }
}

/// Every setting of these calls as a column. A setting with the name of a score gets the suffix `_asked`: `vmaf_asked`
/// is whether VMAF was requested.
fn settings<'a>(jobs: impl Iterator<Item = &'a Job>) -> Vec<(String, Values)> {
    let rows: Vec<Map<String, Value>> = jobs.map(Job::settings).collect();
    let first = FIRST.map(str::to_owned);
    let others: BTreeSet<&String> = rows.iter().flat_map(Map::keys).filter(|name| !first.contains(name)).collect();
    let column = |name: &String| {
        let values: Vec<&Value> = rows.iter().map(|row| row.get(name).unwrap_or(&Value::Null)).collect();
        (column_name(name), column(name, &values))
    };
    first.iter().chain(others).map(column).collect()
}

fn p50(delay: Option<DelayScores>) -> Option<f64> {
    delay.map(|delay| delay.p50)
}

fn middle(delay: Option<DelayScores>) -> Option<f64> {
    delay.map(|delay| delay.mean)
}

fn p95(delay: Option<DelayScores>) -> Option<f64> {
    delay.map(|delay| delay.p95)
}

pub type Score = fn(&Scores) -> Option<f64>;

/// The scores, named as in the JSON of a call, with `_` for each level.
pub const SCORES: &[(&str, Score)] = &[
    ("scored_seconds", |scores| Some(scores.scored_seconds)),
    ("video_delay_ms_p50", |scores| p50(scores.video_delay_ms)),
    ("video_delay_ms_mean", |scores| middle(scores.video_delay_ms)),
    ("video_delay_ms_p95", |scores| p95(scores.video_delay_ms)),
    ("displayed_delay_ms_p50", |scores| p50(scores.displayed_delay_ms)),
    ("displayed_delay_ms_mean", |scores| middle(scores.displayed_delay_ms)),
    ("displayed_delay_ms_p95", |scores| p95(scores.displayed_delay_ms)),
    ("video_delay_floor_ms_p50", |scores| p50(scores.video_delay_floor_ms)),
    ("video_delay_floor_ms_mean", |scores| middle(scores.video_delay_floor_ms)),
    ("video_delay_floor_ms_p95", |scores| p95(scores.video_delay_floor_ms)),
    ("near_floor", |scores| scores.near_floor),
    ("ssim_db_p25", |scores| scores.ssim_db.map(|ssim| ssim.p25)),
    ("ssim_db_mean", |scores| scores.ssim_db.map(|ssim| ssim.mean)),
    ("psnr_db_mean", |scores| scores.psnr_db.map(|psnr| psnr.mean)),
    ("text_ssim_db", |scores| scores.text_ssim_db),
    ("throughput_bps", |scores| Some(scores.throughput_bps as f64)),
    ("link_utilisation", |scores| Some(scores.link_utilisation)),
    ("one_way_delay_ms_p50", |scores| p50(scores.one_way_delay_ms)),
    ("one_way_delay_ms_mean", |scores| middle(scores.one_way_delay_ms)),
    ("one_way_delay_ms_p95", |scores| p95(scores.one_way_delay_ms)),
    ("queueing_delay_ms_p50", |scores| p50(scores.queueing_delay_ms)),
    ("queueing_delay_ms_mean", |scores| middle(scores.queueing_delay_ms)),
    ("queueing_delay_ms_p95", |scores| p95(scores.queueing_delay_ms)),
    ("packet_loss", |scores| scores.packet_loss),
    ("frames_captured", |scores| Some(scores.frames.captured as f64)),
    ("frames_sent", |scores| Some(scores.frames.sent as f64)),
    ("frames_skipped", |scores| Some(scores.frames.skipped as f64)),
    ("frames_displayed", |scores| Some(scores.frames.displayed as f64)),
    ("frames_key", |scores| Some(scores.frames.key as f64)),
    ("frames_recovery", |scores| Some(scores.frames.recovery as f64)),
    ("fill", |scores| scores.fill),
    ("overshoot_ratio", |scores| scores.overshoot_ratio),
    ("frames_per_second", |scores| Some(scores.frames_per_second)),
    ("harmonic_frame_rate", |scores| scores.harmonic_frame_rate),
    ("freezes_count", |scores| Some(scores.freezes.count as f64)),
    ("freezes_total_seconds", |scores| Some(scores.freezes.total_seconds)),
    ("freezes_longest_seconds", |scores| Some(scores.freezes.longest_seconds)),
    ("stall_minutes_per_hour", |scores| Some(scores.stall_minutes_per_hour)),
    ("qoe_p", |scores| scores.qoe_p),
    ("qoe_d", |scores| scores.qoe_d),
    ("qoe_d_bound", |scores| scores.qoe_d_bound),
    ("qoe_d_schedule", |scores| scores.qoe_d_schedule),
    ("target_smoothness_bps", |scores| scores.target_smoothness_bps),
    ("estimate_smape_percent", |scores| scores.estimate_smape_percent),
    ("estimate_smape", |scores| scores.estimate_smape),
    ("estimate_accuracy", |scores| scores.estimate_accuracy),
    ("network_delay", |scores| scores.network.map(|network| network.delay)),
    ("network_rate", |scores| scores.network.map(|network| network.rate)),
    ("network_loss", |scores| scores.network.map(|network| network.loss)),
    ("network_challenge", |scores| scores.network.map(|network| network.challenge)),
    ("network_bob", |scores| scores.network.map(|network| network.bob)),
    ("vmaf", |scores| scores.vmaf),
    ("total_challenge", |scores| scores.total.map(|total| total.challenge)),
    ("total_bob", |scores| scores.total.map(|total| total.bob)),
];

/// Writes one row per call.
pub fn write(path: &Path, rows: &[(&Job, Scores)]) -> Result<()> {
    let settings = settings(rows.iter().map(|(job, _)| *job));
    let scores = SCORES.iter().map(|(name, score)| {
        let values = rows.iter().map(|(_, scores)| score(scores)).collect();
        ((*name).to_owned(), Values::Numbers(values))
    });
    let names = rows.iter().map(|(job, _)| job.name.clone()).collect();
    let versions = vec![env!("CARGO_PKG_VERSION").to_owned(); rows.len()];
    let names = [(NAME.to_owned(), Values::Texts(names)), (VERSION.to_owned(), Values::Texts(versions))].into_iter();
    let columns: Vec<(String, Values)> = names.chain(settings).chain(scores).collect();
    parquet_table::write(path, "call", columns, &[])
}

/// The heading of the bound on QoE_d.
const BOUND: &str = "bound";

/// Columns of the table on the terminal: heading, digits, score.
const SHOWN: &[(&str, usize, Score)] = &[
    ("delay p50", 0, |scores| p50(scores.video_delay_ms)),
    ("p95 ms", 0, |scores| p95(scores.video_delay_ms)),
    ("SSIM dB", 2, |scores| scores.ssim_db.map(|ssim| ssim.mean)),
    ("Mb/s", 2, |scores| Some(scores.throughput_bps as f64 * 1e-6)),
    ("link %", 0, |scores| Some(100.0 * scores.link_utilisation)),
    ("queue p95", 0, |scores| p95(scores.queueing_delay_ms)),
    ("loss %", 2, |scores| scores.packet_loss.map(|loss| 100.0 * loss)),
    ("stall m/h", 1, |scores| Some(scores.stall_minutes_per_hour)),
    ("QoE_d", 2, |scores| scores.qoe_d),
    (BOUND, 2, |scores| scores.qoe_d_bound),
    ("challenge", 1, |scores| scores.network.map(|network| network.challenge)),
    ("BoB", 1, |scores| scores.network.map(|network| network.bob)),
];

/// Prints the mean of each score over the calls of each controller and codec.
pub fn print(rows: &[(&Job, Scores)]) {
    let mut groups: BTreeMap<(String, &str), Vec<&Scores>> = BTreeMap::new();
    for (job, scores) in rows {
        groups.entry((job.name.clone(), job.codec.name())).or_default().push(scores);
    }
    let widest = groups.keys().map(|(controller, _)| controller.len()).max().unwrap_or(0).max("controller".len());
    // The bound has no column unless it was requested.
    let shown: Vec<_> = SHOWN
        .iter()
        .filter(|(heading, _, score)| *heading != BOUND || rows.iter().any(|(_, scores)| score(scores).is_some()))
        .collect();
    let headings: String = shown.iter().map(|(heading, ..)| format!("{heading:>11}")).collect();
    print_line!("{:<widest$}  {:<22}{:>6}{headings}", "controller", "codec", "calls");
    for ((controller, codec), calls) in groups {
        let values: String = shown
            .iter()
            .map(|&(_, digits, score)| {
                mean(calls.iter().filter_map(|scores| score(scores)))
                    .map_or_else(|| format!("{:>11}", "-"), |value| format!("{value:>11.digits$}"))
            })
            .collect();
        print_line!("{controller:<widest$}  {codec:<22}{:>6}{values}", calls.len());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::jobs::SweepCodec;
    use super::*;
    use lockstep_configuration::CallArguments;
    use lockstep_runner::parquet_table::Kind;

    #[test]
    fn settings_have_typed_columns_even_without_values() {
        let kind = |name: &str, values: &[Value]| column(name, &values.iter().collect::<Vec<_>>()).kind();
        for (name, values, expected) in [
            ("queue_bytes", &[Value::Null, json!(1_000)][..], Kind::Integers),
            ("queue_bytes", &[Value::Null, Value::Null], Kind::Integers),
            ("loss", &[json!(0.0), json!(0.5)], Kind::Numbers),
            ("vmaf", &[json!(false)], Kind::Flags),
            ("latency", &[Value::Null], Kind::Texts),
            ("latency", &[Value::Null, json!("low")], Kind::Texts),
        ] {
            assert_eq!(kind(name, values), expected, "{name}");
        }
        let values = [Value::Null, json!([0.01, 0.3]), json!("x")];
        let Values::Texts(texts) = column("burst_loss", &values.iter().collect::<Vec<_>>()) else { panic!("no texts") };
        assert_eq!(texts, ["", "[0.01,0.3]", "x"]);
    }

    #[test]
    fn columns_are_unique() {
        let call = CallArguments::default().settings().unwrap();
        let job = Job::new(String::new(), SweepCodec::Functional, call);
        let columns = settings([&job].into_iter());
        let mut names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
        names.extend(SCORES.iter().map(|(name, _)| *name).chain([NAME, VERSION]));
        let different: BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!(different.len(), names.len(), "{names:?}");
        assert!(names.contains(&"vmaf") && names.contains(&"vmaf_asked"));
    }
}
