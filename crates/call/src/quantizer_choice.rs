//! Quantizer choice of a conventional real-time codec: from the target size of the next frame, before coding.
//!
//! It follows libvpx's one-pass constant bit rate mode for VP8. The expected size is inversely proportional to the
//! quantizer's step, times a factor. Each frame corrects the factor by a quarter of its error. Therefore quantizers get
//! finer slowly after small frames, and coarser at once after a large one.
//!
//! Once there is an average quantizer, a full buffer allows only slightly coarser ones, and an empty buffer allows all.
//! A frame of a new scene that is far too large at a fine quantizer is not sent. The next one uses the coarsest
//! quantizer.

use lockstep_vp8::quantizer_step;

use crate::rate_control::MAX_FULLNESS;

/// Range of quantizers that WebRTC allows for VP8: 2 to 56 on libvpx's scale to 63 (`rc_min_quantizer`,
/// `rc_max_quantizer`), as indices of VP8's scale to 127. The finest one is that of the fastest effort level.
pub(crate) const FINEST: u8 = 2;
const COARSEST: u8 = 106;
/// Initial bits of a luma sample times the step, for key frames and interframes. libvpx expects 4.5 and 2.85 million
/// 512ths of a bit per macroblock. This codec needs about a third of that at its coarsest. With [`CODED_SHARE`], the
/// first seconds of calls match libvpx's (`lockstep-rate-miss` with the clips `street-cars`, `corridor-people` and
/// `bikes`).
const KEY_BITS: f64 = CODED_SHARE * 4.5e6 / 512.0 / 256.0;
const INTER_BITS: f64 = CODED_SHARE * 2.85e6 / 512.0 / 256.0;
const CODED_SHARE: f64 = 0.35;
/// Share of its error by which a frame corrects the factor, and the factor's bounds (libvpx).
const CORRECTED_SHARE: f64 = 0.25;
const FACTORS: (f64, f64) = (0.01, 50.0);
/// Number of interframes from which on the average quantizer counts (libvpx).
const SETTLED_FRAMES: u32 = 150;
/// Buffer level, as a share of the optimum, up to which every quantizer is allowed. A full buffer allows the average
/// (libvpx).
const LOW_FULLNESS: f64 = 0.25;
/// Finest quantizer as a share of the coarsest (libvpx's table for interframes, which is almost linear). It is lower
/// for a buffer above the optimum.
const FINEST_SHARE: f64 = 0.65;
/// Limits of a scene cut whose frame is not sent (libvpx). The quantizer is below this share of the coarsest one, and
/// frames are cheap (a factor of 0.08 of libvpx's). The prediction error is at least this multiple of the last one, and
/// above a minimum (squared difference per sample). The last such scene cut is at least a second ago.
const SURPRISE_QUANTIZER: f64 = 0.75;
const CHEAP: f64 = 0.08 / CODED_SHARE;
const SURPRISE: f64 = 2.0;
const MIN_OVERSHOOT_ERROR: f64 = 12.5;

/// Chooses quantizers and learns from the resulting sizes.
#[derive(Debug, Clone)]
pub(crate) struct QuantizerChoice {
    luma_samples: f64,
    key_factor: f64,
    inter_factor: f64,
    /// Number of interframes so far, and the sum of their quantizers.
    inter_frames: u32,
    inter_sum: f64,
    last: u8,
    /// Approximate prediction error of the last picture; squared difference per luma sample.
    last_error: f64,
    /// Whether the last frame was not sent because of a scene cut. Then the next one uses the coarsest quantizer.
    on_overshoot: bool,
    /// Number of frames since then.
    since_surprise: u32,
}

impl QuantizerChoice {
    /// A choice for pictures of `luma_samples` luma samples.
    pub(crate) fn new(luma_samples: usize) -> Self {
        Self {
            luma_samples: luma_samples as f64,
            key_factor: 1.0,
            inter_factor: 1.0,
            inter_frames: 0,
            inter_sum: 0.0,
            last: COARSEST,
            last_error: f64::INFINITY,
            on_overshoot: false,
            since_surprise: 0,
        }
    }

    /// Expected size of a frame at a quantizer, bytes.
    fn expected(&self, key_frame: bool, quantizer: u8) -> f64 {
        let bits = if key_frame { KEY_BITS * self.key_factor } else { INTER_BITS * self.inter_factor };
        bits * self.luma_samples / 8.0 / f64::from(quantizer_step(quantizer))
    }

    /// Finest and coarsest quantizer of an interframe. `finest` is the finest one of all frames, and `fullness` the
    /// buffer level over its optimum.
    fn range(&self, finest: u8, fullness: f64) -> (u8, u8) {
        if self.inter_frames <= SETTLED_FRAMES {
            return (finest, COARSEST);
        }
        let average = (self.inter_sum / f64::from(self.inter_frames)).max(f64::from(self.last) - 1.0);
        let scarce = ((1.0 - fullness) / (1.0 - LOW_FULLNESS)).clamp(0.0, 1.0);
        let coarsest = average + scarce * (f64::from(COARSEST) - average);
        let plenty = ((fullness - 1.0) / (MAX_FULLNESS - 1.0)).clamp(0.0, 1.0);
        let least = (FINEST_SHARE * coarsest * (1.0 - plenty)).max(f64::from(finest));
        (least as u8, (coarsest as u8).clamp(finest, COARSEST))
    }

    /// Quantizer of a frame with a target of `size` bytes; `finest` and `fullness` as in [`Self::range`].
    pub(crate) fn quantizer(&self, key_frame: bool, size: f64, finest: u8, fullness: f64) -> u8 {
        let (finest, coarsest) = if key_frame { (finest, COARSEST) } else { self.range(finest, fullness) };
        if self.on_overshoot && !key_frame {
            return COARSEST;
        }
        let within = (finest..coarsest).find(|&quantizer| self.expected(key_frame, quantizer) <= size);
        let within = within.unwrap_or(coarsest);
        let finer = within.saturating_sub(1).max(finest);
        let distance = |quantizer: u8| (self.expected(key_frame, quantizer) - size).abs();
        if distance(finer) < distance(within) { finer } else { within }
    }

    /// Approximate prediction error of a picture from its size at a quantizer. The coding error is a twelfth of the
    /// squared step. A frame of R bits per sample removes an error 4^R times as large.
    fn prediction_error(&self, quantizer: u8, size: f64) -> f64 {
        let step = f64::from(quantizer_step(quantizer));
        step * step / 12.0 * libm::pow(4.0, 8.0 * size / self.luma_samples)
    }

    /// Whether an interframe of `size` bytes with a target of `wanted` should not be sent. `interval` is the time
    /// between frames, seconds.
    pub(crate) fn overshoots(&self, quantizer: u8, size: f64, wanted: f64, interval: f64) -> bool {
        let error = self.prediction_error(quantizer, size);
        f64::from(quantizer) < SURPRISE_QUANTIZER * f64::from(COARSEST)
            && self.inter_factor < CHEAP
            && f64::from(self.since_surprise) * interval > 1.0
            && size > wanted
            && error > MIN_OVERSHOOT_ERROR
            && error > SURPRISE * self.last_error
    }

    /// Records that a frame was not sent because of [`Self::overshoots`]. Its target was `wanted` bytes.
    pub(crate) fn on_dropped(&mut self, wanted: f64) {
        self.on_overshoot = true;
        self.since_surprise = 0;
        // The factor that gives the target size at the coarsest quantizer, at most twice the present one.
        let factor = wanted * 8.0 / self.luma_samples * f64::from(quantizer_step(COARSEST)) / INTER_BITS;
        if factor > self.inter_factor {
            self.inter_factor = factor.min(2.0 * self.inter_factor).min(FACTORS.1);
        }
    }

    /// Learns from a frame of `size` bytes at `quantizer`.
    pub(crate) fn learn(&mut self, key_frame: bool, quantizer: u8, size: f64) {
        let correction = 1.0 + CORRECTED_SHARE * (size / self.expected(key_frame, quantizer) - 1.0);
        let factor = if key_frame { &mut self.key_factor } else { &mut self.inter_factor };
        *factor = (*factor * correction).clamp(FACTORS.0, FACTORS.1);
        self.last_error = self.prediction_error(quantizer, size);
        self.last = quantizer;
        self.on_overshoot = false;
        self.since_surprise = self.since_surprise.saturating_add(1);
        if !key_frame {
            self.inter_frames = self.inter_frames.saturating_add(1);
            self.inter_sum += f64::from(quantizer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLES: usize = 640 * 360;
    const WANTED: f64 = 4_000.0;

    /// Size of a frame of a codec with `bits` per sample times the step to the power of `slope`.
    fn size(quantizer: u8, bits: f64, slope: f64) -> f64 {
        bits * SAMPLES as f64 / 8.0 * libm::pow(f64::from(quantizer_step(quantizer)), slope)
    }

    /// Codes interframes with a target of [`WANTED`] bytes. Returns quantizers and sizes.
    fn run(choice: &mut QuantizerChoice, frames: usize, fullness: f64, of: impl Fn(u8) -> f64) -> Vec<(u8, f64)> {
        let mut code = || {
            let quantizer = choice.quantizer(false, WANTED, FINEST, fullness);
            let size = of(quantizer);
            choice.learn(false, quantizer, size);
            (quantizer, size)
        };
        (0..frames).map(|_| code()).collect()
    }

    #[test]
    fn sizes_reach_the_target_for_any_codec() {
        for slope in [-0.7, -1.0, -2.5] {
            let bits = 8.0 * WANTED / SAMPLES as f64 / libm::pow(40.0, slope);
            let sizes = run(&mut QuantizerChoice::new(SAMPLES), 60, 1.0, |quantizer| size(quantizer, bits, slope));
            let mean = sizes[30..].iter().map(|(_, size)| size).sum::<f64>() / 30.0;
            assert!((mean / WANTED - 1.0).abs() < 0.1, "{slope}: {mean}");
        }
    }

    #[test]
    fn quantizer_reacts_fast_to_large_and_slowly_to_small_frames() {
        let steps = |share: f64| {
            let mut choice = QuantizerChoice::new(SAMPLES);
            let bits = 8.0 * WANTED / SAMPLES as f64 * 40.0;
            let before = run(&mut choice, 60, 1.0, |quantizer| size(quantizer, bits, -1.0))[59].0;
            let after = run(&mut choice, 2, 1.0, |quantizer| size(quantizer, share * bits, -1.0))[1].0;
            f64::from(quantizer_step(after)) / f64::from(quantizer_step(before))
        };
        assert!(steps(8.0) > 2.0, "{}", steps(8.0));
        assert!((0.7..0.9).contains(&steps(0.05)), "{}", steps(0.05));
    }

    #[test]
    fn full_buffer_allows_the_average_and_a_low_one_everything() {
        let mut choice = QuantizerChoice::new(SAMPLES);
        let bits = 8.0 * WANTED / SAMPLES as f64 * 40.0;
        let average = run(&mut choice, 200, 1.0, |quantizer| size(quantizer, bits, -1.0))[199].0;
        let coarsest = |fullness| choice.clone().quantizer(false, 50.0, FINEST, fullness);
        assert!(coarsest(1.0) <= average + 2, "{} after {average}", coarsest(1.0));
        assert!((average + 3..COARSEST).contains(&coarsest(0.6)), "{}", coarsest(0.6));
        assert_eq!(coarsest(0.2), COARSEST);
        let finest = |fullness| choice.quantizer(false, 1e6, FINEST, fullness);
        assert!(finest(1.0) > finest(1.4) && finest(MAX_FULLNESS) == FINEST, "{} {}", finest(1.0), finest(1.4));
    }

    #[test]
    fn frame_of_a_scene_cut_is_not_sent_and_the_next_is_coarsest() {
        let mut choice = QuantizerChoice::new(SAMPLES);
        let bits = 8.0 * WANTED / SAMPLES as f64 * 10.0;
        let (quantizer, usual) = run(&mut choice, 60, 1.0, |quantizer| size(quantizer, bits, -1.0))[59];
        assert!(!choice.overshoots(quantizer, 1.3 * usual, WANTED, 0.033));
        assert!(choice.overshoots(quantizer, 20.0 * usual, WANTED, 0.033));
        choice.on_dropped(WANTED);
        assert_eq!(choice.quantizer(false, WANTED, FINEST, 1.0), COARSEST);
        let soon = run(&mut choice, 10, 1.0, |quantizer| size(quantizer, bits, -1.0))[9];
        assert!(!choice.overshoots(soon.0, 20.0 * soon.1, WANTED, 0.033), "a third of a second later");
    }
}
