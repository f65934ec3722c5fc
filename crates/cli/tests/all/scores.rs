//! Output of `lockstep simulate` for calls that fail or end early.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Report of a simulation, its standard output, and its standard error.
fn simulate(words: &[&str]) -> (Value, String, String) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let json = folder.path().join("call.json");
    let output = Command::new(env!("CARGO_BIN_EXE_lockstep"))
        .args(["simulate", "--json"])
        .arg(&json)
        .args(words)
        .output()
        .expect("the command starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{words:?}: {said}");
    let report = serde_json::from_slice(&fs::read(json).expect("written")).expect("JSON");
    (report, String::from_utf8_lossy(&output.stdout).into_owned(), said)
}

const SMALL: [&str; 4] = ["--clip", "generated:160x96@30", "--trace", "constant:500kbps"];

#[test]
fn loss_that_lasts_to_the_end_of_the_call_is_counted() {
    for modelled in [&[][..], &["--modelled"]] {
        let (report, ..) = simulate(&[&SMALL[..], &["--seconds", "3", "--loss-at", "2s+30s"], modelled].concat());
        let loss = report["packet_loss"].as_f64().expect("a share");
        assert!(loss > 0.02, "{modelled:?}: {loss}");
    }
}

#[test]
fn call_without_arrivals_has_full_loss_and_no_delay() {
    let (report, printed, _) = simulate(&[&SMALL[..], &["--seconds", "2", "--loss", "100%"]].concat());
    assert_eq!(report["packet_loss"], 1.0);
    assert_eq!(report["frames"]["displayed"], 0);
    assert_eq!((&report["video_delay_ms"], &report["displayed_delay_ms"]), (&Value::Null, &Value::Null));
    assert_eq!((&report["freezes"]["count"], &report["freezes"]["longest_seconds"]), (&1.into(), &2.0.into()));
    assert!(printed.contains("no picture of the call was shown"), "{printed}");
    assert!(printed.contains("video delay   p50 -") && printed.contains("  displayed   p50 -"), "{printed}");
    let (report, ..) = simulate(&[&SMALL[..], &["--seconds", "6", "--burst-loss", "100%,0%"]].concat());
    assert!(report["packet_loss"].as_f64() > Some(0.9), "{}", report["packet_loss"]);
}

#[test]
fn outage_raises_video_delay_and_not_displayed_delay() {
    for modelled in [&[][..], &["--modelled"]] {
        let words = ["--seconds", "6", "--delay-ms", "20", "--loss-at", "2s+2s"];
        let (report, printed, _) = simulate(&[&SMALL[..], &words, modelled].concat());
        let delay = |name: &str| report[name]["p95"].as_f64().expect("a delay");
        assert!(delay("video_delay_ms") > 1_000.0 && delay("displayed_delay_ms") < 500.0, "{modelled:?}: {printed}");
        let (count, longest) = (report["freezes"]["count"].as_u64(), report["freezes"]["longest_seconds"].as_f64());
        assert!(count >= Some(1) && longest > Some(1.9) && longest < Some(3.5), "{modelled:?}: {printed}");
        let rate = |name: &str| report[name].as_f64().expect("a rate");
        assert!(rate("harmonic_frame_rate") < 0.2 * rate("frames_per_second"), "{modelled:?}: {printed}");
        assert!(printed.contains("  displayed   p50") && printed.contains("smoothness    "), "{printed}");
    }
}

/// A clip of 18x10 at 25 frames/s.
fn write_clip(path: &Path, pictures: u32) {
    let mut y4m = b"YUV4MPEG2 W18 H10 F25:1 Ip A1:1 C420jpeg\n".to_vec();
    for picture in 0..pictures {
        y4m.extend(b"FRAME\n");
        y4m.extend((0..18 * 10 + 2 * 9 * 5u32).map(|at| (at * 7 + picture * 31) as u8));
    }
    fs::write(path, y4m).expect("written");
}

#[test]
fn short_clip_is_scored_for_its_length_with_a_warning() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let clip = folder.path().join("short.y4m");
    write_clip(&clip, 30);
    let clip = clip.to_str().expect("UTF-8");
    let words = ["--clip", clip, "--trace", "constant:500kbps", "--seconds"];
    let (report, _, said) = simulate(&[&words[..], &["10"]].concat());
    assert!(said.contains("the pictures ended after 1.20 s of the 10 s asked for"), "{said}");
    assert!((report["scored_seconds"].as_f64().expect("a length") - 1.2).abs() < 1e-6, "{}", report["scored_seconds"]);
    assert_eq!(report["series"]["sent_bps"].as_array().map(Vec::len), Some(12));
    for long_enough in ["1", "0.33333333333333333"] {
        let (report, _, said) = simulate(&[&words[..], &[long_enough]].concat());
        assert!(!said.contains("warning"), "{said}");
        let asked: f64 = long_enough.parse().expect("a number");
        assert!((report["scored_seconds"].as_f64().expect("a length") - asked).abs() < 1e-8);
    }
}

#[test]
fn room_lists_the_worst_direction_first_and_the_mean_last() {
    let room = ["--people", "3", "--modelled", "--trace", "constant:2mbps", "--seconds", "5"];
    let bad = ["--trace-of", "2=constant:100kbps", "--reverse-of", "2=constant:1mbps,loss=1%"];
    let (report, printed, _) = simulate(&[&room[..], &bad].concat());
    let ways: Vec<_> =
        report["calls"].as_array().expect("a list").iter().map(|way| (&way["from"], &way["to"])).collect();
    assert_eq!(
        serde_json::to_value(ways).expect("JSON"),
        serde_json::json!([[1, 2], [1, 3], [2, 1], [2, 3], [3, 1], [3, 2]])
    );
    let [one, two] = [0, 2].map(|call: usize| &report["calls"][call]);
    assert_eq!([&one["config"]["trace"], &two["config"]["trace"]], ["constant:2mbps", "constant:100kbps"]);
    assert_eq!(one["frames"]["captured"], two["frames"]["captured"]);
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines.len(), 9, "{printed}");
    let worst = lines[1].split_whitespace().take(3).collect::<Vec<_>>();
    assert!(lines[0].starts_with("from, to") && lines[7].starts_with("mean"), "{printed}");
    assert!(worst[0] == "2" || worst[2] == "2", "the worst is a call with the person on the bad network: {printed}");
    let again = simulate(&[&room[..], &bad].concat());
    assert!(report == again.0);
    let refuse = |words: &[&str], said: &str| {
        let output =
            Command::new(env!("CARGO_BIN_EXE_lockstep")).arg("simulate").args(words).output().expect("it starts");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && error.contains(said), "{words:?}: {error}");
    };
    refuse(&["--people", "3", "--two-way"], "cannot be used with '--two-way'");
    refuse(&["--people", "7"], "7 is not in 2..=6");
    refuse(&["--trace-of", "2=constant:1mbps"], "--people");
}
