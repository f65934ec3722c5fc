//! Links that share a medium: flows in both directions share one airtime.

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

/// Goodput of TCP connections over one Wi-Fi channel, Mb/s, in total per direction. `down` connections go through the
/// access point (link 0), and `up` connections each have a separate station.
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
fn wifi_downloads_have_the_20_mbps_of_rfc_8869() {
    for down in [1, 4] {
        let (rate, _) = tcp(down, 0);
        assert!((16.0..23.0).contains(&rate), "{down}: {rate}");
    }
}

#[test]
fn downloads_and_uploads_share_the_airtime() {
    let (alone, _) = tcp(1, 0);
    for stations in [1, 4] {
        let (down, up) = tcp(1, stations);
        let sum = down + up;
        // Separate channels would give more than twice that. Several stations together get slightly more than one. The
        // shortest backoff of several is shorter, and dropped acknowledgements take no airtime.
        assert!((0.8..1.3).contains(&(sum / alone)), "alone {alone}, {down} down and {up} up");
        // The access point is one station among several. Its queue drops many downlink packets but few acknowledgements
        // of uploads (Pilosof et al., INFOCOM 2003).
        assert!(down < 0.5 * alone && up > 0.5 * alone, "alone {alone}, {down} down and {up} up");
    }
}

#[test]
fn media_with_missing_links_or_links_without_media_are_refused() {
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
    assert_eq!(
        network().sharing(medium(&[0])).err(),
        Some(TopologyError::Medium(1)),
        "link 1 names a medium but is on none"
    );
    assert!(network().sharing(medium(&[0, 1])).is_ok());
}
