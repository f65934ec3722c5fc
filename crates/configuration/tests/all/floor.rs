//! Minimum video delay in calls in virtual time, with the real codec and with a codec model.

use std::time::Duration;

use lockstep_call::EncodeWork;
use lockstep_configuration::{CallArguments, CallSettings, Observers, simulate_with};
use lockstep_measure::{KeptFrames, LoggedFrame, Scores, VideoDelayFloor};
use lockstep_sim::{EncodeTime, JobTimes, TimePoint};
use lockstep_units::Timestamp;
use lockstep_vp8::Effort;

const DECODE_TIME: Duration = Duration::from_millis(3);

fn settings(options: &[(&str, &str)]) -> CallSettings {
    let usual = [
        ("clip", "generated:64x48@30"),
        ("seconds", "4"),
        ("trace", "poisson:500kbps,seed=2"),
        ("controller", "salsify"),
        ("preset", "real-time"),
    ];
    let mut all = CallArguments::default();
    for (name, word) in usual.iter().chain(options) {
        all.set_values(name, &[(*word).to_owned()]).unwrap();
    }
    all.settings().unwrap()
}

/// Job times in the call of [`settings`].
fn job_times() -> JobTimes {
    EncodeTime::built_in().unwrap().job_times(64 * 48)
}

/// Time of `work` at the fastest level.
fn fastest(times: &JobTimes, work: EncodeWork) -> Duration {
    times.of(work, Effort::REAL_TIME)
}

fn run(options: &[(&str, &str)]) -> (Scores, Vec<LoggedFrame>) {
    let kept = KeptFrames::default();
    let report = simulate_with(&settings(options), None, Observers::of_frames(Box::new(kept.clone())), |_| Ok(()))
        .unwrap()
        .report;
    (report.scores, kept.take())
}

/// Minimum video delay on the path of [`settings`], for a codec whose first job takes `first_job_time`.
fn floor(first_job_time: Duration) -> VideoDelayFloor {
    let (forward, _) = settings(&[]).link.links::<()>().unwrap();
    VideoDelayFloor::new(forward.config(), Timestamp::ZERO).with_coding(first_job_time, DECODE_TIME)
}

/// Minimum coding time of a frame.
fn shortest_coding(frames: &[LoggedFrame]) -> Duration {
    let coding = |frame: &LoggedFrame| Some(frame.record.sent_at?.saturating_since(frame.record.encode_started_at?));
    frames.iter().filter_map(coding).min().unwrap()
}

#[test]
fn no_frame_is_faster_than_the_minimum_video_delay() {
    for (words, work) in [
        (&[][..], EncodeWork::FirstPass),
        (&[("modelled", "true")], EncodeWork::FirstPass),
        (&[("menu", "serial")], EncodeWork::SerialMenu),
        (&[("menu", "parallel")], EncodeWork::ParallelMenu),
        (&[("codec", "conventional")], EncodeWork::OneFrame),
        (&[("modelled", "true"), ("codec", "conventional")], EncodeWork::OneFrame),
    ] {
        let (scores, frames) = run(words);
        let floor = floor(fastest(&job_times(), work));
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
fn call_with_little_data_is_near_the_minimum() {
    // Smaller pictures would never fill the link.
    let call = |rate| run(&[("modelled", "true"), ("clip", "generated:320x180@30"), ("max_bitrate", rate)]).0;
    let (few, many) = (call("40kbps"), call("none"));
    assert!(few.near_floor > Some(0.6), "{:?}", few.near_floor);
    assert!(many.near_floor < few.near_floor, "{:?}", many.near_floor);
}

#[test]
fn every_controller_keeps_the_maximum_bit_rate() {
    for controller in ["hindsight", "sprout", "lockstep", "gcc", "fixed:2mbps"] {
        let path = [("trace", "constant:20mbps"), ("seconds", "10"), ("controller", controller)];
        let pictures = [("modelled", "true"), ("clip", "generated:640x360@30"), ("max_bitrate", "300kbps")];
        let (scores, _) = run(&[path, pictures].concat());
        let rate = scores.throughput_bps;
        assert!((100_000..=360_000).contains(&rate), "{controller}: {rate} b/s");
    }
}

#[test]
fn fixed_rate_is_limited_only_by_a_given_maximum() {
    for (most, expected) in [("auto", 900_000), ("none", 900_000), ("5mbps", 900_000), ("300kbps", 300_000)] {
        let path = [("trace", "constant:20mbps"), ("seconds", "10"), ("controller", "fixed:900kbps")];
        let pictures = [("modelled", "true"), ("clip", "generated:640x360@30"), ("max_bitrate", most)];
        let (scores, _) = run(&[path, pictures].concat());
        let rate = scores.throughput_bps;
        assert!(rate.abs_diff(expected) < expected / 5, "{most}: {rate} b/s");
    }
}

#[test]
fn modelled_codec_has_the_coding_time_of_the_real_one() {
    let [first_pass, one_frame] = [EncodeWork::FirstPass, EncodeWork::OneFrame].map(|work| fastest(&job_times(), work));
    assert_eq!(shortest_coding(&run(&[]).1), first_pass);
    assert_eq!(shortest_coding(&run(&[("modelled", "true")]).1), first_pass);
    assert_eq!(shortest_coding(&run(&[("codec", "conventional")]).1), one_frame);
    assert_eq!(shortest_coding(&run(&[("modelled", "true"), ("codec", "conventional")]).1), one_frame);
}

#[test]
fn coding_time_follows_preset_size_and_option() {
    let coding = |options: &[(&str, &str)]| settings(options).job_times(64 * 48).0;
    let first_pass = |times: &JobTimes| fastest(times, EncodeWork::FirstPass);
    assert!(first_pass(&settings(&[]).job_times(3840 * 2160).0) > 100 * first_pass(&coding(&[])));
    let told = coding(&[("encode_ms", "12")]);
    let menu = fastest(&told, EncodeWork::SerialMenu);
    assert!(menu.abs_diff(Duration::from_millis(12)) < Duration::from_nanos(2), "{menu:?}");
    assert!(first_pass(&told) < menu && fastest(&told, EncodeWork::OneFrame) < menu);
    assert_eq!(shortest_coding(&run(&[("encode_ms", "12")]).1), first_pass(&told));
    // The given time is that of the preset.
    let slow = coding(&[("encode_ms", "12"), ("preset", "quality")]).of(EncodeWork::SerialMenu, Effort::QUALITY);
    assert!(slow.abs_diff(Duration::from_millis(12)) < Duration::from_nanos(2), "{slow:?}");
    let shortest = |preset| shortest_coding(&run(&[("preset", preset)]).1);
    assert!(shortest("real-time") < shortest("4") && shortest("4") < shortest("quality"));
}

#[test]
fn encode_times_of_a_file_are_used_and_reported() {
    let mut model = EncodeTime::built_in().unwrap();
    model.machine.processor = "an abacus".to_owned();
    let point = TimePoint { pixels: 64 * 48, ..model.real_time[0] };
    model.real_time = vec![TimePoint { first_pass_ms: 25.0, ..point }];
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), serde_json::to_string(&model).unwrap()).unwrap();
    let name = file.path().to_str().unwrap();
    let report =
        simulate_with(&settings(&[("encode_time", name)]), None, Observers::default(), |_| Ok(())).unwrap().report;
    let told = report.coding_times.unwrap();
    assert_eq!((told.machine.processor.as_str(), told.first_job_ms), ("an abacus", 25.0));
    std::fs::write(file.path(), "{}").unwrap();
    let mut wrong = CallArguments::default();
    wrong.set_values("encode_time", &[name.to_owned()]).unwrap();
    let error = format!("{:#}", wrong.settings().unwrap_err());
    assert!(error.contains(name), "{error}");
}
