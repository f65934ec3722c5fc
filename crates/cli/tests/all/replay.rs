//! Tests of `--decisions` and `lockstep replay`.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Row, RowAccessor};
use tempfile::TempDir;

use crate::command::json;

fn lockstep(folder: &Path, words: &[&str]) -> Output {
    let run = Command::new(env!("CARGO_BIN_EXE_lockstep")).args(words).current_dir(folder).output();
    run.expect("the command starts")
}

fn succeed(folder: &Path, words: &[&str]) -> String {
    let run = lockstep(folder, words);
    assert!(run.status.success(), "{words:?}: {}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).expect("it says text")
}

/// Error of a failing command, in one line.
fn refused(folder: &Path, words: &[&str]) -> String {
    let run = lockstep(folder, words);
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(run.status.code() == Some(1) && said.lines().count() == 1, "{words:?}: {said}");
    said
}

const SIMULATE: [&str; 8] =
    ["simulate", "--modelled", "--seconds", "4", "--trace", "steps:1500kbps@2s/300kbps@2s", "--decisions", "it.jsonl"];

/// A folder with the recording of a simulated call with the default controller.
fn recorded() -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    succeed(folder.path(), &SIMULATE);
    folder
}

#[test]
fn simulated_call_records_and_replays_reproducibly() {
    let folder = recorded();
    let said = succeed(folder.path(), &["replay", "it.jsonl", "--json", "replay.json"]);
    assert!(said.contains("every decision is the same: ") && said.contains("lockstep (model "), "{said}");
    let outcome = json(&folder.path().join("replay.json"));
    assert_eq!((&outcome["differences"], &outcome["ending"]), (&0.into(), &"whole".into()));
    assert!(outcome["decisions"].as_u64() > Some(200) && outcome["seconds"].as_f64() > Some(3.9), "{outcome}");
    assert_eq!(outcome["compared"][0]["recorded"], outcome["compared"][0]["replayed"]);
    let before = fs::read(folder.path().join("it.jsonl")).expect("it is there");
    succeed(folder.path(), &SIMULATE);
    assert!(before == fs::read(folder.path().join("it.jsonl")).expect("it is there"), "the same to the byte");
}

#[test]
fn live_call_replays_to_the_same_decisions() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let words = ["call", "--clip", "generated:64x48@15", "--seconds", "2", "--trace", "constant:1mbps", "--decisions"];
    for controller in ["lockstep", "bob"] {
        succeed(folder.path(), &[&words[..], &["it.jsonl", "--controller", controller]].concat());
        let said = succeed(folder.path(), &["replay", "it.jsonl"]);
        assert!(said.contains("every decision is the same: ") && said.contains(controller), "{said}");
    }
    let said = refused(folder.path(), &[&words[..], &["-"]].concat());
    assert!(said.contains("--decisions -: the sender is a separate process"), "{said}");
}

#[test]
fn first_different_decision_is_named_and_fails() {
    let folder = recorded();
    let text = fs::read_to_string(folder.path().join("it.jsonl")).expect("it is there");
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let of_allowance = |line: &&mut String| line.contains("\"budget_bytes\":");
    let number = lines.iter().position(|line| line.contains("\"budget_bytes\":")).expect("there is one");
    // Each answer is changed; the error names the first one.
    lines.iter_mut().filter(of_allowance).for_each(|line| {
        let (before, after) = line.split_once("\"budget_bytes\":").expect("it is there");
        *line = format!("{before}\"budget_bytes\":1{after}");
    });
    fs::write(folder.path().join("it.jsonl"), lines.join("\n") + "\n").expect("written");
    let said = refused(folder.path(), &["replay", "it.jsonl"]);
    let place = format!("first event {} (line {})", number - 1, number + 1);
    assert!(said.contains(&place) && said.contains("asked for the allowance with 0 B in flight"), "{said}");
}

#[test]
fn recording_of_a_killed_call_replays_with_a_warning() {
    let folder = recorded();
    let text = fs::read(folder.path().join("it.jsonl")).expect("it is there");
    fs::write(folder.path().join("cut.jsonl"), &text[..text.len() / 2]).expect("written");
    let run = lockstep(folder.path(), &["replay", "cut.jsonl", "--json", "replay.json"]);
    let (said, warned) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success() && said.contains("every decision is the same: "), "{said}{warned}");
    assert!(warned.contains("warning: cut.jsonl: it breaks off after event "), "{warned}");
    let outcome = json(&folder.path().join("replay.json"));
    assert_eq!(outcome["ending"], "cut off");
    assert!(outcome["seconds"].as_f64() < Some(3.5), "{outcome}");
    // Only the first line remains, without decisions.
    let first = text.iter().position(|&byte| byte == b'\n').expect("lines") + 1;
    fs::write(folder.path().join("cut.jsonl"), &text[..first]).expect("written");
    assert!(refused(folder.path(), &["replay", "cut.jsonl"]).contains("cut.jsonl: holds no decision"));
}

#[test]
fn replay_compares_another_controller_or_model() {
    let folder = recorded();
    let said = succeed(
        folder.path(),
        &["replay", "it.jsonl", "--controller", "fixed:2mbps", "--json", "replay.json", "--allowances", "it.parquet"],
    );
    assert!(said.contains("feedback for the packets of lockstep") && said.contains("target (kb/s), p95"), "{said}");
    let outcome = json(&folder.path().join("replay.json"));
    assert_eq!(outcome["replayed"]["controller"], "fixed:2000000bps");
    let target = outcome["compared"].as_array().expect("quantities").iter().find(|of| of["quantity"] == "target_kbps");
    let target = target.expect("there is one");
    assert_eq!((&target["replayed"]["p5"], &target["replayed"]["mean"]), (&2_000.0.into(), &2_000.0.into()));
    assert!(target["recorded"]["mean"].as_f64() < Some(1_900.0), "{target}");

    let file = fs::File::open(folder.path().join("it.parquet")).expect("it was written");
    let rows = SerializedFileReader::new(file).expect("a Parquet file");
    let rows: Vec<Row> = rows.get_row_iter(None).expect("rows").map(|row| row.expect("a row")).collect();
    assert!(
        rows.len() > 200 && rows.iter().all(|row| row.get_long(8).is_ok_and(|rate| rate == 2_000_000)),
        "{} rows",
        rows.len()
    );
    let mean = rows.iter().map(|row| row.get_long(7).expect("a rate") as f64 / 1e3).sum::<f64>() / rows.len() as f64;
    assert!((mean - target["recorded"]["mean"].as_f64().expect("a mean")).abs() < 1e-6, "{mean} {target}");

    // The same model in another file, with a description (field 6 of ONNX's ModelProto).
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/../../python/lockstep/learn/models/concerto.onnx");
    let other = [&fs::read(own).expect("it comes with Lockstep")[..], &[6 << 3 | 2, 1, b'x']].concat();
    fs::write(folder.path().join("other.onnx"), other).expect("written");
    // A named model is required again, and another model is another controller.
    let words = [&SIMULATE[..], &["--controller", "concerto", "--model", "other.onnx"]].concat();
    succeed(folder.path(), &words);
    let said = refused(folder.path(), &["replay", "it.jsonl"]);
    assert!(said.contains("with another model than comes with this one") && said.contains("--model"), "{said}");
    assert!(
        succeed(folder.path(), &["replay", "it.jsonl", "--model", "other.onnx"]).contains("every decision is the same")
    );
    let said = succeed(folder.path(), &["replay", "it.jsonl", "--model", own]);
    assert!(said.contains("are not the recorded ones") && said.matches("(model ").count() == 2, "{said}");
}

#[test]
#[cfg(target_os = "linux")]
fn full_disk_is_reported_with_the_name_of_the_output() {
    let folder = recorded();
    for name in ["full.parquet", "full.json"] {
        std::os::unix::fs::symlink("/dev/full", folder.path().join(name)).expect("a link");
    }
    for (option, name) in [("--allowances", "full.parquet"), ("--json", "full.json")] {
        let said = refused(folder.path(), &["replay", "it.jsonl", option, name]);
        assert!(said.starts_with(&format!("lockstep: cannot write {name}: ")) && !said.contains("it.jsonl"), "{said}");
    }
}

#[test]
fn invalid_recordings_are_refused_in_one_line() {
    let folder = recorded();
    fs::write(folder.path().join("call.json"), "{\"scores\": {}}\n").expect("written");
    let first = fs::read_to_string(folder.path().join("it.jsonl")).expect("it is there");
    let first = first.lines().next().expect("a line");
    fs::write(folder.path().join("damaged.jsonl"), format!("{first}\n[0,{{\"tim\x1be\":{{}}}}]\n")).expect("written");
    for (words, message) in [
        (&["none.jsonl"][..], "none.jsonl: cannot be read"),
        (&["."], "it is not a regular file"),
        (&["call.json"], "call.json: not a recording of a controller's decisions"),
        (&["damaged.jsonl"], "damaged.jsonl: line 2: control character"),
        (&["it.jsonl", "--controller", "hindsight"], "--controller hindsight: it must know what the path carries"),
        (&["it.jsonl", "--controller", "gcc", "--model", "a.onnx"], "model a.onnx"),
        (&["it.jsonl", "--json", "it.jsonl"], "is an input"),
        (&["it.jsonl", "--allowances", "it.csv"], "the name must end in .parquet"),
    ] {
        let said = refused(folder.path(), &[&["replay"], words].concat());
        assert!(said.contains(message) && !said.contains('\x1b'), "{words:?}: {said}");
    }
    let said = refused(folder.path(), &[&SIMULATE[..], &["--controller", "hindsight"]].concat());
    assert!(said.contains("its decisions cannot be recorded: cannot replay the controller hindsight"), "{said}");
    assert!(
        succeed(folder.path(), &["replay", "it.jsonl"]).contains("every decision is the same"),
        "the recording is unchanged"
    );
}
