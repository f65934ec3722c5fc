//! Cross traffic over shared links: utilization, fairness and stopping.

use std::time::Duration;

use lockstep_link::{Link, LinkConfig, LossConfig, QueueConfig, Trace};
use lockstep_sim::cross_traffic::{
    ConstantBitRate, CrossTraffic, Cubic, FileTransfers, NewReno, OnOff, Period, Tcp, TrafficPacket, WindowAlgorithm,
    Workload,
};
use lockstep_sim::{Activity, Network, Route, SharedLink};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

const CAPACITY: Bitrate = Bitrate::from_kbps(10_000);

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_millis(1_000 * seconds)
}

/// A link of 10 Mb/s with a delay of 25 ms and a queue of 100 ms.
fn link(loss: f64, seed: u64) -> SharedLink<TrafficPacket> {
    let config = LinkConfig {
        delay: Duration::from_millis(25),
        queue: QueueConfig::drop_tail_bytes(CAPACITY.bytes_in(Duration::from_millis(100))),
        loss: LossConfig { random: loss, ..LossConfig::default() },
        ..LinkConfig::new(Trace::constant(CAPACITY))
    };
    Link::new(config, seed).unwrap()
}

fn cubic() -> WindowAlgorithm {
    WindowAlgorithm::Cubic(Cubic::default())
}

fn new_reno() -> WindowAlgorithm {
    WindowAlgorithm::NewReno(NewReno::default())
}

fn bulk(window: WindowAlgorithm, from: u64, to: u64) -> CrossTraffic {
    CrossTraffic::Tcp(Box::new(Tcp::new(window, Workload::Bulk, Activity::between(at(from), at(to)), 1)))
}

fn run(flows: Vec<CrossTraffic>, loss: f64, seconds: u64) -> Network<CrossTraffic> {
    let mut network = Network::new(flows, link(loss, 1), link(loss, 2)).metered();
    network.run_until(at(seconds));
    network
}

/// Share of the link's capacity that `flow` received between two times in seconds.
fn share(network: &Network<CrossTraffic>, flow: usize, from: u64, to: u64) -> f64 {
    let bytes = network.meters()[flow].received_between(at(from), at(to));
    bytes.as_f64() / CAPACITY.bytes_in(Duration::from_secs(to - from)).as_f64()
}

fn tcp(network: &Network<CrossTraffic>, flow: usize) -> &Tcp {
    match &network.flows()[flow] {
        CrossTraffic::Tcp(tcp) => tcp,
        other => panic!("expected a TCP connection, found {other:?}"),
    }
}

#[test]
fn one_tcp_connection_fills_the_link() {
    for (window, least) in [(cubic(), 0.95), (new_reno(), 0.9)] {
        let network = run(vec![bulk(window, 0, 60)], 0.0, 60);
        assert!(share(&network, 0, 5, 60) > least, "{}", share(&network, 0, 5, 60));
        let statistics = tcp(&network, 0).statistics();
        assert!(statistics.lost > 0 && statistics.lost * 50 < statistics.sent, "{statistics:?}");
        assert_eq!(statistics.timeouts, 0, "{statistics:?}");
    }
}

#[test]
fn equal_tcp_connections_share_equally_after_a_late_start() {
    for window in [new_reno(), cubic()] {
        let network = run(vec![bulk(window.clone(), 0, 200), bulk(window, 10, 200)], 0.0, 200);
        let (first, second) = (share(&network, 0, 80, 200), share(&network, 1, 80, 200));
        let jain = (first + second).powi(2) / (2.0 * (first * first + second * second));
        assert!(jain > 0.95, "{first} {second}");
        assert!(first + second > 0.9, "{first} {second}");
    }
}

#[test]
fn random_losses_limit_reno_by_the_formula_of_mathis() {
    // Mathis et al. 1997: packets per round trip = sqrt(3 / (2 p)). At 1 % these are 12, or 1.45 Mb/s at 100 ms.
    let route = Route { access_delay: Duration::from_millis(25), ..Route::single_bottleneck() };
    let flows = vec![bulk(new_reno(), 0, 200)];
    let mut network = Network::with_routes(flows, vec![route], vec![link(0.01, 1), link(0.0, 2)]).unwrap().metered();
    network.run_until(at(200));
    let share = share(&network, 0, 10, 200);
    assert!((0.11..0.17).contains(&share), "{share}");
}

#[test]
fn later_acknowledgements_replace_lost_ones() {
    let links = vec![link(0.0, 1), link(0.3, 2)];
    let flows = vec![bulk(cubic(), 0, 30)];
    let mut network = Network::with_routes(flows, vec![Route::single_bottleneck()], links).unwrap().metered();
    network.run_until(at(30));
    assert!(share(&network, 0, 5, 30) > 0.9, "{}", share(&network, 0, 5, 30));
}

#[test]
fn a_timeout_resumes_tcp_after_an_outage_until_its_stop() {
    let trace = Trace::from_spec("steps:10mbps@10s/0bps@5s/10mbps@60s").unwrap();
    let config = LinkConfig { delay: Duration::from_millis(25), ..LinkConfig::new(trace) };
    let links = vec![Link::new(config, 1).unwrap(), link(0.0, 2)];
    let flows = vec![bulk(cubic(), 0, 40)];
    let mut network = Network::with_routes(flows, vec![Route::single_bottleneck()], links).unwrap().metered();
    network.run_until(at(60));
    assert!(tcp(&network, 0).statistics().timeouts > 0);
    assert!(share(&network, 0, 25, 40) > 0.9, "{}", share(&network, 0, 25, 40));
    assert_eq!(share(&network, 0, 41, 60), 0.0);
    assert_eq!(network.next_event(), None);
}

#[test]
fn files_arrive_in_sequence_with_pauses() {
    let files = FileTransfers {
        smallest: ByteCount::new(100_000),
        largest: ByteCount::new(1_000_000),
        mean_pause: Duration::from_secs(2),
        begins_paused: true,
    };
    let activity = Activity::between(at(0), at(300));
    let flows = vec![CrossTraffic::Tcp(Box::new(Tcp::new(cubic(), Workload::Files(files), activity, 5)))];
    let network = run(flows, 0.0, 310);
    let statistics = tcp(&network, 0).statistics();
    // A file takes about 0.6 s and a pause 2 s.
    assert!((80..150).contains(&statistics.files), "{statistics:?}");
    let mean = statistics.file_time.as_secs_f64() / statistics.files as f64;
    assert!((0.4..1.2).contains(&mean), "{mean}");
    let carried = network.meters()[0].received_between(at(0), at(310)).as_f64() / statistics.files as f64;
    assert!((450_000.0..700_000.0).contains(&carried), "{carried} bytes per file");
}

#[test]
fn a_constant_rate_is_sent_during_its_activity_only() {
    let activity = Activity::of([(at(1), at(3)), (at(5), at(6))]);
    let rate = Bitrate::from_kbps(1_000);
    let flow = CrossTraffic::ConstantBitRate(ConstantBitRate::new(rate, ByteCount::new(700), activity));
    let network = run(vec![flow], 0.0, 10);
    let second = |from| share(&network, 0, from, from + 1);
    let shares: Vec<f64> = (0..7).map(second).collect();
    for (index, expected) in [0.0, 0.1, 0.1, 0.0, 0.0, 0.1, 0.0].into_iter().enumerate() {
        assert!((shares[index] - expected).abs() < 0.01, "{shares:?}");
    }
}

#[test]
fn an_on_off_flow_has_its_mean_rate() {
    let flow = |on, off| {
        let activity = Activity::between(at(0), at(1_000));
        CrossTraffic::OnOff(OnOff::new(Bitrate::from_kbps(2_000), ByteCount::new(1_000), on, off, activity, 3))
    };
    let second = Duration::from_secs(1);
    let network = run(
        vec![
            flow(Period::Fixed(second), Period::Fixed(3 * second)),
            flow(Period::Exponential(second), Period::Exponential(3 * second)),
        ],
        0.0,
        1_000,
    );
    assert!((share(&network, 0, 0, 1_000) - 0.05).abs() < 0.001, "{}", share(&network, 0, 0, 1_000));
    assert!((share(&network, 1, 0, 1_000) - 0.05).abs() < 0.015, "{}", share(&network, 1, 0, 1_000));
    assert_eq!(share(&network, 0, 1, 4), share(&network, 0, 5, 8), "periods of fixed length repeat");
}

#[test]
fn equal_seeds_give_equal_traffic() {
    let packets = || {
        let network = run(vec![bulk(cubic(), 0, 20), bulk(new_reno(), 3, 20)], 0.001, 20);
        network.meters().iter().map(|meter| (meter.sent_packets(), meter.one_way_delays_ms())).collect::<Vec<_>>()
    };
    assert_eq!(packets(), packets());
}

#[test]
fn an_ecn_mark_reduces_the_window_without_a_loss() {
    let marking = |ecn_capable| {
        let config = LinkConfig {
            delay: Duration::from_millis(25),
            queue: QueueConfig::drop_tail(1_000).with_codel().with_ecn(),
            ..LinkConfig::new(Trace::constant(CAPACITY))
        };
        let links = vec![Link::new(config, 1).unwrap(), link(0.0, 2)];
        let route = Route { ecn_capable, ..Route::single_bottleneck() };
        let mut network = Network::with_routes(vec![bulk(new_reno(), 0, 20)], vec![route], links).unwrap().metered();
        network.run_until(at(20));
        let CrossTraffic::Tcp(tcp) = &network.flows()[0] else { panic!("expected a TCP connection") };
        (tcp.statistics(), network.meters()[0].marked_packets(), share(&network, 0, 5, 20))
    };
    let (capable, marked, used) = marking(true);
    assert!(capable.lost == 0 && capable.reductions > 3 && marked > 3 && used > 0.8, "{capable:?} {marked} {used}");
    // Marks within one round trip count as one congestion event.
    assert!(capable.reductions <= marked, "{capable:?} {marked}");
    let (other, marked, _) = marking(false);
    assert!(other.lost > 3 && marked == 0, "{other:?}");
}
