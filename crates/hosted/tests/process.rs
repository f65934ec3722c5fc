//! Estimators in separate processes, with the Python of this machine.

use std::fs;
#[cfg(unix)]
use std::io::Read;
#[cfg(unix)]
use std::os::unix::net::{UnixListener, UnixStream};
#[cfg(unix)]
use std::os::unix::process::CommandExt;
use std::path::Path;
#[cfg(unix)]
use std::process::{Command, Stdio};
use std::time::Duration;

use lockstep_hosted::{EstimatorHost, PacketReport, Process, ProcessOptions};
use lockstep_units::{Bitrate, Timestamp};

fn options() -> ProcessOptions {
    ProcessOptions { interpreter: "python3".to_owned(), seed: 7, limit: Duration::from_secs(30), interruption: None }
}

fn packet(index: u64) -> PacketReport {
    PacketReport {
        arrived_at: Timestamp::from_millis(100 + 10 * index),
        send_time_ms: 70 + 10 * index,
        arrival_time_ms: 100 + 10 * index,
        sequence_number: index as u16,
        header_length: 68,
        payload_size: 1_000,
    }
}

/// Two answers of the estimator `source`, or its error.
fn answers_with(source: &str, options: &ProcessOptions, neighbours: &[(&str, &str)]) -> Result<[u64; 2], String> {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in neighbours.iter().chain([&("BandwidthEstimator.py", source)]) {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let mut process = Process::start(folder.path(), options).map_err(|error| error.to_string())?;
    let packets: Vec<PacketReport> = (0..10).map(packet).collect();
    let mut ask = |milliseconds, packets: &[PacketReport]| {
        process
            .exchange(Timestamp::from_millis(milliseconds), packets)
            .map(Bitrate::as_bps)
            .map_err(|error| error.to_string())
    };
    Ok([ask(300, &packets)?, ask(500, &[])?])
}

fn answers(source: &str) -> Result<[u64; 2], String> {
    answers_with(source, &options(), &[])
}

/// An estimator whose `get_estimated_bandwidth` is `body`.
fn returning(body: &str) -> String {
    format!(
        "class Estimator:\n    def report_states(self, stats): pass\n    def get_estimated_bandwidth(self):\n        {body}\n"
    )
}

#[test]
fn every_packet_comes_with_the_fields_of_alphartc() {
    let source = "
class Estimator(object):
    def __init__(self):
        self.total = 0
    def report_states(self, stats: dict):
        assert list(stats) == ['send_time_ms', 'arrival_time_ms', 'payload_type', 'sequence_number', 'ssrc',
                               'padding_length', 'header_length', 'payload_size']
        assert stats['arrival_time_ms'] - stats['send_time_ms'] == 30
        self.total += stats['payload_size'] + stats['sequence_number']
    def get_estimated_bandwidth(self) -> int:
        print('this is no answer')
        return self.total
";
    assert_eq!(answers(source), Ok([10_045, 10_045]));
}

#[test]
fn neighbours_are_imported_and_files_opened_by_relative_paths() {
    let neighbours = [
        ("utils/__init__.py", ""),
        ("utils/rates.py", "def read(name):\n    return int(open(name).read())\n"),
        ("queueing.py", "EXTRA = 5\n"),
        ("model/best.txt", "640000"),
    ];
    let source = format!(
        "from utils.rates import read\nfrom queueing import EXTRA\nRATE = read('./model/best.txt') + EXTRA\n{}",
        returning("return RATE")
    );
    assert_eq!(answers_with(&source, &options(), &neighbours), Ok([640_005; 2]));
}

#[test]
fn clocks_show_the_time_of_the_call() {
    for expression in [
        "time.time()",
        "time.monotonic()",
        "time.perf_counter()",
        "time.time_ns() / 1e9",
        "clock()",
        "datetime.now().timestamp()",
        "datetime.utcnow().replace(tzinfo=timezone.utc).timestamp()",
        "calendar.timegm(time.gmtime())",
    ] {
        let source = format!(
            "import calendar, time\nfrom time import time as clock\nfrom datetime import datetime, timezone\n\
             class Estimator:\n    def __init__(self):\n        self.at = []\n    def report_states(self, stats):\n        \
             self.at.append({expression})\n    def get_estimated_bandwidth(self):\n        time.sleep(100)\n        \
             assert isinstance(datetime.now(), datetime)\n        return round(1000 * (self.at[-1] - self.at[0]))\n"
        );
        let expected = if expression.contains("gmtime") { 0 } else { 90 };
        assert_eq!(answers(&source), Ok([expected; 2]), "{expression}");
    }
    assert_eq!(answers(&format!("import time\n{}", returning("return 1000 * time.monotonic()"))), Ok([1_300, 1_500]));
}

#[test]
fn draws_depend_on_the_seed_and_nothing_else() {
    let source = format!(
        "import os, random, uuid\n{}",
        returning("return random.randrange(1000) + 1000 * os.urandom(1)[0] + uuid.uuid4().int % 997 + hash('a') % 991")
    );
    let with_seed = |seed| answers_with(&source, &ProcessOptions { seed, ..options() }, &[]).unwrap();
    assert_eq!(with_seed(1), with_seed(1));
    assert_ne!(with_seed(1), with_seed(2));
}

#[test]
fn first_of_a_pair_counts_and_fractions_are_cut_off() {
    assert_eq!(answers(&returning("return 250_000.75, None")), Ok([250_000; 2]));
    assert_eq!(answers(&returning("return [7, 8]")), Ok([7; 2]));
    let scalar = format!("class Scalar:\n    def item(self): return 9\n{}", returning("return Scalar()"));
    assert_eq!(answers(&scalar), Ok([9; 2]));
}

#[test]
fn nonsense_is_refused_and_shown() {
    for (value, shown) in [
        ("None", "None"),
        ("'fast'", "'fast'"),
        ("-1", "-1"),
        ("float('nan')", "nan"),
        ("float('inf')", "inf"),
        ("True", "True"),
        ("()", "()"),
        ("{}", "{}"),
    ] {
        let error = answers(&returning(&format!("return {value}"))).unwrap_err();
        let expected =
            format!("get_estimated_bandwidth returned {shown}; expected a number of bits per second, at least 0");
        assert!(error.ends_with(&expected), "{value}: {error}");
    }
}

#[test]
fn what_is_raised_is_told_in_one_line_with_its_place() {
    for (source, expected) in [
        (returning("return 1 // 0"), "get_estimated_bandwidth raised ZeroDivisionError"),
        (returning("raise SystemExit(3)"), "get_estimated_bandwidth raised SystemExit: 3"),
        (returning("raise ValueError('two\\nlines')"), "raised ValueError: two lines (BandwidthEstimator.py, line 4)"),
        ("import nosuchmodule\n".to_owned(), "loading it raised ModuleNotFoundError: No module named 'nosuchmodule'"),
        ("class Estimator\n".to_owned(), "loading it raised SyntaxError"),
        ("class Estimate: pass\n".to_owned(), "has no class Estimator"),
        ("class Estimator:\n    def __init__(self, rate): pass\n".to_owned(), "Estimator() raised TypeError"),
        ("class Estimator: pass\n".to_owned(), "report_states raised AttributeError"),
        (returning("import os; os._exit(3)"), "its process ended (exit status: 3)"),
    ] {
        let error = answers(&source).unwrap_err();
        assert!(error.contains(expected) && error.lines().count() == 1, "{error}");
    }
}

#[test]
fn one_that_hangs_is_given_up() {
    let options = ProcessOptions { limit: Duration::from_millis(300), ..options() };
    let error = answers_with(&returning("while True: pass"), &options, &[]).unwrap_err();
    assert!(error.contains("no answer within 0.3 s"), "{error}");
}

#[test]
fn interruption_ends_the_wait_for_a_hanging_estimator() {
    let options =
        ProcessOptions { limit: Duration::from_secs(600), interruption: Some(|| Err("enough".into())), ..options() };
    assert_eq!(answers_with("while True: pass", &options, &[]).unwrap_err(), "enough");
    let never = ProcessOptions { interruption: Some(|| Ok(())), ..options };
    assert_eq!(answers_with(&returning("import time; time.sleep(1); return 5e5"), &never, &[]), Ok([500_000; 2]));
}

/// An estimator that starts a child process. Both hold a connection to `listens.socket` in its folder.
/// `get_estimated_bandwidth` is `body`.
#[cfg(unix)]
fn with_a_process_of_its_own(body: &str) -> String {
    format!(
        "import socket, subprocess\nCONNECTION = socket.socket(socket.AF_UNIX)\nCONNECTION.connect('listens.socket')\n\
         subprocess.Popen(['sleep', '600'], pass_fds=[CONNECTION.fileno()])\n{}",
        returning(body)
    )
}

/// A folder with the estimator `source`, and the listener there.
#[cfg(unix)]
fn listening_folder(source: &str) -> (tempfile::TempDir, UnixListener) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("BandwidthEstimator.py"), source).unwrap();
    let listener = UnixListener::bind(folder.path().join("listens.socket")).unwrap();
    (folder, listener)
}

/// Whether all holders of the other end of the connection end soon.
#[cfg(unix)]
fn all_end(mut connection: UnixStream) -> bool {
    connection.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    connection.read(&mut [0]).is_ok_and(|bytes| bytes == 0)
}

#[cfg(unix)]
#[test]
fn what_an_estimator_starts_ends_with_it() {
    for (body, answers) in [("return 5e5", true), ("import os; os._exit(3)", false), ("return 1 // 0", false)] {
        let (folder, listener) = listening_folder(&with_a_process_of_its_own(body));
        let mut process = Process::start(folder.path(), &options()).unwrap();
        let (connection, _) = listener.accept().unwrap();
        assert_eq!(process.exchange(Timestamp::from_millis(200), &[]).is_ok(), answers, "{body}");
        drop(process);
        assert!(all_end(connection), "{body}");
    }
}

#[cfg(unix)]
#[test]
fn estimator_and_its_children_end_with_their_host() {
    use std::io::{BufRead, BufReader, Write};
    for body in ["return 5e5", "while True: pass"] {
        let (folder, listener) = listening_folder(&with_a_process_of_its_own(body));
        // A killed host only closes its ends of the pipes.
        let worker = concat!(env!("CARGO_MANIFEST_DIR"), "/../../python/lockstep/alphartc/worker.py");
        let mut child = Command::new("python3")
            .args(["-B", worker, "BandwidthEstimator.py", "7"])
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let (connection, _) = listener.accept().unwrap();
        let mut there = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut there).unwrap();
        assert_eq!(there, "{}\n");
        let mut requests = child.stdin.take().unwrap();
        requests.write_all(b"{\"now\": 200000000, \"packets\": []}\n").unwrap();
        drop(requests);
        assert!(all_end(connection), "{body}");
        child.wait().unwrap();
    }
}

#[test]
fn what_is_not_there_is_said() {
    let error = Process::start(Path::new("nosuch.py"), &options()).unwrap_err().to_string();
    assert_eq!(error, "estimator nosuch.py: no such file");
    let file = tempfile::NamedTempFile::new().unwrap();
    let options = ProcessOptions { interpreter: "nosuchpython".to_owned(), ..options() };
    let error = Process::start(file.path(), &options).unwrap_err().to_string();
    assert!(error.contains("cannot start the interpreter `nosuchpython`"), "{error}");
}
