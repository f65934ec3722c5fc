//! Scenarios: all of them run, give equal reports for equal seeds, and report their results.

use clap::Parser;
use lockstep_av1::Av1;
use lockstep_call::Vp8;
use lockstep_configuration::{ScenarioArguments, run_scenario};
use lockstep_sim::CodecModel;
use lockstep_sim::scenario::{FlowKind, Scenario, ScenarioError, ScenarioReport};
use lockstep_units::Bitrate;

/// A command line with only these arguments.
#[derive(Parser)]
struct CommandLine {
    #[command(flatten)]
    arguments: ScenarioArguments,
}

fn run_it(scenario: Scenario, arguments: &str) -> ScenarioReport {
    let words = std::iter::once("run").chain(arguments.split_whitespace());
    let arguments = CommandLine::parse_from(words).arguments;
    let control = arguments.control.settings().unwrap();
    run_scenario(scenario, &arguments, &control, &CodecModel::built_in().unwrap(), false, |_, _| {}).unwrap().0
}

fn run(name: &str, arguments: &str) -> ScenarioReport {
    run_it(Scenario::named(name).unwrap(), arguments)
}

#[test]
fn every_scenario_is_valid_and_round_trips() {
    let all = Scenario::built_in();
    assert!(all.len() >= 50);
    for scenario in all {
        scenario.check().unwrap();
        for link in &scenario.links {
            assert!(link.config.trace.summary().mean.as_bps() > 0, "{}: link {} is none", scenario.name, link.name);
        }
        let text = serde_json::to_string(&scenario).unwrap();
        assert_eq!(Scenario::from_json(&text).unwrap(), scenario);
        assert_eq!(Scenario::named(&scenario.name).as_ref(), Some(&scenario), "names are unique");
    }
}

#[test]
#[ignore = "slow"]
fn every_scenario_runs_under_a_fixed_rate() {
    for scenario in Scenario::built_in() {
        let (name, flows) = (scenario.name.clone(), scenario.flows.clone());
        let report = run_it(scenario, "--controller fixed:300kbps");
        assert_eq!(report.flows.len(), flows.len());
        for (flow, plan) in report.flows.iter().zip(&flows) {
            // In a part of a scenario, not every flow has a rate.
            assert!(
                flow.received_bps.as_bps() > 0 || flow.active_seconds.is_empty(),
                "{name}: nothing of {} arrived",
                flow.name
            );
            assert!(
                flow.received_bps.as_bps() <= flow.sent_bps.as_bps() + 40_000
                    && (flow.goodput_bps <= flow.sent_bps || report.evaluated_seconds.0 > 0.0),
                "{name}: {}",
                flow.name
            );
            assert_eq!(flow.video.is_some(), plan.kind == FlowKind::Media);
        }
        for link in &report.links {
            assert!((0.0..=1.0).contains(&link.utilisation), "{name}: {link:?}");
        }
        assert!(!report.phases.is_empty(), "{name}");
    }
}

#[test]
fn report_depends_only_on_the_seed() {
    let document = |seed: u64| {
        let report = run("short-tcp", &format!("--seed {seed} --seconds 60 --controller salsify"));
        serde_json::to_string(&report).unwrap()
    };
    assert_eq!(document(4), document(4));
    assert_ne!(document(4), document(5));
}

#[test]
fn pictures_can_be_coded_instead_of_modelled() {
    let report = run("same-controller", "--seconds 22 --clip generated:160x90@15 --controller fixed:400kbps");
    assert_eq!(report.flows.len(), 4, "the third flow and its audio begin later");
    let first = report.flows[0].video.as_ref().unwrap();
    assert!(first.ssim_db.unwrap().mean > 10.0);
    assert!(first.frames.displayed > 200, "{:?}", first.frames);
    assert!(report.flows[1].video.as_ref().unwrap().frames.captured >= 29, "{:?}", report.flows[1].video);
}

#[test]
fn model_is_that_of_the_named_codec() {
    let report = |codec: &str| run("variable-capacity-single", &format!("--codec {codec} --controller salsify"));
    let overshoot = |codec: &str| report(codec).flows[0].video.as_ref().and_then(|video| video.overshoot_ratio);
    assert!(overshoot("conventional") > overshoot("functional"));
}

#[test]
fn equal_controllers_share_fairly_and_use_pauses() {
    // The seed selects the clip of a flow, and some clips need little more than their share.
    //
    // Therefore the gain of the others during a pause, and the rate after it, are means.
    let reports = [1, 2, 3, 4, 5, 6].map(|seed| run("pause-resume", &format!("--controller salsify --seed {seed}")));
    let (mut growth, mut resumed) = (0.0, 0.0);
    for report in &reports {
        assert!(report.fairness.unwrap() > 0.95, "{:?}", report.fairness);
        let rate = |from: f64, flow: &str| {
            let phase = report.phases.iter().find(|phase| phase.from_seconds == from).unwrap();
            let rate = phase.rates.iter().find(|rate| rate.flow == flow);
            rate.map(|rate| rate.received_bps.as_mbps())
        };
        assert_eq!(rate(40.0, "media 2"), None);
        let others = |from: f64| rate(from, "media 1").unwrap() + rate(from, "media 3").unwrap();
        assert!(others(40.0) > others(0.0), "{} {}", others(40.0), others(0.0));
        growth += others(40.0) / others(0.0) / reports.len() as f64;
        resumed += rate(60.0, "media 2").unwrap() / reports.len() as f64;
    }
    assert!(growth > 1.15, "{growth}");
    assert!(resumed > 0.8, "{resumed}");
}

#[test]
fn cross_traffic_fills_what_media_leaves() {
    let report = run("long-tcp-cubic", "--controller fixed:500kbps");
    assert!(report.links[0].utilisation > 0.95, "{:?}", report.links[0]);
    let tcp = &report.flows[1];
    assert!((1.2..1.6).contains(&tcp.goodput_bps.as_mbps()), "{}", tcp.goodput_bps);
    // A fixed rate waits in the queue that TCP fills; CoDel keeps that short.
    let codel = run("long-tcp-cubic", "--controller fixed:500kbps --queue codel");
    let waits = |report: &ScenarioReport| report.flows[0].queueing_delay_ms.unwrap().p50;
    assert!(waits(&report) > 100.0 && waits(&codel) < 30.0, "{} {}", waits(&report), waits(&codel));
}

#[test]
fn own_controllers_and_tcp_each_get_a_quarter_of_a_share() {
    for controller in ["sprout", "lockstep"] {
        for name in ["long-tcp-cubic", "long-tcp"] {
            let report = run(name, &format!("--controller {controller} --seconds 60 --seed 2"));
            // Half of 2 Mb/s is fair.
            for flow in &report.flows[..2] {
                let goodput = flow.goodput_bps;
                assert!(goodput.as_mbps() > 0.25, "{controller}, {name}: {} has {goodput}", flow.name);
            }
        }
    }
}

#[test]
fn no_share_is_claimed_from_unresponsive_traffic() {
    for controller in ["sprout", "lockstep"] {
        let mut scenario = Scenario::named("long-tcp").unwrap();
        // Instead of TCP and sound, a constant rate leaves 300 of 2,000 kb/s.
        scenario.flows.truncate(2);
        scenario.flows[1].kind = FlowKind::ConstantBitRate { rate_bps: Bitrate::from_kbps(1_700) };
        let report = run_it(scenario, &format!("--controller {controller} --seconds 60 --seed 1"));
        let media = &report.flows[0];
        let loss = media.loss;
        assert!(loss < 0.03, "{controller}: {loss} of its packets are lost");
        assert!(media.goodput_bps.as_mbps() > 0.15, "{controller}: {}", media.goodput_bps);
    }
}

#[test]
fn pictures_can_be_coded_with_av1() {
    if Av1::check_libraries().is_err() {
        return;
    }
    let report = run("same-controller", "--seconds 3 --clip generated:64x48@15 --codec av1 --controller fixed:100kbps");
    let first = report.flows[0].video.as_ref().unwrap();
    assert!(first.frames.displayed > 20, "{:?}", first.frames);
}

#[test]
fn error_of_an_invalid_scenario_names_the_problem() {
    let mut scenario = Scenario::named("same-controller").unwrap();
    scenario.flows[1].forward = vec![7];
    let error = scenario.run::<Vp8>(Vec::new(), 1, |_| {}).unwrap_err();
    assert!(matches!(error, ScenarioError::Media { wanted: 3, given: 0 }), "{error}");
    let text = serde_json::to_string(&scenario).unwrap();
    let arguments = CommandLine::parse_from(["run", "--controller", "fixed:1mbps"]).arguments;
    let scenario = Scenario::from_json(&text).unwrap();
    let (control, model) = (arguments.control.settings().unwrap(), CodecModel::built_in().unwrap());
    let error = run_scenario(scenario, &arguments, &control, &model, false, |_, _| {}).unwrap_err();
    assert_eq!(error.to_string(), "the route of flow 1 contains link 7: expected an index below 2");
    for (from, to) in [("\"seconds\":120.0", "\"seconds\":1e300"), ("\"seconds\":120.0", "\"seconds\":-1.0")] {
        let text = serde_json::to_string(&Scenario::named("same-controller").unwrap()).unwrap().replace(from, to);
        let _ = Scenario::from_json(&text).map(|scenario| assert!(scenario.duration().as_secs() <= 86_400));
    }
    assert!(Scenario::from_json("{}").is_err());
}

/// Means over media: the 95th percentile of the queueing delay, milliseconds, and the loss.
fn queue_and_loss(name: &str, controller: &str) -> (f64, f64) {
    let metrics = run(name, &format!("--controller {controller}")).metrics();
    (metrics.queue_p95_ms.unwrap(), metrics.loss_percent)
}

#[test]
fn ecn_lowers_delay_without_more_loss() {
    let cases = ["variable-capacity-single-udp", "variable-capacity-multiple-udp", "same-controller", "long-tcp"];
    for controller in ["gcc", "nada", "scream"] {
        for name in cases {
            let (plain, marked) =
                (queue_and_loss(name, controller), queue_and_loss(&format!("{name}-ecn"), controller));
            assert!(
                marked.0 < plain.0 && marked.1 <= plain.1 + 0.05,
                "{controller}, {name}: {plain:?}, ECN {marked:?}"
            );
        }
    }
}

#[test]
fn marks_reach_only_controllers_that_respond_to_them() {
    let marked = |controller: &str| {
        let report = run("long-tcp-ecn", &format!("--controller {controller} --seconds 60"));
        (report.flows[0].marked, report.flows[1].marked, report.links[0].dropped)
    };
    let (media, tcp, _) = marked("gcc");
    assert!(media > 0.0 && tcp > 0.0, "{media} {tcp}");
    let (media, tcp, dropped) = marked("salsify");
    assert!(media == 0.0 && tcp > 0.0 && dropped > 0.0, "{media} {tcp} {dropped}");
    // The same through the option.
    let by_option = run("long-tcp", "--controller gcc --seconds 60 --ecn");
    assert_eq!(by_option.flows, run("long-tcp-ecn", "--controller gcc --seconds 60").flows);
}

#[test]
fn priority_of_two_doubles_the_rate_with_every_controller() {
    for controller in ["salsify", "gcc", "nada", "scream", "bob-heuristic", "sprout", "copa"] {
        let report = run("priorities", &format!("--controller {controller}"));
        let last = report.phases.iter().rfind(|phase| phase.to_seconds - phase.from_seconds > 60.0).unwrap();
        let rate = |flow: &str| last.rates.iter().find(|rate| rate.flow == flow).unwrap().received_bps.as_mbps();
        let (first, second, third) = (rate("media 1"), rate("media 2"), rate("media 3"));
        // Twice the rate of the others, whose shares among each other do not depend on priority.
        let others = (second + third) / 2.0;
        assert!((1.6..2.8).contains(&(first / others)), "{controller}: {first} {second} {third}");
        let without = run("same-controller", &format!("--controller {controller}"));
        assert!(report.flows[0].priority == 2.0 && without.flows[0].priority == 1.0);
    }
}

#[test]
#[ignore = "slow"]
fn media_up_and_down_share_the_airtime_of_wifi() {
    // The mean of three runs: the airtime of single runs varies between 0.85 and 0.92.
    let rate = |name: &str| {
        let reports = ["1", "2", "3"].map(|seed| run(name, &format!("--controller gcc --seed {seed}")));
        let media = reports.iter().flat_map(|report| report.flows.iter().filter(|flow| flow.kind == "media"));
        let sum: f64 = media.map(|flow| flow.received_bps.as_mbps()).sum();
        (sum / 3.0, reports.iter().map(|report| report.shared_media[0].busy).sum::<f64>() / 3.0)
    };
    let (down, both) = (rate("wifi-down"), rate("wifi-both"));
    assert!((10.0..22.0).contains(&down.0) && (10.0..22.0).contains(&both.0), "{down:?} {both:?}");
    assert!(down.1 > 0.9 && both.1 > 0.87, "{down:?} {both:?}");
}

#[test]
fn media_keeps_the_scenarios_maximum_rate() {
    for controller in ["salsify", "gcc", "sprout", "copa"] {
        let report = run("wifi-both-4", &format!("--controller {controller}"));
        for flow in report.flows.iter().filter(|flow| flow.kind == "media") {
            // Headers and bursts of the window exceed the 1.5 Mb/s.
            assert!((1.2..1.75).contains(&flow.sent_bps.as_mbps()), "{controller}: {}", flow.sent_bps);
        }
    }
}
