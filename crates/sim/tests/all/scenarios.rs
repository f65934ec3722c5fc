//! Built-in scenarios compared with the numbers of their sections.

use std::collections::BTreeSet;
use std::time::Duration;

use lockstep_link::{MediumConfig, QueueConfig};
use lockstep_sim::scenario::{FlowKind, Scenario, ScenarioFlow, TcpWindow};
use lockstep_units::{Bitrate, Timestamp};

fn named(name: &str) -> Scenario {
    Scenario::named(name).unwrap_or_else(|| panic!("expected a scenario {name}"))
}

fn of_kind<'a>(scenario: &'a Scenario, kind: &'a str) -> Vec<&'a ScenarioFlow> {
    scenario.flows.iter().filter(|flow| flow.kind.name().starts_with(kind)).collect()
}

fn times(scenario: &Scenario, kind: &str) -> Vec<Vec<(f64, f64)>> {
    of_kind(scenario, kind).iter().map(|flow| flow.active_seconds.clone()).collect()
}

/// Capacity of link `link` during a second, kb/s.
fn kbps(scenario: &Scenario, link: usize, second: u64) -> u64 {
    let at = Timestamp::from_millis(1_000 * second + 500);
    scenario.links[link].config.trace.capacity_at(at).as_bps() / 1_000
}

/// Propagation delay of a link plus its mean jitter, ms.
fn delay(scenario: &Scenario, link: usize) -> u64 {
    let config = &scenario.links[link].config;
    let jitter = serde_json::to_value(config.jitter).unwrap();
    let mean = jitter.pointer("/distribution/normal/mean_ms").and_then(serde_json::Value::as_f64).unwrap_or(0.0);
    (config.delay.as_secs_f64() * 1e3 + mean).round() as u64
}

/// Time to drain a full drop-tail queue at `kbps`, ms.
fn queue_ms(scenario: &Scenario, link: usize, kbps: u64) -> u64 {
    let (_, bytes) = scenario.links[link].config.queue.limits();
    (Bitrate::from_kbps(kbps).time_for(bytes.unwrap()).as_secs_f64() * 1e3).round() as u64
}

#[test]
fn common_settings_match_section_4() {
    for scenario in Scenario::built_in().iter().filter(|scenario| scenario.source.starts_with("RFC 8867")) {
        let name = &scenario.name;
        assert_eq!(scenario.media.initial_bps, Bitrate::from_kbps(150), "{name}");
        assert_eq!(scenario.media.least_bps, Bitrate::from_kbps(150), "{name}");
        let most = if name == "priorities" { 4_000 } else { 1_500 };
        assert_eq!(scenario.media.most_bps, Bitrate::from_kbps(most), "{name}");
        // Each media flow has an audio flow of 20 kb/s with the same route and times.
        let (media, audio) = (of_kind(scenario, "media"), of_kind(scenario, "audio"));
        assert_eq!(media.len(), audio.len(), "{name}");
        for (media, audio) in media.iter().zip(&audio) {
            assert_eq!(audio.kind, FlowKind::Audio { codec_bps: Bitrate::from_kbps(20) }, "{name}");
            assert_eq!((&media.active_seconds, &media.forward), (&audio.active_seconds, &audio.forward), "{name}");
            assert_eq!(media.access_delay_ms, audio.access_delay_ms, "{name}");
        }
        for link in &scenario.links {
            assert!(matches!(link.config.queue, QueueConfig::DropTail { .. } | QueueConfig::CoDel { ecn: true, .. }));
        }
    }
    let basic = named("same-controller");
    assert_eq!((delay(&basic, 0), delay(&basic, 1), queue_ms(&basic, 0, 3_500)), (50, 50, 300));
}

#[test]
fn section_5_1_has_the_capacities_of_table_1() {
    let capacity = [(0, 1_000), (40, 2_500), (60, 600), (80, 1_000)];
    for (name, far) in [("variable-capacity-single", false), ("variable-capacity-single-100ms", true)] {
        let scenario = named(name);
        assert_eq!(scenario.seconds, 100.0);
        assert_eq!(times(&scenario, "media"), [[(0.0, 99.0)]]);
        assert_eq!((delay(&scenario, 0), delay(&scenario, 1)), (if far { 100 } else { 50 }, 50));
        for (from, expected) in capacity {
            assert_eq!(kbps(&scenario, 0, from), expected);
        }
    }
    for name in ["variable-capacity-single-udp", "variable-capacity-single-udp-100ms"] {
        let scenario = named(name);
        assert_eq!(kbps(&scenario, 0, 50), 4_000);
        for (from, left) in capacity {
            assert_eq!(4_000 - udp_kbps(&scenario, from, 0), left, "{name} at {from}");
        }
    }
}

/// Rate of UDP on a link during a second, kb/s.
fn udp_kbps(scenario: &Scenario, second: u64, link: usize) -> u64 {
    let active = |flow: &&ScenarioFlow| {
        let (from, to) = flow.active_seconds[0];
        flow.forward == [link] && (from..to).contains(&(second as f64 + 0.5))
    };
    let rate = |flow: &ScenarioFlow| match flow.kind {
        FlowKind::ConstantBitRate { rate_bps } => rate_bps.as_bps() / 1_000,
        _ => 0,
    };
    scenario.flows.iter().filter(active).map(rate).sum()
}

#[test]
fn section_5_2_has_two_flows_and_table_2() {
    let capacity = [(0, 4_000), (25, 2_000), (50, 3_500), (75, 1_000), (100, 2_000)];
    let (changing, udp) = (named("variable-capacity-multiple"), named("variable-capacity-multiple-udp"));
    for (from, expected) in capacity {
        assert_eq!(kbps(&changing, 0, from), expected);
        assert_eq!(kbps(&udp, 0, from) - udp_kbps(&udp, from, 0), expected);
    }
    for scenario in [changing, udp] {
        assert_eq!((scenario.seconds, of_kind(&scenario, "media").len()), (125.0, 2));
    }
}

#[test]
fn section_5_3_has_two_directions_and_tables_3_and_4() {
    let forward = [(0, 2_000), (20, 1_000), (40, 500), (60, 2_000)];
    let reverse = [(0, 2_000), (35, 800), (70, 2_000)];
    let (changing, udp) = (named("congested-feedback"), named("congested-feedback-udp"));
    for (link, capacity) in [(0, &forward[..]), (1, &reverse[..])] {
        for &(from, expected) in capacity {
            assert_eq!(kbps(&changing, link, from), expected);
            assert_eq!(kbps(&udp, link, from) - udp_kbps(&udp, from, link), expected);
        }
    }
    assert_eq!(times(&changing, "media"), [[(0.0, 99.0)], [(0.0, 99.0)]]);
    assert_eq!(changing.flows[0].forward, changing.flows[1].reverse);
}

#[test]
fn sections_5_4_and_5_5_have_their_starts_and_delays() {
    let alike = named("same-controller");
    assert_eq!((alike.seconds, kbps(&alike, 0, 50)), (120.0, 3_500));
    assert_eq!(times(&alike, "media"), [[(0.0, 119.0)], [(20.0, 119.0)], [(40.0, 119.0)]]);
    let far = named("round-trip-fairness");
    assert_eq!((far.seconds, kbps(&far, 0, 50)), (300.0, 4_000));
    let starts: Vec<_> = times(&far, "media").into_iter().flatten().collect();
    assert_eq!(starts, [(0.0, 299.0), (10.0, 299.0), (20.0, 299.0), (30.0, 299.0), (40.0, 299.0)]);
    let delays: Vec<f64> =
        of_kind(&far, "media").iter().map(|flow| flow.access_delay_ms + delay(&far, 0) as f64).collect();
    assert_eq!(delays, [10.0, 25.0, 50.0, 100.0, 150.0]);
}

#[test]
fn sections_5_6_and_5_7_have_their_tcp_connections() {
    for (name, window, queue) in [
        ("long-tcp", TcpWindow::NewReno, 300),
        ("long-tcp-deep-queue", TcpWindow::NewReno, 1_000),
        ("long-tcp-cubic", TcpWindow::Cubic, 300),
    ] {
        let scenario = named(name);
        assert_eq!(times(&scenario, "media"), [[(5.0, 119.0)]]);
        assert_eq!(times(&scenario, "TCP"), [[(0.0, 119.0)]]);
        assert_eq!(of_kind(&scenario, "TCP")[0].kind, FlowKind::Tcp { window, files: None });
        assert_eq!((kbps(&scenario, 0, 9), queue_ms(&scenario, 0, 2_000)), (2_000, queue));
    }
    let short = named("short-tcp");
    assert_eq!((short.seconds, kbps(&short, 0, 9)), (300.0, 2_000));
    assert_eq!(times(&short, "media"), [[(5.0, 299.0)], [(5.0, 299.0)]]);
    let files: Vec<_> = of_kind(&short, "TCP")
        .iter()
        .map(|flow| match flow.kind {
            FlowKind::Tcp { files: Some(files), .. } => files,
            _ => panic!("{} has no files", flow.name),
        })
        .collect();
    assert_eq!((files.len(), files.iter().filter(|files| !files.begins_paused).count()), (10, 2));
    for files in files {
        assert_eq!((files.smallest_bytes.get(), files.largest_bytes.get()), (30_000, 50_000));
        assert_eq!(files.mean_pause_seconds, 10.0);
    }
}

#[test]
fn the_second_flow_of_section_5_8_pauses() {
    let scenario = named("pause-resume");
    let whole = vec![(0.0, 119.0)];
    assert_eq!(times(&scenario, "media"), [whole.clone(), vec![(0.0, 40.0), (60.0, 119.0)], whole]);
}

#[test]
fn section_6_1_is_section_5_4_with_priorities() {
    let (scenario, basic) = (named("priorities"), named("same-controller"));
    let priorities: Vec<f64> = of_kind(&scenario, "media").iter().map(|flow| flow.priority).collect();
    assert_eq!(priorities, [2.0, 1.0, 1.0]);
    assert_eq!((times(&scenario, "media"), &scenario.links), (times(&basic, "media"), &basic.links));
}

#[test]
fn section_6_2_is_every_basic_case_with_ecn() {
    let all = Scenario::built_in();
    let basic: Vec<_> = all.iter().filter(|scenario| scenario.source.starts_with("RFC 8867, section 5.")).collect();
    assert_eq!(basic.len(), 15);
    for basic in basic {
        let ecn = named(&format!("{}-ecn", basic.name));
        assert!(ecn.source.starts_with("RFC 8867, section 6.2 of 5."), "{}", ecn.source);
        assert!(ecn.links.iter().all(|link| link.config.queue.marks()));
        for (flow, plain) in ecn.flows.iter().zip(&basic.flows) {
            assert_eq!(flow.ecn, matches!(flow.kind, FlowKind::Media | FlowKind::Tcp { .. }));
            assert_eq!((&flow.kind, &flow.active_seconds), (&plain.kind, &plain.active_seconds));
            assert!(!plain.ecn);
        }
    }
}

#[test]
fn section_6_3_has_two_bottlenecks_in_series() {
    let scenario = named("multiple-bottlenecks");
    assert_eq!(scenario.seconds, 300.0);
    assert_eq!(times(&scenario, "media"), [[(0.0, 299.0)], [(0.0, 299.0)], [(0.0, 299.0)]]);
    let capacities: Vec<u64> = (0..3).map(|link| kbps(&scenario, link, 9)).collect();
    assert_eq!(capacities, [2_000, 8_000, 1_500]);
    let delays: Vec<u64> = of_kind(&scenario, "media")
        .iter()
        .map(|flow| flow.forward.iter().map(|&link| delay(&scenario, link)).sum())
        .collect();
    assert_eq!(delays, [100, 40, 40]);
}

#[test]
fn cells_of_rfc_8869_have_calls_of_30_seconds_and_limited_tcp() {
    let cells: Vec<_> = Scenario::built_in()
        .into_iter()
        .filter(|scenario| scenario.source.starts_with("RFC 8869, section 2."))
        .collect();
    assert_eq!(cells.len(), 8);
    for scenario in cells {
        let name = &scenario.name;
        assert_eq!((scenario.seconds, scenario.evaluated_seconds), (91.0, Some((30.0, 60.0))), "{name}");
        assert_eq!(scenario.shared_media[0].kind, MediumConfig::Cell);
        let media = of_kind(&scenario, "media");
        let starts: BTreeSet<u64> = media.iter().map(|flow| (flow.active_seconds[0].0 * 1e6) as u64).collect();
        assert!(media.len() >= 5 && starts.len() == media.len(), "{name}: {} users", media.len());
        for flow in &media {
            let (from, to) = flow.active_seconds[0];
            assert!((to - from - 30.0).abs() < 1e-9, "{name}");
            // Each user has a separate bearer.
            assert_eq!(media.iter().filter(|other| other.forward == flow.forward).count(), 1, "{name}");
        }
        let round_trip = if name.ends_with("150ms") { 150 } else { 40 };
        let route = &media[0].forward;
        assert_eq!(delay(&scenario, route[0]) + delay(&scenario, media[0].reverse[0]), round_trip, "{name}");
        let tcp = of_kind(&scenario, "TCP")[0];
        let most = match (name.contains("load"), name.contains("down")) {
            (true, true) => 4_000,
            (true, false) | (false, true) => 2_000,
            (false, false) => 1_000,
        };
        assert_eq!(kbps(&scenario, tcp.forward[0], 9), most, "{name}");
    }
}

#[test]
fn wifi_of_rfc_8869_has_its_flows_and_links() {
    for scenario in Scenario::built_in().iter().filter(|scenario| scenario.source.starts_with("RFC 8869, section 3.")) {
        let name = &scenario.name;
        assert_eq!(scenario.seconds, 120.0, "{name}");
        assert_eq!(scenario.shared_media[0].kind, MediumConfig::WiFi, "{name}");
        let wire = if name.starts_with("wifi-wired") { 1_000 } else { 100_000 };
        for (link, plan) in scenario.links.iter().enumerate() {
            let on_channel = plan.config.medium.is_some();
            assert_eq!(kbps(scenario, link, 9), if on_channel { 52_000 } else { wire }, "{name}: {}", plan.name);
            if !on_channel {
                assert_eq!((delay(scenario, link), queue_ms(scenario, link, wire)), (50, 300), "{name}: {}", plan.name);
            }
        }
    }
    let count = |name: &str| {
        let scenario = named(name);
        let ends = |suffix: &str| of_kind(&scenario, "media").iter().filter(|flow| flow.name.ends_with(suffix)).count();
        let others = scenario.flows.iter().filter(|flow| flow.kind != FlowKind::Media);
        let others: Vec<_> = others.map(|flow| (flow.kind.name(), flow.active_seconds[0])).collect();
        (ends("up"), ends("down"), others)
    };
    let udp = |from, to| ("constant rate", (from, to));
    let tcp = |from, to| ("TCP NewReno", (from, to));
    assert_eq!(count("wifi-wired-up"), (1, 0, vec![]));
    assert_eq!(count("wifi-wired-both"), (1, 1, vec![]));
    assert_eq!(count("wifi-wired-udp-first"), (1, 1, vec![udp(0.0, 60.0)]));
    assert_eq!(count("wifi-wired-udp-later"), (1, 1, vec![udp(60.0, 119.0)]));
    assert_eq!(count("wifi-wired-tcp"), (1, 0, vec![tcp(0.0, 119.0)]));
    assert_eq!(count("wifi-down"), (0, 16, vec![]));
    assert_eq!(count("wifi-up"), (16, 0, vec![]));
    assert_eq!(count("wifi-both"), (8, 8, vec![]));
    assert_eq!(count("wifi-both-udp-first"), (8, 8, vec![udp(0.0, 60.0); 5]));
    assert_eq!(count("wifi-both-udp-later"), (8, 8, vec![udp(61.0, 120.0); 5]));
    assert_eq!(count("wifi-both-tcp"), (8, 8, vec![tcp(40.0, 80.0); 5]));
    for flows in [4, 8, 12, 20] {
        let name = format!("wifi-both-{flows}");
        assert_eq!(count(&name), (flows / 2, flows / 2, vec![]));
        let scenario = named(&name);
        for (from, to) in times(&scenario, "media").into_iter().flatten() {
            assert!((0.0..=10.0).contains(&from) && (110.0..=120.0).contains(&to), "{name}");
        }
    }
}

#[test]
fn unknown_media_and_zero_priorities_are_refused() {
    let mut scenario = named("wifi-up");
    scenario.shared_media.clear();
    let error = scenario.check().unwrap_err().to_string();
    assert_eq!(error, "link `downlink` names the unknown medium `channel`");
    let mut scenario = named("priorities");
    scenario.flows[1].priority = 0.0;
    assert!(scenario.check().unwrap_err().to_string().contains("media 2"));
    assert_eq!(named("cell-load-up").shortened(Duration::from_secs(9)).evaluated().1, Timestamp::from_millis(9_000));
}
