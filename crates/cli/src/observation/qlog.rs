//! qlog: QUIC's events on its packets, and events of this program named `lockstep`, which the schema allows.
//!
//! The format is draft-ietf-quic-qlog-main-schema, as JSON text sequences (RFC 7464). qvis reads it.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::{Value, json};

use lockstep_call::{FrameRecord, Outcome};
use lockstep_live::{Qlog, Shown};
use lockstep_runner::line_writer::Lines;
use lockstep_runner::live_stats::Sample;
use lockstep_units::Timestamp;

/// First byte of each record of a JSON text sequence (RFC 7464).
const RECORD: u8 = 0x1e;
/// Name of the events with round-trip times and congestion windows.
const METRICS: &[u8] = b"\"recovery:metrics_updated\"";

/// Writer of QUIC's log, record by record.
struct QuicLog {
    lines: Lines,
    /// Vantage point of this end, as in the schema.
    vantage_point: &'static str,
    begun: bool,
    unfinished: Vec<u8>,
}

/// Log of QUIC into `lines`, for an end that joins or one that listens.
pub fn quic_log(lines: Lines, joins: bool) -> Qlog {
    let vantage_point = if joins { "client" } else { "server" };
    Box::new(QuicLog { lines, vantage_point, begun: false, unfinished: Vec::new() })
}

impl QuicLog {
    fn record(&mut self, record: Vec<u8>) {
        let record = if std::mem::replace(&mut self.begun, true) {
            corrected(record)
        } else {
            with_vantage_point(&record, self.vantage_point).unwrap_or(record)
        };
        self.lines.push(record);
    }
}

/// The first record with the vantage point and the clock of the times.
fn with_vantage_point(header: &[u8], vantage_point: &str) -> Option<Vec<u8>> {
    let mut header: Value = serde_json::from_slice(header.strip_prefix(&[RECORD])?).ok()?;
    let trace = header.get_mut("trace")?.as_object_mut()?;
    trace.insert("vantage_point".to_owned(), json!({ "name": "lockstep", "type": vantage_point }));
    trace.insert("common_fields".to_owned(), json!({ "protocol_type": ["QUIC"], "time_format": "relative" }));
    Some(record(&header))
}

/// An event of QUIC with round-trip times in milliseconds, as the schema requires: quinn-proto 0.11 writes seconds. Its
/// congestion window is removed: it is unlimited, because Lockstep's controller decides, and no reader of JSON can
/// represent its number.
fn corrected(event: Vec<u8>) -> Vec<u8> {
    let is_metrics = event.windows(METRICS.len()).any(|window| window == METRICS);
    let parsed = is_metrics.then(|| serde_json::from_slice::<Value>(event.strip_prefix(&[RECORD])?).ok()).flatten();
    let Some(mut parsed) = parsed else { return event };
    if let Some(data) = parsed.get_mut("data").and_then(Value::as_object_mut) {
        data.remove("congestion_window");
    }
    for name in ["min_rtt", "smoothed_rtt", "latest_rtt", "rtt_variance"] {
        if let Some(time) = parsed.get_mut("data").and_then(|data| data.get_mut(name))
            && let Some(seconds) = time.as_f64()
        {
            // Rounded to microseconds, the precision of single-precision seconds.
            *time = json!((1e6 * seconds).round() / 1e3);
        }
    }
    record(&parsed)
}

impl Write for QuicLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for &byte in bytes {
            self.unfinished.push(byte);
            if byte == b'\n' {
                let record = std::mem::take(&mut self.unfinished);
                self.record(record);
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn record(value: &impl Serialize) -> Vec<u8> {
    let mut record = vec![RECORD];
    // Serialization cannot fail: all keys are strings.
    let _ = serde_json::to_writer(&mut record, value);
    record.push(b'\n');
    record
}

/// An event of this program.
fn event(at: Timestamp, name: &str, data: &impl Serialize) -> Vec<u8> {
    record(&json!({ "time": at.as_secs_f64() * 1e3, "name": format!("lockstep:{name}"), "data": data }))
}

/// Event with a sample of the call.
pub fn sample(sample: &Sample) -> Vec<u8> {
    record(&json!({ "time": sample.timestamp, "name": "lockstep:stats_updated", "data": sample }))
}

/// Event for a sent frame or a skipped picture.
pub fn captured(stream: usize, captured: &FrameRecord) -> Vec<u8> {
    let at = captured.sent_at.unwrap_or(captured.captured_at);
    let name = if captured.outcome == Outcome::Sent { "frame_sent" } else { "frame_skipped" };
    let data = json!({
        "stream": stream, "capture": captured.capture, "frame": captured.frame, "outcome": captured.outcome,
        "key_frame": captured.key_frame, "recovery": captured.recovery, "quantizer": captured.quantizer,
        "budget": captured.budget, "limited_by": captured.limited_by, "length": captured.size, "fragments": captured.fragments,
        "parity": captured.parity,
    });
    event(at, name, &data)
}

/// Event for a shown picture.
pub fn shown(stream: usize, shown: &Shown, delay: f64) -> Vec<u8> {
    let data = json!({ "stream": stream, "frame": shown.record.frame, "delay": delay * 1e3 });
    event(shown.record.displayed_at, "frame_shown", &data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_record_names_its_end() {
        let header = b"\x1e{\"qlog_version\":\"0.3\",\"qlog_format\":\"JSON-SEQ\",\"trace\":{\"vantage_point\":{\"type\":\"unknown\"}}}\n";
        let header = with_vantage_point(header, "client").expect("it is a header");
        let (first, rest) = header.split_first().expect("not empty");
        let header: Value = serde_json::from_slice(rest).expect("JSON");
        assert_eq!((*first, header["trace"]["vantage_point"]["type"].as_str()), (RECORD, Some("client")));
    }

    #[test]
    fn round_trip_times_are_in_milliseconds_and_windows_are_removed() {
        let told = |name: &str, rtt: &str, more: &str| {
            format!(
                "\u{1e}{{\"time\":1.5,\"name\":\"{name}\",\"data\":{{\"min_rtt\":{rtt},\"bytes_in_flight\":9{more}}}}}\n"
            )
        };
        let metrics = "recovery:metrics_updated";
        let given = told(metrics, "0.040123", ",\"congestion_window\":18446744073709551613");
        assert_eq!(corrected(given.into_bytes()), told(metrics, "40.123", "").into_bytes());
        for other in [told("transport:packet_sent", "0.04", ""), format!("no record, \"{metrics}\"")] {
            assert_eq!(corrected(other.clone().into_bytes()), other.into_bytes());
        }
    }
}
