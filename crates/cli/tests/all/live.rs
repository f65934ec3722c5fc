//! Calls in real time: start, end and failures.
#![cfg(unix)]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use lockstep_media::{SourceOptions, Y4mWriter, open_source};
use serde_json::Value;

use crate::command::{codecs, json, lockstep, said, signal, text, wait_for};

const CLIP: &str = "generated:64x48@15";

fn started(arguments: &[&str]) -> Child {
    lockstep(arguments).spawn().expect("the command starts")
}

/// A receiver, and its ticket.
fn receiver(arguments: &[&str]) -> (Child, String) {
    let mut child = started(&[&["receive", "--listen", "127.0.0.1:0", "--status", "json"], arguments].concat());
    let line = wait_for(&mut child, "ticket");
    let line: Value = serde_json::from_str(&line).expect("it is JSON");
    (child, line["ticket"].as_str().expect("a ticket").to_owned())
}

#[test]
fn ticket_is_printed_with_every_status() {
    for command in [&["receive"][..], &["talk", "--no-window", "--source", CLIP]] {
        for status in ["line", "json", "none"] {
            let words = ["--listen", "127.0.0.1:0", "--status", status, "--wait-seconds", "5", "--metrics", "0"];
            let mut end = started(&[command, &words[..]].concat());
            let lines = BufReader::new(end.stdout.take().expect("it is piped")).lines().map_while(Result::ok);
            let mut printed = Vec::new();
            // Without a ticket, the command gives up and prints no more.
            for line in lines {
                printed.push(line);
                if printed.last().is_some_and(|line| line.contains("ticket")) {
                    break;
                }
            }
            let _ = (end.kill(), end.wait());
            assert!(printed.last().is_some_and(|line| line.len() > 50), "{command:?} {status}: {printed:?}");
            assert!(printed.iter().any(|line| line.contains("http://127.0.0.1:")), "{command:?} {status}: {printed:?}");
        }
    }
}

#[test]
fn status_line_is_overwritten_only_on_a_terminal() {
    let mut emulator = started(&["emulate", "127.0.0.1:9", "--seconds", "1"]);
    let line = wait_for(&mut emulator, "emulating a link from ");
    let near = line.split_whitespace().nth(4).expect("an address");
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port is free");
    socket.send_to(b"hello", near).expect("sent");
    let output = emulator.wait_with_output().expect("it ran");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && !printed.contains(['\r', '\x1b']), "{printed:?}");
    assert!(printed.lines().count() <= 2, "{printed:?}");
    assert!(printed.lines().last().is_some_and(|line| line.contains("1 delivered   0 dropped")), "{printed:?}");
}

#[test]
fn an_emulator_without_status_prints_its_address_only() {
    let mut emulator = started(&["emulate", "127.0.0.1:9", "--seconds", "0.3", "--status", "none"]);
    let mut lines = BufReader::new(emulator.stdout.take().expect("it is piped")).lines().map_while(Result::ok);
    let line = lines.next().expect("it says where it is");
    let near = line.split_whitespace().nth(4).expect("an address");
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port is free");
    socket.send_to(b"hello", near).expect("sent");
    assert_eq!(lines.collect::<Vec<_>>(), [""; 0]);
    assert!(emulator.wait().expect("it ran").success());
    let refused = lockstep(&["emulate", "127.0.0.1:9", "--status", "json"]).output().expect("it ran");
    assert!(said(&refused).contains("--status json is for --tun; choose line or none"), "{}", said(&refused));
}

#[test]
#[ignore = "slow"]
fn call_with_a_late_or_lost_close_writes_a_report() {
    let links: [&[&str]; 3] = [
        &["--trace", "constant:500kbps", "--delay-ms", "600"],
        &["--loss-at", "3s+30s"],
        &["--trace", "constant:100kbps", "--controller", "fixed:300kbps"],
    ];
    let folder = tempfile::tempdir().expect("a temporary folder");
    let calls = links.iter().enumerate().map(|(index, link)| {
        let json = folder.path().join(format!("{index}.json"));
        let call = started(&[&["call", "--clip", CLIP, "--seconds", "3", "--json", text(&json)], *link].concat());
        (call, json)
    });
    for (call, path) in calls.collect::<Vec<_>>() {
        let output = call.wait_with_output().expect("it ran");
        assert!(output.status.success(), "{}", said(&output));
        let report = json(&path);
        assert!(report["frames"]["captured"].as_u64() > Some(0));
        assert!(report["counters"]["receiver"]["datagrams"].as_u64() > Some(0), "the receiver left its part");
    }
}

#[test]
fn call_without_arrivals_writes_a_report() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("call.json");
    let words = ["call", "--clip", CLIP, "--seconds", "1", "--loss", "100%", "--json", text(&path)];
    let output = lockstep(&words).output().expect("it ran");
    assert!(output.status.success() && said(&output).contains("nobody answered"), "{}", said(&output));
    assert_eq!(json(&path)["frames"]["displayed"], 0);
}

/// The processes that `parent` has started.
fn children(parent: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parent_of = |number: u32| {
        let status = fs::read_to_string(format!("/proc/{number}/status")).ok()?;
        status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse::<u32>().ok()
    };
    numbers.filter(|&number| parent_of(number) == Some(parent)).collect()
}

/// Waits until the `lockstep call` with the temporary folder `folder` shows pictures.
fn wait_for_pictures(folder: &Path) {
    let is_shown = || {
        let folders = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut logs = folders.filter_map(|entry| fs::read_to_string(entry.path().join("receive.json")).ok());
        logs.any(|log| log.contains("\"display\""))
    };
    wait_until("the call shows pictures", is_shown);
}

/// Waits until `is_so` returns `true`. The limit only ends a hanging test.
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(120), "never: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// The number of complete lines in a file.
fn lines(path: &Path) -> usize {
    fs::read(path).map_or(0, |bytes| bytes.iter().filter(|&&byte| byte == b'\n').count())
}

fn size(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |file| file.len())
}

/// Whether the tests run under `nohup` or similar, or the system does not report it.
fn hangups_are_ignored() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let signals = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    signals.and_then(|signals| u64::from_str_radix(signals.trim(), 16).ok()).is_none_or(|signals| signals & 1 != 0)
}

#[test]
#[ignore = "slow"]
fn signal_ends_a_call_with_report_and_cleanup() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, status) in [("TERM", 143), ("INT", 130), ("HUP", 129)] {
        if name == "HUP" && hangups_are_ignored() {
            continue;
        }
        let temporary = folder.path().join(name);
        fs::create_dir(&temporary).expect("it can be made");
        let path = folder.path().join(format!("{name}.json"));
        let words = ["call", "--clip", CLIP, "--seconds", "300", "--sink", "none", "--json", text(&path)];
        let call = lockstep(&words).env("TMPDIR", &temporary).spawn().expect("it starts");
        wait_for_pictures(&temporary);
        let linux = Path::new("/proc/self/status").exists();
        let processes = children(call.id());
        signal(&call, name);
        if name == "HUP" {
            // Both the shell and the system send a signal when a terminal closes.
            signal(&call, name);
        }
        let output = call.wait_with_output().expect("it ran");
        assert_eq!(output.status.code(), Some(status), "{}", said(&output));
        assert_eq!(json(&path)["config"]["clip"], CLIP);
        assert_eq!(fs::read_dir(&temporary).expect("it is there").count(), 0, "its folder is left");
        assert!(!linux || processes.len() == 2, "{processes:?}");
        assert!(processes.iter().all(|process| !Path::new(&format!("/proc/{process}")).exists()), "orphans");
    }
}

#[test]
#[ignore = "slow"]
#[cfg(target_os = "linux")]
fn error_names_the_killed_process_and_the_signal() {
    for name in ["receive", "send"] {
        let temporary = tempfile::tempdir().expect("a temporary folder");
        let mut call = lockstep(&["call", "--clip", CLIP, "--seconds", "300"]);
        let call = call.env("TMPDIR", temporary.path()).spawn().expect("it starts");
        wait_for_pictures(temporary.path());
        let is_that = |process: &u32| {
            let words = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
            words.split(|&byte| byte == 0).any(|word| word == name.as_bytes())
        };
        let process = children(call.id()).into_iter().find(is_that).expect("it runs while pictures are shown");
        let process = process.to_string();
        assert!(Command::new("kill").args(["-KILL", &process]).status().expect("there is `kill`").success());
        let output = call.wait_with_output().expect("it ran");
        let printed = said(&output);
        let last = printed.lines().last().unwrap_or_default();
        assert_eq!(output.status.code(), Some(1), "{printed}");
        assert_eq!(last, format!("lockstep: the {name} process was ended by a signal: 9 (SIGKILL)"), "{printed}");
    }
}

#[test]
fn signal_ends_an_end_with_its_log_and_informs_the_peer() {
    for sender_is_ended in [true, false] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let [send_log, receive_log, shown] = ["s.json", "r.json", "shown.y4m"].map(|name| folder.path().join(name));
        let (mut receiver, ticket) = receiver(&["--log", text(&receive_log), "--sink", text(&shown)]);
        let words = ["send", &ticket, "--source", CLIP, "--status", "none", "--log", text(&send_log)];
        let sender = started(&words);
        wait_for(&mut receiver, "showing");
        if sender_is_ended {
            signal(&sender, "INT")
        } else {
            signal(&receiver, "TERM")
        }
        let (sender, receiver) = (sender.wait_with_output(), receiver.wait_with_output());
        let (sender, receiver) = (sender.expect("it ran"), receiver.expect("it ran"));
        let expected = if sender_is_ended { (Some(130), Some(0)) } else { (Some(0), Some(143)) };
        assert_eq!((sender.status.code(), receiver.status.code()), expected, "{} {}", said(&sender), said(&receiver));
        for (log, entry) in [(&send_log, "frame"), (&receive_log, "display")] {
            let text = fs::read_to_string(log).expect("the log is there");
            let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
            let (end, entries) = lines.split_last().expect("something was logged");
            let (start, entries) = entries.split_first().expect("something was logged before the end");
            assert!(start["start"]["epoch"].is_u64(), "{start}");
            assert!(!entries.is_empty() && entries.iter().all(|line| line[entry].is_object()), "{log:?}");
            assert!(end["end"]["counters"].is_object(), "{end}");
        }
        assert!(fs::metadata(&shown).is_ok_and(|file| file.len() > 64 * 48));
    }
}

#[test]
fn each_source_is_a_stream_with_a_separate_file() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [send_log, receive_log, shown] = ["s.json", "r.json", "shown.y4m"].map(|name| folder.path().join(name));
    let (receiver, ticket) = receiver(&["--log", text(&receive_log), "--sink", text(&shown)]);
    let sources = ["--source", "generated:64x48@15,name=front,priority=3", "--source", "generated:48x32@15"];
    let stats = folder.path().join("stats.jsonl");
    let log = ["--status", "none", "--log", text(&send_log), "--stats", text(&stats)];
    let sender = started(&[&["send", &ticket], &sources[..], &log].concat());
    let files = [("shown.front.y4m", 64 * 48), ("shown.1.y4m", 48 * 32)];
    let files = files.map(|(name, pixels)| (folder.path().join(name), 12 * pixels * 3 / 2));
    wait_until("each file has 12 pictures", || files.iter().all(|(file, bytes)| size(file) > *bytes));
    wait_until("there are statistics", || size(&stats) > 0);
    signal(&sender, "TERM");
    let sender = sender.wait_with_output().expect("it ran");
    let receiver = receiver.wait_with_output().expect("it ran");
    assert_eq!((sender.status.code(), receiver.status.code()), (Some(143), Some(0)), "{}", said(&sender));
    for (name, header) in [("shown.front.y4m", "W64 H48"), ("shown.1.y4m", "W48 H32")] {
        let file = fs::read(folder.path().join(name)).expect("the file is there");
        assert!(String::from_utf8_lossy(&file[..40]).contains(header), "{name}");
    }
    for (log, first, other) in [(&send_log, "frame", "stream_frame"), (&receive_log, "display", "stream_display")] {
        let text = fs::read_to_string(log).expect("the log is there");
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert!(lines.iter().filter(|line| line[first].is_object()).count() > 10, "{first}");
        assert!(lines.iter().filter(|line| line[other]["stream"] == 1).count() > 10, "{other}");
    }
    let stats = fs::read_to_string(&stats).expect("they are there");
    let last: Value = serde_json::from_str(stats.lines().last().expect("a line")).expect("JSON");
    let sent = [&last, &last["streams"][0]].map(|stream| stream["outbound"]["framesSent"].as_u64());
    assert!(sent.iter().all(|&sent| sent > Some(0)), "{last}");
}

#[test]
fn link_of_a_listener_serves_the_page_and_admits_a_sender() {
    let words = ["receive", "--web", "--listen", "127.0.0.1:0", "--status", "json", "--wait-seconds", "60"];
    let mut receiver = started(&words);
    let mut lines = BufReader::new(receiver.stdout.take().expect("it is piped")).lines().map_while(Result::ok);
    let mut word = |name: &str| {
        let line: Value = serde_json::from_str(&lines.next().expect("a line")).expect("it is JSON");
        line[name].as_str().expect(name).to_owned()
    };
    let (ticket, link) = (word("ticket"), word("link"));
    let (page, fragment) = link.split_once('#').expect("the ticket is in the fragment");
    assert_eq!(fragment, ticket);
    let place = page.strip_prefix("http://").and_then(|page| page.strip_suffix('/')).expect("a page of this machine");
    let mut client = std::net::TcpStream::connect(place).expect("it listens");
    client.write_all(format!("GET / HTTP/1.1\r\nHost: {place}\r\n\r\n").as_bytes()).expect("it reads");
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut client, &mut answer).expect("it is text");
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.contains("'wasm-unsafe-eval'"), "{answer}");
    let sender = lockstep(&["send", &link, "--source", CLIP, "--seconds", "0.5", "--status", "none"]).output();
    let sender = sender.expect("it ran");
    assert!(sender.status.success(), "{}", said(&sender));
    drop(lines);
    assert_eq!(receiver.wait().expect("it ran").code(), Some(0));
}

#[test]
fn broadcast_prints_its_link_and_ends_when_interrupted() {
    let words = ["send", "--web", "--viewers", "3", "--source", CLIP, "--listen", "127.0.0.1:0", "--status", "json"];
    let mut sender = started(&words);
    let line = wait_for(&mut sender, "link");
    assert!(line.contains("http://127.0.0.1:") && line.contains("#LOCKSTEP-"), "{line}");
    signal(&sender, "INT");
    let output = sender.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130), "{}", said(&output));
}

#[test]
fn web_options_that_exclude_each_other_are_refused() {
    for (words, reason) in [
        (&["send", "LOCKSTEP-A", "--web"][..], "omit one"),
        (&["send", "LOCKSTEP-A", "--reusable"], "add --web"),
        (&["send", "--viewers", "2"], "--web"),
        (&["send", "--web", "--viewers", "201"], "200"),
        (&["send", "--web", "--viewers", "2", "--monitor"], "--monitor describes one call"),
        (&["send", "--web", "--viewers", "2", "--log", "sent.jsonl"], "--log describes one call"),
        (&["receive", "--web=calls.example.org:4443"], "--web-certificate"),
        (&["receive", "--web", "--web-certificate", "none.pem,none.pem"], "the name in the certificate"),
        (&["receive", "--web-certificate", "a.pem,b.pem"], "--web"),
        (&["receive", "LOCKSTEP-A", "--web"], "omit the ticket"),
        (&["talk", "--no-window", "--source", CLIP, "--web=0.0.0.0:80"], "calls.example.org:4443"),
    ] {
        let output = lockstep(words).output().expect("it ran");
        assert!(!output.status.success() && said(&output).contains(reason), "{words:?}: {}", said(&output));
    }
}

#[test]
fn receivers_join_a_sender_that_listens() {
    codecs().iter().for_each(|codec| join_a_sender_that_listens(codec));
}

fn join_a_sender_that_listens(codec: &str) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let words = ["send", "--web", "--viewers", "2", "--source", CLIP, "--listen", "127.0.0.1:0", "--status", "json"];
    let mut sender = started(&[&words[..], &["--codec", codec]].concat());
    let line: Value = serde_json::from_str(&wait_for(&mut sender, "\"link\"")).expect("it is JSON");
    let link = line["link"].as_str().expect("a link");
    let files = ["a.y4m", "b.y4m"].map(|name| folder.path().join(name));
    let viewers = files.each_ref().map(|file| started(&["receive", link, "--sink", text(file), "--status", "none"]));
    wait_until("each viewer has ten pictures", || files.iter().all(|file| size(file) > 10 * 64 * 48 * 3 / 2));
    let [leaves, stays] = viewers;
    signal(&leaves, "INT");
    assert_eq!(leaves.wait_with_output().expect("it ran").status.code(), Some(130));
    let before = size(&files[1]);
    wait_until("the other viewer continues", || size(&files[1]) > before + 10 * 64 * 48 * 3 / 2);
    signal(&sender, "INT");
    let (sender, stays) = (sender.wait_with_output().expect("it ran"), stays.wait_with_output().expect("it ran"));
    assert_eq!((sender.status.code(), stays.status.code()), (Some(130), Some(0)), "{}", said(&stays));
}

#[test]
fn sender_without_an_answer_fails_with_a_reason() {
    let (mut receiver, ticket) = receiver(&[]);
    signal(&receiver, "KILL");
    let _ = receiver.wait();
    let words = ["send", &ticket, "--source", CLIP, "--wait-seconds", "0.5"];
    let output = lockstep(&words).output().expect("it ran");
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("nobody answered") && said(&output).contains("127.0.0.1:"), "{}", said(&output));
}

#[test]
fn used_and_invalid_tickets_are_refused_with_one_line() {
    let (mut receiver, ticket) = receiver(&[]);
    let sender = started(&["send", &ticket, "--source", CLIP, "--status", "none"]);
    wait_for(&mut receiver, "showing");
    let damaged = format!("{}A", &ticket[..ticket.len() - 1]);
    let other = if damaged == ticket { format!("{}B", &ticket[..ticket.len() - 1]) } else { damaged };
    for (ticket, reason) in [(ticket.as_str(), "was used"), (&other, "is damaged"), ("here:4600", "begins with")] {
        let output = lockstep(&["send", ticket, "--source", CLIP, "--status", "none"]).output().expect("it ran");
        assert!(!output.status.success() && said(&output).contains(reason), "{}", said(&output));
    }
    signal(&sender, "TERM");
    let (sender, receiver) = (sender.wait_with_output(), receiver.wait_with_output());
    assert_eq!(sender.expect("it ran").status.code(), Some(143));
    assert_eq!(receiver.expect("it ran").status.code(), Some(0));
}

/// A receiver with the standing ticket of `home`, ready for a call.
fn standing_receiver(home: &Path, listen: &str, arguments: &[&str]) -> (Child, String) {
    let words = [&["receive", "--listen", listen, "--reusable", "--status", "json"], arguments].concat();
    let mut receiver = lockstep(&words).env("LOCKSTEP_HOME", home).spawn().expect("it starts");
    let line: Value = serde_json::from_str(&wait_for(&mut receiver, "ticket")).expect("it is JSON");
    (receiver, line["ticket"].as_str().expect("a ticket").to_owned())
}

#[test]
#[ignore = "slow"]
fn standing_ticket_is_the_same_each_time() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut tickets = Vec::new();
    let mut listen = "127.0.0.1:0".to_owned();
    for _ in 0..2 {
        let (receiver, ticket) = standing_receiver(folder.path(), &listen, &[]);
        let mut sender = lockstep(&["send", "--source", CLIP, "--status", "none", "--seconds", "0.5"]);
        let sender = sender.env("LOCKSTEP_TICKET", &ticket).output().expect("it ran");
        assert!(sender.status.success(), "{}", said(&sender));
        signal(&receiver, "TERM");
        let receiver = receiver.wait_with_output().expect("it ran");
        assert_eq!(receiver.status.code(), Some(143), "{}", said(&receiver));
        let parsed: lockstep_live::Ticket = ticket.parse().expect("it is one");
        listen = parsed.addresses[0].to_string();
        tickets.push(ticket);
    }
    assert_eq!(tickets[0], tickets[1]);
}

#[test]
#[ignore = "slow"]
fn reusable_receiver_writes_separate_files_per_call() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name);
    let outputs = ["--sink", text(&path("shown.ivf")), "--log", text(&path("log.json"))].map(str::to_owned);
    let outputs = outputs.each_ref().map(String::as_str);
    let (mut receiver, ticket) = standing_receiver(folder.path(), "127.0.0.1:0", &outputs);
    for call in ["", "-2", "-3"] {
        let sender = piped(&ticket, y4m(15));
        assert!(sender.status.success(), "call {call:?}: {}", said(&sender));
        assert!(wait_for(&mut receiver, "\"ticket\"").contains(&ticket), "it is ready for the next call");
        let recording = fs::read(path(&format!("shown{call}.ivf"))).expect("it was recorded");
        let log = fs::read_to_string(path(&format!("log{call}.json"))).expect("it was logged");
        let shown = log.lines().filter(|line| line.contains("display")).count();
        let recorded = u32::from_le_bytes(recording[24..28].try_into().expect("four bytes"));
        assert!(recorded as usize == shown && shown > 2, "call {call:?}: {recorded} of {shown} pictures");
        assert!(log.lines().last().is_some_and(|line| line.contains("\"end\"")), "{log}");
    }
    signal(&receiver, "INT");
    let receiver = receiver.wait_with_output().expect("it ran");
    assert_eq!(receiver.status.code(), Some(130), "{}", said(&receiver));
    assert!(!path("log-4.json").exists(), "nobody joined that call");
}

#[test]
fn busy_listener_reports_a_missed_call() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let words = ["talk", "--no-window", "--source", CLIP, "--status", "json", "--audio", "none"];
    let listening = ["--listen", "127.0.0.1:0", "--reusable"];
    let mut listener = lockstep(&[&words[..], &listening].concat());
    let mut listener = listener.env("LOCKSTEP_HOME", folder.path()).spawn().expect("it starts");
    let line: Value = serde_json::from_str(&wait_for(&mut listener, "ticket")).expect("it is JSON");
    let ticket = line["ticket"].as_str().expect("a ticket").to_owned();
    let mut joiner = started(&[&["talk", &ticket][..], &words[1..]].concat());
    wait_for(&mut joiner, "showing");
    let second = lockstep(&[&["talk", &ticket][..], &words[1..]].concat()).output().expect("it ran");
    assert!(said(&second).contains("the other end is in a call; try again later"), "{}", said(&second));
    assert!(wait_for(&mut listener, "notice\":\"missed").contains("missed call at"));
    for mut child in [joiner, listener] {
        let _ = child.kill();
        let _ = child.wait();
    }
}

#[test]
#[ignore = "slow"]
fn listener_waits_for_a_source_that_is_missing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [source, away, log] = ["camera.y4m", "away.y4m", "log.json"].map(|name| folder.path().join(name));
    fs::write(&source, y4m(150)).expect("it can be written");
    let words = ["talk", "--listen", "127.0.0.1:0", "--reusable", "--no-window", "--status", "json"];
    let outputs = ["--source", text(&source), "--send-log", text(&log)];
    let mut robot = lockstep(&[&words[..], &outputs].concat());
    let mut robot = robot.env("LOCKSTEP_HOME", folder.path()).spawn().expect("it starts");
    let line: Value = serde_json::from_str(&wait_for(&mut robot, "ticket")).expect("it is JSON");
    let ticket = line["ticket"].as_str().expect("a ticket").to_owned();
    let join = || {
        let words = ["talk", &ticket, "--source", CLIP, "--no-window", "--seconds", "0.5", "--status", "none"];
        lockstep(&words).output().expect("it ran")
    };
    fs::rename(&source, &away).expect("the file is open, and can be renamed");
    assert!(join().status.success(), "the source was open");
    let mut errors = BufReader::new(robot.stderr.take().expect("it is piped")).lines().map_while(Result::ok);
    let failure = errors.find(|line| line.contains("nobody can join")).expect("it reports the source");
    assert!(failure.contains("camera.y4m"), "{failure}");
    fs::rename(&away, &source).expect("it is back");
    wait_for(&mut robot, "\"ticket\"");
    assert!(join().status.success(), "the source is back");
    signal(&robot, "TERM");
    assert_eq!(robot.wait_with_output().expect("it ran").status.code(), Some(143));
    assert!(log.exists() && folder.path().join("log-2.json").exists() && !folder.path().join("log-4.json").exists());
}

#[test]
fn sender_reports_the_restart_of_its_receiver() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (mut first, ticket) = standing_receiver(folder.path(), "127.0.0.1:0", &[]);
    let sender = started(&["send", &ticket, "--source", CLIP, "--status", "none"]);
    wait_for(&mut first, "showing");
    signal(&first, "KILL");
    let _ = first.wait();
    let parsed: lockstep_live::Ticket = ticket.parse().expect("it is one");
    let (again, _) = standing_receiver(folder.path(), &parsed.addresses[0].to_string(), &[]);
    let sender = sender.wait_with_output().expect("it ran");
    assert_eq!(sender.status.code(), Some(1));
    assert!(said(&sender).contains("was restarted"), "{}", said(&sender));
    signal(&again, "TERM");
    assert_eq!(again.wait_with_output().expect("it ran").status.code(), Some(143));
}

/// A rendezvous on this machine, and its address.
fn rendezvous(arguments: &[&str]) -> (Child, String) {
    let mut child = started(&[&["rendezvous", "--listen", "127.0.0.1:0", "--quiet"], arguments].concat());
    let line = wait_for(&mut child, "rendezvous at");
    let address = line.rsplit(' ').next().expect("it says where").to_owned();
    (child, address)
}

#[test]
#[ignore = "slow"]
fn rendezvous_call_is_direct_unless_relayed_on_request() {
    for (relay_only, at_sender) in [(false, false), (true, false), (true, true)] {
        let (mut server, address) = rendezvous(&[]);
        let flag: &[&str] = if relay_only && !at_sender { &["--relay-only"] } else { &[] };
        let (mut receiver, ticket) = receiver(&[&["--rendezvous", &address], flag].concat());
        let flag: &[&str] = if at_sender { &["--relay-only"] } else { &[] };
        let sender = started(&[&["send", &ticket, "--source", CLIP, "--status", "none"], flag].concat());
        wait_for(&mut receiver, "\"showing\"");
        wait_for(&mut receiver, &format!("\"relayed\":{relay_only}"));
        signal(&sender, "TERM");
        let (sent, received) = (sender.wait_with_output(), receiver.wait_with_output());
        let (sent, received) = (sent.expect("it ends"), received.expect("it ends"));
        assert_eq!((sent.status.code(), received.status.code()), (Some(143), Some(0)), "{}", said(&sent));
        signal(&server, "INT");
        assert_eq!(server.wait().expect("it ends").code(), Some(130));
    }
}

#[test]
fn error_names_the_missing_rendezvous() {
    let alone = lockstep(&["receive", "--relay-only"]).output().expect("the command starts");
    assert!(!alone.status.success() && said(&alone).contains("--rendezvous HOST:PORT"), "{}", said(&alone));
    let (mut receiver, ticket) = receiver(&[]);
    let joining = lockstep(&["send", &ticket, "--relay-only"]).output().expect("the command starts");
    assert!(!joining.status.success() && said(&joining).contains("names no rendezvous"), "{}", said(&joining));
    signal(&receiver, "INT");
    let _ = receiver.wait();
    let nobody = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port is free");
    let there = nobody.local_addr().expect("it has one").to_string();
    let (mut hidden, ticket) = self::receiver(&["--relay-only", "--rendezvous", &there]);
    let joining = lockstep(&["send", &ticket, "--wait-seconds", "1"]).output().expect("the command starts");
    let printed = format!(" s by the rendezvous at {there}, which does not answer");
    assert!(!joining.status.success() && said(&joining).contains(&printed), "{}", said(&joining));
    signal(&hidden, "INT");
    let _ = hidden.wait();
    let useless = lockstep(&["rendezvous", "--calls", "0"]).output().expect("the command starts");
    assert!(!useless.status.success() && said(&useless).contains("--calls"), "{}", said(&useless));
}

#[test]
fn call_resumes_after_its_receiver_was_stopped() {
    let (mut receiver, ticket) = receiver(&[]);
    let mut sender = started(&["send", &ticket, "--source", CLIP, "--status", "json", "--seconds", "60"]);
    wait_for(&mut receiver, "showing");
    signal(&receiver, "STOP");
    // The sender captures for 1.5 s while the receiver is stopped.
    let captured = |line: String| serde_json::from_str::<Value>(&line).ok()?["sending"]["captured"].as_u64();
    let lines = BufReader::new(sender.stdout.as_mut().expect("it is piped")).lines();
    let mut counts = lines.map_while(Result::ok).filter_map(captured);
    let before = counts.next().expect("it sends");
    let after = counts.find(|&count| count >= before + 22).expect("it sends on");
    signal(&receiver, "CONT");
    // The frame number is at most the number of pictures captured before it.
    let shown = |line: String| serde_json::from_str::<Value>(&line).ok()?["showing"]["frame"].as_u64();
    let lines = BufReader::new(receiver.stdout.as_mut().expect("it is piped")).lines();
    let newest = lines.map_while(Result::ok).filter_map(shown).find(|&frame| frame >= after);
    assert!(newest.is_some(), "it shows no picture captured after it resumed");
    signal(&sender, "TERM");
    let (sender, receiver) = (sender.wait_with_output(), receiver.wait_with_output());
    assert_eq!(sender.expect("it ran").status.code(), Some(143));
    assert_eq!(receiver.expect("it ran").status.code(), Some(0));
}

#[test]
fn talk_exchanges_pictures_and_sound_without_windows() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [here, there, log] = ["here.y4m", "there.y4m", "log.json"].map(|name| folder.path().join(name));
    let [heard, counted] = ["heard.wav", "counted.jsonl"].map(|name| folder.path().join(name));
    let [listening, joining] = ["generated:64x48@15", "generated:80x60@15"];
    let words = ["talk", "--listen", "127.0.0.1:0", "--status", "json", "--source", listening, "--sink", text(&here)];
    let sound = ["--audio", "none", "--audio-output", text(&heard), "--stats", text(&counted)];
    let mut first = started(&[&words[..], &sound].concat());
    let line: Value = serde_json::from_str(&wait_for(&mut first, "ticket")).expect("it is JSON");
    let ticket = line["ticket"].as_str().expect("a ticket");
    let words = ["talk", ticket, "--status", "none", "--source", joining, "--sink", text(&there)];
    let sound = ["--audio", "tone", "--audio-output", "none"];
    let second = started(&[&words[..], &["--send-log", text(&log)], &sound].concat());
    let ways = [
        ("outbound", &["framesSent", "qpSum", "bytesSent", "targetBitrate", "roundTripTime"][..]),
        ("inbound", &["framesDecoded", "framesPerSecond", "packetsReceived", "jitter"]),
    ];
    let is_positive = |value: &Value| value.as_f64().is_some_and(|value| value > 0.0);
    let is_whole =
        |line: &Value| ways.iter().all(|(way, names)| names.iter().all(|name| is_positive(&line[way][name])));
    let counts = || -> Vec<Value> {
        let text = fs::read_to_string(&counted).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    };
    wait_until("each end shows pictures", || [&here, &there].iter().all(|file| size(file) > 10 * 64 * 48));
    wait_until("the log has entries", || lines(&log) > 20);
    wait_until("the statistics have all positive numbers", || counts().iter().any(is_whole));
    signal(&second, "TERM");
    let (first, second) = (first.wait_with_output().expect("it ran"), second.wait_with_output().expect("it ran"));
    assert_eq!((first.status.code(), second.status.code()), (Some(0), Some(143)), "{} {}", said(&first), said(&second));
    for (file, size) in [(&here, "W80 H60"), (&there, "W64 H48")] {
        let recorded = fs::read(file).expect("it was recorded");
        let header = String::from_utf8_lossy(&recorded[..40.min(recorded.len())]).into_owned();
        assert!(header.contains(size), "{header}");
    }
    assert!(fs::read_to_string(&log).is_ok_and(|log| log.contains("udp_sent_bytes")));
    // A header of 44 bytes, then 16 bits per sample.
    let heard = fs::read(&heard).expect("it was recorded");
    let loudest = heard[44..].chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]]).unsigned_abs()).max();
    assert!(loudest.is_some_and(|loudest| (2_000..32_768).contains(&u32::from(loudest))), "{loudest:?}");
    let last = counts().pop().expect("a line a second");
    assert!(last["inbound"]["packetsLost"].is_u64() && last["inbound"]["freezeCount"].is_u64(), "{last}");
}

#[test]
fn talk_names_missing_devices_before_it_waits() {
    let words = ["talk", "--no-window", "--listen", "127.0.0.1:0", "--status", "json", "--wait-seconds", "0.1"];
    let output = lockstep(&words).output().expect("it ran");
    let (printed, lines) = (said(&output), String::from_utf8_lossy(&output.stdout).into_owned());
    let before_ticket = lines.split("\"ticket\"").next().unwrap_or_default();
    let mut missing = Vec::new();
    if !Path::new("/dev/video0").exists() {
        missing.push("no camera at /dev/video0: the other end sees a generated person");
    }
    if cfg!(not(feature = "audio")) {
        missing.push("the call has no sound: this program was built without microphone and loudspeaker");
    }
    for notice in missing {
        assert_eq!(printed.matches(notice).count(), 1, "{printed}");
        assert_eq!(before_ticket.matches(notice).count(), 1, "{lines}");
    }
    let chosen = ["--source", CLIP, "--audio", "none", "--audio-output", "none"];
    let output = lockstep(&[&words[..], &chosen].concat()).output().expect("it ran");
    assert_eq!(said(&output).lines().count(), 1, "only that nobody joined: {}", said(&output));
}

/// A y4m stream of `pictures` pictures of the generated clip.
fn y4m(pictures: usize) -> Vec<u8> {
    let mut source = open_source(CLIP, &SourceOptions::default()).expect("it is generated");
    let mut writer = Y4mWriter::new(Vec::new(), source.format()).expect("it is written to memory");
    for _ in 0..pictures {
        let picture = source.next().expect("it is generated").expect("it has no end");
        writer.write_picture(&picture).expect("it is written to memory");
    }
    writer.finish().expect("it is written to memory")
}

/// Runs a sender of the pictures in `bytes` to its end.
fn piped(ticket: &str, bytes: Vec<u8>) -> Output {
    let mut command = lockstep(&["send", ticket, "--source", "-", "--status", "none"]);
    let mut sender = command.stdin(Stdio::piped()).spawn().expect("it starts");
    let mut input = sender.stdin.take().expect("it is piped");
    // A failed sender stops reading.
    let feeding = thread::spawn(move || drop(input.write_all(&bytes)));
    let output = sender.wait_with_output().expect("it ran");
    feeding.join().expect("it does not panic");
    output
}

#[test]
fn pictures_piped_into_a_sender_are_shown() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let shown = folder.path().join("shown.y4m");
    let (receiver, ticket) = receiver(&["--sink", text(&shown)]);
    let sender = piped(&ticket, y4m(12));
    assert!(sender.status.success(), "{}", said(&sender));
    assert!(receiver.wait_with_output().expect("it ran").status.success());
    let shown = fs::read(&shown).expect("it was recorded");
    assert!(shown.starts_with(b"YUV4MPEG2 W64 H48 F15:1"), "{}", String::from_utf8_lossy(&shown[..40]));
    assert!(shown.len() > 6 * (64 * 48 * 3 / 2), "{} bytes", shown.len());
}

#[test]
fn truncated_pictures_in_a_pipe_fail_the_call() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let shown = folder.path().join("shown.y4m");
    let (receiver, ticket) = receiver(&["--sink", text(&shown)]);
    let mut bytes = y4m(12);
    bytes.truncate(bytes.len() - 9);
    let sender = piped(&ticket, bytes);
    let printed = said(&sender);
    assert!(!sender.status.success() && printed.contains("standard input: y4m picture 11 breaks off"), "{printed}");
    let receiver = receiver.wait_with_output().expect("it ran");
    assert!(!receiver.status.success() && said(&receiver).contains("it failed"), "{}", said(&receiver));
    assert!(fs::metadata(&shown).is_ok_and(|file| file.len() > 64 * 48), "what came before is recorded");
}

#[test]
fn program_as_controller_is_refused_by_live_calls() {
    let (mut listening, ticket) = receiver(&[]);
    let program = ["--source", CLIP, "--controller", "program:/bin/cat"];
    for words in [&["send", &ticket][..], &["talk", "--no-window"]] {
        let output = lockstep(&[words, &program].concat()).output().expect("it ran");
        let error = said(&output);
        assert!(!output.status.success() && error.contains("programs decide in virtual time only"), "{error}");
    }
    listening.kill().and_then(|()| listening.wait()).expect("it ends");
}

#[test]
fn pipe_without_pictures_is_refused_before_the_call() {
    let (receiver, ticket) = receiver(&[]);
    let sender = piped(&ticket, Vec::new());
    assert!(said(&sender).ends_with("standard input: no pictures\n"), "{}", said(&sender));
    let unnamed = lockstep(&["send", "--source", "-"]).output().expect("it ran");
    assert!(said(&unnamed).contains("standard input holds the pictures"), "{}", said(&unnamed));
    let clip = lockstep(&["call", "--clip", "-"]).output().expect("it ran");
    assert!(said(&clip).contains("standard input cannot be read more than once"), "{}", said(&clip));
    signal(&receiver, "TERM");
    assert_eq!(receiver.wait_with_output().expect("it ran").status.code(), Some(143));
}

#[test]
#[ignore = "slow"]
fn receiver_runs_the_estimator_of_the_senders_controller() {
    let (receiver, ticket) = receiver(&[]);
    // Without the estimator the target never changes. The pictures can use a higher rate.
    let words =
        ["send", &ticket, "--source", "generated:640x360@30", "--controller", "bob-heuristic", "--status", "json"];
    let mut sender = started(&words);
    let lines = BufReader::new(sender.stdout.as_mut().expect("it is piped")).lines();
    let mut targets = lines.map_while(Result::ok).take(150).filter_map(|line| {
        let line: Value = serde_json::from_str(&line).ok()?;
        line["sending"]["target_bps"].as_u64()
    });
    let target = targets.find(|&target| target > 300_000);
    signal(&sender, "TERM");
    assert!(target.is_some(), "it never grew");
    let _ = (sender.wait(), receiver.wait_with_output());
}

#[test]
fn reading_of_an_invalid_ticket_is_bounded() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("typed");
    let typed: [(&[u8], &str); 4] = [
        (b"", "no ticket was given"),
        (b" \n", "no ticket was given"),
        (b"\xff\xfe\n", "a ticket begins with LOCKSTEP-"),
        (b"LOCKSTEP-AAAA\n", "the ticket is damaged"),
    ];
    for (bytes, reason) in typed {
        fs::write(&path, bytes).expect("it can be written");
        let mut command = lockstep(&["send", "--source", CLIP]);
        let output = command.stdin(fs::File::open(&path).expect("it is there")).output().expect("it ran");
        assert!(!output.status.success() && said(&output).contains(reason), "{bytes:?}: {}", said(&output));
    }
    let endless = Path::new("/dev/zero");
    if endless.exists() {
        let mut command = lockstep(&["send", "--source", CLIP]);
        let output = command.stdin(fs::File::open(endless).expect("it is there")).output().expect("it ran");
        assert!(!output.status.success() && said(&output).contains("the ticket is damaged"), "{}", said(&output));
    }
}
