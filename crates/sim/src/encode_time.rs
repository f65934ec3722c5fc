//! Encode times for calls in virtual time, by picture size, preset and kind of job.
//!
//! `lockstep bench encode-time` measures them on a machine and stores the machine's name with them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use lockstep_call::EncodeWork;
use lockstep_measure::Machine;
use lockstep_vp8::Preset;

/// Reason why a model of encode times cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeTimeError {
    /// The text is not JSON of this form.
    #[error("cannot read the encode times: {0}")]
    Json(#[from] serde_json::Error),
    /// A preset has no picture sizes, or its sizes do not rise.
    #[error("encode times: preset {0}: expected at least one picture size, and rising sizes")]
    Sizes(&'static str),
    /// A time is out of range.
    #[error("encode times: preset {preset} at {pixels} pixels: {field} = {value} is out of range")]
    Number {
        /// Name of the preset.
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
    /// Times of [`Preset::RealTime`], by rising picture size.
    pub real_time: Vec<TimePoint>,
    /// Times of [`Preset::Quality`], by rising picture size.
    pub quality: Vec<TimePoint>,
}

/// Encode times of one call, which has one picture size and one preset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct JobTimes {
    /// Time of [`EncodeWork::OneFrame`].
    pub one_frame: Duration,
    /// Time of [`EncodeWork::FirstPass`].
    pub first_pass: Duration,
    /// Time of [`EncodeWork::LaterPass`].
    pub later_pass: Duration,
    /// Time of [`EncodeWork::SerialMenu`].
    pub serial_menu: Duration,
    /// Time of [`EncodeWork::ParallelMenu`].
    pub parallel_menu: Duration,
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
        for (preset, points) in [("real-time", &model.real_time), ("quality", &model.quality)] {
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
    pub fn job_times(&self, preset: Preset, pixels: usize) -> JobTimes {
        let points = match preset {
            Preset::RealTime => &self.real_time,
            Preset::Quality => &self.quality,
        };
        let time = |of: fn(&TimePoint) -> f64| Duration::from_secs_f64(1e-3 * at(points, pixels as f64, of).min(1e9));
        let one_frame = time(|point| point.one_frame_ms);
        let serial_menu = time(|point| point.serial_menu_ms);
        JobTimes {
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
    /// Times of 640x360 with [`Preset::RealTime`], on the machine of [`EncodeTime::built_in`].
    fn default() -> Self {
        let model = EncodeTime::built_in().expect("a test parses the built-in encode times");
        model.job_times(Preset::RealTime, 640 * 360)
    }
}

impl JobTimes {
    /// Time of `work`.
    #[must_use]
    pub fn of(&self, work: EncodeWork) -> Duration {
        match work {
            EncodeWork::OneFrame => self.one_frame,
            EncodeWork::FirstPass => self.first_pass,
            EncodeWork::LaterPass => self.later_pass,
            EncodeWork::SerialMenu => self.serial_menu,
            EncodeWork::ParallelMenu => self.parallel_menu,
        }
    }

    /// Times scaled to a machine that needs `time` for `work`.
    #[must_use]
    pub fn scaled_to(&self, work: EncodeWork, time: Duration) -> Self {
        let factor = time.as_secs_f64() / self.of(work).as_secs_f64().max(1e-9);
        let scaled = |of: EncodeWork| if of == work { time } else { self.of(of).mul_f64(factor) };
        Self {
            one_frame: scaled(EncodeWork::OneFrame),
            first_pass: scaled(EncodeWork::FirstPass),
            later_pass: scaled(EncodeWork::LaterPass),
            serial_menu: scaled(EncodeWork::SerialMenu),
            parallel_menu: scaled(EncodeWork::ParallelMenu),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALL: [EncodeWork; 5] = [
        EncodeWork::OneFrame,
        EncodeWork::FirstPass,
        EncodeWork::LaterPass,
        EncodeWork::SerialMenu,
        EncodeWork::ParallelMenu,
    ];

    #[test]
    fn encode_times_rise_with_size_preset_and_work() {
        let model = EncodeTime::built_in().unwrap();
        assert!(!model.machine.processor.is_empty() && model.machine.cores > 0);
        let small = model.job_times(Preset::RealTime, 640 * 360);
        let large = model.job_times(Preset::RealTime, 3840 * 2160);
        let fine = model.job_times(Preset::Quality, 640 * 360);
        for work in ALL {
            assert!(large.of(work) > 10 * small.of(work), "{work:?}: {large:?} {small:?}");
            assert!(fine.of(work) > small.of(work), "{work:?}: {fine:?} {small:?}");
        }
        assert!(small.serial_menu > small.one_frame && small.first_pass > small.later_pass);
    }

    #[test]
    fn setting_one_time_scales_all_times_in_proportion() {
        let times = EncodeTime::built_in().unwrap().job_times(Preset::RealTime, 640 * 360);
        let scaled = times.scaled_to(EncodeWork::SerialMenu, 2 * times.serial_menu);
        for work in ALL {
            let ratio = scaled.of(work).as_secs_f64() / times.of(work).as_secs_f64();
            assert!((ratio - 2.0).abs() < 1e-6, "{work:?}: {ratio}");
        }
        assert_eq!(scaled.serial_menu, 2 * times.serial_menu);
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
            let model = EncodeTime { machine, clip: String::new(), real_time: points.clone(), quality: points };
            if let Ok(model) = EncodeTime::from_json(&serde_json::to_string(&model).unwrap()) {
                let times = model.job_times(Preset::Quality, pixels);
                prop_assert!(times.parallel_menu == times.serial_menu);
            }
        }
    }
}
