//! What a live call counts, a line of JSON a second, under the names that W3C's webrtc-stats has for it.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use lockstep_call::{FrameRecord, FreezeDetector, Outcome, ReceivedCounts, ReceivingEnd, SendingEnd, SentCounts};
use lockstep_units::Timestamp;

use crate::call_logs::LogWriter;

/// How often a line is written.
const INTERVAL: Duration = Duration::from_secs(1);

/// A line. Counters count from the beginning of the call; times are seconds, as in webrtc-stats.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    /// Milliseconds since this end began.
    timestamp: f64,
    /// `RTCOutboundRtpStreamStats` of what is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    outbound: Option<&'a Outbound>,
    /// `RTCInboundRtpStreamStats` of what is received.
    #[serde(skip_serializing_if = "Option::is_none")]
    inbound: Option<&'a Inbound>,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Outbound {
    frames_sent: u64,
    key_frames_encoded: u64,
    frames_per_second: u64,
    qp_sum: u64,
    packets_sent: u64,
    retransmitted_packets_sent: u64,
    bytes_sent: u64,
    target_bitrate: u64,
    /// Of `RTCRemoteInboundRtpStreamStats`, as the other end's acknowledgements tell.
    packets_lost: u64,
    round_trip_time: Option<f64>,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Inbound {
    frames_received: u64,
    frames_decoded: u64,
    frames_per_second: u64,
    freeze_count: u64,
    total_freezes_duration: f64,
    packets_received: u64,
    packets_lost: u64,
    jitter: f64,
}

/// Counts, and writes.
pub struct StatsLog {
    log: LogWriter,
    written_at: Timestamp,
    outbound: Option<Outbound>,
    inbound: Option<Inbound>,
    freezes: Option<FreezeDetector>,
    /// Pictures sent and shown since the last line.
    since: (u64, u64),
}

impl StatsLog {
    /// A log at `path`, or on standard output.
    pub fn create(path: &Path) -> Result<Self> {
        let log = LogWriter::create(path)?;
        Ok(Self { log, written_at: Timestamp::ZERO, outbound: None, inbound: None, freezes: None, since: (0, 0) })
    }

    /// What the end that sends is at.
    pub fn sending(&mut self, now: Timestamp, end: &SendingEnd) {
        let counted = SentCounts::of(end, now);
        let outbound = self.outbound.get_or_insert_default();
        outbound.frames_sent = end.statistics().frames;
        outbound.packets_sent = counted.packets;
        outbound.retransmitted_packets_sent = counted.retransmitted;
        outbound.bytes_sent = counted.bytes;
        outbound.target_bitrate = end.status(now).target.as_bps();
        outbound.packets_lost = counted.lost;
        outbound.round_trip_time = counted.round_trip_time.map(|time| time.as_secs_f64());
        self.write(now);
    }

    /// What the end that receives is at.
    pub fn receiving(&mut self, now: Timestamp, end: &ReceivingEnd) {
        let (frames, counted) = (end.statistics(), ReceivedCounts::of(end));
        if let Some(format) = end.format() {
            self.freezes.get_or_insert_with(|| FreezeDetector::new(format.frame_interval()));
        }
        let inbound = self.inbound.get_or_insert_default();
        inbound.frames_received = frames.frames;
        inbound.frames_decoded = frames.decoded;
        inbound.packets_received = counted.packets;
        inbound.packets_lost = counted.missing;
        inbound.jitter = counted.jitter.as_secs_f64();
        self.write(now);
    }

    /// All that is known of a picture of one's own.
    pub fn captured(&mut self, record: &FrameRecord) {
        if record.outcome != Outcome::Sent {
            return;
        }
        let outbound = self.outbound.get_or_insert_default();
        outbound.key_frames_encoded += u64::from(record.key_frame);
        outbound.qp_sum += u64::from(record.quantizer.unwrap_or(0));
        self.since.0 += 1;
    }

    /// A picture of the other's is shown.
    pub fn shown(&mut self, at: Timestamp) {
        let inbound = self.inbound.get_or_insert_default();
        self.since.1 += 1;
        if let Some(freeze) = self.freezes.as_mut().and_then(|freezes| freezes.shown(at)).filter(|shown| shown.frozen) {
            inbound.freeze_count += 1;
            inbound.total_freezes_duration += freeze.length.as_secs_f64();
        }
    }

    fn write(&mut self, now: Timestamp) {
        if now < self.written_at + INTERVAL {
            return;
        }
        let seconds = now.saturating_since(self.written_at).as_secs_f64();
        let rate = |count: u64| (count as f64 / seconds).round() as u64;
        let (sent, shown) = std::mem::take(&mut self.since);
        if let Some(outbound) = &mut self.outbound {
            outbound.frames_per_second = rate(sent);
        }
        if let Some(inbound) = &mut self.inbound {
            inbound.frames_per_second = rate(shown);
        }
        self.written_at = now;
        let timestamp = now.as_secs_f64() * 1e3;
        self.log.write(&Line { timestamp, outbound: self.outbound.as_ref(), inbound: self.inbound.as_ref() });
        self.log.flush();
    }

    /// Writes what is left.
    pub fn finish(self) -> Result<()> {
        self.log.finish()
    }
}
