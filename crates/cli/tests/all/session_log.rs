//! Session logs as files: of both directions of a call, and of the calls of scenarios.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use parquet::file::reader::{FileReader, SerializedFileReader};

fn succeed(folder: &Path, words: &[&str]) {
    let run = Command::new(env!("CARGO_BIN_EXE_lockstep")).args(words).current_dir(folder).output();
    let run = run.expect("the command starts");
    assert!(run.status.success(), "{words:?}: {}", String::from_utf8_lossy(&run.stderr));
}

type Row = BTreeMap<String, String>;

/// The rows of all files of one kind in a log, by their columns' names.
fn rows(log: &Path, kind: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    for entry in fs::read_dir(log.join(kind)).expect("the log is there") {
        let file = File::open(entry.expect("an entry").path()).expect("opens");
        let reader = SerializedFileReader::new(file).expect("a Parquet file");
        for row in reader.get_row_iter(None).expect("rows") {
            let row = row.expect("a row");
            rows.push(row.get_column_iter().map(|(name, field)| (name.clone(), field.to_string())).collect());
        }
    }
    rows
}

fn number(row: &Row, column: &str) -> f64 {
    row[column].parse().unwrap_or_else(|_| panic!("{column} is {}", row[column]))
}

#[test]
fn two_way_call_writes_a_log_per_direction() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let log = folder.path().join("log");
    let words = ["--trace", "constant:400kbps", "--seconds", "6", "--seed", "7", "--session-log", "log"];
    succeed(folder.path(), &[&["simulate", "--modelled", "--two-way"], &words[..]].concat());
    let mut sessions = rows(&log, "sessions");
    sessions.sort_by(|one, other| one["seed"].cmp(&other["seed"]));
    let [first, opposite] = &sessions[..] else { panic!("{sessions:?}") };
    assert!(first["labels"].contains("first") && opposite["labels"].contains("opposite"), "{sessions:?}");
    assert_eq!((number(first, "seed"), number(opposite, "seed")), (7.0, 8.0));
    assert_ne!(first["session"], opposite["session"]);
    // Each log covers one direction: the first has the link of the trace, the other the default link.
    assert!((number(first, "capacity_bps") - 4e5).abs() < 2e4 && number(opposite, "capacity_bps") > 1e6);
    assert!(number(first, "sent_bps") < 6e5 && number(opposite, "sent_bps") > number(first, "sent_bps"));
    for session in &sessions {
        assert_eq!(number(session, "seconds"), 6.0);
        assert!(number(session, "frames_shown") > 100.0 && number(session, "delay_us") > 0.0, "{session:?}");
    }
    assert_eq!(rows(&log, "seconds").len(), 12);

    // A repeated call has the same log, and without --two-way only the first one.
    succeed(folder.path(), &[&["simulate", "--modelled", "--two-way"], &words[..]].concat());
    assert_eq!(rows(&log, "sessions").len(), 2);
    succeed(folder.path(), &[&["simulate", "--modelled"], &words[..6], &["--session-log", "other"]].concat());
    assert_eq!(rows(&folder.path().join("other"), "sessions").len(), 1);
}

#[test]
fn calls_of_scenarios_write_logs_of_their_whole_length() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let words = ["--seconds", "30", "--session-log", "log", "--session-label", "place=lab", "--controller", "nada"];
    succeed(folder.path(), &[&["scenario", "all", "--section", "8867-5.4"], &words[..]].concat());
    let log = folder.path().join("log");
    let sessions = rows(&log, "sessions");
    let shown = folder.path().join("all.json");
    succeed(folder.path(), &["scenario", "all", "--section", "8867-5.4", "--seconds", "30", "--json", "all.json"]);
    let scenarios: serde_json::Value = serde_json::from_slice(&fs::read(shown).expect("written")).expect("JSON");
    let scenarios = scenarios["rows"].as_array().expect("rows");
    assert!(!scenarios.is_empty());
    for scenario in scenarios {
        let name = scenario["scenario"].as_str().expect("a name");
        let of_it = || sessions.iter().filter(|session| session["labels"].contains(&format!("\\\"{name}\\\"")));
        let of_it: Vec<&Row> = if of_it().next().is_some() { of_it().collect() } else { sessions.iter().collect() };
        // RFC 8867, 5.4: three calls start at intervals of 20 s, so the first 30 s contain two of them.
        assert!(of_it.len() >= 2, "{name}: {sessions:?}");
        let mut lengths: Vec<f64> = of_it.iter().map(|session| number(session, "seconds")).collect();
        lengths.sort_by(f64::total_cmp);
        assert!(lengths.first() < lengths.last(), "{lengths:?}");
    }
    for session in &sessions {
        assert_eq!((session["kind"].as_str(), session["place"].as_str()), ("\"scenario\"", "\"lab\""), "{session:?}");
        assert_eq!(session["controller"], "\"nada\"");
        assert!(number(session, "frames_shown") > 20.0 * number(session, "seconds"), "{session:?}");
    }
    let seconds: f64 = sessions.iter().map(|session| number(session, "seconds")).sum();
    assert_eq!(rows(&log, "seconds").len() as f64, seconds);
}
