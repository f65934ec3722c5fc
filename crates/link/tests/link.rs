//! Tests of a link.

use std::time::Duration;

use lockstep_link::{
    Delivered, DropReason, End, GilbertElliott, Jitter, JitterDistribution, Link, LinkConfig, LossConfig, LossInterval,
    LossPlace, OnOffLoss, QueueConfig, Reordering, Segment, Trace, Verdict,
};
use lockstep_units::{Bitrate, ByteCount, Timestamp};
use proptest::prelude::*;

fn ms(milliseconds: u64) -> Timestamp {
    Timestamp::from_millis(milliseconds)
}

fn span(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn bytes(count: u64) -> ByteCount {
    ByteCount::new(count)
}

fn constant(kbps: u64) -> LinkConfig {
    LinkConfig::new(Trace::constant(Bitrate::from_kbps(kbps)))
}

/// Polls at the times of `poll_timeout` until nothing is left.
fn drain<T: Clone>(link: &mut Link<T>) -> Vec<Delivered<T>> {
    let mut all = Vec::new();
    while let Some(wake) = link.poll_timeout() {
        while let Some(delivered) = link.poll(wake) {
            all.push(delivered);
        }
    }
    all
}

/// Sends packets of `size` every `gap`. Returns the link and the arrivals.
fn stream(config: LinkConfig, seed: u64, count: u64, gap: Duration, size: u64) -> (Link<u64>, Vec<Delivered<u64>>) {
    let mut link = Link::new(config, seed).unwrap();
    let mut all = Vec::new();
    for index in 0..count {
        let now = Timestamp::ZERO + gap * u32::try_from(index).unwrap();
        while let Some(delivered) = link.poll(now) {
            all.push(delivered);
        }
        let _ = link.send(now, bytes(size), index);
    }
    all.extend(drain(&mut link));
    (link, all)
}

#[test]
fn opportunity_carries_1500_bytes_of_earlier_packets() {
    let trace = Trace::from_bytes(b"5\n10\n10\n20\n").unwrap();
    let mut link = Link::new(LinkConfig::new(trace), 1).unwrap();
    // Three small packets share the opportunity at 5 ms; 300 of the 600 bytes of the third leave with it.
    for name in ["a", "b"] {
        let _ = link.send(ms(0), bytes(600), name);
    }
    let _ = link.send(ms(1), bytes(600), "spans 5 and 10");
    // A packet that is sent at the time of an opportunity misses it.
    let _ = link.send(ms(5), bytes(1_000), "c");
    // 1500 bytes need the rest of the first opportunity at 10 ms, and the second one.
    let _ = link.send(ms(6), bytes(1_500), "d");
    // Two opportunities and a byte: the rest at 10, then 20, then 25 (5 of the next repetition).
    let _ = link.send(ms(7), bytes(300 + 1_500 + 1), "e");
    // The queue is empty at 30 (twice), so these opportunities are lost; the next one is at 40.
    let came: Vec<_> = drain(&mut link).iter().map(|delivered| (delivered.packet, delivered.at)).collect();
    let expected =
        [("a", ms(5)), ("b", ms(5)), ("spans 5 and 10", ms(10)), ("c", ms(10)), ("d", ms(10)), ("e", ms(25))];
    assert_eq!(came, expected);
    let _ = link.send(ms(30), bytes(1), "f");
    assert_eq!(drain(&mut link)[0].at, ms(40));
}

#[test]
fn opportunity_without_packets_is_lost() {
    let trace = Trace::from_bytes(b"10\n20\n30\n").unwrap();
    let (_, came) = stream(LinkConfig::new(trace), 1, 2, span(25), 1_500);
    let times: Vec<_> = came.iter().map(|delivered| (delivered.at, delivered.queueing_delay)).collect();
    assert_eq!(times, [(ms(10), span(10)), (ms(30), span(5))]);
}

#[test]
fn service_is_exact_across_changes_of_rate() {
    // Repeats 1 Mb/s for 10 ms, an outage of 5 ms, and 3 Mb/s for 10 ms.
    let part = |milliseconds, kbps| Segment {
        duration: span(milliseconds),
        rate: Bitrate::from_kbps(kbps),
        conditions: Default::default(),
    };
    let trace = Trace::from_segments(&[part(10, 1_000), part(5, 0), part(10, 3_000)], End::Repeat).unwrap();
    let (_, came) = stream(LinkConfig::new(trace), 1, 4, Duration::ZERO, 1_500);
    // First packet: 10,000 bits in the first 10 ms, the other 2,000 from 15 ms on at 3 Mb/s, 2/3 ms. Second and third:
    // 12,000 bits at 3 Mb/s, 4 ms each. Fourth: 4,000 bits until 25 ms, then 8,000 at 1 Mb/s.
    let times: Vec<u64> = came.iter().map(|delivered| delivered.at.as_nanos()).collect();
    assert_eq!(times, [15_666_667, 19_666_667, 23_666_667, 33_000_000]);
}

#[test]
fn back_to_back_packets_do_not_drift() {
    // 1500 bytes at 7 kb/s take 1.714285... s. With rounding each time, a thousand packets would be off by
    // microseconds.
    let mut config = constant(7);
    config.queue = QueueConfig::unlimited();
    let (_, came) = stream(config, 1, 7_000, Duration::ZERO, 1_500);
    assert_eq!(came.last().unwrap().at, ms(12_000_000));
}

#[test]
fn outage_delays_packets_until_its_end() {
    let config = LinkConfig::new(Trace::from_spec("constant:1mbps,outage=1s+500ms").unwrap());
    let mut link = Link::new(config, 1).unwrap();
    let _ = link.send(ms(1_200), bytes(1_250), ());
    assert_eq!(link.poll(ms(1_509)), None);
    let delivered = link.poll(ms(1_600)).unwrap();
    assert_eq!((delivered.at, delivered.service_time), (ms(1_510), span(310)));
}

#[test]
fn link_without_capacity_has_no_timeout() {
    let mut link = Link::new(constant(0), 1).unwrap();
    for _ in 0..300 {
        let _ = link.send(ms(1), bytes(100), ());
    }
    assert_eq!(link.poll_timeout(), None);
    assert_eq!(link.poll(Timestamp::MAX), None);
    assert_eq!((link.queued().packets, link.under_way().packets), (256, 1));
    assert_eq!(link.statistics().dropped_by_queue.packets, 43);
}

#[test]
fn drop_tail_counts_packets_or_bytes_that_wait() {
    let mut config = constant(1_000);
    config.queue = QueueConfig::drop_tail(2);
    let mut link = Link::new(config.clone(), 1).unwrap();
    // The first packet is in service, two wait, and the fourth exceeds the limit.
    let verdicts: Vec<_> = (0..4).map(|index| link.send(ms(0), bytes(1_250), index)).collect();
    assert_eq!(verdicts[..3], [Verdict::Queued; 3]);
    assert_eq!(verdicts[3], Verdict::Dropped(DropReason::Queue));
    // There is room at the time at which the first packet leaves.
    assert_eq!(link.send(ms(10), bytes(1_250), 4), Verdict::Queued);
    config.queue = QueueConfig::drop_tail_bytes(bytes(2_000));
    let mut link = Link::new(config, 1).unwrap();
    let verdicts: Vec<_> = [1_250, 1_250, 1_250, 750].map(|size| link.send(ms(0), bytes(size), ())).into();
    assert_eq!(verdicts.iter().filter(|&&verdict| verdict == Verdict::Queued).count(), 3);
    assert_eq!(link.queued().bytes, bytes(2_000));
}

#[test]
fn queueing_delay_is_bounded_by_the_queue() {
    let mut config = constant(1_200);
    (config.queue, config.delay) = (QueueConfig::drop_tail(64), span(20));
    // Twice the capacity for 20 s; each packet takes 10 ms.
    let (link, came) = stream(config, 1, 4_000, span(5), 1_500);
    let longest = came.iter().map(|delivered| delivered.queueing_delay).max().unwrap();
    assert!(longest <= span(64 * 10) + span(10) && longest > span(63 * 10), "{longest:?}");
    assert_eq!(longest, link.statistics().longest_queueing_delay);
    assert!(came.iter().all(|d| d.at == d.sent_at + d.queueing_delay + d.service_time + span(20)));
}

#[test]
fn saturated_link_delivers_the_bytes_of_its_trace() {
    for spec in ["cellular:2mbps,seed=5", "poisson:2mbps,seed=5", "ramp:100kbps-4mbps,duration=30s,outage=10s+3s"] {
        let trace = Trace::from_spec(spec).unwrap();
        let mut config = LinkConfig::new(trace.clone());
        config.queue = QueueConfig::unlimited();
        let mut link = Link::new(config, 1).unwrap();
        for _ in 0..200_000 {
            let _ = link.send(ms(0), bytes(500), ());
        }
        let end = ms(200_000);
        let mut passed = 0;
        while let Some(delivered) = link.poll(end) {
            passed += delivered.size.get();
        }
        let possible = trace.bytes_between(ms(0), end).get();
        assert!(passed <= possible && possible - passed < 500, "{spec}: {passed} of {possible}");
        assert_eq!(link.capacity_between(ms(0), end).get(), possible);
    }
}

#[test]
fn offset_and_origin_move_the_trace() {
    let mut config = LinkConfig::new(Trace::from_bytes(b"10\n20\n30\n40\n").unwrap());
    config.trace_offset = span(25);
    let epoch = ms(1_700_000_000_000);
    let mut link = Link::starting_at(config, 1, epoch).unwrap();
    let _ = link.send(epoch + span(1), bytes(1_500), ());
    assert_eq!(drain(&mut link)[0].at, epoch + span(5));
    let _ = link.send(epoch + span(3_600_000), bytes(1_500), ());
    assert_eq!(drain(&mut link)[0].at, epoch + span(3_600_005));
}

/// Loss of 20,000 packets by `change`, and mean length of a run of losses. The link carries 100 packets per second.
fn loss_of(seed: u64, change: impl Fn(&mut LossConfig)) -> (f64, f64) {
    let mut config = constant(10_000);
    change(&mut config.loss);
    let (link, came) = stream(config, seed, 20_000, span(10), 1_000);
    let lost = 20_000 - came.len() as u64;
    assert_eq!(link.statistics().lost().packets, lost);
    assert_eq!(link.statistics().served.packets, 20_000, "lost packets have used the bottleneck");
    let runs = came.windows(2).filter(|pair| pair[1].packet > pair[0].packet + 1).count();
    (lost as f64 / 20_000.0, lost as f64 / runs.max(1) as f64)
}

#[test]
fn losses_have_the_configured_share_and_run_length() {
    for seed in 0..5 {
        let (share, run) = loss_of(seed, |loss| loss.random = 0.05);
        assert!((share - 0.05).abs() < 0.006 && run < 1.1, "{share} {run}");
        let model = GilbertElliott { to_bad: 0.01, to_good: 0.25, loss_in_good: 0.0, loss_in_bad: 1.0 };
        let (share, run) = loss_of(seed, |loss| loss.burst = Some(model));
        assert!((share - 0.01 / 0.26).abs() < 0.012 && (run - 4.0).abs() < 0.8, "{share} {run}");
        let model = OnOffLoss { mean_on: span(200), mean_off: span(1_800), loss: 1.0 };
        let (share, run) = loss_of(seed, |loss| loss.on_off = Some(model));
        assert!((share - 0.1).abs() < 0.05 && run > 10.0, "{share} {run}");
    }
}

#[test]
fn scheduled_loss_applies_to_departures_in_its_intervals() {
    let mut config = constant(1_000);
    let interval = |from, to| LossInterval { from: span(from), to: span(to), loss: 1.0 };
    config.loss.scheduled = vec![interval(20, 40), interval(60, 70)];
    // A packet leaves every 10 ms, from 10 ms on.
    let (_, came) = stream(config, 1, 8, Duration::ZERO, 1_250);
    assert_eq!(came.iter().map(|d| d.at).collect::<Vec<_>>(), [10, 40, 50, 70, 80].map(ms));
}

#[test]
fn loss_and_delay_of_the_trace_add_to_those_of_the_link() {
    let json = br#"{"uplink": {"trace_pattern": [{"duration": 100, "capacity": 1000, "loss": 0, "rtt": 40},
        {"duration": 100, "capacity": 1000, "loss": 1, "rtt": 80}]}}"#;
    let mut config = LinkConfig::new(Trace::from_bytes(json).unwrap());
    config.delay = span(7);
    let (link, came) = stream(config, 1, 30, span(10), 125);
    assert_eq!(link.statistics().trace_loss.packets, 10);
    assert!(came.iter().all(|d| d.at == d.sent_at + span(1 + 20 + 7)));
}

#[test]
fn loss_before_the_bottleneck_uses_no_capacity() {
    let mut config = constant(1_000);
    (config.loss.random, config.loss.place) = (1.0, LossPlace::BeforeBottleneck);
    let mut link = Link::new(config, 1).unwrap();
    assert_eq!(link.send(ms(0), bytes(100), ()), Verdict::Dropped(DropReason::RandomLoss));
    assert_eq!((link.statistics().served.packets, link.poll_timeout()), (0, None));
}

#[test]
fn jitter_reorders_only_if_configured() {
    for distribution in [
        JitterDistribution::Uniform { max: span(30) },
        JitterDistribution::Exponential { mean: span(10) },
        JitterDistribution::Normal { mean: span(15), deviation: span(8) },
    ] {
        for reorders in [false, true] {
            let mut config = constant(100_000);
            config.jitter = Some(Jitter { distribution, reorders });
            let (_, came) = stream(config, 3, 2_000, span(2), 125);
            assert_eq!(came.len(), 2_000);
            assert!(came.is_sorted_by_key(|d| d.at));
            assert_eq!(came.is_sorted_by_key(|d| d.packet), !reorders);
            let late = came.iter().filter(|d| d.at > d.sent_at + span(5)).count();
            assert!(late > 1_000, "{distribution:?} {late}");
        }
    }
}

#[test]
fn reordering_delays_only_the_reordered_packets() {
    let mut config = constant(100_000);
    config.reordering = Some(Reordering { probability: 0.1, extra_delay: span(25) });
    let (_, came) = stream(config, 3, 5_000, span(2), 1_250);
    let late = came.iter().filter(|d| d.at == d.sent_at + Duration::from_micros(100) + span(25)).count();
    assert!(came.iter().filter(|d| d.at == d.sent_at + Duration::from_micros(100)).count() == 5_000 - late);
    assert!((430..570).contains(&late), "{late}");
    assert!(!came.is_sorted_by_key(|d| d.packet));
}

#[test]
fn duplicates_are_flagged_and_counted() {
    let mut config = constant(10_000);
    config.duplication = 0.2;
    let (link, came) = stream(config, 3, 5_000, span(2), 125);
    let copies = came.iter().filter(|d| d.duplicate).count();
    assert!((900..1_100).contains(&copies), "{copies}");
    assert_eq!((came.len(), link.statistics().duplicated.packets), (5_000 + copies, copies as u64));
}

#[test]
fn random_streams_are_independent() {
    let mut config = constant(10_000);
    config.loss.random = 0.1;
    let survivors = |config: &LinkConfig| {
        let (_, mut came) = stream(config.clone(), 9, 2_000, span(2), 125);
        came.retain(|d| !d.duplicate);
        came.sort_by_key(|d| d.packet);
        came.into_iter().map(|d| d.packet).collect::<Vec<_>>()
    };
    let alone = survivors(&config);
    config.jitter = Some(Jitter { distribution: JitterDistribution::Exponential { mean: span(9) }, reorders: true });
    (config.duplication, config.reordering) = (0.3, Some(Reordering { probability: 0.3, extra_delay: span(9) }));
    assert_eq!(alone, survivors(&config));
}

#[test]
fn on_off_periods_do_not_depend_on_packets() {
    let mut config = constant(100_000);
    config.loss.on_off = Some(OnOffLoss { mean_on: span(300), mean_off: span(700), loss: 1.0 });
    let survivors = |gap| -> Vec<Timestamp> {
        let (_, came) = stream(config.clone(), 5, 20_000 / gap, span(gap), 125);
        came.iter().map(|d| d.sent_at).filter(|sent_at| sent_at.as_micros() % 10_000 == 0).collect()
    };
    assert_eq!(survivors(1), survivors(10));
}

#[test]
fn invalid_configurations_are_refused() {
    let refused = |change: &dyn Fn(&mut LinkConfig)| {
        let mut config = constant(1);
        change(&mut config);
        Link::<()>::new(config, 1).expect_err("must be refused").to_string()
    };
    assert_eq!(refused(&|c| c.loss.random = 1.5), "loss.random is 1.5, expected a probability from 0 to 1");
    assert_eq!(refused(&|c| c.duplication = f64::NAN), "duplication is NaN, expected a probability from 0 to 1");
    assert_eq!(refused(&|c| c.delay = Duration::MAX), "delay is longer than 49 days");
    let model = OnOffLoss { mean_on: Duration::ZERO, mean_off: span(1), loss: 1.0 };
    assert_eq!(refused(&|c| c.loss.on_off = Some(model)), "loss.on_off.mean_on is shorter than a microsecond");
    let interval = |from, to| LossInterval { from: span(from), to: span(to), loss: 1.0 };
    let overlap = "interval 2 of the scheduled loss is empty, or begins before the end of the one before";
    assert_eq!(refused(&|c| c.loss.scheduled = vec![interval(1, 5), interval(4, 6)]), overlap);
}

#[test]
fn configuration_file_only_requires_a_trace() {
    let text = r#"{"trace": "constant:500kbps", "delay_ms": 20.5, "queue": {"drop_tail": {"packets": 64}}}"#;
    let config: LinkConfig = serde_json::from_str(text).unwrap();
    assert_eq!((config.delay, config.queue), (Duration::from_micros(20_500), QueueConfig::drop_tail(64)));
    assert_eq!(config.trace.spec(), Some("constant:500kbps"));
    assert!(serde_json::from_str::<LinkConfig>(r#"{"trace": "constant:fast"}"#).is_err());
    assert!(serde_json::from_str::<LinkConfig>(r#"{"trace": "constant:1mbps", "dellay_ms": 1}"#).is_err());
}

#[test]
fn long_idle_time_is_skipped() {
    let mut config = LinkConfig::new(Trace::from_bytes(b"1\n").unwrap());
    config.loss.on_off = Some(OnOffLoss { mean_on: span(1), mean_off: span(1), loss: 1.0 });
    let mut link = Link::new(config, 1).unwrap();
    // Fifty times ten years. The test would not end if each period of the on/off process took a step.
    for decade in 1..50 {
        let _ = link.send(ms(decade * 315_360_000_000), bytes(1_500), ());
    }
    let lost = link.statistics().lost().packets;
    drain(&mut link);
    assert!(lost < 50);
}

fn configs() -> impl Strategy<Value = LinkConfig> {
    let spec = prop::sample::select(vec![
        "constant:1mbps",
        "constant:1mbps,duration=300ms,outage=100ms+100ms",
        "cellular:1mbps,outage-every=2s,duration=10s",
        "poisson:1mbps,duration=2s",
        "poisson:1mbps,duration=2s,jitter=20ms,delay=5ms",
        "onoff:1mbps,on=50ms,off=200ms,loss=50%,duration=5s",
    ]);
    let queue = prop_oneof![
        (0usize..20).prop_map(QueueConfig::drop_tail),
        (0u64..20_000).prop_map(|limit| QueueConfig::drop_tail_bytes(bytes(limit))),
    ];
    let chance = (0.0f64..0.2, any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (spec, queue, chance, 0u64..50).prop_map(|(spec, queue, (share, burst, on_off, late, before), delay)| {
        let mut config = LinkConfig::new(Trace::from_spec(spec).unwrap());
        (config.queue, config.delay, config.loss.random, config.duplication) = (queue, span(delay), share, share);
        let model = GilbertElliott { to_bad: 0.1, to_good: 0.5, loss_in_good: 0.01, loss_in_bad: 0.9 };
        config.loss.burst = burst.then_some(model);
        config.loss.on_off = on_off.then_some(OnOffLoss { mean_on: span(20), mean_off: span(90), loss: 0.5 });
        config.reordering = late.then_some(Reordering { probability: 0.1, extra_delay: span(15) });
        let distribution = JitterDistribution::Exponential { mean: span(5) };
        config.jitter = (share > 0.1).then_some(Jitter { distribution, reorders: late && share > 0.15 });
        config.loss.place = if before { LossPlace::BeforeBottleneck } else { LossPlace::AfterBottleneck };
        config
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn every_packet_is_delivered_or_dropped_exactly_once(
        config in configs(), seed in any::<u64>(),
        sends in prop::collection::vec((0u64..20_000, 0u64..4_000), 1..150),
    ) {
        let reorders = config.reorders();
        let delay = config.delay;
        let mut link = Link::new(config, seed).unwrap();
        let (mut now, mut came, mut refused) = (Timestamp::ZERO, Vec::new(), 0);
        for (index, &(gap, size)) in sends.iter().enumerate() {
            now += Duration::from_micros(gap);
            while let Some(delivered) = link.poll(now) {
                came.push(delivered);
            }
            refused += u64::from(link.send(now, bytes(size), index) != Verdict::Queued);
            let statistics = link.statistics();
            prop_assert_eq!(
                statistics.sent.packets + statistics.duplicated.packets,
                statistics.dropped_by_queue.packets + statistics.lost().packets + statistics.delivered.packets
                    + link.queued().packets + link.under_way().packets
            );
        }
        came.extend(drain(&mut link));
        let statistics = link.statistics();
        prop_assert_eq!((link.queued().packets, link.under_way().packets), (0, 0));
        let dropped = statistics.dropped_by_queue.packets + statistics.lost().packets;
        prop_assert!(refused <= dropped);
        let mut originals: Vec<_> = came.iter().filter(|d| !d.duplicate).map(|d| d.packet).collect();
        prop_assert_eq!(originals.len() as u64 + dropped, sends.len() as u64);
        prop_assert!(came.is_sorted_by_key(|d| d.at), "arrivals are in the order of time");
        if !reorders {
            prop_assert!(came.is_sorted_by_key(|d| d.packet), "first in, first out");
        }
        originals.sort_unstable();
        originals.dedup();
        prop_assert_eq!(originals.len() as u64 + dropped, sends.len() as u64);
        prop_assert!(came.iter().all(|d| d.at >= d.sent_at + d.queueing_delay + d.service_time + delay));
    }

    #[test]
    fn arrivals_do_not_depend_on_the_number_of_polls(
        config in configs(), seed in any::<u64>(),
        sends in prop::collection::vec((0u64..20_000, 0u64..4_000), 1..100),
    ) {
        let run = |eager: bool| {
            let mut link = Link::new(config.clone(), seed).unwrap();
            let (mut now, mut came) = (Timestamp::ZERO, Vec::new());
            for (index, &(gap, size)) in sends.iter().enumerate() {
                now += Duration::from_micros(gap);
                while eager && let Some(wake) = link.poll_timeout().filter(|&wake| wake <= now) {
                    while let Some(delivered) = link.poll(wake) {
                        came.push(delivered);
                    }
                }
                let _ = link.send(now, bytes(size), index);
            }
            if eager {
                came.extend(drain(&mut link));
            } else {
                while let Some(delivered) = link.poll(ms(1_000_000)) {
                    came.push(delivered);
                }
            }
            (came, *link.statistics())
        };
        prop_assert_eq!(run(true), run(false));
    }

    #[test]
    fn configuration_survives_a_json_round_trip(config in configs()) {
        let text = serde_json::to_string(&config).unwrap();
        prop_assert_eq!(serde_json::from_str::<LinkConfig>(&text).unwrap(), config);
    }
}
