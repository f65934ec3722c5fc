//! Reports for controllers of other programs: plain numbers whose names carry their units. Programs receive them as JSON,
//! Python as objects.

use std::time::Duration;

use serde::Serialize;

use lockstep_control::{ControllerSetup, PathView, Sending};
use lockstep_transport::{Feedback, LostFragment};
use lockstep_units::{Bitrate, Timestamp};

fn milliseconds(duration: Duration) -> f64 {
    duration.as_nanos() as f64 / 1e6
}

fn moment(at: Timestamp) -> f64 {
    at.as_nanos() as f64 / 1e6
}

/// The call of a controller.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SettingReport {
    /// Most bytes of a frame that a fragment carries.
    pub payload_bytes: u64,
    /// Time between two frames of the source.
    pub frame_interval_ms: f64,
    /// Target before the first decision.
    pub initial_bps: u64,
    /// Least target; lower ones are raised to it.
    pub least_bps: u64,
    /// Highest target; higher ones are lowered to it.
    pub most_bps: u64,
    /// Tolerated delay: `low`, `balanced` or `quality`.
    pub latency: String,
    /// Seed for the controller's random numbers.
    pub seed: u64,
}

impl From<&ControllerSetup> for SettingReport {
    fn from(setup: &ControllerSetup) -> Self {
        Self {
            payload_bytes: setup.payload.get(),
            frame_interval_ms: milliseconds(setup.frame_interval),
            initial_bps: setup.bounds.initial.as_bps(),
            least_bps: setup.bounds.min.as_bps(),
            most_bps: setup.bounds.max.as_bps(),
            latency: setup.latency.to_string(),
            seed: setup.seed,
        }
    }
}

/// The path at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PathReport {
    /// When the view was taken, since the call began.
    pub now_ms: f64,
    /// Smoothed round-trip time; none before the first feedback.
    pub round_trip_ms: Option<f64>,
    /// Last sample of the round-trip time.
    pub last_round_trip_ms: Option<f64>,
    /// Sliding-window minimum of the round-trip time, over 60 s or since the path became longer.
    pub base_round_trip_ms: Option<f64>,
    /// Mean time that feedback waits on its way back.
    pub feedback_delay_ms: f64,
    /// Queueing delay of the newest acknowledged packet.
    pub queueing_delay_ms: Option<f64>,
    /// Length of the sliding window of the delivered bytes.
    pub window_ms: f64,
    /// Most bytes delivered in any window of the last 5 s, headers included.
    pub delivered_bytes: u64,
    /// Delivery rate inside bursts; none if no burst of the last 2 s shows one.
    pub burst_rate_bps: Option<u64>,
    /// Recent arrival rate of the flow's own packets.
    pub arrival_rate_bps: u64,
    /// Whether packets wait behind cross traffic.
    pub has_cross_traffic: bool,
    /// Rate of the path where cross traffic keeps its queue filled.
    pub path_rate_bps: Option<u64>,
    /// Share of fragments lost, 0-1.
    pub loss: f64,
    /// Whether feedback is overdue.
    pub is_silent: bool,
    /// Whether a silence has ended and nothing sent since is acknowledged. Never on a path that dropped before.
    pub is_restarting: bool,
}

impl From<&PathView<'_>> for PathReport {
    fn from(path: &PathView<'_>) -> Self {
        Self {
            now_ms: moment(path.now),
            round_trip_ms: path.round_trip.map(milliseconds),
            last_round_trip_ms: path.last_round_trip.map(milliseconds),
            base_round_trip_ms: path.base_round_trip.map(milliseconds),
            feedback_delay_ms: milliseconds(path.feedback_delay),
            queueing_delay_ms: path.queueing_delays.last().map(|wait| milliseconds(wait.queued)),
            window_ms: milliseconds(path.window),
            delivered_bytes: path.delivered.get(),
            burst_rate_bps: path.burst_rate.map(Bitrate::as_bps),
            arrival_rate_bps: path.cross_traffic.arrival_rate.as_bps(),
            has_cross_traffic: path.cross_traffic.is_suspected,
            path_rate_bps: path.cross_traffic.path_rate.map(Bitrate::as_bps),
            loss: path.loss.share(),
            is_silent: path.is_silent,
            is_restarting: path.is_restarting,
        }
    }
}

/// A packet that arrived.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReceivedPacket {
    /// Number of its frame.
    pub frame: u32,
    /// Its place in the frame.
    pub fragment: u16,
    /// Its bytes, header included.
    pub bytes: u64,
    /// When it left the sender, on the sender's clock.
    pub sent_ms: f64,
    /// When it arrived, on the receiver's clock.
    pub arrived_ms: f64,
    /// Its queueing delay.
    pub queued_ms: f64,
    /// Whether a queue had marked it (ECN).
    pub is_marked: bool,
}

/// Feedback of the receiver.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FeedbackReport {
    /// The newly acknowledged packets, in the order of arrival.
    pub packets: Vec<ReceivedPacket>,
    /// Packets that had counted as lost and arrived after all.
    pub found: usize,
    /// Packets that arrived since the call began.
    pub received: u64,
    /// Highest sequence number that arrived.
    pub highest_sequence: u64,
    /// Capacity that the estimator at the receiver reports.
    pub estimate_bps: Option<u64>,
    /// Smoothed time between arrivals that it reports.
    pub inter_arrival_ms: Option<f64>,
}

impl FeedbackReport {
    /// The report of `feedback`, which `path` includes.
    #[must_use]
    pub fn new(path: &PathView<'_>, feedback: &Feedback) -> Self {
        let waits = path.queueing_delays.iter().map(|wait| milliseconds(wait.queued)).chain(std::iter::repeat(0.0));
        let packets = feedback.acknowledged.iter().zip(waits).map(|(packet, queued_ms)| ReceivedPacket {
            frame: packet.frame,
            fragment: packet.fragment,
            bytes: packet.size.get(),
            sent_ms: moment(packet.sent_at),
            arrived_ms: moment(packet.arrived_at),
            queued_ms,
            is_marked: packet.congestion_experienced,
        });
        Self {
            packets: packets.collect(),
            found: feedback.found,
            received: feedback.received,
            highest_sequence: feedback.highest_sequence,
            estimate_bps: feedback.estimate.capacity.map(Bitrate::as_bps),
            inter_arrival_ms: feedback.estimate.inter_arrival.map(milliseconds),
        }
    }
}

/// A packet that was declared lost.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LostPacket {
    /// Number of its frame.
    pub frame: u32,
    /// Its place in the frame.
    pub fragment: u16,
    /// Its bytes, header included.
    pub bytes: u64,
    /// When it left the sender.
    pub sent_ms: f64,
}

impl From<&LostFragment> for LostPacket {
    fn from(lost: &LostFragment) -> Self {
        let LostFragment { frame, fragment, size, sent_at } = *lost;
        Self { frame, fragment, bytes: size.get(), sent_ms: moment(sent_at) }
    }
}

/// State of the sender.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SendingReport {
    /// Packets in flight or in the pacer.
    pub in_flight_packets: u64,
    /// Their bytes, headers included.
    pub in_flight_bytes: u64,
    /// The part of those bytes that waits in the pacer.
    pub queued_bytes: u64,
    /// Bytes sent since the call began.
    pub sent_bytes: u64,
    /// Pictures skipped since the call began.
    pub skipped_pictures: u64,
}

impl From<Sending> for SendingReport {
    fn from(sending: Sending) -> Self {
        let Sending { in_flight, sent, skipped } = sending;
        Self {
            in_flight_packets: in_flight.fragments,
            in_flight_bytes: in_flight.bytes.get(),
            queued_bytes: in_flight.queued.get(),
            sent_bytes: sent.get(),
            skipped_pictures: skipped,
        }
    }
}
