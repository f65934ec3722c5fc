//! Observers of live calls: Prometheus, the live page, qlog, the keys, and failing outputs.
#![cfg(unix)]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::command::{lockstep, said, text};

const CLIP: &str = "generated:64x48@15";

/// A process that prints lines of JSON, and is killed when dropped.
struct Says {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Says {
    fn start(command: &mut Command) -> Self {
        let mut child = command.spawn().expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        Self { child, lines }
    }

    /// Value under `name` in the next line whose value is wanted.
    fn next(&mut self, name: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
        let lines = self.lines.by_ref().map_while(Result::ok);
        let mut found = lines.filter_map(|line| serde_json::from_str::<Value>(&line).ok()?.get(name).cloned());
        found.find(|value| is_wanted(value)).unwrap_or_else(|| panic!("it says {name} before it ends"))
    }

    fn word(&mut self, name: &str) -> String {
        self.next(name, Value::is_string).as_str().unwrap_or_default().to_owned()
    }

    fn finish(mut self) -> Output {
        // Unread output must not block it.
        self.lines.by_ref().for_each(drop);
        let status = self.child.wait().expect("it ran");
        let mut stderr = Vec::new();
        let _ = self.child.stderr.take().map(|mut errors| errors.read_to_end(&mut stderr));
        Output { status, stdout: Vec::new(), stderr }
    }
}

fn receiver(arguments: &[&str]) -> Says {
    Says::start(&mut lockstep(&[&["receive", "--listen", "127.0.0.1:0", "--status", "json"], arguments].concat()))
}

fn sender(ticket: &str, arguments: &[&str]) -> Command {
    lockstep(&[&["send", ticket, "--source", CLIP, "--status", "none"], arguments].concat())
}

/// The answer to a request for `path` of a page like `http://127.0.0.1:4680/...`.
fn get(address: &str, path: &str, host: Option<&str>) -> String {
    let place = address.strip_prefix("http://").and_then(|rest| rest.split('/').next()).expect("an address");
    let mut client = TcpStream::connect(place).expect("somebody listens");
    let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", host.unwrap_or(place));
    client.write_all(request.as_bytes()).expect("it is taken");
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("it is text");
    answer
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}

/// The records of a JSON text sequence.
fn records(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).expect("it was written");
    let mut records = text.split('\u{1e}');
    assert_eq!(records.next(), Some(""), "it begins with a record");
    records.map(|record| serde_json::from_str(record).unwrap_or_else(|error| panic!("{error}: {record}"))).collect()
}

#[test]
#[ignore = "slow"]
fn all_observers_of_a_call_get_equal_numbers() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [stats, sent, received] = ["stats.jsonl", "send.sqlog", "receive.sqlog"].map(|name| folder.path().join(name));
    let words = ["--metrics", "0", "--monitor", "--stats", text(&stats), "--qlog", text(&received)];
    let mut receiver = receiver(&words);
    let (metrics, monitor) = (receiver.word("metrics"), receiver.word("monitor"));
    let ticket = receiver.word("ticket");
    let sender = sender(&ticket, &["--qlog", text(&sent)]).spawn().expect("it starts");
    receiver.next("stats", |sample| {
        // The file has a line per second.
        let lines = fs::read(&stats).map_or(0, |bytes| bytes.iter().filter(|&&byte| byte == b'\n').count());
        sample["inbound"]["framesDecoded"].as_u64() >= Some(40) && lines >= 3
    });
    let numbers = get(&metrics, "/metrics", None);
    assert!(numbers.starts_with("HTTP/1.1 200 OK\r\n") && numbers.contains("text/plain; version=0.0.4"), "{numbers}");
    let number = |name: &str| {
        let line = body(&numbers).lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
        line.and_then(|number| number.parse::<f64>().ok()).unwrap_or_else(|| panic!("no {name} in {numbers}"))
    };
    assert!(number("lockstep_inbound_frames_decoded_total") >= 20.0 && number("lockstep_up") == 1.0);
    let page = get(&monitor, "/", None);
    assert!(page.contains("text/html") && page.contains("Content-Security-Policy: default-src 'none'"), "{page}");
    assert!(get(&monitor, "/", Some("evil.example")).starts_with("HTTP/1.1 421 "), "names of others lead nowhere");
    let samples = get(&monitor, "/samples?since=0", None);
    let samples: Value = serde_json::from_str(body(&samples)).expect("it is JSON");
    let drawn = samples["samples"].as_array().expect("samples").clone();
    assert!(drawn.len() > 5 && drawn.iter().any(|sample| sample["inbound"]["videoDelay"].as_f64() > Some(0.0)));

    let kill = Command::new("kill").arg(sender.id().to_string()).status();
    assert!(kill.expect("there is `kill`").success());
    let (receiver, sender) = (receiver.finish(), sender.wait_with_output().expect("it ran"));
    let codes = (receiver.status.code(), sender.status.code());
    assert_eq!(codes, (Some(0), Some(143)), "{} {}", said(&receiver), said(&sender));
    let lines = fs::read_to_string(&stats).expect("it was written");
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(lines.len() >= 3);
    let same = lines.iter().filter(|line| drawn.contains(line)).count();
    assert!(same > 0, "a line of --stats is one of the page's samples");

    for (path, end) in [(&sent, "client"), (&received, "server")] {
        let records = records(path);
        let (header, events) = records.split_first().expect("a header");
        assert_eq!((header["qlog_format"].as_str(), header["qlog_version"].is_string()), (Some("JSON-SEQ"), true));
        assert_eq!(header["trace"]["vantage_point"]["type"].as_str(), Some(end));
        let named = |name: &str| events.iter().filter(|event| event["name"] == name).count();
        for event in events {
            assert!(event["time"].as_f64().is_some_and(|time| (0.0..60_000.0).contains(&time)), "{event}");
            assert!(event["data"].is_object() && event["data"]["congestion_window"].is_null(), "{event}");
        }
        assert!(named("lockstep:stats_updated") > 5, "{end}");
        let packets = [named("transport:packet_sent"), named("transport:packet_received")];
        assert!(packets.iter().all(|&count| count > 10), "{end}: {packets:?}");
        assert!(named(if end == "client" { "lockstep:frame_sent" } else { "lockstep:frame_shown" }) > 20, "{end}");
    }
}

#[test]
fn page_is_only_for_this_machine() {
    for (option, message) in [("--monitor=0.0.0.0:0", "no password"), ("--monitor=192.0.2.7:80", "no password")] {
        let output = lockstep(&["receive", option]).output().expect("it ran");
        assert!(!output.status.success() && said(&output).contains(message), "{}", said(&output));
    }
}

#[test]
#[ignore = "slow"]
fn local_call_observes_both_ends_and_keeps_its_sound() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [json, heard, stats, qlog] = ["a.json", "a.wav", "a.jsonl", "a.sqlog"].map(|name| folder.path().join(name));
    let words = ["call", "--clip", CLIP, "--seconds", "3", "--audio", "--audio-output", text(&heard)];
    let outputs = ["--json", text(&json), "--stats", text(&stats), "--qlog", text(&qlog)];
    let output = lockstep(&[&words[..], &outputs].concat()).output().expect("it ran");
    assert!(output.status.success(), "{}", said(&output));
    let report: Value = serde_json::from_slice(&fs::read(&json).expect("written")).expect("JSON");
    assert_eq!(report["config"]["audio"], "tone");
    assert!(report["sound"]["packets"].as_u64() > Some(50), "{}", report["sound"]);
    assert_eq!(report["counters"]["decoder"]["dropped_by_sink"], 0);
    let delay = report["sound"]["mouth_to_ear_ms"]["p50"].as_f64().expect("it was heard");
    assert!((20.0..2_000.0).contains(&delay), "{delay}");
    let heard = fs::read(&heard).expect("it was recorded");
    assert!(heard[44..].chunks_exact(2).any(|pair| i16::from_le_bytes([pair[0], pair[1]]).unsigned_abs() > 2_000));
    let lines = fs::read_to_string(&stats).expect("it was written");
    let last: Value = serde_json::from_str(lines.lines().last().expect("a line a second")).expect("JSON");
    assert!(last["outbound"]["framesSent"].as_u64() > Some(10) && last["inbound"]["framesDecoded"].as_u64() > Some(10));
    assert!(records(&qlog).iter().any(|event| event["name"] == "lockstep:frame_sent"));
    let mute = lockstep(&["call", "--audio-output", text(&json)]).output().expect("it ran");
    assert!(!mute.status.success() && said(&mute).contains("requires --audio"), "{}", said(&mute));
}

#[test]
fn keys_are_read_as_lines_without_a_window() {
    let words = ["talk", "--listen", "127.0.0.1:0", "--no-window", "--status", "json", "--source", CLIP];
    let sound = ["--audio", "tone", "--audio-output", "none"];
    let mut here = Says::start(lockstep(&[&words[..], &sound].concat()).stdin(Stdio::piped()));
    let ticket = here.word("ticket");
    let words = ["talk", &ticket, "--no-window", "--status", "json", "--source", CLIP];
    let mut there = Says::start(&mut lockstep(&[&words[..], &sound].concat()));
    there.next("stats", |sample| sample["inbound"]["framesDecoded"].as_u64() >= Some(5));
    let mut keys = here.child.stdin.take().expect("it is piped");
    for (key, is_off) in [("v", true), ("v", false)] {
        writeln!(keys, "{key}").expect("it is read");
        there.next("stats", |sample| sample["inbound"]["cameraOff"].as_bool() == Some(is_off));
    }
    writeln!(keys, "m").expect("it is read");
    there.next("stats", |sample| sample["inbound"]["muted"].as_bool() == Some(true));
    here.next("stats", |sample| sample["outbound"]["muted"].as_bool() == Some(true));
    writeln!(keys, "q").expect("it is read");
    for end in [here, there] {
        let output = end.finish();
        assert!(output.status.success(), "{}", said(&output));
    }
}

/// Number of pictures in a y4m file of the clip, if all are complete.
fn pictures(path: &Path) -> Option<usize> {
    let bytes = fs::read(path).ok()?;
    let header = bytes.iter().position(|&byte| byte == b'\n')? + 1;
    let picture = 6 + 64 * 48 * 3 / 2;
    (bytes.len() - header).is_multiple_of(picture).then_some((bytes.len() - header) / picture)
}

/// Whether a log is complete, with its final entry.
fn is_whole(log: &Path) -> bool {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    lines.len() == text.lines().count() && lines.last().is_some_and(|line| line["end"].is_object())
}

#[test]
#[ignore = "slow"]
#[cfg(target_os = "linux")]
fn full_disk_under_one_output_keeps_the_others() {
    for (full, ends_the_call) in [("a.y4m", true), ("a.log", false), ("a.jsonl", false), ("a.sqlog", false)] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = |name: &str| folder.path().join(name);
        std::os::unix::fs::symlink("/dev/full", path(full)).expect("linked");
        let [shown, log, stats, qlog, heard] = ["a.y4m", "a.log", "a.jsonl", "a.sqlog", "a.wav"].map(path);
        let words = ["--sink", text(&shown), "--log", text(&log), "--stats", text(&stats), "--qlog", text(&qlog)];
        let mut receiver = receiver(&[&words[..], &["--audio-output", text(&heard)]].concat());
        let ticket = receiver.word("ticket");
        let sender = sender(&ticket, &["--seconds", "4", "--audio"]).output().expect("it ran");
        let receiver = receiver.finish();
        assert_eq!((receiver.status.code(), sender.status.success()), (Some(1), !ends_the_call), "{}", said(&receiver));
        let printed = said(&receiver);
        assert!(printed.contains(full) && printed.contains("No space left"), "{full}: {printed}");
        assert!(printed.lines().count() <= 2, "{printed}");
        assert!(full == "a.log" || is_whole(&log), "{full}");
        assert!(full == "a.y4m" || pictures(&shown).is_some_and(|count| count > 15), "{full}: {:?}", pictures(&shown));
        assert!(full == "a.sqlog" || records(&qlog).len() > 2, "{full}");
        if !ends_the_call && full != "a.jsonl" {
            let lines = fs::read_to_string(&stats).expect("written");
            assert!(
                lines.lines().count() >= 2 && lines.lines().all(|line| serde_json::from_str::<Value>(line).is_ok())
            );
        }
        assert!(fs::metadata(&heard).is_ok_and(|file| file.len() > 44), "{full}: the sound is kept");
    }
}

#[test]
#[ignore = "slow"]
#[cfg(target_os = "linux")]
fn report_and_frame_log_fail_independently() {
    for (full, other) in [("a.json", "a.csv"), ("a.csv", "a.json"), ("a.jsonl", "a.json")] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = |name: &str| folder.path().join(name);
        std::os::unix::fs::symlink("/dev/full", path(full)).expect("linked");
        let [json, frames, stats] = ["a.json", "a.csv", "a.jsonl"].map(path);
        let words = ["call", "--clip", CLIP, "--seconds", "2", "--json", text(&json), "--frames", text(&frames)];
        let output = lockstep(&[&words[..], &["--stats", text(&stats)]].concat()).output().expect("it ran");
        assert_eq!(output.status.code(), Some(1), "{full}");
        let printed = said(&output);
        assert!(printed.contains(full) && printed.contains("No space left"), "{full}: {printed}");
        let kept = fs::read_to_string(path(other)).expect("the other exists");
        assert!(kept.lines().count() > 15, "{full}: {kept}");
    }
}

#[test]
fn metrics_of_a_rendezvous_show_its_work() {
    let words = ["rendezvous", "--listen", "127.0.0.1:0", "--metrics", "0", "--quiet"];
    let mut server = lockstep(&words).spawn().expect("it starts");
    let mut lines = BufReader::new(server.stdout.take().expect("it is read")).lines();
    let mut printed = || lines.next().expect("a line").expect("text");
    let (place, page) = (printed(), printed());
    let page = page.strip_prefix("metrics at ").expect("where they are").to_owned();
    let at = place.split_once("rendezvous at ").and_then(|(_, rest)| rest.split(';').next()).expect("where it is");
    let mut listener = receiver(&["--rendezvous", at, "--relay-only"]);
    let ticket = listener.word("ticket");
    let sent = sender(&ticket, &["--seconds", "2"]).output().expect("it ran");
    assert!(sent.status.success(), "{}", said(&sent));
    let text = get(&page, "/metrics", None);
    let number = |name: &str| {
        let line = body(&text).lines().find_map(|line| line.strip_prefix(&format!("lockstep_rendezvous_{name} ")));
        line.and_then(|number| number.parse::<f64>().ok()).unwrap_or_else(|| panic!("{name}: {text}"))
    };
    assert_eq!(number("met_total"), 1.0);
    assert!(number("relayed_packets_total") > 20.0 && number("relayed_bytes_total") > 5_000.0, "{text}");
    assert!(get(&page, "/", None).starts_with("HTTP/1.1 404"));
    let _ = (server.kill(), server.wait(), listener.finish());
}

#[test]
#[ignore = "slow"]
fn call_of_both_ends_writes_a_qlog_for_each() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [sender, receiver] = ["a.sqlog", "a-receiver.sqlog"].map(|name| folder.path().join(name));
    let output =
        lockstep(&["call", "--clip", CLIP, "--seconds", "2", "--qlog", text(&sender)]).output().expect("it ran");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let events = [sender, receiver].map(|path| {
        let names: BTreeSet<String> =
            records(&path).iter().filter_map(|event| Some(event["name"].as_str()?.to_owned())).collect();
        names
    });
    let has = |end: usize, name: &str| events[end].contains(&format!("lockstep:{name}"));
    assert!(
        has(0, "frame_sent") && !has(0, "frame_shown") && has(1, "frame_shown") && !has(1, "frame_sent"),
        "{events:?}"
    );
    // A file that the other log would overwrite is refused before the call.
    let output =
        lockstep(&["call", "--clip", CLIP, "--qlog", "b.ivf", "--sink", "b-receiver.ivf"]).output().expect("it ran");
    assert!(!output.status.success() && said(&output).contains("name another file"), "{}", said(&output));
}

#[test]
#[ignore = "slow"]
fn full_disk_under_every_output_ends_a_call_in_order() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let began = Instant::now();
    // The limit's signal is ignored, so that writing fails as on a full disk.
    let limited = "trap '' XFSZ; ulimit -f 8; exec \"$@\"";
    let output = Command::new("sh")
        .args(["-c", limited, "sh", env!("CARGO_BIN_EXE_lockstep"), "call", "--clip", CLIP, "--seconds", "3"])
        .args(["--sink", "a.y4m", "--json", "a.json", "--frames", "a.csv", "--stats", "a.jsonl", "--qlog", "a.sqlog"])
        .env("TMPDIR", folder.path())
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .output()
        .expect("it ran");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let printed = said(&output);
    assert!(printed.contains("cannot write") && printed.contains("too large"), "{printed}");
    assert!(began.elapsed() < Duration::from_secs(60), "it hung");
    let left: Vec<_> =
        fs::read_dir(folder.path()).expect("there").map(|entry| entry.expect("one").file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().contains(".part")), "{left:?}");
}

#[test]
#[ignore = "slow"]
fn recording_on_a_full_disk_ends_with_a_complete_picture() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let limited = "trap '' XFSZ; ulimit -f \"$1\"; shift; exec \"$@\"";
    for (name, blocks) in [("a.y4m", "100"), ("a.ivf", "20"), ("a.webm", "20")] {
        let output = Command::new("sh")
            .args(["-c", limited, "sh", blocks, env!("CARGO_BIN_EXE_lockstep"), "call", "--clip", CLIP])
            .args(["--seconds", "60", "--sink", name])
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .output()
            .expect("it ran");
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        let printed = said(&output);
        let last = printed.lines().last().unwrap_or_default();
        let cause = "the receive process failed: the sink failed: ";
        assert!(
            last.contains(cause) && last.contains(&format!("{name}: ")) && last.contains("too large"),
            "the last line names the problem: {printed}"
        );
    }
    let shown = pictures(&folder.path().join("a.y4m"));
    assert!(shown.is_some_and(|shown| shown > 5), "{shown:?}");
    let coded = folder.path().join("a.ivf");
    let decoded = lockstep(&["decode", "--md5", text(&coded)]).output().expect("it ran");
    assert!(decoded.status.success(), "{}", said(&decoded));
    let frames = String::from_utf8_lossy(&decoded.stdout).lines().count();
    assert!(frames > 2, "{frames} frames");
    let header = fs::read(&coded).expect("it is there");
    assert_eq!(header[24..28], (frames as u32).to_le_bytes(), "the count in its header");
}

#[test]
#[ignore = "slow"]
#[cfg(target_os = "linux")]
fn call_with_broken_standard_error_writes_its_report() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").expect("it takes nothing");
    let report = folder.path().join("a.json");
    // The progress appears there after 5 s.
    let words = ["call", "--clip", CLIP, "--seconds", "6", "--json", text(&report)];
    for (stdout, status) in [(Stdio::piped(), 0), (full().into(), 1)] {
        let output = lockstep(&words).stdout(stdout).stderr(full()).output().expect("it ran");
        assert_eq!(output.status.code(), Some(status), "its scores are missing only where standard output is full");
        assert!(fs::metadata(&report).is_ok_and(|file| file.len() > 1_000));
        fs::remove_file(&report).expect("it was there");
    }
    let status = lockstep(&["talk", "no-ticket"]).stderr(full()).status().expect("it ran");
    assert_eq!(status.code(), Some(1), "the exit status reports the failure without standard error");
}

#[test]
fn unread_named_pipe_does_not_block_a_call() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [pipe, log] = ["pipe", "a.log"].map(|name| folder.path().join(name));
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("there is mkfifo").success());
    // Opening it for writing would wait for a reader, and the ticket would never appear.
    let mut here = receiver(&["--stats", text(&pipe), "--log", text(&log)]);
    let ticket = here.word("ticket");
    let sender = sender(&ticket, &["--seconds", "1.5"]).output().expect("it ran");
    assert!(sender.status.success(), "{}", said(&sender));
    let here = here.finish();
    assert_eq!(here.status.code(), Some(1));
    assert!(said(&here).contains(text(&pipe)) && said(&here).contains("it is blocked"), "{}", said(&here));
    assert!(is_whole(&log));
    let words = ["receive", "--listen", "127.0.0.1:0", "--audio-output", text(&pipe)];
    let refused = lockstep(&words).output().expect("it ran");
    assert!(!refused.status.success() && said(&refused).contains("name a file"), "{}", said(&refused));
}

#[test]
#[ignore = "slow"]
fn unread_output_does_not_block_a_call() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let log = folder.path().join("a.log");
    let mut receiver = receiver(&["--log", text(&log), "--stats", "/dev/stderr"]);
    let ticket = receiver.word("ticket");
    // Its standard output and error are not read until the call ends, so they fill soon.
    let words = ["send", &ticket, "--seconds", "20", "--source", "generated:64x48@60", "--status", "none"];
    let sender = lockstep(&words).spawn().expect("it starts");
    let frames = || fs::read_to_string(&log).map_or(0, |text| text.lines().count());
    let began = Instant::now();
    while frames() < 700 {
        assert!(began.elapsed() < Duration::from_secs(60), "{} pictures were shown", frames());
        thread::sleep(Duration::from_millis(100));
    }
    let sender = sender.wait_with_output().expect("it ran");
    assert!(sender.status.success(), "{}", said(&sender));
    let _ = receiver.finish();
    assert!(is_whole(&log));
}
