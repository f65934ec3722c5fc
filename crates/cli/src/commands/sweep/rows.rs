//! The rows of a sweep: what was run, and every score of it.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use clap::ValueEnum;

use lockstep_call::{DelayScores, Scores, mean};

use super::jobs::Job;
use crate::output_file;
use crate::parquet_table::{self, Values};

/// A column of what was run.
enum Told {
    Text(fn(&Job) -> String),
    Integer(fn(&Job) -> Option<u64>),
    Number(fn(&Job) -> f64),
    Optional(fn(&Job) -> Option<f64>),
}

fn path_text(path: &Path) -> String {
    path.display().to_string()
}

fn name(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

const TOLD: &[(&str, Told)] = &[
    ("controller", Told::Text(|job| job.call.control.controller.clone())),
    ("codec", Told::Text(|job| job.codec.name().to_owned())),
    ("trace", Told::Text(|job| job.call.link.trace.clone())),
    ("seed", Told::Integer(|job| Some(job.call.link.seed))),
    ("clip", Told::Text(|job| job.call.clip.clone())),
    ("seconds", Told::Number(|job| job.call.seconds)),
    ("reverse", Told::Text(|job| job.call.link.reverse.clone().unwrap_or_default())),
    ("delay_ms", Told::Number(|job| job.call.link.delay_ms)),
    ("queue", Told::Text(|job| name(&job.call.link.queue))),
    ("queue_packets", Told::Integer(|job| Some(u64::from(job.call.link.queue_packets)))),
    ("queue_bytes", Told::Integer(|job| job.call.link.queue_bytes)),
    ("loss", Told::Number(|job| job.call.link.loss)),
    ("reverse_loss", Told::Number(|job| job.call.link.reverse_loss)),
    ("jitter_ms", Told::Number(|job| job.call.link.jitter_ms)),
    ("encode_time", Told::Text(|job| job.call.encode_time.as_deref().map_or_else(String::new, path_text))),
    ("encode_ms", Told::Optional(|job| job.call.encode_ms)),
    ("decode_ms", Told::Number(|job| job.call.decode_ms)),
    ("preset", Told::Text(|job| name(&job.call.control.preset))),
];

fn p50(delay: Option<DelayScores>) -> Option<f64> {
    delay.map(|delay| delay.p50)
}

fn middle(delay: Option<DelayScores>) -> Option<f64> {
    delay.map(|delay| delay.mean)
}

fn p95(delay: Option<DelayScores>) -> Option<f64> {
    delay.map(|delay| delay.p95)
}

type Score = fn(&Scores) -> Option<f64>;

/// The scores, named as in a call's JSON, with `_` for each step into it.
const SCORES: &[(&str, Score)] = &[
    ("scored_seconds", |scores| Some(scores.scored_seconds)),
    ("video_delay_ms_p50", |scores| p50(scores.video_delay_ms)),
    ("video_delay_ms_mean", |scores| middle(scores.video_delay_ms)),
    ("video_delay_ms_p95", |scores| p95(scores.video_delay_ms)),
    ("video_delay_floor_ms_p50", |scores| p50(scores.video_delay_floor_ms)),
    ("video_delay_floor_ms_mean", |scores| middle(scores.video_delay_floor_ms)),
    ("video_delay_floor_ms_p95", |scores| p95(scores.video_delay_floor_ms)),
    ("near_floor", |scores| scores.near_floor),
    ("ssim_db_p25", |scores| scores.ssim_db.map(|ssim| ssim.p25)),
    ("ssim_db_mean", |scores| scores.ssim_db.map(|ssim| ssim.mean)),
    ("psnr_db_mean", |scores| scores.psnr_db.map(|psnr| psnr.mean)),
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
    ("stall_minutes_per_hour", |scores| Some(scores.stall_minutes_per_hour)),
    ("qoe_p", |scores| scores.qoe_p),
    ("qoe_d", |scores| scores.qoe_d),
    ("target_smoothness_bps", |scores| scores.target_smoothness_bps),
    ("estimate_smape_percent", |scores| scores.estimate_smape_percent),
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

/// Writes one row a call.
pub fn write(path: &Path, rows: &[(&Job, &Scores)]) -> Result<()> {
    let jobs = || rows.iter().map(|(job, _)| *job);
    let integer = |value: Option<u64>| value.and_then(|value| i64::try_from(value).ok());
    let told = TOLD.iter().map(|(name, told)| {
        let values = match told {
            Told::Text(value) => Values::Texts(jobs().map(value).collect()),
            Told::Integer(value) => Values::Integers(jobs().map(|job| integer(value(job))).collect()),
            Told::Number(value) => Values::Numbers(jobs().map(|job| Some(value(job))).collect()),
            Told::Optional(value) => Values::Numbers(jobs().map(value).collect()),
        };
        (*name, values)
    });
    let scores = SCORES.iter().map(|(name, score)| {
        let values = rows.iter().map(|(_, scores)| score(scores)).collect();
        (*name, Values::Numbers(values))
    });
    let columns: Vec<(&str, Values)> = told.chain(scores).collect();
    output_file::write(path, |output| parquet_table::write(output, "call", columns))
}

/// What the table on the terminal shows of each controller and codec: heading, digits, score.
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
    ("challenge", 1, |scores| scores.network.map(|network| network.challenge)),
    ("BoB", 1, |scores| scores.network.map(|network| network.bob)),
];

/// Prints the mean of each score over the calls of each controller and codec.
pub fn print(rows: &[(&Job, &Scores)]) {
    let mut groups: BTreeMap<(&str, &str), Vec<&Scores>> = BTreeMap::new();
    for (job, scores) in rows {
        groups.entry((&job.call.control.controller, job.codec.name())).or_default().push(scores);
    }
    let widest = groups.keys().map(|(controller, _)| controller.len()).max().unwrap_or(0).max("controller".len());
    let headings: String = SHOWN.iter().map(|(heading, ..)| format!("{heading:>11}")).collect();
    say!("{:<widest$}  {:<22}{:>6}{headings}", "controller", "codec", "calls");
    for ((controller, codec), calls) in groups {
        let values: String = SHOWN
            .iter()
            .map(|(_, digits, score)| {
                let values: Vec<f64> = calls.iter().filter_map(|scores| score(scores)).collect();
                mean(&values).map_or_else(|| format!("{:>11}", "-"), |value| format!("{value:>11.digits$}"))
            })
            .collect();
        say!("{controller:<widest$}  {codec:<22}{:>6}{values}", calls.len());
    }
}
