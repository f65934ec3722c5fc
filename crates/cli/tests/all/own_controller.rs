//! The command with external controllers.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use lockstep_control::{Controllers, Fixed, Registration};
use lockstep_units::Bitrate;

/// Whether the command `words` succeeds with a controller `mine`.
fn succeeds(words: &[&str]) -> bool {
    let rate = Bitrate::from_kbps(700);
    let mine = Registration::new("mine", "always 700 kb/s", move |setting| Box::new(Fixed::new(rate, setting)));
    let controllers = Controllers::default().with(mine).unwrap();
    let words = std::iter::once("lockstep").chain(words.iter().copied()).map(Into::into);
    lockstep_cli::run(words, &controllers) == ExitCode::SUCCESS
}

fn document(path: &Path) -> serde_json::Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

const CALL: [&str; 5] =
    ["--clip=generated:320x240@30", "--seconds=3", "--trace=constant:2mbps", "--controller", "mine"];

#[test]
fn registered_controller_joins_simulate_and_scenario() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("call.json");
    let output = format!("--json={}", json.display());
    assert!(succeeds(&[&["simulate", "--modelled", &output], &CALL[..]].concat()));
    assert_eq!(document(&json)["config"]["controller"], "mine");
    assert!(succeeds(&["scenario", "run", "same-controller", "--seconds=3", "--controller=mine", &output]));
    assert_eq!(document(&json)["config"]["controller"], "mine");
    assert!(succeeds(&["controllers", &output]));
    let names = document(&json);
    assert!(names.as_array().unwrap().iter().any(|row| row["name"] == "mine"), "{names}");
    assert!(!succeeds(&["simulate", "--modelled", "--controller=theirs", "--seconds=3"]));
}

/// Sweeps `controllers`, and returns the length of the file of rows if every call succeeds.
fn swept(folder: &Path, controllers: &str) -> Option<u64> {
    let output = folder.join("rows.parquet");
    let output_word = format!("--output={}", output.display());
    let sweep = ["sweep", "--controllers", controllers, "--seeds=1-2", "--workers=1", &output_word];
    succeeds(&[&sweep, &CALL[..3]].concat()).then(|| fs::metadata(output).unwrap().len())
}

#[test]
fn registered_controller_joins_a_sweep() {
    let folder = tempfile::tempdir().unwrap();
    assert!(swept(folder.path(), "mine,other=mine").is_some_and(|length| length > 0));
    assert!(swept(folder.path(), "mine,theirs").is_none());
}

#[cfg(unix)]
#[test]
fn program_joins_a_sweep_and_its_failure_fails_the_sweep() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    let source = "#!/usr/bin/env python3\nimport sys\nfor line in sys.stdin:\n    \
                  print('{\"target_bps\": 6e5}', flush=True)\n";
    fs::write(&program, source).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let word = format!("gcc,mine=program:{}", program.display());
    assert!(swept(folder.path(), &word).is_some_and(|length| length > 0));
    // Other contents of the program mean another call.
    fs::write(&program, source.replace("print", "sys.exit('enough') or print")).unwrap();
    assert!(swept(folder.path(), &word).is_none());
}
