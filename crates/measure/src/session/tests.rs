use std::time::Duration;

use proptest::prelude::*;

use lockstep_units::{Bitrate, ByteCount, Timestamp};

use super::*;

fn at(milliseconds: u64) -> Timestamp {
    Timestamp::from_millis(milliseconds)
}

fn frame(capture: u64, captured: u64, targets: (u64, u64), bytes: u64) -> FrameRecord {
    FrameRecord {
        frame: Some(capture as u32),
        target: Some(Bitrate::from_kbps(targets.0)),
        estimate: Some(Bitrate::from_kbps(2 * targets.0)),
        codec_target: Some(Bitrate::from_kbps(targets.1)),
        size: Some(ByteCount::new(bytes)),
        sent_at: Some(at(captured + 10)),
        ..FrameRecord::captured(capture, at(captured))
    }
}

#[test]
fn a_row_has_the_counters_of_its_second() {
    let mut meter = SessionMeter::new(at(5_000));
    meter.freezes = Some(FreezeDetector::new(Duration::from_millis(100)));
    meter.sent(at(5_000), SentCounts { packets: 7, bytes: 700, ..SentCounts::default() });
    meter.received(at(5_000), ReceivedCounts::default());
    meter.captured(&frame(0, 5_100, (1_000, 800), 2_000));
    meter.captured(&frame(1, 5_500, (2_000, 800), 3_000));
    meter.captured(&frame(2, 6_100, (2_000, 1_600), 1_000));
    meter.captured(&FrameRecord { frame: None, ..frame(3, 6_200, (1_000, 1_600), 9_000) });
    meter.shown(at(5_200), Some(Duration::from_millis(100)));
    meter.shown(at(5_300), Some(Duration::from_millis(200)));
    meter.shown(at(6_900), None);
    let counts = SentCounts {
        packets: 17,
        bytes: 125_700,
        lost: 3,
        acknowledgements: 4,
        round_trip_time: Some(Duration::from_millis(50)),
        ..SentCounts::default()
    };
    meter.sent(at(6_000), counts);
    meter.received(at(6_000), ReceivedCounts { packets: 6, bytes: 50_000, missing: 9, jitter: Duration::ZERO });
    // Nothing is acknowledged in the second row, so it has no round-trip time.
    meter.sent(at(7_050), SentCounts { packets: 18, ..counts });
    meter.received(at(7_050), ReceivedCounts { packets: 6, bytes: 50_000, missing: 9, jitter: Duration::ZERO });
    assert_eq!(meter.seconds(), 2);
    let (first, rows) = meter.take(2);
    assert_eq!((first, rows.len()), (0, 2));
    let expected = SessionSecond {
        sent_bps: Some(1_000_000),
        received_bps: Some(400_000),
        packets_sent: Some(10),
        packets_received: Some(6),
        packets_lost: Some(3),
        rtt_us: Some(50_000),
        jitter_us: Some(0),
        delay_us: Some(150_000),
        codec_bps: Some(40_000),
        codec_target_bps: Some(800_000),
        transport_bps: Some(1_500_000),
        estimate_bps: Some(3_000_000),
        capacity_bps: None,
        frames_captured: Some(2),
        frames_sent: Some(2),
        frames_shown: Some(2),
        stalls: Some(0),
        stall_ms: Some(0),
        codec_updates: Some(0),
        transport_updates: Some(1),
    };
    assert_eq!(rows[0], expected);
    let second = rows[1];
    assert_eq!((second.rtt_us, second.jitter_us, second.packets_sent), (None, None, Some(1)));
    assert_eq!((second.frames_captured, second.frames_sent, second.codec_bps), (Some(2), Some(1), Some(8_000)));
    assert_eq!((second.codec_updates, second.transport_updates), (Some(1), Some(1)));
    assert_eq!((second.frames_shown, second.stalls, second.stall_ms), (Some(1), Some(1), Some(1_600)));
    assert_eq!(meter.take(9), (2, Vec::new()), "no further second was sampled");
}

#[test]
fn a_receiving_end_reports_missing_packets_only() {
    let mut meter = SessionMeter::new(at(0));
    meter.received(at(0), ReceivedCounts::default());
    let counts = ReceivedCounts { packets: 8, bytes: 1_000, missing: 2, jitter: Duration::from_millis(3) };
    meter.received(at(1_000), counts);
    let row = meter.take(1).1[0];
    assert_eq!((row.packets_received, row.packets_lost, row.jitter_us), (Some(8), Some(2), Some(3_000)));
    assert_eq!((row.sent_bps, row.codec_bps, row.transport_updates, row.rtt_us), (None, None, None, None));
}

#[test]
fn the_capacity_of_a_second_is_the_mean_of_its_points() {
    let mut meter = SessionMeter::new(at(0));
    meter.sent(at(0), SentCounts::default());
    meter.sent(at(2_000), SentCounts::default());
    let capacity_bps = (0..15).map(|point| if point < 5 { 200 } else { 400 }).collect();
    meter.carried(&Series { interval_ms: 100, capacity_bps, ..Series::default() });
    let rows = meter.take(2).1;
    assert_eq!(rows.iter().map(|row| row.capacity_bps).collect::<Vec<_>>(), [Some(300), None]);
}

#[test]
fn totals_are_sums_of_counts_and_means_of_known_values() {
    let mut totals = SessionTotals::default();
    totals.add(&SessionSecond { rtt_us: Some(10), packets_sent: Some(5), ..SessionSecond::default() });
    totals.add(&SessionSecond { rtt_us: None, packets_sent: Some(6), ..SessionSecond::default() });
    totals.add(&SessionSecond { rtt_us: Some(30), packets_sent: None, ..SessionSecond::default() });
    assert_eq!(totals.seconds(), 3);
    assert_eq!((totals.get("rtt_us"), totals.get("packets_sent"), totals.get("stalls")), (Some(20), Some(11), None));
    assert_eq!(totals.get("second"), None);
}

proptest! {
    /// Every packet is in exactly one row, at any distance between samples.
    #[test]
    fn every_packet_is_counted_once_between_samples(
        samples in prop::collection::vec((1u64..5_000, 0u64..1_000), 1..40),
    ) {
        let mut meter = SessionMeter::new(Timestamp::ZERO);
        meter.sent(Timestamp::ZERO, SentCounts::default());
        let (mut now, mut packets, mut counted) = (0, 0, 0);
        for (wait, more) in samples {
            (now, packets) = (now + wait, packets + more);
            let seconds = meter.seconds();
            meter.sent(at(now), SentCounts { packets, bytes: 100 * packets, ..SentCounts::default() });
            if meter.seconds() > seconds {
                counted = packets;
            }
        }
        let rows = meter.take(u64::MAX).1;
        prop_assert_eq!(rows.len() as u64, now / 1_000);
        prop_assert_eq!(rows.iter().filter_map(|row| row.packets_sent).sum::<u64>(), counted);
    }

    /// A clock that jumps ahead does not create more rows than the limit.
    #[test]
    fn untaken_rows_are_bounded(ahead in 0u64..u64::MAX / 2_000_000_000) {
        let mut meter = SessionMeter::new(Timestamp::ZERO);
        meter.shown(Timestamp::ZERO, None);
        meter.shown(Timestamp::ZERO + Duration::from_secs(ahead), None);
        prop_assert!(meter.seconds.len() <= MAX_SECONDS);
        meter.shown(Timestamp::ZERO, None);
    }
}
