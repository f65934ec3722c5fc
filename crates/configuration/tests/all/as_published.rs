//! Calls that follow a published system to the letter.

use std::time::Duration;

use lockstep_call::{Outcome, ReceivingEnd, SerialMenu};
use lockstep_configuration::{AsPublished, CallArguments, CallSettings, ControlSettings, Observers, simulate_with};
use lockstep_control::GracePeriod;
use lockstep_measure::{CallReport, KeptFrames, LoggedFrame};
use lockstep_media::{FrameRate, GeneratedClip, VideoFormat};
use lockstep_transport::Datagram;
use lockstep_units::Timestamp;

fn settings(options: &[(&str, &str)]) -> CallSettings {
    let usual = [
        ("clip", "generated:160x96@30"),
        ("seconds", "6"),
        ("trace", "cellular:mean=1mbps,seed=3"),
        ("loss", "10%"),
        ("encode_ms", "10"),
    ];
    let mut all = CallArguments::default();
    for (name, word) in usual.iter().chain(options) {
        all.set_values(name, &[(*word).to_owned()]).unwrap();
    }
    all.settings().unwrap()
}

fn run(options: &[(&str, &str)]) -> (CallReport<CallSettings>, Vec<LoggedFrame>) {
    let kept = KeptFrames::default();
    let observers = Observers::of_frames(Box::new(kept.clone()));
    let report = simulate_with(&settings(options), None, observers, |_| Ok(())).unwrap().report;
    (report, kept.take())
}

const SALSIFY: (&str, &str) = ("as_published", "salsify");

#[test]
fn option_sets_the_parts_of_the_published_system() {
    let usual = settings(&[("controller", "salsify")]);
    assert_eq!(usual.control.as_published, None);
    let salsify = settings(&[SALSIFY]);
    assert_eq!(salsify.control.as_published, Some(AsPublished::Salsify));
    assert_eq!(salsify.control.controller.to_string(), "salsify");
    assert_eq!(salsify.control.controller.grace_period(), Some(GracePeriod::Sender));
    assert!(salsify.feedback.get().is_zero());
    let ablation = settings(&[SALSIFY, ("grace_period", "none")]);
    assert_eq!(ablation.control.controller.grace_period(), Some(GracePeriod::None));
}

#[test]
fn each_fragment_is_acknowledged_and_none_is_parity() {
    // Frames of several fragments.
    let large = [("clip", "generated:320x192@30"), ("trace", "constant:3mbps")];
    let (published, _) = run(&[&large[..], &[SALSIFY]].concat());
    let (usual, _) = run(&[&large[..], &[("controller", "salsify")]].concat());
    let count = |report: &CallReport<CallSettings>, end: &str, name: &str| report.counters[end][name];
    let fragments = count(&published, "receiver", "fragments");
    assert!(fragments > 100, "{fragments}");
    assert!(count(&published, "receiver", "acknowledgements") >= fragments);
    assert!(count(&usual, "receiver", "acknowledgements") < count(&usual, "receiver", "fragments"));
    assert_eq!(count(&published, "sender", "parity"), 0);
    assert!(count(&usual, "sender", "parity") > 0);
}

#[test]
fn each_coded_picture_has_two_candidates_and_at_most_four_skips() {
    let (report, frames) = run(&[SALSIFY, ("trace", "constant:30kbps")]);
    let coded: Vec<&LoggedFrame> = frames.iter().filter(|frame| !frame.record.candidates.is_empty()).collect();
    assert!(coded.iter().all(|frame| frame.record.candidates.len() == 2));
    let skipped: Vec<bool> = coded.iter().map(|frame| frame.record.outcome != Outcome::Sent).collect();
    let longest = skipped.split(|skipped| !skipped).map(<[bool]>::len).max();
    assert_eq!(longest, Some(4), "a slow link makes the sender skip");
    let choices = report.scores.choices.unwrap();
    assert!(choices.none > 0.5 && (choices.better + choices.worse + choices.none - 1.0).abs() < 1e-9, "{choices:?}");
    let states = report.scores.states.unwrap();
    assert!(states.sender >= 1.0 && states.bytes.unwrap() > 160.0 * 96.0 * 1.5, "{states:?}");
}

#[test]
fn both_candidates_take_longer_one_after_the_other() {
    let coding = |menu| {
        let (_, frames) = run(&[SALSIFY, ("menu", menu)]);
        let time = |frame: &LoggedFrame| Some(frame.record.sent_at?.saturating_since(frame.record.encode_started_at?));
        frames.iter().filter_map(time).min().unwrap()
    };
    let (serial, parallel) = (coding("serial"), coding("parallel"));
    assert_eq!(serial.as_millis(), 10);
    assert!(parallel < serial, "{parallel:?}");
}

#[test]
fn conventional_codec_sends_one_version_without_retransmission() {
    for system in ["salsify-frame-target", "salsify-second-target"] {
        let (report, frames) = run(&[("as_published", system)]);
        assert!(frames.iter().all(|frame| frame.record.candidates.len() <= 1), "{system}");
        assert_eq!(report.counters["sender"]["retransmitted"], 0, "{system}");
        assert!(report.scores.frames.displayed > 60, "{system}: {:?}", report.scores.frames);
    }
}

#[test]
fn modelled_calls_follow_the_published_system_too() {
    let (report, frames) = run(&[SALSIFY, ("modelled", "true")]);
    assert!(frames.iter().all(|frame| matches!(frame.record.candidates.len(), 0 | 2)));
    assert!(report.scores.frames.displayed > 60, "{:?}", report.scores.frames);
}

#[test]
fn published_estimator_leaves_the_rest_of_the_call_alone() {
    let (published, _) = run(&[("as_published", "bob"), ("modelled", "true")]);
    let (named, _) = run(&[("controller", "bob-printed"), ("modelled", "true")]);
    assert_eq!(published.scores.video_delay_ms, named.scores.video_delay_ms);
    assert!(published.scores.frames.displayed > 90, "{:?}", published.scores.frames);
}

/// Numbers of fragments and of acknowledgements in the first pictures of a live call, none of which is decoded.
fn live_acknowledgements(options: &[(&str, &str)]) -> (usize, usize) {
    let format = VideoFormat { width: 320, height: 192, frame_rate: FrameRate::new(30, 1).unwrap() };
    let clip = GeneratedClip::new(format, 1).unwrap();
    let mut sender = settings(options).control.sending_end(&format, 7, None).unwrap();
    let mut receiver: ReceivingEnd = ControlSettings::receiving_end();
    let (mut fragments, mut acknowledgements) = (0, 0);
    for picture in 0..6 {
        let start = Timestamp::from_millis(100 + 33 * picture);
        sender.capture(start, start, clip.picture(picture));
        while let Some(job) = sender.poll_encode(start) {
            sender.encoded(start, job.run(&SerialMenu));
        }
        for step in 0..330 {
            let now = start + Duration::from_micros(100 * step);
            while let Some(sent) = sender.poll_transmit(now) {
                fragments += usize::from(sent.fragment.is_some());
                receiver.handle_datagram(now, Ok(sent.datagram), false);
                while let Some(reply) = receiver.poll_transmit(now) {
                    acknowledgements += usize::from(matches!(reply.datagram, Datagram::Acknowledgement(_)));
                    sender.handle_datagram(now, Ok(reply.datagram));
                }
            }
        }
    }
    (fragments, acknowledgements)
}

#[test]
fn hello_makes_a_live_receiver_acknowledge_each_fragment() {
    let (fragments, acknowledgements) = live_acknowledgements(&[SALSIFY]);
    assert!(fragments > 5);
    assert_eq!(acknowledgements, fragments);
    let (fragments, acknowledgements) = live_acknowledgements(&[("controller", "salsify")]);
    assert!(acknowledgements < fragments, "{acknowledgements} of {fragments}");
}
