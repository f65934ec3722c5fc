//! Test cases of RFC 8867 for one or several wired bottlenecks, with the numbers of its sections.
//!
//! Common properties (section 4):
//!
//! - One-way delay of 50 ms with jitter of up to 30 ms; drop-tail queues of 300 ms, at the mean of a changing capacity.
//! - Media of 150 kb/s to 1.5 Mb/s that starts at 150 kb/s. Each media flow has an audio flow of 20 kb/s.
//! - Normal jitter with a mean of 15 ms, which the delay includes, and a deviation of 5 ms. It is cut off at three
//!   deviations (RFC 8868, section 4.5.3) and keeps packets in order.
//! - The codec determines how closely video follows its target, not the scenario. The RFC has 5 % over a second and 100
//!   ms.
//!
//! Sections 5.1 to 5.3 exist in both forms of section 4.2: either the capacity changes, or UDP takes part of 4 Mb/s.

use std::time::Duration;

use lockstep_link::{Jitter, JitterDistribution, LinkConfig, QueueConfig, Trace};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use super::{Files, FlowKind, MediaRates, Scenario, ScenarioFlow, ScenarioLink, TcpWindow};

/// Default one-way delay.
pub(super) const DELAY: Duration = Duration::from_millis(50);
/// Default length of queues.
pub(super) const QUEUE: Duration = Duration::from_millis(300);
/// Mean and deviation of the jitter. The delay includes the mean.
pub(super) const JITTER: (Duration, Duration) = (Duration::from_millis(15), Duration::from_millis(5));
/// Capacity that limits nothing.
pub(super) const AMPLE: &str = "constant:100mbps";
/// Audio of section 4.3.
const AUDIO: FlowKind = FlowKind::Audio { codec_bps: Bitrate::from_kbps(20) };
/// Physical capacity in the second form of sections 5.1 to 5.3, Mb/s.
const PHYSICAL_MBPS: f64 = 4.0;

/// Link with the trace `capacity` (a specification). Its queue holds the bytes of `queue` at the mean capacity over
/// `seconds`.
pub(super) fn link(
    name: &str,
    capacity: &str,
    seconds: f64,
    delay: Duration,
    queue: Duration,
    jitter: (Duration, Duration),
) -> ScenarioLink {
    // A test parses all specifications and would detect an empty trace.
    let trace = Trace::from_spec(capacity).unwrap_or_else(|_| Trace::constant(Bitrate::ZERO));
    let mean = trace.mean_capacity(Timestamp::ZERO, Timestamp::ZERO + super::time(seconds));
    let bytes = mean.bytes_in(queue).get().max(2 * 1_500);
    let (mean, deviation) = jitter;
    let distribution = JitterDistribution::Normal { mean, deviation };
    let config = LinkConfig {
        queue: QueueConfig::drop_tail_bytes(ByteCount::new(bytes)),
        delay: delay.saturating_sub(mean),
        jitter: (!mean.is_zero()).then_some(Jitter { distribution, reorders: false }),
        ..LinkConfig::new(trace)
    };
    ScenarioLink { name: name.to_owned(), config }
}

/// Bottleneck and an ample reverse link.
fn dumbbell(capacity: &str, seconds: f64) -> Vec<ScenarioLink> {
    both_ways(capacity, AMPLE, seconds)
}

pub(super) fn both_ways(forward: &str, reverse: &str, seconds: f64) -> Vec<ScenarioLink> {
    vec![
        link("forward", forward, seconds, DELAY, QUEUE, JITTER),
        link("reverse", reverse, seconds, DELAY, QUEUE, JITTER),
    ]
}

/// Flow with link 0 forward and link 1 in reverse.
pub(super) fn flow(name: &str, kind: FlowKind, from: f64, to: f64) -> ScenarioFlow {
    ScenarioFlow {
        name: name.to_owned(),
        kind,
        forward: vec![0],
        reverse: vec![1],
        access_delay_ms: 0.0,
        active_seconds: vec![(from, to)],
        ecn: false,
        priority: 1.0,
    }
}

/// The same flow in the opposite direction.
fn backwards(mut flow: ScenarioFlow) -> ScenarioFlow {
    std::mem::swap(&mut flow.forward, &mut flow.reverse);
    flow
}

pub(super) fn media(number: usize, from: f64, to: f64) -> ScenarioFlow {
    flow(&format!("media {number}"), FlowKind::Media, from, to)
}

/// Appends one audio flow per media flow, with the same route and times (section 4.3).
pub(super) fn with_audio(mut flows: Vec<ScenarioFlow>) -> Vec<ScenarioFlow> {
    let media = flows.iter().filter(|flow| flow.kind == FlowKind::Media);
    let audio: Vec<_> = media
        .map(|flow| ScenarioFlow {
            name: flow.name.replace("media", "audio"),
            kind: AUDIO,
            priority: 1.0,
            ..flow.clone()
        })
        .collect();
    flows.extend(audio);
    flows
}

pub(super) struct Heading {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) source: &'static str,
    pub(super) expected: &'static str,
}

pub(super) fn scenario(heading: Heading, seconds: f64, links: Vec<ScenarioLink>, flows: Vec<ScenarioFlow>) -> Scenario {
    let Heading { name, title, source, expected } = heading;
    Scenario {
        name: name.to_owned(),
        title: title.to_owned(),
        source: source.to_owned(),
        expected: expected.to_owned(),
        seconds,
        media: MediaRates::default(),
        evaluated_seconds: None,
        shared_media: Vec::new(),
        links,
        flows,
    }
}

/// Capacity over time: start in seconds, Mb/s.
type Capacity = &'static [(f64, f64)];

/// Table 1, for a reference of 1 Mb/s.
const SINGLE: Capacity = &[(0.0, 1.0), (40.0, 2.5), (60.0, 0.6), (80.0, 1.0)];
/// Table 2, for a reference of 2 Mb/s.
const MULTIPLE: Capacity = &[(0.0, 4.0), (25.0, 2.0), (50.0, 3.5), (75.0, 1.0), (100.0, 2.0)];
/// Table 3, for a reference of 1 Mb/s.
const FORWARD: Capacity = &[(0.0, 2.0), (20.0, 1.0), (40.0, 0.5), (60.0, 2.0)];
/// Table 4, for a reference of 1 Mb/s.
const REVERSE: Capacity = &[(0.0, 2.0), (35.0, 0.8), (70.0, 2.0)];

/// Steps of a capacity: start, end, Mb/s.
fn spans(capacity: Capacity, seconds: f64) -> impl Iterator<Item = (f64, f64, f64)> {
    let ends = capacity.iter().skip(1).map(|&(from, _)| from).chain([seconds]);
    capacity.iter().zip(ends).map(|(&(from, mbps), to)| (from, to, mbps))
}

/// Trace specification of `capacity`.
fn steps(capacity: Capacity, seconds: f64) -> String {
    let parts: Vec<String> =
        spans(capacity, seconds).map(|(from, to, mbps)| format!("{mbps}mbps@{}s", to - from)).collect();
    format!("steps:{}", parts.join("/"))
}

/// UDP flows that leave `capacity` of [`PHYSICAL_MBPS`].
fn background(name: &str, capacity: Capacity, seconds: f64) -> Vec<ScenarioFlow> {
    let busy = spans(capacity, seconds).filter(|&(.., mbps)| mbps < PHYSICAL_MBPS);
    busy.map(|(from, to, mbps)| {
        let rate_bps = Bitrate::from_bps(((PHYSICAL_MBPS - mbps) * 1e6).round() as u64);
        flow(&format!("{name} from {from} s"), FlowKind::ConstantBitRate { rate_bps }, from, to)
    })
    .collect()
}

/// Sections 5.1 and 5.2: one scenario with a changing capacity, one with UDP.
fn variable_capacity(
    headings: [Heading; 2],
    capacity: Capacity,
    seconds: f64,
    media: &[ScenarioFlow],
) -> [Scenario; 2] {
    let [changing, udp] = headings;
    let flows = with_audio(media.to_vec());
    let mut with_udp = flows.clone();
    with_udp.extend(background("UDP", capacity, seconds));
    [
        scenario(changing, seconds, dumbbell(&steps(capacity, seconds), seconds), flows),
        scenario(udp, seconds, dumbbell("constant:4mbps", seconds), with_udp),
    ]
}

fn single_flow() -> Vec<Scenario> {
    let heading = |name, title| Heading {
        name,
        title,
        source: "RFC 8867, section 5.1",
        expected: "the rate follows the capacity within seconds, without a standing queue",
    };
    let headings = [
        heading("variable-capacity-single", "one media flow, capacity of 0.6 to 2.5 Mb/s"),
        heading("variable-capacity-single-udp", "one media flow, UDP leaves 0.6 to 2.5 of 4 Mb/s"),
    ];
    let near = variable_capacity(headings, SINGLE, 100.0, &[media(1, 0.0, 99.0)]);
    let headings = [
        heading("variable-capacity-single-100ms", "like variable-capacity-single, one-way delay of 100 ms"),
        heading("variable-capacity-single-udp-100ms", "like variable-capacity-single-udp, one-way delay of 100 ms"),
    ];
    let mut far = variable_capacity(headings, SINGLE, 100.0, &[media(1, 0.0, 99.0)]);
    for scenario in &mut far {
        scenario.links[0].config.delay += Duration::from_millis(50);
    }
    near.into_iter().chain(far).collect()
}

fn multiple_flows() -> [Scenario; 2] {
    let heading = |name, title| Heading {
        name,
        title,
        source: "RFC 8867, section 5.2",
        expected: "both flows follow the capacity and share it equally",
    };
    let headings = [
        heading("variable-capacity-multiple", "two media flows, capacity of 1 to 4 Mb/s"),
        heading("variable-capacity-multiple-udp", "two media flows, UDP leaves 1 to 4 of 4 Mb/s"),
    ];
    variable_capacity(headings, MULTIPLE, 125.0, &[media(1, 0.0, 124.0), media(2, 0.0, 124.0)])
}

/// Section 5.3.
fn congested_feedback() -> [Scenario; 2] {
    let seconds = 100.0;
    let heading = |name, title| Heading {
        name,
        title,
        source: "RFC 8867, section 5.3",
        expected: "each flow follows its capacity although congestion delays its feedback",
    };
    let flows = with_audio(vec![media(1, 0.0, 99.0), backwards(media(2, 0.0, 99.0))]);
    let mut with_udp = flows.clone();
    with_udp.extend(background("UDP forward", FORWARD, seconds));
    with_udp.extend(background("UDP backward", REVERSE, seconds).into_iter().map(backwards));
    [
        scenario(
            heading(
                "congested-feedback",
                "media in both directions, capacity of 0.5 to 2 Mb/s, changing at different times",
            ),
            seconds,
            both_ways(&steps(FORWARD, seconds), &steps(REVERSE, seconds), seconds),
            flows,
        ),
        scenario(
            heading("congested-feedback-udp", "media in both directions, UDP leaves 0.5 to 2 of 4 Mb/s"),
            seconds,
            both_ways("constant:4mbps", "constant:4mbps", seconds),
            with_udp,
        ),
    ]
}

/// Section 5.4.
fn same_controller() -> Scenario {
    let heading = Heading {
        name: "same-controller",
        title: "three media flows that start one after another",
        source: "RFC 8867, section 5.4",
        expected: "the flows share 3.5 Mb/s equally soon after each start",
    };
    let flows = vec![media(1, 0.0, 119.0), media(2, 20.0, 119.0), media(3, 40.0, 119.0)];
    scenario(heading, 120.0, dumbbell("constant:3.5mbps", 120.0), with_audio(flows))
}

/// Section 5.5.
fn round_trip_fairness() -> Scenario {
    let (seconds, base) = (300.0, 10.0);
    // The shortest path has 10 ms in total, which leaves no room for more jitter.
    let jitter = (Duration::from_millis(9), Duration::from_millis(3));
    let delay = Duration::from_millis(10);
    let links = vec![
        link("forward", "constant:4mbps", seconds, delay, QUEUE, jitter),
        link("reverse", AMPLE, seconds, delay, QUEUE, jitter),
    ];
    let flows = [10.0, 25.0, 50.0, 100.0, 150.0].into_iter().enumerate().map(|(index, one_way)| ScenarioFlow {
        name: format!("media {} ({one_way} ms)", index + 1),
        access_delay_ms: one_way - base,
        ..media(index + 1, 10.0 * index as f64, 299.0)
    });
    let heading = Heading {
        name: "round-trip-fairness",
        title: "five media flows with one-way delays of 10 to 150 ms",
        source: "RFC 8867, section 5.5",
        expected: "all rates are equal, independent of round-trip times",
    };
    scenario(heading, seconds, links, with_audio(flows.collect()))
}

/// Section 5.6.
fn long_tcp(heading: Heading, window: TcpWindow, queue: Duration) -> Scenario {
    let seconds = 120.0;
    let mut links = dumbbell("constant:2mbps", seconds);
    links[0] = link("forward", "constant:2mbps", seconds, DELAY, queue, JITTER);
    let tcp = FlowKind::Tcp { window, files: None };
    scenario(heading, seconds, links, with_audio(vec![media(1, 5.0, 119.0), flow("TCP", tcp, 0.0, 119.0)]))
}

fn long_tcps() -> [Scenario; 3] {
    let heading =
        |name, title, source| Heading { name, title, source, expected: "media neither starves nor starves TCP" };
    let source = "RFC 8867, section 5.6";
    [
        long_tcp(
            heading("long-tcp", "one media flow and a TCP connection (NewReno), queue of 300 ms", source),
            TcpWindow::NewReno,
            QUEUE,
        ),
        long_tcp(
            heading("long-tcp-deep-queue", "like long-tcp, queue of one second", source),
            TcpWindow::NewReno,
            Duration::from_secs(1),
        ),
        long_tcp(
            heading("long-tcp-cubic", "like long-tcp, with CUBIC", "RFC 8867, section 5.6, with another TCP"),
            TcpWindow::Cubic,
            QUEUE,
        ),
    ]
}

/// Section 5.7. The files are those of RFC 8868, section 5.1.
fn short_tcp() -> Scenario {
    let seconds = 300.0;
    let mut flows = vec![media(1, 5.0, 299.0), media(2, 5.0, 299.0)];
    for number in 1..=10 {
        let files = Files {
            smallest_bytes: ByteCount::new(30_000),
            largest_bytes: ByteCount::new(50_000),
            mean_pause_seconds: 10.0,
            // Two of ten connections have a file from the start.
            begins_paused: number > 2,
        };
        let kind = FlowKind::Tcp { window: TcpWindow::NewReno, files: Some(files) };
        flows.push(flow(&format!("TCP {number}"), kind, 0.0, seconds));
    }
    let heading = Heading {
        name: "short-tcp",
        title: "two media flows, ten TCP connections with files of 30 to 50 kB",
        source: "RFC 8867, section 5.7",
        expected: "media yields to bursts of files and then recovers its rate",
    };
    scenario(heading, seconds, dumbbell("constant:2mbps", seconds), with_audio(flows))
}

/// Section 5.8.
fn pause_resume() -> Scenario {
    let mut paused = media(2, 0.0, 40.0);
    paused.active_seconds.push((60.0, 119.0));
    let heading = Heading {
        name: "pause-resume",
        title: "three media flows; one pauses for 20 s",
        source: "RFC 8867, section 5.8",
        expected: "the others use its share, and it resumes without a spike of delay",
    };
    let flows = vec![media(1, 0.0, 119.0), paused, media(3, 0.0, 119.0)];
    scenario(heading, 120.0, dumbbell("constant:3.5mbps", 120.0), with_audio(flows))
}

/// Section 6.1. With the 1.5 Mb/s of section 4.3 the first flow could not have twice the rate of the others. The
/// highest rate is therefore 4 Mb/s, which this section also names.
fn priorities() -> Scenario {
    let mut scenario = same_controller();
    "priorities".clone_into(&mut scenario.name);
    "three media flows that start one after another, priorities of 2, 1 and 1".clone_into(&mut scenario.title);
    "RFC 8867, section 6.1".clone_into(&mut scenario.source);
    "the first flow has twice the rate of each other flow".clone_into(&mut scenario.expected);
    scenario.media.most_bps = Bitrate::from_kbps(4_000);
    scenario.flows[0].priority = 2.0;
    scenario
}

/// Section 6.3: a chain A-B-C-D with flows over A-D, A-B and C-D.
fn multiple_bottlenecks() -> Scenario {
    let seconds = 300.0;
    let part = |name, capacity, milliseconds| {
        let delay = Duration::from_millis(milliseconds);
        // A third of the usual jitter on each of three links gives the usual jitter on the whole route.
        let jitter = (Duration::from_millis(5), Duration::from_micros(1_667));
        link(name, capacity, seconds, delay, QUEUE, jitter)
    };
    // One-way delays of 40 ms at each end and of 100 ms over the whole chain.
    let links = vec![
        part("A-B", "constant:2mbps", 40),
        part("B-C", "constant:8mbps", 20),
        part("C-D", "constant:1.5mbps", 40),
        part("B-A", AMPLE, 40),
        part("C-B", AMPLE, 20),
        part("D-C", AMPLE, 40),
    ];
    let over = |number: usize, name: &str, forward: &[usize], reverse: &[usize]| ScenarioFlow {
        name: format!("media {number} ({name})"),
        forward: forward.to_vec(),
        reverse: reverse.to_vec(),
        ..media(number, 0.0, 299.0)
    };
    let flows = vec![over(1, "A-D", &[0, 1, 2], &[5, 4, 3]), over(2, "A-B", &[0], &[3]), over(3, "C-D", &[2], &[5])];
    let heading = Heading {
        name: "multiple-bottlenecks",
        title: "media over a chain of 2, 8 and 1.5 Mb/s, and over each end of the chain",
        source: "RFC 8867, section 6.3",
        expected: "both bottlenecks are utilized, and the flow over both does not starve",
    };
    scenario(heading, seconds, links, with_audio(flows))
}

/// Section 6.2: a basic case with ECN.
fn with_ecn(basic: &Scenario) -> Scenario {
    let mut scenario = basic.clone().with_ecn();
    scenario.name.push_str("-ecn");
    scenario.title.push_str(", with ECN");
    scenario.source = basic.source.replace("section ", "section 6.2 of ");
    "as without ECN, with less delay or loss".clone_into(&mut scenario.expected);
    scenario
}

pub(super) fn scenarios() -> Vec<Scenario> {
    let mut all = single_flow();
    all.extend(multiple_flows());
    all.extend(congested_feedback());
    all.extend([same_controller(), round_trip_fairness()]);
    all.extend(long_tcps());
    all.extend([short_tcp(), pause_resume()]);
    let ecn: Vec<Scenario> = all.iter().map(with_ecn).collect();
    all.push(priorities());
    all.extend(ecn);
    all.push(multiple_bottlenecks());
    all
}
