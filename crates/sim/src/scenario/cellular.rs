//! The test cases of RFC 8869 for cells, section 2: users who come by a Poisson process and each have a call of 30 s,
//! and a download or an upload beside them, in one cell. A proportional fair scheduler gives them turns
//! ([`lockstep_link::Medium`]); each has a queue of its own and a radio whose rate fades.
//!
//! The RFC has 21 cells and gives the users that come to all of them in a second; here is one of them. Only one
//! direction is congested, as it recommends (section 2.1.1): the other is ample. Of the user intensities and round-trip
//! times that it lists there are one intensity, with which the cell is about full, and both times. What the radio of a
//! user carries is ours, after what a cell of 10 MHz is known to carry: 17 Mb/s down and 8 up if it were alone, at the
//! place where it stands half to one and a half times that; under bad coverage down to a fifteenth, with deeper fades.

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
const STILL: (Duration, Duration) = (Duration::ZERO, Duration::ZERO);

/// What a test is like.
struct Cell {
    heading: Heading,
    round_trip: Duration,
    /// Users that come in a second to all cells.
    intensity: f64,
    /// What a user alone at a mean place would have, Mb/s.
    radio_mbps: f64,
    bad_coverage: bool,
    /// What TCP may take of the cell, Mb/s.
    tcp_mbps: f64,
    seed: u64,
}

/// The numbers of the ample way back and of the wire that bounds TCP; the users' radios follow.
const BACK: usize = 0;
const TCP_WIRE: usize = 1;

/// A user's radio.
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
    // Each way has half of the round trip; the queue 300 ms at a quarter of what the user would have alone.
    let mut link = link(&format!("user {user}"), &words, SECONDS, cell.round_trip / 2, QUEUE / 4, STILL);
    link.config = LinkConfig { medium: Some(CELL.to_owned()), ..link.config };
    link
}

fn run_of(cell: Cell) -> Scenario {
    let mut random = Pcg64::seed_from_u64(cell.seed);
    let mut links = vec![
        link("way back", AMPLE, SECONDS, cell.round_trip / 2, QUEUE, STILL),
        link("TCP's wire", &format!("constant:{}mbps", cell.tcp_mbps), SECONDS, Duration::ZERO, QUEUE, STILL),
    ];
    let mut flows = Vec::new();
    let mut at = 0.0;
    loop {
        at += exponential(&mut random) * CELLS / cell.intensity;
        if at >= SECONDS - 1.0 {
            break;
        }
        let user = flows.len() + 1;
        let way =
            ScenarioFlow { forward: vec![links.len()], reverse: vec![BACK], ..media(user, at, at + CALL_SECONDS) };
        flows.push(way);
        links.push(radio(&cell, user, &mut random));
    }
    let tcp = FlowKind::Tcp { window: TcpWindow::NewReno, files: None };
    let mut flows = with_audio(flows);
    let forward = vec![TCP_WIRE, links.len()];
    links.push(radio(&cell, 0, &mut random));
    flows.push(ScenarioFlow { forward, reverse: vec![BACK], ..flow("TCP", tcp, 0.0, SECONDS) });
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
        expected: "the cell is used, with little delay and loss, and rates that are steady",
    };
    let load = |name, title| heading(name, title, "RFC 8869, section 2.1");
    let coverage = |name, title| heading(name, title, "RFC 8869, section 2.2");
    let (near, far) = (Duration::from_millis(40), Duration::from_millis(150));
    let cell = |heading, round_trip, intensity, radio_mbps, bad_coverage, tcp_mbps, seed| {
        run_of(Cell { heading, round_trip, intensity, radio_mbps, bad_coverage, tcp_mbps, seed })
    };
    vec![
        cell(
            load("cell-load-down", "calls of 30 s down in a cell whose users come and go (5.6 a second in 21 cells)"),
            near,
            5.6,
            17.0,
            false,
            4.0,
            21,
        ),
        cell(load("cell-load-down-150ms", "the same with a round trip of 150 ms"), far, 5.6, 17.0, false, 4.0, 21),
        cell(load("cell-load-up", "the same up (4.2 a second)"), near, 4.2, 8.0, false, 2.0, 22),
        cell(load("cell-load-up-150ms", "the same with a round trip of 150 ms"), far, 4.2, 8.0, false, 2.0, 22),
        cell(
            coverage("cell-coverage-down", "calls of 30 s down at places with bad coverage (3.5 a second)"),
            near,
            3.5,
            17.0,
            true,
            2.0,
            23,
        ),
        cell(
            coverage("cell-coverage-down-150ms", "the same with a round trip of 150 ms"),
            far,
            3.5,
            17.0,
            true,
            2.0,
            23,
        ),
        cell(coverage("cell-coverage-up", "the same up (2.8 a second)"), near, 2.8, 8.0, true, 1.0, 24),
        cell(coverage("cell-coverage-up-150ms", "the same with a round trip of 150 ms"), far, 2.8, 8.0, true, 1.0, 24),
    ]
}
