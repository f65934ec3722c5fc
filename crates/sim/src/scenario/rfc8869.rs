//! The test cases of RFC 8869 (cellular and Wi-Fi) as far as a link that replays a trace can stand for radio: capacity
//! that changes, delivery in bursts, jitter, outages. What the stations of one cell or channel take from each other is
//! not in it, save what they send over the same link; both directions of a Wi-Fi channel have capacities of their own.

use std::time::Duration;

use lockstep_units::{Bitrate, ByteCount};

use super::rfc8867::{Heading, backwards, both_ways, flow, link, media, scenario};
use super::{Files, FlowKind, Scenario, ScenarioLink, TcpWindow};

/// Section 4: the way between wires has 50 ms each way, a queue of 300 ms.
const WIRE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(300));

/// Section 3.1: users come to a cell and go; a flow of media shares what the scheduler leaves.
fn varying_load() -> Scenario {
    let seconds = 150.0;
    let (delay, queue) = (Duration::from_millis(40), Duration::from_millis(300));
    let still = (Duration::ZERO, Duration::ZERO);
    let cell = "cellular:mean=6mbps,deviation=0.3,outage-every=0s,duration=150s,seed=8869";
    let links = vec![
        link("downlink", cell, seconds, delay, queue, still),
        link(
            "uplink",
            "cellular:mean=2mbps,deviation=0.3,outage-every=0s,duration=150s,seed=8870",
            seconds,
            delay,
            queue,
            still,
        ),
    ];
    let mut flows = vec![media(1, 0.0, seconds), media(2, 10.0, seconds), backwards(media(3, 0.0, seconds))];
    // Users with downloads come until the middle of the test, and go from then on.
    for user in 0..6 {
        let files = Files {
            smallest_bytes: ByteCount::new(100_000),
            largest_bytes: ByteCount::new(2_000_000),
            mean_pause_seconds: 5.0,
            begins_paused: true,
        };
        let kind = FlowKind::Tcp { window: TcpWindow::Cubic, files: Some(files) };
        let from = 10.0 * f64::from(user + 1);
        flows.push(flow(&format!("user {}", user + 1), kind, from, seconds - from));
    }
    let heading = Heading {
        name: "cellular-varying-load",
        title: "media in a cell of 6 Mb/s whose users come and go",
        source: "after RFC 8869, section 3.1",
        expected: "media gives way as the cell fills and takes back what it leaves, with little queue",
    };
    scenario(heading, seconds, links, flows)
}

/// Section 3.2: one user at the edge of a cell.
fn bad_coverage() -> Scenario {
    let seconds = 150.0;
    let (delay, queue) = (Duration::from_millis(40), Duration::from_millis(300));
    let jitter = (Duration::from_millis(6), Duration::from_millis(2));
    let edge = "cellular:mean=1.2mbps,deviation=0.9,outage-every=30s,outage-length=1s,duration=150s,seed=8871";
    let uplink = "cellular:mean=600kbps,deviation=0.9,outage-every=30s,outage-length=1s,duration=150s,seed=8872";
    let links = vec![
        link("downlink", edge, seconds, delay, queue, jitter),
        link("uplink", uplink, seconds, delay, queue, jitter),
    ];
    let heading = Heading {
        name: "cellular-bad-coverage",
        title: "media both ways at the edge of a cell: deep fades and outages",
        source: "after RFC 8869, section 3.2",
        expected: "media follows the fades and moves soon after an outage",
    };
    scenario(heading, seconds, links, vec![media(1, 0.0, seconds), backwards(media(2, 0.0, seconds))])
}

/// Section 4.1: the bottleneck is a wire of 1 Mb/s behind an access point, with `traffic` from 40 to 80 s.
fn wired_bottleneck(heading: Heading, traffic: Option<FlowKind>) -> Scenario {
    let seconds = 120.0;
    let mut flows = vec![media(1, 0.0, seconds), backwards(media(2, 0.0, seconds))];
    flows.extend(traffic.map(|kind| flow(kind.name(), kind, 40.0, 80.0)));
    scenario(heading, seconds, both_ways("constant:1mbps", "constant:1mbps", seconds), flows)
}

/// Wi-Fi that carries about 18 Mb/s each way, in bursts and with jitter.
fn channel(name: &str, seed: u32, seconds: f64) -> ScenarioLink {
    let jitter = (Duration::from_millis(6), Duration::from_millis(2));
    link(name, &format!("poisson:18mbps,duration=60s,seed={seed}"), seconds, WIRE.0, WIRE.1, jitter)
}

/// Section 4.2: the bottleneck is the channel: `calls` each way, `traffic` uploads from 40 to 80 s.
fn wireless_bottleneck(heading: Heading, calls: usize, traffic: Option<(usize, FlowKind)>) -> Scenario {
    let seconds = 120.0;
    let mut flows: Vec<_> = (1..=calls).map(|number| media(number, 0.0, seconds)).collect();
    flows.extend((calls + 1..=2 * calls).map(|number| backwards(media(number, 0.0, seconds))));
    if let Some((count, kind)) = traffic {
        let upload = |number| backwards(flow(&format!("{} {number}", kind.name()), kind, 40.0, 80.0));
        flows.extend((1..=count).map(upload));
    }
    let links = vec![channel("downlink", 41, seconds), channel("uplink", 42, seconds)];
    scenario(heading, seconds, links, flows)
}

pub(super) fn scenarios() -> Vec<Scenario> {
    let tcp = FlowKind::Tcp { window: TcpWindow::NewReno, files: None };
    vec![
        varying_load(),
        bad_coverage(),
        wired_bottleneck(
            Heading {
                name: "wifi-wired-bottleneck",
                title: "media both ways over wires of 1 Mb/s behind Wi-Fi",
                source: "RFC 8869, section 4.1",
                expected: "both fill their way, with little queue",
            },
            None,
        ),
        wired_bottleneck(
            Heading {
                name: "wifi-wired-bottleneck-udp",
                title: "the same with 300 kb/s of UDP from 40 to 80 s",
                source: "RFC 8869, section 4.1",
                expected: "media leaves the constant rate its part and takes it back afterwards",
            },
            Some(FlowKind::ConstantBitRate { rate_bps: Bitrate::from_kbps(300) }),
        ),
        wired_bottleneck(
            Heading {
                name: "wifi-wired-bottleneck-tcp",
                title: "the same with a TCP connection from 40 to 80 s",
                source: "RFC 8869, section 4.1",
                expected: "media neither starves nor starves TCP",
            },
            Some(tcp),
        ),
        wireless_bottleneck(
            Heading {
                name: "wifi-wireless-bottleneck",
                title: "sixteen flows of media each way over Wi-Fi of 18 Mb/s",
                source: "after RFC 8869, section 4.2",
                expected: "all share the channel equally",
            },
            16,
            None,
        ),
        wireless_bottleneck(
            Heading {
                name: "wifi-wireless-bottleneck-tcp",
                title: "twelve flows of media each way and four TCP uploads from 40 to 80 s",
                source: "after RFC 8869, section 4.2",
                expected: "media that goes up gives way, and media that comes down does not suffer",
            },
            12,
            Some((4, tcp)),
        ),
    ]
}
