//! Fits a [`ClipModel`] to measurements of the real codec, and computes its held-out error.
//!
//! ```text
//! measurements --> model of the whole clip ----------------> ClipModel
//!             \--> model of the first two thirds --> error on the last third
//! ```

use lockstep_call::{mean, quantile};

use crate::codec_model::{
    ClipModel, EffectTable, FOLLOWER_POINTS, HeldOutError, ModelPoint, NORMAL_POINTS, Persistence, REFERENCE_POINTS,
    ReferenceEffect, between,
};
use crate::codec_model_measure::{ClipMeasurements, Followed, Gap, MEASURED, Returned, Run, Segment};
use crate::modelled_clip::coarse_share;

/// Quantizers whose sizes measure difficulty. Finer ones are mostly noise, coarser ones mostly headers.
const TYPICAL: std::ops::RangeInclusive<u8> = 18..=94;
/// Index in [`MEASURED`] of the quantizer at which variances are compared.
const MIDDLE: usize = 6;
/// Share of each segment, from its start, to which the model of the held-out error is fitted.
const FITTED_SHARE: f64 = 2.0 / 3.0;
/// Factor by which sizes fall at least from one point to the next.
const MAX_SIZE_RATIO: f64 = 0.98;
/// Reach of a point of the effect table: a share of its value, but at least this many quantizers.
const REACH: (f64, f64) = (0.75, 12.0);

/// Predicate that selects pictures of a segment.
type Part = fn(picture: usize, of: usize) -> bool;

fn all(_picture: usize, _of: usize) -> bool {
    true
}

fn fitted(picture: usize, of: usize) -> bool {
    (picture as f64) < FITTED_SHARE * of as f64
}

fn held_out(picture: usize, of: usize) -> bool {
    !fitted(picture, of)
}

/// Standard deviation of `values`.
fn deviation(values: &[f64]) -> f64 {
    let middle = mean(values).unwrap_or(0.0);
    let squares = values.iter().map(|value| (value - middle) * (value - middle));
    libm::sqrt(mean(squares).unwrap_or(0.0))
}

/// Quantiles of `values` at [`NORMAL_POINTS`]; `usual` if there are no values.
fn quantiles(mut values: Vec<f64>, usual: [f64; NORMAL_POINTS.len()]) -> [f64; NORMAL_POINTS.len()] {
    values.sort_unstable_by(f64::total_cmp);
    let share = |point: f64| 0.5 * (1.0 + libm::erf(point / std::f64::consts::SQRT_2));
    std::array::from_fn(|index| quantile(&values, share(NORMAL_POINTS[index])).unwrap_or(usual[index]))
}

/// Values at one quantizer, of the selected pictures.
fn values(segments: &[Segment], part: Part, at: usize, of: impl Fn(&Run) -> &[Option<f64>]) -> Vec<f64> {
    let values = |segment: &Segment| -> Vec<f64> {
        let count = segment.pictures;
        let counted = |(index, value): (usize, &Option<f64>)| value.filter(|_| part(index, count));
        of(&segment.runs[at]).iter().enumerate().filter_map(counted).collect()
    };
    segments.iter().flat_map(values).collect()
}

/// Difficulty of each picture in deviations of ln(size), segment by segment. Pictures that are not interframes are
/// skipped.
fn difficulties(segments: &[Segment], part: Part, means: &[(f64, f64)]) -> Vec<Vec<f64>> {
    let of = |segment: &Segment| {
        let counted = (0..segment.pictures).filter(|&picture| part(picture, segment.pictures));
        let difficulty = |picture: usize| {
            let at_quantizer =
                |(at, _): (usize, &u8)| Some((segment.runs[at].inter[picture]? - means[at].0) / means[at].1.max(1e-3));
            let typical = MEASURED.iter().enumerate().filter(|(_, quantizer)| TYPICAL.contains(quantizer));
            mean(typical.filter_map(at_quantizer))
        };
        counted.filter_map(difficulty).collect()
    };
    segments.iter().map(of).collect()
}

/// Variation of values between seconds and within them.
struct Variation {
    second_deviation: f64,
    /// Correlation of the mean of one second with that of the next.
    neighbours: f64,
    frame_deviation: f64,
    /// Correlation of deviations from the second's mean, from frame to frame.
    frame_correlation: f64,
    /// Deviations from the second's mean.
    within: Vec<f64>,
    seconds: usize,
}

impl Variation {
    fn of(series: &[Vec<f64>], in_a_second: usize) -> Self {
        let (mut seconds, mut within) = (Vec::new(), Vec::new());
        let (mut pairs, mut frame_pairs) = ((0.0, 0.0), (0.0, 0.0));
        for values in series {
            let chunks = values.chunks_exact(in_a_second);
            let means: Vec<f64> = chunks.clone().filter_map(mean).collect();
            for pair in means.windows(2) {
                pairs.0 += pair[0] * pair[1];
                pairs.1 += 0.5 * (pair[0] * pair[0] + pair[1] * pair[1]);
            }
            for (chunk, middle) in chunks.zip(&means) {
                for pair in chunk.windows(2) {
                    frame_pairs.0 += (pair[0] - middle) * (pair[1] - middle);
                    frame_pairs.1 += 0.5 * ((pair[0] - middle).powi(2) + (pair[1] - middle).powi(2));
                }
                within.extend(chunk.iter().map(|value| value - middle));
            }
            seconds.extend(means);
        }
        // Subtracting the mean of each second adds a negative correlation.
        let bias = 1.0 / in_a_second as f64;
        Self {
            second_deviation: deviation(&seconds),
            neighbours: pairs.0 / pairs.1.max(1e-9),
            frame_deviation: deviation(&within),
            frame_correlation: (frame_pairs.0 / frame_pairs.1.max(1e-9) + bias).clamp(-0.9, 0.9),
            within,
            seconds: seconds.len(),
        }
    }

    /// Variance of a second's mean if values are correlated from frame to frame only.
    fn of_means(frame_variance: f64, correlation: f64, in_a_second: usize) -> f64 {
        frame_variance * (1.0 + correlation) / (1.0 - correlation) / in_a_second as f64
    }
}

/// Reference effect at [`REFERENCE_POINTS`]: slope through the origin of the frames near each point. The result is
/// monotonic.
fn effect(
    followed: &[Followed],
    of: impl Fn(&Followed) -> f64,
    sign: f64,
    quantizer: u8,
) -> [f64; REFERENCE_POINTS.len()] {
    let of_it = |frame: &&Followed| frame.quantizer == quantizer && frame.before == 0;
    let furthest = |sign: f64| followed.iter().filter(of_it).map(|frame| sign * frame.difference).fold(0.0, f64::max);
    let (finest, coarsest) = (-furthest(-1.0), furthest(1.0));
    let mut table = REFERENCE_POINTS.map(|point| {
        let (mut product, mut square) = (0.0, 1e-9);
        let reach = (REACH.0 * point.abs()).max(REACH.1);
        let counts = |frame: &&Followed| of_it(frame) && frame.difference * point > 0.0;
        for frame in followed.iter().filter(counts) {
            let weight = (1.0 - (frame.difference - point).abs() / reach).max(0.0);
            product += weight * frame.difference * of(frame);
            square += weight * frame.difference * frame.difference;
        }
        // Beyond the measured range the effect is constant.
        point.clamp(finest, coarsest) * product / square
    });
    let middle = REFERENCE_POINTS.iter().position(|&point| point == 0.0).unwrap_or(0);
    table[middle] = 0.0;
    for index in middle + 1..table.len() {
        table[index] = sign * (sign * table[index]).max(sign * table[index - 1]);
    }
    for index in (0..middle).rev() {
        table[index] = sign * (sign * table[index]).min(sign * table[index + 1]);
    }
    table
}

/// [`effect`] for each quantizer of [`FOLLOWER_POINTS`].
fn effects(followed: &[Followed], of: impl Fn(&Followed) -> f64, sign: f64) -> EffectTable {
    FOLLOWER_POINTS.map(|quantizer| effect(followed, &of, sign, quantizer))
}

/// Share of a difference in quantizers that frames pass on to the next one. It minimizes the squared error of the
/// effects in `table` after several frames. A negative `sign` selects finer references, a positive one coarser
/// references.
fn persistence_of(
    followed: &[Followed],
    table: &EffectTable,
    of: impl Fn(&Followed) -> f64,
    at: usize,
    sign: f64,
) -> f64 {
    let counts =
        |frame: &&Followed| frame.quantizer == FOLLOWER_POINTS[at] && frame.before > 0 && frame.difference * sign > 0.0;
    let frames: Vec<&Followed> = followed.iter().filter(counts).collect();
    let error = |share: f64| -> f64 {
        let of = |frame: &&Followed| {
            let left = frame.difference * libm::pow(share, frame.before as f64);
            (between(&REFERENCE_POINTS, &table[at], left) - of(frame)).powi(2)
        };
        frames.iter().map(of).sum()
    };
    let shares = (0..200).map(|part| f64::from(part) / 200.0);
    shares.min_by(|&one, &other| error(one).total_cmp(&error(other))).unwrap_or(0.0)
}

/// [`persistence_of`] for each quantizer of [`FOLLOWER_POINTS`].
fn persistence(followed: &[Followed], table: &EffectTable, of: impl Fn(&Followed) -> f64, sign: f64) -> Persistence {
    std::array::from_fn(|at| persistence_of(followed, table, &of, at, sign))
}

/// Share of a coarser reference's effect on size that remains where static parts are finer than the frame.
fn refined_share(returned: &[Returned], table: &EffectTable) -> f64 {
    let (mut product, mut square) = (0.0, 1e-9);
    for (quantizer, row) in FOLLOWER_POINTS.iter().zip(table) {
        for frame in returned.iter().filter(|frame| frame.quantizer == *quantizer) {
            let effect = between(&REFERENCE_POINTS, row, frame.difference);
            let least = effect * coarse_share(0.0, frame.difference, frame.kept);
            product += (effect - least) * (frame.size - least);
            square += (effect - least) * (effect - least);
        }
    }
    (product / square).clamp(0.0, 1.0)
}

/// Growth of ln(size) per logarithm of the reference's age, at one quantizer.
fn gap_slope(gaps: &[Gap], quantizer: u8) -> f64 {
    let of_it = || gaps.iter().filter(|gap| gap.quantizer == quantizer);
    let product: f64 = of_it().map(|gap| gap.age * gap.size).sum();
    let square: f64 = of_it().map(|gap| gap.age * gap.age).sum();
    (product / square.max(1e-9)).clamp(-1.0, 3.0)
}

impl ClipMeasurements {
    fn in_a_second(&self) -> usize {
        ((1.0 / self.frame_interval.as_secs_f64()).round() as usize).max(2)
    }

    /// Mean and deviation of ln(size) of interframes at each quantizer.
    fn means(&self, part: Part) -> Vec<(f64, f64)> {
        let of = |at| {
            let sizes = values(&self.segments, part, at, |run| &run.inter);
            (mean(&sizes).unwrap_or(0.0), deviation(&sizes))
        };
        (0..MEASURED.len()).map(of).collect()
    }

    fn points(&self, part: Part, means: &[(f64, f64)]) -> Vec<ModelPoint> {
        let mut points: Vec<ModelPoint> = Vec::new();
        for (at, &quantizer) in MEASURED.iter().enumerate() {
            let (middle, inter_deviation) = means[at];
            let key = mean(values(&self.segments, part, at, |run| &run.key)).unwrap_or(middle);
            let bits = |logarithm: f64| 8.0 * libm::exp(logarithm) / self.samples;
            let ssim_db = mean(values(&self.segments, part, at, |run| &run.ssim_db)).unwrap_or(0.0);
            let inter_deviation = inter_deviation.min(2.0);
            let mut point =
                ModelPoint { quantizer, inter_bits: bits(middle), inter_deviation, key_bits: bits(key), ssim_db };
            if let Some(last) = points.last() {
                point.inter_bits = point.inter_bits.min(MAX_SIZE_RATIO * last.inter_bits);
                point.key_bits = point.key_bits.min(MAX_SIZE_RATIO * last.key_bits);
                point.ssim_db = point.ssim_db.min(last.ssim_db - 1e-3);
            }
            points.push(point);
        }
        points
    }

    /// Slope of SSIM over difficulty and the deviation around it, dB, over all typical quantizers.
    fn ssim_variation(&self, part: Part, means: &[(f64, f64)]) -> (f64, f64) {
        let (mut product, mut square, mut residuals) = (0.0, 1e-9, Vec::new());
        let typical = || MEASURED.iter().enumerate().filter(|(_, quantizer)| TYPICAL.contains(quantizer));
        let mut pairs = Vec::new();
        for (at, _) in typical() {
            let middle = mean(values(&self.segments, part, at, |run| &run.ssim_db)).unwrap_or(0.0);
            for segment in &self.segments {
                let run = &segment.runs[at];
                for picture in (0..segment.pictures).filter(|&picture| part(picture, segment.pictures)) {
                    if let (Some(size), Some(ssim)) = (run.inter[picture], run.ssim_db[picture]) {
                        pairs.push(((size - means[at].0) / means[at].1.max(1e-3), ssim - middle));
                    }
                }
            }
        }
        for (difficulty, ssim) in &pairs {
            product += difficulty * ssim;
            square += difficulty * difficulty;
        }
        let slope = -product / square;
        residuals.extend(pairs.iter().map(|(difficulty, ssim)| ssim + slope * difficulty));
        (slope, deviation(&residuals))
    }

    fn model(&self, part: Part) -> ClipModel {
        let means = self.means(part);
        let in_a_second = self.in_a_second();
        let mut series = difficulties(&self.segments, part, &means);
        let scale = deviation(&series.concat()).max(1e-3);
        series.iter_mut().flatten().for_each(|difficulty| *difficulty /= scale);
        let variation = Variation::of(&series, in_a_second);
        let frame_variance = variation.frame_deviation * variation.frame_deviation;
        let of_frames = Variation::of_means(frame_variance, variation.frame_correlation, in_a_second);
        let second_variance = variation.second_deviation * variation.second_deviation;
        let slow_share = (second_variance - of_frames).clamp(0.0, 0.98);
        let rest = libm::sqrt(1.0 - slow_share) / variation.frame_deviation.max(1e-6);
        let within: Vec<f64> = variation.within.iter().map(|value| (value * rest).clamp(-20.0, 20.0)).collect();
        let counted: Vec<Followed> = self.of(part, |segment| &segment.followed, |frame| frame.picture);
        let gaps: Vec<Gap> = self.of(part, |segment| &segment.gaps, |gap| gap.picture);
        let fills = |pass: usize| -> Vec<f64> {
            let fills = self.of(part, |segment| &segment.fills[pass], |&(picture, _)| picture);
            fills.into_iter().map(|(_, fill)| fill.clamp(0.05, 3.0)).collect()
        };
        let returned: Vec<Returned> = self.of(part, |segment| &segment.returned, |frame| frame.picture);
        let size = effects(&counted, |frame| frame.size, 1.0);
        let ssim_db = effects(&counted, |frame| frame.ssim_db, -1.0);
        let reference = ReferenceEffect {
            size,
            ssim_db,
            size_persistence: [-1.0, 1.0].map(|sign| persistence(&counted, &size, |frame| frame.size, sign)),
            ssim_persistence: [-1.0, 1.0].map(|sign| persistence(&counted, &ssim_db, |frame| frame.ssim_db, sign)),
            refined_share: refined_share(&returned, &size),
        };
        let second = quantiles(fills(0), [0.95; NORMAL_POINTS.len()]);
        let pictures: usize = self.segments.iter().map(|segment| count(segment, part)).sum();
        let cuts: usize = self.of(part, |segment| &segment.cuts, |&picture| picture).len();
        let coded = self.of(part, |segment| &segment.cut_sizes, |&(picture, _)| picture);
        let cut_sizes: Vec<f64> = coded.iter().filter_map(|&(_, size)| size).collect();
        let (ssim_slope, ssim_deviation) = self.ssim_variation(part, &means);
        let keys: Vec<f64> = values(&self.segments, part, MIDDLE, |run| &run.key);
        ClipModel {
            name: self.name.clone(),
            frame_interval: self.frame_interval.as_secs_f64(),
            points: self.points(part, &means),
            slow_share,
            correlation_seconds: (-1.0 / libm::log(variation.neighbours.clamp(0.05, 0.95))).clamp(0.01, 1e3),
            frame_correlation: variation.frame_correlation,
            frame_quantiles: quantiles(within, NORMAL_POINTS),
            ssim_slope,
            ssim_deviation,
            key_deviation: deviation(&keys).min(2.0),
            scene_cuts: cuts as f64 / (pictures.max(1) as f64 * self.frame_interval.as_secs_f64()),
            cut_size: mean(&cut_sizes).unwrap_or(0.0).clamp(-2.0, 2.0),
            cut_keys: if coded.is_empty() { 1.0 } else { 1.0 - cut_sizes.len() as f64 / coded.len() as f64 },
            gap_slopes: FOLLOWER_POINTS.map(|quantizer| gap_slope(&gaps, quantizer)),
            reference,
            fills: [second, quantiles(fills(1), second)],
            held_out: None,
        }
    }

    /// Measurements of the selected pictures.
    fn of<T: Clone>(&self, part: Part, of: impl Fn(&Segment) -> &[T], picture: impl Fn(&T) -> usize) -> Vec<T> {
        let counted = |segment: &Segment| -> Vec<T> {
            of(segment).iter().filter(|value| part(picture(value), segment.pictures)).cloned().collect()
        };
        self.segments.iter().flat_map(counted).collect()
    }

    /// Error of `model` on the selected pictures.
    ///
    /// # Panics
    /// If the model was not fitted to the measured quantizers.
    fn error(&self, model: &ClipModel, part: Part, pictures: (u32, u32)) -> HeldOutError {
        let means = self.means(part);
        let in_a_second = self.in_a_second();
        let size = |(point, (middle, _)): (&ModelPoint, &(f64, f64))| {
            point.inter_bits * self.samples / 8.0 / libm::exp(*middle) - 1.0
        };
        let ssim = |(at, point): (usize, &ModelPoint)| {
            let measured = mean(values(&self.segments, part, at, |run| &run.ssim_db));
            point.ssim_db - measured.unwrap_or(point.ssim_db)
        };
        // ln(size) at the middle quantizer.
        let of_middle = |segment: &Segment| -> Vec<f64> {
            let run = &segment.runs[MIDDLE];
            (0..segment.pictures)
                .filter(|&index| part(index, segment.pictures))
                .filter_map(|at| run.inter[at])
                .collect()
        };
        let middle = means[MIDDLE].0;
        let series: Vec<Vec<f64>> = self.segments.iter().map(of_middle).collect();
        let centred: Vec<Vec<f64>> =
            series.iter().map(|values| values.iter().map(|value| value - middle).collect()).collect();
        let clip = Variation::of(&centred, in_a_second);
        let deviation_at_middle = model.points[MIDDLE].inter_deviation;
        let frame_variance = 1.0 - model.slow_share;
        let of_means = Variation::of_means(frame_variance, model.frame_correlation, in_a_second);
        let frame_deviation = deviation_at_middle * libm::sqrt((frame_variance - of_means).max(0.0));
        let second_deviation = deviation_at_middle * libm::sqrt(model.slow_share + of_means);
        HeldOutError {
            pictures,
            size: model.points.iter().zip(&means).map(size).collect(),
            ssim_db: model.points.iter().enumerate().map(ssim).collect(),
            frame_deviation: frame_deviation / clip.frame_deviation.max(1e-6) - 1.0,
            second_deviation: (second_deviation, if clip.seconds > 1 { clip.second_deviation } else { 0.0 }),
        }
    }

    /// Model of the whole clip. Its held-out error is that of a model of the first two thirds of each segment, on the
    /// last third.
    #[must_use]
    pub fn fit(&self) -> ClipModel {
        let pictures = |part: Part| self.segments.iter().map(|segment| count(segment, part) as u32).sum();
        let error = self.error(&self.model(fitted), held_out, (pictures(fitted), pictures(held_out)));
        ClipModel { held_out: Some(error), ..self.model(all) }
    }

    /// Error on this clip of a `model` of other clips.
    #[must_use]
    pub fn error_of(&self, model: &ClipModel) -> HeldOutError {
        self.error(model, all, (0, self.segments.iter().map(|segment| segment.pictures as u32).sum()))
    }
}

fn count(segment: &Segment, part: Part) -> usize {
    (0..segment.pictures).filter(|&picture| part(picture, segment.pictures)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: usize = 3;

    /// Frames at one quantizer after references `differences` away. Each frame passes on `share` of the difference. The
    /// effect is a twentieth of the difference.
    fn series(differences: &[f64], share: f64) -> Vec<Followed> {
        let frame = |difference: f64, before: usize| Followed {
            picture: before,
            quantizer: FOLLOWER_POINTS[AT],
            before,
            difference,
            size: 0.05 * difference * libm::pow(share, before as f64),
            ssim_db: 0.0,
        };
        let chains = differences.iter().flat_map(|&difference| [0, 3, 7].map(|before| frame(difference, before)));
        chains.collect()
    }

    #[test]
    fn fitted_effects_and_persistence_equal_the_generated_ones() {
        let followed = series(&[-44.0, -35.0, -22.0, -10.0, 11.0, 28.0, 64.0], 0.8);
        let size = |frame: &Followed| frame.size;
        let table = effects(&followed, size, 1.0);
        let expected = [-2.2, -2.2, -0.9, -0.35, 0.0, 0.35, 0.9, 2.25, 3.2];
        assert!(table[AT].iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 0.01), "{table:?}");
        assert_eq!(table[AT - 1], [0.0; REFERENCE_POINTS.len()], "not measured");
        for sign in [-1.0, 1.0] {
            let share = persistence_of(&followed, &table, size, AT, sign);
            assert!((share - 0.8).abs() < 0.011, "{sign}: {share}");
        }
    }

    #[test]
    fn a_finer_static_part_reduces_a_coarser_references_effect() {
        let table = effects(&series(&[18.0, 45.0], 0.5), |frame| frame.size, 1.0);
        let quantizer = FOLLOWER_POINTS[AT];
        let frame = |difference: f64| {
            let (kept, size) = (-0.25 * difference, 0.05 * difference * (0.5 + 0.5 * 0.2));
            Returned { picture: 0, quantizer, difference, kept, size }
        };
        let share = refined_share(&[frame(18.0), frame(45.0)], &table);
        assert!((share - 0.2).abs() < 0.01, "{share}");
        assert_eq!(refined_share(&[], &table), 0.0);
    }

    #[test]
    fn the_slope_over_reference_age_is_fitted_per_quantizer() {
        let gap = |quantizer: u8, slope: f64, age: f64| Gap { picture: 0, quantizer, age, size: slope * age };
        let gaps = [gap(48, 0.4, 0.7), gap(48, 0.4, 2.0), gap(4, 0.1, 1.4)];
        assert!((gap_slope(&gaps, 48) - 0.4).abs() < 1e-6 && (gap_slope(&gaps, 4) - 0.1).abs() < 1e-6);
    }
}
