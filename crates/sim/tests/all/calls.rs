//! Simulated calls with pixels over planned links, and the properties that must hold.

use std::time::Duration;

use lockstep_call::{FIT_PASSES, FunctionalEncoder, MenuMode, Outcome, Preset, ReceivingEnd, SendingEnd, Tuning};
use lockstep_control::{GracePeriod, InterArrival, Latency, SalsifyWindow};
use lockstep_link::{Jitter, JitterDistribution, Link, LinkConfig, LossConfig, LossInterval, Trace};
use lockstep_media::{GeneratedClip, GeneratedSource, VideoFormat};
use lockstep_sim::{CallPacket, SharedLink, Simulation, SimulationOptions};
use lockstep_transport::{ReceiverConfig, SenderConfig};
use lockstep_units::{ByteCount, Timestamp};
use lockstep_vp8::Parameters;

use crate::finished::{Finished, job_times};

/// Format that the sender announces.
const FORMAT: lockstep_transport::VideoFormat =
    lockstep_transport::VideoFormat { width: 320, height: 180, frame_rate_numerator: 30, frame_rate_denominator: 1 };

/// A call of 320x180 at 30 frames per second, with 20 ms of delay in each direction.
struct Plan {
    trace: &'static str,
    loss: f64,
    /// Interval in which the forward link loses all packets, seconds.
    lost: Option<(u64, u64)>,
    reverse_loss: f64,
    jitter: Duration,
    menu: MenuMode,
    encode_time: Duration,
    seconds: u64,
    seed: u64,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            trace: "constant:500kbps",
            loss: 0.0,
            lost: None,
            reverse_loss: 0.0,
            jitter: Duration::ZERO,
            menu: MenuMode::default(),
            encode_time: Duration::from_millis(8),
            seconds: 8,
            seed: 1,
        }
    }
}

impl Plan {
    fn ends(&self) -> (SendingEnd, ReceivingEnd) {
        let transport = SenderConfig::new(7, FORMAT);
        let payload = ByteCount::new(transport.payload as u64);
        let encoder = FunctionalEncoder::new(Parameters::default(), self.menu, &Tuning::default());
        let sender =
            SendingEnd::new(transport, Box::new(SalsifyWindow::new(payload)), Box::new(encoder), &Tuning::default());
        (
            // Coding takes the plan's time in every picture.
            sender.with_preset(Preset::REAL_TIME, Latency::default()),
            ReceivingEnd::new(ReceiverConfig::default(), Box::new(InterArrival::new(GracePeriod::LinkIdle))),
        )
    }

    fn link(&self, trace: &str, loss: LossConfig, seed: u64) -> SharedLink<CallPacket<Vec<u8>>> {
        let config = LinkConfig {
            delay: Duration::from_millis(20),
            loss,
            jitter: (!self.jitter.is_zero())
                .then_some(Jitter { distribution: JitterDistribution::Uniform { max: self.jitter }, reorders: true }),
            ..LinkConfig::new(Trace::from_spec(trace).expect("the plan's trace is valid"))
        };
        Link::new(config, seed).expect("the plan's link is valid")
    }

    fn run(&self) -> Finished {
        let (sender, receiver) = self.ends();
        let options = SimulationOptions {
            length: Duration::from_secs(self.seconds),
            job_times: job_times(self.encode_time),
            decode_time: Duration::from_millis(2),
        };
        let all = |(from, to)| LossInterval { from: Duration::from_secs(from), to: Duration::from_secs(to), loss: 1.0 };
        let scheduled = self.lost.map(all).into_iter().collect();
        let loss = LossConfig { random: self.loss, scheduled, ..LossConfig::default() };
        let reverse_loss = LossConfig { random: self.reverse_loss, ..LossConfig::default() };
        let forward = self.link(self.trace, loss, self.seed);
        let reverse = self.link("constant:100mbps", reverse_loss, self.seed + 1);
        let clip = GeneratedClip::new(VideoFormat { width: 320, height: 180, ..VideoFormat::default() }, self.seed);
        let source = GeneratedSource::new(clip.expect("the plan's clip is valid"));
        Finished::of(Simulation::new(sender, receiver, Box::new(source), forward, reverse, &options))
    }
}

fn displays(result: &Finished) -> Vec<Timestamp> {
    result.records.iter().filter_map(|record| record.displayed_at).collect()
}

#[test]
fn equal_seeds_give_equal_logs() {
    let plan = Plan { trace: "cellular:mean=1mbps,seed=3", loss: 0.02, seconds: 4, ..Plan::default() };
    let (first, second) = (plan.run(), plan.run());
    assert_eq!(first.records, second.records);
    assert_eq!(first.scores, second.scores);
    assert_eq!(first.series, second.series);
}

#[test]
fn a_call_on_a_steady_link_fills_it_with_little_delay() {
    for menu in [MenuMode::default(), MenuMode::Serial, MenuMode::Parallel] {
        let result = Plan { menu, ..Plan::default() }.run();
        let delay = result.scores.video_delay_ms.expect("frames were shown");
        assert!(delay.p95 < 250.0, "{menu:?}: p95 {delay:?}");
        assert!(result.scores.link_utilisation > 0.6, "{menu:?}: utilisation {}", result.scores.link_utilisation);
        // For comparison: Salsify's published code fills 33 to 58 % of its budget.
        let fill = result.scores.fill.expect("frames were sent");
        assert!(fill > if menu == MenuMode::Parallel { 0.5 } else { 0.6 }, "{menu:?}: fill {fill}");
    }
}

#[test]
fn video_resumes_within_300_ms_of_a_one_second_outage() {
    let result = Plan { trace: "constant:500kbps,outage=4s+1s", ..Plan::default() }.run();
    let back = Timestamp::from_millis(5_000);
    let shown = displays(&result);
    let first = shown.iter().find(|&&at| at >= back).expect("video resumed");
    let wait = first.saturating_since(back);
    assert!(wait <= Duration::from_millis(300), "video resumed {wait:?} after the link");
    let second_later = back + Duration::from_secs(1);
    let moving = shown.iter().filter(|&&at| at >= back && at < second_later).count();
    assert!(moving >= 10, "only {moving} pictures in the next second");
}

#[test]
fn frames_sent_during_an_outage_are_small() {
    // The outages start at different points of a picture's coding.
    let traces = [
        "constant:4mbps,outage=2000ms+1s",
        "constant:4mbps,outage=2007ms+1s",
        "constant:4mbps,outage=2014ms+1s",
        "constant:4mbps,outage=2021ms+1s",
        "constant:4mbps,outage=2028ms+1s",
    ];
    let mut probes = 0;
    for trace in traces {
        let result = Plan { trace, seconds: 4, ..Plan::default() }.run();
        // During the outage with a budget of zero, every frame sent is a probe.
        let silent = result.records.iter().filter(|record| {
            let at = record.sent_at.unwrap_or(Timestamp::ZERO);
            let out = at > Timestamp::from_millis(2_100) && at < Timestamp::from_millis(3_000);
            out && record.budget == Some(ByteCount::ZERO)
        });
        for record in silent {
            probes += 1;
            assert!(record.size <= Some(ByteCount::new(1_200)), "{trace}: {record:?}");
        }
    }
    assert!(probes > 10, "{probes}");
}

#[test]
fn a_slow_encoder_still_fits_frames_to_their_budgets() {
    // A newer picture always waits, and a scene cut follows at 10.8 s.
    let slow =
        Plan { trace: "constant:300kbps", seconds: 14, encode_time: Duration::from_millis(70), ..Plan::default() };
    let result = slow.run();
    let sent = result.records.iter().filter_map(|record| Some((record, record.size?, record.budget?)));
    let over: Vec<_> = sent.filter(|(record, size, budget)| record.capture > 0 && size > budget).collect();
    for (record, size, budget) in &over {
        let fits = size.as_f64() <= 1.15 * budget.as_f64() + 250.0;
        assert!(fits || *size <= ByteCount::new(1_200), "{record:?}");
    }
}

#[test]
fn video_recovers_from_two_seconds_of_loss_without_a_key_frame() {
    let result = Plan { trace: "constant:1mbps", lost: Some((3, 5)), ..Plan::default() }.run();
    let back = Timestamp::from_millis(5_000);
    let first = displays(&result).into_iter().find(|&at| at >= back).expect("video resumed");
    let wait = first.saturating_since(back);
    assert!(wait <= Duration::from_millis(400), "video resumed {wait:?} after the link");
    assert_eq!(result.scores.frames.key, 1, "{:?}", result.scores.frames);
    assert!(result.scores.frames.recovery > 0, "{:?}", result.scores.frames);
}

#[test]
fn fitted_frames_fill_a_steady_link_and_decode_exactly() {
    for loss in [0.0, 0.03] {
        let result = Plan { loss, ..Plan::default() }.run();
        assert_eq!((result.receiver.counts().mismatched, result.receiver.counts().undecodable), (0, 0));
        let most = result.records.iter().map(|record| record.candidates.len()).max();
        assert_eq!(most, Some(usize::from(FIT_PASSES)), "all allowed passes were used at least once, and never more");
        if loss == 0.0 {
            assert!(result.scores.link_utilisation > 0.7, "utilisation {}", result.scores.link_utilisation);
            let delay = result.scores.video_delay_ms.expect("frames were shown");
            assert!(delay.p95 < 250.0, "p95 {delay:?}");
        }
    }
}

#[test]
fn lossy_calls_recover_from_held_states_without_mismatch() {
    let result = Plan { trace: "constant:1mbps", loss: 0.05, ..Plan::default() }.run();
    assert_eq!(result.receiver.counts().mismatched, 0);
    assert_eq!(result.receiver.counts().undecodable, 0);
    assert!(result.scores.frames.recovery > 0, "no recovery frame: {:?}", result.scores.frames);
    assert!(result.scores.frames.key < 5, "recovery by key frames: {:?}", result.scores.frames);
    let delay = result.scores.video_delay_ms.expect("frames were shown");
    assert!(delay.p95 < 600.0, "{delay:?}");
}

#[test]
fn loss_of_half_the_acknowledgements_costs_little() {
    let whole = Plan { trace: "constant:1mbps", ..Plan::default() }.run();
    let half = Plan { trace: "constant:1mbps", reverse_loss: 0.5, ..Plan::default() }.run();
    assert_eq!(half.receiver.counts().mismatched, 0);
    assert!(2 * half.scores.throughput_bps > whole.scores.throughput_bps);
}

#[test]
fn both_ends_hold_a_bounded_number_of_states() {
    for loss in [0.0, 0.3] {
        let result = Plan { loss, seconds: 5, ..Plan::default() }.run();
        let (sender, receiver) =
            (result.sender.status(Timestamp::from_millis(6_000)).held_states, result.receiver.held_states());
        assert!(sender <= 64 && receiver <= 64, "sender {sender}, receiver {receiver}");
    }
}

#[test]
fn every_captured_picture_has_exactly_one_record() {
    let result = Plan { trace: "constant:300kbps", loss: 0.1, seconds: 4, ..Plan::default() }.run();
    for (index, record) in result.records.iter().enumerate() {
        assert_eq!(record.capture, index as u64);
        assert_eq!(record.outcome == Outcome::Sent, record.frame.is_some(), "{record:?}");
        assert!(record.displayed_at.is_none() || record.completed_at <= record.displayed_at, "{record:?}");
        assert!(record.displayed_at.is_none() || record.outcome == Outcome::Sent, "{record:?}");
    }
    let frames = result.scores.frames;
    assert_eq!(frames.captured, frames.sent + frames.skipped);
}
