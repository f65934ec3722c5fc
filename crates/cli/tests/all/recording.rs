//! Recordings of live calls, with their sound.
#![cfg(unix)]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;

use serde_json::Value;

use crate::command::{lockstep, signal, text};

const CLIP: &str = "generated:64x48@15";

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A receiver and its ticket.
fn receiver(arguments: &[&str], home: &Path) -> (Child, String) {
    let words = [&["receive", "--listen", "127.0.0.1:0", "--status", "json"], arguments].concat();
    let mut child = lockstep(&words).env("LOCKSTEP_HOME", home).spawn().expect("it starts");
    let line: Value = serde_json::from_str(&wait_for(&mut child, "\"ticket\"")).expect("it is JSON");
    (child, line["ticket"].as_str().expect("a ticket").to_owned())
}

/// Reads lines until one contains `word`.
fn wait_for(child: &mut Child, word: &str) -> String {
    let lines = BufReader::new(child.stdout.as_mut().expect("it is piped")).lines();
    lines.map_while(Result::ok).find(|line| line.contains(word)).expect("the line is printed")
}

fn has_ffmpeg() -> bool {
    let has = ["ffmpeg", "ffprobe"].iter().all(|program| Command::new(program).arg("-version").output().is_ok());
    if !has {
        eprintln!("skipped: ffmpeg is not installed");
    }
    has
}

/// Codecs of the streams in `file`, and the pictures and seconds of sound that ffmpeg decodes without an error.
fn played(file: &Path) -> (Vec<String>, usize, f64) {
    let run = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(["-v", "error"]).args(arguments).output().expect("it runs");
        assert!(output.status.success() && output.stderr.is_empty(), "{}", errors(&output));
        output.stdout
    };
    let codecs = run("ffprobe", &["-show_entries", "stream=codec_name", "-of", "csv=p=0", text(file)]);
    let codecs = String::from_utf8_lossy(&codecs).lines().map(str::to_owned).collect();
    // Not by ffmpeg: it would write pictures on a grid of a guessed frame rate, and two may share a point.
    let times = ["-select_streams", "v", "-show_entries", "frame=best_effort_timestamp", "-of", "csv=p=0", text(file)];
    let times = String::from_utf8(run("ffprobe", &times)).expect("it is text");
    let times: Vec<i64> = times.lines().map(|line| line.trim_end_matches(',').parse().expect("a time")).collect();
    assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "times of pictures: {times:?}");
    let input = ["-nostdin", "-xerror", "-i", text(file)];
    let sound = run("ffmpeg", &[&input[..], &["-map", "0:a", "-ar", "48000", "-ac", "1", "-f", "s16le", "-"]].concat());
    (codecs, times.len(), sound.len() as f64 / 96_000.0)
}

#[test]
fn a_call_with_losses_is_recorded_with_its_sound() {
    if !has_ffmpeg() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("call.webm");
    let call = ["call", "--clip", CLIP, "--seconds", "4", "--loss", "0.05", "--audio", "--sink", text(&file)];
    let output = lockstep(&call).output().expect("it ran");
    assert!(output.status.success(), "{}", errors(&output));
    let (codecs, pictures, seconds) = played(&file);
    assert_eq!(codecs, ["vp8", "opus"]);
    assert!(pictures > 30, "{pictures} pictures");
    assert!((2.5..6.0).contains(&seconds), "{seconds} s of sound");
}

#[test]
fn a_killed_receiver_leaves_a_file_that_plays() {
    if !has_ffmpeg() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("call.mkv");
    let (mut receiver, ticket) = receiver(&["--sink", text(&file)], folder.path());
    let words = ["send", &ticket, "--source", CLIP, "--audio", "--status", "none"];
    let mut sender = lockstep(&words).spawn().expect("it starts");
    let showing = BufReader::new(receiver.stdout.as_mut().expect("it is piped")).lines().map_while(Result::ok);
    assert_eq!(showing.filter(|line| line.contains("\"showing\"")).take(40).count(), 40);
    signal(&receiver, "KILL");
    let _ = (receiver.wait(), sender.kill(), sender.wait());
    let (codecs, pictures, seconds) = played(&file);
    assert_eq!(codecs, ["vp8", "opus"]);
    // Pictures that wait for their sound are lost: half a second of 40 pictures at 15 frames/s.
    assert!(pictures > 20 && seconds > 1.0, "{pictures} pictures, {seconds} s of sound");
}

#[test]
fn both_voices_of_a_call_are_recorded_and_the_peer_knows() {
    if !has_ffmpeg() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("both.webm");
    let words = ["talk", "--no-window", "--source", CLIP, "--audio", "tone"];
    let listening = ["--listen", "127.0.0.1:0", "--status", "json", "--record", text(&file), "--seconds", "5"];
    let mut listener = lockstep(&[&words[..], &listening].concat()).spawn().expect("it starts");
    let line: Value = serde_json::from_str(&wait_for(&mut listener, "\"ticket\"")).expect("it is JSON");
    let ticket = line["ticket"].as_str().expect("a ticket").to_owned();
    let words = ["talk", &ticket, "--no-window", "--source", CLIP, "--audio", "silence", "--audio-output", "nowhere"];
    let joiner = lockstep(&[&words[..], &["--status", "json"]].concat()).output().expect("it ran");
    assert!(joiner.status.success(), "{}", errors(&joiner));
    let said = String::from_utf8_lossy(&joiner.stdout).into_owned();
    assert!(said.contains("{\"notice\":\"the other end records this call\"}"), "{said}");
    assert!(said.contains("\"recording\":true"), "the statistics say so too");
    let _ = listener.wait();
    let (codecs, pictures, seconds) = played(&file);
    assert_eq!(codecs, ["vp8", "opus"]);
    assert!(pictures > 30 && seconds > 2.5, "{pictures} pictures, {seconds} s of sound");
    // The joiner is silent, so the voice is the listener's own.
    let decode = ["-v", "error", "-i", text(&file), "-map", "0:a", "-ac", "1", "-f", "s16le", "-"];
    let sound = Command::new("ffmpeg").args(decode).output().expect("it runs").stdout;
    let loud = sound.chunks_exact(2).filter(|pair| i16::from_le_bytes([pair[0], pair[1]]).unsigned_abs() > 1_000);
    assert!(loud.count() > 10_000, "the own voice is missing");
}

#[test]
fn each_call_of_a_reusable_receiver_has_a_recording() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("shown.webm");
    let (mut receiver, ticket) = receiver(&["--reusable", "--sink", text(&file)], folder.path());
    for name in ["shown.webm", "shown-2.webm"] {
        let words = ["send", &ticket, "--source", CLIP, "--status", "none", "--seconds", "0.5"];
        let sender = lockstep(&words).output().expect("it ran");
        assert!(sender.status.success(), "{name}: {}", errors(&sender));
        wait_for(&mut receiver, "\"ticket\"");
        let recording = fs::read(folder.path().join(name)).expect("it is recorded");
        assert!(recording.windows(6).any(|bytes| bytes == b"A_OPUS"), "{name} has a sound track");
    }
    signal(&receiver, "INT");
    assert_eq!(receiver.wait().expect("it ran").code(), Some(130));
}

#[test]
fn a_format_that_an_interrupted_call_ruins_is_refused() {
    for command in [&["receive"][..], &["talk", "--source", CLIP], &["call"]] {
        let output = lockstep(&[command, &["--sink", "call.mp4"]].concat()).output().expect("it ran");
        let reason = errors(&output);
        assert!(!output.status.success() && reason.lines().count() == 1, "{reason}");
        assert!(reason.contains("cannot record call.mp4: ") && reason.contains(".webm"), "{reason}");
    }
}

#[test]
fn pictures_of_a_piped_container_are_sent() {
    if !has_ffmpeg() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    // Not every ffmpeg reads an MP4 file with its index at the end from a pipe; one for streaming works.
    let kinds: [(&str, &[&str]); 2] =
        [("a.mkv", &["-c:v", "ffv1"]), ("a.mp4", &["-c:v", "mpeg4", "-movflags", "+faststart"])];
    for (name, options) in kinds {
        let [clip, shown] = [name.to_owned(), format!("{name}.webm")].map(|name| folder.path().join(name));
        let made = Command::new("ffmpeg")
            .args(["-v", "error", "-f", "lavfi", "-i", "testsrc=size=64x48:rate=15:duration=1"])
            .args(options)
            .arg(&clip)
            .output()
            .expect("it runs");
        assert!(made.status.success(), "{}", errors(&made));
        let (receiver, ticket) = receiver(&["--sink", text(&shown)], folder.path());
        let mut sender = lockstep(&["send", &ticket, "--source", "-", "--status", "none"]);
        let mut sender = sender.stdin(Stdio::piped()).spawn().expect("it starts");
        let mut input = sender.stdin.take().expect("it is piped");
        let bytes = fs::read(&clip).expect("it is there");
        let feeding = thread::spawn(move || drop(input.write_all(&bytes)));
        let sender = sender.wait_with_output().expect("it ran");
        feeding.join().expect("it does not panic");
        assert!(sender.status.success(), "{name}: {}", errors(&sender));
        assert!(receiver.wait_with_output().expect("it ran").status.success());
        let (_, pictures, _) = played(&shown);
        assert!(pictures > 8, "{name}: {pictures} pictures");
    }
}
