//! The oracle is the yardstick of the other controllers: none of them beats it by more than a hundredth.

use std::num::NonZero;
use std::path::PathBuf;
use std::thread::available_parallelism;

use lockstep_call::CodecModel;
use lockstep_configuration::{CallOptions, simulate_modelled};
use lockstep_sim::in_parallel;

const RIVALS: [&str; 8] = ["salsify", "gcc", "bob-heuristic", "nada", "scream", "sprout", "copa", "lockstep"];

/// Of the oracle's QoE_d, what another may have more.
const MARGIN: f64 = 0.01;

const GENERATED: [&str; 12] = [
    "constant:300kbps",
    "constant:1mbps",
    "constant:5mbps",
    "steps:1mbps@10s/300kbps@10s/3mbps@10s",
    "steps:2mbps@20s/150kbps@5s",
    "cellular:mean=500kbps,seed=1",
    "cellular:mean=1mbps,seed=2",
    "cellular:mean=3mbps,seed=7,outage-every=10s",
    "cellular:mean=8mbps,seed=3",
    "ramp:100kbps-5mbps,duration=60s",
    "poisson:570kbps,seed=7",
    "constant:1mbps,outage=10s+3s,outage=30s+8s,outage=45s+500ms",
];

/// How many of the shared traces are tried: a minute's worth.
const SHARED: usize = 24;

/// QoE_d of a modelled call of a minute; none where nothing was shown.
fn quality(trace: &str, codec: &str, controller: &str) -> Option<f64> {
    quality_with(&[("trace", trace), ("codec", codec), ("controller", controller)])
}

fn quality_with(words: &[(&str, &str)]) -> Option<f64> {
    let mut options = CallOptions::default();
    for &(name, word) in words.iter().chain(&[("seconds", "60"), ("modelled", "true")]) {
        options.set_words(name, &[word.to_owned()]).unwrap();
    }
    let model = CodecModel::built_in().unwrap();
    simulate_modelled(&options.settings().unwrap(), &model).unwrap().report.scores.qoe_d
}

/// Runs everything on `traces` and gives what beats the oracle by more than the margin, in words.
fn beaten(traces: &[String]) -> Vec<String> {
    let jobs: Vec<(&str, &str, &str)> = traces
        .iter()
        .flat_map(|trace| ["functional", "conventional"].map(|codec| (trace.as_str(), codec)))
        .flat_map(|(trace, codec)| RIVALS.iter().chain(&["oracle"]).map(move |&name| (trace, codec, name)))
        .collect();
    let mut found = vec![None; jobs.len()];
    let workers = available_parallelism().unwrap_or(NonZero::<usize>::MIN);
    let call = |&(trace, codec, name): &(&str, &str, &str)| quality(trace, codec, name);
    in_parallel(&jobs, workers, call, |index, quality| {
        found[index] = quality;
        true
    });
    let group = RIVALS.len() + 1;
    let mut misses = Vec::new();
    for (jobs, found) in jobs.chunks(group).zip(found.chunks(group)) {
        let (trace, codec, _) = jobs[0];
        let oracle = found[group - 1].unwrap_or(f64::NEG_INFINITY);
        for (job, quality) in jobs.iter().zip(&found[..group - 1]) {
            if let Some(quality) = quality.filter(|quality| quality - oracle > MARGIN * oracle.abs()) {
                misses.push(format!("{trace}, {codec}: {} has {quality:.3}, the oracle {oracle:.3}", job.2));
            }
        }
    }
    misses
}

#[test]
fn no_controller_beats_the_oracle_by_more_than_a_hundredth_on_generated_traces() {
    let misses = beaten(&GENERATED.map(str::to_owned));
    assert!(misses.is_empty(), "{}", misses.join("\n"));
}

#[test]
fn nor_on_recorded_ones_where_there_are_any() {
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let root = std::env::var_os("LOCKSTEP_SHARED").map_or(beside, PathBuf::from).join("traces");
    let mut files = Vec::new();
    for folder in ["mahimahi", "alphartc", "bob-profiles", "norway-3g", "fcc"] {
        let Ok(entries) = std::fs::read_dir(root.join(folder)) else { continue };
        files.extend(entries.filter_map(|entry| Some(entry.ok()?.path().to_str()?.to_owned())));
    }
    if files.is_empty() {
        eprintln!("no recorded traces in {}: not tried", root.display());
        return;
    }
    files.sort();
    // Every so many-th of them, from a place that a constant chose: all folders are met.
    let step = files.len().div_ceil(SHARED).max(1);
    let sample: Vec<String> = files.into_iter().skip(3).step_by(step).collect();
    let misses = beaten(&sample);
    assert!(misses.is_empty(), "{}", misses.join("\n"));
}

/// Calls that are unlike the others: pictures that are far apart, and queues that hold next to nothing.
#[test]
fn nor_where_pictures_are_far_apart_or_the_queue_holds_a_packet() {
    let far_apart = ["1", "2", "5"].map(|rate| {
        ["constant:200kbps", "constant:1mbps", "cellular:mean=1mbps,seed=3"]
            .map(|trace| vec![("trace", trace.to_owned()), ("clip", format!("generated:640x360@{rate}"))])
    });
    let short = ["1", "4"].map(|packets| {
        ["constant:500kbps", "constant:10mbps"]
            .map(|trace| vec![("trace", trace.to_owned()), ("queue_packets", packets.to_owned())])
    });
    for call in far_apart.into_iter().flatten().chain(short.into_iter().flatten()) {
        let words: Vec<(&str, &str)> = call.iter().map(|(name, word)| (*name, word.as_str())).collect();
        let quality = |name| quality_with(&[&words[..], &[("controller", name)]].concat()).unwrap_or(f64::NEG_INFINITY);
        let oracle = quality("oracle");
        for rival in RIVALS {
            let quality = quality(rival);
            let beaten = quality - oracle > MARGIN * oracle.abs();
            assert!(!beaten, "{words:?}: {rival} has {quality:.3}, the oracle {oracle:.3}");
        }
    }
}

/// Which packets are lost is luck, and the oracle has no more of it than others: it is all clips together that count. With one
/// of them it once sent nothing for most of the call, because what is known of the path from losses held its packets back.
#[test]
fn nor_where_half_of_all_packets_are_lost() {
    let seeds: Vec<String> = (1..=20).map(|seed| seed.to_string()).collect();
    let mean = |controller: &str| {
        let call = |seed: &String| {
            let path = [("trace", "constant:1mbps"), ("loss", "50%"), ("clip", "generated:1280x720@30")];
            quality_with(&[&path[..], &[("controller", controller), ("seed", seed)]].concat())
        };
        let workers = available_parallelism().unwrap_or(NonZero::<usize>::MIN);
        let mut sum = 0.0;
        in_parallel(&seeds, workers, call, |_, quality| {
            sum += quality.unwrap_or(f64::NEG_INFINITY);
            true
        });
        sum / seeds.len() as f64
    };
    let oracle = mean("oracle");
    for rival in RIVALS {
        let quality = mean(rival);
        println!("{rival} {quality:.3}, the oracle {oracle:.3}");
        assert!(quality - oracle <= MARGIN * oracle.abs(), "{rival} has {quality:.3}, the oracle {oracle:.3}");
    }
}
