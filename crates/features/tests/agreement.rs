//! Checks that the command, the extension and the tests request the same features of every shared crate.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// What `cargo tree` with `arguments` lists: each crate with its version, and its sets of features.
fn built_from(arguments: &[&str]) -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--offline", "--prefix", "none", "--format", "{p}|{f}"])
        .args(arguments)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .output()
        .expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut crates = BTreeMap::<String, BTreeSet<String>>::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        if let Some((name, features)) = line.trim_end_matches(" (*)").split_once('|') {
            crates.entry(name.to_owned()).or_default().insert(features.to_owned());
        }
    }
    crates
}

/// Asserts that the build of `package` requests of each crate what the tests of the workspace request.
///
/// Cargo unites the features of programs apart from those of build scripts and macros. So programs are compared alone
/// first.
fn assert_agrees_with_tests(package: &str) {
    for edges in ["normal,no-proc-macro", "normal,build"] {
        let build = built_from(&["--package", package, "--edges", edges]);
        let tests = built_from(&["--workspace", "--edges", &format!("{edges},dev")]);
        assert!(build.keys().any(|name| name.starts_with("lockstep-vp8 ")), "{build:?}");
        let twice: Vec<String> = build
            .iter()
            .filter(|&(name, features)| !features.is_subset(&tests[name]))
            .map(|(name, features)| format!("{name}: {package} has {features:?}, the tests {:?}", tests[name]))
            .collect();
        assert!(
            twice.is_empty(),
            "crates that are compiled twice, like all crates that depend on them; add their features to crates/features/Cargo.toml:\n{}",
            twice.join("\n")
        );
    }
}

#[test]
fn command_and_tests_have_equal_features_in_shared_crates() {
    assert_agrees_with_tests("lockstep-cli");
}

#[test]
fn extension_and_tests_have_equal_features_in_shared_crates() {
    assert_agrees_with_tests("lockstep-python");
}
