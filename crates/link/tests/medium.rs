//! A medium whose airtime links share: who gets how much of it.

use lockstep_link::{Link, LinkConfig, Medium, MediumConfig, QueueConfig, Trace};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

/// How long: so that chances even out, which they do slowly where many collide.
const SECONDS: u64 = 20;

/// Mb/s that each link carries in that time when all of them always have packets of such a size to send.
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
fn a_station_of_wifi_alone_carries_what_its_frames_and_their_overhead_leave_of_52_mbps() {
    // Of a frame of 1,500 bytes: 34 us, 7.5 slots of 9, 40 and 60 symbols of 4, 16 and 28: 425.5 us, 28.2 Mb/s.
    let (carried, medium) = saturated(MediumConfig::WiFi, &[(52, 1_500)]);
    assert!((carried[0] - 28.2).abs() < 0.5, "{carried:?}");
    assert_eq!(medium.statistics().collisions, 0);
    // Small ones cost nearly as much each.
    let (carried, _) = saturated(MediumConfig::WiFi, &[(52, 100)]);
    assert!((3.0..5.0).contains(&carried[0]), "{carried:?}");
}

#[test]
fn stations_of_wifi_have_equal_chances_and_the_more_they_are_the_more_they_collide() {
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
fn a_slow_station_of_wifi_slows_all() {
    // Each sends a frame in turn, so that all have the rate of the slow one, nearly (Heusse et al., INFOCOM 2003).
    let (carried, _) = saturated(MediumConfig::WiFi, &[(52, 1_500), (2, 1_500)]);
    assert!(carried[0] < 2.2 && (carried[0] / carried[1] - 1.0).abs() < 0.2, "{carried:?}");
}

#[test]
fn users_of_a_cell_have_equal_times_each_at_the_rate_of_its_radio() {
    let (carried, medium) = saturated(MediumConfig::Cell, &[(20, 1_500), (2, 1_500)]);
    assert!((carried[0] - 10.0).abs() < 0.7 && (carried[1] - 1.0).abs() < 0.1, "{carried:?}");
    assert!(medium.statistics().busy.as_secs_f64() > 0.95 * SECONDS as f64);
    // Without a radio there is nothing to have.
    let (carried, _) = saturated(MediumConfig::Cell, &[(20, 1_500), (0, 1_500)]);
    assert!((carried[0] - 20.0).abs() < 0.5 && carried[1] == 0.0, "{carried:?}");
}

#[test]
fn a_medium_without_anything_to_send_is_idle_until_it_is_woken() {
    let (_, mut medium) = saturated(MediumConfig::WiFi, &[(52, 1_500)]);
    let mut none: Vec<Link<()>> = Vec::new();
    let now = medium.poll_timeout().unwrap();
    assert_eq!(medium.transmit(now, &mut none), None);
    assert_eq!(medium.poll_timeout(), None);
    medium.wake(Timestamp::from_millis(90_000));
    assert_eq!(medium.poll_timeout(), Some(Timestamp::from_millis(90_000)));
}
