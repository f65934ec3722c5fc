//! Tests of `lockstep emulate --tun` with packets of real programs between two network namespaces.
//!
//! Without the rights, they check and print the error of the command.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// Bytes of a test's datagram, and of its packet.
const DATAGRAM: usize = 972;
const PACKET: usize = DATAGRAM + 28;
const LIMIT: Duration = Duration::from_secs(60);

fn lockstep() -> Command {
    Command::new(env!("CARGO_BIN_EXE_lockstep"))
}

/// Whether tunnels are possible here; if not, checks and prints the error of the command.
fn can_run() -> bool {
    let output = lockstep().args(["emulate", "--tun", "--", "true"]).output().expect("the command is built");
    if output.status.success() {
        return true;
    }
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(77), "{said}");
    assert!(said.starts_with("lockstep: "), "{said}");
    eprintln!("not tested: {said}");
    false
}

/// Runs the ignored test `part` of this program in the near namespace of a link.
fn run_inside(part: &str, name: &str, link: &[&str], folder: &Path) -> Output {
    let own = env::current_exe().expect("a test has a name");
    let mut command = lockstep();
    command.args(["emulate", "--tun", "--name", name, "--log"]).arg(folder.join("log.csv"));
    command.arg("--json").arg(folder.join("result.json")).args(link).arg("--").arg(own);
    command.args(["--exact", &format!("tunnel::{part}"), "--ignored", "--nocapture"]);
    let output = command.output().expect("the command is built");
    for side in ["near", "far"] {
        assert!(!Path::new(&format!("/run/netns/{name}-{side}")).exists(), "{side} was left over");
    }
    output
}

/// Runs `part` in the far namespace, from within the near one.
fn start_far(part: &str) -> std::process::Child {
    let variable = |name: &str| env::var(name).expect("the emulator sets it");
    let own = env::current_exe().expect("a test has a name");
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &variable("LOCKSTEP_FAR_NAMESPACE")]).arg(own);
    command.args(["--exact", &format!("tunnel::{part}"), "--ignored", "--nocapture"]);
    command.spawn().expect("ip is there")
}

fn far_socket() -> UdpSocket {
    let address = env::var("LOCKSTEP_FAR_ADDRESS").expect("the emulator sets it");
    let socket = UdpSocket::bind((address.as_str(), 5000)).expect("the port is free");
    socket.set_read_timeout(Some(LIMIT)).expect("a time");
    socket
}

fn near_socket() -> UdpSocket {
    let [near, far] =
        ["NEAR", "FAR"].map(|side| env::var(format!("LOCKSTEP_{side}_ADDRESS")).expect("the emulator sets it"));
    let socket = UdpSocket::bind((near.as_str(), 0)).expect("a port is free");
    socket.connect((far.as_str(), 5000)).expect("an address");
    socket.set_read_timeout(Some(Duration::from_millis(500))).expect("a time");
    socket
}

/// The far part, which returns each datagram, and a socket connected to it.
fn start_echo() -> (std::process::Child, UdpSocket) {
    let far = start_far("namespace_part_far_echo");
    let socket = near_socket();
    let begun = Instant::now();
    // Nobody answers before the far part starts; then it answers all.
    while socket.send(&datagram(0)).and_then(|_| socket.recv(&mut [0; 2000])).is_err() {
        assert!(begun.elapsed() < LIMIT, "the far part does not answer");
        thread::sleep(Duration::from_millis(50));
    }
    (far, socket)
}

fn datagram(number: u32) -> Vec<u8> {
    let mut datagram = vec![0; DATAGRAM];
    datagram[..4].copy_from_slice(&number.to_be_bytes());
    datagram
}

fn number(datagram: &[u8]) -> u32 {
    u32::from_be_bytes(datagram[..4].try_into().expect("four bytes"))
}

#[test]
#[ignore = "a part of another test, in the far namespace"]
fn namespace_part_far_echo() {
    let socket = far_socket();
    let mut buffer = [0; 2000];
    loop {
        let (length, from) = socket.recv_from(&mut buffer).expect("the other part sends");
        if length < 4 {
            return;
        }
        socket.send_to(&buffer[..length], from).expect("a way back");
    }
}

#[test]
#[ignore = "a part of another test, in the near namespace"]
fn namespace_part_near_asks_one_by_one() {
    let (mut far, socket) = start_echo();
    let mut buffer = [0; 2000];
    for asked in 1..=50 {
        let sent = Instant::now();
        socket.send(&datagram(asked)).expect("a way");
        let length = loop {
            let length = socket.recv(&mut buffer).expect("an answer to each");
            if number(&buffer) == asked {
                break length;
            }
            assert_eq!(number(&buffer), 0, "answers came out of order");
        };
        assert_eq!(length, DATAGRAM);
        // 15 ms each way, and 1,000 bytes at 2 Mb/s in the forward direction.
        assert!(sent.elapsed() >= Duration::from_micros(34_000), "{:?} is less than the link takes", sent.elapsed());
    }
    socket.send(&[]).expect("a way");
    assert!(far.wait().expect("it ends").success());
}

#[test]
#[ignore = "a part of another test, in the near namespace"]
fn namespace_part_near_floods() {
    let (mut far, socket) = start_echo();
    let mut buffer = [0; 2000];
    for sent in 1..=200 {
        socket.send(&datagram(sent)).expect("a way");
    }
    let mut last = 0;
    while socket.recv(&mut buffer).is_ok() {
        assert!(number(&buffer) > last || number(&buffer) == 0, "out of order");
        last = last.max(number(&buffer));
    }
    socket.send(&[]).expect("a way");
    assert!(far.wait().expect("it ends").success());
}

fn log(folder: &Path) -> Vec<BTreeMap<String, String>> {
    let text = fs::read_to_string(folder.join("log.csv")).expect("a log");
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    let head = lines.next().expect("a head");
    lines.map(|row| head.iter().cloned().zip(row).collect()).collect()
}

fn result(folder: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(folder.join("result.json")).expect("a result")).expect("JSON")
}

#[test]
fn packets_arrive_complete_in_order_and_not_too_early() {
    if !can_run() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let link = ["--trace", "constant:2mbps", "--reverse", "constant:100mbps", "--delay-ms", "15"];
    let output = run_inside("namespace_part_near_asks_one_by_one", "link-test-echo", &link, folder.path());
    assert!(output.status.success(), "{output:?}");
    let whole = PACKET.to_string();
    let rows = log(folder.path());
    for direction in ["forward", "reverse"] {
        let rows: Vec<_> = rows.iter().filter(|row| row["direction"] == direction && row["bytes"] == whole).collect();
        assert!(rows.len() >= 51, "{direction}: {}", rows.len());
        for row in rows {
            let [in_s, out_s] = ["in_s", "out_s"].map(|column| row[column].parse::<f64>().unwrap());
            let least = if direction == "forward" { 0.019 } else { 0.01508 };
            assert!(row["fate"] == "delivered" && out_s - in_s >= least - 2e-6, "{row:?}");
        }
    }
    let result = result(folder.path());
    assert_eq!((&result["stray_packets"], &result["refused_packets"]), (&0.into(), &0.into()));
    assert_eq!(result["link"]["trace"], "constant:2mbps");
    assert_eq!(result["forward"]["sent_packets"], result["forward"]["delivered_packets"]);
}

#[test]
#[ignore = "a part of another test, in the far namespace"]
fn namespace_part_far_answers_over_ipv6() {
    let socket = UdpSocket::bind("[fd77::2]:5000").expect("it is the far side's address");
    socket.set_read_timeout(Some(LIMIT)).expect("a time");
    let mut buffer = [0; 2000];
    let (length, from) = socket.recv_from(&mut buffer).expect("the other part sends");
    socket.send_to(&buffer[..length], from).expect("a way back");
}

#[test]
#[ignore = "a part of another test, in the near namespace"]
fn namespace_part_near_asks_over_ipv6() {
    let mut far = start_far("namespace_part_far_answers_over_ipv6");
    let socket = UdpSocket::bind("[fd77::1]:0").expect("it is the near side's address");
    socket.connect("[fd77::2]:5000").expect("a route");
    socket.set_read_timeout(Some(Duration::from_millis(500))).expect("a time");
    let begun = Instant::now();
    let mut buffer = [0; 2000];
    while socket.send(&datagram(1)).and_then(|_| socket.recv(&mut buffer)).is_err() {
        assert!(begun.elapsed() < LIMIT, "the far part does not answer");
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(number(&buffer), 1);
    assert!(far.wait().expect("it ends").success());
}

#[test]
fn packets_of_ipv6_pass_the_same_link() {
    if !can_run() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let link = ["--trace", "constant:2mbps", "--delay-ms", "15", "--ipv6"];
    let output = run_inside("namespace_part_near_asks_over_ipv6", "link-test-ipv6", &link, folder.path());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // Headers of IPv6 have 40 bytes, of UDP 8. The far part refuses packets before it listens, with the same size at
    // most.
    let whole = (DATAGRAM + 48).to_string();
    for direction in ["forward", "reverse"] {
        let passed = |row: &&BTreeMap<String, String>| {
            row["direction"] == direction && row["bytes"] == whole && row["fate"] == "delivered"
        };
        assert!(log(folder.path()).iter().any(|row| passed(&row)), "none went {direction}");
    }
}

#[test]
fn full_queue_drops_packets_and_the_log_has_all() {
    if !can_run() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let link =
        ["--trace", "constant:2mbps", "--reverse", "constant:100mbps", "--queue-packets", "5", "--delay-ms", "5"];
    let output = run_inside("namespace_part_near_floods", "link-test-flood", &link, folder.path());
    assert!(output.status.success(), "{output:?}");
    let (rows, result) = (log(folder.path()), result(folder.path()));
    let count =
        |fate: &str| rows.iter().filter(|row| row["direction"] == "forward" && row["fate"] == fate).count() as u64;
    let counted = |name: &str| result["forward"][name].as_u64().unwrap();
    assert!(counted("dropped_by_queue_packets") > 0 && counted("delivered_packets") > 0);
    assert_eq!(count("queue"), counted("dropped_by_queue_packets"));
    assert_eq!(count("delivered"), counted("delivered_packets"));
    assert!(counted("delivered_packets") + counted("dropped_by_queue_packets") <= counted("sent_packets"));
    // Five packets wait, and one leaves: 1,000 bytes take 4 ms.
    let longest = result["forward"]["longest_queueing_delay_ms"].as_f64().unwrap();
    assert!(longest <= 24.0 + 1e-6, "{longest}");
}

#[test]
fn exit_status_is_that_of_the_program_or_127_if_missing() {
    if !can_run() {
        return;
    }
    let status = |words: &[&str]| {
        let output = lockstep().args(["emulate", "--tun", "--"]).args(words).output().expect("the command is built");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(status(&["sh", "-c", "exit 9"]), (Some(9), String::new()));
    assert_eq!(status(&["sh", "-c", "kill -TERM $$"]).0, Some(143));
    let (code, said) = status(&["no-such-program"]);
    assert!(code == Some(127) && said.contains("no-such-program"), "{said}");
}

#[test]
fn options_of_a_tunnel_are_refused_for_a_link_between_sockets() {
    for words in [&["--start", "now"][..], &["--name", "a"], &["--ipv6"], &["--json", "a.json"], &["--", "true"]] {
        let output = lockstep().args(["emulate", "127.0.0.1:9"]).args(words).output().expect("the command is built");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("--tun"), "{words:?}: {said}");
    }
    for words in [&["--start", "tomorrow"][..], &["--start", "5"], &["--name", "../x"], &["127.0.0.1:9"]] {
        let output = lockstep().args(["emulate", "--tun"]).args(words).output().expect("the command is built");
        assert!(!output.status.success(), "{words:?}");
    }
}
