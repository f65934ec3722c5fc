//! What a recorded controller was made of.

use std::time::Duration;

use lockstep_units::ByteCount;

use crate::{Algorithm, ControllerSetup, Latency, RateBounds, Tuning};

/// The least and the longest time between two pictures: sources have 1,000 a second at most.
const FRAME_INTERVALS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_secs(3_600));
/// The most bytes of a datagram of UDP.
pub(super) const MOST_BYTES: u64 = 65_535;
/// Faster than any link, bit/s.
pub(super) const MOST_RATE: u64 = 1_000_000_000_000_000;
/// Characters of the hash of a model, and of the version of a program.
const LONGEST_WORD: usize = 128;

/// What a recorded controller was made of, so that it can be made again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The version of Lockstep that recorded it.
    pub program: String,
    /// Which controller.
    pub algorithm: Algorithm,
    /// [`ControllerSetup::payload`].
    pub payload: ByteCount,
    /// [`ControllerSetup::frame_interval`].
    pub frame_interval: Duration,
    /// [`ControllerSetup::bounds`].
    pub bounds: RateBounds,
    /// [`ControllerSetup::latency`].
    pub latency: Latency,
    /// SHA-256 of the file of the model that the controller runs, in hexadecimal; none if it runs none.
    pub model: Option<String>,
}

/// Why no controller can be made of a header.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// It knew what the path carries, and no recording holds that.
    #[error("the controller {0} must know the path, which no recording holds")]
    KnowsPath(Algorithm),
    /// It is not among the controllers of this crate.
    #[error("`lockstep replay` cannot make the controller {0}, which is none of Lockstep's")]
    Foreign(Algorithm),
    /// A number is beyond what any call has.
    #[error("{0} is beyond what any call has")]
    Beyond(&'static str),
    /// Tuned constants are overridden.
    #[error("tuned constants are overridden, and no recording holds them")]
    Tuned,
    /// A word is none.
    #[error("{0} is no word of letters, digits and points")]
    NoWord(&'static str),
}

impl Header {
    /// Of the controller that `algorithm` makes of `setup`; one that runs a model runs that whose file has the hash
    /// `model`.
    ///
    /// # Errors
    /// If it is one of which no recording can be replayed.
    pub fn new(algorithm: Algorithm, setup: &ControllerSetup, model: Option<String>) -> Result<Self, HeaderError> {
        let ControllerSetup { payload, frame_interval, bounds, latency, tuning, .. } = *setup;
        if tuning != Tuning::default() {
            return Err(HeaderError::Tuned);
        }
        let program = env!("CARGO_PKG_VERSION").to_owned();
        let header = Self { program, algorithm, payload, frame_interval, bounds, latency, model };
        header.check()?;
        Ok(header)
    }

    /// What the controller was told of its call, with the model that comes with it.
    #[must_use]
    pub fn setup(&self) -> ControllerSetup {
        let Self { bounds, latency, .. } = *self;
        ControllerSetup { bounds, latency, ..ControllerSetup::new(self.payload, self.frame_interval) }
    }

    /// Finds out whether any call has these values: controllers divide by some of them.
    pub(super) fn check(&self) -> Result<(), HeaderError> {
        if self.algorithm.knows_path() {
            return Err(HeaderError::KnowsPath(self.algorithm.clone()));
        }
        if matches!(self.algorithm, Algorithm::Registered(_)) {
            return Err(HeaderError::Foreign(self.algorithm.clone()));
        }
        let RateBounds { initial, least, most } = self.bounds;
        let rates = [least.as_bps(), initial.as_bps(), most.as_bps()];
        let fixed = match self.algorithm {
            Algorithm::Fixed(rate) => rate.as_bps(),
            _ => 0,
        };
        let is_word = |word: &str| {
            let is_letter = |letter: u8| letter.is_ascii_alphanumeric() || b".-+".contains(&letter);
            !word.is_empty() && word.len() <= LONGEST_WORD && word.bytes().all(is_letter)
        };
        if !(1..=MOST_BYTES).contains(&self.payload.get()) {
            Err(HeaderError::Beyond("the payload of a fragment"))
        } else if !(FRAME_INTERVALS.0..=FRAME_INTERVALS.1).contains(&self.frame_interval) {
            Err(HeaderError::Beyond("the time between two pictures"))
        } else if rates[0] == 0 || !rates.is_sorted() || rates[2] > MOST_RATE || fixed > MOST_RATE {
            Err(HeaderError::Beyond("a bit rate"))
        } else if !is_word(&self.program) {
            Err(HeaderError::NoWord("the version"))
        } else if self.model.as_deref().is_some_and(|model| !is_word(model)) {
            Err(HeaderError::NoWord("the hash of the model"))
        } else {
            Ok(())
        }
    }
}
