//! Controllers in programs of their own, with the Python of this machine.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lockstep_control::{Algorithm, Allowance, Controller, ControllerSetup, InFlight, Input, PathObserver};
use lockstep_hosted::program_controller;
use lockstep_transport::{AcknowledgedFragment, Estimate, Feedback, LostFragment};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

/// Reads events and answers each with what `answer` gives; it may use `request`, and `sys`.
fn script(answer: &str) -> String {
    let body = answer.replace('\n', "\n    ");
    format!(
        "#!/usr/bin/env python3\nimport json, sys, time\nfor line in sys.stdin:\n    request = json.loads(line)\n    \
         event = request['event']\n    answer = {{'target_bps': 500_000}} if event == 'allowance' else {{}}\n    \
         {body}\n    print(json.dumps(answer), flush=True)\n"
    )
}

/// A controller that the program `source` is, in a folder that stays as long as this.
struct Hosted {
    folder: tempfile::TempDir,
    setup: ControllerSetup,
    observer: PathObserver,
    controller: Box<dyn Controller>,
}

impl Hosted {
    fn start(source: &str, limit: Duration) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mine");
        fs::write(&path, source).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let setup =
            ControllerSetup { seed: 7, ..ControllerSetup::new(ByteCount::new(1_200), Duration::from_millis(33)) };
        let controller = made(&path, &setup, limit);
        let observer = PathObserver::new(setup.payload, &setup.tuning);
        Self { folder, setup, observer, controller }
    }

    fn pass(&mut self, milliseconds: u64, input: Input<'_>) {
        self.observer.pass(Timestamp::from_millis(milliseconds), input, self.controller.as_mut());
    }

    fn allowance(&mut self, milliseconds: u64) -> Allowance {
        self.pass(milliseconds, Input::Time);
        self.controller.allowance(&self.observer.view(Timestamp::from_millis(milliseconds)), InFlight::default())
    }

    /// What is wrong with the program, once it was asked for an allowance, perhaps more than once.
    fn failure(mut self) -> String {
        for milliseconds in 1_250..11_250 {
            self.allowance(milliseconds);
            if let Err(reason) = self.setup.failure.check() {
                return reason.to_string();
            }
        }
        panic!("it does not fail");
    }
}

fn made(path: &Path, setup: &ControllerSetup, limit: Duration) -> Box<dyn Controller> {
    Algorithm::Registered(program_controller("program:mine", path, limit)).controller(setup).unwrap()
}

const LIMIT: Duration = Duration::from_secs(30);

fn feedback() -> Feedback {
    let packet = AcknowledgedFragment {
        frame: 3,
        fragment: 1,
        size: ByteCount::new(1_000),
        sent_at: Timestamp::from_millis(10),
        arrived_at: Timestamp::from_millis(30),
        acknowledged_at: Timestamp::from_millis(50),
        congestion_experienced: false,
    };
    let estimate = Estimate { inter_arrival: None, capacity: Some(Bitrate::from_kbps(900)) };
    Feedback {
        acknowledged: vec![packet],
        estimate,
        round_trip_time: Some(Duration::from_millis(40)),
        highest_sequence: 1,
        found: 0,
        received: 1,
    }
}

fn lost() -> LostFragment {
    LostFragment { frame: 2, fragment: 0, size: ByteCount::new(800), sent_at: Timestamp::from_millis(5) }
}

/// The requests that a program gets in a call with every kind of event.
fn requests() -> Vec<serde_json::Value> {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("requests");
    let mut hosted = Hosted::start(&script(&format!("open({kept:?}, 'a').write(line)")), LIMIT);
    hosted.pass(10, Input::Sent(ByteCount::new(1_000)));
    hosted.pass(50, Input::Feedback(&feedback()));
    hosted.pass(60, Input::Lost(&[lost()]));
    hosted.pass(61, Input::PictureSkipped);
    let allowance = hosted.allowance(66);
    assert_eq!(allowance.target, Bitrate::from_kbps(500));
    assert!(hosted.setup.failure.check().is_ok());
    drop(hosted);
    fs::read_to_string(kept).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn program_reads_one_line_for_each_event() {
    let requests = requests();
    let events: Vec<&str> = requests.iter().map(|request| request["event"].as_str().unwrap()).collect();
    assert_eq!(events, ["hello", "feedback", "lost", "allowance"]);
    let [hello, feedback, lost, allowance] = &requests[..] else { panic!("four") };
    assert_eq!((&hello["version"], &hello["seed"], &hello["payload_bytes"]), (&1.into(), &7.into(), &1_200.into()));
    assert_eq!((&feedback["packets"][0]["sent_ms"], &feedback["estimate_bps"]), (&10.0.into(), &900_000.into()));
    assert_eq!((&feedback["path"]["now_ms"], &feedback["path"]["round_trip_ms"]), (&50.0.into(), &40.0.into()));
    assert_eq!(lost["packets"][0]["bytes"], 800);
    assert_eq!((&allowance["sent_bytes"], &allowance["skipped_pictures"]), (&1_000.into(), &1.into()));
}

#[test]
fn protocol_page_names_every_field() {
    fn fields(value: &serde_json::Value, into: &mut Vec<String>) {
        match value {
            serde_json::Value::Object(members) => members.iter().for_each(|(name, value)| {
                into.push(name.clone());
                fields(value, into);
            }),
            serde_json::Value::Array(values) => values.iter().for_each(|value| fields(value, into)),
            _ => {}
        }
    }
    let page = include_str!("../../../docs/reference/controller-protocol.md");
    let mut all = Vec::new();
    requests().iter().for_each(|request| fields(request, &mut all));
    all.extend(["target_bps", "budget_bytes", "pacing_interval_ms", "capacity_bps", "error"].map(str::to_owned));
    for name in all {
        assert!(page.contains(&format!("`{name}`")), "the page does not name {name}");
    }
}

#[test]
fn budget_and_pace_of_the_program_are_obeyed() {
    let answer = "answer |= {'budget_bytes': 4_000, 'pacing_interval_ms': 2.5, 'capacity_bps': 9e5} if answer else {}";
    let allowance = Hosted::start(&script(answer), LIMIT).allowance(66);
    assert_eq!((allowance.budget, allowance.pacing_interval), (ByteCount::new(4_000), Duration::from_micros(2_500)));
    assert_eq!(allowance.capacity, Some(Bitrate::from_kbps(900)));
}

#[test]
fn silent_program_ends_the_call_at_the_limit() {
    let said = Hosted::start(&script("if event == 'allowance': time.sleep(600)"), Duration::from_secs(2)).failure();
    assert!(said.starts_with("controller program ") && said.lines().count() == 1, "{said}");
    assert!(said.contains("event `allowance` at 1.250 s: no answer within 2 s"), "{said}");
}

#[test]
fn dead_program_is_quoted() {
    let answer = "if event == 'allowance': print('first', 'boom: no model', sep='\\n', file=sys.stderr); sys.exit(3)";
    let said = Hosted::start(&script(answer), LIMIT).failure();
    assert!(said.contains("event `allowance`") && said.contains("ended without an answer (exit status: 3)"), "{said}");
    assert!(said.ends_with("its standard error ends: first | boom: no model"), "{said}");
}

#[test]
fn wrong_answers_are_refused_with_the_event() {
    for (answer, reason) in [
        ("if event == 'allowance': print('rate 5')", "expected a JSON object, found `rate 5`"),
        ("answer = {'error': 'no\\nweights'}", "no | weights"),
        ("answer = {}", "its answer has no `target_bps`"),
        ("answer = {'target': 5}", "unknown field `target`"),
        ("answer = {'target_bps': -1}", "target_bps: expected a number of at least 0, found -1"),
        ("answer = {'target_bps': float('nan')}", "expected a JSON object, found"),
        ("answer = {'target_bps': 1, 'budget_bytes': 'all'}", "expected f64"),
        ("if event == 'allowance': answer = {'error': 'x' * 200_000}", "its answer is longer than 65536 bytes"),
        ("if event == 'allowance': print(json.dumps(answer))", "it wrote a line before the event"),
    ] {
        let said = Hosted::start(&script(answer), LIMIT).failure();
        assert!(said.contains(reason) && said.contains("event `") && said.lines().count() == 1, "{answer}: {said}");
    }
}

#[test]
fn program_that_reads_nothing_ends_the_call() {
    let source = "#!/usr/bin/env python3\nwhile True: print('{\"target_bps\": 1}', flush=True)\n";
    let said = Hosted::start(source, LIMIT).failure();
    assert!(said.contains("event `"), "{said}");
}

#[test]
fn missing_file_and_script_without_permission_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("plain");
    fs::write(&plain, script("pass")).unwrap();
    for (path, reason) in
        [(PathBuf::from("nowhere/mine"), "no such file"), (folder.path().into(), "no such file"), (plain, "chmod +x")]
    {
        let setup = ControllerSetup::new(ByteCount::new(1_200), Duration::from_millis(33));
        drop(made(&path, &setup, LIMIT));
        let said = setup.failure.check().unwrap_err().to_string();
        assert!(said.contains(reason) && said.contains(&path.display().to_string()), "{said}");
    }
}

#[test]
fn program_can_write_what_it_has_left_when_the_call_ends() {
    let folder = tempfile::tempdir().unwrap();
    let left = folder.path().join("left");
    let source = format!("{}open({left:?}, 'w').write('done')\n", script("pass"));
    let hosted = Hosted::start(&source, LIMIT);
    assert!(hosted.folder.path().exists());
    drop(hosted);
    assert_eq!(fs::read_to_string(left).unwrap(), "done");
}
