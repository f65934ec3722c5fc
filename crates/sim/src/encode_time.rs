//! Encode times for calls in virtual time, by picture size, preset and kind of job.
//!
//! `lockstep bench encode-time` measures them on a machine and stores the machine's name with them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use lockstep_call::{EffortLadder, EncodeWork};
use lockstep_measure::Machine;
use lockstep_vp8::Effort;

/// Reason why a model of encode times cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeTimeError {
    /// The text is not JSON of this form.
    #[error("cannot read the encode times: {0}")]
    Json(#[from] serde_json::Error),
    /// A preset has no picture sizes, or sizes do not rise.
    #[error("encode times: {0}: expected at least one picture size, and rising sizes")]
    Sizes(&'static str),
    /// A time is out of range.
    #[error("encode times: {preset} at {pixels} pixels: {field} = {value} is out of range")]
    Number {
        /// Codec and preset.
        preset: &'static str,
        /// Picture size, luma samples.
        pixels: u32,
        /// Field of the time.
        field: &'static str,
        /// Value of the time, ms.
        value: f64,
    },
}

/// Encode times at one picture size, ms.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimePoint {
    /// Luma samples per picture.
    pub pixels: u32,
    /// Time of [`EncodeWork::OneFrame`], ms.
    pub one_frame_ms: f64,
    /// Time of [`EncodeWork::FirstPass`], ms.
    pub first_pass_ms: f64,
    /// Time of [`EncodeWork::LaterPass`], ms.
    pub later_pass_ms: f64,
    /// Time of [`EncodeWork::SerialMenu`], ms.
    pub serial_menu_ms: f64,
}

/// Encode times of one machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EncodeTime {
    /// Machine on which the times were measured.
    pub machine: Machine,
    /// Clip that was coded, as given on the command line.
    pub clip: String,
    /// Times of VP8 at [`Effort::REAL_TIME`], by rising picture size.
    pub real_time: Vec<TimePoint>,
    /// Times of VP8 at [`Effort::QUALITY`], by rising picture size.
    pub quality: Vec<TimePoint>,
    /// Times of AV1's fastest level, by rising picture size; empty if they were not measured.
    #[serde(default)]
    pub av1_real_time: Vec<TimePoint>,
    /// Times of AV1's slowest level, by rising picture size.
    #[serde(default)]
    pub av1_quality: Vec<TimePoint>,
}

/// Times of one effort level at one picture size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LevelTimes {
    one_frame: Duration,
    first_pass: Duration,
    later_pass: Duration,
    serial_menu: Duration,
    parallel_menu: Duration,
}

/// Encode times of one call, which has one picture size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JobTimes {
    /// Times of the fastest level.
    real_time: LevelTimes,
    /// Times of the slowest level.
    quality: LevelTimes,
    /// Levels between them.
    efforts: EffortLadder,
}

impl TimePoint {
    fn fields(&self) -> [(&'static str, f64); 4] {
        [
            ("one_frame_ms", self.one_frame_ms),
            ("first_pass_ms", self.first_pass_ms),
            ("later_pass_ms", self.later_pass_ms),
            ("serial_menu_ms", self.serial_menu_ms),
        ]
    }
}

impl EncodeTime {
    /// The encode times that come with Lockstep, from `lockstep bench encode-time --output FILE`. They name the machine
    /// on which they were measured.
    ///
    /// # Errors
    /// If the encode times in this build are damaged.
    pub fn built_in() -> Result<Self, EncodeTimeError> {
        Self::from_json(include_str!("encode_time.json"))
    }

    /// Parses and validates encode times in JSON, as written by [`serde_json`].
    ///
    /// # Errors
    /// If the text is not JSON of this form, or a size or time is invalid.
    pub fn from_json(text: &str) -> Result<Self, EncodeTimeError> {
        let model: Self = serde_json::from_str(text)?;
        let presets = [("preset real-time", &model.real_time), ("preset quality", &model.quality)];
        let av1 = [("av1 real-time", &model.av1_real_time), ("av1 quality", &model.av1_quality)];
        let measured_av1 = av1.into_iter().filter(|_| model.has_av1());
        for (preset, points) in presets.into_iter().chain(measured_av1) {
            let rising = points.windows(2).all(|pair| pair[0].pixels < pair[1].pixels);
            if !rising || points.first().is_none_or(|first| first.pixels == 0) {
                return Err(EncodeTimeError::Sizes(preset));
            }
            for point in points {
                for (field, value) in point.fields() {
                    if !(1e-6..=1e6).contains(&value) {
                        return Err(EncodeTimeError::Number { preset, pixels: point.pixels, field, value });
                    }
                }
            }
        }
        Ok(model)
    }

    /// Times for pictures of `pixels` luma samples. They are interpolated linearly between measured sizes and
    /// proportional to the pixels beyond them.
    #[must_use]
    pub fn job_times(&self, pixels: usize) -> JobTimes {
        JobTimes {
            real_time: self.level_times(&self.real_time, pixels),
            quality: self.level_times(&self.quality, pixels),
            efforts: EffortLadder::VP8,
        }
    }

    /// Whether times of AV1 were measured.
    #[must_use]
    pub fn has_av1(&self) -> bool {
        !self.av1_real_time.is_empty() || !self.av1_quality.is_empty()
    }

    /// Times of AV1 with these effort levels, as [`EncodeTime::job_times`].
    #[must_use]
    pub fn av1_job_times(&self, pixels: usize, efforts: EffortLadder) -> JobTimes {
        JobTimes {
            real_time: self.level_times(&self.av1_real_time, pixels),
            quality: self.level_times(&self.av1_quality, pixels),
            efforts,
        }
    }

    fn level_times(&self, points: &[TimePoint], pixels: usize) -> LevelTimes {
        let time = |of: fn(&TimePoint) -> f64| Duration::from_secs_f64(1e-3 * at(points, pixels as f64, of).min(1e9));
        let one_frame = time(|point| point.one_frame_ms);
        let serial_menu = time(|point| point.serial_menu_ms);
        LevelTimes {
            one_frame,
            first_pass: time(|point| point.first_pass_ms),
            later_pass: time(|point| point.later_pass_ms),
            serial_menu,
            // Both candidates are coded at once if there are several cores.
            parallel_menu: if self.machine.cores > 1 { one_frame } else { serial_menu },
        }
    }
}

/// Time at one picture size.
fn at(points: &[TimePoint], pixels: f64, of: fn(&TimePoint) -> f64) -> f64 {
    let after = points.partition_point(|point| f64::from(point.pixels) < pixels);
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return 0.0 };
    let in_proportion = |point: &TimePoint| of(point) * pixels / f64::from(point.pixels);
    match (after.checked_sub(1).and_then(|before| points.get(before)), points.get(after)) {
        (Some(before), Some(after)) => {
            let span = f64::from(after.pixels) - f64::from(before.pixels);
            let share = (pixels - f64::from(before.pixels)) / span;
            of(before) + share * (of(after) - of(before))
        }
        (None, _) => in_proportion(first),
        (_, None) => in_proportion(last),
    }
}

impl Default for JobTimes {
    /// Times of 640x360 on the machine of [`EncodeTime::built_in`].
    fn default() -> Self {
        let model = EncodeTime::built_in().expect("a test parses the built-in encode times");
        model.job_times(640 * 360)
    }
}

impl LevelTimes {
    fn of(&self, work: EncodeWork) -> Duration {
        match work {
            EncodeWork::OneFrame => self.one_frame,
            EncodeWork::FirstPass => self.first_pass,
            EncodeWork::LaterPass => self.later_pass,
            EncodeWork::SerialMenu => self.serial_menu,
            EncodeWork::ParallelMenu => self.parallel_menu,
        }
    }

    fn scaled(&self, factor: f64) -> Self {
        Self {
            one_frame: self.one_frame.mul_f64(factor),
            first_pass: self.first_pass.mul_f64(factor),
            later_pass: self.later_pass.mul_f64(factor),
            serial_menu: self.serial_menu.mul_f64(factor),
            parallel_menu: self.parallel_menu.mul_f64(factor),
        }
    }
}

impl JobTimes {
    /// Time of `work` at `effort`. Between the two measured levels it follows [`EffortLadder::time_share`].
    #[must_use]
    pub fn of(&self, work: EncodeWork, effort: Effort) -> Duration {
        let (fast, slow) = (self.real_time.of(work), self.quality.of(work));
        if effort == Effort::REAL_TIME {
            return fast;
        }
        let share = self.efforts.time_share(effort);
        fast.mul_f64(1.0 - share) + slow.mul_f64(share)
    }

    /// Times scaled to a machine that needs `time` for `work` at `effort`.
    #[must_use]
    pub fn scaled_to(&self, work: EncodeWork, effort: Effort, time: Duration) -> Self {
        let factor = time.as_secs_f64() / self.of(work, effort).as_secs_f64().max(1e-9);
        Self { real_time: self.real_time.scaled(factor), quality: self.quality.scaled(factor), ..*self }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use lockstep_call::EffortLevel;

    use super::*;

    const ALL: [EncodeWork; 5] = [
        EncodeWork::OneFrame,
        EncodeWork::FirstPass,
        EncodeWork::LaterPass,
        EncodeWork::SerialMenu,
        EncodeWork::ParallelMenu,
    ];

    #[test]
    fn encode_times_rise_with_size_effort_and_work() {
        let model = EncodeTime::built_in().unwrap();
        assert!(!model.machine.processor.is_empty() && model.machine.cores > 0);
        let (small, large) = (model.job_times(640 * 360), model.job_times(3840 * 2160));
        for work in ALL {
            let time = |effort| small.of(work, effort);
            let fastest = time(Effort::REAL_TIME);
            assert!(large.of(work, Effort::REAL_TIME) > 10 * fastest, "{work:?}: {large:?} {small:?}");
            let levels: Vec<Effort> = Effort::all().collect();
            assert!(levels.windows(2).all(|pair| time(pair[0]) < time(pair[1])), "{work:?}: {small:?}");
        }
        let time = |work| small.of(work, Effort::REAL_TIME);
        assert!(time(EncodeWork::SerialMenu) > time(EncodeWork::OneFrame));
        assert!(time(EncodeWork::FirstPass) > time(EncodeWork::LaterPass));
    }

    #[test]
    fn times_of_av1_follow_the_ladder_of_its_codec() {
        const LEVELS: [EffortLevel; 3] = [
            EffortLevel { relative_time: 1.0, relative_step: 1.0 },
            EffortLevel { relative_time: 2.0, relative_step: 1.0 },
            EffortLevel { relative_time: 5.0, relative_step: 1.0 },
        ];
        let mut model = EncodeTime::built_in().unwrap();
        let point = TimePoint { pixels: 100, ..model.real_time[0] };
        model.av1_real_time = vec![TimePoint { first_pass_ms: 10.0, ..point }];
        model.av1_quality = vec![TimePoint { first_pass_ms: 50.0, ..point }];
        let times = model.av1_job_times(100, EffortLadder::new(&LEVELS));
        let time = |level| times.of(EncodeWork::FirstPass, Effort::new(level)).as_millis();
        assert_eq!([0, 1, 2, 9].map(time), [10, 20, 50, 50]);
        model.av1_quality.clear();
        let error = EncodeTime::from_json(&serde_json::to_string(&model).unwrap()).unwrap_err().to_string();
        assert!(error.contains("av1 quality: expected at least one picture size"), "{error}");
    }

    #[test]
    fn setting_one_time_scales_all_times_in_proportion() {
        let times = JobTimes::default();
        let double = 2 * times.of(EncodeWork::SerialMenu, Effort::QUALITY);
        let scaled = times.scaled_to(EncodeWork::SerialMenu, Effort::QUALITY, double);
        for work in ALL {
            for effort in Effort::all() {
                let ratio = scaled.of(work, effort).as_secs_f64() / times.of(work, effort).as_secs_f64();
                assert!((ratio - 2.0).abs() < 1e-5, "{work:?}: {ratio}");
            }
        }
        let difference = scaled.of(EncodeWork::SerialMenu, Effort::QUALITY).abs_diff(double);
        assert!(difference <= Duration::from_nanos(2), "{difference:?}");
    }

    #[test]
    fn invalid_encode_times_are_refused_and_the_error_names_them() {
        let mut model = EncodeTime::built_in().unwrap();
        model.quality[0].later_pass_ms = -1.0;
        let error = EncodeTime::from_json(&serde_json::to_string(&model).unwrap()).unwrap_err().to_string();
        assert!(error.contains("preset quality") && error.contains("later_pass_ms = -1"), "{error}");
        model.quality.clear();
        let error = EncodeTime::from_json(&serde_json::to_string(&model).unwrap()).unwrap_err().to_string();
        assert!(error.contains("at least one picture size"), "{error}");
        assert!(EncodeTime::from_json("[]").is_err());
    }

    proptest! {
        #[test]
        fn every_valid_model_gives_times_at_every_size(
            points in proptest::collection::vec((1u32..u32::MAX, 1e-6f64..1e6), 0..6),
            pixels in 1usize..1 << 40,
        ) {
            let points: Vec<TimePoint> = points
                .into_iter()
                .map(|(pixels, ms)| TimePoint {
                    pixels,
                    one_frame_ms: ms,
                    first_pass_ms: ms,
                    later_pass_ms: ms,
                    serial_menu_ms: ms,
                })
                .collect();
            let machine = Machine { processor: String::new(), cores: 1 };
            let (clip, real_time, quality) = (String::new(), points.clone(), points.clone());
            let model = EncodeTime { machine, clip, real_time, quality, av1_real_time: points.clone(), av1_quality: points };
            if let Ok(model) = EncodeTime::from_json(&serde_json::to_string(&model).unwrap()) {
                let times = model.job_times(pixels);
                let time = |work| times.of(work, Effort::QUALITY);
                prop_assert_eq!(time(EncodeWork::ParallelMenu), time(EncodeWork::SerialMenu));
            }
        }
    }
}
