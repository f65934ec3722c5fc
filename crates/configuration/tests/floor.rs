//! The floor of the video delay in calls in virtual time, with the real codec and with its model.

use std::time::Duration;

use lockstep_call::{FIRST_PASS_SHARE, KeptFrames, LoggedFrame, Scores, VideoDelayFloor};
use lockstep_configuration::{CallOptions, CallSettings, simulate_with};
use lockstep_units::Timestamp;

const ENCODE_TIME: Duration = Duration::from_millis(12);
const DECODE_TIME: Duration = Duration::from_millis(3);

fn settings(options: &[(&str, &str)]) -> CallSettings {
    let usual = [
        ("clip", "generated:64x48@30"),
        ("seconds", "4"),
        ("trace", "poisson:500kbps,seed=2"),
        ("controller", "salsify"),
    ];
    let mut all = CallOptions::default();
    for (name, word) in usual.iter().chain(options) {
        all.set_words(name, &[(*word).to_owned()]).unwrap();
    }
    all.settings().unwrap()
}

fn run(options: &[(&str, &str)]) -> (Scores, Vec<LoggedFrame>) {
    let kept = KeptFrames::default();
    let report = simulate_with(&settings(options), None, Some(Box::new(kept.clone())), |_| Ok(())).unwrap().report;
    (report.scores, kept.take())
}

/// The floor on the path of [`settings`], where the codec has something to send `first_job_time` after it began.
fn floor(first_job_time: Duration) -> VideoDelayFloor {
    let (forward, _) = settings(&[]).link.links::<()>().unwrap();
    VideoDelayFloor::new(forward.config(), Timestamp::ZERO).with_coding(first_job_time, DECODE_TIME)
}

/// The shortest time in which a frame was coded.
fn shortest_coding(frames: &[LoggedFrame]) -> Duration {
    let coding = |frame: &LoggedFrame| Some(frame.record.sent_at?.saturating_since(frame.record.encode_started_at?));
    frames.iter().filter_map(coding).min().unwrap()
}

#[test]
fn no_frame_is_shown_before_the_floor_of_its_video_delay_and_the_scores_are_of_that() {
    for (words, share) in [
        (&[][..], FIRST_PASS_SHARE),
        (&[("modelled", "true")], FIRST_PASS_SHARE),
        (&[("menu", "serial")], 1.0),
        (&[("codec", "conventional")], 1.0),
        (&[("modelled", "true"), ("codec", "conventional")], 1.0),
    ] {
        let (scores, frames) = run(words);
        let floor = floor(ENCODE_TIME.mul_f64(share));
        for frame in frames.iter().filter(|frame| frame.followed) {
            let least = floor.of(frame.record.captured_at).unwrap();
            assert!(frame.video_delay >= least, "{words:?}: {:?} of at least {least:?}", frame.video_delay);
        }
        let scored =
            frames.iter().map(|frame| frame.record.captured_at).filter(|&at| at < Timestamp::from_millis(4_000));
        assert_eq!(scores.video_delay_floor_ms, floor.over(scored), "{words:?}");
        let (near, median) = (scores.near_floor.unwrap(), scores.video_delay_ms.unwrap().p50);
        assert!((0.0..=1.0).contains(&near) && median >= scores.video_delay_floor_ms.unwrap().p50, "{words:?}");
    }
}

#[test]
fn a_call_that_sends_next_to_nothing_is_near_the_floor() {
    let (few, _) = run(&[("modelled", "true"), ("max_bitrate", "40kbps")]);
    let (many, _) = run(&[("modelled", "true"), ("max_bitrate", "none")]);
    assert!(few.near_floor > Some(0.6), "{:?}", few.near_floor);
    assert!(many.near_floor < few.near_floor, "{:?}", many.near_floor);
}

#[test]
fn a_modelled_functional_codec_takes_as_long_for_its_first_pass_as_the_real_one() {
    let first_pass = ENCODE_TIME.mul_f64(FIRST_PASS_SHARE);
    assert_eq!(shortest_coding(&run(&[]).1), first_pass);
    assert_eq!(shortest_coding(&run(&[("modelled", "true")]).1), first_pass);
    assert_eq!(shortest_coding(&run(&[("codec", "conventional")]).1), ENCODE_TIME);
    assert_eq!(shortest_coding(&run(&[("modelled", "true"), ("codec", "conventional")]).1), ENCODE_TIME);
}
