//! Leaving out pictures on slow paths, so that those which are sent are worth looking at.
//!
//! What a frame takes beside its coefficients (headers, modes, vectors) it takes however coarse it is, and at the coarsest
//! quantizers that is most of it: over 60 kb/s half as many frames of twice the size are much nearer to their pictures. WebRTC's
//! quality scaler gives up pictures or resolution for the same reason, once quantizer indices of VP8 stay above 95.

use std::time::Duration;

use lockstep_units::Timestamp;

lockstep_units::config! {
    /// Pictures that are skipped on slow paths.
    pub struct FrameDropperConfig = "frame_dropper" {
        /// From this quantizer index on a frame is coarse.
        coarse: u8 = 85, "", 0..=127, "2026-11-control-ablation";
        /// A picture this long after the last one that was sent is not skipped: of 30 a second, at most every other one is.
        least_interval: Duration = 0.06, "s", 0.0..=2.0, "2026-11-control-ablation";
    }
}

/// Decides which pictures are left out.
#[derive(Debug, Clone)]
pub(crate) struct FrameDropper {
    config: FrameDropperConfig,
    /// Weight of a picture in the usual quantizer: a path is slow after half a second of 30 pictures each. Without an average,
    /// pictures are skipped as pauses of a link begin.
    weight: f64,
    /// Moving average of the quantizer indices that pictures would be coded with.
    usual: f64,
    /// When the last picture came that was to be coded.
    coded_at: Timestamp,
    /// When the last one came that was sent.
    sent_at: Option<Timestamp>,
}

impl FrameDropper {
    pub(crate) fn new(config: FrameDropperConfig, weight: f64) -> Self {
        Self { config, weight, usual: 0.0, coded_at: Timestamp::ZERO, sent_at: None }
    }

    /// A picture comes that is expected to be coded with `quantizer`: whether it is left out for the sake of the next.
    pub(crate) fn drops(&mut self, now: Timestamp, quantizer: u8) -> bool {
        let FrameDropperConfig { coarse, least_interval } = self.config;
        self.usual += self.weight * (f64::from(quantizer) - self.usual);
        let is_coarse = quantizer >= coarse && self.usual >= f64::from(coarse);
        let drops = is_coarse && self.sent_at.is_some_and(|at| now.saturating_since(at) < least_interval);
        if !drops {
            self.coded_at = now;
        }
        drops
    }

    /// The picture that was coded last was sent.
    pub(crate) fn on_sent(&mut self) {
        self.sent_at = Some(self.coded_at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which of pictures that come every `interval` are left out, where all others are sent.
    fn left_out(interval: Duration, quantizers: impl IntoIterator<Item = u8>) -> Vec<bool> {
        let mut dropper = FrameDropper::new(FrameDropperConfig::default(), 1.0 / 16.0);
        let times = (0..).map(|number| Timestamp::ZERO + interval.saturating_mul(number));
        let each = times.zip(quantizers).map(|(now, quantizer)| {
            let drops = dropper.drops(now, quantizer);
            if !drops {
                dropper.on_sent();
            }
            drops
        });
        each.collect()
    }

    const THIRTIETH: Duration = Duration::from_nanos(33_333_333);

    #[test]
    fn on_a_slow_path_every_other_of_thirty_pictures_a_second_is_left_out() {
        let drops = left_out(THIRTIETH, [120; 120]);
        let second = &drops[60..];
        assert_eq!(second.iter().filter(|&&drops| drops).count(), 30);
        assert!(second.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn what_is_coded_finely_enough_is_never_left_out() {
        assert!(!left_out(THIRTIETH, [FrameDropperConfig::default().coarse - 1; 300]).contains(&true));
    }

    #[test]
    fn a_moment_of_coarse_pictures_leaves_none_out() {
        let quantizers = (0..300).map(|number| if number % 30 < 6 { 127 } else { 40 });
        assert!(!left_out(THIRTIETH, quantizers).contains(&true));
    }

    #[test]
    fn once_a_frame_would_be_fine_again_the_next_picture_is_sent() {
        let drops = left_out(THIRTIETH, std::iter::repeat_n(127, 100).chain([30; 10]));
        assert!(drops[90..100].contains(&true) && !drops[100..].contains(&true));
    }

    #[test]
    fn pictures_that_are_far_apart_are_all_sent() {
        assert!(!left_out(Duration::from_millis(67), [127; 200]).contains(&true));
    }

    #[test]
    fn of_a_hundred_pictures_a_second_one_is_sent_every_60_ms() {
        let drops = left_out(Duration::from_millis(10), [127; 400]);
        assert_eq!(drops[340..].iter().filter(|&&drops| !drops).count(), 10);
    }

    #[test]
    fn while_nothing_gets_out_every_picture_is_tried() {
        let mut dropper = FrameDropper::new(FrameDropperConfig::default(), 1.0 / 16.0);
        for number in 0..200u64 {
            assert!(!dropper.drops(Timestamp::from_millis(33 * number), 127));
        }
    }
}
