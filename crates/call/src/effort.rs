//! Effort of the encoder: a fixed level, or the highest one that makes no picture late.
//!
//! ```text
//! coding times of recent pictures ──> time at the fastest level ──> highest level within the allowance
//! frame interval, latency ──────────────> allowance ─────────────────────────────┘
//! ```
//!
//! The allowance of the usual level and those below it is a frame interval. VP8's usual level is the fastest one.
//!
//! A coding time is measured from the start of a picture's first job to its decision. So it contains all passes of the
//! picture, and the time that other programs take from the encoder. In virtual time it follows the model of encode
//! times, so simulations stay deterministic.

use std::collections::VecDeque;
use std::time::Duration;

use lockstep_control::Latency;
use lockstep_vp8::{Effort, quantizer_step};

/// Finest quantizer of frames at the fastest level; finer ones gain nothing visible. The bound on QoE_d depends on it, so
/// it is not tuned.
pub const FINEST_USEFUL_QUANTIZER: u8 = 4;

/// An effort level of a codec.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EffortLevel {
    /// Time of a picture relative to the fastest level, from 1, in the mean of several clips.
    pub relative_time: f64,
    /// Quantizer step with which frames have the error of the fastest level at a step of 1, at most 1.
    pub relative_step: f64,
}

/// The effort levels of a codec: level 0 is the fastest, and times rise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EffortLadder {
    levels: &'static [EffortLevel],
    usual: Effort,
}

impl EffortLadder {
    /// The ladder of codecs without levels.
    pub const NONE: Self = Self::new(&[]);

    /// A ladder of `levels`, the fastest first, which is also the usual one.
    #[must_use]
    pub const fn new(levels: &'static [EffortLevel]) -> Self {
        Self { levels, usual: Effort::REAL_TIME }
    }

    /// The ladder with another usual level. [`Preset::Auto`] chooses a lower one only if pictures would take longer
    /// than a frame interval.
    #[must_use]
    pub const fn with_usual(self, usual: Effort) -> Self {
        Self { usual, ..self }
    }

    /// Whether the codec has no levels.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.levels.is_empty()
    }

    /// `effort`, or the slowest level if the ladder is shorter. Without levels it is `effort`.
    #[must_use]
    pub fn nearest(self, effort: Effort) -> Effort {
        match self.levels.len() {
            0 => effort,
            levels => effort.min(Effort::new((levels - 1) as u8)),
        }
    }

    /// The levels, the fastest first.
    pub fn levels(self) -> impl Iterator<Item = Effort> {
        Effort::all().take(self.levels.len())
    }

    fn get(self, effort: Effort) -> Option<&'static EffortLevel> {
        self.levels.get(usize::from(self.nearest(effort).level()))
    }

    /// Time of a picture relative to the fastest level, from 1.
    #[must_use]
    pub fn relative_time(self, effort: Effort) -> f64 {
        self.get(effort).map_or(1.0, |level| level.relative_time)
    }

    /// Position of a level's time between those of the fastest level, 0, and the slowest, 1.
    #[must_use]
    pub fn time_share(self, effort: Effort) -> f64 {
        let slowest = self.relative_time(Effort::QUALITY);
        if slowest > 1.0 { (self.relative_time(effort) - 1.0) / (slowest - 1.0) } else { 0.0 }
    }

    /// The coarsest quantizer index at which frames of `effort` have at most the error of the fastest level at
    /// `quantizer`.
    pub(crate) fn of_equal_error(self, effort: Effort, quantizer: u8) -> u8 {
        let step = |quantizer: u8| f64::from(quantizer_step(quantizer));
        let most = self.get(effort).map_or(1.0, |level| level.relative_step) * step(quantizer);
        (0..=quantizer).rev().find(|&finer| step(finer) <= most).unwrap_or_default()
    }

    /// Finest useful quantizer index of frames.
    pub(crate) fn finest_quantizer(self, effort: Effort) -> u8 {
        self.of_equal_error(effort, FINEST_USEFUL_QUANTIZER)
    }
}

/// Choice of the encoder's effort.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Preset {
    /// For each picture, the highest level that the time allows.
    #[default]
    Auto,
    /// Always this level.
    Level(Effort),
}

impl Preset {
    /// The fastest level for all pictures.
    pub const REAL_TIME: Self = Self::Level(Effort::REAL_TIME);
    /// The slowest level for all pictures, whatever time it takes.
    pub const QUALITY: Self = Self::Level(Effort::QUALITY);

    /// The level before any picture is coded, which is the fastest one of the preset.
    #[must_use]
    pub fn first_level(self) -> Effort {
        match self {
            Self::Auto => Effort::REAL_TIME,
            Self::Level(effort) => effort,
        }
    }
}

/// Number of recent pictures of which the slowest counts: half a second at 30 pictures per second. Key frames and
/// pictures of many passes are rarer, and a level above the allowance would delay those.
const RECENT: usize = 16;

/// Chooses the effort of each picture.
#[derive(Debug)]
pub(crate) struct EffortControl {
    preset: Preset,
    latency: Latency,
    /// Levels and coding times of recent pictures, the oldest first.
    recent: VecDeque<(Effort, Duration)>,
}

impl EffortControl {
    pub(crate) fn new(preset: Preset, latency: Latency) -> Self {
        Self { preset, latency, recent: VecDeque::with_capacity(RECENT) }
    }

    /// The level of `ladder` for the next picture, with pictures every `frame_interval`. A codec without levels takes
    /// the time of the fastest level of the preset.
    pub(crate) fn level(&self, ladder: EffortLadder, frame_interval: Duration) -> Effort {
        match (self.preset, self.recent.back()) {
            (Preset::Auto, Some((last, _))) if !ladder.is_empty() => {
                let at_fastest =
                    |&(effort, time): &(Effort, Duration)| time.as_secs_f64() / ladder.relative_time(effort);
                let slowest = self.recent.iter().map(at_fastest).fold(0.0, f64::max);
                let allowed = allowance(self.latency, frame_interval).as_secs_f64();
                // Relative times depend on the pictures, so each level is measured before the next one is tried.
                let next = ladder.nearest(Effort::new(last.level() + 1));
                let most = |effort| if effort > ladder.usual { allowed } else { frame_interval.as_secs_f64() };
                let fits = |&effort: &Effort| effort <= next && ladder.relative_time(effort) * slowest <= most(effort);
                Effort::all().rev().find(fits).unwrap_or_default()
            }
            (preset, _) => ladder.nearest(preset.first_level()),
        }
    }

    /// Reports that a picture took `time` at `effort`.
    pub(crate) fn on_coded(&mut self, effort: Effort, time: Duration) {
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back((effort, time));
    }
}

/// Coding time that a latency allows above the usual level, as a share of the frame interval.
fn allowance(latency: Latency, frame_interval: Duration) -> Duration {
    match latency {
        Latency::Low => frame_interval / 8,
        Latency::Balanced => frame_interval / 4,
        Latency::Quality => frame_interval / 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_millis(40);
    const LADDER: EffortLadder = EffortLadder::VP8;

    fn control(latency: Latency) -> EffortControl {
        EffortControl::new(Preset::Auto, latency)
    }

    /// Codes `pictures` pictures on a machine that takes `fastest` at the fastest level. Returns the last level, and the
    /// number of pictures above `allowed`.
    fn run(control: &mut EffortControl, fastest: Duration, pictures: usize, allowed: Duration) -> (Effort, usize) {
        let mut late = 0;
        for _ in 0..pictures {
            let level = control.level(LADDER, INTERVAL);
            let time = fastest.mul_f64(LADDER.relative_time(level));
            late += usize::from(time > allowed.mul_f64(1.0 + 1e-9));
            control.on_coded(level, time);
        }
        (control.level(LADDER, INTERVAL), late)
    }

    #[test]
    fn level_is_the_highest_within_the_allowance() {
        for (latency, share) in [(Latency::Low, 8), (Latency::Balanced, 4), (Latency::Quality, 2)] {
            let allowed = INTERVAL / share;
            for fastest in [1, 200, 1_000, 2_000, 4_000, 9_000, 30_000].map(Duration::from_micros) {
                let (level, late) = run(&mut control(latency), fastest, 40, allowed);
                let fits = |level: Effort| fastest.mul_f64(LADDER.relative_time(level)) <= allowed;
                let next = Effort::new(level.level() + 1);
                assert!(next == level || !fits(next), "{fastest:?} at {latency:?}: {level:?} is too low");
                assert!(fits(level) || level == Effort::REAL_TIME, "{fastest:?} at {latency:?}: {level:?} is late");
                assert!(
                    late == 0 || level == Effort::REAL_TIME,
                    "{fastest:?} at {latency:?}: {late} pictures are late"
                );
            }
        }
    }

    #[test]
    fn busy_core_lowers_the_level_after_one_picture() {
        let mut control = control(Latency::Balanced);
        let (idle, _) = run(&mut control, Duration::from_micros(500), 40, INTERVAL);
        let (busy, late) = run(&mut control, Duration::from_micros(4_000), 40, INTERVAL / 4);
        assert!(busy < idle, "{idle:?} remains {busy:?}");
        assert!(late <= 1, "{late} pictures are late");
    }

    #[test]
    fn costly_level_delays_few_pictures() {
        // These pictures take twice the time of most at the slowest level.
        let mut control = control(Latency::Balanced);
        let mut late = 0;
        for _ in 0..300 {
            let level = control.level(LADDER, INTERVAL);
            let time = Duration::from_millis(2).mul_f64(LADDER.relative_time(level).powf(1.7));
            late += usize::from(time > INTERVAL / 4);
            control.on_coded(level, time);
        }
        assert!(control.level(LADDER, INTERVAL) >= Effort::new(5), "{:?}", control.level(LADDER, INTERVAL));
        assert!(late <= 300 / RECENT, "{late} pictures are late");
    }

    #[test]
    fn single_slow_picture_lowers_the_level_for_a_while() {
        let mut control = control(Latency::Balanced);
        let (usual, _) = run(&mut control, Duration::from_micros(500), 40, INTERVAL);
        control.on_coded(usual, Duration::from_millis(300));
        assert_eq!(control.level(LADDER, INTERVAL), Effort::REAL_TIME);
        let climb = RECENT + usize::from(usual.level());
        let (after, _) = run(&mut control, Duration::from_micros(500), climb, INTERVAL);
        assert_eq!(after, usual);
    }

    #[test]
    fn short_ladder_ends_at_its_slowest_level() {
        const LEVELS: [EffortLevel; 2] = [
            EffortLevel { relative_time: 1.0, relative_step: 1.0 },
            EffortLevel { relative_time: 1.5, relative_step: 1.0 },
        ];
        let short = EffortLadder::new(&LEVELS);
        let mut control = control(Latency::Balanced);
        for _ in 0..40 {
            control.on_coded(control.level(short, INTERVAL), Duration::from_micros(100));
        }
        assert_eq!(control.level(short, INTERVAL), Effort::new(1));
        assert_eq!(control.level(EffortLadder::NONE, INTERVAL), Effort::REAL_TIME);
        let fixed = EffortControl::new(Preset::QUALITY, Latency::Balanced);
        assert_eq!(fixed.level(short, INTERVAL), Effort::new(1));
        assert_eq!(fixed.level(EffortLadder::NONE, INTERVAL), Effort::QUALITY);
    }

    #[test]
    fn level_stays_usual_until_pictures_take_an_interval() {
        let ladder = LADDER.with_usual(Effort::new(4));
        for (fastest, expected) in [(1, 9), (5, 5), (28, 4), (30, 2), (39, 0), (90, 0)] {
            let (mut control, mut level) = (control(Latency::Balanced), Effort::REAL_TIME);
            for _ in 0..40 {
                level = control.level(ladder, INTERVAL);
                control.on_coded(level, Duration::from_millis(fastest).mul_f64(ladder.relative_time(level)));
            }
            assert_eq!(level, Effort::new(expected), "{fastest} ms");
        }
    }

    #[test]
    fn levels_with_a_trellis_need_finer_quantizers() {
        for effort in Effort::all() {
            let quantizers = [0, 2, FINEST_USEFUL_QUANTIZER, 85].map(|index| LADDER.of_equal_error(effort, index));
            let expected = if effort.has_trellis() { [0, 1, 2, 72] } else { [0, 2, FINEST_USEFUL_QUANTIZER, 85] };
            assert_eq!(quantizers, expected, "{effort:?}");
        }
    }

    #[test]
    fn fixed_preset_ignores_the_time() {
        let mut control = EffortControl::new(Preset::QUALITY, Latency::Low);
        let (level, _) = run(&mut control, Duration::from_millis(300), 40, INTERVAL);
        assert_eq!(level, Effort::QUALITY);
    }
}
