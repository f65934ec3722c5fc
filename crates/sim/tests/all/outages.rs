//! Modelled calls with random outages: video resumes soon after the path does, at any rate and length of the outage.

use std::sync::Arc;
use std::time::Duration;

use lockstep_call::FrameRecord;
use lockstep_control::{Algorithm, ControllerSetup, bitrate_ceiling};
use lockstep_link::{GilbertElliott, Link, LinkConfig, LossConfig, LossInterval, QueueConfig, Trace};
use lockstep_measure::KeptFrames;
use lockstep_media::FrameRate;
use lockstep_sim::modelled::ModelledSetting;
use lockstep_sim::{Activity, ClipCurves, CodecModel, ModelledClip, Network, modelled_sound};
use lockstep_transport::wire::FRAGMENT_PAYLOAD;
use lockstep_units::{Bitrate, ByteCount, Timestamp};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Path, outage and clip of a call.
#[derive(Debug, Clone)]
struct Plan {
    rate: Bitrate,
    /// One-way propagation delay.
    delay: Duration,
    /// Start and end of the outage.
    outage: (Duration, Duration),
    /// Whether packets sent during the outage are lost. Otherwise they wait in the link's queue.
    lossy: bool,
    /// Whether the call has sound.
    talks: bool,
    clip: usize,
    seed: u64,
}

/// Width, height and frame rate that suit a bit rate.
fn pictures(rate: Bitrate) -> (u16, u16, u32) {
    match rate.as_bps() {
        ..300_000 => (160, 120, 15),
        300_000..1_000_000 => (320, 180, 30),
        1_000_000..4_000_000 => (640, 360, 30),
        _ => (1280, 720, 30),
    }
}

impl Plan {
    fn round_trip(&self) -> Duration {
        2 * self.delay
    }

    /// First time after the outage at which a packet leaves the link, for packets of 1,500 bytes.
    fn first_opportunity(&self) -> Timestamp {
        Timestamp::ZERO + self.outage.1 + self.rate.time_for(ByteCount::new(1_500))
    }

    fn run(&self) -> Vec<FrameRecord> {
        let (from, to) = self.outage;
        let scheduled = if self.lossy { vec![LossInterval { from, to, loss: 1.0 }] } else { Vec::new() };
        self.run_with(LossConfig { scheduled, ..LossConfig::default() })
    }

    fn run_with(&self, loss: LossConfig) -> Vec<FrameRecord> {
        let (width, height, frame_rate) = pictures(self.rate);
        let frame_interval = Duration::from_secs(1) / frame_rate;
        let (from, to) = self.outage;
        let stop = Timestamp::ZERO + to + Duration::from_secs(3);
        let setting = ModelledSetting {
            frame_rate: FrameRate::new(frame_rate, 1).unwrap(),
            ceiling: Some(bitrate_ceiling(width.into(), height.into(), frame_interval)),
            activity: Activity::between(Timestamp::ZERO, stop),
            ..ModelledSetting::new()
        };
        let algorithm = Algorithm::default();
        let control = ControllerSetup::new(setting.payload, frame_interval);
        let curves = ClipCurves::new(&CodecModel::built_in().unwrap().clips[self.clip], width.into(), height.into());
        let clip = ModelledClip::new(Arc::new(curves), frame_interval, self.seed);
        let kept = KeptFrames::default();
        let controller = algorithm.controller(&control).unwrap();
        let call = setting.call(controller, algorithm.estimator(control.bounds), clip);
        let mut call = call.observed_by(Box::new(kept.clone()));
        if self.talks {
            call.add_sound(modelled_sound(self.seed, true));
        }
        let rate = self.rate.as_bps();
        let gap = (to - from).as_secs_f64();
        let outage = if self.lossy { String::new() } else { format!(",outage={}s+{gap}s", from.as_secs_f64()) };
        let forward = LinkConfig {
            delay: self.delay,
            queue: QueueConfig::drop_tail(256),
            loss,
            ..LinkConfig::new(Trace::from_spec(&format!("constant:{rate}bps{outage}")).unwrap())
        };
        let reverse =
            LinkConfig { delay: self.delay, ..LinkConfig::new(Trace::from_spec("constant:100mbps").unwrap()) };
        let links = (Link::new(forward, self.seed).unwrap(), Link::new(reverse, self.seed + 1).unwrap());
        let mut network = Network::new(vec![call], links.0, links.1);
        network.run_until(stop + Duration::from_secs(2));
        let (calls, links) = network.into_parts();
        for call in calls {
            call.finish(|from, to| links[0].capacity_between(from, to)).expect("the call was logged");
        }
        kept.take().into_iter().map(|frame| frame.record).collect()
    }

    fn outcome(&self) -> Outcome {
        let records = self.run();
        let end = Timestamp::ZERO + self.outage.1;
        // Packets that left the link before the outage arrive within the path's delay.
        let before = end.max(Timestamp::ZERO + self.outage.0 + self.delay + DECODING);
        let after =
            |at: Option<Timestamp>| at.map_or(Duration::MAX, |at| at.saturating_since(self.first_opportunity()));
        let displays = records.iter().filter_map(|record| record.displayed_at);
        let sent = records.iter().filter(|record| record.sent_at.is_some_and(|at| at >= end));
        let first = sent.min_by_key(|record| record.sent_at).expect("frames were sent after the outage");
        Outcome { moved: after(displays.filter(|&at| at > before).min()), first: first.clone() }
    }
}

/// Result of an outage.
struct Outcome {
    /// Time from the first delivery opportunity to the first new picture.
    moved: Duration,
    /// The first frame sent after the outage.
    first: FrameRecord,
}

/// Longest pause between two hellos during outages of up to ten seconds, on links of at least 100 kb/s
/// (`control::path::probing`).
const MAX_HELLO_INTERVAL: Duration = Duration::from_millis(250);
/// Limit on the time from a frame's arrival to its display.
const DECODING: Duration = Duration::from_millis(10);

fn plans(lossy: bool) -> impl Strategy<Value = Plan> {
    let rate = (5.0..7.7_f64).prop_map(|exponent| Bitrate::from_bps(10_f64.powf(exponent) as u64));
    let outage = (6_000..9_000_u64, 200..=10_000_u64)
        .prop_map(|(from, length)| (Duration::from_millis(from), Duration::from_millis(from + length)));
    let clips = CodecModel::built_in().unwrap().clips.len();
    (rate, 5..=100_u64, outage, 0..clips, 0..1_000_000_u64).prop_map(move |(rate, delay, outage, clip, seed)| Plan {
        rate,
        delay: Duration::from_millis(delay),
        outage,
        lossy,
        talks: false,
        clip,
        seed,
    })
}

/// Runs `check` on 60 random plans.
fn for_many_plans(lossy: bool, check: impl Fn(&Plan)) {
    let config = Config { cases: 60, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    runner
        .run(&plans(lossy), |plan| {
            check(&plan);
            Ok(())
        })
        .unwrap();
}

/// Whether a frame is small: one fragment, within the encoder's tolerance of a one-fragment budget, or at the coarsest
/// quantizer.
fn is_small(first: &FrameRecord) -> bool {
    let size = first.size.unwrap_or_default().as_f64();
    let nearly = first
        .budget
        .is_some_and(|budget| budget <= FRAGMENT && size <= BUDGET_TOLERANCE.0 * budget.as_f64() + BUDGET_TOLERANCE.1);
    first.fragments == Some(1) || nearly || first.quantizer == Some(COARSEST_QUANTIZER)
}

/// Largest payload of a fragment in these calls.
const FRAGMENT: ByteCount = ByteCount::new(FRAGMENT_PAYLOAD as u64);
/// Tolerance of the functional encoder over its budget: factor, and bytes.
const BUDGET_TOLERANCE: (f64, f64) = (1.15, 250.0);

const COARSEST_QUANTIZER: u8 = 127;

#[test]
fn video_resumes_within_a_round_trip_and_100_ms() {
    for_many_plans(false, |plan| {
        let outcome = plan.outcome();
        let bound = plan.round_trip() + Duration::from_millis(100);
        assert!(outcome.moved <= bound, "{:?} {plan:?}", outcome.moved);
        assert!(is_small(&outcome.first), "{:?} {plan:?}", outcome.first);
    });
}

#[test]
fn video_resumes_within_two_round_trips_after_a_lossy_outage() {
    // A hello and its answer precede the next picture.
    for_many_plans(true, |plan| {
        let outcome = plan.outcome();
        let bound = 2 * plan.round_trip() + Duration::from_millis(100) + MAX_HELLO_INTERVAL;
        assert!(outcome.moved <= bound, "{:?} {plan:?}", outcome.moved);
        assert!(is_small(&outcome.first), "{:?} {plan:?}", outcome.first);
    });
}

/// A call of 53 s with loss in bursts, and its pauses between two shown pictures.
fn with_bursts(to_bad: f64, to_good: f64, kbps: u64, seed: u64, talks: bool) -> (Vec<FrameRecord>, Vec<Duration>) {
    let plan = Plan {
        rate: Bitrate::from_kbps(kbps),
        delay: Duration::from_millis(20),
        outage: (Duration::from_secs(50), Duration::from_secs(50)),
        lossy: true,
        talks,
        clip: 0,
        seed,
    };
    let burst = GilbertElliott { to_bad, to_good, loss_in_good: 0.0, loss_in_bad: 1.0 };
    let records = plan.run_with(LossConfig { burst: Some(burst), ..LossConfig::default() });
    let mut shown: Vec<_> = records.iter().filter_map(|record| record.displayed_at).collect();
    shown.sort_unstable();
    let gaps = shown.windows(2).map(|pair| pair[1].saturating_since(pair[0])).collect();
    (records, gaps)
}

/// Share of the time between shown pictures that is in pauses of more than 200 ms.
fn frozen(gaps: &[Duration]) -> f64 {
    let call: Duration = gaps.iter().sum();
    let frozen: Duration = gaps.iter().filter(|&&gap| gap > Duration::from_millis(200)).sum();
    frozen.div_duration_f64(call)
}

#[test]
fn long_loss_bursts_do_not_stop_video_for_long() {
    // Mean burst of 33 packets. One probe per second would need half a minute to end it.
    for (kbps, seed) in [(500, 1), (2_000, 2), (8_000, 3)] {
        let (records, gaps) = with_bursts(0.001, 0.03, kbps, seed, false);
        let lost = records.iter().filter(|record| record.sent_at.is_some() && record.displayed_at.is_none()).count();
        assert!(lost > 20, "{lost} at {kbps} kb/s");
        assert!(gaps.iter().all(|&gap| gap < Duration::from_secs(4)), "{:?} at {kbps} kb/s", gaps.iter().max());
    }
}

#[test]
fn short_loss_bursts_freeze_video_for_a_sixth_of_the_call() {
    // Mean burst of ten packets, which takes a third of all packets.
    for (kbps, seed) in [(500, 1), (2_000, 2), (8_000, 3)] {
        let (records, gaps) = with_bursts(0.05, 0.1, kbps, seed, false);
        assert!(frozen(&gaps) < 1.0 / 6.0, "{} at {kbps} kb/s", frozen(&gaps));
        assert!(2 * (gaps.len() + 1) > records.len(), "{} of {} at {kbps} kb/s", gaps.len() + 1, records.len());
    }
}

#[test]
fn bursts_freeze_calls_with_sound_for_two_fifths_at_most() {
    // Mean burst of 50 packets, which takes a fifth of all packets. Sound alone would need a second to end it.
    for (kbps, seed) in [(500, 1), (2_000, 2), (8_000, 3)] {
        let (_, gaps) = with_bursts(0.005, 0.02, kbps, seed, true);
        assert!(frozen(&gaps) < 0.4, "{} at {kbps} kb/s", frozen(&gaps));
    }
}
