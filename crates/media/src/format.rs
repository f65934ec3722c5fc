//! Size and frame rate of a video.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use lockstep_units::MAX_FRAME_RATE;
use lockstep_vp8::MAX_DIMENSION;

/// Error of reading a size or a frame rate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The text is not `N`, `N/D` or a plain decimal, or the rate is zero or above [`MAX_FRAME_RATE`].
    #[error(
        "frame rate \"{0}\" is not a number or ratio such as 30 or 30000/1001, more than 0 and at most \
         {MAX_FRAME_RATE}"
    )]
    FrameRate(String),
    /// The text is not `WIDTHxHEIGHT`, or a side is outside the limits of VP8.
    #[error("size \"{0}\" is not WIDTHxHEIGHT with sides from 1 to 16383, such as 1280x720")]
    Size(String),
}

/// Frame rate as a ratio of integers, so that 29.97 (30000/1001) does not drift.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FrameRate {
    numerator: u32,
    denominator: u32,
}

impl FrameRate {
    /// `numerator / denominator` pictures per second, not reduced. None if either is zero or the rate exceeds
    /// [`MAX_FRAME_RATE`].
    #[must_use]
    pub const fn new(numerator: u32, denominator: u32) -> Option<Self> {
        let too_fast = numerator as u64 > denominator as u64 * MAX_FRAME_RATE as u64;
        if numerator == 0 || denominator == 0 || too_fast { None } else { Some(Self { numerator, denominator }) }
    }

    /// Pictures in [`FrameRate::denominator`] seconds.
    #[must_use]
    pub const fn numerator(self) -> u32 {
        self.numerator
    }

    /// Duration in seconds of [`FrameRate::numerator`] pictures.
    #[must_use]
    pub const fn denominator(self) -> u32 {
        self.denominator
    }

    /// Pictures per second.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        f64::from(self.numerator) / f64::from(self.denominator)
    }

    /// Time from the first picture to picture `index`, rounded down to a nanosecond. It saturates after 584 years.
    #[must_use]
    pub fn time_of(self, index: u64) -> Duration {
        let nanoseconds = u128::from(index) * u128::from(self.denominator) * 1_000_000_000 / u128::from(self.numerator);
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }

    /// Index of the picture nearest to `time`, the inverse of [`FrameRate::time_of`]. It saturates at `u64::MAX`.
    #[must_use]
    pub fn nearest_index(self, time: Duration) -> u64 {
        let second = u128::from(self.denominator) * 1_000_000_000;
        let pictures = time.as_nanos().saturating_mul(u128::from(self.numerator));
        u64::try_from(pictures.saturating_add(second / 2) / second).unwrap_or(u64::MAX)
    }
}

impl Default for FrameRate {
    /// 30 pictures per second.
    fn default() -> Self {
        Self { numerator: 30, denominator: 1 }
    }
}

impl fmt::Display for FrameRate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.denominator {
            1 => write!(formatter, "{}", self.numerator),
            denominator => write!(formatter, "{}/{denominator}", self.numerator),
        }
    }
}

impl FromStr for FrameRate {
    type Err = FormatError;

    /// Reads `30`, `30000/1001` or `12.5` (three decimals at most).
    fn from_str(text: &str) -> Result<Self, FormatError> {
        let ratio = || -> Option<Self> {
            if let Some((numerator, denominator)) = text.split_once('/') {
                return Self::new(numerator.parse().ok()?, denominator.parse().ok()?);
            }
            if let Some((whole, decimals)) = text.split_once('.') {
                if decimals.is_empty() || decimals.len() > 3 || !decimals.bytes().all(|byte| byte.is_ascii_digit()) {
                    return None;
                }
                let scale = 10_u32.pow(decimals.len() as u32);
                let whole: u32 = whole.parse().ok()?;
                return Self::new(whole.checked_mul(scale)?.checked_add(decimals.parse().ok()?)?, scale);
            }
            Self::new(text.parse().ok()?, 1)
        };
        ratio().ok_or_else(|| FormatError::FrameRate(text.to_owned()))
    }
}

/// Common properties of all pictures of a video.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct VideoFormat {
    /// Width, luma samples.
    pub width: usize,
    /// Height, luma samples.
    pub height: usize,
    /// Frame rate.
    pub frame_rate: FrameRate,
}

impl VideoFormat {
    /// A format of this size with 30 pictures per second.
    #[must_use]
    pub fn new(width: usize, height: usize) -> Self {
        Self { width, height, frame_rate: FrameRate::default() }
    }

    /// The format with another frame rate.
    #[must_use]
    pub fn at(self, frame_rate: FrameRate) -> Self {
        Self { frame_rate, ..self }
    }

    /// Time between two pictures, rounded down to a nanosecond. Sums of it drift, so use [`VideoFormat::time_of`] for
    /// times.
    #[must_use]
    pub fn frame_interval(&self) -> Duration {
        self.frame_rate.time_of(1)
    }

    /// Time from the first picture to picture `index`.
    #[must_use]
    pub fn time_of(&self, index: u64) -> Duration {
        self.frame_rate.time_of(index)
    }
}

impl Default for VideoFormat {
    /// 1280x720 at 30 pictures per second.
    fn default() -> Self {
        Self { width: 1280, height: 720, frame_rate: FrameRate::default() }
    }
}

impl fmt::Display for VideoFormat {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}x{}@{}", self.width, self.height, self.frame_rate)
    }
}

/// Reads `WIDTHxHEIGHT`.
pub fn parse_size(text: &str) -> Result<(usize, usize), FormatError> {
    let side = |side: &str| side.parse::<usize>().ok().filter(|side| (1..=usize::from(MAX_DIMENSION)).contains(side));
    text.split_once('x')
        .and_then(|(width, height)| Some((side(width)?, side(height)?)))
        .ok_or_else(|| FormatError::Size(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_spellings_of_frame_rates_are_read() {
        assert_eq!("30".parse(), Ok(FrameRate::new(30, 1).unwrap()));
        assert_eq!("30000/1001".parse(), Ok(FrameRate::new(30_000, 1001).unwrap()));
        assert_eq!("12.5".parse(), Ok(FrameRate::new(125, 10).unwrap()));
        for wrong in ["", "0", "0/1", "1/0", "-3", "1.", "1.2345", "a", "1/2/3", "9999999999", "4294967.2960"] {
            assert!(wrong.parse::<FrameRate>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn rates_above_a_thousand_are_refused() {
        assert_eq!("1000".parse(), Ok(FrameRate::new(1_000, 1).unwrap()));
        assert_eq!(FrameRate::new(u32::MAX, u32::MAX).map(FrameRate::as_f64), Some(1.0));
        for wrong in ["1001", "4294967295", "1000.001", "1001001/1000"] {
            assert!(wrong.parse::<FrameRate>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn fractional_rates_do_not_drift() {
        let rate = FrameRate::new(30_000, 1001).unwrap();
        assert_eq!(rate.time_of(30_000), Duration::from_secs(1001));
        assert!(rate.time_of(1) * 30_000 < Duration::from_secs(1001));
    }

    #[test]
    fn sizes_outside_vp8_are_refused() {
        assert_eq!(parse_size("640x360"), Ok((640, 360)));
        for wrong in ["640", "0x3", "3x0", "16384x2", "x", "3x", "1x2x3", "-1x2"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }
}
