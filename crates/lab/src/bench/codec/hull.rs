//! Time and bits of each encoder relative to our real-time level, and the convex hull of both.
//!
//! An encoder on the hull is not worse than any mix of two others. Two encoders that alternate by pictures reach every
//! point of the line between them.

use lockstep_call::mean;

use super::report::{Bits, ClipReport, EncoderReport, Tradeoff};

/// The set of points whose BD-rates make the hull.
const SET: &str = "coarse";

/// The lower left convex hull of points. Returns their places, from the one with the smallest first coordinate to the
/// one with the smallest second coordinate. It skips points that are not finite.
fn lower_hull(points: &[(f64, f64)]) -> Vec<usize> {
    let mut order: Vec<usize> =
        (0..points.len()).filter(|&at| points[at].0.is_finite() && points[at].1.is_finite()).collect();
    order.sort_by(|&a, &b| points[a].0.total_cmp(&points[b].0).then(points[a].1.total_cmp(&points[b].1)));
    let mut hull: Vec<usize> = Vec::new();
    for at in order {
        let (x, y) = points[at];
        if hull.last().is_some_and(|&last| points[last].1 <= y) {
            continue;
        }
        while let [.., before, last] = hull[..] {
            let ((ax, ay), (bx, by)) = (points[before], points[last]);
            // The last point stays only if it lies below the line from the one before to the new one.
            if (bx - ax) * (y - ay) - (by - ay) * (x - ax) > 0.0 {
                break;
            }
            hull.pop();
        }
        hull.push(at);
    }
    hull
}

fn mark(tradeoffs: &mut [Tradeoff], bits: fn(&mut Tradeoff) -> &mut Bits) {
    let points: Vec<(f64, f64)> =
        tradeoffs.iter_mut().map(|one| (one.time, bits(one).bd_rate.unwrap_or(f64::NAN))).collect();
    for at in lower_hull(&points) {
        bits(&mut tradeoffs[at]).on_hull = true;
    }
}

fn mark_both(mut tradeoffs: Vec<Tradeoff>) -> Vec<Tradeoff> {
    mark(&mut tradeoffs, |one| &mut one.psnr);
    mark(&mut tradeoffs, |one| &mut one.ssim);
    tradeoffs
}

/// Time and bits of each encoder on one clip, relative to `anchor`.
pub(super) fn of_clip(encoders: &[EncoderReport], anchor: &EncoderReport) -> Vec<Tradeoff> {
    let bits = |bd_rate| Bits { bd_rate, on_hull: false, worst: None, worst_clip: None };
    let tradeoffs = encoders.iter().map(|encoder| {
        let comparison = encoder.compare(anchor);
        Tradeoff {
            name: encoder.name.clone(),
            time: 1.0 / comparison.speed_ratio,
            psnr: bits(comparison.bd_rate_psnr.get(SET).copied().flatten()),
            ssim: bits(comparison.bd_rate_ssim.get(SET).copied().flatten()),
        }
    });
    mark_both(tradeoffs.collect())
}

/// Geometric mean of ratios. None without ratios.
fn geometric_mean(ratios: &[f64]) -> Option<f64> {
    mean(ratios.iter().map(|ratio| ratio.ln())).map(f64::exp)
}

/// Time and bits of each encoder over all clips: geometric means of the ratios.
pub(super) fn of_clips(clips: &[ClipReport]) -> Vec<Tradeoff> {
    let Some(first) = clips.first() else { return Vec::new() };
    let over = |name: &str| {
        let all: Vec<(&str, &Tradeoff)> = clips
            .iter()
            .filter_map(|clip| Some((clip.name.as_str(), clip.tradeoffs.iter().find(|one| one.name == name)?)))
            .collect();
        let bits = |of: fn(&Tradeoff) -> &Bits| {
            // A mean without the clips of unknown BD-rate would compare encoders on different clips.
            let rates: Option<Vec<f64>> = all.iter().map(|(_, one)| Some(1.0 + of(one).bd_rate?)).collect();
            let known = all.iter().filter_map(|(clip, one)| Some((*clip, of(one).bd_rate?)));
            let worst = known.max_by(|a, b| a.1.total_cmp(&b.1));
            Bits {
                bd_rate: rates.and_then(|rates| geometric_mean(&rates)).map(|ratio| ratio - 1.0),
                on_hull: false,
                worst: worst.map(|(_, rate)| rate),
                worst_clip: worst.map(|(clip, _)| clip.to_owned()),
            }
        };
        let times: Vec<f64> = all.iter().map(|(_, one)| one.time).collect();
        Some(Tradeoff {
            name: name.to_owned(),
            time: geometric_mean(&times)?,
            psnr: bits(|one| &one.psnr),
            ssim: bits(|one| &one.ssim),
        })
    };
    mark_both(first.tradeoffs.iter().filter_map(|one| over(&one.name)).collect())
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    use super::*;

    #[test]
    fn hull_leaves_out_points_above_it() {
        let points = [(1.0, 0.0), (2.0, -0.1), (3.0, -0.5), (2.0, 0.3), (0.5, 0.4), (4.0, -0.4), (3.0, -0.5)];
        assert_eq!(lower_hull(&points), [4, 0, 2]);
        assert!(lower_hull(&[]).is_empty());
        assert_eq!(lower_hull(&[(1.0, f64::NAN), (2.0, 0.0)]), [1]);
        assert_eq!(lower_hull(&[(1.0, 0.0), (1.0, -1.0)]), [1]);
    }

    #[test]
    fn no_point_lies_below_the_hull() {
        let mut random = Pcg64Mcg::seed_from_u64(1);
        for count in 1..40 {
            let points: Vec<(f64, f64)> = (0..count)
                // Few different values, so that points are often equal or on one line.
                .map(|_| (f64::from(random.random_range(1..12)), f64::from(random.random_range(-6..6))))
                .collect();
            let hull: Vec<(f64, f64)> = lower_hull(&points).into_iter().map(|at| points[at]).collect();
            let (first, last) = (hull[0], hull[hull.len() - 1]);
            for &(x, y) in &points {
                assert!(x >= first.0 && y >= last.1, "{points:?}");
                assert!(x > first.0 || y >= first.1, "{points:?}");
                for pair in hull.windows(2) {
                    let ((ax, ay), (bx, by)) = (pair[0], pair[1]);
                    assert!(bx > ax && by < ay, "{points:?}");
                    let line = ay + (by - ay) * (x - ax) / (bx - ax);
                    assert!(y >= line - 1e-9, "{points:?}: ({x}, {y}) is below {pair:?}");
                }
            }
        }
    }

    fn tradeoff(name: &str, time: f64, rate: Option<f64>) -> Tradeoff {
        let bits = Bits { bd_rate: rate, on_hull: false, worst: None, worst_clip: None };
        Tradeoff { name: name.to_owned(), time, psnr: bits.clone(), ssim: bits }
    }

    #[test]
    fn means_over_clips_are_geometric_and_need_every_clip() {
        let clip = |name: &str, tradeoffs| ClipReport { tradeoffs, ..ClipReport::empty(name) };
        let clips = [
            clip("a", vec![tradeoff("us", 1.0, Some(0.0)), tradeoff("x", 2.0, Some(0.0)), tradeoff("y", 9.0, None)]),
            clip(
                "b",
                vec![tradeoff("us", 1.0, Some(0.0)), tradeoff("x", 8.0, Some(-0.75)), tradeoff("y", 9.0, Some(-0.9))],
            ),
        ];
        let all = of_clips(&clips);
        assert!((all[1].time - 4.0).abs() < 1e-9 && (all[1].psnr.bd_rate.unwrap() + 0.5).abs() < 1e-9, "{all:?}");
        assert_eq!((all[1].psnr.worst, all[1].psnr.worst_clip.as_deref()), (Some(0.0), Some("a")));
        assert_eq!(all[2].psnr.bd_rate, None);
        assert_eq!(all.iter().map(|one| one.psnr.on_hull).collect::<Vec<_>>(), [true, true, false]);
    }
}
