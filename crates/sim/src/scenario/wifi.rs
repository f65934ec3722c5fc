//! The test cases of RFC 8869 for Wi-Fi, section 3: stations and an access point that share the airtime of a channel,
//! whatever the direction ([`lockstep_link::Medium`]), and wires behind the access point.
//!
//! Common to them: 802.11n at 52 Mb/s, wires of 50 ms each way with jitter of up to 30 ms and drop-tail queues of 300
//! ms, 120 s of which media takes 119. Stations share nothing but the channel: each has a queue of its own for what it
//! sends, and the access point has one for what goes down. The RFC leaves the rate of UDP open: 300 kb/s over the wire
//! of 1 Mb/s, 1 Mb/s each over Wi-Fi.

use lockstep_link::{LinkConfig, MediumConfig, QueueConfig, Trace};
use lockstep_units::{Bitrate, ByteCount};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use super::rfc8867::{DELAY, Heading, JITTER, QUEUE, flow, link, scenario};
use super::{FlowKind, Scenario, ScenarioFlow, ScenarioLink, ScenarioMedium, TcpWindow};

/// What stations and links call the channel.
const CHANNEL: &str = "channel";
/// MCS index 11 (section 3.1.2).
const PHYSICAL_RATE: Bitrate = Bitrate::from_kbps(52_000);
/// What applications have of it (section 3.2.3), by which its queues are measured.
const GOODPUT: Bitrate = Bitrate::from_kbps(20_000);
const SECONDS: f64 = 120.0;
const MEDIA: (f64, f64) = (0.0, 119.0);
const TCP: FlowKind = FlowKind::Tcp { window: TcpWindow::NewReno, files: None };

/// Links that every scenario here has, by their numbers; the stations' follow.
const DOWNLINK: usize = 0;
const WIRE_UP: usize = 1;
const WIRE_DOWN: usize = 2;
const FIRST_STATION: usize = 3;

#[derive(Clone, Copy, PartialEq)]
enum Way {
    Up,
    Down,
}

/// What one flow does: its kind, its way, its station and its times.
struct Use {
    kind: FlowKind,
    way: Way,
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
        let way = if used.way == Way::Up { "up" } else { "down" };
        let number = if used.kind == FlowKind::Media { &mut calls } else { &mut others };
        *number += 1;
        let up = vec![FIRST_STATION + used.station, WIRE_UP];
        let down = vec![WIRE_DOWN, DOWNLINK];
        let (forward, reverse) = if used.way == Way::Up { (up, down) } else { (down, up) };
        let name = format!("{} {number} {way}", used.kind.name());
        ScenarioFlow { forward, reverse, ..flow(&name, used.kind, used.active.0, used.active.1) }
    });
    let flows = flows.collect();
    let shared_media = vec![ScenarioMedium { name: CHANNEL.to_owned(), kind: MediumConfig::WiFi }];
    Scenario { shared_media, ..scenario(heading, SECONDS, links, flows) }
}

fn call(way: Way, station: usize) -> Use {
    Use { kind: FlowKind::Media, way, station, active: MEDIA }
}

/// Section 3.1: the bottleneck is the wire behind the access point.
fn wired() -> Vec<Scenario> {
    let network = |name, title, expected, uses: Vec<Use>| {
        network(Heading { name, title, source: "RFC 8869, section 3.1", expected }, "constant:1mbps", &uses)
    };
    let pair = || vec![call(Way::Up, 0), call(Way::Down, 0)];
    let with = |kind, active| {
        let mut uses = pair();
        uses.push(Use { kind, way: Way::Up, station: 1, active });
        uses
    };
    let udp = FlowKind::ConstantBitRate { rate_bps: Bitrate::from_kbps(300) };
    let adapts = "media leaves UDP its part, and takes it where UDP does not";
    vec![
        network(
            "wifi-wired-up",
            "one flow of media up, over Wi-Fi and a wire of 1 Mb/s",
            "it fills the wire, with little queue",
            vec![call(Way::Up, 0)],
        ),
        network("wifi-wired-both", "media up and down", "both fill their way, with little queue", pair()),
        network("wifi-wired-udp-first", "the same with 300 kb/s of UDP up until 60 s", adapts, with(udp, (0.0, 60.0))),
        network(
            "wifi-wired-udp-later",
            "the same with 300 kb/s of UDP up from 60 s on",
            adapts,
            with(udp, (60.0, 119.0)),
        ),
        network(
            "wifi-wired-tcp",
            "one flow of media up and a TCP connection up",
            "media neither starves nor starves TCP",
            vec![call(Way::Up, 0), Use { kind: TCP, way: Way::Up, station: 1, active: MEDIA }],
        ),
    ]
}

/// `down` calls down and `up` up, each with a station of its own.
fn calls(down: usize, up: usize) -> Vec<Use> {
    let down_calls = (0..down).map(|station| call(Way::Down, station));
    down_calls.chain((down..down + up).map(|station| call(Way::Up, station))).collect()
}

/// Section 3.2: the bottleneck is the channel.
fn wireless() -> Vec<Scenario> {
    let network = |name, title, expected, uses: Vec<Use>| {
        network(Heading { name, title, source: "RFC 8869, section 3.2", expected }, "constant:100mbps", &uses)
    };
    let with_five = |kind, active| {
        let mut uses = calls(8, 8);
        uses.extend((16..21).map(|station| Use { kind, way: Way::Up, station, active }));
        uses
    };
    let udp = FlowKind::ConstantBitRate { rate_bps: Bitrate::from_kbps(1_000) };
    let shares = "all share the channel equally";
    let adapts = "media takes what UDP leaves within seconds";
    let mut all = vec![
        network("wifi-down", "sixteen flows of media down over Wi-Fi", shares, calls(16, 0)),
        network("wifi-up", "sixteen flows of media up over Wi-Fi", shares, calls(0, 16)),
        network("wifi-both", "eight flows of media up and eight down", shares, calls(8, 8)),
        network(
            "wifi-both-udp-first",
            "the same with five times 1 Mb/s of UDP up until 60 s",
            adapts,
            with_five(udp, (0.0, 60.0)),
        ),
        network(
            "wifi-both-udp-later",
            "the same with five times 1 Mb/s of UDP up from 61 s on",
            adapts,
            with_five(udp, (61.0, 120.0)),
        ),
        network(
            "wifi-both-tcp",
            "the same with five TCP uploads from 40 to 80 s",
            "media gives way to TCP and takes back what it leaves",
            with_five(TCP, (40.0, 80.0)),
        ),
    ];
    let varying = [
        ("wifi-both-4", "two flows of media up and two down, with other starts and ends", 4),
        ("wifi-both-8", "four and four", 8),
        ("wifi-both-12", "six and six", 12),
        ("wifi-both-20", "ten and ten", 20),
    ];
    all.extend(varying.map(|(name, title, flows)| {
        let mut random = Pcg64::seed_from_u64(flows as u64);
        let mut uses = calls(flows / 2, flows / 2);
        for used in &mut uses {
            used.active = (random.random_range(0.0..10.0), random.random_range(110.0..120.0));
        }
        network(name, title, "the more flows, the less each has, and all alike", uses)
    }));
    all
}

pub(super) fn scenarios() -> Vec<Scenario> {
    let mut all = wired();
    all.extend(wireless());
    all
}
