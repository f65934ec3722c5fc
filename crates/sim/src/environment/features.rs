//! Features of a step for an agent. Some are unknown to a real end; these are for rewards and experts only.

use std::time::Duration;

use lockstep_units::{Bitrate, Timestamp};

use super::EnvironmentSetting;
use crate::step_statistics::{ArrivalStatistics, FrameStatistics};

/// One feature of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Feature {
    /// Name with unit, for instance `delay_ms`.
    pub name: &'static str,
    /// Meaning of the value.
    pub meaning: &'static str,
}

const fn feature(name: &'static str, meaning: &'static str) -> Feature {
    Feature { name, meaning }
}

/// All features, in the order of [`Features::values`].
pub const FEATURES: [Feature; 22] = [
    feature("time_s", "time since the call began"),
    feature("target_bps", "target of the sender at the end of the step"),
    feature("encoded_bps", "sizes of the frames that were sent, over the step"),
    feature("sent_bps", "bytes sent by the sender, headers included, over the step"),
    feature("received_bps", "bytes that reached the receiver, headers included, over the step"),
    feature("packets", "packets that reached the receiver"),
    feature("loss", "share of packets that did not arrive before later ones, 0-1"),
    feature("delay_ms", "mean one-way delay of the packets; without packets, that of the last step with packets"),
    feature("largest_delay_ms", "largest one-way delay of the step; zero without packets"),
    feature("smallest_delay_ms", "smallest one-way delay of the call so far"),
    feature("jitter_ms", "mean absolute difference of one-way delay from packet to packet"),
    feature("round_trip_ms", "smoothed round-trip time, as the sender measures it; zero before the first"),
    feature("frames_captured", "pictures that the source captured"),
    feature("frames_sent", "frames that were sent"),
    feature("frames_shown", "frames that were shown"),
    feature("quantizer", "mean quantizer index of the frames sent, 0-127"),
    feature("video_delay_ms", "mean time from capture to display of the frames shown"),
    feature("ssim", "mean luma SSIM of the frames shown, 0-1"),
    feature("frozen_ms", "time for which the picture was frozen, counted when it moves again"),
    feature("capacity_bps", "capacity of the link over the step; no end knows it"),
    feature(
        "next_capacity_bps",
        "capacity of the link over the next step, half of it beside cross traffic; for experts",
    ),
    feature("queued_bytes", "bytes in the link's queue, zero beside cross traffic; no end knows it"),
];

/// Feature values of one step.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Features {
    values: [f64; FEATURES.len()],
}

impl Features {
    /// Values in the order of [`FEATURES`].
    #[must_use]
    pub fn values(&self) -> &[f64; FEATURES.len()] {
        &self.values
    }

    /// Value of the feature `name`; `None` if there is no such feature.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<f64> {
        FEATURES.iter().position(|feature| feature.name == name).map(|index| self.values[index])
    }

    pub(super) fn set(&mut self, name: &str, value: f64) {
        if let Some(index) = FEATURES.iter().position(|feature| feature.name == name) {
            self.values[index] = value;
        }
    }
}

fn mean(sum: f64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { sum / count as f64 }
}

pub(super) fn observe(
    setting: &EnvironmentSetting,
    now: Timestamp,
    window: &ArrivalStatistics,
    frames: &FrameStatistics,
    target: Bitrate,
    round_trip: Option<Duration>,
    [capacity, next_capacity]: [Bitrate; 2],
) -> Features {
    let rate = |bytes| Bitrate::mean(bytes, setting.step).as_bps() as f64;
    let delay = window.mean_delay().unwrap_or(window.last_delay_seconds());
    Features {
        values: [
            now.as_secs_f64(),
            target.as_bps() as f64,
            rate(frames.encoded),
            rate(frames.transmitted),
            rate(window.received),
            window.packets as f64,
            window.loss_share(),
            delay * 1e3,
            window.largest_delay_seconds * 1e3,
            window.smallest_delay_seconds * 1e3,
            mean(window.jitter_seconds, window.packets) * 1e3,
            round_trip.map_or(0.0, |time| time.as_secs_f64() * 1e3),
            frames.captured as f64,
            frames.sent as f64,
            frames.shown as f64,
            mean(frames.quantizers as f64, frames.sent),
            mean(frames.video_delay_seconds, frames.shown) * 1e3,
            mean(frames.ssim, frames.shown),
            frames.frozen_seconds * 1e3,
            capacity.as_bps() as f64,
            next_capacity.as_bps() as f64,
            0.0,
        ],
    }
}
