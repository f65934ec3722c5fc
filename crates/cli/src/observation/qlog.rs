//! qlog: what QUIC says of its packets (draft-ietf-quic-qlog-main-schema, as JSON text sequences of RFC 7464), and between these
//! events of our own under the name `lockstep`, which the schema leaves to whoever has some. qvis reads it.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::{Value, json};

use lockstep_call::{FrameRecord, Outcome};
use lockstep_live::{Qlog, Shown};
use lockstep_runner::line_writer::Lines;
use lockstep_runner::live_stats::Sample;
use lockstep_units::Timestamp;

/// What each record of a JSON text sequence begins with (RFC 7464).
const RECORD: u8 = 0x1e;
/// What QUIC says of its window here, where Lockstep's controller decides and QUIC has none: no number, and no reader of JSON can
/// hold it.
const NO_WINDOW: &str = "\"congestion_window\":18446744073709551615";

/// The name of the events that have round-trip times.
const METRICS: &[u8] = b"\"recovery:metrics_updated\"";

/// Writes what QUIC logs, record by record.
struct QuicLog {
    lines: Lines,
    /// Which end this is, in the schema's words.
    vantage_point: &'static str,
    begun: bool,
    unfinished: Vec<u8>,
}

/// Where QUIC logs into `lines`, at an end that joins or one that listens.
pub fn quic_log(lines: Lines, joins: bool) -> Qlog {
    let vantage_point = if joins { "client" } else { "server" };
    Box::new(QuicLog { lines, vantage_point, begun: false, unfinished: Vec::new() })
}

impl QuicLog {
    fn record(&mut self, record: Vec<u8>) {
        let record = if std::mem::replace(&mut self.begun, true) {
            in_milliseconds(without_window(record))
        } else {
            with_vantage_point(&record, self.vantage_point).unwrap_or(record)
        };
        self.lines.push(record);
    }
}

/// The first record, saying which end this is, and on which clock the times are.
fn with_vantage_point(header: &[u8], vantage_point: &str) -> Option<Vec<u8>> {
    let mut header: Value = serde_json::from_slice(header.strip_prefix(&[RECORD])?).ok()?;
    let trace = header.get_mut("trace")?.as_object_mut()?;
    trace.insert("vantage_point".to_owned(), json!({ "name": "lockstep", "type": vantage_point }));
    trace.insert("common_fields".to_owned(), json!({ "protocol_type": ["QUIC"], "time_format": "relative" }));
    Some(record(&header))
}

/// An event of QUIC's without a window that is none.
fn without_window(record: Vec<u8>) -> Vec<u8> {
    match String::from_utf8(record) {
        Ok(text) if text.contains(NO_WINDOW) => {
            let comma = format!("{NO_WINDOW},");
            let text =
                if text.contains(&comma) { text.replacen(&comma, "", 1) } else { text.replacen(NO_WINDOW, "", 1) };
            text.replace(",}", "}").into_bytes()
        }
        Ok(text) => text.into_bytes(),
        Err(error) => error.into_bytes(),
    }
}

/// An event of QUIC's with its round-trip times in milliseconds, which the schema asks for: quinn-proto 0.11 writes seconds.
fn in_milliseconds(event: Vec<u8>) -> Vec<u8> {
    let is_told = event.windows(METRICS.len()).any(|window| window == METRICS);
    let parsed = is_told.then(|| serde_json::from_slice::<Value>(event.strip_prefix(&[RECORD])?).ok()).flatten();
    let Some(mut parsed) = parsed else { return event };
    for name in ["min_rtt", "smoothed_rtt", "latest_rtt", "rtt_variance"] {
        if let Some(time) = parsed.get_mut("data").and_then(|data| data.get_mut(name))
            && let Some(seconds) = time.as_f64()
        {
            // To the microsecond: more is what is left of single precision.
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
    // What is written here has names for keys, and so never fails.
    let _ = serde_json::to_writer(&mut record, value);
    record.push(b'\n');
    record
}

/// An event of our own.
fn event(at: Timestamp, name: &str, data: &impl Serialize) -> Vec<u8> {
    record(&json!({ "time": at.as_secs_f64() * 1e3, "name": format!("lockstep:{name}"), "data": data }))
}

/// What is known of the call at a moment.
pub fn sample(sample: &Sample) -> Vec<u8> {
    record(&json!({ "time": sample.timestamp, "name": "lockstep:stats_updated", "data": sample }))
}

/// A frame was sent, or a picture was not.
pub fn captured(captured: &FrameRecord) -> Vec<u8> {
    let at = captured.sent_at.unwrap_or(captured.captured_at);
    let name = if captured.outcome == Outcome::Sent { "frame_sent" } else { "frame_skipped" };
    let data = json!({
        "capture": captured.capture, "frame": captured.frame, "outcome": captured.outcome,
        "key_frame": captured.key_frame, "recovery": captured.recovery, "quantizer": captured.quantizer,
        "budget": captured.budget, "limited_by": captured.limited_by, "length": captured.size, "fragments": captured.fragments,
        "parity": captured.parity,
    });
    event(at, name, &data)
}

/// A picture was shown.
pub fn shown(shown: &Shown, delay: f64) -> Vec<u8> {
    event(shown.record.displayed_at, "frame_shown", &json!({ "frame": shown.record.frame, "delay": delay * 1e3 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_record_says_which_end_it_is_and_windows_without_bound_are_left_out() {
        let header = b"\x1e{\"qlog_version\":\"0.3\",\"qlog_format\":\"JSON-SEQ\",\"trace\":{\"vantage_point\":{\"type\":\"unknown\"}}}\n";
        let header = with_vantage_point(header, "client").expect("it is a header");
        let (first, rest) = header.split_first().expect("not empty");
        let header: Value = serde_json::from_slice(rest).expect("JSON");
        assert_eq!((*first, header["trace"]["vantage_point"]["type"].as_str()), (RECORD, Some("client")));
        for (given, left) in [
            (format!("{{\"a\":1,{NO_WINDOW},\"b\":2}}"), "{\"a\":1,\"b\":2}"),
            (format!("{{\"a\":1,{NO_WINDOW}}}"), "{\"a\":1}"),
            (format!("{{{NO_WINDOW}}}"), "{}"),
            ("{\"a\":1}".to_owned(), "{\"a\":1}"),
        ] {
            assert_eq!(without_window(given.into_bytes()), left.as_bytes());
        }
    }

    #[test]
    fn round_trip_times_are_milliseconds_as_the_schema_has_them() {
        let told = |name: &str, rtt: &str| {
            format!("\u{1e}{{\"time\":1.5,\"name\":\"{name}\",\"data\":{{\"min_rtt\":{rtt},\"bytes_in_flight\":9}}}}\n")
        };
        let given = told("recovery:metrics_updated", "0.040123");
        assert_eq!(in_milliseconds(given.into_bytes()), told("recovery:metrics_updated", "40.123").into_bytes());
        for other in [told("transport:packet_sent", "0.04"), "no record, \"recovery:metrics_updated\"".to_owned()] {
            assert_eq!(in_milliseconds(other.clone().into_bytes()), other.into_bytes());
        }
    }
}
