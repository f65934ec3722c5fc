//! Bounds on the frames of a picture over all references, for bounds on what control can achieve.

use super::*;

/// Number of steps between two neighbouring quantizers.
const STEPS: usize = 2;

/// Largest SSIM at a size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BestFrame {
    /// Size in bytes. No frame of at least this size and below the next entry's is better than `ssim`.
    pub size: ByteCount,
    /// Luma SSIM, 0-1.
    pub ssim: f64,
}

/// Smallest and largest value from `least` to `most` of a function with `values` at [`REFERENCE_POINTS`]. The function
/// is linear between the points.
fn extremes(values: &[f64; REFERENCE_POINTS.len()], least: f64, most: f64) -> (f64, f64) {
    let inside = REFERENCE_POINTS.into_iter().filter(|point| (least..=most).contains(point));
    let at = inside.chain([least, most]).map(|point| between(&REFERENCE_POINTS, values, point));
    at.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
}

/// Frames that are better than all smaller ones, by rising size.
fn by_size(mut frames: Vec<BestFrame>) -> Vec<BestFrame> {
    frames.sort_unstable_by(|one, other| one.size.cmp(&other.size).then(other.ssim.total_cmp(&one.ssim)));
    let mut best = f64::NEG_INFINITY;
    frames.retain(|frame| {
        let is_better = frame.ssim > best;
        best = best.max(frame.ssim);
        is_better
    });
    frames
}

impl ClipCurves {
    /// Frames of `picture` by rising size and SSIM, at constant quality. The reference has the frame's quantizer and is
    /// `age` pictures older.
    #[must_use]
    pub fn usual_frames(&self, picture: &ModelledPicture, finest: u8, age: u32) -> Vec<BestFrame> {
        let alone = ModelledPicture { reference: None, ..*picture };
        let gap = if picture.scene_cut { 0.0 } else { libm::log(f64::from(age).clamp(1.0, GAPS.1)) };
        let key_frame = picture.needs_key_frame();
        let usual = |quantizer: usize| (self.logarithm(&alone, quantizer, key_frame, gap), 0.0);
        let mut frames = Vec::new();
        self.add_best(picture, usize::from(finest.min(MAX_QUANTIZER)), usual, &mut frames);
        by_size(frames)
    }

    /// Bounds on the frames of `picture`, by rising size and SSIM.
    ///
    /// No frame is smaller than the first entry. No frame smaller than an entry is better than the entry before it.
    /// This holds for key frames and for any reference at least `age` pictures older. Neither the frame nor its
    /// references may be finer than `finest`.
    #[must_use]
    pub fn best_frames(&self, picture: &ModelledPicture, finest: u8, age: u32) -> Vec<BestFrame> {
        let finest = usize::from(finest.min(MAX_QUANTIZER));
        let key = |quantizer: usize| (self.logarithm(picture, quantizer, true, 0.0), 0.0);
        let mut frames = Vec::with_capacity(2 * STEPS * QUANTIZERS);
        self.add_best(picture, finest, key, &mut frames);
        if picture.scene_cut {
            let cut = |quantizer: usize| (self.logarithm(picture, quantizer, false, 0.0), 0.0);
            self.add_best(picture, finest, cut, &mut frames);
        } else {
            self.add_best(picture, finest, |quantizer| self.best_inter(picture, quantizer, finest, age), &mut frames);
        }
        by_size(frames)
    }

    /// Lower bound on ln(size) and upper bound on the reference's effect on SSIM in dB, of an interframe at
    /// `quantizer`.
    fn best_inter(&self, picture: &ModelledPicture, quantizer: usize, finest: usize, age: u32) -> (f64, f64) {
        let alone = ModelledPicture { reference: None, ..*picture };
        let (finer, coarser) = (finest as f64 - quantizer as f64, f64::from(MAX_QUANTIZER) - quantizer as f64);
        let sizes = &self.size_effects[quantizer];
        // Any share of a coarser reference's effect may remain.
        let history = extremes(sizes, finer, 0.0).0.min(extremes(sizes, 0.0, coarser).0.min(0.0));
        let slope = self.gap_slopes[quantizer];
        let gap = |age: f64| slope * libm::log(age.clamp(1.0, GAPS.1));
        let gap = gap(f64::from(age)).min(gap(GAPS.1));
        let usual = self.logarithm(&alone, quantizer, false, 0.0);
        let gains = &self.ssim_effects[quantizer];
        let gain = extremes(gains, finer, 0.0).1 + extremes(gains, 0.0, coarser).1;
        // A reference cannot be worse than no reference.
        let most = usual.max(self.key[quantizer] + picture.key_excess + self.clip.cut_size.max(0.0));
        ((usual + history.min(0.0) + gap).min(most), gain)
    }

    /// Adds frames by quantizer. `bounds` returns a lower bound on ln(size) and the gain of SSIM in dB.
    fn add_best(
        &self,
        picture: &ModelledPicture,
        finest: usize,
        bounds: impl Fn(usize) -> (f64, f64),
        frames: &mut Vec<BestFrame>,
    ) {
        let mut finer = None;
        for quantizer in finest..QUANTIZERS {
            let (small, gain) = bounds(quantizer);
            let step = |share: f64, logarithm: f64| {
                let finer = self.ssim_db[quantizer.saturating_sub(1)];
                let usual = self.ssim_db[quantizer] + share * (finer - self.ssim_db[quantizer]);
                let decibels = (usual.max(self.ssim_db[quantizer]) + gain + picture.ssim_excess).max(0.1);
                let size = ByteCount::new(libm::exp(logarithm).max(MIN_FRAME_BYTES) as u64);
                BestFrame { size, ssim: 1.0 - libm::exp10(-0.1 * decibels) }
            };
            match finer {
                None => frames.push(step(0.0, small)),
                // Between two quantizers, the reachable share is largest if both ends have their smallest sizes.
                Some(large) if large > small => frames.extend((0..STEPS).map(|number| {
                    let start = number as f64 / STEPS as f64;
                    step((number + 1) as f64 / STEPS as f64, small + start * (large - small))
                })),
                Some(large) => frames.push(step(1.0, small.min(large))),
            }
            finer = Some(small);
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::Rng;

    use super::*;
    use crate::codec_model::CodecModel;

    #[test]
    fn no_coded_frame_is_better_than_the_bound() {
        let model = CodecModel::built_in().unwrap();
        for (seed, clip) in model.clips.iter().enumerate() {
            let curves = Arc::new(ClipCurves::new(clip, 640, 360));
            let mut clip = ModelledClip::new(Arc::clone(&curves), Duration::from_millis(33), seed as u64);
            let mut random = Pcg64::seed_from_u64(seed as u64);
            let mut references = vec![None];
            for _ in 0..600 {
                let picture = clip.next_picture();
                let known = references.len();
                for _ in 0..6 {
                    // A picture is never its own reference.
                    let from = picture.coded_from(references[random.random_range(0..known)]);
                    let key_frame = from.reference.is_none() || random.random_bool(0.1);
                    let age = from.reference.map_or(1, |reference| picture.number - reference.picture) as u32;
                    let best = curves.best_frames(&picture, FINEST_USEFUL_QUANTIZER, random.random_range(1..=age));
                    let frame = if random.random_bool(0.5) {
                        let quantizer = random.random_range(FINEST_USEFUL_QUANTIZER..=MAX_QUANTIZER);
                        curves.encode(&from, quantizer, key_frame)
                    } else {
                        let budget = ByteCount::new(libm::exp(random.random_range(3.0..11.0)) as u64);
                        curves.encode_to_fit(&from, budget, key_frame, random.random_range(1..4))
                    };
                    let place = best.partition_point(|entry| entry.size <= frame.size);
                    let bound = place.checked_sub(1).map(|place| best[place].ssim);
                    assert!(
                        bound.is_some_and(|bound| frame.ssim <= bound + 1e-12),
                        "{frame:?} is better than {bound:?}"
                    );
                    if random.random_bool(0.3) {
                        references.push(Some(frame.reference));
                    }
                }
                let kept = references.len().saturating_sub(20);
                references.drain(1..kept.max(1));
            }
        }
    }

    #[test]
    fn best_frames_rise_in_size_and_in_ssim() {
        let model = CodecModel::built_in().unwrap();
        let curves = Arc::new(ClipCurves::new(&model.clips[1], 640, 360));
        let picture = ModelledClip::new(Arc::clone(&curves), Duration::from_millis(33), 1).next_picture();
        let best = curves.best_frames(&picture, 0, 1);
        assert!(best.len() > 100, "{}", best.len());
        assert!(best.windows(2).all(|pair| pair[0].size <= pair[1].size && pair[0].ssim < pair[1].ssim));
    }
}
