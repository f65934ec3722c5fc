//! No controller exceeds the upper bound on QoE_d of modelled calls.

use std::num::NonZero;
use std::path::PathBuf;
use std::thread::available_parallelism;

use lockstep_configuration::{CallArguments, CallSettings, simulate, simulate_modelled};
use lockstep_control::Algorithm;
use lockstep_sim::{CodecModel, QoeBound, in_parallel};

const GENERATED: [&str; 9] = [
    "constant:100kbps",
    "constant:1mbps",
    "constant:10mbps",
    "steps:1mbps@2s/300kbps@2s/3mbps@2s",
    "cellular:mean=500kbps,seed=1",
    "cellular:mean=3mbps,seed=7,outage-every=10s",
    "ramp:100kbps-5mbps,duration=60s",
    "poisson:570kbps,seed=7",
    "constant:1mbps,outage=1s+500ms,outage=3s+1s",
];
/// Conditions other than the trace.
const CONDITIONS: [&[(&str, &str)]; 5] = [
    &[],
    &[("codec", "conventional")],
    &[("loss", "5%"), ("delay_ms", "75")],
    &[("queue_packets", "4"), ("clip", "generated:1280x720@30")],
    &[("clip", "generated:640x360@5"), ("jitter_ms", "10"), ("reorder", "10%,20ms")],
];
/// Controllers of the quick test, one of each kind.
const FEW: [&str; 5] = ["hindsight", "lockstep", "sprout", "salsify", "gcc"];

/// One scenario, and the results of its calls.
#[derive(Debug)]
struct Case {
    name: String,
    bound: f64,
    schedule: Option<f64>,
    best: f64,
    best_controller: String,
    calls: usize,
    exceptions: Vec<String>,
}

fn settings(words: &[(&str, &str)]) -> CallSettings {
    let mut options = CallArguments::default();
    for &(name, word) in words.iter().chain(&[("modelled", "true")]) {
        options.set_values(name, &[word.to_owned()]).unwrap();
    }
    options.settings().unwrap()
}

/// Results of all `controllers` in one scenario; `None` if no controller shows a picture.
fn case(words: &[(&str, &str)], controllers: &[String]) -> Option<Case> {
    let model = CodecModel::built_in().unwrap();
    let QoeBound { qoe_d: bound, schedule, .. } = settings(words).qoe_bound(&model).unwrap()?;
    let quality = |controller: &String| {
        let settings = settings(&[words, &[("controller", controller)]].concat());
        Some((controller.clone(), simulate_modelled(&settings, &model).unwrap().report.scores.qoe_d?))
    };
    let qualities: Vec<(String, f64)> = controllers.iter().filter_map(quality).collect();
    let (best_controller, best) = qualities.iter().max_by(|one, other| one.1.total_cmp(&other.1))?.clone();
    let exceptions = qualities
        .iter()
        .filter(|(_, quality)| *quality > bound)
        .map(|(controller, quality)| format!("{words:?}: {controller} has {quality:.4}, the bound is {bound:.4}"))
        .chain(
            schedule.filter(|schedule| *schedule > bound).map(|schedule| format!("{words:?}: schedule {schedule:.4}")),
        )
        .collect();
    Some(Case {
        name: format!("{words:?}"),
        bound,
        schedule,
        best,
        best_controller,
        calls: qualities.len(),
        exceptions,
    })
}

/// Runs the scenarios on all cores, and passes each result to `seen`.
fn cases(scenarios: &[Vec<(&str, &str)>], controllers: &[String], seen: impl Fn(&Case)) -> Vec<Case> {
    let workers = available_parallelism().unwrap_or(NonZero::<usize>::MIN);
    let mut cases = Vec::new();
    in_parallel(
        scenarios,
        workers,
        |words| case(words, controllers),
        |_, case| {
            case.iter().for_each(&seen);
            cases.extend(case);
            true
        },
    );
    cases
}

/// The shared traces, if any.
fn recorded() -> Vec<String> {
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let root = std::env::var_os("LOCKSTEP_SHARED").map_or(beside, PathBuf::from).join("traces");
    let mut files = Vec::new();
    for folder in ["mahimahi", "alphartc", "bob-profiles", "norway-3g", "fcc"] {
        let Ok(entries) = std::fs::read_dir(root.join(folder)) else { continue };
        files.extend(entries.filter_map(|entry| Some(entry.ok()?.path().to_str()?.to_owned())));
    }
    files.sort();
    files
}

#[test]
fn no_controller_exceeds_the_bound_on_generated_traces() {
    let scenario = |(number, trace): (usize, &&'static str)| {
        let seed = ["1", "2", "3", "4", "5", "6", "7", "8", "9"][number];
        let call = [("trace", *trace), ("seconds", "4"), ("seed", seed)];
        [&call[..], CONDITIONS[number % CONDITIONS.len()]].concat()
    };
    let scenarios: Vec<_> = GENERATED.iter().enumerate().map(scenario).collect();
    let cases = cases(&scenarios, &FEW.map(str::to_owned), |_| ());
    assert_eq!(cases.len(), GENERATED.len());
    let exceptions: Vec<&String> = cases.iter().flat_map(|case| &case.exceptions).collect();
    assert!(exceptions.is_empty(), "{exceptions:#?}");
}

#[test]
fn report_has_the_bound_on_request() {
    let words = [("trace", "constant:1mbps"), ("seconds", "2")];
    let bound = |asked| {
        let settings = settings(&[&words[..], &[("bound", asked)]].concat());
        simulate(&settings, |_| Ok(())).unwrap().report.scores.qoe_d_bound
    };
    assert_eq!(bound("false"), None);
    let model = CodecModel::built_in().unwrap();
    assert_eq!(bound("true"), settings(&words).qoe_bound(&model).unwrap().map(|bound| bound.qoe_d));
}

#[test]
fn schedule_is_known_only_on_deterministic_links() {
    let model = CodecModel::built_in().unwrap();
    let schedule = |more: (&str, &str)| {
        let words = [("trace", "constant:1mbps"), ("seconds", "2"), more];
        settings(&words).qoe_bound(&model).unwrap().unwrap().schedule
    };
    assert!(schedule(("loss", "0")).is_some_and(|qoe_d| qoe_d > 3.0));
    for luck in [("loss", "1%"), ("jitter_ms", "5"), ("reorder", "1%,20ms"), ("burst_loss", "1%,30%")] {
        assert_eq!(schedule(luck), None, "{luck:?}");
    }
}

#[test]
fn bound_of_a_call_with_pixels_is_refused() {
    let mut settings = settings(&[("seconds", "1"), ("bound", "true")]);
    settings.modelled = false;
    let refusal = simulate(&settings, |_| Ok(())).unwrap_err().to_string();
    assert!(refusal.contains("only modelled calls have an upper bound"), "{refusal}");
}

#[test]
#[ignore = "runs every controller over every trace, for half an hour"]
fn no_controller_exceeds_the_bound_in_a_marathon() {
    let seconds = std::env::var("SECONDS_EACH").unwrap_or_else(|_| "3".to_owned());
    let mut traces: Vec<String> = GENERATED.map(str::to_owned).into_iter().chain(recorded()).collect();
    // Each part of the run covers all folders.
    traces = (0..16).flat_map(|first| traces.iter().skip(first).step_by(16)).cloned().collect();
    let scenarios: Vec<_> = traces
        .iter()
        .enumerate()
        .flat_map(|(number, trace)| {
            [0, 1 + number % (CONDITIONS.len() - 1)].map(|condition| (number, trace, condition))
        })
        .map(|(number, trace, condition)| {
            let seed = ["1", "2", "3", "4", "5", "6", "7"][number % 7];
            [&[("trace", trace.as_str()), ("seconds", seconds.as_str()), ("seed", seed)], CONDITIONS[condition]]
                .concat()
        })
        .collect();
    // One of them has no default model.
    let controllers = Algorithm::all().filter(|algorithm| *algorithm != Algorithm::Mmsys24);
    let controllers: Vec<String> = controllers.map(|algorithm| algorithm.to_string()).collect();
    let mut cases = cases(
        &scenarios,
        &controllers,
        |Case { name, bound, schedule, best, best_controller, calls, exceptions }| {
            println!(
                "{best:.3} of {best_controller}, schedule {schedule:.3?}, bound {bound:.3}, {calls} calls, {} exceptions: {name}",
                exceptions.len()
            );
        },
    );
    cases.sort_by(|one, other| (one.bound - one.best).total_cmp(&(other.bound - other.best)));
    let calls: usize = cases.iter().map(|case| case.calls).sum();
    println!("{calls} calls of {} scenarios", cases.len());
    let compared: Vec<(f64, f64)> = cases.iter().filter_map(|case| Some((case.schedule?, case.best))).collect();
    let reached = compared.iter().filter(|(schedule, best)| schedule >= best).count();
    println!("schedule at least as good as the best controller in {reached} of {}", compared.len());
    let mut certified: Vec<f64> =
        cases.iter().filter_map(|case| Some(case.bound - case.schedule?.max(case.best))).collect();
    certified.sort_by(f64::total_cmp);
    println!("certified gap: median {:.3?}, largest {:.3?}", certified.get(certified.len() / 2), certified.last());
    for (name, place) in [("least", 0), ("median", cases.len() / 2), ("largest", cases.len() - 1)] {
        let Case { name: words, bound, best, best_controller, .. } = &cases[place];
        println!("{name} gap: {:.3} ({best:.3} of {best_controller}, bound {bound:.3}) {words}", bound - best);
    }
    let exceptions: Vec<&String> = cases.iter().flat_map(|case| &case.exceptions).collect();
    assert!(exceptions.is_empty(), "{exceptions:#?}");
}
