//! What a live call counts, under the names that W3C's webrtc-stats has for it: the one source of what `--stats`, `--metrics`,
//! `--monitor`, `--qlog` and the line on the screen say.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use lockstep_call::{FrameRecord, Outcome, ReceivingEnd, SendingEnd};
use lockstep_control::LimitedBy;
use lockstep_live::{CallState, Presence, Shown, Way};
use lockstep_measure::{FreezeDetector, ReceivedCounts, SentCounts};
use lockstep_units::Timestamp;

/// Frames of so long make a frame rate.
const RATE_INTERVAL: Duration = Duration::from_secs(1);

/// What is known of a call at a moment. Counters count from the beginning of the call; times are seconds, as in webrtc-stats.
/// Where that has no name, ours is documented as such.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sample {
    /// Milliseconds since this end began.
    pub timestamp: f64,
    /// `RTCOutboundRtpStreamStats` of what is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outbound: Option<Outbound>,
    /// `RTCInboundRtpStreamStats` of what is received.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inbound: Option<Inbound>,
    /// `RTCTransportStats` of the connection, QUIC's packets whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<Transport>,
    /// Ours: how the other end's sound is heard.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sound: Option<Sound>,
}

/// What is sent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outbound {
    /// Frames handed to the transport.
    pub frames_sent: u64,
    /// Frames that decode from nothing.
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
    /// Of `RTCRemoteInboundRtpStreamStats`, as the other end's acknowledgements tell.
    pub packets_lost: u64,
    /// Smoothed round-trip time in seconds; none before the first feedback.
    pub round_trip_time: Option<f64>,
    /// Ours: quantizer index (0-127), budget and size, bytes, of the newest frame sent.
    pub quantizer: Option<u8>,
    /// Ours: budget of the newest frame, bytes.
    pub frame_budget: Option<u64>,
    /// Ours: size of the newest frame, bytes.
    pub frame_bytes: Option<u64>,
    /// Ours: pictures by what held them back, as in the frame log's `limited_by`, and that of the newest.
    #[serde(default)]
    pub limited_frames: BTreeMap<LimitedBy, u64>,
    /// Ours: the limit of the newest frame.
    pub limited_by: Option<LimitedBy>,
    /// Ours: one's own sound is silenced, one's own camera is off.
    pub muted: bool,
    /// Ours: this end's camera is off.
    pub camera_off: bool,
}

/// What is received.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Inbound {
    /// Frames that arrived whole.
    pub frames_received: u64,
    /// Frames decoded.
    pub frames_decoded: u64,
    /// Decoded, and not shown because the sink was too slow.
    pub frames_dropped: u64,
    /// Frames shown in the last second.
    pub frames_per_second: u64,
    /// Freezes, by the definition of WebRTC's statistics.
    pub freeze_count: u64,
    /// Their duration in seconds.
    pub total_freezes_duration: f64,
    /// Packets that arrived.
    pub packets_received: u64,
    /// Packets missing of those sent before the newest arrival.
    pub packets_lost: u64,
    /// Interarrival jitter in seconds (RFC 3550, section 6.4.1).
    pub jitter: f64,
    /// Ours: from capture to display of the newest picture shown, as far as an end can know it that does not see the other's
    /// clock.
    pub video_delay: Option<f64>,
    /// Ours: the other end's sound is silenced, its camera is off.
    pub muted: bool,
    /// Ours: the other end's camera is off.
    pub camera_off: bool,
}

/// What the connection carries.
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
    /// Ours: its packets go by a rendezvous, because there is no direct way (yet).
    #[serde(default)]
    pub relayed: bool,
}

/// How sound is heard.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sound {
    /// Packets of sound that arrived.
    pub packets: u64,
    /// The share (0-1) that was made up.
    pub concealed_share: f64,
}

/// The delay of pictures, as far as an end can know it that does not see the other's clock: the shortest way takes half of
/// the shortest round trip, and others are as much longer as they are later.
#[derive(Debug, Default)]
struct Delay {
    least_us: Option<i64>,
}

impl Delay {
    /// In seconds.
    fn of(&mut self, shown: &Shown) -> f64 {
        let late = shown.record.displayed_at.as_micros() as i64 - shown.captured_at.as_micros() as i64;
        let least = self.least_us.map_or(late, |least| least.min(late));
        self.least_us = Some(least);
        let way = shown.shortest_round_trip.unwrap_or_default() / 2;
        (late - least) as f64 * 1e-6 + way.as_secs_f64()
    }
}

/// The moments of the last second.
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

/// Counts.
#[derive(Debug, Default)]
pub struct LiveStats {
    outbound: Option<Outbound>,
    inbound: Option<Inbound>,
    freezes: Option<FreezeDetector>,
    delay: Delay,
    sent: Recent,
    shown: Recent,
    peer: Presence,
}

impl LiveStats {
    /// What the end that sends is at.
    pub fn sending(&mut self, now: Timestamp, end: &SendingEnd) {
        let (counted, status) = (SentCounts::of(end, now), end.status(now));
        let outbound = self.outbound.get_or_insert_default();
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
        inbound.frames_per_second = self.shown.count(now);
    }

    /// All that is known of a picture of one's own.
    pub fn captured(&mut self, record: &FrameRecord) {
        let outbound = self.outbound.get_or_insert_default();
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

    /// A picture of the other's is shown; gives its delay, seconds.
    pub fn shown(&mut self, shown: &Shown) -> f64 {
        let at = shown.record.displayed_at;
        self.shown.add(at);
        let delay = self.delay.of(shown);
        let inbound = self.inbound.get_or_insert_default();
        inbound.video_delay = Some(delay);
        if let Some(freeze) = self.freezes.as_mut().and_then(|freezes| freezes.shown(at)).filter(|shown| shown.frozen) {
            inbound.freeze_count += 1;
            inbound.total_freezes_duration += freeze.length.as_secs_f64();
        }
        delay
    }

    /// What is known at this moment.
    pub fn sample(&mut self, state: &CallState) -> Sample {
        if let Some(outbound) = &mut self.outbound {
            (outbound.muted, outbound.camera_off) = (state.own.muted, state.own.camera_off);
        }
        if let Some(inbound) = &mut self.inbound {
            inbound.frames_dropped = state.dropped;
            (inbound.muted, inbound.camera_off) = (state.peer.muted, state.peer.camera_off);
        }
        // A picture that stands still because its camera is off is no freeze: what comes after begins anew.
        if state.peer.camera_off || self.peer.camera_off {
            self.freezes = None;
        }
        self.peer = state.peer;
        let transport = state.traffic.map(|traffic| Transport {
            packets_sent: traffic.sent_datagrams,
            bytes_sent: traffic.sent_bytes,
            packets_received: traffic.received_datagrams,
            bytes_received: traffic.received_bytes,
            relayed: state.way == Some(Way::Relayed),
        });
        let sound = state.sound.map(|sound| Sound { packets: sound.packets, concealed_share: sound.concealed_share });
        let timestamp = state.now.as_secs_f64() * 1e3;
        Sample { timestamp, outbound: self.outbound.clone(), inbound: self.inbound.clone(), transport, sound }
    }
}

#[cfg(test)]
mod tests {
    use lockstep_call::DisplayRecord;

    use super::*;

    fn shown(displayed: u64, captured: u64) -> Shown {
        let displayed_at = Timestamp::from_millis(displayed);
        let record = DisplayRecord { frame: 0, completed_at: displayed_at, displayed_at };
        let shortest_round_trip = Some(Duration::from_millis(40));
        Shown { record, captured_at: Timestamp::from_millis(5_000 + captured), shortest_round_trip }
    }

    #[test]
    fn delays_are_above_the_shortest_and_that_is_half_of_the_shortest_round_trip() {
        let mut delay = Delay::default();
        // The other end's clock is 5 s ahead.
        let mut of = |displayed: u64, captured: u64| (1e3 * delay.of(&shown(displayed, captured))).round();
        assert_eq!([of(100, 0), of(230, 100), of(360, 200)], [20.0, 50.0, 80.0]);
    }

    #[test]
    fn a_frame_rate_is_what_was_shown_in_the_last_second() {
        let mut stats = LiveStats::default();
        for picture in 0..30 {
            stats.shown(&shown(100 * picture, 100 * picture));
        }
        assert_eq!(stats.shown.count(Timestamp::from_millis(2_950)), 10);
        assert_eq!(stats.shown.count(Timestamp::from_millis(3_450)), 5);
        assert_eq!(stats.shown.count(Timestamp::from_millis(9_000)), 0);
    }

    #[test]
    fn a_camera_that_is_off_freezes_nothing() {
        let freezes = |camera_off: bool| {
            let mut stats = LiveStats::default();
            let mut state = CallState {
                now: Timestamp::ZERO,
                dropped: 0,
                traffic: None,
                sound: None,
                own: Presence::default(),
                peer: Presence::default(),
                way: None,
                rendezvous_answers: None,
            };
            for second in [0, 6] {
                stats.freezes.get_or_insert_with(|| FreezeDetector::new(Duration::from_millis(33)));
                for picture in 0..30 {
                    stats.shown(&shown(1_000 * second + 33 * picture, 33 * picture));
                }
                state.peer.camera_off = camera_off && second == 0;
                let _ = stats.sample(&state);
                state.peer.camera_off = false;
                let _ = stats.sample(&state);
            }
            stats.sample(&state).inbound.map(|inbound| inbound.freeze_count)
        };
        assert_eq!((freezes(false), freezes(true)), (Some(1), Some(0)));
    }
}
