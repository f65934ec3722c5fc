//! The state of the path at one moment.

use std::time::Duration;

use lockstep_units::{Bitrate, ByteCount, Timestamp};

use super::bursts::Burst;
use super::cross_traffic::CrossTraffic;
use crate::loss_rate::LossRate;
use crate::path_delay::Wait;
use crate::short_queue::BottleneckQueue;

/// The path at one moment. The default is an unknown path.
#[derive(Debug, Clone, Copy, Default)]
pub struct PathView<'a> {
    /// Time of the view.
    pub now: Timestamp,
    /// Length of the window of `delivered` and `burst`.
    pub window: Duration,
    /// Smoothed round-trip time; none before the first feedback.
    pub round_trip: Option<Duration>,
    /// The last sample of the round-trip time; none before the first feedback.
    pub last_round_trip: Option<Duration>,
    /// Sliding-window minimum of the round-trip time, over 60 s or since the path became longer.
    pub base_round_trip: Option<Duration>,
    /// Mean delay of feedback on the reverse path.
    pub feedback_delay: Duration,
    /// Queueing delay of each packet in the last feedback, in the order of the feedback.
    pub queueing_delays: &'a [Wait],
    /// Maximum bytes delivered in any window of the last 5 s, including headers.
    pub delivered: ByteCount,
    /// Maximum bytes per window by the spacing of fragments inside a burst, over 5 s.
    pub burst: ByteCount,
    /// The last burst of fragments.
    pub last_burst: Option<Burst>,
    /// Rate inside bursts, averaged over 0.3 s; none if no burst of the last 2 s shows one.
    pub burst_rate: Option<Bitrate>,
    /// Cross traffic at the bottleneck.
    pub cross_traffic: CrossTraffic,
    /// Loss of fragments and of frames.
    pub loss: LossRate,
    /// Whether packets were sent and feedback is overdue.
    pub is_silent: bool,
    /// Whether a silence has ended, but no data sent since then is acknowledged. Never on a path that dropped before.
    pub is_restarting: bool,
    /// The bottleneck queue, once it is known to hold fewer packets than a frame has.
    pub bottleneck_queue: Option<BottleneckQueue>,
}
