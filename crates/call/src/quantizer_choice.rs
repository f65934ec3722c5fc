//! The quantizer of a conventional real-time codec's next frame, from the size that it should have: decided before coding,
//! on what the last frames took.
//!
//! It behaves as libvpx's one-pass constant bit rate does for VP8. A frame is expected to take bits in inverse proportion
//! to the quantizer's step, times a factor that each frame corrects by a quarter of what it was off: frames that turn out
//! small are followed by finer ones slowly, one that turns out large is answered at once. Once there is an average
//! quantizer, a full buffer allows little more than it, and an empty one everything. A frame of a new scene that is far
//! too large at a fine quantizer is not sent at all, and the next one is as coarse as can be.

use lockstep_vp8::quantizer_step;

use crate::rate_control::MOST_FULLNESS;

/// The quantizers that WebRTC allows VP8, 2 to 56 of libvpx's scale to 63 (`rc_min_quantizer`, `rc_max_quantizer`), as
/// indices of VP8's own scale to 127.
const FINEST: u8 = 2;
const COARSEST: u8 = 106;
/// Bits that a luma sample of a key frame and of an inter frame is expected to take, times the step, before a frame has
/// told better: libvpx expects 4.5 and 2.85 million 512ths of a bit a macroblock. This codec takes about a third of it at
/// its coarsest; with [`CODED_SHARE`] the first seconds of calls lie with libvpx's (`lockstep-rate-miss` of the clips
/// `street-cars`, `corridor-people` and `bikes`).
const KEY_BITS: f64 = CODED_SHARE * 4.5e6 / 512.0 / 256.0;
const INTER_BITS: f64 = CODED_SHARE * 2.85e6 / 512.0 / 256.0;
const CODED_SHARE: f64 = 0.35;
/// The share of its error that a frame corrects the factor by, and the factor's bounds (libvpx).
const CORRECTED_SHARE: f64 = 0.25;
const FACTORS: (f64, f64) = (0.01, 50.0);
/// From so many inter frames on the average quantizer counts (libvpx).
const SETTLED_FRAMES: u32 = 150;
/// A buffer filled to this share of the optimum, or less, allows every quantizer; a full one the average (libvpx).
const LOW_FULLNESS: f64 = 0.25;
/// The finest quantizer is about this share of the coarsest (libvpx's table for inter frames, a straight line but for its
/// ends); less in a buffer fuller than it should be.
const FINEST_SHARE: f64 = 0.65;
/// A frame is not sent if it is coded at less than this share of the coarsest quantizer, where frames have become so cheap
/// (a factor of 0.08 of libvpx's), pictures are twice as hard to predict as the last one was and by more than so much
/// (squared difference a sample), and this has not happened for so long (libvpx; seconds).
const SURPRISE_QUANTIZER: f64 = 0.75;
const CHEAP: f64 = 0.08 / CODED_SHARE;
const SURPRISE: f64 = 2.0;
const LEAST_SURPRISE: f64 = 12.5;

/// Chooses quantizers, and learns from what became of them.
#[derive(Debug, Clone)]
pub(crate) struct QuantizerChoice {
    luma_samples: f64,
    key_factor: f64,
    inter_factor: f64,
    /// Quantizers of inter frames so far: how many, and their sum.
    inter_frames: u32,
    inter_sum: f64,
    last: u8,
    /// How hard the last picture was to predict, about; squared difference a luma sample.
    last_error: f64,
    /// A frame was not sent because its scene was new: the next one is as coarse as can be.
    surprised: bool,
    /// Frames since then.
    since_surprise: u32,
}

impl QuantizerChoice {
    /// For pictures of so many luma samples.
    pub(crate) fn new(luma_samples: usize) -> Self {
        Self {
            luma_samples: luma_samples as f64,
            key_factor: 1.0,
            inter_factor: 1.0,
            inter_frames: 0,
            inter_sum: 0.0,
            last: COARSEST,
            last_error: f64::INFINITY,
            surprised: false,
            since_surprise: 0,
        }
    }

    /// The size that a frame is expected to take at a quantizer, bytes.
    fn expected(&self, key_frame: bool, quantizer: u8) -> f64 {
        let bits = if key_frame { KEY_BITS * self.key_factor } else { INTER_BITS * self.inter_factor };
        bits * self.luma_samples / 8.0 / f64::from(quantizer_step(quantizer))
    }

    /// The finest and the coarsest quantizer of an inter frame. `fullness` is what the buffer holds, over what it should.
    fn range(&self, fullness: f64) -> (u8, u8) {
        if self.inter_frames <= SETTLED_FRAMES {
            return (FINEST, COARSEST);
        }
        let average = (self.inter_sum / f64::from(self.inter_frames)).max(f64::from(self.last) - 1.0);
        let scarce = ((1.0 - fullness) / (1.0 - LOW_FULLNESS)).clamp(0.0, 1.0);
        let coarsest = average + scarce * (f64::from(COARSEST) - average);
        let plenty = ((fullness - 1.0) / (MOST_FULLNESS - 1.0)).clamp(0.0, 1.0);
        let finest = (FINEST_SHARE * coarsest * (1.0 - plenty)).max(f64::from(FINEST));
        (finest as u8, (coarsest as u8).clamp(FINEST, COARSEST))
    }

    /// The quantizer of a frame that should take `size` bytes; `fullness` as [`Self::range`] has it.
    pub(crate) fn quantizer(&self, key_frame: bool, size: f64, fullness: f64) -> u8 {
        let (finest, coarsest) = if key_frame { (FINEST, COARSEST) } else { self.range(fullness) };
        if self.surprised && !key_frame {
            return COARSEST;
        }
        let within = (finest..coarsest).find(|&quantizer| self.expected(key_frame, quantizer) <= size);
        let within = within.unwrap_or(coarsest);
        let finer = within.saturating_sub(1).max(finest);
        let distance = |quantizer: u8| (self.expected(key_frame, quantizer) - size).abs();
        if distance(finer) < distance(within) { finer } else { within }
    }

    /// How hard a picture was to predict, from what it took at a quantizer, about: a frame of R bits a sample, coded to an
    /// error of a twelfth of the squared step, removes an error 4^R times as large.
    fn prediction_error(&self, quantizer: u8, size: f64) -> f64 {
        let step = f64::from(quantizer_step(quantizer));
        step * step / 12.0 * libm::pow(4.0, 8.0 * size / self.luma_samples)
    }

    /// Whether an inter frame of `size` bytes that should have had `wanted` is better not sent. `interval` is the time
    /// between frames, seconds.
    pub(crate) fn surprises(&self, quantizer: u8, size: f64, wanted: f64, interval: f64) -> bool {
        let error = self.prediction_error(quantizer, size);
        f64::from(quantizer) < SURPRISE_QUANTIZER * f64::from(COARSEST)
            && self.inter_factor < CHEAP
            && f64::from(self.since_surprise) * interval > 1.0
            && size > wanted
            && error > LEAST_SURPRISE
            && error > SURPRISE * self.last_error
    }

    /// A frame was not sent because it [surprises](Self::surprises); it should have had `wanted` bytes.
    pub(crate) fn drop_surprise(&mut self, wanted: f64) {
        self.surprised = true;
        self.since_surprise = 0;
        // What makes a frame of the size wanted at the coarsest quantizer, but no more than twice what was believed.
        let factor = wanted * 8.0 / self.luma_samples * f64::from(quantizer_step(COARSEST)) / INTER_BITS;
        if factor > self.inter_factor {
            self.inter_factor = factor.min(2.0 * self.inter_factor).min(FACTORS.1);
        }
    }

    /// A frame at `quantizer` has become `size` bytes.
    pub(crate) fn learn(&mut self, key_frame: bool, quantizer: u8, size: f64) {
        let correction = 1.0 + CORRECTED_SHARE * (size / self.expected(key_frame, quantizer) - 1.0);
        let factor = if key_frame { &mut self.key_factor } else { &mut self.inter_factor };
        *factor = (*factor * correction).clamp(FACTORS.0, FACTORS.1);
        self.last_error = self.prediction_error(quantizer, size);
        self.last = quantizer;
        self.surprised = false;
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

    /// A codec whose frames take `bits` a sample times the step to the power of `slope`.
    fn size(quantizer: u8, bits: f64, slope: f64) -> f64 {
        bits * SAMPLES as f64 / 8.0 * libm::pow(f64::from(quantizer_step(quantizer)), slope)
    }

    /// So many inter frames that should take [`WANTED`] bytes; gives quantizers and sizes.
    fn run(choice: &mut QuantizerChoice, frames: usize, fullness: f64, of: impl Fn(u8) -> f64) -> Vec<(u8, f64)> {
        let mut code = || {
            let quantizer = choice.quantizer(false, WANTED, fullness);
            let size = of(quantizer);
            choice.learn(false, quantizer, size);
            (quantizer, size)
        };
        (0..frames).map(|_| code()).collect()
    }

    #[test]
    fn frames_come_to_the_size_wanted_whatever_the_codec() {
        for slope in [-0.7, -1.0, -2.5] {
            let bits = 8.0 * WANTED / SAMPLES as f64 / libm::pow(40.0, slope);
            let sizes = run(&mut QuantizerChoice::new(SAMPLES), 60, 1.0, |quantizer| size(quantizer, bits, slope));
            let mean = sizes[30..].iter().map(|(_, size)| size).sum::<f64>() / 30.0;
            assert!((mean / WANTED - 1.0).abs() < 0.1, "{slope}: {mean}");
        }
    }

    #[test]
    fn large_frames_are_answered_at_once_and_small_ones_slowly() {
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
    fn a_full_buffer_allows_no_more_than_the_average_and_a_low_one_everything() {
        let mut choice = QuantizerChoice::new(SAMPLES);
        let bits = 8.0 * WANTED / SAMPLES as f64 * 40.0;
        let average = run(&mut choice, 200, 1.0, |quantizer| size(quantizer, bits, -1.0))[199].0;
        let coarsest = |fullness| choice.clone().quantizer(false, 50.0, fullness);
        assert!(coarsest(1.0) <= average + 2, "{} after {average}", coarsest(1.0));
        assert!((average + 3..COARSEST).contains(&coarsest(0.6)), "{}", coarsest(0.6));
        assert_eq!(coarsest(0.2), COARSEST);
        let finest = |fullness| choice.quantizer(false, 1e6, fullness);
        assert!(finest(1.0) > finest(1.4) && finest(MOST_FULLNESS) == FINEST, "{} {}", finest(1.0), finest(1.4));
    }

    #[test]
    fn a_new_scene_after_cheap_frames_is_not_sent_and_the_next_frame_is_the_coarsest() {
        let mut choice = QuantizerChoice::new(SAMPLES);
        let bits = 8.0 * WANTED / SAMPLES as f64 * 10.0;
        let (quantizer, usual) = run(&mut choice, 60, 1.0, |quantizer| size(quantizer, bits, -1.0))[59];
        assert!(!choice.surprises(quantizer, 1.3 * usual, WANTED, 0.033));
        assert!(choice.surprises(quantizer, 20.0 * usual, WANTED, 0.033));
        choice.drop_surprise(WANTED);
        assert_eq!(choice.quantizer(false, WANTED, 1.0), COARSEST);
        let soon = run(&mut choice, 10, 1.0, |quantizer| size(quantizer, bits, -1.0))[9];
        assert!(!choice.surprises(soon.0, 20.0 * soon.1, WANTED, 0.033), "a third of a second later");
    }
}
