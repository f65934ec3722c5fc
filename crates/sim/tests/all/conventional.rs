//! Simulated calls with the conventional codec, which must behave like today's systems.

use std::time::Duration;

use lockstep_call::{ConventionalEncoder, FunctionalEncoder, MenuMode, Outcome, ReceivingEnd, SendingEnd, Tuning};
use lockstep_control::{Algorithm, ControllerSetup, RateBounds};
use lockstep_link::{Link, LinkConfig, LossConfig, LossInterval, Trace};
use lockstep_media::{GeneratedClip, GeneratedSource, VideoFormat};
use lockstep_sim::{CallPacket, SharedLink, Simulation, SimulationOptions};
use lockstep_transport::{ReceiverConfig, SenderConfig};
use lockstep_units::{ByteCount, Timestamp};
use lockstep_vp8::Parameters;

use crate::finished::{Finished, job_times};

/// Format that the sender announces.
const ANNOUNCED: lockstep_transport::VideoFormat =
    lockstep_transport::VideoFormat { width: 320, height: 180, frame_rate_numerator: 30, frame_rate_denominator: 1 };

/// A call of 320x180 at 30 frames per second, with 20 ms of delay in each direction.
struct Plan {
    controller: &'static str,
    functional: bool,
    trace: &'static str,
    loss: f64,
    /// Start and duration of an outage that loses all packets, milliseconds.
    outage: Option<(u64, u64)>,
    seconds: u64,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            controller: "fixed:300kbps",
            functional: false,
            trace: "constant:1mbps",
            loss: 0.0,
            outage: None,
            seconds: 10,
        }
    }
}

impl Plan {
    fn ends(&self) -> (SendingEnd, ReceivingEnd) {
        let transport = SenderConfig::new(7, ANNOUNCED);
        let frame_interval = VideoFormat::default().frame_interval();
        let bounds = RateBounds::default();
        let setting = ControllerSetup::new(ByteCount::new(transport.payload as u64), frame_interval);
        let algorithm: Algorithm = self.controller.parse().expect("the plan's controller is known");
        let (controller, parameters) =
            (algorithm.controller(&setting).expect("the controller needs no known path"), Parameters::default());
        let sender = if self.functional {
            SendingEnd::new(
                transport,
                controller,
                Box::new(FunctionalEncoder::new(parameters, MenuMode::default(), &Tuning::default())),
                &Tuning::default(),
            )
        } else {
            SendingEnd::new(
                transport,
                controller,
                Box::new(ConventionalEncoder::new(parameters, frame_interval)),
                &Tuning::default(),
            )
        };
        (sender, ReceivingEnd::new(ReceiverConfig::default(), algorithm.estimator(bounds)))
    }

    fn link(trace: &str, loss: LossConfig, seed: u64) -> SharedLink<CallPacket<Vec<u8>>> {
        let trace = Trace::from_spec(trace).expect("the plan's trace is valid");
        let config = LinkConfig { delay: Duration::from_millis(20), loss, ..LinkConfig::new(trace) };
        Link::new(config, seed).expect("the plan's link is valid")
    }

    fn run(&self) -> Finished {
        let (sender, receiver) = self.ends();
        let options = SimulationOptions {
            length: Duration::from_secs(self.seconds),
            job_times: job_times(Duration::from_millis(8)),
            decode_time: Duration::from_millis(2),
        };
        let time = Duration::from_millis;
        let outage = |(from, length)| LossInterval { from: time(from), to: time(from + length), loss: 1.0 };
        let scheduled = self.outage.map(outage).into_iter().collect();
        let loss = LossConfig { random: self.loss, scheduled, ..LossConfig::default() };
        let forward = Self::link(self.trace, loss, 1);
        let reverse = Self::link("constant:100mbps", LossConfig::default(), 2);
        let clip = GeneratedClip::new(VideoFormat { width: 320, height: 180, ..VideoFormat::default() }, 1);
        let source = GeneratedSource::new(clip.expect("the plan's clip is valid"));
        Finished::of(Simulation::new(sender, receiver, Box::new(source), forward, reverse, &options))
    }
}

/// Asserts that every shown picture equals the sender's.
fn assert_no_mismatch(result: &Finished) {
    let counts = result.receiver.counts();
    assert_eq!((counts.mismatched, counts.undecodable), (0, 0));
    let sender = result.sender.status(Timestamp::from_millis(60_000)).held_states;
    assert!(sender <= 2 && result.receiver.held_states() <= 40, "{sender}, {}", result.receiver.held_states());
}

#[test]
fn a_constant_target_is_kept_within_15_percent() {
    for (controller, wanted) in [("fixed:200kbps", 200e3), ("fixed:500kbps", 500e3)] {
        let result = Plan { controller, ..Plan::default() }.run();
        let rate = result.scores.throughput_bps as f64;
        assert!((rate / wanted - 1.0).abs() <= 0.15, "{rate} of {wanted}");
        assert_no_mismatch(&result);
    }
}

#[test]
fn one_candidate_per_picture_is_sent_at_any_budget() {
    let result = Plan { trace: "constant:300kbps", ..Plan::default() }.run();
    let sent = || result.records.iter().filter(|record| record.outcome == Outcome::Sent);
    assert!(sent().all(|record| record.candidates.len() == 1));
    assert!(sent().any(|record| record.size > record.budget), "no frame exceeded its budget");
    assert!(!result.records.iter().any(|record| record.outcome == Outcome::SkippedOverBudget));
}

#[test]
fn losses_are_repaired_by_retransmission() {
    let plan = Plan { loss: 0.05, ..Plan::default() };
    let result = plan.run();
    assert_no_mismatch(&result);
    let frames = result.scores.frames;
    assert!(frames.key <= 2, "{frames:?}");
    assert_eq!(frames.displayed, frames.sent, "all sent frames were shown");
    assert_eq!(frames.recovery, 0);
    let statistics = result.sender.statistics();
    assert!(statistics.retransmitted > 0 && statistics.retransmitted < 2 * statistics.fragments_lost, "{statistics:?}");
    assert_eq!(result.records, plan.run().records, "equal plans give equal logs");
}

#[test]
fn the_call_resumes_with_a_key_frame_after_a_long_outage() {
    let result = Plan { outage: Some((4_000, 2_500)), ..Plan::default() }.run();
    assert_no_mismatch(&result);
    let frames = result.scores.frames;
    assert!((2..=4).contains(&frames.key), "{frames:?}");
    let back = Timestamp::from_millis(6_500);
    let first = result.records.iter().filter_map(|record| record.displayed_at).find(|&at| at >= back);
    let wait = first.expect("video resumed").saturating_since(back);
    assert!(wait <= Duration::from_millis(1_500), "{wait:?}");
    let moving = result.records.iter().filter(|record| record.displayed_at >= Some(back + wait)).count();
    assert!(moving >= 30, "{moving} pictures in the rest of the call");
}

#[test]
fn a_short_outage_is_repaired_without_a_key_frame() {
    let result = Plan { outage: Some((4_000, 100)), ..Plan::default() }.run();
    assert_no_mismatch(&result);
    assert_eq!((result.scores.frames.key, result.scores.frames.displayed), (1, result.scores.frames.sent));
}

#[test]
fn every_codec_runs_with_every_kind_of_controller() {
    for controller in ["salsify", "fixed:400kbps", "bob-heuristic", "nada", "scream"] {
        let run = |functional| {
            let trace = "cellular:mean=500kbps,seed=3";
            Plan { controller, functional, trace, seconds: 6, ..Plan::default() }.run()
        };
        let (functional, conventional) = (run(true), run(false));
        for result in [&functional, &conventional] {
            assert_eq!(result.receiver.counts().mismatched, 0);
            assert!(result.scores.frames.displayed > 60, "{controller}: {:?}", result.scores.frames);
        }
        let delay = |result: &Finished| result.scores.video_delay_ms.expect("frames were shown").p95;
        let (functional, conventional) = (delay(&functional), delay(&conventional));
        assert!(controller != "salsify" || conventional > functional, "{conventional} ms against {functional} ms");
    }
}
