//! Tests of `lockstep scenario`.

use std::fs;
use std::process::{Command, Output};

use serde_json::Value;

use crate::command::text;

fn scenario(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lockstep")).arg("scenario").args(arguments).output().expect("the command starts")
}

fn succeed(arguments: &[&str]) -> String {
    let output = scenario(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
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
fn output_of_a_run_depends_only_on_the_seed() {
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
fn shown_scenario_runs_equally_from_its_file() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("own.json");
    fs::write(&file, succeed(&["show", "same-controller"])).expect("written");
    let run = |scenario: &str| succeed(&["run", scenario, "--seconds", "5"]);
    assert_eq!(run(text(&file)), run("same-controller"));
}

#[test]
fn error_of_an_invalid_scenario_has_one_line() {
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

#[test]
fn the_list_names_the_section_of_each_scenario() {
    let listed = succeed(&["list"]);
    for (name, section) in [
        ("short-tcp ", "(RFC 8867, section 5.7)"),
        ("priorities ", "(RFC 8867, section 6.1)"),
        ("short-tcp-ecn ", "(RFC 8867, section 6.2 of 5.7)"),
        ("multiple-bottlenecks ", "(RFC 8867, section 6.3)"),
        ("cell-load-up ", "(RFC 8869, section 2.1)"),
        ("wifi-both-tcp ", "(RFC 8869, section 3.2)"),
    ] {
        let line = listed.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {listed}"));
        assert!(line.ends_with(section), "{line}");
    }
}

#[test]
fn all_scenarios_give_a_reproducible_table() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = |file: &str, jobs: &str| {
        let json = folder.path().join(file);
        let arguments = ["all", "--controller", "gcc", "--seconds", "12", "--jobs", jobs, "--json", text(&json)];
        let said = succeed(&arguments);
        let document: Value = serde_json::from_slice(&fs::read(&json).expect("written")).expect("JSON");
        (said.replace(text(&json), "results"), document)
    };
    let (said, document) = run("one.json", "1");
    assert_eq!((said.clone(), document.clone()), run("two.json", "2"));
    let names = succeed(&["list"]);
    let rows = document["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), names.lines().count());
    let columns = said.lines().next().unwrap_or_default();
    for column in ["section", "goodput", "delay p50", "loss %", "low/high", "settles s", "used %"] {
        assert!(columns.contains(column), "{columns}");
    }
    assert!(said.contains("RFC 8867, 6.2: the same with ECN"), "{said}");
}

#[test]
fn table_of_a_section_is_available_as_markdown() {
    let said =
        succeed(&["all", "--controller", "fixed:300kbps", "--section", "8867-5.6", "--seconds", "8", "--markdown"]);
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].starts_with("| section ") && lines[1].starts_with("| ---"), "{said}");
    assert_eq!(lines.iter().filter(|line| line.starts_with("| 8867-5.6 ")).count(), 3, "{said}");
    let output = scenario(&["all", "--section", "9999"]);
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("no scenario has this prefix") && said.lines().count() == 1, "{said}");
}

#[test]
fn ecn_is_refused_where_it_has_no_effect() {
    let simulate = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_lockstep"))
            .args(["simulate", "--modelled", "--seconds", "5", "--ecn"])
            .args(arguments)
            .output()
            .expect("the command starts");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert!(simulate(&["--controller", "nada", "--queue", "codel"]).0);
    let (done, said) = simulate(&["--controller", "nada"]);
    assert!(!done && said.contains("--queue codel"), "{said}");
    let (done, said) = simulate(&["--controller", "salsify", "--queue", "pie"]);
    assert!(!done && said.contains("--ecn is for the controller gcc, nada or scream, not for salsify"), "{said}");
}

#[test]
fn run_is_checked_against_its_bands() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let (bands, page, edited) = (at("bands.toml"), at("page.html"), at("edited.toml"));
    let short = ["all", "--section", "8867-5.4", "--seconds", "20"];
    let run = |more: &[&str]| scenario(&[&short[..], more].concat());
    let said = run(&["--write-bands", text(&bands)]);
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let said = run(&["--check", text(&bands), "--html", text(&page)]);
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    assert!(String::from_utf8_lossy(&said.stdout).contains("metrics are in their bands"));
    assert!(!fs::read_to_string(&page).expect("the page was written").contains("class=\"fails\""));

    let text_of_bands = fs::read_to_string(&bands).expect("the bands were written");
    let changed = text_of_bands.lines().map(|line| match line.split_once(" = ") {
        Some(("goodput_kbps", _)) => "goodput_kbps = { min = 99999 }\n".to_owned(),
        _ => format!("{line}\n"),
    });
    fs::write(&edited, changed.collect::<String>()).expect("the bands can be written");
    let failed = run(&["--check", text(&edited), "--html", text(&page)]);
    assert_eq!(failed.status.code(), Some(1));
    let (out, error) = (String::from_utf8_lossy(&failed.stdout), String::from_utf8_lossy(&failed.stderr));
    let row = out.lines().find(|line| line.starts_with("same-controller")).expect("a row");
    assert!(row.contains("goodput_kbps") && row.contains("at least 99999"), "{out}");
    assert!(error.contains("lockstep: 1 of ") && error.contains("run with --write-bands"), "{error}");
    let html = fs::read_to_string(&page).expect("the page was written");
    assert!(html.contains("<tr class=\"fails\"><td>same-controller</td><td>goodput_kbps</td>"), "{html}");
    assert!(!html.contains("<script"), "{html}");
    // Another controller leaves the bands.
    assert_eq!(run(&["--check", text(&bands), "--controller", "fixed:300kbps"]).status.code(), Some(1));
}

#[test]
fn check_of_scenarios_without_bands_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let bands = folder.path().join("bands.toml");
    fs::write(&bands, "[scenario.long-tcp]\nloss_percent = { max = 1 }\n").expect("written");
    let check = |more: &[&str]| {
        let words = ["all", "--section", "8867-5.4", "--seconds", "5", "--check", text(&bands)];
        let output = scenario(&[&words[..], more].concat());
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (status, said) = check(&[]);
    assert!(status == Some(1) && said.contains("it has no band for these scenarios"), "{said}");
    let (status, said) = check(&["--write-bands", text(&bands)]);
    assert!(status == Some(1) && said.contains("is an input"), "{said}");
    fs::write(&bands, "[scenario.long-tcp]\nloss_percent = 1\n").expect("written");
    let (status, said) = check(&[]);
    assert!(status == Some(1) && said.contains("bands.toml: line 2: "), "{said}");
}
