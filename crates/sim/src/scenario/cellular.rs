//! Cellular test cases of RFC 8869, section 2.
//!
//! Users arrive by a Poisson process, and each has a call of 30 s. One further user has a TCP download or upload. A
//! proportional fair scheduler shares the cell ([`lockstep_link::Medium`]). Each user has a separate queue and a radio
//! whose rate fades.
//!
//! Differences from the RFC:
//!
//! - One cell is simulated. The RFC has 21 cells and gives the arrival rate of all of them.
//! - Only one direction is congested, as the RFC recommends (section 2.1.1).
//! - One arrival rate is used, which nearly fills the cell, with both round-trip times.
//! - The rates of radios follow a typical cell of 10 MHz: 17 Mb/s down and 8 Mb/s up for a single user. Users have half
//!   to one and a half times that by place. With bad coverage it falls to a fifteenth, and fades are deeper.

use std::time::Duration;

use lockstep_link::{LinkConfig, MediumConfig};
use lockstep_units::random::exponential;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use super::rfc8867::{AMPLE, Heading, QUEUE, flow, link, media, scenario, with_audio};
use super::{FlowKind, Scenario, ScenarioFlow, ScenarioLink, ScenarioMedium, TcpWindow};

const SECONDS: f64 = 91.0;
const EVALUATED: (f64, f64) = (30.0, 60.0);
const CALL_SECONDS: f64 = 30.0;
const CELLS: f64 = 21.0;
const CELL: &str = "cell";
const NO_JITTER: (Duration, Duration) = (Duration::ZERO, Duration::ZERO);

/// Parameters of a test.
struct Cell {
    heading: Heading,
    round_trip: Duration,
    /// Arrivals of users per second in all cells.
    intensity: f64,
    /// Mean rate of a user alone in the cell, Mb/s.
    radio_mbps: f64,
    bad_coverage: bool,
    /// Limit on the rate of TCP, Mb/s.
    tcp_mbps: f64,
    seed: u64,
}

/// Index of the reverse link.
const REVERSE: usize = 0;
/// Index of the wire that limits TCP. The users' radios follow.
const TCP_WIRE: usize = 1;

/// Radio link of a user.
fn radio(cell: &Cell, user: usize, random: &mut Pcg64) -> ScenarioLink {
    let place = random.random::<f64>();
    let (share, fading) = if cell.bad_coverage {
        (0.067 + 0.933 * place * place, "deviation=0.9,outage-every=30s,outage-length=1s")
    } else {
        (0.5 + place, "deviation=0.3,outage-every=0s")
    };
    let kbps = (cell.radio_mbps * 1e3 * share).round();
    let seed = cell.seed * 1_000 + user as u64;
    let words = format!("cellular:mean={kbps}kbps,{fading},duration=91s,seed={seed}");
    // Each direction has half of the round-trip time. The queue holds 300 ms at a quarter of the user's rate.
    let mut link = link(&format!("user {user}"), &words, SECONDS, cell.round_trip / 2, QUEUE / 4, NO_JITTER);
    link.config = LinkConfig { medium: Some(CELL.to_owned()), ..link.config };
    link
}

fn run_of(cell: Cell) -> Scenario {
    let mut random = Pcg64::seed_from_u64(cell.seed);
    let mut links = vec![
        link("way back", AMPLE, SECONDS, cell.round_trip / 2, QUEUE, NO_JITTER),
        link("TCP's wire", &format!("constant:{}mbps", cell.tcp_mbps), SECONDS, Duration::ZERO, QUEUE, NO_JITTER),
    ];
    let mut flows = Vec::new();
    let mut at = 0.0;
    loop {
        at += exponential(&mut random) * CELLS / cell.intensity;
        if at >= SECONDS - 1.0 {
            break;
        }
        let user = flows.len() + 1;
        let call =
            ScenarioFlow { forward: vec![links.len()], reverse: vec![REVERSE], ..media(user, at, at + CALL_SECONDS) };
        flows.push(call);
        links.push(radio(&cell, user, &mut random));
    }
    let tcp = FlowKind::Tcp { window: TcpWindow::NewReno, files: None };
    let mut flows = with_audio(flows);
    let forward = vec![TCP_WIRE, links.len()];
    links.push(radio(&cell, 0, &mut random));
    flows.push(ScenarioFlow { forward, reverse: vec![REVERSE], ..flow("TCP", tcp, 0.0, SECONDS) });
    Scenario {
        evaluated_seconds: Some(EVALUATED),
        shared_media: vec![ScenarioMedium { name: CELL.to_owned(), kind: MediumConfig::Cell }],
        ..scenario(cell.heading, SECONDS, links, flows)
    }
}

pub(super) fn scenarios() -> Vec<Scenario> {
    let heading = |name, title, source| Heading {
        name,
        title,
        source,
        expected: "high utilization of the cell, little delay and loss, steady rates",
    };
    let load = |name, title| heading(name, title, "RFC 8869, section 2.1");
    let coverage = |name, title| heading(name, title, "RFC 8869, section 2.2");
    let (near, far) = (Duration::from_millis(40), Duration::from_millis(150));
    let cell = |heading, round_trip, intensity, radio_mbps, bad_coverage, tcp_mbps, seed| {
        run_of(Cell { heading, round_trip, intensity, radio_mbps, bad_coverage, tcp_mbps, seed })
    };
    vec![
        cell(
            load("cell-load-down", "downlink calls of 30 s, 5.6 arrivals per second in 21 cells"),
            near,
            5.6,
            17.0,
            false,
            4.0,
            21,
        ),
        cell(
            load("cell-load-down-150ms", "like cell-load-down, round-trip time of 150 ms"),
            far,
            5.6,
            17.0,
            false,
            4.0,
            21,
        ),
        cell(
            load("cell-load-up", "uplink calls of 30 s, 4.2 arrivals per second in 21 cells"),
            near,
            4.2,
            8.0,
            false,
            2.0,
            22,
        ),
        cell(load("cell-load-up-150ms", "like cell-load-up, round-trip time of 150 ms"), far, 4.2, 8.0, false, 2.0, 22),
        cell(
            coverage("cell-coverage-down", "downlink calls with bad coverage, 3.5 arrivals per second"),
            near,
            3.5,
            17.0,
            true,
            2.0,
            23,
        ),
        cell(
            coverage("cell-coverage-down-150ms", "like cell-coverage-down, round-trip time of 150 ms"),
            far,
            3.5,
            17.0,
            true,
            2.0,
            23,
        ),
        cell(
            coverage("cell-coverage-up", "uplink calls with bad coverage, 2.8 arrivals per second"),
            near,
            2.8,
            8.0,
            true,
            1.0,
            24,
        ),
        cell(
            coverage("cell-coverage-up-150ms", "like cell-coverage-up, round-trip time of 150 ms"),
            far,
            2.8,
            8.0,
            true,
            1.0,
            24,
        ),
    ]
}
