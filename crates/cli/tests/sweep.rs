//! `lockstep sweep` as a person types it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn sweep(output: &Path, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lockstep"))
        .args(["sweep", "--controllers", "salsify,fixed:1mbps", "--seeds", "1-3", "--seconds", "5"])
        .args(["--traces", "constant:1mbps", "cellular:mean=2mbps,seed=3", "--loss", "1%", "--output"])
        .arg(output)
        .args(more)
        .output()
        .expect("the command starts")
}

fn succeed(output: &Path, more: &[&str]) -> String {
    let run = sweep(output, more);
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8_lossy(&run.stdout).into_owned()
}

#[test]
fn rows_are_the_same_to_the_byte_on_one_core_and_on_many() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = |workers: &str| {
        let output = folder.path().join(format!("{workers}.parquet"));
        let said = succeed(&output, &["--workers", workers]);
        assert!(said.contains("12 calls in"), "{said}");
        fs::read(output).expect("the rows were written")
    };
    assert!(run("1") == run("4"));
}

#[test]
fn a_killed_sweep_goes_on_where_it_was_and_ends_with_the_same_rows() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = folder.path().join("rows.parquet");
    succeed(&output, &[]);
    let whole = fs::read(&output).expect("the rows were written");
    let journal = folder.path().join("rows.parquet.journal");
    let text = fs::read_to_string(&journal).expect("the journal was written");
    // As if the sweep had been killed while it wrote its sixth line.
    let half: String = text.lines().take(5).map(|line| format!("{line}\n")).collect::<String>() + &text[..40];
    fs::write(&journal, half).expect("the journal can be written");
    let said = succeed(&output, &[]);
    assert!(said.contains("5 of 12 calls are in the journal already"), "{said}");
    assert!(fs::read(&output).expect("the rows were written") == whole);
    let said = succeed(&output, &["--fresh"]);
    assert!(!said.contains("already"), "{said}");
}

#[test]
fn what_cannot_be_swept_is_said_before_any_call_runs() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = folder.path().join("rows.parquet");
    for (more, message) in [
        (["--traces", "nosuchfile"], "no such file"),
        (["--controllers", "reno"], "no controller is called `reno`"),
        (["--seeds", "5-3"], "no range"),
        (["--on", "elsewhere"], "no cluster"),
    ] {
        let run = Command::new(env!("CARGO_BIN_EXE_lockstep"))
            .args(["sweep", "--seconds", "1", "--output"])
            .arg(&output)
            .args(more)
            .output()
            .expect("the command starts");
        assert!(!run.status.success(), "{more:?}");
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        assert!(said.contains(message), "{more:?}: {said}");
    }
}

#[test]
fn words_that_contradict_each_other_are_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (words, message) in [
        (&["sweep", "--codec", "conventional"][..], "--codecs"),
        (&["sweep", "--modelled", "--codecs", "functional"], "--modelled contradicts --codecs functional"),
        (&["sweep", "--preset", "quality"], "does not heed --preset"),
        (&["sweep", "--codecs", "modelled,modelled-conventional", "--fit-passes", "2"], "does not heed --fit-passes"),
        (&["sweep", "--modelled", "--menu", "serial"], "'--modelled' cannot be used with '--menu"),
        (&["sweep", "--controllers", "gcc", "--estimator", "a.py"], "cannot be used with '--estimator"),
        (&["simulate", "--modelled", "--preset", "quality"], "'--modelled' cannot be used with '--preset"),
        (&["study", "concerto", "--controller", "nada"], "decides --controller itself"),
        (&["study", "concerto", "--preset", "quality"], "does not heed --preset"),
        (&["study", "salsify", "--codec", "conventional"], "decides --codec itself"),
        (&["study", "salsify", "--grace-period", "none"], "decides --grace-period itself"),
        (&["study", "concerto", "--latency", "low"], "decides --latency itself"),
        (
            &["sweep", "--controllers", "sprout,gcc", "--latency", "low"],
            "--latency is for the controller sprout, not for gcc",
        ),
        (
            &["simulate", "--controller", "gcc", "--grace-period", "none"],
            "--grace-period is for the controller salsify",
        ),
        (&["simulate", "--queue-bytes", "5000", "--queue-packets", "9"], "'--queue-bytes' cannot be used with"),
        (&["call", "--menu", "serial", "--fit-passes", "2"], "'--fit-passes' cannot be used with '--menu'"),
    ] {
        let run = Command::new(env!("CARGO_BIN_EXE_lockstep"))
            .args(words)
            .args(["--seconds", "1"])
            .current_dir(folder.path())
            .output()
            .expect("the command starts");
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        assert!(!run.status.success() && said.contains(message), "{words:?}: {said}");
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0, "{words:?} left files");
    }
    for words in [&["--modelled"][..], &["--codecs", "modelled,functional", "--preset", "quality"]] {
        let clip = ["--clip", "generated:64x48@30", "--trace", "constant:1mbps", "--seconds", "1"];
        let run = Command::new(env!("CARGO_BIN_EXE_lockstep"))
            .arg("sweep")
            .args(clip)
            .args(words)
            .current_dir(folder.path())
            .output()
            .expect("the command starts");
        assert!(run.status.success(), "{words:?}: {}", String::from_utf8_lossy(&run.stderr));
    }
}
