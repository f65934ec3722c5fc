//! Numbers of a call or a rendezvous in Prometheus' text format 0.0.4.

use std::fmt::Write;

use serde_json::Value;

use lockstep_live::RendezvousStatus;
use lockstep_runner::live_stats::Sample;

/// Content type of the format.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// How a number changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A number that only grows during a call.
    Counter,
    /// A number that rises and falls.
    Gauge,
}

/// A metric: JSON path in a [`Sample`] or a [`RendezvousStatus`], name, kind, help, and factor to base units.
type Metric = (&'static str, &'static str, Kind, &'static str, f64);

use Kind::{Counter, Gauge};

/// Metrics of a call.
const METRICS: [Metric; 38] = [
    ("/timestamp", "call_seconds", Gauge, "Time since this end started.", 1e-3),
    ("/outbound/framesSent", "outbound_frames_total", Counter, "Frames sent.", 1.0),
    ("/outbound/keyFramesEncoded", "outbound_key_frames_total", Counter, "Key frames among them.", 1.0),
    ("/outbound/framesPerSecond", "outbound_frames_per_second", Gauge, "Frames sent in the last second.", 1.0),
    ("/outbound/qpSum", "outbound_quantizer_sum_total", Counter, "Sum of the quantizers of frames sent.", 1.0),
    ("/outbound/quantizer", "outbound_quantizer", Gauge, "Quantizer index (0-127) of the last frame sent.", 1.0),
    ("/outbound/packetsSent", "outbound_packets_total", Counter, "Fragments and packets of sound sent.", 1.0),
    (
        "/outbound/retransmittedPacketsSent",
        "outbound_retransmitted_packets_total",
        Counter,
        "Retransmitted packets.",
        1.0,
    ),
    ("/outbound/bytesSent", "outbound_bytes_total", Counter, "Their bytes.", 1.0),
    ("/outbound/targetBitrate", "outbound_target_bits_per_second", Gauge, "The controller's target.", 1.0),
    ("/outbound/packetsLost", "outbound_packets_lost", Gauge, "Packets declared lost.", 1.0),
    ("/outbound/roundTripTime", "outbound_round_trip_seconds", Gauge, "Smoothed round-trip time.", 1.0),
    ("/outbound/frameBudget", "outbound_frame_budget_bytes", Gauge, "Budget of the last frame sent.", 1.0),
    ("/outbound/frameBytes", "outbound_frame_bytes", Gauge, "Size of the last frame sent.", 1.0),
    ("/outbound/limitedFrames", "outbound_limited_frames_total", Counter, "Pictures by binding limit.", 1.0),
    ("/outbound/muted", "outbound_muted", Gauge, "Whether this end's sound is muted.", 1.0),
    ("/outbound/cameraOff", "outbound_camera_off", Gauge, "Whether this end's camera is off.", 1.0),
    ("/outbound/recording", "outbound_recording", Gauge, "Whether this end records the call.", 1.0),
    ("/inbound/framesReceived", "inbound_frames_total", Counter, "Complete frames received.", 1.0),
    ("/inbound/framesDecoded", "inbound_frames_decoded_total", Counter, "Frames decoded.", 1.0),
    ("/inbound/framesDropped", "inbound_frames_dropped_total", Counter, "Frames dropped by a slow sink.", 1.0),
    ("/inbound/framesPerSecond", "inbound_frames_per_second", Gauge, "Pictures shown in the last second.", 1.0),
    ("/inbound/freezeCount", "inbound_freezes_total", Counter, "Freezes.", 1.0),
    ("/inbound/totalFreezesDuration", "inbound_freeze_seconds_total", Counter, "Total duration of freezes.", 1.0),
    ("/inbound/packetsReceived", "inbound_packets_total", Counter, "Fragments and sound packets received.", 1.0),
    ("/inbound/packetsLost", "inbound_packets_lost", Gauge, "Packets sent but not received.", 1.0),
    ("/inbound/jitter", "inbound_jitter_seconds", Gauge, "Jitter (RFC 3550).", 1.0),
    ("/inbound/videoDelay", "inbound_video_delay_seconds", Gauge, "From capture to display, last picture.", 1.0),
    ("/inbound/muted", "inbound_muted", Gauge, "Whether the other end is muted.", 1.0),
    ("/inbound/cameraOff", "inbound_camera_off", Gauge, "Whether the other end's camera is off.", 1.0),
    ("/inbound/recording", "inbound_recording", Gauge, "Whether the other end records the call.", 1.0),
    ("/transport/packetsSent", "transport_sent_packets_total", Counter, "UDP datagrams sent.", 1.0),
    ("/transport/bytesSent", "transport_sent_bytes_total", Counter, "Their bytes.", 1.0),
    ("/transport/packetsReceived", "transport_received_packets_total", Counter, "UDP datagrams received.", 1.0),
    ("/transport/bytesReceived", "transport_received_bytes_total", Counter, "Their bytes.", 1.0),
    ("/transport/relayed", "transport_relayed", Gauge, "Whether a rendezvous relays the call.", 1.0),
    ("/sound/packets", "sound_packets_total", Counter, "Packets of sound received.", 1.0),
    ("/sound/concealedShare", "sound_concealed_ratio", Gauge, "Share of concealed sound.", 1.0),
];

/// Metrics of a rendezvous.
const RENDEZVOUS_METRICS: [Metric; 7] = [
    ("/calls", "rendezvous_calls", Gauge, "Current calls, including those that wait.", 1.0),
    ("/codes", "rendezvous_codes", Gauge, "Current codes.", 1.0),
    ("/met", "rendezvous_met_total", Counter, "Calls whose ends have met.", 1.0),
    ("/relayed_packets", "rendezvous_relayed_packets_total", Counter, "Packets relayed.", 1.0),
    ("/relayed_bytes", "rendezvous_relayed_bytes_total", Counter, "Their bytes.", 1.0),
    ("/dropped_packets", "rendezvous_dropped_packets_total", Counter, "Packets dropped at the rate limits.", 1.0),
    ("/refused", "rendezvous_refused_total", Counter, "Announcements refused.", 1.0),
];

/// Metrics of a call as text.
pub fn text(sample: Option<&Sample>) -> String {
    let mut text = String::new();
    let value = sample.and_then(|sample| serde_json::to_value(sample).ok()).unwrap_or_default();
    let _ = writeln!(text, "# HELP lockstep_up Whether there is a call.\n# TYPE lockstep_up gauge");
    let _ = writeln!(text, "lockstep_up {}", u8::from(sample.is_some()));
    add(&mut text, &METRICS, &value);
    text
}

/// Metrics of a rendezvous as text.
pub fn rendezvous_text(status: &RendezvousStatus) -> String {
    let mut text = String::new();
    add(&mut text, &RENDEZVOUS_METRICS, &serde_json::to_value(status).unwrap_or_default());
    text
}

/// Labels and numbers of `value`, each with `label` in front.
fn series(label: &str, value: &Value) -> Vec<(String, f64)> {
    let number = |value: &Value| match value {
        Value::Number(number) => number.as_f64(),
        Value::Bool(flag) => Some(f64::from(u8::from(*flag))),
        _ => None,
    };
    let labels = |labels: &[&str]| {
        let labels: Vec<&str> = labels.iter().copied().filter(|label| !label.is_empty()).collect();
        if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) }
    };
    match value {
        Value::Object(by) => {
            let labelled = by.iter().filter_map(|(name, value)| Some((name, number(value)?)));
            labelled.map(|(name, number)| (labels(&[label, &format!("by=\"{name}\"")]), number)).collect()
        }
        value => number(value).map(|number| (labels(&[label]), number)).into_iter().collect(),
    }
}

/// Adds the metrics that `value` contains. Those of further streams have the label `stream`.
fn add(text: &mut String, metrics: &[Metric], value: &Value) {
    let streams = value.get("streams").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    for &(path, name, kind, help, unit) in metrics {
        let mut series: Vec<_> = value.pointer(path).map(|value| series("", value)).unwrap_or_default();
        for (at, stream) in streams.iter().enumerate() {
            let value = stream.pointer(path);
            series
                .extend(value.map(|value| self::series(&format!("stream=\"{}\"", at + 1), value)).unwrap_or_default());
        }
        if series.is_empty() {
            continue;
        }
        let kind = if kind == Counter { "counter" } else { "gauge" };
        let _ = writeln!(text, "# HELP lockstep_{name} {help}\n# TYPE lockstep_{name} {kind}");
        for (labels, number) in series {
            let _ = writeln!(text, "lockstep_{name}{labels} {}", number * unit);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use lockstep_control::LimitedBy;

    use lockstep_runner::live_stats::{Inbound, Outbound, Sample, StreamSample, Transport};

    use super::*;

    /// A sample with all fields.
    fn whole() -> Sample {
        let (round_trip_time, quantizer) = (Some(0.04), Some(30));
        let (frame_budget, frame_bytes) = (Some(5_000), Some(4_500));
        Sample {
            timestamp: 1_500.0,
            first: StreamSample {
                outbound: Some(Outbound {
                    round_trip_time,
                    quantizer,
                    frame_budget,
                    frame_bytes,
                    limited_by: Some(LimitedBy::Ceiling),
                    limited_frames: BTreeMap::from([(LimitedBy::Ceiling, 7), (LimitedBy::Silence, 2)]),
                    muted: true,
                    bytes_sent: 1 << 53,
                    ..Outbound::default()
                }),
                inbound: Some(Inbound { video_delay: Some(0.08), ..Inbound::default() }),
            },
            streams: Vec::new(),
            transport: Some(Transport::default()),
            sound: Some(lockstep_runner::live_stats::Sound::default()),
        }
    }

    fn paths(prefix: &str, value: &Value, into: &mut BTreeSet<String>) {
        match value {
            Value::Object(fields) if !prefix.ends_with("limitedFrames") => {
                fields.iter().for_each(|(name, value)| paths(&format!("{prefix}/{name}"), value, into));
            }
            _ => drop(into.insert(prefix.to_owned())),
        }
    }

    #[test]
    fn each_number_of_a_call_has_one_metric_and_one_name() {
        let mut known = BTreeSet::new();
        paths("", &serde_json::to_value(whole()).unwrap(), &mut known);
        // A word, not a number.
        assert!(known.remove("/outbound/limitedBy"));
        let listed: BTreeSet<String> = METRICS.iter().map(|(path, ..)| (*path).to_owned()).collect();
        assert_eq!(listed, known);
        let names: BTreeSet<&str> = METRICS.iter().map(|(_, name, ..)| *name).collect();
        assert_eq!(names.len(), METRICS.len());
        for (_, name, kind, help, _) in METRICS {
            assert_eq!(name.ends_with("_total"), kind == Counter, "{name}");
            assert!(name.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_') && !help.contains('\\'));
        }
    }

    #[test]
    fn text_has_lines_of_names_and_numbers_in_base_units() {
        let text = text(Some(&whole()));
        for line in ["lockstep_up 1", "lockstep_call_seconds 1.5", "lockstep_outbound_round_trip_seconds 0.04"] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
        assert!(text.contains("\nlockstep_outbound_bytes_total 9007199254740992\n"));
        assert!(text.contains("\nlockstep_outbound_limited_frames_total{by=\"ceiling\"} 7\n"), "{text}");
        assert!(text.contains("\nlockstep_outbound_muted 1\n") && text.ends_with('\n'));
        for line in text.lines().filter(|line| !line.starts_with("# ")) {
            let (name, number) = line.split_once(' ').expect("a name and a number");
            assert!(name.starts_with("lockstep_") && number.parse::<f64>().is_ok(), "{line}");
        }
        assert!(super::text(None).ends_with("lockstep_up 0\n"), "before the first sample");
    }

    #[test]
    fn metrics_of_further_streams_have_a_label() {
        let mut sample = whole();
        let mut rear = sample.first.clone();
        rear.outbound.get_or_insert_default().quantizer = Some(99);
        sample.streams = vec![StreamSample::default(), rear];
        let text = text(Some(&sample));
        let quantizers = "\nlockstep_outbound_quantizer 30\nlockstep_outbound_quantizer{stream=\"2\"} 99\n";
        assert!(text.contains(quantizers), "{text}");
        assert!(text.contains("\nlockstep_outbound_limited_frames_total{stream=\"2\",by=\"ceiling\"} 7\n"), "{text}");
        assert!(!text.contains("lockstep_transport_relayed{"), "{text}");
    }

    #[test]
    fn each_number_of_a_rendezvous_has_one_metric() {
        let value = serde_json::to_value(RendezvousStatus { met: 3, ..RendezvousStatus::default() }).unwrap();
        let mut all = BTreeSet::new();
        paths("", &value, &mut all);
        assert_eq!(all, RENDEZVOUS_METRICS.iter().map(|metric| metric.0.to_owned()).collect());
        let text = rendezvous_text(&RendezvousStatus { met: 3, ..RendezvousStatus::default() });
        assert!(
            text.contains("# TYPE lockstep_rendezvous_met_total counter\nlockstep_rendezvous_met_total 3\n"),
            "{text}"
        );
    }
}
