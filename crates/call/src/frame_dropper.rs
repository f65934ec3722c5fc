//! Frame dropper: skips pictures on slow paths to improve the others.
//!
//! The overhead of a frame (headers, modes, vectors) does not depend on the quantizer. At the coarsest quantizers it is
//! most of the frame. At 60 kb/s, half as many frames of twice the size are much closer to their pictures. WebRTC's
//! quality scaler reduces pictures or resolution for the same reason, once VP8's quantizer indices stay above 95.

use std::time::Duration;

use lockstep_units::Timestamp;

lockstep_units::config! {
    /// Skipped pictures on slow paths.
    pub struct FrameDropperConfig = "frame_dropper" {
        /// Quantizer index from which on a frame of the fastest level is coarse.
        coarse: u8 = 85, "", 0..=127, "2026-11-control-ablation";
        /// Time since the last sent picture after which a picture is not skipped: of 30 per second, at most every other
        /// one is.
        least_interval: Duration = 0.06, "s", 0.0..=2.0, "2026-11-control-ablation";
    }
}

/// Decides which pictures to skip.
#[derive(Debug, Clone)]
pub(crate) struct FrameDropper {
    config: FrameDropperConfig,
    /// Weight of a picture in the mean quantizer: a path is slow after half a second of 30 pictures per second. Without
    /// a mean, pictures are skipped at the start of each pause of a link.
    weight: f64,
    /// Moving average of the expected quantizer indices.
    usual: f64,
    /// Time of the last picture that was not skipped.
    coded_at: Timestamp,
    /// Time of the last picture that was sent.
    sent_at: Option<Timestamp>,
}

impl FrameDropper {
    pub(crate) fn new(config: FrameDropperConfig, weight: f64) -> Self {
        Self { config, weight, usual: 0.0, coded_at: Timestamp::ZERO, sent_at: None }
    }

    /// Decides on a picture that is expected to have `quantizer`, with frames that are coarse from `coarse` on. Returns
    /// whether it is skipped in favour of the next.
    pub(crate) fn drops(&mut self, now: Timestamp, quantizer: u8, coarse: u8) -> bool {
        let least_interval = self.config.least_interval;
        self.usual += self.weight * (f64::from(quantizer) - self.usual);
        let is_coarse = quantizer >= coarse && self.usual >= f64::from(coarse);
        self.drops_if(now, is_coarse, least_interval)
    }

    /// Decides on a picture. Returns whether it is skipped: it `may_wait`, and the last sent picture is less than `longest`
    /// old.
    pub(crate) fn drops_if(&mut self, now: Timestamp, may_wait: bool, longest: Duration) -> bool {
        let drops = may_wait && self.sent_at.is_some_and(|at| now.saturating_since(at) < longest);
        if !drops {
            self.coded_at = now;
        }
        drops
    }

    /// Records that the last coded picture was sent.
    pub(crate) fn on_sent(&mut self) {
        self.sent_at = Some(self.coded_at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Skipped pictures of a sequence at `interval`, if all others are sent.
    fn skipped(interval: Duration, quantizers: impl IntoIterator<Item = u8>) -> Vec<bool> {
        let config = FrameDropperConfig::default();
        let mut dropper = FrameDropper::new(config, 1.0 / 16.0);
        let times = (0..).map(|number| Timestamp::ZERO + interval.saturating_mul(number));
        let each = times.zip(quantizers).map(|(now, quantizer)| {
            let drops = dropper.drops(now, quantizer, config.coarse);
            if !drops {
                dropper.on_sent();
            }
            drops
        });
        each.collect()
    }

    const THIRTIETH: Duration = Duration::from_nanos(33_333_333);

    #[test]
    fn every_other_picture_is_skipped_on_a_slow_path() {
        let drops = skipped(THIRTIETH, [120; 120]);
        let second = &drops[60..];
        assert_eq!(second.iter().filter(|&&drops| drops).count(), 30);
        assert!(second.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn finely_coded_pictures_are_never_skipped() {
        assert!(!skipped(THIRTIETH, [FrameDropperConfig::default().coarse - 1; 300]).contains(&true));
    }

    #[test]
    fn short_series_of_coarse_pictures_is_not_skipped() {
        let quantizers = (0..300).map(|number| if number % 30 < 6 { 127 } else { 40 });
        assert!(!skipped(THIRTIETH, quantizers).contains(&true));
    }

    #[test]
    fn finely_coded_picture_after_coarse_ones_is_sent() {
        let drops = skipped(THIRTIETH, std::iter::repeat_n(127, 100).chain([30; 10]));
        assert!(drops[90..100].contains(&true) && !drops[100..].contains(&true));
    }

    #[test]
    fn pictures_at_a_low_rate_are_all_sent() {
        assert!(!skipped(Duration::from_millis(67), [127; 200]).contains(&true));
    }

    #[test]
    fn of_100_pictures_per_second_one_is_sent_every_60_ms() {
        let drops = skipped(Duration::from_millis(10), [127; 400]);
        assert_eq!(drops[340..].iter().filter(|&&drops| !drops).count(), 10);
    }

    #[test]
    fn waiting_pictures_of_a_screen_are_sent_after_the_longest_time() {
        let mut dropper = FrameDropper::new(FrameDropperConfig::default(), 1.0 / 16.0);
        let drops = (0..20u64).map(|number| {
            let longest = Duration::from_millis(250);
            let drops = dropper.drops_if(Timestamp::from_millis(50 * number), true, longest);
            if !drops {
                dropper.on_sent();
            }
            drops
        });
        assert_eq!(drops.filter(|&drops| !drops).count(), 4);
        assert!(!dropper.drops_if(Timestamp::from_millis(1_001), false, Duration::from_secs(1)));
    }

    #[test]
    fn every_picture_is_coded_while_none_is_sent() {
        let config = FrameDropperConfig::default();
        let mut dropper = FrameDropper::new(config, 1.0 / 16.0);
        for number in 0..200u64 {
            assert!(!dropper.drops(Timestamp::from_millis(33 * number), 127, config.coarse));
        }
    }
}
