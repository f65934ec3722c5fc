//! Rate control of a conventional real-time codec: a leaky bucket that gives the size of each frame.
//!
//! It follows libvpx's one-pass constant bit rate mode (`VPX_CBR`) with the settings of WebRTC's VP8 encoder. The level
//! of a buffer gives the target size of a frame. A model of sizes gives the quantizer (`quantizer_choice`). The frame
//! is coded once, and its size is taken from the buffer. At a low level, frames are dropped.

use std::time::Duration;

use lockstep_units::{Bitrate, ByteCount, Timestamp};

/// Initial, optimal and maximum level of the buffer, as times at the target (WebRTC: `rc_buf_initial_sz`,
/// `rc_buf_optimal_sz`, `rc_buf_sz`).
const INITIAL: Duration = Duration::from_millis(500);
const OPTIMAL: Duration = Duration::from_millis(600);
const MAXIMUM: Duration = Duration::from_millis(1_000);
/// Largest deviation below and above the optimum that counts (WebRTC: `rc_undershoot_pct`, `rc_overshoot_pct`). A
/// frame's size changes by half of it.
const UNDERSHOOT: f64 = 1.0;
const OVERSHOOT: f64 = 0.15;
/// Share of the optimum above which fewer frames are dropped, down to none (WebRTC: `rc_dropframe_thresh`).
const KEEP_FULLNESS: f64 = 0.3;
/// Shares of the optimum below which one, two and three frames are dropped per coded frame: two thirds, a quarter and
/// an eighth of the former (libvpx).
const DROP_FULLNESS: [f64; 3] = [0.2, 0.075, 0.0375];
/// Factors of the target size of the other interframes while frames are dropped (libvpx).
const DECIMATED_SHARE: [f64; 4] = [1.0, 1.5, 1.25, 1.25];
/// Share of the buffer for the first key frame (libvpx, one-pass constant bit rate).
const FIRST_KEY_FRAME_SHARE: f64 = 0.5;
/// Minimum boost of a later key frame, in sixteenths of an interframe on top of one: its size is 3.75 interframes at 30
/// frames per second, more at higher rates (libvpx's boost of key frames).
const MIN_KEY_FRAME_BOOST: f64 = 32.0;
/// Upper bound of a key frame: this share of an optimal buffer, or this number of interframes if that is more (WebRTC:
/// `VP8E_SET_MAX_INTRA_BITRATE_PCT`).
const MAX_KEY_FRAME_SHARE: f64 = 0.5;
const MIN_KEY_FRAME_LIMIT: f64 = 3.0;
/// Minimum time between two changes of the target. A conventional codec follows a new target slowly, so its owner
/// changes it rarely (Concerto, section 2; Salsify, section 2.2).
pub const TARGET_INTERVAL: Duration = Duration::from_secs(1);

/// Target sizes of the next frame, bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FrameTarget {
    /// Size of an interframe.
    pub inter: f64,
    /// Size of a key frame.
    pub key: f64,
    /// Buffer level over its optimum: at most `MAX_FULLNESS`, negative after frames that were too large.
    pub fullness: f64,
}

/// Maximum buffer level, as a share of the optimum.
pub const MAX_FULLNESS: f64 = 1_000.0 / 600.0;

/// Leaky bucket that gives the sizes of frames.
#[derive(Debug, Clone)]
pub struct RateControl {
    frame_interval: Duration,
    target: Option<(Timestamp, Bitrate)>,
    /// Bits in the buffer; negative after frames that were too large.
    level: f64,
    at: Timestamp,
    first: bool,
    /// Number of frames dropped per coded frame, and how many of them remain.
    decimation: usize,
    to_drop: usize,
}

impl RateControl {
    /// A rate control for frames every `frame_interval`.
    #[must_use]
    pub fn new(frame_interval: Duration) -> Self {
        Self { frame_interval, target: None, level: 0.0, at: Timestamp::ZERO, first: true, decimation: 0, to_drop: 0 }
    }

    /// The target for which frames are coded.
    #[must_use]
    pub fn target(&self) -> Option<Bitrate> {
        self.target.map(|(_, target)| target)
    }

    /// Sizes for a frame at `now`; none if it must be dropped. `wanted` is the controller's target. `must_be_key` means
    /// that no interframe can be coded, so that dropping is useless.
    pub fn begin(&mut self, now: Timestamp, wanted: Bitrate, must_be_key: bool) -> Option<FrameTarget> {
        match &mut self.target {
            None => {
                self.target = Some((now, wanted));
                self.level = bits(wanted, INITIAL);
            }
            Some((taken_at, target)) => {
                self.level += bits(*target, now.saturating_since(self.at));
                if now.saturating_since(*taken_at) >= TARGET_INTERVAL && *target != wanted {
                    (*taken_at, *target) = (now, wanted);
                }
            }
        }
        self.at = now;
        let target = self.target()?;
        self.level = self.level.min(bits(target, MAXIMUM));
        let optimal = bits(target, OPTIMAL);
        let fullness = self.level / optimal.max(1.0);
        if !must_be_key && self.drops(fullness) {
            return None;
        }
        self.to_drop = self.decimation;
        let frame = bits(target, self.frame_interval);
        let excess = (fullness - 1.0).clamp(-UNDERSHOOT, OVERSHOOT);
        let frames_a_second = 1.0 / self.frame_interval.as_secs_f64().max(1e-3);
        let boost = MIN_KEY_FRAME_BOOST.max(2.0 * frames_a_second - 16.0);
        let key = if self.first { FIRST_KEY_FRAME_SHARE * self.level } else { frame * (16.0 + boost) / 16.0 };
        let limit = (MAX_KEY_FRAME_SHARE * optimal).max(MIN_KEY_FRAME_LIMIT * frame);
        Some(FrameTarget {
            inter: frame * DECIMATED_SHARE[self.decimation] * (1.0 + excess / 2.0) / 8.0,
            key: key.min(limit) / 8.0,
            fullness,
        })
    }

    /// Whether the next frame is dropped at this buffer level.
    fn drops(&mut self, fullness: f64) -> bool {
        // The number of dropped frames changes by one step per frame, as in libvpx.
        if fullness > KEEP_FULLNESS {
            self.decimation = self.decimation.saturating_sub(1);
        } else if let Some(&threshold) = DROP_FULLNESS.get(self.decimation) {
            self.decimation += usize::from(fullness < threshold);
        }
        if self.decimation == 0 {
            self.to_drop = 0;
        }
        let dropped = fullness < 0.0 || self.to_drop > 0;
        self.to_drop = self.to_drop.saturating_sub(1);
        dropped
    }

    /// Resets the buffer to its optimum after a frame that was far too large to be sent.
    pub(crate) fn on_overshoot(&mut self) {
        if let Some(target) = self.target() {
            self.level = bits(target, OPTIMAL);
        }
    }

    /// Records that a frame of `size` was sent.
    pub fn sent(&mut self, size: ByteCount) {
        self.first = false;
        let least = self.target().map_or(0.0, |target| -bits(target, MAXIMUM));
        // A frame far too large at the coarsest quantizer must not stop the video for longer than the buffer lasts.
        self.level = (self.level - 8.0 * size.as_f64()).max(least);
    }
}

/// Bits of `time` at `rate`.
fn bits(rate: Bitrate, time: Duration) -> f64 {
    rate.as_bps() as f64 * time.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_millis(40);

    /// Ten seconds of frames whose sizes are `share` of the target. Returns the bit rate and the number of dropped
    /// frames.
    fn run(target: Bitrate, share: impl Fn(u64) -> f64) -> (f64, usize) {
        let mut control = RateControl::new(INTERVAL);
        let (mut sent, mut dropped) = (0.0, 0);
        for frame in 0..250 {
            let now = Timestamp::from_millis(40 * frame);
            let Some(sizes) = control.begin(now, target, frame == 0) else {
                dropped += 1;
                continue;
            };
            let size = ByteCount::new((share(frame) * if frame == 0 { sizes.key } else { sizes.inter }) as u64);
            control.sent(size);
            sent += size.as_f64();
        }
        (0.8 * sent, dropped)
    }

    #[test]
    fn mean_rate_of_varying_frames_is_the_target() {
        let (rate, dropped) = run(Bitrate::from_kbps(1_000), |frame| if frame % 2 == 0 { 0.6 } else { 1.4 });
        assert!((0.95e6..1.05e6).contains(&rate), "{rate}");
        assert_eq!(dropped, 0);
    }

    #[test]
    fn frames_are_dropped_if_all_are_too_large() {
        let (rate, dropped) = run(Bitrate::from_kbps(1_000), |_| 4.0);
        assert!((0.9e6..1.1e6).contains(&rate), "{rate}");
        assert!((100..200).contains(&dropped), "{dropped}");
    }

    #[test]
    fn changing_target_is_adopted_once_per_second() {
        let mut control = RateControl::new(INTERVAL);
        let mut taken = Vec::new();
        for frame in 0..250u64 {
            let now = Timestamp::from_millis(40 * frame);
            // The target changes every 200 ms.
            control.begin(now, Bitrate::from_kbps(500 + frame / 5), false);
            if taken.last().map(|&(_, target)| target) != control.target() {
                taken.push((now, control.target().expect("a target is set with the first frame")));
            }
        }
        assert_eq!(taken[0], (Timestamp::ZERO, Bitrate::from_kbps(500)));
        assert_eq!(taken.len(), 10, "{taken:?}");
        assert!(taken.windows(2).all(|pair| pair[1].0.saturating_since(pair[0].0) >= TARGET_INTERVAL));
    }

    #[test]
    fn key_frames_are_larger_but_bounded_and_never_dropped() {
        let target = Bitrate::from_kbps(1_000);
        let mut control = RateControl::new(INTERVAL);
        let first = control.begin(Timestamp::ZERO, target, true).expect("a key frame is not dropped");
        assert_eq!(first.key, 31_250.0, "a quarter of a second: half of the initial buffer");
        control.sent(ByteCount::new(500_000));
        assert_eq!(control.begin(Timestamp::from_millis(40), target, false), None);
        let second = control.begin(Timestamp::from_millis(80), target, true).expect("a key frame is not dropped");
        assert_eq!(second.key, 15_625.0, "50 over 16 inter frames");
        assert_eq!(second.inter, 3_750.0, "half of 5,000 bytes, times 1.5 because others are dropped");
    }
}
