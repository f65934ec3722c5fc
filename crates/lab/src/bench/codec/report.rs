//! The report of the codec benchmark: all numbers and the targets.

use std::collections::BTreeMap;

use serde::Serialize;

use lockstep_media::{RatePoint, bjontegaard_delta_rate};

use super::super::median;
use super::drift::Drift;
use super::measures::{Curve, Decoding, Fits, Menus};

/// One encoder on one clip.
#[derive(Debug, Serialize)]
pub(super) struct EncoderReport {
    pub name: String,
    /// Curves by set of points: `coarse`, `fine`.
    pub curves: BTreeMap<&'static str, Curve>,
    /// Time of the clip at the middle point, seconds, by round.
    pub seconds: Vec<f64>,
    /// Pictures encoded per second of processor time at that point.
    pub frames_per_second: f64,
}

/// One of our presets compared with a setting of libvpx.
#[derive(Debug, Serialize)]
pub(super) struct Comparison {
    pub ours: String,
    pub against: String,
    /// Extra bits of our encoder at equal quality, as a share, by set of points. None if the curves do not overlap.
    pub bd_rate_psnr: BTreeMap<&'static str, Option<f64>>,
    pub bd_rate_ssim: BTreeMap<&'static str, Option<f64>>,
    /// Time of libvpx divided by ours, median of the rounds.
    pub speed_ratio: f64,
}

#[derive(Debug, Serialize)]
pub(super) struct ClipReport {
    pub name: String,
    pub clip: String,
    pub width: usize,
    pub height: usize,
    pub pictures: usize,
    pub encoders: Vec<EncoderReport>,
    pub comparisons: Vec<Comparison>,
    /// Time and bits relative to our real-time level.
    pub tradeoffs: Vec<Tradeoff>,
    pub decoding: Vec<Decoding>,
    pub menus: Menus,
    pub fits: Fits,
    /// Drift; empty for pictures that are too small.
    pub drift: Vec<Drift>,
}

/// Whether lower or higher values are better.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Better {
    Lower,
    Higher,
}

/// A target and its result.
#[derive(Debug, Serialize)]
pub(super) struct Aim {
    pub what: String,
    /// Unit: `%` for a difference, `share` for a part, `x` for ratios, `dB`, or empty for a count. All except `dB` are
    /// plain numbers: 0.05 is 5 %.
    pub unit: &'static str,
    pub better: Better,
    /// Limit for the worst clip.
    pub worst_allowed: Option<f64>,
    /// Limit for the median.
    pub median_allowed: Option<f64>,
    /// Whether the limits themselves are excluded.
    pub strict: bool,
    pub median: Option<f64>,
    pub worst: Option<f64>,
    pub worst_clip: Option<String>,
    /// First clip without a result, because its curves have no common quality.
    pub unknown_clip: Option<String>,
    /// None without a measurement, or if all known values are within the limits and some are unknown.
    pub reached: Option<bool>,
}

/// Bits of an encoder at equal quality.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Bits {
    /// Extra bits at equal quality over the anchor, as a share. None if the curves do not overlap.
    pub bd_rate: Option<f64>,
    /// Whether the encoder is on the convex hull of time and bits.
    pub on_hull: bool,
    /// Highest `bd_rate` of all clips. None in the results of one clip.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worst: Option<f64>,
    /// Clip of the highest `bd_rate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worst_clip: Option<String>,
}

/// Time and bits of an encoder.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Tradeoff {
    pub name: String,
    /// Processor time divided by that of the anchor.
    pub time: f64,
    /// Bits at equal luma PSNR.
    pub psnr: Bits,
    /// Bits at equal luma SSIM.
    pub ssim: Bits,
}

#[derive(Debug, Serialize)]
pub(super) struct BenchReport {
    pub lockstep: &'static str,
    pub libvpx: Option<String>,
    /// Version of ffmpeg, if one of its encoders is compared.
    pub ffmpeg: Option<String>,
    /// Clock of the times: processor time or wall time.
    pub clock: &'static str,
    pub pictures: u32,
    pub rounds: u32,
    pub clips: Vec<ClipReport>,
    /// Time and bits over all clips.
    pub tradeoffs: Vec<Tradeoff>,
    pub aims: Vec<Aim>,
}

impl EncoderReport {
    fn points(curve: &Curve, quality: &[f64]) -> Vec<RatePoint> {
        curve.kbps.iter().zip(quality).map(|(&rate, &quality)| RatePoint { rate, quality }).collect()
    }

    pub(super) fn compare(&self, anchor: &Self) -> Comparison {
        let delta = |quality: fn(&Curve) -> &[f64]| {
            let of = |(&set, ours): (&&'static str, &Curve)| {
                let theirs = anchor.curves.get(set)?;
                let theirs = Self::points(theirs, quality(theirs));
                Some((set, bjontegaard_delta_rate(&theirs, &Self::points(ours, quality(ours))).ok()))
            };
            self.curves.iter().filter_map(of).collect()
        };
        let ratios: Vec<f64> = anchor.seconds.iter().zip(&self.seconds).map(|(theirs, ours)| theirs / ours).collect();
        Comparison {
            ours: self.name.clone(),
            against: anchor.name.clone(),
            bd_rate_psnr: delta(|curve| &curve.psnr_db),
            bd_rate_ssim: delta(|curve| &curve.ssim_db),
            speed_ratio: median(&ratios),
        }
    }
}

impl ClipReport {
    /// A report without encoders.
    #[cfg(test)]
    pub(super) fn empty(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            clip: name.to_owned(),
            width: 16,
            height: 16,
            pictures: 2,
            encoders: vec![],
            comparisons: vec![],
            tradeoffs: vec![],
            decoding: vec![],
            menus: Menus { two: 1.0, three: 1.0, key_frame: 1.0 },
            fits: Fits { time: 1.0, fill_median: 0.9, fill_p10: 0.8, over: 0, frames: 1 },
            drift: vec![],
        }
    }

    fn comparison(&self, ours: &str, against: &str) -> Option<&Comparison> {
        self.comparisons.iter().find(|one| one.ours == ours && one.against == against)
    }
}

impl Aim {
    fn new(what: impl Into<String>, unit: &'static str, better: Better) -> Self {
        Self {
            what: what.into(),
            unit,
            better,
            worst_allowed: None,
            median_allowed: None,
            strict: false,
            median: None,
            worst: None,
            worst_clip: None,
            unknown_clip: None,
            reached: None,
        }
    }

    fn worst(self, limit: f64) -> Self {
        Self { worst_allowed: Some(limit), ..self }
    }

    fn median(self, limit: f64) -> Self {
        Self { median_allowed: Some(limit), ..self }
    }

    fn strictly(self) -> Self {
        Self { strict: true, ..self }
    }

    /// The target with the values of the clips. `values` may return several per clip.
    fn over(mut self, clips: &[ClipReport], values: impl Fn(&ClipReport) -> Vec<f64>) -> Self {
        let all: Vec<(f64, &str)> =
            clips.iter().flat_map(|clip| values(clip).into_iter().map(|value| (value, clip.name.as_str()))).collect();
        let badness = |value: f64| match self.better {
            Better::Lower => value,
            Better::Higher => -value,
        };
        let Some(&(worst, clip)) = all.iter().max_by(|a, b| badness(a.0).total_cmp(&badness(b.0))) else { return self };
        let middle = median(&all.iter().map(|(value, _)| *value).collect::<Vec<_>>());
        let within = |value: f64, limit: Option<f64>| {
            limit.is_none_or(|limit| {
                let over = badness(value) - badness(limit);
                over < 0.0 || (over == 0.0 && !self.strict)
            })
        };
        self.reached = Some(within(worst, self.worst_allowed) && within(middle, self.median_allowed));
        (self.median, self.worst, self.worst_clip) = (Some(middle), Some(worst), Some(clip.to_owned()));
        self
    }
}

/// BD-rates of the clips. A measured one may be unknown.
struct Rates {
    ours: &'static str,
    against: &'static str,
    set: &'static str,
    ssim: bool,
}

impl Rates {
    /// The BD-rate of a clip. The outer option is whether it was measured, the inner whether it is known.
    fn of(&self, clip: &ClipReport) -> Option<Option<f64>> {
        let comparison = clip.comparison(self.ours, self.against)?;
        let rates = if self.ssim { &comparison.bd_rate_ssim } else { &comparison.bd_rate_psnr };
        rates.get(self.set).copied()
    }

    /// The target with the values of the clips.
    fn reach(&self, aim: Aim, clips: &[ClipReport]) -> Aim {
        let mut aim = aim.over(clips, |clip| self.of(clip).flatten().into_iter().collect());
        let unknown = clips.iter().find(|clip| self.of(clip) == Some(None));
        aim.unknown_clip = unknown.map(|clip| clip.name.clone());
        aim.reached = aim.reached.filter(|reached| unknown.is_none() || !reached);
        aim
    }
}

/// Targets of the codec on every clip.
pub(super) fn aims(clips: &[ClipReport]) -> Vec<Aim> {
    use Better::{Higher, Lower};
    const REAL_TIME: &str = "lockstep real-time";
    const QUALITY: &str = "lockstep quality";
    let speed = |ours: &'static str, against: &'static str| {
        move |clip: &ClipReport| clip.comparison(ours, against).map(|one| one.speed_ratio).into_iter().collect()
    };
    let mut aims = Vec::new();
    for (set, points) in [("coarse", "15 to 106"), ("fine", "4 to 15")] {
        for (measure, ssim) in [("PSNR", false), ("SSIM", true)] {
            let what = format!("real-time, BD-rate against --rt 4, {measure}, quantizers {points}");
            let aim = Aim::new(what, "%", Lower).worst(0.0).median(-0.10).strictly();
            aims.push(Rates { ours: REAL_TIME, against: "libvpx --rt 4", set, ssim }.reach(aim, clips));
        }
    }
    let aim = Aim::new("real-time, speed against --rt -8", "x", Higher).median(1.0).worst(0.85);
    aims.push(aim.over(clips, speed(REAL_TIME, "libvpx --rt -8")));
    for (set, points) in [("coarse", "15 to 106"), ("fine", "4 to 15")] {
        for (measure, ssim) in [("PSNR", false), ("SSIM", true)] {
            let what = format!("quality, BD-rate against --good 0, {measure}, quantizers {points}");
            let aim = Aim::new(what, "%", Lower).worst(0.05).median(0.0).strictly();
            aims.push(Rates { ours: QUALITY, against: "libvpx --good 0", set, ssim }.reach(aim, clips));
        }
    }
    aims.push(
        Aim::new("quality, speed against --good 0", "x", Higher)
            .worst(2.0)
            .over(clips, speed(QUALITY, "libvpx --good 0")),
    );
    let decoding = |clip: &ClipReport| clip.decoding.iter().filter_map(|one| one.speed_ratio).collect();
    aims.push(Aim::new("decoding, speed against libvpx", "x", Higher).worst(1.0).over(clips, decoding));
    let menus = |part: fn(&Menus) -> f64| move |clip: &ClipReport| vec![part(&clip.menus)];
    aims.push(Aim::new("menu of two over one", "x", Lower).worst(1.3).over(clips, menus(|menus| menus.two)));
    aims.push(Aim::new("menu of three over one", "x", Lower).worst(1.6).over(clips, menus(|menus| menus.three)));
    aims.push(
        Aim::new("key frame over an inter frame", "x", Lower).worst(2.5).over(clips, menus(|menus| menus.key_frame)),
    );
    let fits = |part: fn(&Fits) -> f64| move |clip: &ClipReport| vec![part(&clip.fits)];
    let time = Aim::new("fitting a budget over coding once", "x", Lower).median(1.6).worst(2.2);
    aims.push(time.over(clips, fits(|fits| fits.time)));
    aims.push(
        Aim::new("share of the budget used", "share", Higher).median(0.95).over(clips, fits(|fits| fits.fill_median)),
    );
    let over = Aim::new("frames over a budget that quantizer 127 fits", "", Lower).worst(0.0);
    aims.push(over.over(clips, fits(|fits| fits.over as f64)));
    let hash = |clip: &ClipReport| clip.decoding.iter().map(|one| one.hash_time).collect();
    aims.push(Aim::new("state hash over decoding", "share", Lower).worst(0.05).strictly().over(clips, hash));
    let least = |clip: &ClipReport| clip.drift.iter().map(|one| one.ours.least()).collect();
    aims.push(Aim::new("drift: worst picture over the first", "dB", Higher).worst(0.0).over(clips, least));
    // A gain in quality does not count if it costs more bits.
    let gains = |clip: &ClipReport| {
        let gain = |one: &Drift| Some(one.ours.gain() - one.libvpx.as_ref()?.gain());
        clip.drift.iter().filter_map(gain).collect()
    };
    aims.push(Aim::new("drift: gain over 60 pictures, over libvpx's", "dB", Higher).worst(0.0).over(clips, gains));
    let bits = |clip: &ClipReport| {
        let ratio = |one: &Drift| Some(one.ours.kbps / one.libvpx.as_ref()?.kbps);
        clip.drift.iter().filter_map(ratio).collect()
    };
    aims.push(Aim::new("drift: bits over libvpx's", "x", Lower).worst(1.0).over(clips, bits));
    aims
}

/// Formats a value in the unit of its target.
pub(super) fn shown(value: Option<f64>, unit: &str) -> String {
    let Some(value) = value else { return "-".to_owned() };
    match unit {
        "%" => format!("{:+.1} %", 100.0 * value),
        "share" => format!("{:.1} %", 100.0 * value),
        "x" => format!("{value:.2}x"),
        "dB" => format!("{value:+.2} dB"),
        _ => format!("{value:.0}"),
    }
}

/// Prints time and bits over all clips, the most bits first.
fn print_tradeoffs(tradeoffs: &[Tradeoff]) {
    let unit = "%";
    let mut rows: Vec<&Tradeoff> = tradeoffs.iter().collect();
    let badness = |one: &Tradeoff| one.psnr.bd_rate.unwrap_or(f64::INFINITY);
    rows.sort_by(|a, b| badness(b).total_cmp(&badness(a)));
    print_line!(
        "\n{:<22}{:>8}{:>11}{:>11}{:>13}   {:<22}hull",
        "relative to real-time",
        "time",
        "bits PSNR",
        "bits SSIM",
        "worst PSNR",
        "on"
    );
    for row in rows {
        let hull = match (row.psnr.on_hull, row.ssim.on_hull) {
            (true, true) => "PSNR, SSIM",
            (true, false) => "PSNR",
            (false, true) => "SSIM",
            (false, false) => "-",
        };
        print_line!(
            "{:<22}{:>8}{:>11}{:>11}{:>13}   {:<22}{hull}",
            row.name,
            shown(Some(row.time), "x"),
            shown(row.psnr.bd_rate, unit),
            shown(row.ssim.bd_rate, unit),
            shown(row.psnr.worst, unit),
            row.psnr.worst_clip.as_deref().unwrap_or("-")
        );
    }
}

pub(super) fn print(report: &BenchReport) {
    for clip in &report.clips {
        print_line!("{}, {} x {}, {} pictures of {}", clip.name, clip.width, clip.height, clip.pictures, clip.clip);
        for row in &clip.comparisons {
            let rates = |rates: &BTreeMap<&'static str, Option<f64>>| {
                let shown = ["coarse", "fine"].map(|set| shown(rates.get(set).copied().flatten(), "%"));
                format!("{:>9} {:>9}", shown[0], shown[1])
            };
            let pair = format!("{} against {}", row.ours, row.against);
            let (psnr, ssim) = (rates(&row.bd_rate_psnr), rates(&row.bd_rate_ssim));
            print_line!("  {pair:<42} BD-rate PSNR {psnr}   SSIM {ssim}   speed {:.2}x", row.speed_ratio);
        }
    }
    print_tradeoffs(&report.tradeoffs);
    print_line!("\n{:<72}{:>12}{:>12}   {:<22}reached", "aim", "median", "worst", "on");
    for aim in &report.aims {
        let (median, worst) = (shown(aim.median, aim.unit), shown(aim.worst, aim.unit));
        let reached = match (aim.reached, &aim.unknown_clip) {
            (Some(true), _) => "yes",
            (Some(false), _) => "no",
            (None, Some(_)) => "not known",
            (None, None) => "not measured",
        };
        print_line!(
            "{:<72}{median:>12}{worst:>12}   {:<22}{reached}",
            aim.what,
            aim.worst_clip.as_deref().unwrap_or("-")
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clip(name: &str, menu: f64) -> ClipReport {
        ClipReport { menus: Menus { two: menu, three: 1.0, key_frame: 1.0 }, ..ClipReport::empty(name) }
    }

    #[test]
    fn target_requires_both_median_and_worst_clip() {
        let clips = [clip("a", 1.1), clip("b", 1.4), clip("c", 1.2)];
        let aim = |aim: Aim| aim.over(&clips, |clip| vec![clip.menus.two]);
        let lower = || Aim::new("menu", "x", Better::Lower);
        let reached = aim(lower().worst(1.4));
        assert_eq!((reached.reached, reached.median, reached.worst), (Some(true), Some(1.2), Some(1.4)));
        assert_eq!(reached.worst_clip.as_deref(), Some("b"));
        assert_eq!(aim(lower().worst(1.4).strictly()).reached, Some(false));
        assert_eq!(aim(lower().worst(1.3)).reached, Some(false));
        assert_eq!(aim(lower().worst(2.0).median(1.15)).reached, Some(false));
        let higher = aim(Aim::new("menu", "x", Better::Higher).worst(1.1));
        assert_eq!((higher.reached, higher.worst_clip.as_deref()), (Some(true), Some("a")));
        assert_eq!(lower().over(&clips, |_| vec![]).reached, None, "nothing measured is neither reached nor missed");
    }

    #[test]
    fn targets_use_all_clips_and_skip_missing_measurements() {
        let aims = aims(&[clip("a", 1.1), clip("b", 1.4)]);
        let of = |what: &str| aims.iter().find(|aim| aim.what == what).unwrap();
        assert_eq!(of("menu of two over one").reached, Some(false));
        assert_eq!(of("menu of three over one").reached, Some(true));
        assert_eq!(of("share of the budget used").reached, Some(false));
        assert_eq!(of("decoding, speed against libvpx").reached, None);
        assert_eq!(of("drift: worst picture over the first").reached, None);
    }

    #[test]
    fn unknown_bd_rate_does_not_reach_the_target() {
        let compared = |name: &str, rate: Option<f64>| {
            let rates = BTreeMap::from([("fine", rate)]);
            let (ours, against) = ("lockstep real-time".to_owned(), "libvpx --rt 4".to_owned());
            let comparison =
                Comparison { ours, against, bd_rate_psnr: rates.clone(), bd_rate_ssim: rates, speed_ratio: 1.0 };
            ClipReport { comparisons: vec![comparison], ..clip(name, 1.0) }
        };
        let reached = |rates: [Option<f64>; 2]| {
            let aims = aims(&[compared("a", rates[0]), compared("black", rates[1])]);
            let aim = aims.into_iter().find(|aim| aim.what.contains("--rt 4, PSNR, quantizers 4")).unwrap();
            (aim.reached, aim.unknown_clip)
        };
        let black = Some("black".to_owned());
        assert_eq!(reached([Some(-0.2), Some(-0.3)]), (Some(true), None));
        assert_eq!(reached([Some(-0.2), None]), (None, black.clone()), "it may be above 0 there");
        assert_eq!(reached([Some(0.1), None]), (Some(false), black), "whatever it is there");
    }

    #[test]
    fn curve_with_half_the_bits_has_rate_minus_half() {
        let curve = |scale: f64| Curve {
            indices: vec![10, 20, 30, 40],
            kbps: [800.0, 400.0, 200.0, 100.0].map(|rate| scale * rate).to_vec(),
            psnr_db: vec![44.0, 41.0, 38.0, 35.0],
            ssim_db: vec![20.0, 18.0, 16.0, 14.0],
        };
        let encoder = |name: &str, scale, seconds: &[f64]| EncoderReport {
            name: name.to_owned(),
            curves: BTreeMap::from([("coarse", curve(scale))]),
            seconds: seconds.to_vec(),
            frames_per_second: 1.0,
        };
        let compared = encoder("a", 0.5, &[1.0, 2.0, 4.0]).compare(&encoder("b", 1.0, &[3.0, 4.0, 4.0]));
        assert!((compared.bd_rate_psnr["coarse"].unwrap() + 0.5).abs() < 1e-6, "{compared:?}");
        assert!((compared.bd_rate_ssim["coarse"].unwrap() + 0.5).abs() < 1e-6, "{compared:?}");
        assert_eq!((compared.speed_ratio, compared.bd_rate_psnr.get("fine")), (2.0, None));
    }
}
