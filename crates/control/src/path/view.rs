//! The state of the path at one moment.

use std::time::Duration;

use lockstep_units::{Bitrate, ByteCount, Timestamp};

use super::bursts::Burst;
use super::cross_traffic::CrossTraffic;
use crate::loss_rate::LossRate;
use crate::path_delay::Wait;
use crate::short_queue::BottleneckQueue;

/// The path at one moment. The default is a path that nothing is known of.
#[derive(Debug, Clone, Copy, Default)]
pub struct PathView<'a> {
    /// When the view was taken.
    pub now: Timestamp,
    /// Length of the window of `delivered` and `burst`.
    pub window: Duration,
    /// Smoothed round-trip time; none before the first feedback.
    pub round_trip: Option<Duration>,
    /// The last sample of the round-trip time; none before the first feedback.
    pub last_round_trip: Option<Duration>,
    /// Sliding-window minimum of the round-trip time, over 60 s or since the path became longer.
    pub base_round_trip: Option<Duration>,
    /// How long feedback waits on its way back, averaged.
    pub feedback_delay: Duration,
    /// How long each packet that the last feedback acknowledges was queued, in the order of the feedback.
    pub queueing_delays: &'a [Wait],
    /// Most bytes delivered in any window of the last 5 s, headers included.
    pub delivered: ByteCount,
    /// Most bytes in a window that the spacing of fragments inside a burst shows, over 5 s.
    pub burst: ByteCount,
    /// The last burst of fragments.
    pub last_burst: Option<Burst>,
    /// Rate inside bursts, averaged over 0.3 s; none if no burst of the last 2 s shows one.
    pub burst_rate: Option<Bitrate>,
    /// Cross traffic at the bottleneck.
    pub cross_traffic: CrossTraffic,
    /// Loss of fragments and of frames.
    pub loss: LossRate,
    /// Whether packets were sent and no feedback came for longer than it should take.
    pub is_silent: bool,
    /// Whether a silence has ended and nothing that was sent since is acknowledged.
    pub is_restarting: bool,
    /// The queue at the bottleneck, once it is known to hold fewer packets than frames have.
    pub bottleneck_queue: Option<BottleneckQueue>,
}
