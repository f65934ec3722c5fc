//! How long coding takes, for calls in virtual time: by picture size, preset, and the work that a job does. Measured on
//! a machine by `lockstep bench encode-time`, which writes the machine's name beside the figures.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use lockstep_call::EncodeWork;
use lockstep_measure::Machine;
use lockstep_vp8::Preset;

/// Why a model of encode times cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeTimeError {
    /// It is no JSON of this form.
    #[error("the encode times cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    /// A preset was measured at no size, or its sizes do not rise.
    #[error("the encode times of preset {0} are not of rising picture sizes, one at least")]
    Sizes(&'static str),
    /// A time is none.
    #[error("the encode times of preset {preset} at {pixels} pixels have {field} = {value}")]
    Number {
        /// Of which preset.
        preset: &'static str,
        /// At which size.
        pixels: u32,
        /// Which time.
        field: &'static str,
        /// What it is.
        value: f64,
    },
}

/// Times at one picture size, milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimePoint {
    /// Luma samples of a picture.
    pub pixels: u32,
    /// Of [`EncodeWork::OneFrame`].
    pub one_frame_ms: f64,
    /// Of [`EncodeWork::FirstPass`].
    pub first_pass_ms: f64,
    /// Of [`EncodeWork::LaterPass`].
    pub later_pass_ms: f64,
    /// Of [`EncodeWork::SerialMenu`].
    pub serial_menu_ms: f64,
}

/// How long one machine takes to code pictures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EncodeTime {
    /// The machine.
    pub machine: Machine,
    /// The pictures that it coded, as the command that measured was told.
    pub clip: String,
    /// [`Preset::RealTime`], by rising picture size.
    pub real_time: Vec<TimePoint>,
    /// [`Preset::Quality`], likewise.
    pub quality: Vec<TimePoint>,
}

/// How long each kind of work takes in one call, whose picture size and preset do not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct JobTimes {
    /// Of [`EncodeWork::OneFrame`].
    pub one_frame: Duration,
    /// Of [`EncodeWork::FirstPass`].
    pub first_pass: Duration,
    /// Of [`EncodeWork::LaterPass`].
    pub later_pass: Duration,
    /// Of [`EncodeWork::SerialMenu`].
    pub serial_menu: Duration,
    /// Of [`EncodeWork::ParallelMenu`].
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
    /// The times that come with Lockstep. The model names the machine they were measured on, by
    /// `lockstep bench encode-time --output FILE`.
    ///
    /// # Errors
    /// None, as a test shows; a build whose model is damaged says how.
    pub fn built_in() -> Result<Self, EncodeTimeError> {
        Self::from_json(include_str!("encode_time.json"))
    }

    /// Reads a model as [`serde_json`] writes it.
    ///
    /// # Errors
    /// What is wrong with it.
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

    /// The times of a call whose pictures have `pixels` luma samples: straight between the sizes measured, in
    /// proportion to the pixels beyond them.
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
            // Both candidates at once take as long as one.
            parallel_menu: if self.machine.cores > 1 { one_frame } else { serial_menu },
        }
    }
}

/// A time at a picture size.
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
    /// Of pictures of 640x360 with [`Preset::RealTime`], on the machine of [`EncodeTime::built_in`].
    fn default() -> Self {
        let model = EncodeTime::built_in().expect("the times that come with Lockstep are well made, as a test shows");
        model.job_times(Preset::RealTime, 640 * 360)
    }
}

impl JobTimes {
    /// How long `work` takes.
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

    /// The same proportions on a faster or slower machine, which takes `time` for `work`.
    #[must_use]
    pub fn where_takes(&self, work: EncodeWork, time: Duration) -> Self {
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
    fn large_pictures_and_the_quality_preset_take_longer_and_one_frame_less_than_two() {
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
    fn a_machine_that_is_told_one_time_keeps_the_proportions_of_all() {
        let times = EncodeTime::built_in().unwrap().job_times(Preset::RealTime, 640 * 360);
        let told = times.where_takes(EncodeWork::SerialMenu, 2 * times.serial_menu);
        for work in ALL {
            let ratio = told.of(work).as_secs_f64() / times.of(work).as_secs_f64();
            assert!((ratio - 2.0).abs() < 1e-6, "{work:?}: {ratio}");
        }
        assert_eq!(told.serial_menu, 2 * times.serial_menu);
    }

    #[test]
    fn times_that_make_no_sense_are_refused_with_the_place() {
        let mut model = EncodeTime::built_in().unwrap();
        model.quality[0].later_pass_ms = -1.0;
        let error = EncodeTime::from_json(&serde_json::to_string(&model).unwrap()).unwrap_err().to_string();
        assert!(error.contains("preset quality") && error.contains("later_pass_ms = -1"), "{error}");
        model.quality.clear();
        let error = EncodeTime::from_json(&serde_json::to_string(&model).unwrap()).unwrap_err().to_string();
        assert!(error.contains("one at least"), "{error}");
        assert!(EncodeTime::from_json("[]").is_err());
    }

    proptest! {
        #[test]
        fn whatever_reads_as_a_model_gives_times_at_every_size(
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
