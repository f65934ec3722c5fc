//! The command and the extension ask for the same features of every crate that both stand on.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// What `package` is built from, each crate with its version and the sets of features that it is built with.
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
fn what_the_command_and_the_extension_share_is_compiled_once() {
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
        "these, and all above them, are compiled twice; name their features in crates/features/Cargo.toml:\n{}",
        twice.join("\n")
    );
}
