//! Tests of `lockstep barcode`: writing, reading, unreadable pictures and refusals.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::command::said;

/// Runs `lockstep barcode` in `folder`.
fn barcode(folder: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lockstep"))
        .arg("barcode")
        .args(words)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .expect("the command starts")
}

fn succeed(folder: &Path, words: &[&str]) -> Output {
    let output = barcode(folder, words);
    assert!(output.status.success(), "{words:?}: {}", said(&output));
    output
}

fn refuses(folder: &Path, words: &[&str], message: &str) {
    let output = barcode(folder, words);
    assert!(!output.status.success() && said(&output).contains(message), "{words:?}: {}", said(&output));
}

/// Numbers in a CSV of `--read`, or the problem of each unreadable picture.
fn rows(csv: &[u8]) -> Vec<Result<u32, String>> {
    let text = String::from_utf8_lossy(csv);
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("picture,number,problem"));
    let row = |(index, line): (usize, &str)| {
        let fields: Vec<&str> = line.splitn(3, ',').collect();
        assert_eq!(fields[0], index.to_string());
        fields[1].parse().map_err(|_| fields[2].to_owned())
    };
    lines.enumerate().map(row).collect()
}

fn numbers(range: std::ops::Range<u32>) -> Vec<Result<u32, String>> {
    range.map(Ok).collect()
}

#[test]
fn numbers_are_read_back_for_odd_sizes_and_after_scaling() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for size in ["320x180", "641x361", "322x199"] {
        let written = succeed(
            folder.path(),
            &["generated", "a.y4m", "--seconds", "0.4", "--rate", "25", "--size", size, "--first", "16777206"],
        );
        assert!(said(&written).contains("10 pictures, numbers 16777206 to 16777215"), "{}", said(&written));
        let header = fs::read(folder.path().join("a.y4m")).expect("it was written");
        let (width, height) = size.split_once('x').expect("a size");
        assert!(header.starts_with(format!("YUV4MPEG2 W{width} H{height} F25:1").as_bytes()));
        let read = succeed(folder.path(), &["a.y4m", "--read"]);
        assert_eq!(rows(&read.stdout), numbers(16_777_206..16_777_216), "{size}");
    }
    succeed(folder.path(), &["generated:640x360@25", "b.y4m", "--seconds", "0.2"]);
    let read = succeed(folder.path(), &["b.y4m", "--read", "--size", "320x180"]);
    assert_eq!(rows(&read.stdout), numbers(0..5));
}

#[test]
fn clip_goes_to_standard_output_and_numbers_to_json() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let written = succeed(folder.path(), &["generated:320x180@25", "-", "--seconds", "0.2"]);
    assert!(written.stdout.starts_with(b"YUV4MPEG2 W320 H180"));
    fs::write(folder.path().join("a.y4m"), &written.stdout).expect("it is written");
    // Existing numbers of a clip are overwritten.
    let again = succeed(folder.path(), &["a.y4m", "-", "--first", "100"]);
    assert_eq!(again.stdout.len(), written.stdout.len());
    fs::write(folder.path().join("b.y4m"), &again.stdout).expect("it is written");
    let read = succeed(folder.path(), &["b.y4m", "--read"]);
    assert_eq!(rows(&read.stdout), numbers(100..105));
    succeed(folder.path(), &["a.y4m", "numbers.json", "--read"]);
    let text = fs::read(folder.path().join("numbers.json")).expect("it was written");
    let found: Vec<Value> = serde_json::from_slice(&text).expect("it is JSON");
    assert_eq!(found.len(), 5);
    assert_eq!(found[4]["number"], 4);
    assert_eq!(found[4]["problem"], Value::Null);
}

#[test]
fn unreadable_picture_has_a_reason_and_no_number() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let clip = succeed(folder.path(), &["generated:320x180@25", "-", "--seconds", "0.12"]).stdout;
    // The second picture is grey. The third has only its lower half, as after tearing.
    let (picture, frame) = (320 * 180 * 3 / 2, 6);
    let header = clip.iter().position(|&byte| byte == b'\n').expect("a header") + 1;
    let mut damaged = clip.clone();
    let start = |number: usize| header + number * (picture + frame) + frame;
    damaged[start(1)..start(1) + picture].fill(128);
    damaged[start(2)..start(2) + 320 * 90].fill(128);
    fs::write(folder.path().join("damaged.y4m"), &damaged).expect("it is written");
    let read = succeed(folder.path(), &["damaged.y4m", "--read"]);
    let found = rows(&read.stdout);
    assert_eq!(found[0], Ok(0));
    assert!(found[1..].iter().all(|row| row.as_ref().is_err_and(|problem| !problem.is_empty())), "{found:?}");
    assert!(said(&read).contains("1 of 3 pictures read"), "{}", said(&read));
}

#[test]
fn clip_without_pictures_is_refused_without_output() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path();
    fs::write(path.join("empty.y4m"), "YUV4MPEG2 W320 H180 F25:1\n").expect("it is written");
    refuses(path, &["empty.y4m", "out.y4m"], "empty.y4m: no pictures");
    refuses(path, &["empty.y4m", "out.csv", "--read"], "empty.y4m: no pictures");
    assert!(!path.join("out.y4m").exists() && !path.join("out.csv").exists());
}

#[test]
fn invalid_or_too_small_clip_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path();
    fs::write(path.join("text.y4m"), "this is no clip").expect("it is written");
    refuses(path, &["text.y4m", "out.y4m"], "text.y4m");
    refuses(path, &["nothing.y4m", "--read"], "nothing.y4m");
    // Standard input is empty here.
    refuses(path, &["-", "out.y4m"], "standard input: not a y4m file");
    assert!(!path.join("out.y4m").exists());
    refuses(path, &["generated:160x90@25", "out.y4m", "--seconds", "1"], "carries no barcodes");
    refuses(path, &["generated:320x180@25", "out.y4m"], "is endless");
    refuses(path, &["generated:320x180@25", "numbers.txt", "--read", "--seconds", "1"], ".csv or .json");
    refuses(path, &["generated:320x180@25", "out.y4m", "--seconds", "1", "--first", "16777216"], "--first");
    succeed(path, &["generated:320x180@25", "a.y4m", "--seconds", "0.1"]);
    let before = fs::read(path.join("a.y4m")).expect("it is there");
    refuses(path, &["a.y4m", "a.y4m"], "a.y4m");
    assert_eq!(fs::read(path.join("a.y4m")).expect("it is still there"), before);
    // Too large numbers are refused before the clip is complete.
    refuses(path, &["generated:320x180@25", "b.y4m", "--seconds", "1", "--first", "16777215"], "picture 1");
    assert!(!path.join("b.y4m").exists());
}

/// Runs `lockstep barcode` with `input` on standard input.
fn piped(words: &[&str], input: Vec<u8>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockstep"));
    command.arg("barcode").args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = command.spawn().expect("the command starts");
    let mut pipe = running.stdin.take().expect("a pipe");
    let writing = std::thread::spawn(move || pipe.write_all(&input));
    let output = running.wait_with_output().expect("the command ends");
    // A command that refuses its input does not read it.
    let _ = writing.join();
    output
}

#[test]
fn pictures_come_and_go_through_pipes() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let clip = ["generated", "plain.y4m", "--seconds", "0.2", "--rate", "25", "--size", "320x180", "--first", "900"];
    succeed(folder.path(), &clip);
    let clip = fs::read(folder.path().join("plain.y4m")).expect("written");
    let written = piped(&["-", "-"], clip.clone());
    assert!(written.status.success(), "{}", said(&written));
    let read = piped(&["--read", "-"], written.stdout.clone());
    assert_eq!(rows(&read.stdout), numbers(0..5));
    let stopped = piped(&["--read", "-", "--seconds", "0.08"], written.stdout);
    assert_eq!(rows(&stopped.stdout), numbers(0..2));
    for (words, input, message) in [
        (&["-", "-"][..], b"RIFF nothing".to_vec(), "standard input: not a y4m file"),
        (&["-", "-", "--size", "640x360"], clip.clone(), "--size and --rate do not apply to standard input"),
        (&["-", "-"], clip[..clip.len() - 9].to_vec(), "standard input"),
    ] {
        let refused = piped(words, input);
        assert!(!refused.status.success() && said(&refused).contains(message), "{words:?}: {}", said(&refused));
    }
}
