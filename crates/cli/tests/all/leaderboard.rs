//! Tests of `lockstep leaderboard` and of frozen splits in sweeps.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn lockstep(folder: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lockstep")).args(words).current_dir(folder).output().expect("the command starts")
}

fn succeed(folder: &Path, words: &[&str]) -> String {
    let output = lockstep(folder, words);
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Exit status, standard output and standard error of a command that fails.
fn fail(folder: &Path, words: &[&str]) -> (String, String) {
    let output = lockstep(folder, words);
    assert_eq!(output.status.code(), Some(1), "{words:?}");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// A folder with two traces and the rows of two controllers over them.
fn submitted() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::create_dir(folder.path().join("traces")).expect("made");
    fs::write(folder.path().join("traces/a.csv"), "0,1\n1,2\n").expect("written");
    fs::write(folder.path().join("traces/b.csv"), "0,2\n1,1\n").expect("written");
    let sweep = ["sweep", "--controllers", "gcc,salsify", "--traces", "traces", "--seconds", "3", "--output"];
    succeed(folder.path(), &[&sweep[..], &["rows.parquet"]].concat());
    folder
}

#[test]
fn rows_become_a_page_and_are_verified() {
    let folder = submitted();
    let said = succeed(folder.path(), &["leaderboard", "rows.parquet", "--output", "leaderboard.html"]);
    assert!(said.contains("4 rows in leaderboard.html"), "{said}");
    let html = fs::read_to_string(folder.path().join("leaderboard.html")).expect("the page was written");
    assert!(html.contains("<td>gcc</td>") && html.contains("<td>salsify</td>"), "{html}");
    let markdown = succeed(folder.path(), &["leaderboard", "rows.parquet", "rows.parquet"]);
    assert!(markdown.contains("| gcc | 2 |"), "{markdown}");
    let said = succeed(folder.path(), &["leaderboard", "verify", "rows.parquet"]);
    assert!(said.contains("4 of 4 rows of rows.parquet have exactly the scores of their calls"), "{said}");
    let said = succeed(folder.path(), &["leaderboard", "verify", "rows.parquet", "--sample", "1"]);
    assert!(said.contains("1 of 4 rows"), "{said}");
    let (_, said) = fail(folder.path(), &["leaderboard", "rows.parquet", "--output", "page.pdf"]);
    assert!(said.contains("must end in .html or .md"), "{said}");
}

#[test]
fn missing_and_changed_traces_of_rows_are_named() {
    let folder = submitted();
    fs::create_dir(folder.path().join("elsewhere")).expect("made");
    fs::rename(folder.path().join("traces/a.csv"), folder.path().join("elsewhere/c.csv")).expect("moved");
    let verify = ["leaderboard", "verify", "rows.parquet"];
    let (said, error) = fail(folder.path(), &verify);
    assert_eq!(said.matches("trace traces/a.csv is missing; put the file with SHA-256 ").count(), 2, "{said}");
    assert!(error.contains("cannot confirm 2 of 4 rows of rows.parquet"), "{error}");
    succeed(folder.path(), &[&verify[..], &["--files", "elsewhere"]].concat());
    fs::write(folder.path().join("traces/b.csv"), "0,2\n1,3\n").expect("written");
    let (said, _) = fail(folder.path(), &[&verify[..], &["--files", "elsewhere"]].concat());
    assert_eq!(said.matches("trace traces/b.csv differs: SHA-256 ").count(), 2, "{said}");
}

#[test]
fn changed_scores_of_a_row_are_named() {
    let folder = submitted();
    let path = folder.path().join("rows.parquet");
    let mut bytes = fs::read(&path).expect("rows");
    // Every call has 3 scored seconds; the dictionary of this column has the number once.
    let three = 3.0_f64.to_le_bytes();
    let places: Vec<usize> = (0..bytes.len() - 8).filter(|&at| bytes[at..at + 8] == three).collect();
    for at in places {
        bytes[at..at + 8].copy_from_slice(&2.5_f64.to_le_bytes());
    }
    fs::write(&path, bytes).expect("written");
    let (said, error) = fail(folder.path(), &["leaderboard", "verify", "rows.parquet"]);
    assert!(said.contains("row 1: gcc over traces/a.csv, seed 1: "), "{said}");
    assert!(said.contains(" in the row and ") && error.contains("cannot confirm 4 of 4 rows"), "{said}{error}");
}

#[test]
fn damaged_rows_are_refused_in_one_line() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("rows.parquet"), "PAR1 and no more").expect("written");
    for words in [&["leaderboard", "rows.parquet"][..], &["leaderboard", "verify", "rows.parquet"]] {
        let (_, said) = fail(folder.path(), words);
        assert!(
            said.starts_with("lockstep: cannot read the rows rows.parquet: ") && said.lines().count() == 1,
            "{said}"
        );
    }
}

#[test]
fn sweep_runs_the_test_part_of_a_split() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::create_dir(folder.path().join("traces")).expect("made");
    for index in 0..5 {
        fs::write(folder.path().join(format!("traces/{index}.csv")), format!("0,{}\n1,2\n", index + 1))
            .expect("written");
    }
    succeed(folder.path(), &["data", "split", "traces", "--output", "split.json"]);
    let verify = ["data", "verify", "split.json", "traces"];
    assert!(succeed(folder.path(), &verify).contains("all 5 files match the split split.json"));
    let sweep = ["sweep", "--seconds", "1", "--traces", "split:split.json:test=traces", "--output", "rows.parquet"];
    assert!(succeed(folder.path(), &sweep).contains("1 calls in rows.parquet"));
    fs::write(folder.path().join("traces/more.csv"), "0,9\n1,2\n").expect("written");
    assert!(succeed(folder.path(), &verify).contains("extra      more.csv"));
    for index in 0..5 {
        fs::write(folder.path().join(format!("traces/{index}.csv")), "0,7\n1,2\n").expect("written");
    }
    let (said, error) = fail(folder.path(), &verify);
    assert!(said.contains("different  0.csv") && error.contains("0 are missing and 5 are different"), "{said}{error}");
    let (_, error) = fail(folder.path(), &sweep);
    assert!(error.contains("differs from the split"), "{error}");
    assert!(succeed(folder.path(), &["data", "list"]).contains("norway-3g   81 to train on, 11 for validation, 23 to"));
}
