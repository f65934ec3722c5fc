//! Tests of a shared medium: the share of each link.

use lockstep_link::{Link, LinkConfig, Medium, MediumConfig, QueueConfig, Trace};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

/// Duration, long enough for fair shares; many collisions slow the convergence.
const SECONDS: u64 = 20;

/// Rates in Mb/s of links that always have packets. `stations` has the bit rate in Mb/s and packet size of each.
fn saturated(kind: MediumConfig, stations: &[(u64, u64)]) -> (Vec<f64>, Medium) {
    let link = |&(mbps, _): &(u64, u64)| {
        let config = LinkConfig {
            queue: QueueConfig::drop_tail(5),
            medium: Some("air".to_owned()),
            ..LinkConfig::new(Trace::constant(Bitrate::from_kbps(1_000 * mbps)))
        };
        Link::new(config, 1).unwrap()
    };
    let mut links: Vec<Link<()>> = stations.iter().map(link).collect();
    let mut medium = Medium::new(kind, 0..links.len(), 3);
    let mut now = Timestamp::ZERO;
    while now < Timestamp::from_millis(1_000 * SECONDS) {
        for (link, &(_, size)) in links.iter_mut().zip(stations) {
            while link.queued().packets < 3 {
                let _ = link.send(now, ByteCount::new(size), ());
            }
        }
        medium.wake(now);
        medium.transmit(now, &mut links);
        now = medium.poll_timeout().unwrap();
    }
    let carried = links.iter().map(|link| link.statistics().served.bytes.as_f64() * 8e-6 / SECONDS as f64).collect();
    (carried, medium)
}

#[test]
fn single_wifi_station_has_the_goodput_of_its_frames() {
    // Airtime of a frame of 1,500 bytes: 34 us, 7.5 slots of 9, 40, 60 symbols of 4, 16 and 28. The sum is 425.5 us,
    // 28.2 Mb/s.
    let (carried, medium) = saturated(MediumConfig::WiFi, &[(52, 1_500)]);
    assert!((carried[0] - 28.2).abs() < 0.5, "{carried:?}");
    assert_eq!(medium.statistics().collisions, 0);
    // A small frame costs nearly as much airtime.
    let (carried, _) = saturated(MediumConfig::WiFi, &[(52, 100)]);
    assert!((3.0..5.0).contains(&carried[0]), "{carried:?}");
}

#[test]
fn wifi_stations_share_equally_and_collide() {
    let mut before = (f64::INFINITY, 0);
    for stations in [2, 5, 15] {
        let (carried, medium) = saturated(MediumConfig::WiFi, &vec![(52, 1_500); stations]);
        let sum: f64 = carried.iter().sum();
        let fair = sum / stations as f64;
        assert!(carried.iter().all(|rate| (rate / fair - 1.0).abs() < 0.25), "{carried:?}");
        let collisions = medium.statistics().collisions;
        assert!((18.0..29.0).contains(&sum) && collisions > before.1, "{sum} after {before:?}, {collisions}");
        before = (sum, collisions);
    }
}

#[test]
fn slow_wifi_station_slows_all() {
    // Stations alternate, so all have about the rate of the slow one (Heusse et al., INFOCOM 2003).
    let (carried, _) = saturated(MediumConfig::WiFi, &[(52, 1_500), (2, 1_500)]);
    assert!(carried[0] < 2.2 && (carried[0] / carried[1] - 1.0).abs() < 0.2, "{carried:?}");
}

#[test]
fn cell_users_have_equal_time_at_their_own_rates() {
    let (carried, medium) = saturated(MediumConfig::Cell, &[(20, 1_500), (2, 1_500)]);
    assert!((carried[0] - 10.0).abs() < 0.7 && (carried[1] - 1.0).abs() < 0.1, "{carried:?}");
    assert!(medium.statistics().busy.as_secs_f64() > 0.95 * SECONDS as f64);
    // A user without a radio signal has no share.
    let (carried, _) = saturated(MediumConfig::Cell, &[(20, 1_500), (0, 1_500)]);
    assert!((carried[0] - 20.0).abs() < 0.5 && carried[1] == 0.0, "{carried:?}");
}

#[test]
fn medium_without_packets_is_idle_until_woken() {
    let (_, mut medium) = saturated(MediumConfig::WiFi, &[(52, 1_500)]);
    let mut none: Vec<Link<()>> = Vec::new();
    let now = medium.poll_timeout().unwrap();
    assert_eq!(medium.transmit(now, &mut none), None);
    assert_eq!(medium.poll_timeout(), None);
    medium.wake(Timestamp::from_millis(90_000));
    assert_eq!(medium.poll_timeout(), Some(Timestamp::from_millis(90_000)));
}
