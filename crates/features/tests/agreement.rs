//! Checks that command and extension request the same features of every shared crate.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Dependencies of `package`: each crate with its version, and its sets of features.
fn built_from(package: &str) -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--offline", "--package", package, "--edges", "normal,build"])
        .args(["--prefix", "none", "--no-dedupe", "--format", "{p}|{f}"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .output()
        .expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut crates = BTreeMap::<String, BTreeSet<String>>::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        if let Some((name, features)) = line.split_once('|') {
            crates.entry(name.to_owned()).or_default().insert(features.to_owned());
        }
    }
    crates
}

#[test]
fn shared_crates_have_equal_features_in_command_and_extension() {
    let (command, extension) = (built_from("lockstep-cli"), built_from("lockstep-python"));
    let shared: Vec<&String> = command.keys().filter(|name| extension.contains_key(*name)).collect();
    assert!(shared.iter().any(|name| name.starts_with("lockstep-vp8 ")), "{shared:?}");
    let twice: Vec<String> = shared
        .into_iter()
        .filter(|&name| command[name] != extension[name])
        .map(|name| format!("{name}: the command has {:?}, the extension {:?}", command[name], extension[name]))
        .collect();
    assert!(
        twice.is_empty(),
        "crates that are compiled twice, like all crates that depend on them; add their features to crates/features/Cargo.toml:\n{}",
        twice.join("\n")
    );
}
