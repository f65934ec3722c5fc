//! Tests the direction of the findings of `lockstep sources` on other links and seeds.

use lockstep_configuration::{CallArguments, Seconds};

use super::designs::{FRAMES, THEN, VIDEO, WITHOUT_BURSTS};
use super::*;

fn given() -> CallSettings {
    let mut given = CallArguments::default().settings().expect("the usual settings are good");
    given.length = Seconds::whole(60);
    given
}

fn calls(traces: &[&str], seeds: &[u64], wanted: &[(&str, &str)]) -> Vec<Call> {
    let traces: Vec<TraceName> = traces.iter().map(|&trace| TraceName::from(trace)).collect();
    let calls = calls_over(&traces, seeds, false).expect("generated traces");
    calls.into_iter().filter(|call| wanted.contains(&(call.control, call.source))).collect()
}

/// Mean of a score over cellular links.
fn over_links(control: &'static str, source: &'static str, figure: fn(&Row) -> f64) -> f64 {
    let traces = ["cellular:mean=1.8mbps,seed=31", "cellular:mean=2.7mbps,seed=32", "cellular:mean=4.4mbps,seed=33"];
    let given = given();
    let rows = calls(&traces, &[11, 12], &[(control, source)]).iter().map(|call| call.run(&given)).collect::<Vec<_>>();
    mean(rows.into_iter().map(|row| figure(&row.expect("a call of a minute")))).expect("calls")
}

fn throughput(row: &Row) -> f64 {
    row.scores.throughput_bps as f64
}

fn delay(row: &Row) -> f64 {
    row.scores.one_way_delay_ms.map_or(0.0, |delay| delay.mean)
}

fn samples(row: &Row) -> f64 {
    row.samples_a_second.unwrap_or(0.0)
}

#[test]
fn without_bursts_video_has_less_throughput_and_more_delay() {
    for control in [WITHOUT_BURSTS, THEN] {
        let (video, full) = (over_links(control, VIDEO, throughput), over_links(control, FULL_THROTTLE, throughput));
        assert!(video < 0.97 * full, "{control}: {video} of {full}");
        let (video, full) = (over_links(control, VIDEO, delay), over_links(control, FULL_THROTTLE, delay));
        assert!(video > 1.1 * full, "{control}: {video} of {full}");
        let (video, full) = (over_links(control, VIDEO, samples), over_links(control, FULL_THROTTLE, samples));
        assert!(video < 0.7 * full, "{control}: {video} of {full}");
    }
}

#[test]
fn bursts_give_video_more_throughput_and_more_delay() {
    let (with, without) = (over_links(TODAY, VIDEO, throughput), over_links(WITHOUT_BURSTS, VIDEO, throughput));
    assert!(with > 1.05 * without, "{with} with, {without} without");
    let (with, without) = (over_links(TODAY, VIDEO, delay), over_links(WITHOUT_BURSTS, VIDEO, delay));
    assert!(with > 1.2 * without, "{with} with, {without} without");
    let (with, without) = (over_links(TODAY, VIDEO, samples), over_links(WITHOUT_BURSTS, VIDEO, samples));
    assert!(with < 0.7 * without, "{with} with, {without} without");
}

#[test]
fn codec_slows_the_recovery() {
    let given = given();
    let back = |source| {
        let trace = "steps:1.5mbps@40s/400kbps@20s/1.5mbps@180s";
        let calls = calls(&[trace], &[11, 12, 13], &[(WITHOUT_BURSTS, source)]);
        let seconds = calls.iter().map(|call| call.recover(&given).expect("a call of four minutes").recovery.seconds);
        mean(seconds).expect("calls")
    };
    let (full, frames, video) = (back(FULL_THROTTLE), back(FRAMES), back(VIDEO));
    assert!(video > 1.3 * full, "{video} s of video, {full} s of full throttle");
    assert!(video > 1.3 * frames, "{video} s of video, {frames} s of frames");
}

#[test]
fn video_under_current_gcc_equals_simulate() {
    let given = given();
    for call in calls(&["cellular:mean=2mbps,seed=40"], &[21], &[(TODAY, VIDEO)]) {
        let studied = call.run(&given).expect("a call").scores;
        let simulated = simulate(&call.settings(&given), |_| Ok(())).expect("a call").report.scores;
        let words = |scores: &Scores| serde_json::to_string(scores).expect("scores are words");
        assert_eq!(words(&studied), words(&simulated));
    }
}
