//! Runs the command, and reads what it says and writes.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use lockstep_av1::Av1;

/// The command, with its streams piped.
pub fn lockstep(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockstep"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// What it wrote to standard error.
pub fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The path as an argument.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("a temporary folder's name is UTF-8")
}

/// The JSON of a file.
pub fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).expect("it was written")).expect("it is JSON")
}

/// Sends a signal, such as `TERM`.
pub fn signal(process: &Child, name: &str) {
    let status = Command::new("kill").args([format!("-{name}"), process.id().to_string()]).status();
    assert!(status.expect("there is `kill`").success());
}

/// Reads lines until one contains `what`.
pub fn wait_for(child: &mut Child, what: &str) -> String {
    let lines = BufReader::new(child.stdout.as_mut().expect("it is piped")).lines();
    lines.map_while(Result::ok).find(|line| line.contains(what)).expect("it prints the line before it ends")
}

/// Codecs of live calls: AV1 takes the libraries of the system.
pub fn codecs() -> &'static [&'static str] {
    if Av1::check_libraries().is_ok() { &["functional", "av1"] } else { &["functional"] }
}
