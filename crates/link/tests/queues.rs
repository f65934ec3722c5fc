//! Tests of the queue disciplines with a greedy flow, bursts, and repeated runs.

use std::time::Duration;

use lockstep_link::{Delivered, Link, LinkConfig, QueueConfig, Trace};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

const PACKET: u64 = 1_500;

/// A link of 10 Mb/s with a delay of 20 ms; a packet of 1,500 bytes takes 1.2 ms.
fn link(queue: QueueConfig, seed: u64) -> Link<u64> {
    let config = LinkConfig {
        queue,
        delay: Duration::from_millis(20),
        ..LinkConfig::new(Trace::constant(Bitrate::from_kbps(10_000)))
    };
    Link::new(config, seed).unwrap()
}

fn disciplines() -> [QueueConfig; 3] {
    let memory = QueueConfig::drop_tail(1_000);
    [memory, memory.with_codel(), memory.with_pie()]
}

/// Runs a greedy flow (AIMD) for `seconds` and returns the arrivals. The window grows by a packet per round trip, and
/// halves once per round trip with losses. A gap reveals a loss, 20 ms of reverse path later.
fn greedy(queue: QueueConfig, seed: u64, seconds: u64) -> Vec<Delivered<u64>> {
    let mut link = link(queue, seed);
    let (mut came, mut answers) = (Vec::new(), std::collections::VecDeque::<(Timestamp, u64)>::new());
    let (mut window, mut next, mut expected, mut in_flight, mut halved_at) = (10.0_f64, 0u64, 0u64, 0u64, 0u64);
    let (mut now, end) = (Timestamp::ZERO, Timestamp::from_millis(1_000 * seconds));
    while now < end {
        while let Some(delivered) = link.poll(now) {
            answers.push_back((delivered.at + Duration::from_millis(20), delivered.packet));
            came.push(delivered);
        }
        while let Some(&(_, number)) = answers.front().filter(|&&(at, _)| at <= now) {
            answers.pop_front();
            let lost = number - expected;
            in_flight -= lost + 1;
            expected = number + 1;
            if lost > 0 && number >= halved_at {
                window = (window / 2.0).max(2.0);
                halved_at = next;
            } else {
                window += 1.0 / window;
            }
        }
        while (in_flight as f64) < window {
            let _ = link.send(now, ByteCount::new(PACKET), next);
            next += 1;
            in_flight += 1;
        }
        let events = [link.poll_timeout(), answers.front().map(|&(at, _)| at)];
        match events.into_iter().flatten().min() {
            Some(at) => now = now.max(at),
            None => break,
        }
    }
    came
}

/// Median queueing delay of the arrivals after `seconds`, milliseconds.
fn median_wait(came: &[Delivered<u64>], seconds: u64) -> f64 {
    let from = Timestamp::from_millis(1_000 * seconds);
    let late = came.iter().filter(|delivered| delivered.at >= from);
    let mut waits: Vec<f64> = late.map(|delivered| delivered.queueing_delay.as_secs_f64() * 1e3).collect();
    waits.sort_by(f64::total_cmp);
    waits[waits.len() / 2]
}

#[test]
fn standing_queue_is_reduced_to_the_target() {
    let [drop_tail, codel, pie] = disciplines().map(|queue| {
        let came = greedy(queue, 1, 60);
        let from = Timestamp::from_millis(20_000);
        let bytes = came.iter().filter(|delivered| delivered.at >= from).count() as u64 * PACKET;
        (median_wait(&came, 20), bytes as f64 * 8.0 / 40.0 / 1e7)
    });
    assert!(drop_tail.0 > 100.0, "drop-tail waits {drop_tail:?}");
    assert!(codel.0 < 10.0, "CoDel waits {codel:?}");
    assert!((3.0..30.0).contains(&pie.0), "PIE waits {pie:?}");
    for (name, (_, utilisation)) in [("CoDel", codel), ("PIE", pie)] {
        assert!(utilisation > 0.85, "{name} uses {utilisation}");
    }
}

#[test]
fn burst_of_60_ms_on_an_idle_link_has_no_drops() {
    for queue in disciplines() {
        let mut link = link(queue, 3);
        for round in 0..5u64 {
            let now = Timestamp::from_millis(2_000 * round);
            for packet in 0..50 {
                let _ = link.send(now, ByteCount::new(PACKET), packet);
            }
            let mut came = 0;
            while let Some(wake) = link.poll_timeout() {
                while link.poll(wake).is_some() {
                    came += 1;
                }
            }
            assert_eq!(came, 50, "{queue:?}, round {round}");
        }
    }
}

#[test]
fn same_seed_drops_the_same_packets() {
    for queue in disciplines() {
        assert_eq!(greedy(queue, 7, 10), greedy(queue, 7, 10));
    }
    let pie = disciplines()[2];
    assert_ne!(greedy(pie, 7, 20), greedy(pie, 8, 20), "PIE's drops depend on the seed");
}

#[test]
fn pie_skips_long_idle_time_and_drops_nothing_after() {
    let mut link = link(disciplines()[2], 1);
    for day in 1..40u64 {
        let now = Timestamp::from_millis(day * 86_400_000);
        let _ = link.send(now, ByteCount::new(PACKET), day);
        while link.poll(now + Duration::from_secs(1)).is_some() {}
    }
    assert_eq!(link.statistics().delivered.packets, 39);
}

#[test]
fn every_packet_is_delivered_or_counted_as_dropped() {
    for queue in disciplines() {
        let mut link = link(queue, 5);
        for packet in 0..20_000u64 {
            // Twice the capacity of the link.
            let _ = link.send(Timestamp::from_micros(600 * packet), ByteCount::new(PACKET), packet);
        }
        while let Some(wake) = link.poll_timeout() {
            while link.poll(wake).is_some() {}
        }
        let statistics = link.statistics();
        let (sent, dropped) = (statistics.sent.packets, statistics.dropped_by_queue.packets);
        assert_eq!(sent, dropped + statistics.delivered.packets, "{queue:?}");
        assert!(dropped > 5_000, "{queue:?} dropped {dropped}");
    }
}

#[test]
fn configuration_may_omit_defaults_of_a_discipline() {
    let codel: QueueConfig = serde_json::from_str(r#"{"codel": {"packets": 256}}"#).unwrap();
    assert_eq!(codel, QueueConfig::default().with_codel());
    let pie: QueueConfig = serde_json::from_str(r#"{"pie": {"packets": 256, "target_ms": 20.0}}"#).unwrap();
    assert!(matches!(pie, QueueConfig::Pie { target, .. } if target == Duration::from_millis(20)));
    assert_eq!(serde_json::from_str::<QueueConfig>(&serde_json::to_string(&pie).unwrap()).unwrap(), pie);
}
