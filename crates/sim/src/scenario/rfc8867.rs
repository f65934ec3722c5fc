//! The test cases of RFC 8867 for one or several bottlenecks between wires. Left out are 6.1 (priorities among media) and
//! 6.2 (ECN), which nothing here has.
//!
//! Common to them (section 4): one-way delay of 50 ms with jitter of up to 30 ms, drop-tail queues of 300 ms, media of
//! 150 kb/s to 1.5 Mb/s. Where the capacity changes, a queue of 300 ms is one at its mean. Jitter is normal with a
//! deviation of 5 ms, cut off at three deviations (RFC 8868, section 4.5), and keeps packets in order.

use std::time::Duration;

use lockstep_link::{Jitter, JitterDistribution, LinkConfig, QueueConfig, Trace};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use super::{Files, FlowKind, MediaRates, Scenario, ScenarioFlow, ScenarioLink, TcpWindow};

/// The one-way delay where a test names no other.
const DELAY: Duration = Duration::from_millis(50);
/// The queue where a test names no other.
const QUEUE: Duration = Duration::from_millis(300);
/// The mean of the jitter, which the delay contains, and its deviation.
const JITTER: (Duration, Duration) = (Duration::from_millis(15), Duration::from_millis(5));
/// A way that limits nothing.
const AMPLE: &str = "constant:100mbps";

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
pub(super) fn dumbbell(capacity: &str, seconds: f64) -> Vec<ScenarioLink> {
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
    }
}

/// The same the other way round.
pub(super) fn backwards(mut flow: ScenarioFlow) -> ScenarioFlow {
    std::mem::swap(&mut flow.forward, &mut flow.reverse);
    flow
}

pub(super) fn media(number: usize, from: f64, to: f64) -> ScenarioFlow {
    flow(&format!("media {number}"), FlowKind::Media, from, to)
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
        links,
        flows,
    }
}

/// One flow of media and one of TCP from the start to a second before the end (section 5.6).
fn long_tcp(heading: Heading, window: TcpWindow, queue: Duration) -> Scenario {
    let seconds = 120.0;
    let mut links = dumbbell("constant:2mbps", seconds);
    links[0] = link("forward", "constant:2mbps", seconds, DELAY, queue, JITTER);
    let tcp = FlowKind::Tcp { window, files: None };
    scenario(heading, seconds, links, vec![media(1, 5.0, 119.0), flow("TCP", tcp, 0.0, 119.0)])
}

fn short_tcp() -> Scenario {
    let seconds = 300.0;
    let mut flows = vec![media(1, 0.0, seconds), media(2, 0.0, seconds)];
    for number in 1..=10 {
        let files = Files {
            smallest_bytes: ByteCount::new(100_000),
            largest_bytes: ByteCount::new(1_000_000),
            mean_pause_seconds: 10.0,
            // Two of ten have something to carry from the start.
            begins_paused: number > 2,
        };
        let kind = FlowKind::Tcp { window: TcpWindow::NewReno, files: Some(files) };
        flows.push(flow(&format!("TCP {number}"), kind, 0.0, seconds));
    }
    let heading = Heading {
        name: "short-tcp",
        title: "two flows of media, ten TCP connections with files of 100 kB to 1 MB",
        source: "RFC 8867, section 5.7",
        expected: "media gives way to bursts of files and takes back what they leave",
    };
    scenario(heading, seconds, dumbbell("constant:2mbps", seconds), flows)
}

/// Flows of different round-trip times over one bottleneck (section 5.5).
fn round_trip_fairness() -> Scenario {
    let (seconds, base) = (300.0, 10.0);
    let jitter = (Duration::from_millis(9), Duration::from_millis(3));
    let delay = Duration::from_millis(10);
    let links = vec![
        link("forward", "constant:4mbps", seconds, delay, QUEUE, jitter),
        link("reverse", AMPLE, seconds, delay, QUEUE, jitter),
    ];
    let flows = [10.0, 25.0, 50.0, 100.0, 150.0].into_iter().enumerate().map(|(index, one_way)| ScenarioFlow {
        name: format!("media {} ({one_way} ms)", index + 1),
        access_delay_ms: one_way - base,
        ..media(index + 1, 10.0 * index as f64, seconds)
    });
    let heading = Heading {
        name: "round-trip-fairness",
        title: "five flows of media with one-way delays of 10 to 150 ms",
        source: "RFC 8867, section 5.5",
        expected: "all have equal rates, whatever their round-trip times",
    };
    scenario(heading, seconds, links, flows.collect())
}

/// A chain A-B-C-D: one flow takes all of it, one A-B, one C-D (section 6.3).
fn multiple_bottlenecks() -> Scenario {
    let seconds = 120.0;
    let part = Duration::from_millis(17);
    let jitter = (Duration::from_millis(5), Duration::from_micros(1_700));
    let mut links: Vec<ScenarioLink> =
        [("A-B", "constant:2mbps"), ("B-C", "constant:4mbps"), ("C-D", "constant:3mbps")]
            .into_iter()
            .map(|(name, capacity)| link(name, capacity, seconds, part, QUEUE, jitter))
            .collect();
    links.extend(["B-A", "C-B", "D-C"].map(|name| link(name, AMPLE, seconds, part, QUEUE, jitter)));
    let over = |number: usize, name: &str, forward: &[usize], reverse: &[usize], from| ScenarioFlow {
        name: format!("media {number} ({name})"),
        forward: forward.to_vec(),
        reverse: reverse.to_vec(),
        ..media(number, from, seconds)
    };
    let flows = vec![
        over(1, "A-D", &[0, 1, 2], &[5, 4, 3], 0.0),
        over(2, "A-B", &[0], &[3], 20.0),
        over(3, "C-D", &[2], &[5], 40.0),
    ];
    let heading = Heading {
        name: "multiple-bottlenecks",
        title: "media over a chain of links of 2, 4 and 3 Mb/s, and over its ends",
        source: "RFC 8867, section 6.3",
        expected: "the flow over the whole chain is not starved by those over one link each",
    };
    scenario(heading, seconds, links, flows)
}

pub(super) fn scenarios() -> Vec<Scenario> {
    let single = "steps:1mbps@40s/2.5mbps@20s/600kbps@20s/1mbps@20s";
    let multiple = "steps:4mbps@25s/2mbps@25s/3.5mbps@25s/1mbps@25s/2mbps@25s";
    let (there, back) = ("steps:2mbps@20s/1mbps@20s/500kbps@20s/2mbps@40s", "steps:2mbps@35s/800kbps@35s/2mbps@30s");
    let mut paused = media(1, 0.0, 40.0);
    paused.active_seconds.push((60.0, 119.0));
    vec![
        scenario(
            Heading {
                name: "variable-capacity-single",
                title: "one flow of media, capacity of 0.6 to 2.5 Mb/s",
                source: "RFC 8867, section 5.1",
                expected: "the rate follows the capacity within seconds, and the queue does not stand",
            },
            100.0,
            dumbbell(single, 100.0),
            vec![media(1, 0.0, 99.0)],
        ),
        scenario(
            Heading {
                name: "variable-capacity-multiple",
                title: "two flows of media, capacity of 1 to 4 Mb/s",
                source: "RFC 8867, section 5.2",
                expected: "both follow the capacity and share it equally",
            },
            125.0,
            dumbbell(multiple, 125.0),
            vec![media(1, 0.0, 124.0), media(2, 0.0, 124.0)],
        ),
        scenario(
            Heading {
                name: "congested-feedback",
                title: "media both ways, capacity of 0.5 to 2 Mb/s each way at different times",
                source: "RFC 8867, section 5.3",
                expected: "each follows its own way's capacity although the other's congestion delays its feedback",
            },
            100.0,
            both_ways(there, back, 100.0),
            vec![media(1, 0.0, 99.0), backwards(media(2, 0.0, 99.0))],
        ),
        scenario(
            Heading {
                name: "same-controller",
                title: "three flows of media that come one after the other",
                source: "RFC 8867, section 5.4",
                expected: "they share 3.5 Mb/s equally soon after each comes",
            },
            120.0,
            dumbbell("constant:3.5mbps", 120.0),
            vec![media(1, 0.0, 119.0), media(2, 20.0, 119.0), media(3, 40.0, 119.0)],
        ),
        round_trip_fairness(),
        long_tcp(
            Heading {
                name: "long-tcp",
                title: "one flow of media and a TCP connection (NewReno)",
                source: "RFC 8867, section 5.6",
                expected: "media neither starves nor starves TCP",
            },
            TcpWindow::NewReno,
            QUEUE,
        ),
        long_tcp(
            Heading {
                name: "long-tcp-deep-queue",
                title: "the same over a queue of a second",
                source: "RFC 8867, section 5.6",
                expected: "media keeps a share although TCP fills a second of queue",
            },
            TcpWindow::NewReno,
            Duration::from_secs(1),
        ),
        long_tcp(
            Heading {
                name: "long-tcp-cubic",
                title: "one flow of media and a TCP connection (CUBIC)",
                source: "after RFC 8867, section 5.6",
                expected: "media neither starves nor starves TCP",
            },
            TcpWindow::Cubic,
            QUEUE,
        ),
        short_tcp(),
        scenario(
            Heading {
                name: "pause-resume",
                title: "three flows of media, one of which pauses for 20 s",
                source: "RFC 8867, section 5.8",
                expected: "the others take what it leaves, and it comes back to its share without a spike of delay",
            },
            120.0,
            dumbbell("constant:3.5mbps", 120.0),
            vec![paused, media(2, 0.0, 119.0), media(3, 0.0, 119.0)],
        ),
        multiple_bottlenecks(),
    ]
}
