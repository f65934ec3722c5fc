//! Links that share a medium: flows in both directions have one airtime between them.

use std::time::Duration;

use lockstep_link::{Link, LinkConfig, Medium, MediumConfig, QueueConfig, Trace};
use lockstep_sim::cross_traffic::{CrossTraffic, NewReno, Tcp, TrafficPacket, WindowAlgorithm, Workload};
use lockstep_sim::{Activity, Network, Route, SharedLink, TopologyError};
use lockstep_units::{Bitrate, Timestamp};

const SECONDS: u64 = 20;

fn link() -> SharedLink<TrafficPacket> {
    let config = LinkConfig {
        delay: Duration::from_millis(10),
        queue: QueueConfig::drop_tail(200),
        medium: Some("channel".to_owned()),
        ..LinkConfig::new(Trace::constant(Bitrate::from_kbps(52_000)))
    };
    Link::new(config, 1).unwrap()
}

/// Mb/s of data of TCP connections over one Wi-Fi channel: so many down through the access point, which has link 0, and
/// so many up, each from a station of its own.
fn tcp(down: usize, up: usize) -> (f64, f64) {
    let route = |number: usize| {
        let station = 1 + number;
        let (forward, reverse) = if number < down { (vec![0], vec![station]) } else { (vec![station], vec![0]) };
        Route { forward, reverse, ..Route::single_bottleneck() }
    };
    let end = Timestamp::from_millis(1_000 * SECONDS);
    let flow = |_| {
        let window = WindowAlgorithm::NewReno(NewReno::default());
        CrossTraffic::Tcp(Box::new(Tcp::new(window, Workload::Bulk, Activity::between(Timestamp::ZERO, end), 1)))
    };
    let flows = down + up;
    let links = (0..=flows).map(|_| link()).collect();
    let network = Network::with_routes((0..flows).map(flow).collect(), (0..flows).map(route).collect(), links).unwrap();
    let mut network = network.sharing(vec![Medium::new(MediumConfig::WiFi, 0..=flows, 5)]).unwrap();
    network.run_until(end);
    let carried = |flow: &CrossTraffic| match flow {
        CrossTraffic::Tcp(tcp) => tcp.statistics().acknowledged as f64 * 1_460.0 * 8.0 / (SECONDS as f64 * 1e6),
        _ => 0.0,
    };
    let sum = |flows: &[CrossTraffic]| flows.iter().map(carried).sum::<f64>();
    (sum(&network.flows()[..down]), sum(&network.flows()[down..]))
}

#[test]
fn downloads_over_wifi_have_about_the_20_mbps_that_rfc_8869_says() {
    for down in [1, 4] {
        let (rate, _) = tcp(down, 0);
        assert!((16.0..23.0).contains(&rate), "{down}: {rate}");
    }
}

#[test]
fn downloads_and_uploads_share_one_airtime() {
    let (alone, _) = tcp(1, 0);
    for stations in [1, 4] {
        let (down, up) = tcp(1, stations);
        let sum = down + up;
        // Apart, they would have twice that and more. Together a little more is possible than alone: of several
        // stations one has drawn few slots, and acknowledgements that the access point drops take no airtime.
        assert!((0.8..1.3).contains(&(sum / alone)), "alone {alone}, {down} down and {up} up");
        // The access point is one station among others, and its queue drops what goes down but few acknowledgements of
        // what goes up (Pilosof et al., INFOCOM 2003).
        assert!(down < 0.5 * alone && up > 0.5 * alone, "alone {alone}, {down} down and {up} up");
    }
}

#[test]
fn a_medium_is_shared_by_links_that_are_there_and_name_one() {
    let network = || {
        let flows = vec![CrossTraffic::Tcp(Box::new(Tcp::new(
            WindowAlgorithm::NewReno(NewReno::default()),
            Workload::Bulk,
            Activity::between(Timestamp::ZERO, Timestamp::from_millis(10)),
            1,
        )))];
        Network::with_routes(flows, vec![Route::single_bottleneck()], vec![link(), link()]).unwrap()
    };
    let medium = |links: &[usize]| vec![Medium::new(MediumConfig::WiFi, links.iter().copied(), 1)];
    assert_eq!(network().sharing(medium(&[0, 7])).err(), Some(TopologyError::Medium(7)));
    assert_eq!(network().sharing(medium(&[0])).err(), Some(TopologyError::Medium(1)), "nothing gives link 1 its turns");
    assert!(network().sharing(medium(&[0, 1])).is_ok());
}
