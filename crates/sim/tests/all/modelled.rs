//! Modelled calls over simulated links.

use std::sync::Arc;
use std::time::Duration;

use lockstep_call::{FrameRecord, MenuMode, Outcome};
use lockstep_control::{Algorithm, ControllerSetup};
use lockstep_link::{Conditions, Link, LinkConfig, LossConfig, QueueConfig, Trace};
use lockstep_measure::{KeptFrames, MAX_PENDING_FRAMES};
use lockstep_sim::modelled::{FeedbackInterval, ModelledCall, ModelledCodec, ModelledSetting};
use lockstep_sim::{Activity, ClipCurves, CodecModel, Flow, ModelledClip, Network, SharedLink};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

const LENGTH: Duration = Duration::from_secs(30);

fn link<P: Clone>(trace: &str, loss: f64) -> SharedLink<P> {
    link_over(Trace::from_spec(trace).unwrap(), loss)
}

fn link_over<P: Clone>(trace: Trace, loss: f64) -> SharedLink<P> {
    link_behind(256, trace, loss)
}

fn link_behind<P: Clone>(packets: usize, trace: Trace, loss: f64) -> SharedLink<P> {
    let config = LinkConfig {
        delay: Duration::from_millis(20),
        queue: QueueConfig::drop_tail(packets),
        loss: LossConfig { random: loss, ..LossConfig::default() },
        ..LinkConfig::new(trace)
    };
    Link::new(config, 5).unwrap()
}

fn call(algorithm: &str, feedback: FeedbackInterval, start: u64) -> ModelledCall {
    call_with(ModelledCodec::Functional(MenuMode::default()), algorithm, feedback, start)
}

fn call_with(codec: ModelledCodec, algorithm: &str, feedback: FeedbackInterval, start: u64) -> ModelledCall {
    let algorithm: Algorithm = algorithm.parse().unwrap();
    let setting = ModelledSetting {
        codec,
        feedback,
        activity: Activity::between(Timestamp::from_millis(start), Timestamp::ZERO + LENGTH),
        ..ModelledSetting::new()
    };
    let control = ControllerSetup::new(setting.payload, setting.frame_interval());
    let model = CodecModel::built_in().unwrap();
    let curves = Arc::new(ClipCurves::new(&model.clips[0], 1280, 720));
    let clip = ModelledClip::new(curves, setting.frame_interval(), 7);
    setting.call(algorithm.controller(&control).unwrap(), algorithm.estimator(control.bounds), clip)
}

/// Results of a run.
struct Run {
    /// One list of records per call, with one record per captured picture.
    records: Vec<Vec<FrameRecord>>,
    delivered: ByteCount,
}

impl Run {
    fn of(calls: Vec<ModelledCall>, trace: &str, loss: f64) -> Self {
        Self::over(calls, link(trace, loss))
    }

    fn over(calls: Vec<ModelledCall>, forward: SharedLink<<ModelledCall as Flow>::Packet>) -> Self {
        let kept: Vec<KeptFrames> = calls.iter().map(|_| KeptFrames::default()).collect();
        let observed = calls.into_iter().zip(&kept).map(|(call, kept)| call.observed_by(Box::new(kept.clone())));
        let mut network = Network::new(observed.collect(), forward, link("constant:100mbps", 0.0));
        network.run_until(Timestamp::ZERO + LENGTH + Duration::from_secs(2));
        let (calls, links) = network.into_parts();
        for call in calls {
            call.finish(|from, to| links[0].capacity_between(from, to)).expect("the call was logged");
        }
        let records = kept.iter().map(|kept| kept.take().into_iter().map(|frame| frame.record).collect()).collect();
        Self { records, delivered: links[0].statistics().delivered.bytes }
    }

    fn records(&self) -> &[FrameRecord] {
        &self.records[0]
    }
}

fn run(algorithm: &str, feedback: FeedbackInterval, trace: &str, loss: f64) -> Run {
    Run::of(vec![call(algorithm, feedback, 0)], trace, loss)
}

fn delays_ms(records: &[FrameRecord]) -> Vec<f64> {
    let end = Timestamp::ZERO + LENGTH + Duration::from_secs(2);
    let mut delays: Vec<f64> =
        lockstep_measure::video_delays(records, end).into_iter().map(|delay| delay * 1e3).collect();
    delays.sort_by(f64::total_cmp);
    delays
}

fn rate(run: &Run) -> f64 {
    Bitrate::mean(run.delivered, LENGTH).as_mbps()
}

#[test]
fn salsify_fills_a_constant_link_with_little_delay() {
    let network = run("salsify", FeedbackInterval::EveryFragment, "constant:2mbps", 0.0);
    let delays = delays_ms(network.records());
    let (median, late) = (delays[delays.len() / 2], delays[delays.len() * 95 / 100]);
    assert!(rate(&network) > 1.6, "{} Mb/s", rate(&network));
    assert!(median < 150.0 && late < 250.0, "{median} {late}");
}

#[test]
fn frames_at_a_fixed_rate_below_capacity_arrive_at_once() {
    let network = run("fixed:1mbps", FeedbackInterval::Every(Duration::from_millis(50)), "constant:4mbps", 0.0);
    let delays = delays_ms(network.records());
    assert!((rate(&network) - 1.0).abs() < 0.1, "{} Mb/s", rate(&network));
    assert!(delays[delays.len() * 95 / 100] < 80.0, "{}", delays[delays.len() * 95 / 100]);
}

#[test]
fn rate_controllers_reach_a_megabit_with_both_feedback_kinds() {
    for (controller, least) in [("nada", 0.75), ("scream", 0.8), ("bob-heuristic", 0.55)] {
        for feedback in [FeedbackInterval::EveryFragment, FeedbackInterval::Every(Duration::from_millis(50))] {
            let network = run(controller, feedback, "constant:1mbps", 0.0);
            let delays = delays_ms(network.records());
            let (rate, median) = (rate(&network), delays[delays.len() / 2]);
            assert!((least..=1.0).contains(&rate), "{controller}: {rate} Mb/s");
            assert!(median < 200.0, "{controller}: {median} ms");
        }
    }
}

/// A link of 1 Mb/s whose additional delay alternates between 20 and 120 ms every two seconds.
fn path_of_two_lengths() -> Trace {
    let lengths = (0..16).map(|turn| {
        let conditions = Conditions { delay: Duration::from_millis(20 + 100 * (turn % 2)), ..Conditions::NONE };
        (Duration::from_secs(2 * turn), conditions)
    });
    Trace::from_spec("constant:1mbps").unwrap().with_conditions(&lengths.collect::<Vec<_>>()).unwrap()
}

#[test]
fn changing_path_delay_does_not_lower_the_rate() {
    for controller in ["sprout", "lockstep"] {
        let call = call(controller, FeedbackInterval::EveryFragment, 0);
        let network = Run::over(vec![call], link_over(path_of_two_lengths(), 0.0));
        let delays = delays_ms(network.records());
        let (rate, late) = (rate(&network), delays[delays.len() * 95 / 100]);
        assert!(rate > 0.7, "{controller}: {rate} Mb/s");
        assert!(late < 300.0, "{controller}: {late} ms");
    }
}

#[test]
fn lockstep_matches_sprout_on_a_path_longer_than_in_training() {
    let longer = [(Duration::ZERO, Conditions { delay: Duration::from_millis(400), ..Conditions::NONE })];
    let trace = Trace::from_spec("constant:2mbps").unwrap().with_conditions(&longer).unwrap();
    let [sprout, lockstep] = ["sprout", "lockstep"].map(|controller| {
        let call = call(controller, FeedbackInterval::EveryFragment, 0);
        rate(&Run::over(vec![call], link_over(trace.clone(), 0.0)))
    });
    assert!(lockstep > 0.9 * sprout, "{lockstep} to {sprout} Mb/s");
}

#[test]
fn frames_larger_than_the_queue_arrive() {
    for (controller, kbps, packets) in
        [("sprout", 500, 4), ("salsify", 1_500, 4), ("lockstep", 4_000, 4), ("sprout", 4_000, 8), ("gcc", 12_000, 4)]
    {
        let trace = Trace::constant(Bitrate::from_kbps(kbps));
        let call = call(controller, FeedbackInterval::default(), 0);
        let network = Run::over(vec![call], link_behind(packets, trace, 0.0));
        let records = network.records();
        let sent = records.iter().filter(|record| record.frame.is_some()).count();
        let shown = records.iter().filter(|record| record.displayed_at.is_some()).count();
        assert!(100 * shown >= 93 * sent, "{controller}, {kbps} kb/s, {packets} packets: {shown} of {sent} are shown");
        let late = delays_ms(records)[records.len() * 95 / 100];
        assert!(late < 400.0, "{controller}, {kbps} kb/s, {packets} packets: {late} ms");
    }
}

#[test]
fn recovery_frames_use_states_that_the_receiver_holds() {
    for (loss, least) in [(0.05, 50), (0.15, 100)] {
        let network = run("salsify", FeedbackInterval::EveryFragment, "constant:2mbps", loss);
        let records = network.records();
        let recoveries = records.iter().filter(|record| record.recovery).count();
        let keys = records.iter().filter(|record| record.key_frame).count();
        let shown = records.iter().filter(|record| record.displayed_at.is_some()).count();
        let sent: Vec<_> = records.iter().filter(|record| record.frame.is_some()).collect();
        let lost = |pair: &&[&FrameRecord]| pair[0].displayed_at.is_none() && pair[1].displayed_at.is_some();
        let after_losses: Vec<_> = sent.windows(2).filter(lost).map(|pair| pair[1]).collect();
        assert!(recoveries > least, "{recoveries}");
        assert!(after_losses.len() > 5, "losses of frames: {}", after_losses.len());
        assert!(after_losses.iter().all(|record| record.recovery || record.key_frame), "{after_losses:?}");
        assert!(keys <= 4, "{keys} key frames");
        assert!(shown * 10 > records.len() * 4, "{shown} of {}", records.len());
        assert!(delays_ms(records)[records.len() * 95 / 100] < 400.0);
    }
}

#[test]
fn equal_seeds_give_equal_records() {
    let records = || {
        let network = run("salsify", FeedbackInterval::EveryFragment, "cellular:mean=3mbps,seed=3", 0.01);
        network.records().to_vec()
    };
    assert_eq!(records(), records());
}

#[test]
fn two_calls_share_a_link() {
    let calls = vec![
        call("salsify", FeedbackInterval::EveryFragment, 0),
        call("salsify", FeedbackInterval::EveryFragment, 5_000),
    ];
    for records in Run::of(calls, "constant:4mbps", 0.0).records {
        let sent = records.iter().filter(|record| record.outcome == Outcome::Sent).count();
        assert!(sent * 2 > records.len(), "{sent} of {}", records.len());
    }
}

fn run_conventional(algorithm: &str, trace: &str, loss: f64) -> Run {
    let feedback = FeedbackInterval::Every(Duration::from_millis(50));
    Run::of(vec![call_with(ModelledCodec::Conventional, algorithm, feedback, 0)], trace, loss)
}

#[test]
fn a_conventional_codec_meets_its_target_only_on_average() {
    let network = run_conventional("fixed:1mbps", "constant:4mbps", 0.0);
    assert!((rate(&network) - 1.0).abs() < 0.15, "{} Mb/s", rate(&network));
    let records = network.records();
    let over = records.iter().filter(|record| record.size > record.budget).count();
    assert!(over * 10 > records.len(), "{over} frames over their budgets");
}

#[test]
fn a_conventional_codec_repairs_mostly_by_retransmission() {
    let network = run_conventional("fixed:1mbps", "constant:4mbps", 0.05);
    let records = network.records();
    let shown = records.iter().filter(|record| record.displayed_at.is_some()).count();
    let keys = records.iter().filter(|record| record.key_frame).count();
    assert!(shown * 10 > records.len() * 9, "{shown} of {}", records.len());
    assert!(keys <= 5, "{keys} key frames");
    let delays = delays_ms(records);
    assert!(
        delays[delays.len() * 95 / 100] > 90.0,
        "a retransmission takes a round trip: {}",
        delays[delays.len() * 95 / 100]
    );
}

#[test]
fn a_conventional_codec_sends_a_key_frame_after_a_long_outage() {
    let network = run_conventional("fixed:1mbps", "constant:4mbps,outage=10s+5s", 0.0);
    let records = network.records();
    let keys: Vec<f64> =
        records.iter().filter(|record| record.key_frame).map(|record| record.captured_at.as_secs_f64()).collect();
    assert!(keys.len() >= 2 && keys.iter().any(|&at| (11.0..20.0).contains(&at)), "{keys:?}");
    let last = records.iter().rev().find(|record| record.displayed_at.is_some()).unwrap();
    assert!(last.captured_at > Timestamp::from_millis(29_000), "video resumed: {last:?}");
}

/// Largest number of records held at once in a call of `seconds`, and the number of captured pictures.
fn max_held_records(seconds: u64, trace: &str) -> (usize, u64) {
    let length = Duration::from_secs(seconds);
    let activity = Activity::between(Timestamp::ZERO, Timestamp::ZERO + length);
    let setting = ModelledSetting { activity, ..ModelledSetting::new() };
    let algorithm: Algorithm = "fixed:300kbps".parse().unwrap();
    let control = ControllerSetup::new(setting.payload, setting.frame_interval());
    let curves = Arc::new(ClipCurves::new(&CodecModel::built_in().unwrap().clips[0], 640, 360));
    let clip = ModelledClip::new(curves, setting.frame_interval(), 7);
    let (controller, estimator) = (algorithm.controller(&control).unwrap(), algorithm.estimator(control.bounds));
    let call = setting.call(controller, estimator, clip);
    let mut run = Network::new(vec![call], link(trace, 0.02), link("constant:100mbps", 0.0));
    let mut most = 0;
    while run.now() < Timestamp::ZERO + length {
        run.run_until(run.now() + Duration::from_millis(100));
        most = most.max(run.flows()[0].held_records());
    }
    let (mut calls, links) = run.into_parts();
    let finished = calls.remove(0).finish(|from, to| links[0].capacity_between(from, to)).unwrap();
    (most, finished.call.scores.frames.captured)
}

#[test]
fn held_records_do_not_grow_with_the_length_of_a_call() {
    let ((minute, few), (hours, many)) =
        (max_held_records(60, "constant:1mbps"), max_held_records(7_200, "constant:1mbps"));
    assert!(many > 100 * few && many > 200_000, "{few} {many}");
    assert!(minute <= 30 && hours <= 60, "{minute} records in a minute, {hours} in two hours");
}

#[test]
fn held_records_are_bounded_during_an_hour_without_display() {
    let (most, frames) = max_held_records(3_600, "constant:1mbps,outage=60s+3500s");
    assert!(frames > 3 * MAX_PENDING_FRAMES as u64);
    assert!(most <= MAX_PENDING_FRAMES + 30, "{most}");
}

#[test]
fn a_short_queue_does_not_cause_long_pacing_delays() {
    // Paced packets that fit a short queue cause no queueing delay, so delay-based controllers do not react.
    for (algorithm, packets) in [("copa", 2), ("bob-heuristic", 2), ("scream", 4), ("nada", 4)] {
        let call = call_with(ModelledCodec::Conventional, algorithm, FeedbackInterval::EveryFragment, 0);
        let trace = Trace::from_spec("constant:2mbps").unwrap();
        let network = Run::over(vec![call], link_behind(packets, trace, 0.0));
        let delays = delays_ms(network.records());
        let (median, late) = (delays[delays.len() / 2], delays[delays.len() * 95 / 100]);
        assert!(median < 250.0 && late < 600.0, "{algorithm} over {packets} packets: {median} {late}");
    }
}
