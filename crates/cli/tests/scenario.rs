//! `lockstep scenario` as a person types it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn scenario(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lockstep")).arg("scenario").args(arguments).output().expect("the command starts")
}

fn succeed(arguments: &[&str]) -> String {
    let output = scenario(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a temporary folder's name is UTF-8")
}

#[test]
fn every_scenario_of_the_list_is_shown_and_runs() {
    let listed = succeed(&["list"]);
    let names: Vec<&str> = listed.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.contains(&"long-tcp-cubic") && names.len() >= 50, "{listed}");
    for name in names {
        let shown: Value = serde_json::from_str(&succeed(&["show", name])).expect("JSON");
        assert_eq!(shown["name"], name);
        let said = succeed(&["run", name, "--seconds", "2"]);
        assert!(said.starts_with(&format!("{name}: ")), "{said}");
    }
}

#[test]
fn a_run_repeated_says_and_writes_the_same_to_the_byte_and_another_seed_something_else() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = |file: &str, seed: &str| {
        let json = folder.path().join(file);
        let said = succeed(&[
            "run",
            "long-tcp-cubic",
            "--controller",
            "salsify",
            "--queue",
            "codel",
            "--seconds",
            "20",
            "--seed",
            seed,
            "--json",
            text(&json),
        ]);
        let results = fs::read(&json).expect("the results were written");
        (said.replace(text(&json), "results"), results)
    };
    let first = run("first.json", "1");
    assert!(first == run("second.json", "1"));
    assert!(first.1 != run("third.json", "2").1);
    let document: Value = serde_json::from_slice(&first.1).expect("JSON");
    assert_eq!(document["kind"], "scenario");
    assert_eq!(document["config"]["controller"], "salsify");
    let flows = document["flows"].as_array().expect("one report a flow");
    assert_eq!(flows.len(), 3, "media, TCP and audio");
}

#[test]
fn a_scenario_that_was_shown_runs_from_its_file_as_by_its_name() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("own.json");
    fs::write(&file, succeed(&["show", "same-controller"])).expect("written");
    let run = |scenario: &str| succeed(&["run", scenario, "--seconds", "5"]);
    assert_eq!(run(text(&file)), run("same-controller"));
}

#[test]
fn what_is_no_scenario_is_said_in_one_line() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("own.json");
    fs::write(&file, "{\"name\": \"mine\"}").expect("written");
    for (name, expected) in [("no-such-scenario", "lists them"), (text(&file), "own.json")] {
        let output = scenario(&["run", name]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{name} succeeded");
        assert!(said.contains(expected) && said.lines().count() == 1, "{name}: {said}");
    }
}
