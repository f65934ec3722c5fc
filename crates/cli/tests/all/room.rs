//! Rooms of several people in real time.
#![cfg(unix)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::command::codecs;

/// Arguments of everybody.
const WORDS: [&str; 9] =
    ["--no-window", "--source", "generated:64x48@15", "--audio", "none", "--status", "json", "--idle-seconds", "2"];

/// A person with the lines that the command prints.
struct Person {
    process: Child,
    lines: BufReader<ChildStdout>,
}

impl Person {
    fn start(name: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lockstep"));
        command.arg("talk").args(arguments).args(["--name", name]).args(WORDS);
        let mut process =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
        let lines = BufReader::new(process.stdout.take().expect("it is piped"));
        Self { process, lines }
    }

    /// Waits for a line of JSON with `key`, whose value contains `what`.
    fn wait_for(&mut self, key: &str, what: &str) -> String {
        loop {
            let mut line = String::new();
            let length = self.lines.read_line(&mut line).expect("it is text");
            assert!(length > 0, "the command ended before it printed {key} with {what}");
            let line: Value = serde_json::from_str(&line).expect("it is JSON");
            if let Some(text) = line[key].as_str().filter(|text| text.contains(what)) {
                return text.to_owned();
            }
        }
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill").args([format!("-{name}"), self.process.id().to_string()]).status();
        assert!(status.expect("there is `kill`").success());
    }
}

impl Drop for Person {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The person who opens a room, and its ticket.
fn opened(arguments: &[&str]) -> (Person, String) {
    let mut anna = Person::start("anna", &[&["--room", "--listen", "127.0.0.1:0"], arguments].concat());
    let ticket = anna.wait_for("ticket", "LOCKSTEP-");
    (anna, ticket)
}

/// Names of the files in `folder`, without the numbers of people, which depend on who came first.
fn files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let name = |path: &Path| {
        assert!(fs::metadata(path).expect("a file").len() > 1_000, "{} has no pictures", path.display());
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        name.chars().filter(|letter| !letter.is_ascii_digit()).collect::<String>()
    };
    let mut files: Vec<String> = entries.map(|path| name(&path)).collect();
    files.sort();
    files
}

#[test]
fn people_join_a_room_with_its_ticket_alone_and_each_has_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let sink = |name: &str| folder.path().join(format!("{name}.ivf")).to_string_lossy().into_owned();
    let (mut anna, ticket) = opened(&["--sink", &sink("anna")]);
    // Everybody receives any codec.
    let codecs = codecs();
    let mut others = [("bruno", codecs[0]), ("clara", codecs[codecs.len() - 1])].map(|(name, codec)| {
        let sink = sink(name);
        Person::start(name, &[&ticket, "--sink", &sink, "--codec", codec])
    });
    for (person, name) in others.iter_mut().zip(["clara", "bruno"]) {
        // The order of the two is that of their calls.
        let first = person.wait_for("notice", " is there");
        let second = person.wait_for("notice", " is there");
        let mut both = [first, second];
        both.sort();
        assert_eq!(both, ["anna is there".to_owned(), format!("{name} is there")]);
    }
    for person in &mut others {
        std::thread::sleep(Duration::from_secs(1));
        person.signal("INT");
        person.process.wait().expect("it ends");
        anna.wait_for("notice", " left");
    }
    anna.signal("INT");
    anna.process.wait().expect("it ends");
    assert_eq!(
        files(folder.path()),
        [
            "anna.-bruno.ivf",
            "anna.-clara.ivf",
            "bruno.-anna.ivf",
            "bruno.-clara.ivf",
            "clara.-anna.ivf",
            "clara.-bruno.ivf"
        ]
    );
}

#[test]
fn room_comes_together_again_after_the_opener_was_away() {
    let (anna, ticket) = opened(&[]);
    let mut others = ["bruno", "clara"].map(|name| Person::start(name, &[&ticket]));
    for person in &mut others {
        person.wait_for("notice", " is there");
        person.wait_for("notice", " is there");
    }
    anna.signal("STOP");
    for person in &mut others {
        person.wait_for("notice", "anna is gone");
    }
    anna.signal("CONT");
    for person in &mut others {
        person.wait_for("notice", "anna is there");
    }
}

#[test]
fn options_for_calls_of_two_are_refused() {
    for (words, option) in [
        (&["--record", "x.webm"][..], "--record"),
        (&["--send-log", "x.json"], "--send-log"),
        (&["--monitor"], "--monitor"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = Command::new(env!("CARGO_BIN_EXE_lockstep"));
        let output = command.args(["talk", "--room", "--listen", "127.0.0.1:0"]).args(WORDS).args(words);
        let output = output.current_dir(folder.path()).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(option) && said.contains("two people"), "{said}");
    }
}
