//! Tests of ECN: a queue marks ECN-capable packets instead of dropping them.

use std::time::Duration;

use lockstep_link::{Delivered, Link, LinkConfig, LinkStatistics, QueueConfig, Trace};
use lockstep_units::{Bitrate, ByteCount, Timestamp};
use proptest::prelude::*;

/// Sends `packets` of 1,200 bytes, one per `gap`, over 1 Mb/s (9.6 ms per packet). Returns the arrivals and counters.
fn stream(queue: QueueConfig, ecn_capable: bool, packets: u64, gap: Duration) -> (Vec<Delivered<u64>>, LinkStatistics) {
    let config = LinkConfig { queue, ..LinkConfig::new(Trace::constant(Bitrate::from_kbps(1_000))) };
    let mut link = Link::new(config, 7).unwrap();
    let size = ByteCount::new(1_200);
    for number in 0..packets {
        let now = Timestamp::ZERO + gap * number as u32;
        let _ = if ecn_capable { link.send_ecn_capable(now, size, number) } else { link.send(now, size, number) };
    }
    let end = Timestamp::from_millis(10_000_000);
    let came = std::iter::from_fn(|| link.poll(end)).collect();
    (came, *link.statistics())
}

/// Gaps for 20 % more traffic than the capacity, and for somewhat less.
const TOO_MUCH: Duration = Duration::from_millis(8);
const LITTLE: Duration = Duration::from_millis(12);

fn memory() -> QueueConfig {
    QueueConfig::drop_tail(1_000)
}

#[test]
fn codel_marks_instead_of_dropping() {
    let codel = memory().with_codel().with_ecn();
    let (came, statistics) = stream(codel, true, 300, TOO_MUCH);
    let (_, without) = stream(codel, false, 300, TOO_MUCH);
    assert_eq!((came.len(), statistics.dropped_by_queue.packets), (300, 0));
    assert!(statistics.marked.packets > 0 && without.dropped_by_queue.packets > 0);
    assert_eq!(came.iter().filter(|packet| packet.congestion_experienced).count() as u64, statistics.marked.packets);
    // The first marked packet is the one that would be dropped first.
    let (dropped, _) = stream(codel, false, 300, TOO_MUCH);
    let first_gap = dropped.windows(2).find(|pair| pair[1].packet != pair[0].packet + 1).unwrap()[0].packet + 1;
    assert_eq!(came.iter().find(|packet| packet.congestion_experienced).unwrap().packet, first_gap);
}

#[test]
fn pie_marks_below_a_probability_of_10_percent() {
    let pie = memory().with_pie().with_ecn();
    let (_, statistics) = stream(pie, true, 150, Duration::from_micros(9_000));
    assert!(
        statistics.marked.packets > 3 * statistics.dropped_by_queue.packets,
        "{:?}",
        (statistics.marked, statistics.dropped_by_queue)
    );
    let (_, flooded) = stream(pie, true, 3_000, Duration::from_millis(2));
    assert!(flooded.marked.packets > 0 && flooded.dropped_by_queue.packets > 500, "{flooded:?}");
}

#[test]
fn packets_without_ecn_are_dropped() {
    for queue in [memory().with_codel(), memory().with_pie()] {
        assert_eq!(stream(queue.with_ecn(), false, 500, TOO_MUCH), stream(queue, false, 500, TOO_MUCH));
        assert_eq!(stream(queue, true, 500, TOO_MUCH), stream(queue, false, 500, TOO_MUCH));
    }
}

#[test]
fn empty_queues_and_drop_tail_never_mark() {
    for queue in [memory().with_codel(), memory().with_pie()] {
        assert_eq!(stream(queue.with_ecn(), true, 300, LITTLE).1.marked.packets, 0);
    }
    assert_eq!(memory().with_ecn(), memory());
    assert!(!memory().marks() && memory().with_pie().with_ecn().marks());
}

#[test]
fn marking_queue_survives_a_json_round_trip() {
    for queue in [memory().with_codel().with_ecn(), memory().with_pie().with_ecn(), memory().with_pie()] {
        let text = serde_json::to_string(&queue).unwrap();
        assert_eq!(serde_json::from_str::<QueueConfig>(&text).unwrap(), queue);
    }
    let older: QueueConfig = serde_json::from_str("{\"codel\": {\"packets\": 20}}").unwrap();
    assert!(!older.marks());
}

proptest! {
    #[test]
    fn every_packet_is_delivered_or_dropped_once(gap in 1u64..20, packets in 1u64..400, pie: bool, capable: bool) {
        let queue = QueueConfig::drop_tail(30);
        let queue = if pie { queue.with_pie() } else { queue.with_codel() }.with_ecn();
        let (came, statistics) = stream(queue, capable, packets, Duration::from_millis(gap));
        prop_assert_eq!(came.len() as u64 + statistics.dropped_by_queue.packets, packets);
        prop_assert!(capable || statistics.marked.packets == 0);
        prop_assert!(came.windows(2).all(|pair| pair[0].packet < pair[1].packet));
    }
}
