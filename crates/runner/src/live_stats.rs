//! Statistics of a live call, with the names of W3C's webrtc-stats.
//!
//! They are the only source of `--stats`, `--metrics`, `--monitor`, `--qlog` and the status line.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use lockstep_call::{Codec, FrameRecord, Outcome, ReceivingEnd, SendingEnd};
use lockstep_control::LimitedBy;
use lockstep_live::{CallState, Presence, Route, Shown};
use lockstep_measure::{FreezeDetector, ReceivedCounts, SentCounts};
use lockstep_units::Timestamp;

/// Interval over which the frame rate is counted.
const RATE_INTERVAL: Duration = Duration::from_secs(1);

/// Statistics of a call at one time. Counters start at the beginning of the call; times are in seconds, as in
/// webrtc-stats.
///
/// Fields without a name there are marked "ours".
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sample {
    /// Milliseconds since this end began.
    pub timestamp: f64,
    /// The first stream in each direction.
    #[serde(flatten)]
    pub first: StreamSample,
    /// Ours: further streams, in the order of their numbers, which start at 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<StreamSample>,
    /// `RTCTransportStats` of the connection, over complete QUIC packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<Transport>,
    /// Ours: sound from the other end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sound: Option<Sound>,
}

/// Statistics of the streams with one number, which are independent of each other.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamSample {
    /// `RTCOutboundRtpStreamStats` of the sent stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outbound: Option<Outbound>,
    /// `RTCInboundRtpStreamStats` of the received stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inbound: Option<Inbound>,
}

/// Statistics of a sent stream.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outbound {
    /// Frames handed to the transport.
    pub frames_sent: u64,
    /// Key frames.
    pub key_frames_encoded: u64,
    /// Frames sent in the last second.
    pub frames_per_second: u64,
    /// Sum of the quantizer indices (0-127) of all frames.
    pub qp_sum: u64,
    /// Packets of pictures and sound.
    pub packets_sent: u64,
    /// Retransmitted packets.
    pub retransmitted_packets_sent: u64,
    /// Their bytes.
    pub bytes_sent: u64,
    /// Target of the controller, bit/s.
    pub target_bitrate: u64,
    /// Lost packets by the other end's acknowledgements, as in `RTCRemoteInboundRtpStreamStats`.
    pub packets_lost: u64,
    /// Smoothed round-trip time in seconds; `None` before the first feedback.
    pub round_trip_time: Option<f64>,
    /// Ours: quantizer index (0-127) of the newest sent frame.
    pub quantizer: Option<u8>,
    /// Ours: budget of the newest frame, bytes.
    pub frame_budget: Option<u64>,
    /// Ours: size of the newest frame, bytes.
    pub frame_bytes: Option<u64>,
    /// Ours: pictures by the limit that bound them, as `limited_by` in the frame log.
    #[serde(default)]
    pub limited_frames: BTreeMap<LimitedBy, u64>,
    /// Ours: the limit of the newest frame.
    pub limited_by: Option<LimitedBy>,
    /// Ours: this end's sound is muted.
    pub muted: bool,
    /// Ours: this end's camera is off.
    pub camera_off: bool,
    /// Ours: this end records the call.
    #[serde(default)]
    pub recording: bool,
}

/// Statistics of a received stream.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Inbound {
    /// Complete frames received.
    pub frames_received: u64,
    /// Frames decoded.
    pub frames_decoded: u64,
    /// Decoded frames that the sink was too slow to show.
    pub frames_dropped: u64,
    /// Frames shown in the last second.
    pub frames_per_second: u64,
    /// Freezes, by the definition of WebRTC's statistics.
    pub freeze_count: u64,
    /// Total duration of freezes in seconds.
    pub total_freezes_duration: f64,
    /// Packets that arrived.
    pub packets_received: u64,
    /// Missing packets among those sent before the newest arrival.
    pub packets_lost: u64,
    /// Interarrival jitter in seconds (RFC 3550, section 6.4.1).
    pub jitter: f64,
    /// Ours: delay from capture to display of the newest picture, estimated without the other end's clock.
    pub video_delay: Option<f64>,
    /// Ours: the other end's sound is muted.
    pub muted: bool,
    /// Ours: the other end's camera is off.
    pub camera_off: bool,
    /// Ours: the other end records the call.
    #[serde(default)]
    pub recording: bool,
}

/// Statistics of the connection.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Transport {
    /// UDP datagrams sent.
    pub packets_sent: u64,
    /// Their bytes.
    pub bytes_sent: u64,
    /// UDP datagrams received.
    pub packets_received: u64,
    /// Their bytes.
    pub bytes_received: u64,
    /// Ours: a rendezvous relays the packets, because no direct path is known (yet).
    #[serde(default)]
    pub relayed: bool,
}

/// Statistics of sound.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sound {
    /// Packets of sound that arrived.
    pub packets: u64,
    /// Share (0-1) of concealed sound.
    pub concealed_share: f64,
}

/// Estimate of the video delay without the other end's clock.
///
/// The minimum delay is half of the minimum round-trip time; other delays add their excess over the minimum.
#[derive(Debug, Default)]
struct Delay {
    min_us: Option<i64>,
}

impl Delay {
    /// Delay of `shown` in seconds.
    fn of(&mut self, shown: &Shown) -> f64 {
        let late = shown.record.displayed_at.as_micros() as i64 - shown.captured_at.as_micros() as i64;
        let least = self.min_us.map_or(late, |least| least.min(late));
        self.min_us = Some(least);
        let way = shown.min_round_trip.unwrap_or_default() / 2;
        (late - least) as f64 * 1e-6 + way.as_secs_f64()
    }
}

/// Times within the last second.
#[derive(Debug, Default)]
struct Recent(VecDeque<Timestamp>);

impl Recent {
    fn add(&mut self, at: Timestamp) {
        self.0.push_back(at);
        self.count(at);
    }

    fn count(&mut self, now: Timestamp) -> u64 {
        while self.0.front().is_some_and(|&first| first + RATE_INTERVAL <= now) {
            self.0.pop_front();
        }
        self.0.len() as u64
    }
}

/// Collects the statistics of a live call.
#[derive(Debug, Default)]
pub struct LiveStats {
    streams: Vec<StreamStats>,
    peer: Presence,
}

/// Collects the statistics of the streams with one number.
#[derive(Debug, Default)]
struct StreamStats {
    newest: StreamSample,
    freezes: Option<FreezeDetector>,
    delay: Delay,
    sent: Recent,
    shown: Recent,
}

impl StreamStats {
    fn sending<C: Codec>(&mut self, now: Timestamp, end: &SendingEnd<C>) {
        let (counted, status) = (SentCounts::of(end, now), end.status(now));
        let outbound = self.newest.outbound.get_or_insert_default();
        outbound.frames_sent = end.statistics().frames;
        outbound.packets_sent = counted.packets;
        outbound.retransmitted_packets_sent = counted.retransmitted;
        outbound.bytes_sent = counted.bytes;
        outbound.target_bitrate = status.target.as_bps();
        outbound.packets_lost = counted.lost;
        outbound.round_trip_time = counted.round_trip_time.map(|time| time.as_secs_f64());
        outbound.quantizer = status.quantizer;
        outbound.frames_per_second = self.sent.count(now);
    }

    fn receiving<C: Codec>(&mut self, now: Timestamp, end: &ReceivingEnd<C>) {
        let (frames, counted) = (end.statistics(), ReceivedCounts::of(end));
        if let Some(format) = end.format() {
            self.freezes.get_or_insert_with(|| FreezeDetector::new(format.frame_interval()));
        }
        let inbound = self.newest.inbound.get_or_insert_default();
        inbound.frames_received = frames.frames;
        inbound.frames_decoded = frames.decoded;
        inbound.packets_received = counted.packets;
        inbound.packets_lost = counted.missing;
        inbound.jitter = counted.jitter.as_secs_f64();
        inbound.frames_per_second = self.shown.count(now);
    }

    fn captured(&mut self, record: &FrameRecord) {
        let outbound = self.newest.outbound.get_or_insert_default();
        if let Some(limit) = record.limited_by {
            *outbound.limited_frames.entry(limit).or_default() += 1;
            outbound.limited_by = Some(limit);
        }
        if record.outcome != Outcome::Sent {
            return;
        }
        outbound.key_frames_encoded += u64::from(record.key_frame);
        outbound.qp_sum += u64::from(record.quantizer.unwrap_or(0));
        outbound.frame_budget = record.budget.map(|budget| budget.get());
        outbound.frame_bytes = record.size.map(|size| size.get());
        self.sent.add(record.sent_at.unwrap_or(record.captured_at));
    }

    fn shown(&mut self, shown: &Shown) -> f64 {
        let at = shown.record.displayed_at;
        self.shown.add(at);
        let delay = self.delay.of(shown);
        let inbound = self.newest.inbound.get_or_insert_default();
        inbound.video_delay = Some(delay);
        if let Some(freeze) = self.freezes.as_mut().and_then(|freezes| freezes.shown(at)).filter(|shown| shown.frozen) {
            inbound.freeze_count += 1;
            inbound.total_freezes_duration += freeze.length.as_secs_f64();
        }
        delay
    }

    fn sample(&mut self, state: &CallState, dropped: u64, is_frozen_by_intent: bool) -> StreamSample {
        if let Some(outbound) = &mut self.newest.outbound {
            (outbound.muted, outbound.camera_off) = (state.own.muted, state.own.camera_off);
            outbound.recording = state.own.recording;
        }
        if let Some(inbound) = &mut self.newest.inbound {
            inbound.frames_dropped = dropped;
            (inbound.muted, inbound.camera_off) = (state.peer.muted, state.peer.camera_off);
            inbound.recording = state.peer.recording;
        }
        if is_frozen_by_intent {
            self.freezes = None;
        }
        self.newest.clone()
    }
}

impl LiveStats {
    fn stream(&mut self, stream: usize) -> &mut StreamStats {
        if self.streams.len() <= stream {
            self.streams.resize_with(stream + 1, StreamStats::default);
        }
        &mut self.streams[stream]
    }

    /// Takes the state of the sending end of a stream.
    pub fn sending<C: Codec>(&mut self, now: Timestamp, stream: usize, end: &SendingEnd<C>) {
        self.stream(stream).sending(now, end);
    }

    /// Takes the state of the receiving end of a stream.
    pub fn receiving<C: Codec>(&mut self, now: Timestamp, stream: usize, end: &ReceivingEnd<C>) {
        self.stream(stream).receiving(now, end);
    }

    /// Takes the record of a picture that this end captured for a stream.
    pub fn captured(&mut self, stream: usize, record: &FrameRecord) {
        self.stream(stream).captured(record);
    }

    /// Takes a shown picture of a stream, and returns its delay in seconds.
    pub fn shown(&mut self, stream: usize, shown: &Shown) -> f64 {
        self.stream(stream).shown(shown)
    }

    /// Current sample.
    pub fn sample(&mut self, state: &CallState) -> Sample {
        // A still picture while the camera is off is not a freeze, so detection restarts afterwards.
        let is_frozen_by_intent = state.peer.camera_off || self.peer.camera_off;
        self.peer = state.peer;
        let dropped = state.dropped.iter().copied().chain(std::iter::repeat(0));
        let mut samples = self.streams.iter_mut().zip(dropped);
        let mut samples = samples.by_ref().map(|(stream, dropped)| stream.sample(state, dropped, is_frozen_by_intent));
        let first = samples.next().unwrap_or_default();
        let streams = samples.collect();
        let transport = state.traffic.map(|traffic| Transport {
            packets_sent: traffic.sent_datagrams,
            bytes_sent: traffic.sent_bytes,
            packets_received: traffic.received_datagrams,
            bytes_received: traffic.received_bytes,
            relayed: state.route == Some(Route::Relayed),
        });
        let sound = state.sound.map(|sound| Sound { packets: sound.packets, concealed_share: sound.concealed_share });
        let timestamp = state.now.as_secs_f64() * 1e3;
        Sample { timestamp, first, streams, transport, sound }
    }
}

#[cfg(test)]
mod tests {
    use lockstep_call::DisplayRecord;

    use super::*;

    fn shown(displayed: u64, captured: u64) -> Shown {
        let displayed_at = Timestamp::from_millis(displayed);
        let record = DisplayRecord { frame: 0, completed_at: displayed_at, displayed_at };
        let min_round_trip = Some(Duration::from_millis(40));
        Shown { record, captured_at: Timestamp::from_millis(5_000 + captured), min_round_trip }
    }

    fn state() -> CallState {
        CallState {
            now: Timestamp::ZERO,
            dropped: Vec::new(),
            traffic: None,
            sound: None,
            own: Presence::default(),
            peer: Presence::default(),
            route: None,
            rendezvous_answers: None,
            silence: None,
        }
    }

    #[test]
    fn streams_are_counted_separately() {
        let mut stats = LiveStats::default();
        for picture in 0..9 {
            stats.shown(2, &shown(100 * picture, 100 * picture));
        }
        stats.shown(0, &shown(1_000, 0));
        let sample = stats.sample(&CallState { dropped: vec![3, 0, 5], ..state() });
        let delay = |stream: &StreamSample| stream.inbound.as_ref().and_then(|inbound| inbound.video_delay);
        let dropped = |stream: &StreamSample| stream.inbound.as_ref().map(|inbound| inbound.frames_dropped);
        assert_eq!(
            [dropped(&sample.first), dropped(&sample.streams[0]), dropped(&sample.streams[1])],
            [Some(3), None, Some(5)]
        );
        assert_eq!([delay(&sample.first), delay(&sample.streams[1])], [Some(0.02); 2]);
        let text = serde_json::to_value(&sample).expect("JSON");
        assert!(text["inbound"].is_object() && text["streams"][0] == serde_json::json!({}), "{text}");
        assert_eq!(serde_json::from_value::<Sample>(text).expect("a sample"), sample);
    }

    #[test]
    fn minimum_delay_is_half_of_the_minimum_round_trip() {
        let mut delay = Delay::default();
        // The other end's clock is 5 s ahead.
        let mut of = |displayed: u64, captured: u64| (1e3 * delay.of(&shown(displayed, captured))).round();
        assert_eq!([of(100, 0), of(230, 100), of(360, 200)], [20.0, 50.0, 80.0]);
    }

    #[test]
    fn frame_rate_counts_the_last_second() {
        let mut stats = LiveStats::default();
        for picture in 0..30 {
            stats.shown(0, &shown(100 * picture, 100 * picture));
        }
        let mut count = |at: u64| stats.streams[0].shown.count(Timestamp::from_millis(at));
        assert_eq!([2_950, 3_450, 9_000].map(&mut count), [10, 5, 0]);
    }

    #[test]
    fn camera_that_is_off_causes_no_freeze() {
        let freezes = |camera_off: bool| {
            let mut stats = LiveStats::default();
            let mut state = state();
            for second in [0, 6] {
                stats.stream(0).freezes.get_or_insert_with(|| FreezeDetector::new(Duration::from_millis(33)));
                for picture in 0..30 {
                    stats.shown(0, &shown(1_000 * second + 33 * picture, 33 * picture));
                }
                state.peer.camera_off = camera_off && second == 0;
                let _ = stats.sample(&state);
                state.peer.camera_off = false;
                let _ = stats.sample(&state);
            }
            stats.sample(&state).first.inbound.map(|inbound| inbound.freeze_count)
        };
        assert_eq!((freezes(false), freezes(true)), (Some(1), Some(0)));
    }
}
