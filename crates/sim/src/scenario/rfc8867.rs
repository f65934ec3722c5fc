//! The test cases of RFC 8867 for one or several bottlenecks between wires, with the figures of its sections.
//!
//! Common to them (section 4): one-way delay of 50 ms with jitter of up to 30 ms, drop-tail queues of 300 ms, media of
//! 150 kb/s to 1.5 Mb/s that begins at 150 kb/s, and beside each flow of media one of audio with 20 kb/s and the same
//! times. Where the capacity changes, a queue of 300 ms is one at its mean. Jitter is normal with a deviation of 5 ms,
//! cut off at three deviations (RFC 8868, section 4.5.3), around a mean of 15 ms that the delay contains; it keeps
//! packets in order. How far the video is from its target and how soon it follows is the codec's doing, not the
//! scenario's: the RFC has 5 % over a second and 100 ms.
//!
//! Sections 5.1 to 5.3 are there in both forms of section 4.2: the capacity changes, or UDP takes what it lacks of 4
//! Mb/s.

use std::time::Duration;

use lockstep_link::{Jitter, JitterDistribution, LinkConfig, QueueConfig, Trace};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use super::{Files, FlowKind, MediaRates, Scenario, ScenarioFlow, ScenarioLink, TcpWindow};

/// The one-way delay where a test names no other.
pub(super) const DELAY: Duration = Duration::from_millis(50);
/// The queue where a test names no other.
pub(super) const QUEUE: Duration = Duration::from_millis(300);
/// The mean of the jitter, which the delay contains, and its deviation.
pub(super) const JITTER: (Duration, Duration) = (Duration::from_millis(15), Duration::from_millis(5));
/// A way that limits nothing.
pub(super) const AMPLE: &str = "constant:100mbps";
/// Section 4.3.
const AUDIO: FlowKind = FlowKind::Audio { codec_bps: Bitrate::from_kbps(20) };
/// What UDP takes the rest of, in the second form of sections 5.1 to 5.3.
const PHYSICAL_MBPS: f64 = 4.0;

/// A link of `capacity`, a trace in words, whose queue holds what passes in `queue` at its mean over `seconds`.
pub(super) fn link(
    name: &str,
    capacity: &str,
    seconds: f64,
    delay: Duration,
    queue: Duration,
    jitter: (Duration, Duration),
) -> ScenarioLink {
    // A test reads all words; a trace of nothing would be seen there.
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

/// The bottleneck and an ample way back.
fn dumbbell(capacity: &str, seconds: f64) -> Vec<ScenarioLink> {
    both_ways(capacity, AMPLE, seconds)
}

pub(super) fn both_ways(forward: &str, reverse: &str, seconds: f64) -> Vec<ScenarioLink> {
    vec![
        link("forward", forward, seconds, DELAY, QUEUE, JITTER),
        link("reverse", reverse, seconds, DELAY, QUEUE, JITTER),
    ]
}

/// A flow over link 0 there and link 1 back.
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

/// The same the other way round.
fn backwards(mut flow: ScenarioFlow) -> ScenarioFlow {
    std::mem::swap(&mut flow.forward, &mut flow.reverse);
    flow
}

pub(super) fn media(number: usize, from: f64, to: f64) -> ScenarioFlow {
    flow(&format!("media {number}"), FlowKind::Media, from, to)
}

/// The audio of each flow of media behind all of `flows`: the same way and the same times (section 4.3).
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

/// A capacity over time: from when on, Mb/s.
type Capacity = &'static [(f64, f64)];

/// Table 1, at a reference of 1 Mb/s.
const SINGLE: Capacity = &[(0.0, 1.0), (40.0, 2.5), (60.0, 0.6), (80.0, 1.0)];
/// Table 2, at a reference of 2 Mb/s.
const MULTIPLE: Capacity = &[(0.0, 4.0), (25.0, 2.0), (50.0, 3.5), (75.0, 1.0), (100.0, 2.0)];
/// Tables 3 and 4, at a reference of 1 Mb/s.
const THERE: Capacity = &[(0.0, 2.0), (20.0, 1.0), (40.0, 0.5), (60.0, 2.0)];
const BACK: Capacity = &[(0.0, 2.0), (35.0, 0.8), (70.0, 2.0)];

/// Each capacity with when it begins and ends.
fn spans(capacity: Capacity, seconds: f64) -> impl Iterator<Item = (f64, f64, f64)> {
    let ends = capacity.iter().skip(1).map(|&(from, _)| from).chain([seconds]);
    capacity.iter().zip(ends).map(|(&(from, mbps), to)| (from, to, mbps))
}

/// The words of a trace of `capacity`.
fn steps(capacity: Capacity, seconds: f64) -> String {
    let parts: Vec<String> =
        spans(capacity, seconds).map(|(from, to, mbps)| format!("{mbps}mbps@{}s", to - from)).collect();
    format!("steps:{}", parts.join("/"))
}

/// UDP that leaves `capacity` of [`PHYSICAL_MBPS`].
fn background(name: &str, capacity: Capacity, seconds: f64) -> Vec<ScenarioFlow> {
    let taking = spans(capacity, seconds).filter(|&(.., mbps)| mbps < PHYSICAL_MBPS);
    taking
        .map(|(from, to, mbps)| {
            let rate_bps = Bitrate::from_bps(((PHYSICAL_MBPS - mbps) * 1e6).round() as u64);
            flow(&format!("{name} from {from} s"), FlowKind::ConstantBitRate { rate_bps }, from, to)
        })
        .collect()
}

/// Sections 5.1 and 5.2: the same heading for a capacity that changes and for one that UDP takes.
fn variable_capacity(
    headings: [Heading; 2],
    capacity: Capacity,
    seconds: f64,
    media: &[ScenarioFlow],
) -> [Scenario; 2] {
    let [changing, udp] = headings;
    let flows = with_audio(media.to_vec());
    let mut taken = flows.clone();
    taken.extend(background("UDP", capacity, seconds));
    [
        scenario(changing, seconds, dumbbell(&steps(capacity, seconds), seconds), flows),
        scenario(udp, seconds, dumbbell("constant:4mbps", seconds), taken),
    ]
}

fn single_flow() -> Vec<Scenario> {
    let heading = |name, title| Heading {
        name,
        title,
        source: "RFC 8867, section 5.1",
        expected: "the rate follows the capacity within seconds, and the queue does not stand",
    };
    let headings = [
        heading("variable-capacity-single", "one flow of media, capacity of 0.6 to 2.5 Mb/s"),
        heading("variable-capacity-single-udp", "one flow of media, UDP that leaves 0.6 to 2.5 of 4 Mb/s"),
    ];
    let near = variable_capacity(headings, SINGLE, 100.0, &[media(1, 0.0, 99.0)]);
    let headings = [
        heading("variable-capacity-single-100ms", "the first at a one-way delay of 100 ms"),
        heading("variable-capacity-single-udp-100ms", "the second at a one-way delay of 100 ms"),
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
        expected: "both follow the capacity and share it equally",
    };
    let headings = [
        heading("variable-capacity-multiple", "two flows of media, capacity of 1 to 4 Mb/s"),
        heading("variable-capacity-multiple-udp", "two flows of media, UDP that leaves 1 to 4 of 4 Mb/s"),
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
        expected: "each follows its own way's capacity although the other's congestion delays its feedback",
    };
    let flows = with_audio(vec![media(1, 0.0, 99.0), backwards(media(2, 0.0, 99.0))]);
    let mut taken = flows.clone();
    taken.extend(background("UDP forward", THERE, seconds));
    taken.extend(background("UDP backward", BACK, seconds).into_iter().map(backwards));
    [
        scenario(
            heading("congested-feedback", "media both ways, capacity of 0.5 to 2 Mb/s each way at different times"),
            seconds,
            both_ways(&steps(THERE, seconds), &steps(BACK, seconds), seconds),
            flows,
        ),
        scenario(
            heading("congested-feedback-udp", "media both ways, UDP that leaves 0.5 to 2 of 4 Mb/s each way"),
            seconds,
            both_ways("constant:4mbps", "constant:4mbps", seconds),
            taken,
        ),
    ]
}

/// Section 5.4.
fn same_controller() -> Scenario {
    let heading = Heading {
        name: "same-controller",
        title: "three flows of media that come one after the other",
        source: "RFC 8867, section 5.4",
        expected: "they share 3.5 Mb/s equally soon after each comes",
    };
    let flows = vec![media(1, 0.0, 119.0), media(2, 20.0, 119.0), media(3, 40.0, 119.0)];
    scenario(heading, 120.0, dumbbell("constant:3.5mbps", 120.0), with_audio(flows))
}

/// Section 5.5.
fn round_trip_fairness() -> Scenario {
    let (seconds, base) = (300.0, 10.0);
    // The nearest flow has 10 ms in all, so that there is no room for more jitter.
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
        title: "five flows of media with one-way delays of 10 to 150 ms",
        source: "RFC 8867, section 5.5",
        expected: "all have equal rates, whatever their round-trip times",
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
            heading("long-tcp", "one flow of media and a TCP connection (NewReno), queue of 300 ms", source),
            TcpWindow::NewReno,
            QUEUE,
        ),
        long_tcp(
            heading("long-tcp-deep-queue", "the same over a queue of a second", source),
            TcpWindow::NewReno,
            Duration::from_secs(1),
        ),
        long_tcp(
            heading("long-tcp-cubic", "the first with CUBIC", "RFC 8867, section 5.6, with another TCP"),
            TcpWindow::Cubic,
            QUEUE,
        ),
    ]
}

/// Section 5.7; the files are those of RFC 8868, section 5.1.
fn short_tcp() -> Scenario {
    let seconds = 300.0;
    let mut flows = vec![media(1, 5.0, 299.0), media(2, 5.0, 299.0)];
    for number in 1..=10 {
        let files = Files {
            smallest_bytes: ByteCount::new(30_000),
            largest_bytes: ByteCount::new(50_000),
            mean_pause_seconds: 10.0,
            // Two of ten have something to carry from the start.
            begins_paused: number > 2,
        };
        let kind = FlowKind::Tcp { window: TcpWindow::NewReno, files: Some(files) };
        flows.push(flow(&format!("TCP {number}"), kind, 0.0, seconds));
    }
    let heading = Heading {
        name: "short-tcp",
        title: "two flows of media, ten TCP connections with files of 30 to 50 kB",
        source: "RFC 8867, section 5.7",
        expected: "media gives way to bursts of files and takes back what they leave",
    };
    scenario(heading, seconds, dumbbell("constant:2mbps", seconds), with_audio(flows))
}

/// Section 5.8.
fn pause_resume() -> Scenario {
    let mut paused = media(2, 0.0, 40.0);
    paused.active_seconds.push((60.0, 119.0));
    let heading = Heading {
        name: "pause-resume",
        title: "three flows of media, one of which pauses for 20 s",
        source: "RFC 8867, section 5.8",
        expected: "the others take what it leaves, and it comes back to its share without a spike of delay",
    };
    let flows = vec![media(1, 0.0, 119.0), paused, media(3, 0.0, 119.0)];
    scenario(heading, 120.0, dumbbell("constant:3.5mbps", 120.0), with_audio(flows))
}

/// Section 6.1. At the 1.5 Mb/s of section 4.3 the first flow could not have twice the others' third of what is left of
/// 3.5 Mb/s, so that the highest rate is the 4 Mb/s that this section names as well.
fn priorities() -> Scenario {
    let mut scenario = same_controller();
    "priorities".clone_into(&mut scenario.name);
    "three flows of media that come one after the other, with priorities of 2, 1 and 1".clone_into(&mut scenario.title);
    "RFC 8867, section 6.1".clone_into(&mut scenario.source);
    "the first has twice the rate of each of the others".clone_into(&mut scenario.expected);
    scenario.media.most_bps = Bitrate::from_kbps(4_000);
    scenario.flows[0].priority = 2.0;
    scenario
}

/// Section 6.3: a chain A-B-C-D; one flow takes all of it, one A-B, one C-D.
fn multiple_bottlenecks() -> Scenario {
    let seconds = 300.0;
    let part = |name, capacity, milliseconds| {
        let delay = Duration::from_millis(milliseconds);
        // A third of the jitter on each of three links, so that the whole way has what other tests have.
        let jitter = (Duration::from_millis(5), Duration::from_micros(1_667));
        link(name, capacity, seconds, delay, QUEUE, jitter)
    };
    // One-way delays of 40 ms for the flows at the ends and of 100 ms for the whole way.
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
        title: "media over a chain of links of 2, 8 and 1.5 Mb/s, and over its ends",
        source: "RFC 8867, section 6.3",
        expected: "both bottlenecks are used, and the flow over both is not starved",
    };
    scenario(heading, seconds, links, with_audio(flows))
}

/// Section 6.2 of one of the basic cases.
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
