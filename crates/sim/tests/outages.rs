//! Outages by plan, over seeds: however fast the path was and however long it carries nothing, pictures move again as
//! soon as it carries something.

use std::sync::Arc;
use std::time::Duration;

use lockstep_call::FrameRecord;
use lockstep_control::{Algorithm, ControllerSetup, bitrate_ceiling};
use lockstep_link::{GilbertElliott, Link, LinkConfig, LossConfig, LossInterval, QueueConfig, Trace};
use lockstep_measure::KeptFrames;
use lockstep_media::FrameRate;
use lockstep_sim::modelled::ModelledSetting;
use lockstep_sim::{Activity, ClipCurves, CodecModel, ModelledClip, Network};
use lockstep_transport::wire::FRAGMENT_PAYLOAD;
use lockstep_units::{Bitrate, ByteCount, Timestamp};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// What a path carries before and after the outage, and the pictures sent over it.
#[derive(Debug, Clone)]
struct Plan {
    rate: Bitrate,
    /// One way.
    delay: Duration,
    /// From when to when nothing passes.
    outage: (Duration, Duration),
    /// Whether what is sent in the outage is lost. Otherwise it waits in the queue before the link.
    lossy: bool,
    clip: usize,
    seed: u64,
}

/// Width, height and pictures a second that suit a rate.
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

    /// The first moment after the outage at which a packet leaves the link: packets of 1,500 bytes pass one at a time.
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
        let call = call.observed_by(Box::new(kept.clone()));
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
        // What left the link before the outage arrives within the delay of the path.
        let before = end.max(Timestamp::ZERO + self.outage.0 + self.delay + DECODING);
        let after =
            |at: Option<Timestamp>| at.map_or(Duration::MAX, |at| at.saturating_since(self.first_opportunity()));
        let displays = records.iter().filter_map(|record| record.displayed_at);
        let sent = records.iter().filter(|record| record.sent_at.is_some_and(|at| at >= end));
        let first = sent.min_by_key(|record| record.sent_at).expect("frames were sent after the outage");
        Outcome { moved: after(displays.filter(|&at| at > before).min()), first: first.clone() }
    }
}

/// What followed an outage.
struct Outcome {
    /// How long after the first opportunity a picture was shown that was not before.
    moved: Duration,
    /// The first frame sent after the outage.
    first: FrameRecord,
}

/// The longest pause between two hellos in outages of ten seconds on links of 100 kb/s and more (`control::path::probing`).
const LONGEST_GREETING_PAUSE: Duration = Duration::from_millis(250);
/// How long a frame that has arrived takes to be shown.
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
        clip,
        seed,
    })
}

/// What `check` says of many plans.
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

/// A frame of one fragment or of as little more as the encoder lets a frame be over such a budget, or of no more than the
/// coarsest quantizer makes of the picture.
fn is_small(first: &FrameRecord) -> bool {
    let size = first.size.unwrap_or_default().as_f64();
    let nearly =
        first.budget.is_some_and(|budget| budget <= FRAGMENT && size <= MOST_OVER.0 * budget.as_f64() + MOST_OVER.1);
    first.fragments == Some(1) || nearly || first.quantizer == Some(COARSEST_QUANTIZER)
}

/// What a fragment carries in these calls, and how far over its budget the functional encoder sends a frame that it makes
/// fit: this factor and so many bytes.
const FRAGMENT: ByteCount = ByteCount::new(FRAGMENT_PAYLOAD as u64);
const MOST_OVER: (f64, f64) = (1.15, 250.0);

const COARSEST_QUANTIZER: u8 = 127;

#[test]
fn pictures_move_within_a_round_trip_and_100_ms_of_the_links_return() {
    for_many_plans(false, |plan| {
        let outcome = plan.outcome();
        let bound = plan.round_trip() + Duration::from_millis(100);
        assert!(outcome.moved <= bound, "{:?} {plan:?}", outcome.moved);
        assert!(is_small(&outcome.first), "{:?} {plan:?}", outcome.first);
    });
}

#[test]
fn where_all_was_lost_pictures_move_within_two_round_trips_and_the_pause_between_two_hellos() {
    // The hello is answered, and then a picture is sent.
    for_many_plans(true, |plan| {
        let outcome = plan.outcome();
        let bound = 2 * plan.round_trip() + Duration::from_millis(100) + LONGEST_GREETING_PAUSE;
        assert!(outcome.moved <= bound, "{:?} {plan:?}", outcome.moved);
        assert!(is_small(&outcome.first), "{:?} {plan:?}", outcome.first);
    });
}

#[test]
fn bursts_of_lost_packets_end_soon_although_little_is_sent_into_them() {
    // 33 packets in the mean: at the pace of pictures that go into silence, a second apart, half a minute.
    let burst = GilbertElliott { to_bad: 0.001, to_good: 0.03, loss_in_good: 0.0, loss_in_bad: 1.0 };
    for (rate, seed) in [(500, 1), (2_000, 2), (8_000, 3)] {
        let plan = Plan {
            rate: Bitrate::from_kbps(rate),
            delay: Duration::from_millis(20),
            outage: (Duration::from_secs(50), Duration::from_secs(50)),
            lossy: true,
            clip: 0,
            seed,
        };
        let records = plan.run_with(LossConfig { burst: Some(burst), ..LossConfig::default() });
        let mut shown: Vec<_> = records.iter().filter_map(|record| record.displayed_at).collect();
        shown.sort_unstable();
        let gaps: Vec<_> = shown.windows(2).map(|pair| pair[1].saturating_since(pair[0])).collect();
        let lost = records.iter().filter(|record| record.sent_at.is_some() && record.displayed_at.is_none()).count();
        assert!(lost > 20, "{lost} at {rate} kb/s");
        assert!(gaps.iter().all(|&gap| gap < Duration::from_secs(4)), "{:?} at {rate} kb/s", gaps.iter().max());
    }
}
