//! Tests of `lockstep bench codec` and `lockstep bench call`. They check that each measurement runs once, and no
//! timings.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn lockstep(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockstep"));
    command.arg("bench").args(words).current_dir(folder).output().expect("the command starts")
}

/// Document `name` of a successful run, and its printed text.
fn document(folder: &Path, name: &str, words: &[&str]) -> (Value, String) {
    let run = lockstep(folder, words);
    assert!(run.status.success(), "{words:?}: {}", String::from_utf8_lossy(&run.stderr));
    let text = fs::read_to_string(folder.join(name)).expect("the numbers were written");
    (serde_json::from_str(&text).expect("JSON"), String::from_utf8_lossy(&run.stdout).into_owned())
}

fn keys(journal: &Path) -> Vec<String> {
    let text = fs::read_to_string(journal).expect("there is a journal");
    let key = |line: &str| serde_json::from_str::<Value>(line).ok()?["key"].as_str().map(str::to_owned);
    text.lines().filter_map(key).collect()
}

const CODEC: [&str; 8] = ["codec", "--pictures", "3", "--rounds", "1", "--json", "codec.json", "--clip"];

#[test]
fn codec_is_measured_on_every_clip_and_killed_run_resumes() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let words = [&CODEC[..], &["small=generated:64x48@30", "--clip", "generated:80x48@25"]].concat();
    let (whole, said) = document(folder.path(), "codec.json", &words);
    let names: Vec<&str> =
        whole["clips"].as_array().expect("clips").iter().filter_map(|c| c["name"].as_str()).collect();
    assert_eq!(names, ["small", "generated"]);
    for clip in whole["clips"].as_array().expect("clips") {
        let encoders = clip["encoders"].as_array().expect("encoders");
        assert_eq!(encoders.len(), if whole["libvpx"].is_null() { 2 } else { 5 });
        for encoder in encoders {
            for (set, first) in [("coarse", 15), ("fine", 4)] {
                let curve = &encoder["curves"][set];
                assert_eq!(
                    (curve["indices"][0].as_u64(), curve["kbps"].as_array().map(Vec::len)),
                    (Some(first), Some(5))
                );
                assert!(curve["kbps"][0].as_f64() > curve["kbps"][4].as_f64(), "{encoder}");
                assert!(curve["psnr_db"][0].as_f64() > curve["psnr_db"][4].as_f64(), "{encoder}");
            }
        }
        assert_eq!(clip["drift"].as_array().map(Vec::len), Some(9));
        assert_eq!(clip["decoding"].as_array().map(Vec::len), Some(3));
    }
    assert!(said.contains("menu of two over one") && said.contains("small, 64 x 48, 3 pictures"), "{said}");

    let journal = folder.path().join("codec.json.journal");
    let text = fs::read_to_string(&journal).expect("there is a journal");
    let measured = keys(&journal);
    assert_eq!(measured.iter().collect::<HashSet<_>>().len(), measured.len(), "no measurement runs twice");
    // The journal looks as after a kill in the middle of a line.
    fs::write(&journal, &text[..text.len() * 2 / 3]).expect("written");
    document(folder.path(), "codec.json", &words);
    assert_eq!(keys(&journal).len(), measured.len());
    assert_eq!(keys(&journal).into_iter().collect::<HashSet<_>>(), measured.iter().cloned().collect());
    let (again, _) = document(folder.path(), "codec.json", &words);
    assert_eq!(keys(&journal).len(), measured.len(), "a complete run measures nothing again");
    assert_eq!(again["clips"][0], whole["clips"][0], "earlier measurements are kept");
    // Another clip with an old name is measured.
    let other = [&CODEC[..], &["small=generated:66x48@30", "--clip", "generated:80x48@25"]].concat();
    document(folder.path(), "codec.json", &other);
    assert_eq!(keys(&journal).len(), measured.len() * 3 / 2);
}

#[test]
fn clips_of_equal_names_are_refused_with_a_remedy() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = lockstep(folder.path(), &["codec", "--clip", "generated:64x48", "--clip", "generated:80x48"]);
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(!run.status.success() && said.contains("NAME=CLIP") && said.lines().count() == 1, "{said}");
}

#[test]
fn calls_run_once_with_each_codec_over_equal_links() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let words = ["call", "--clip", "generated:96x64@30", "--trace", "constant:300kbps", "--trace", "constant:600kbps"];
    let words = [&words[..], &["--controller", "gcc", "--seconds", "3", "--json", "call.json"]].concat();
    let (bench, said) = document(folder.path(), "call.json", &words);
    let calls = bench["calls"].as_array().expect("calls");
    let codecs: Vec<&str> = calls.iter().filter_map(|call| call["codec"].as_str()).collect();
    if bench["libvpx"].is_null() {
        assert_eq!(codecs, ["functional"; 2]);
        assert!(said.contains("not there"), "{said}");
    } else {
        assert_eq!(codecs, ["functional", "libvpx", "functional", "libvpx"]);
    }
    for call in calls {
        let scores = &call["scores"];
        assert!(scores["video_delay_ms"]["p95"].as_f64() > Some(0.0), "{call}");
        assert!(scores["ssim_db"]["mean"].as_f64() > Some(5.0), "{call}");
        assert!(scores["frames"]["displayed"].as_u64() > Some(45), "{call}");
    }
    let journal = folder.path().join("call.json.journal");
    let measured = keys(&journal).len();
    assert_eq!(measured, calls.len());
    let (again, said_again) = document(folder.path(), "call.json", &words);
    assert_eq!((again, said_again, keys(&journal).len()), (bench, said, measured));
}
