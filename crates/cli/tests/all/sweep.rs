//! Tests of `lockstep sweep`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Output};

use lockstep_sim::CodecModel;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;

/// Runs a sweep in `folder`.
fn command(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockstep"));
    command.arg("sweep").args(words).current_dir(folder).output().expect("the command starts")
}

/// Output of a successful sweep in `folder`.
fn run_in(folder: &Path, words: &[&str]) -> String {
    let run = command(folder, words);
    assert!(run.status.success(), "{words:?}: {}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8_lossy(&run.stdout).into_owned()
}

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
fn rows_are_identical_on_one_core_and_on_many() {
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
fn killed_sweep_resumes_and_ends_with_the_same_rows() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = folder.path().join("rows.parquet");
    succeed(&output, &[]);
    let whole = fs::read(&output).expect("the rows were written");
    let journal = folder.path().join("rows.parquet.journal");
    let text = fs::read_to_string(&journal).expect("the journal was written");
    // The journal looks as after a kill during its sixth line.
    let half: String = text.lines().take(5).map(|line| format!("{line}\n")).collect::<String>() + &text[..40];
    fs::write(&journal, half).expect("the journal can be written");
    let said = succeed(&output, &[]);
    assert!(said.contains("5 of 12 calls are in the journal already"), "{said}");
    assert!(fs::read(&output).expect("the rows were written") == whole);
    let said = succeed(&output, &["--fresh"]);
    assert!(!said.contains("already"), "{said}");
}

#[test]
fn invalid_sweep_is_refused_before_any_call() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = folder.path().join("rows.parquet");
    for (more, message) in [
        (["--traces", "nosuchfile"], "no such file"),
        (["--controllers", "reno"], "unknown controller `reno`"),
        (["--seeds", "5-3"], "expected a range"),
        (["--seeds", "1-1000000,2000001-2000001"], "1000001 calls, more than 1000000"),
        (["--workers", "1000000"], "not an integer from 1 to 1024"),
        (["--on", "elsewhere"], "is not a cluster"),
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

#[cfg(unix)]
#[test]
fn pipes_and_cyclic_links_in_a_folder_of_traces_are_skipped() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    fs::create_dir_all(at("traces/sub")).expect("made");
    fs::write(at("traces/sub/a.csv"), "0,1\n1,2\n").expect("written");
    assert!(Command::new("mkfifo").arg(at("traces/pipe")).status().expect("there is mkfifo").success());
    symlink("..", at("traces/sub/around")).expect("linked");
    symlink("../..", at("traces/sub/further")).expect("linked");
    symlink("nowhere", at("traces/nothing")).expect("linked");
    symlink("sub/a.csv", at("traces/b.csv")).expect("linked");
    let run = Command::new(env!("CARGO_BIN_EXE_lockstep"))
        .args(["sweep", "--seconds", "1", "--traces", "traces", "--output", "rows.parquet"])
        .current_dir(folder.path())
        .output()
        .expect("the command starts");
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(run.status.success(), "{said}");
    assert_eq!(said.matches("lockstep: skipped").count(), 3, "{said}");
    assert!(String::from_utf8_lossy(&run.stdout).contains("2 calls in rows.parquet"), "two traces, each once");
}

#[test]
fn contradicting_options_are_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (words, message) in [
        (&["sweep", "--codec", "conventional"][..], "--codecs"),
        (&["sweep", "--modelled", "--codecs", "functional"], "--modelled contradicts --codecs functional"),
        (&["sweep", "--controllers", "gcc", "--estimator", "a.py"], "cannot be used with '--estimator"),
        (&["sources", "--controller", "nada"], "decides --controller itself"),
        (&["sources", "--coded", "--menu", "serial"], "--menu does not apply"),
        (&["study", "salsify", "--codec", "conventional"], "decides --codec itself"),
        (&["study", "salsify", "--grace-period", "none"], "decides --grace-period itself"),
        (&["sources", "--latency", "low"], "decides --latency itself"),
        (&["sources", "--links", "returning", "--coded"], "--traces and --coded require varying links"),
        (
            &["sweep", "--controllers", "sprout,gcc", "--latency", "low"],
            "--latency is for the controller sprout or lockstep, not for gcc",
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
    for words in [
        &["--modelled"][..],
        &["--modelled", "--menu", "serial"],
        &["--codecs", "modelled,functional", "--preset", "quality"],
    ] {
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

/// Columns of the first row of a sweep, as text.
fn first_row(path: &Path) -> BTreeMap<String, String> {
    let reader = SerializedFileReader::new(File::open(path).expect("rows")).expect("Parquet");
    let row = reader.get_row_iter(None).expect("rows").next().expect("a row").expect("readable");
    row.get_column_iter().map(|(name, value)| (name.clone(), value.to_string())).collect()
}

#[test]
fn row_records_every_setting() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = folder.path().join("rows.parquet");
    let words =
        ["--codecs", "functional", "--clip", "generated:64x48@30", "--seconds", "1", "--trace", "constant:1mbps"];
    let link = ["--burst-loss", "1%,30%", "--loss-at", "500ms+100ms", "--reorder", "1%,15ms", "--queue-bytes", "9000"];
    let codec = ["--controller", "salsify", "--menu", "fit", "--fit-passes", "2", "--grace-period", "none"];
    run_in(folder.path(), &[&words[..], &link, &codec, &["--output", "rows.parquet"]].concat());
    let row = first_row(&output);
    for (name, value) in [
        ("controller", "\"salsify-no-grace\""),
        ("codec", "\"functional\""),
        ("modelled", "false"),
        ("seconds", "1.0"),
        ("menu", "\"fit\""),
        ("fit_passes", "2"),
        ("grace_period", "\"none\""),
        ("burst_loss", "\"[0.01,0.3]\""),
        ("queue_bytes", "9000"),
        ("max_bitrate", "\"auto\""),
        ("estimator", "\"\""),
        ("estimator_hash", "\"\""),
    ] {
        assert_eq!(row.get(name).map(String::as_str), Some(value), "{name}: {row:?}");
    }
    assert!(row["loss_at"].len() > 4 && row["reorder"].len() > 4, "{row:?}");
    assert!(row.contains_key("displayed_delay_ms_p95") && row.contains_key("freezes_longest_seconds"));
}

#[test]
fn edited_estimator_runs_again_and_its_row_names_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("written");
    let source = "import rate\nclass Estimator:\n    def report_states(self, stats): pass\n    \
                  def get_estimated_bandwidth(self): return rate.RATE\n";
    write("mine.py", source);
    write("rate.py", "RATE = 400000\n");
    let words = ["--estimator", "mine.py", "--trace", "constant:1mbps", "--seconds", "3", "--output", "rows.parquet"];
    run_in(folder.path(), &words);
    let first = first_row(&folder.path().join("rows.parquet"));
    assert_eq!((first["controller"].as_str(), first["estimator"].as_str()), ("\"receiver-estimate\"", "\"mine.py\""));
    assert_eq!(first["name"], "\"mine.py\"");
    assert_eq!(first["estimator_hash"].len(), 66, "{}", first["estimator_hash"]);
    assert!(run_in(folder.path(), &words).contains("1 of 1 calls are in the journal already"));
    // An imported file decides.
    write("rate.py", "RATE = 700000\n");
    assert!(!run_in(folder.path(), &words).contains("already"));
    let edited = first_row(&folder.path().join("rows.parquet"));
    assert_ne!(edited["estimator_hash"], first["estimator_hash"]);
    let rate = |row: &BTreeMap<String, String>| row["throughput_bps"].parse::<f64>().expect("a rate");
    assert!(rate(&edited) > 1.3 * rate(&first), "{} {}", rate(&edited), rate(&first));
}

#[test]
fn estimators_of_one_sweep_have_different_names() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, rate) in [("a", "300000"), ("b", "600000")] {
        fs::create_dir(folder.path().join(name)).expect("made");
        let source = format!(
            "class Estimator:\n    def report_states(self, stats): pass\n    \
             def get_estimated_bandwidth(self): return {rate}\n"
        );
        fs::write(folder.path().join(name).join("mine.py"), source).expect("written");
    }
    let words = ["--controllers", "estimator:a/mine.py,estimator:b/mine.py,steady=fixed:1mbps"];
    let call = ["--trace", "constant:1mbps", "--seconds", "2", "--output", "rows.parquet"];
    let table = run_in(folder.path(), &[&words[..], &call].concat());
    let reader =
        SerializedFileReader::new(File::open(folder.path().join("rows.parquet")).expect("rows")).expect("Parquet");
    let rows = reader.get_row_iter(None).expect("rows").map(|row| row.expect("readable"));
    let names: Vec<String> = rows.map(|row| row.get_string(0).expect("a name").clone()).collect();
    assert_eq!(names, ["a/mine.py", "b/mine.py", "steady"]);
    for name in names {
        assert!(table.lines().any(|line| line.starts_with(&name)), "{name}: {table}");
    }
}

#[test]
fn edited_codec_model_runs_again() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let model = CodecModel::built_in().expect("a model");
    let model = serde_json::to_string(&model).expect("JSON");
    fs::write(folder.path().join("model.json"), &model).expect("written");
    let words =
        ["--codec-model", "model.json", "--trace", "constant:1mbps", "--seconds", "2", "--output", "rows.parquet"];
    run_in(folder.path(), &words);
    let first = first_row(&folder.path().join("rows.parquet"));
    assert_eq!((first["codec_model"].as_str(), first["codec_model_hash"].len()), ("\"model.json\"", 66));
    assert!(run_in(folder.path(), &words).contains("already"));
    fs::write(folder.path().join("model.json"), format!("{model}\n")).expect("written");
    assert!(!run_in(folder.path(), &words).contains("already"));
    let refused = command(folder.path(), &["--codecs", "functional", "--codec-model", "model.json"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("--codec-model applies to none of the codecs"), "{said}");
}

#[cfg(unix)]
#[test]
fn jobs_on_another_machine_give_the_same_rows() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().expect("a temporary folder");
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("written");
    // Instead of Ray, a local machine runs all jobs, and its estimators with Python, as a cluster does.
    write(
        "python",
        "#!/bin/sh\n[ \"$1\" = -m ] || exec python3 \"$@\"\n\
         test \"$2 $3 $4 $5\" = 'lockstep.sweep_ray --address ray://local --jobs' || exit 9\n\
         exec \"$8\" sweep --workers 1 --job-file \"$6\"\n",
    );
    let program = folder.path().join("python");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("permissions");
    write(
        "mine.py",
        "class Estimator:\n    def report_states(self, stats): pass\n    def get_estimated_bandwidth(self): return 4e5\n",
    );
    let clip = ["--clip", "generated:64x48@30", "--traces", "constant:1mbps", "--seconds", "1", "--seeds", "1,2"];
    let link = ["--burst-loss", "1%,30%", "--loss-at", "500ms+100ms", "--reorder", "1%,15ms", "--queue-bytes", "9000"];
    let codecs = ["--codecs", "modelled,functional", "--menu", "serial"];
    for control in [["--controllers", "salsify-no-grace,sprout"], ["--estimator", "mine.py"]] {
        let words = [&clip[..], &link, &codecs, &control].concat();
        let run = |output: &str, on: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_lockstep"));
            command.arg("sweep").args(&words).args(["--output", output]).args(on).current_dir(folder.path());
            let run = command.env("LOCKSTEP_PYTHON", &program).output().expect("the command starts");
            assert!(run.status.success(), "{control:?} {on:?}: {}", String::from_utf8_lossy(&run.stderr));
            fs::read(folder.path().join(output)).expect("the rows were written")
        };
        let here = run("here.parquet", &["--fresh"]);
        assert!(run("there.parquet", &["--fresh", "--on", "ray://local"]) == here, "{control:?}");
    }
}

#[test]
fn each_call_of_a_sweep_writes_a_requested_session_log() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = folder.path().join("rows.parquet");
    let names = |kind: &str| -> Vec<String> {
        let entries = fs::read_dir(folder.path().join("logs").join(kind)).expect("the logs are there");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    };
    succeed(&output, &[]);
    let logs = folder.path().join("logs").to_string_lossy().into_owned();
    // Calls in the journal run again, because their logs do not exist yet.
    let words = ["--session-log", logs.as_str(), "--session-label", "access=4g"];
    succeed(&output, &words);
    let sessions = names("sessions");
    assert_eq!(sessions.len(), 12);
    assert!(
        sessions.iter().all(|name| name.starts_with("modelled-") && name.ends_with("-both.parquet")),
        "{sessions:?}"
    );
    assert_eq!(names("seconds").len(), 12);
    let said = succeed(&output, &words);
    assert!(said.contains("12 of 12 calls are in the journal already"), "{said}");
    let refused = sweep(&output, &["--on", "ray://local", "--session-log", &logs]);
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--session-log"), "{refused:?}");
}
