//! Units of Lockstep: time on a session's clock, bit rate and number of bytes.
//!
//! Each is a type, so that no function takes a bare number with an unclear unit.
//!
//! - [`Timestamp`], [`Bitrate`], [`ByteCount`]: the units
//! - [`quantity`]: parses text such as `500kbps`
//! - [`open_input`], [`open_output`]: files that may be FIFOs
//! - [`random`]: seeded random numbers
//! - [`SlidingMinimum`]: sliding-window minimum
//! - [`tuning`](mod@tuning): declaration of tuned constants
#![forbid(unsafe_code)]

mod fifo;
pub mod quantity;
pub mod random;
mod sliding_minimum;
mod text;
pub mod tuning;

use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use fifo::{is_fifo, open_input, open_output};
pub use sliding_minimum::SlidingMinimum;
pub use text::{excerpt, printable};

/// Largest frame rate of a clip, camera or sender, frames per second: four times the fastest displays. Without this
/// bound, a damaged header could demand an excessive frame rate.
pub const MAX_FRAME_RATE: u32 = 1_000;

/// Time on a session's clock: nanoseconds since an origin that the driver chooses. The simulator and each process of a
/// live call start at zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(u64);

impl Timestamp {
    /// Origin of the clock.
    pub const ZERO: Self = Self(0);
    /// Later than any time of a session.
    pub const MAX: Self = Self(u64::MAX);

    /// The time `nanoseconds` after the origin.
    #[must_use]
    pub const fn from_nanos(nanoseconds: u64) -> Self {
        Self(nanoseconds)
    }

    /// The time `microseconds` after the origin; saturates.
    #[must_use]
    pub const fn from_micros(microseconds: u64) -> Self {
        Self(microseconds.saturating_mul(1_000))
    }

    /// The time `milliseconds` after the origin; saturates.
    #[must_use]
    pub const fn from_millis(milliseconds: u64) -> Self {
        Self(milliseconds.saturating_mul(1_000_000))
    }

    /// Nanoseconds since the origin.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whole microseconds since the origin.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }

    /// Seconds since the origin.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 * 1e-9
    }

    /// The earliest of the given times; `None` if all are `None`.
    #[inline]
    #[must_use]
    pub fn earliest<const COUNT: usize>(moments: [Option<Self>; COUNT]) -> Option<Self> {
        moments.into_iter().fold(None, |first, moment| match (first, moment) {
            (Some(first), Some(moment)) => Some(moment.min(first)),
            (first, moment) => first.or(moment),
        })
    }

    /// Time from `earlier` to `self`; zero if `self` is the earlier one.
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Whether `self` is more than `duration` after `earlier`. Faster than a comparison with
    /// [`Timestamp::saturating_since`], since it avoids the division for a [`Duration`].
    #[inline]
    #[must_use]
    pub fn is_later_by(self, duration: Duration, earlier: Self) -> bool {
        self.0.saturating_sub(earlier.0) > nanos(duration)
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// `seconds` rounded to nanoseconds; zero for negative values and NaN; saturates at 584 years.
///
/// As [`Duration::from_secs_f64`] except for ties, but four times as fast. This matters in calls per packet.
#[must_use]
pub fn duration_from_seconds(seconds: f64) -> Duration {
    Duration::from_nanos((seconds * 1e9 + 0.5) as u64)
}

/// Exponentially weighted moving average after a `sample` with a weight of 0 to 1, rounded to nanoseconds.
#[must_use]
pub fn moving_average(known: Duration, sample: Duration, weight: f64) -> Duration {
    let (known, sample) = (nanos(known) as f64, nanos(sample) as f64);
    Duration::from_nanos((known + weight * (sample - known) + 0.5) as u64)
}

impl Add<Duration> for Timestamp {
    type Output = Self;
    /// Saturates at [`Timestamp::MAX`].
    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }
}

impl AddAssign<Duration> for Timestamp {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Self;
    /// Saturates at [`Timestamp::ZERO`].
    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(duration)))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:.6} s", self.as_secs_f64())
    }
}

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ByteCount(u64);

impl ByteCount {
    /// Zero bytes.
    pub const ZERO: Self = Self(0);

    /// `bytes` bytes.
    #[must_use]
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// The length of `slice`.
    #[must_use]
    pub const fn of(slice: &[u8]) -> Self {
        Self(slice.len() as u64)
    }

    /// The number as an integer.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The number as a floating-point value.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        self.0 as f64
    }

    /// `self - other`, zero if that would be negative.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for ByteCount {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for ByteCount {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for ByteCount {
    /// Saturates at zero.
    fn sub_assign(&mut self, other: Self) {
        *self = self.saturating_sub(other);
    }
}

impl std::iter::Sum for ByteCount {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for ByteCount {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} B", self.0)
    }
}

/// A bit rate, in bits per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bitrate(u64);

impl Bitrate {
    /// Zero bit/s.
    pub const ZERO: Self = Self(0);

    /// `bits_per_second` bit/s.
    #[must_use]
    pub const fn from_bps(bits_per_second: u64) -> Self {
        Self(bits_per_second)
    }

    /// `kilobits_per_second` times 1000 bit/s; saturates.
    #[must_use]
    pub const fn from_kbps(kilobits_per_second: u64) -> Self {
        Self(kilobits_per_second.saturating_mul(1_000))
    }

    /// Mean rate of `bytes` in `time`; zero if `time` is zero.
    #[must_use]
    pub fn mean(bytes: ByteCount, time: Duration) -> Self {
        let span = nanos(time);
        if span == 0 {
            return Self::ZERO;
        }
        // A 128-bit division takes ten times as long and is seldom needed.
        if let Some(bits) = bytes.get().checked_mul(8_000_000_000) {
            return Self(bits / span);
        }
        let bits = u128::from(bytes.get()) * 8_000_000_000;
        Self(u64::try_from(bits / u128::from(span)).unwrap_or(u64::MAX))
    }

    /// A rate of `bytes` per second, rounded down to 1 bit/s; zero if it is negative or NaN.
    #[must_use]
    pub fn from_bytes_per_second(bytes: f64) -> Self {
        Self::from_bps((8.0 * bytes) as u64)
    }

    /// Bytes per second.
    #[must_use]
    pub fn as_bytes_per_second(self) -> f64 {
        self.as_bps() as f64 / 8.0
    }

    /// Bits per second.
    #[must_use]
    pub const fn as_bps(self) -> u64 {
        self.0
    }

    /// Megabits per second.
    #[must_use]
    pub fn as_mbps(self) -> f64 {
        self.0 as f64 * 1e-6
    }

    /// The rate times `factor`, rounded to 1 bit/s; saturates.
    #[must_use]
    pub fn mul_f64(self, factor: f64) -> Self {
        let exact = self.0 as f64 * factor;
        // As `f64::round`, which is a function call on old processors.
        let whole = exact as u64;
        Self(whole.saturating_add(u64::from(exact - whole as f64 >= 0.5)))
    }

    /// `self - other`, zero if that would be negative.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Whole bytes that pass in `time`.
    #[must_use]
    pub fn bytes_in(self, time: Duration) -> ByteCount {
        if let Some(bits) = self.0.checked_mul(nanos(time)) {
            return ByteCount::new(bits / 8_000_000_000);
        }
        let bits = u128::from(self.0) * u128::from(nanos(time)) / 1_000_000_000;
        ByteCount::new(u64::try_from(bits / 8).unwrap_or(u64::MAX))
    }

    /// Time for `bytes`, rounded up to nanoseconds; [`Duration::MAX`] at rate zero.
    #[must_use]
    pub fn time_for(self, bytes: ByteCount) -> Duration {
        if self.0 == 0 {
            return Duration::MAX;
        }
        if let Some(bits) = bytes.get().checked_mul(8_000_000_000) {
            return Duration::from_nanos(bits.div_ceil(self.0));
        }
        let span = (u128::from(bytes.get()) * 8_000_000_000).div_ceil(u128::from(self.0));
        Duration::from_nanos(u64::try_from(span).unwrap_or(u64::MAX))
    }
}

impl Add for Bitrate {
    type Output = Self;
    /// Saturates at [`u64::MAX`] bit/s.
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl fmt::Display for Bitrate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 >= 1_000_000 {
            write!(formatter, "{:.2} Mb/s", self.as_mbps())
        } else {
            write!(formatter, "{:.0} kb/s", self.0 as f64 * 1e-3)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bytes_pass_in_the_time_for_them(rate in 1u64..1 << 40, bytes in 0u64..1 << 30) {
            let rate = Bitrate::from_bps(rate);
            let time = rate.time_for(ByteCount::new(bytes));
            prop_assert!(rate.bytes_in(time).get() >= bytes);
        }

        #[test]
        fn rate_times_factor_is_rounded_to_nearest(rate in any::<u64>(), factor in -1.0..100.0f64) {
            let expected = (rate as f64 * factor).round() as u64;
            prop_assert_eq!(Bitrate::from_bps(rate).mul_f64(factor).as_bps(), expected);
            let (small, half) = (Bitrate::from_bps(rate % 64), factor.abs().trunc() / 2.0);
            prop_assert_eq!(small.mul_f64(half).as_bps(), (small.as_bps() as f64 * half).round() as u64);
        }

        #[test]
        fn timestamps_saturate(at in any::<u64>(), span in any::<u64>()) {
            let moment = Timestamp::from_nanos(at);
            let span = Duration::from_nanos(span);
            prop_assert!(moment + span >= moment);
            prop_assert!(moment - span <= moment);
        }
    }

    #[test]
    fn earliest_ignores_missing_times() {
        let at = |nanoseconds| Some(Timestamp::from_nanos(nanoseconds));
        assert_eq!(Timestamp::earliest([None, at(7), None, at(3), at(5)]), at(3));
        assert_eq!(Timestamp::earliest([None, Some(Timestamp::MAX)]), Some(Timestamp::MAX));
        assert_eq!(Timestamp::earliest([None; 2]), None);
    }

    #[test]
    fn no_bytes_pass_at_rate_zero() {
        assert_eq!(Bitrate::ZERO.time_for(ByteCount::new(1)), Duration::MAX);
        assert_eq!(Bitrate::mean(ByteCount::new(5), Duration::ZERO), Bitrate::ZERO);
    }
}
