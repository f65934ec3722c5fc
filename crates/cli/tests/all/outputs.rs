//! Outputs of commands: refusals before a run, files after a failed write, and standard output.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::command::said;

fn lockstep(folder: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lockstep"))
        .args(words)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .expect("the command starts")
}

fn succeed(folder: &Path, words: &[&str]) -> Output {
    let output = lockstep(folder, words);
    assert!(output.status.success(), "{words:?}: {}", said(&output));
    output
}

fn refuses(folder: &Path, words: &[&str], message: &str) {
    let output = lockstep(folder, words);
    let said = said(&output);
    assert!(!output.status.success() && said.contains(message), "{words:?}: {said}");
    assert_eq!(said.lines().count(), 1, "{words:?}: {said}");
}

/// A folder that contains the clip `a.y4m`.
fn folder() -> (tempfile::TempDir, Vec<u8>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut y4m = b"YUV4MPEG2 W18 H10 F25:1 Ip A1:1 C420jpeg\n".to_vec();
    for picture in 0..30u32 {
        y4m.extend(b"FRAME\n");
        y4m.extend((0..18 * 10 + 2 * 9 * 5u32).map(|at| (at * at * 7 + picture * at) as u8));
    }
    fs::write(folder.path().join("a.y4m"), &y4m).expect("written");
    (folder, y4m)
}

fn names(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let mut names: Vec<PathBuf> = entries.collect();
    names.sort();
    names
}

/// A call of one day: a test that runs it would not end.
const DAY: [&str; 7] =
    ["simulate", "--seconds", "86400", "--clip", "generated:640x360@30", "--trace", "constant:1mbps"];

#[test]
fn input_is_never_overwritten_under_any_name() {
    let (folder, clip) = folder();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("sub")).expect("made");
    fs::hard_link(at("a.y4m"), at("hard.y4m")).expect("linked");
    let mut outputs = vec!["a.y4m", "./a.y4m", "sub/../a.y4m", "hard.y4m"];
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("a.y4m", at("soft.y4m")).expect("linked");
        outputs.push("soft.y4m");
    }
    for output in outputs {
        refuses(folder.path(), &["encode", "a.y4m", output, "--quantizer", "9"], "is an input");
        refuses(folder.path(), &["decode", "a.y4m", output], "is an input");
        refuses(folder.path(), &["simulate", "--clip", "a.y4m", "--json", output], "is an input");
        refuses(folder.path(), &["call", "--clip", "a.y4m", "--sink", output], "is an input");
        refuses(folder.path(), &["compare", "--clip", "a.y4m", "--json", output], "is an input");
        refuses(folder.path(), &["bench", "codec", "--clip", "a.y4m", "--json", output], "is an input");
        assert!(fs::read(at("a.y4m")).expect("there") == clip, "{output}");
    }
    fs::write(at("t.csv"), "0,1\n1,2\n").expect("written");
    refuses(folder.path(), &["trace", "t.csv", "--output", "./t.csv"], "is an input");
    refuses(folder.path(), &["simulate", "--trace", "t.csv", "--frames", "t.csv"], "is an input");
    refuses(folder.path(), &["study", "salsify", "--trace", "t.csv", "--json", "t.csv"], "is an input");
}

#[test]
fn invalid_outputs_are_refused_before_the_call() {
    let (folder, _) = folder();
    fs::create_dir(folder.path().join("sub")).expect("made");
    let before = names(folder.path());
    for (words, message) in [
        (&["--json", "sub"][..], "is a folder"),
        (&["--json", "a.y4m/call.json"], "cannot be written"),
        (&["--json", "new.csv", "--frames", "sub/../new.csv"], "the output of --json, too"),
        (&["--json", "-", "--frames", "-"], "the output of --json, too"),
        (&["--frames", "frames.txt"], "must end in .csv or .parquet"),
    ] {
        refuses(folder.path(), &[&DAY[..], words].concat(), message);
        refuses(folder.path(), &[&["call", "--seconds", "86400"], words].concat(), message);
    }
    for words in [
        &["receive", "--log", "sub"][..],
        &["receive", "--sink", "sub/../sub/x.y4m", "--log", "sub/x.y4m"],
        &["receive", "--sink", "x.mp4"],
        &["receive", "--sink", "-", "--status", "json"],
        &["send", "--log", "sub"],
        &["talk", "--no-window", "--sink", "x.mp4"],
        &["talk", "--send-log", "sub"],
        &["call", "--sink", "-"],
        &["compare", "--json", "sub"],
        &["sweep", "--output", "a.y4m/x.parquet"],
        &["scenario", "run", "long-tcp-cubic", "--json", "sub"],
        &["model", "fit", "--clip", "a=generated:64x48@30", "--output", "sub"],
        &["bench", "sim", "--json", "sub"],
        &["sources", "--json", "sub"],
    ] {
        let output = lockstep(folder.path(), words);
        assert!(!output.status.success(), "{words:?}");
        assert_eq!(said(&output).lines().count(), 1, "{words:?}: {}", said(&output));
    }
    assert_eq!(names(folder.path()), before, "nothing was left");
}

#[test]
fn end_that_cannot_listen_keeps_earlier_logs() {
    let (folder, _) = folder();
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port is free");
    let page = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = taken.local_addr().expect("it has one").to_string();
    let page = page.local_addr().expect("it has one").to_string();
    let monitor = format!("--monitor={page}");
    let logs = ["--send-log", "--receive-log", "--stats", "--qlog", "--audio-output"];
    let words: Vec<&str> = logs.iter().flat_map(|option| [option, &option[2..]]).collect();
    logs.iter().for_each(|option| fs::write(folder.path().join(&option[2..]), "before").expect("written"));
    for (wrong, message) in [
        (&["--listen", &port][..], "cannot bind UDP"),
        (&["--relay-only"], "--rendezvous"),
        (&["--metrics", &page], "--metrics: cannot listen on"),
        (&[&monitor], "--monitor: cannot listen on"),
    ] {
        let talk = ["talk", "--no-window", "--source", "a.y4m", "--audio", "tone"];
        refuses(folder.path(), &[&talk, &words[..], wrong].concat(), message);
        for option in logs {
            assert_eq!(fs::read_to_string(folder.path().join(&option[2..])).expect("there"), "before", "{wrong:?}");
        }
    }
}

#[test]
fn invalid_live_call_keeps_an_earlier_report() {
    let (folder, _) = folder();
    fs::write(folder.path().join("call.json"), "before").expect("written");
    fs::write(folder.path().join("a.wav"), "no sound").expect("written");
    for (wrong, message) in [
        (&["--audio", "none.wav"][..], "cannot read none.wav"),
        (&["--audio", "a.wav"], "a.wav: truncated or invalid WAV file"),
        (&["--controller", "hindsight"], "the controller hindsight needs the capacity of the path"),
        (&["--controller", "mmsys24"], "choose one with --model"),
        (&["--clip", "none.y4m"], "cannot open none.y4m"),
    ] {
        let call = ["call", "--seconds", "1", "--json", "call.json"];
        refuses(folder.path(), &[&call, wrong].concat(), message);
    }
    // Errors that only an end detects.
    fs::write(folder.path().join("cut.y4m"), "YUV4MPEG2 W18 H10 F25:1\nFRAME\ncut").expect("written");
    let call = ["call", "--seconds", "1", "--json", "call.json", "--clip", "cut.y4m"];
    let output = lockstep(folder.path(), &call);
    assert!(!output.status.success() && said(&output).contains("breaks off"), "{}", said(&output));
    assert_eq!(fs::read_to_string(folder.path().join("call.json")).expect("there"), "before");
}

#[test]
fn error_of_a_negative_value_names_its_option() {
    let (folder, _) = folder();
    for words in [&["call", "--seconds", "-1"][..], &["talk", "--max-pixels", "-1"], &["emulate", "--mtu", "-5", "x:1"]]
    {
        let output = lockstep(folder.path(), words);
        let printed = said(&output);
        assert!(
            !output.status.success() && printed.contains("invalid value '-") && printed.contains(words[1]),
            "{printed}"
        );
    }
}

/// Runs the command with files limited to a few kB, as on a full disk.
#[cfg(unix)]
fn on_a_full_disk(folder: &Path, words: &[&str]) -> Output {
    // The limit's signal is ignored, so that writing fails as on a full disk.
    Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 2; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_lockstep")])
        .args(words)
        .current_dir(folder)
        .output()
        .expect("the command starts")
}

#[test]
#[cfg(unix)]
fn full_disk_keeps_old_files_and_leaves_no_partial_ones() {
    let (folder, _) = folder();
    let at = |name: &str| folder.path().join(name);
    succeed(folder.path(), &["encode", "a.y4m", "a.ivf", "--quantizer", "9"]);
    let call = ["simulate", "--clip", "a.y4m", "--trace", "constant:1mbps", "--seconds", "1"];
    let commands: [(&str, Vec<&str>); 6] = [
        ("call.json", [&call[..], &["--json", "call.json"]].concat()),
        ("frames.csv", [&call[..], &["--frames", "frames.csv"]].concat()),
        ("frames.parquet", [&call[..], &["--frames", "frames.parquet"]].concat()),
        ("b.y4m", vec!["decode", "a.ivf", "b.y4m"]),
        ("b.ivf", vec!["encode", "a.y4m", "b.ivf", "--quantizer", "0"]),
        ("t.csv", vec!["trace", "cellular:mean=4mbps,seed=1", "--output", "t.csv"]),
    ];
    for (name, words) in &commands {
        let before = names(folder.path());
        let output = on_a_full_disk(folder.path(), words);
        assert!(!output.status.success(), "{words:?}");
        let printed = said(&output);
        assert!(
            printed.contains(&format!("cannot write {name}")) && printed.contains("too large"),
            "{words:?}: {printed}"
        );
        assert!(!printed.contains("picture size") && !printed.contains(".part"), "{printed}");
        assert_eq!(printed.matches("too large").count(), 1, "{printed}");
        assert_eq!(names(folder.path()), before, "{words:?}");
        fs::write(at(name), "what was there").expect("written");
        assert!(!on_a_full_disk(folder.path(), words).status.success());
        assert_eq!(fs::read(at(name)).expect("there"), b"what was there", "{words:?}");
        fs::remove_file(at(name)).expect("removed");
        // With enough room the command succeeds.
        succeed(folder.path(), words);
    }
    #[cfg(target_os = "linux")]
    for (name, words) in &commands {
        fs::remove_file(at(name)).expect("removed");
        std::os::unix::fs::symlink("/dev/full", at(name)).expect("linked");
        let output = lockstep(folder.path(), words);
        assert!(!output.status.success(), "{words:?}");
        assert!(said(&output).contains("No space left"), "{words:?}: {}", said(&output));
        assert!(said(&output).contains(&format!("cannot write {name}")), "{words:?}: {}", said(&output));
    }
}

#[test]
#[cfg(unix)]
fn full_disk_is_reported_once_per_file_with_its_name() {
    let (folder, _) = folder();
    let call = ["simulate", "--modelled", "--seconds", "100"];
    for (words, names) in [
        (&["--session-log", "logs"][..], &["cannot write logs/seconds/modelled-"][..]),
        (&["--json", "a.json", "--frames", "a.parquet"], &["cannot write a.json", "; and cannot write a.parquet"]),
    ] {
        let printed = said(&on_a_full_disk(folder.path(), &[&call[..], words].concat()));
        assert!(names.iter().all(|name| printed.contains(name)) && !printed.contains(".part"), "{printed}");
        assert_eq!(printed.matches("too large").count(), names.len(), "{printed}");
    }
}

#[test]
fn truncated_recording_is_read_to_its_end_and_reported() {
    let (folder, clip) = folder();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("cut.y4m"), &clip[..clip.len() - 100]).expect("written");
    refuses_after(folder.path(), &["encode", "cut.y4m", "cut.ivf", "--quantizer", "9"], "picture 29 breaks off");
    let printed = "cut.ivf has the 29 pictures before that";
    refuses_after(folder.path(), &["encode", "cut.y4m", "cut.ivf", "--quantizer", "9"], printed);
    assert_eq!(
        String::from_utf8_lossy(&succeed(folder.path(), &["decode", "--md5", "cut.ivf"]).stdout).lines().count(),
        29
    );
    let coded = fs::read(at("cut.ivf")).expect("written");
    fs::write(at("short.ivf"), &coded[..coded.len() - 1]).expect("written");
    refuses_after(folder.path(), &["decode", "short.ivf", "short.y4m"], "frame 28 breaks off");
    refuses_after(folder.path(), &["decode", "short.ivf", "short.y4m"], "short.y4m has the pictures before that");
    let header = clip.iter().position(|&byte| byte == b'\n').expect("a line") as u64;
    let picture = (clip.len() as u64 - header) / 30;
    assert_eq!(fs::metadata(at("short.y4m")).expect("written").len() / picture, 28);
}

#[test]
fn dash_is_standard_input_of_the_codec() {
    let (folder, _) = folder();
    succeed(folder.path(), &["encode", "a.y4m", "a.ivf", "--quantizer", "9"]);
    let piped = |words: &[&str], from: &str| {
        Command::new(env!("CARGO_BIN_EXE_lockstep"))
            .args(words)
            .current_dir(folder.path())
            .stdin(fs::File::open(folder.path().join(from)).expect("there"))
            .output()
            .expect("the command starts")
    };
    let read = |name: &str| fs::read(folder.path().join(name)).expect("written");
    assert!(piped(&["encode", "-", "b.ivf", "--quantizer", "9"], "a.y4m").status.success());
    assert!(read("b.ivf") == read("a.ivf"));
    let through = piped(&["encode", "-", "-", "--quantizer", "9"], "a.y4m");
    assert!(through.status.success() && through.stdout[28..] == read("a.ivf")[28..], "{}", said(&through));
    assert!(piped(&["decode", "-", "b.y4m"], "a.ivf").status.success());
    succeed(folder.path(), &["decode", "a.ivf", "a_decoded.y4m"]);
    assert!(read("b.y4m") == read("a_decoded.y4m"));
    let wrong = piped(&["encode", "-", "c.ivf", "--quantizer", "9"], "a.ivf");
    assert!(!wrong.status.success() && said(&wrong).contains("standard input: not a y4m file"), "{}", said(&wrong));
}

#[test]
fn clip_without_pictures_keeps_the_old_output() {
    let (folder, clip) = folder();
    let at = |name: &str| folder.path().join(name);
    let header = clip.iter().position(|&byte| byte == b'\n').expect("a line") + 1;
    for (length, message) in [(header, "clip.y4m: no pictures"), (header + 100, "picture 0 breaks off")] {
        fs::write(at("clip.y4m"), &clip[..length]).expect("written");
        refuses(folder.path(), &["encode", "clip.y4m", "none.ivf", "--quantizer", "9"], message);
        assert!(!at("none.ivf").exists(), "{message}");
        fs::write(at("there.ivf"), "before").expect("written");
        refuses(folder.path(), &["encode", "clip.y4m", "there.ivf", "--quantizer", "9"], message);
        assert_eq!(fs::read(at("there.ivf")).expect("there"), b"before", "{message}");
        let to_pipe = lockstep(folder.path(), &["encode", "clip.y4m", "-", "--quantizer", "9"]);
        assert!(!to_pipe.status.success() && to_pipe.stdout.is_empty(), "{message}");
    }
    fs::write(at("clip.y4m"), &clip[..header]).expect("written");
    let path = ["--clip", "clip.y4m", "--seconds", "1", "--json", "there.ivf"];
    for command in ["simulate", "call"] {
        refuses(folder.path(), &[&[command], &path[..]].concat(), "clip.y4m: no pictures");
    }
}

/// The command fails after other output.
fn refuses_after(folder: &Path, words: &[&str], message: &str) {
    let output = lockstep(folder, words);
    assert!(!output.status.success() && said(&output).contains(message), "{words:?}: {}", said(&output));
}

#[test]
fn sweep_with_only_failures_keeps_earlier_rows() {
    let (folder, _) = folder();
    let words = ["sweep", "--trace", "constant:1mbps", "--seconds", "1", "--output", "rows.parquet"];
    succeed(folder.path(), &words);
    let rows = fs::read(folder.path().join("rows.parquet")).expect("rows");
    let source = "class Estimator:\n    def report_states(self, stats): pass\n    def get_estimated_bandwidth(self): return None\n";
    fs::write(folder.path().join("broken.py"), source).expect("written");
    for (estimator, message) in [("broken.py", "1 of 1 calls failed"), ("nosuch.py", "nosuch.py: no such file")] {
        refuses(folder.path(), &[&words[..], &["--estimator", estimator]].concat(), message);
        assert!(fs::read(folder.path().join("rows.parquet")).expect("rows") == rows);
    }
    refuses(folder.path(), &[&words[..5], &["--estimator", "broken.py", "--output", "new.parquet"]].concat(), "failed");
    assert!(!folder.path().join("new.parquet").exists());
}

#[test]
fn dash_is_standard_output_without_other_text() {
    let (folder, _) = folder();
    let at = |name: &str| folder.path().join(name);
    let call = ["simulate", "--clip", "a.y4m", "--trace", "constant:1mbps", "--seconds", "1"];
    let json = succeed(folder.path(), &[&call[..], &["--json", "-", "--frames", "frames.csv"]].concat());
    let report: Value = serde_json::from_slice(&json.stdout).expect("only JSON");
    assert_eq!(report["scored_seconds"], 1.0);
    assert!(said(&json).contains("video delay"), "text for the user is on standard error: {}", said(&json));
    let frames = succeed(folder.path(), &[&call[..], &["--frames", "-"]].concat());
    assert!(frames.stdout == fs::read(at("frames.csv")).expect("written"));

    succeed(folder.path(), &["encode", "a.y4m", "a.ivf", "--quantizer", "9"]);
    let coded = succeed(folder.path(), &["encode", "a.y4m", "-", "--quantizer", "9"]).stdout;
    let file = fs::read(at("a.ivf")).expect("written");
    assert!(coded[..24] == file[..24] && coded[28..] == file[28..], "but for the number of frames");
    succeed(folder.path(), &["decode", "a.ivf", "b.y4m"]);
    assert!(succeed(folder.path(), &["decode", "a.ivf", "-"]).stdout == fs::read(at("b.y4m")).expect("written"));

    succeed(folder.path(), &["trace", "constant:1mbps", "--output", "t.up"]);
    let trace = succeed(folder.path(), &["trace", "constant:1mbps", "--output", "-"]).stdout;
    assert!(trace == fs::read(at("t.up")).expect("written"));
    let before = names(folder.path());
    let rows =
        succeed(folder.path(), &["sweep", "--trace", "constant:1mbps", "--seconds", "1", "--output", "-"]).stdout;
    assert!(rows.starts_with(b"PAR1") && rows.ends_with(b"PAR1"));
    assert_eq!(names(folder.path()), before, "no journal");
}

#[test]
#[cfg(target_os = "linux")]
fn full_standard_output_is_a_failure_and_a_closed_one_is_not() {
    let (folder, _) = folder();
    let to = |words: &[&str], output: Stdio| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lockstep"));
        command.args(words).current_dir(folder.path()).stdout(output).stderr(Stdio::piped());
        command.spawn().and_then(std::process::Child::wait_with_output).expect("it ran")
    };
    for words in [
        &["trace", "constant:1mbps"][..],
        &["controllers"],
        &["scenario", "list"],
        &["model", "show"],
        &["completions", "bash"],
        &["simulate", "--modelled", "--seconds", "1", "--json", "call.json"],
    ] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("it takes nothing");
        let failed = to(words, full.into());
        let printed = said(&failed);
        assert_eq!(failed.status.code(), Some(1), "{words:?}");
        assert!(printed.contains("cannot write standard output: No space left"), "{words:?}: {printed}");
        assert_eq!(printed.lines().count(), 1, "{words:?}: {printed}");
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let closed = to(words, writer.into());
        assert!(closed.status.success() && closed.stderr.is_empty(), "{words:?}: {}", said(&closed));
    }
    assert!(folder.path().join("call.json").exists(), "what was asked for is there all the same");
}

#[test]
fn receiver_writes_pictures_to_standard_output() {
    use std::io::{BufRead, BufReader, Read};
    let mut receiver = Command::new(env!("CARGO_BIN_EXE_lockstep"))
        .args(["receive", "--listen", "127.0.0.1:0", "--sink", "-", "--idle-seconds", "5"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut words = BufReader::new(receiver.stderr.take().expect("piped"));
    let mut line = String::new();
    words.read_line(&mut line).expect("a line");
    let ticket = line.trim().strip_prefix("ticket: ").expect("a ticket").to_owned();
    let mut pictures = receiver.stdout.take().expect("piped");
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        pictures.read_to_end(&mut bytes).map(|_| bytes)
    });
    let sender = ["send", &ticket, "--source", "generated:64x48@20", "--seconds", "0.5", "--status", "none"];
    succeed(Path::new("."), &sender);
    // After a lost close the receiver ends by its limit, with all pictures.
    let _ = receiver.wait().expect("it ends");
    let bytes = reader.join().expect("no panic").expect("read");
    assert!(bytes.starts_with(b"YUV4MPEG2 W64 H48 F20:1 "), "{:?}", &bytes[..bytes.len().min(40)]);
    let header = bytes.iter().position(|&byte| byte == b'\n').expect("a line") + 1;
    assert_eq!((bytes.len() - header) % (6 + 64 * 48 * 3 / 2), 0, "only complete pictures");
}
