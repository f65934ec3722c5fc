//! Estimators written for AlphaRTC, in simulated calls.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// Follows the delivery rate: 90 % of it while delays grow, more than it otherwise. The constants are in a file in its
/// folder.
const FOLLOWING: &str = "
import json
from datetime import datetime

CONSTANTS = json.load(open('constants.json'))

class Estimator(object):
    def __init__(self):
        self.packets, self.started_at = [], datetime.now()

    def report_states(self, stats):
        self.packets.append(stats)

    def get_estimated_bandwidth(self):
        assert (datetime.now() - self.started_at).total_seconds() < 60
        packets, self.packets = self.packets, []
        if len(packets) < 2:
            return CONSTANTS['least']
        size = sum(packet['payload_size'] + packet['header_length'] for packet in packets)
        delays = [packet['arrival_time_ms'] - packet['send_time_ms'] for packet in packets]
        factor = CONSTANTS['up'] if max(delays) < 100 else CONSTANTS['down']
        return max(CONSTANTS['least'], 8 * size / 0.2 * factor), delays
";

fn simulate(estimator: &Path, json: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockstep"));
    command.args(["simulate", "--clip", "generated:160x96@30", "--trace", "steps:300kbps@4s/600kbps@4s"]);
    // The test covers the estimator's choices, not the maximum rate.
    command.args(["--max-bitrate", "none"]);
    command.args(["--seconds", "8", "--seed", "5"]).arg("--estimator").arg(estimator).arg("--json").arg(json);
    command.output().expect("the command starts")
}

#[test]
fn alphartc_estimator_controls_the_rate_reproducibly() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("BandwidthEstimator.py"), FOLLOWING).expect("written");
    let constants = |least: u64| {
        let text = format!("{{\"least\": {least}, \"up\": 1.3, \"down\": 0.9}}");
        fs::write(folder.path().join("constants.json"), text).expect("written");
    };
    let run = |name: &str| {
        let json = folder.path().join(name);
        let output = simulate(folder.path(), &json);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        fs::read(json).expect("the scores were written")
    };
    constants(100_000);
    let first = run("first.json");
    assert!(first == run("second.json"));
    let report: Value = serde_json::from_slice(&first).expect("JSON");
    assert!(report["throughput_bps"].as_u64() > Some(150_000), "{}", report["throughput_bps"]);
    assert_eq!(report["config"]["controller"], "receiver-estimate");
    constants(90_000_000);
    let flooded: Value = serde_json::from_slice(&run("flooded.json")).expect("JSON");
    let delay = |report: &Value| report["video_delay_ms"]["p95"].as_f64().expect("a delay");
    assert!(delay(&flooded) > 2.0 * delay(&report), "{} and {} ms", delay(&flooded), delay(&report));
}

#[test]
fn failing_estimator_ends_its_call_with_one_line() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("mine.py");
    let source = "class Estimator:\n    def report_states(self, stats): pass\n    def get_estimated_bandwidth(self): return None\n";
    fs::write(&path, source).expect("written");
    let output = simulate(&path, &folder.path().join("scores.json"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(said.contains("mine.py: get_estimated_bandwidth returned None"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(!folder.path().join("scores.json").exists());
}
