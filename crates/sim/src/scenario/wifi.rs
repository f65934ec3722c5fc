//! Wi-Fi test cases of RFC 8869, section 3.
//!
//! Stations and an access point share the airtime of a channel in both directions ([`lockstep_link::Medium`]). Wires
//! lie behind the access point. Common properties:
//!
//! - 802.11n at 52 Mb/s; wires of 50 ms in each direction with jitter of up to 30 ms; drop-tail queues of 300 ms.
//! - Duration of 120 s, of which media is active for 119 s.
//! - Each station has a separate uplink queue. The access point has one downlink queue.
//! - The RFC does not define the rate of UDP. It is 300 kb/s over the wire of 1 Mb/s, and 1 Mb/s per flow over Wi-Fi.

use lockstep_link::{LinkConfig, MediumConfig, QueueConfig, Trace};
use lockstep_units::{Bitrate, ByteCount};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use super::rfc8867::{DELAY, Heading, JITTER, QUEUE, flow, link, scenario};
use super::{FlowKind, Scenario, ScenarioFlow, ScenarioLink, ScenarioMedium, TcpWindow};

/// Name of the channel.
const CHANNEL: &str = "channel";
/// Physical rate: MCS index 11 (section 3.1.2).
const PHYSICAL_RATE: Bitrate = Bitrate::from_kbps(52_000);
/// Goodput of applications (section 3.2.3), from which the channel's queues are sized.
const GOODPUT: Bitrate = Bitrate::from_kbps(20_000);
const SECONDS: f64 = 120.0;
const MEDIA: (f64, f64) = (0.0, 119.0);
const TCP: FlowKind = FlowKind::Tcp { window: TcpWindow::NewReno, files: None };

/// Indices of the links that every scenario has. The stations' links follow.
const DOWNLINK: usize = 0;
const WIRE_UP: usize = 1;
const WIRE_DOWN: usize = 2;
const FIRST_STATION: usize = 3;

#[derive(Clone, Copy, PartialEq)]
enum Direction {
    Up,
    Down,
}

/// One flow: kind, direction, station and interval.
struct Use {
    kind: FlowKind,
    direction: Direction,
    station: usize,
    active: (f64, f64),
}

fn queue_on_channel(name: &str, share: usize) -> ScenarioLink {
    let bytes = GOODPUT.bytes_in(QUEUE).get() / share.max(1) as u64;
    let config = LinkConfig {
        queue: QueueConfig::drop_tail_bytes(ByteCount::new(bytes)),
        medium: Some(CHANNEL.to_owned()),
        ..LinkConfig::new(Trace::constant(PHYSICAL_RATE))
    };
    ScenarioLink { name: name.to_owned(), config }
}

fn network(heading: Heading, wire: &str, uses: &[Use]) -> Scenario {
    let stations = uses.iter().map(|used| used.station + 1).max().unwrap_or(0);
    let mut links = vec![
        queue_on_channel("downlink", 1),
        link("wire up", wire, SECONDS, DELAY, QUEUE, JITTER),
        link("wire down", wire, SECONDS, DELAY, QUEUE, JITTER),
    ];
    links.extend((0..stations).map(|station| queue_on_channel(&format!("uplink {}", station + 1), stations)));
    let (mut calls, mut others) = (0, 0);
    let flows = uses.iter().map(|used| {
        let direction = if used.direction == Direction::Up { "up" } else { "down" };
        let number = if used.kind == FlowKind::Media { &mut calls } else { &mut others };
        *number += 1;
        let up = vec![FIRST_STATION + used.station, WIRE_UP];
        let down = vec![WIRE_DOWN, DOWNLINK];
        let (forward, reverse) = if used.direction == Direction::Up { (up, down) } else { (down, up) };
        let name = format!("{} {number} {direction}", used.kind.name());
        ScenarioFlow { forward, reverse, ..flow(&name, used.kind, used.active.0, used.active.1) }
    });
    let flows = flows.collect();
    let shared_media = vec![ScenarioMedium { name: CHANNEL.to_owned(), kind: MediumConfig::WiFi }];
    Scenario { shared_media, ..scenario(heading, SECONDS, links, flows) }
}

fn call(direction: Direction, station: usize) -> Use {
    Use { kind: FlowKind::Media, direction, station, active: MEDIA }
}

/// Section 3.1: the wire behind the access point is the bottleneck.
fn wired() -> Vec<Scenario> {
    let network = |name, title, expected, uses: Vec<Use>| {
        network(Heading { name, title, source: "RFC 8869, section 3.1", expected }, "constant:1mbps", &uses)
    };
    let pair = || vec![call(Direction::Up, 0), call(Direction::Down, 0)];
    let with = |kind, active| {
        let mut uses = pair();
        uses.push(Use { kind, direction: Direction::Up, station: 1, active });
        uses
    };
    let udp = FlowKind::ConstantBitRate { rate_bps: Bitrate::from_kbps(300) };
    let adapts = "media leaves UDP its share, and uses it when UDP is inactive";
    vec![
        network(
            "wifi-wired-up",
            "one media flow up, over Wi-Fi and a wire of 1 Mb/s",
            "media fills the wire with a short queue",
            vec![call(Direction::Up, 0)],
        ),
        network("wifi-wired-both", "media up and down", "both flows fill their direction with a short queue", pair()),
        network(
            "wifi-wired-udp-first",
            "like wifi-wired-both, 300 kb/s of UDP up until 60 s",
            adapts,
            with(udp, (0.0, 60.0)),
        ),
        network(
            "wifi-wired-udp-later",
            "like wifi-wired-both, 300 kb/s of UDP up from 60 s on",
            adapts,
            with(udp, (60.0, 119.0)),
        ),
        network(
            "wifi-wired-tcp",
            "one media flow up and a TCP connection up",
            "media neither starves nor starves TCP",
            vec![call(Direction::Up, 0), Use { kind: TCP, direction: Direction::Up, station: 1, active: MEDIA }],
        ),
    ]
}

/// Calls: `down` downlink calls and `up` uplink calls, each with a separate station.
fn calls(down: usize, up: usize) -> Vec<Use> {
    let down_calls = (0..down).map(|station| call(Direction::Down, station));
    down_calls.chain((down..down + up).map(|station| call(Direction::Up, station))).collect()
}

/// Section 3.2: the channel is the bottleneck.
fn wireless() -> Vec<Scenario> {
    let network = |name, title, expected, uses: Vec<Use>| {
        network(Heading { name, title, source: "RFC 8869, section 3.2", expected }, "constant:100mbps", &uses)
    };
    let with_five = |kind, active| {
        let mut uses = calls(8, 8);
        uses.extend((16..21).map(|station| Use { kind, direction: Direction::Up, station, active }));
        uses
    };
    let udp = FlowKind::ConstantBitRate { rate_bps: Bitrate::from_kbps(1_000) };
    let shares = "all flows share the channel equally";
    let adapts = "media uses the rest of the capacity within seconds";
    let mut all = vec![
        network("wifi-down", "sixteen media flows down over Wi-Fi", shares, calls(16, 0)),
        network("wifi-up", "sixteen media flows up over Wi-Fi", shares, calls(0, 16)),
        network("wifi-both", "eight media flows up and eight down", shares, calls(8, 8)),
        network(
            "wifi-both-udp-first",
            "like wifi-both, five UDP flows of 1 Mb/s up until 60 s",
            adapts,
            with_five(udp, (0.0, 60.0)),
        ),
        network(
            "wifi-both-udp-later",
            "like wifi-both, five UDP flows of 1 Mb/s up from 61 s on",
            adapts,
            with_five(udp, (61.0, 120.0)),
        ),
        network(
            "wifi-both-tcp",
            "like wifi-both, five TCP uploads from 40 to 80 s",
            "media yields to TCP and then recovers its rate",
            with_five(TCP, (40.0, 80.0)),
        ),
    ];
    let varying = [
        ("wifi-both-4", "two media flows up and two down, random starts and ends", 4),
        ("wifi-both-8", "four media flows up and four down, random starts and ends", 8),
        ("wifi-both-12", "six media flows up and six down, random starts and ends", 12),
        ("wifi-both-20", "ten media flows up and ten down, random starts and ends", 20),
    ];
    all.extend(varying.map(|(name, title, flows)| {
        let mut random = Pcg64::seed_from_u64(flows as u64);
        let mut uses = calls(flows / 2, flows / 2);
        for used in &mut uses {
            used.active = (random.random_range(0.0..10.0), random.random_range(110.0..120.0));
        }
        network(name, title, "all flows share the channel equally at any number of flows", uses)
    }));
    all
}

pub(super) fn scenarios() -> Vec<Scenario> {
    let mut all = wired();
    all.extend(wireless());
    all
}
