//! Header of a recording: the description of the recorded controller.

use std::time::Duration;

use lockstep_units::ByteCount;

use crate::{Algorithm, ControllerSetup, Latency, RateBounds, Tuning};

/// Bounds of the time between two pictures. Sources have at most 1,000 pictures per second.
const FRAME_INTERVALS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_secs(3_600));
/// Maximum size of a UDP datagram, bytes.
pub(super) const MAX_DATAGRAM_BYTES: u64 = 65_535;
/// Upper bound of bit rates, bit/s: faster than any link.
pub(super) const MAX_RATE_BPS: u64 = 1_000_000_000_000_000;
/// Maximum length of a model's hash and of a program's version, characters.
const MAX_TEXT_CHARACTERS: usize = 128;

/// Description of a recorded controller, from which it can be made again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The version of Lockstep that recorded it.
    pub program: String,
    /// The controller's algorithm.
    pub algorithm: Algorithm,
    /// [`ControllerSetup::payload`].
    pub payload: ByteCount,
    /// [`ControllerSetup::frame_interval`].
    pub frame_interval: Duration,
    /// [`ControllerSetup::bounds`].
    pub bounds: RateBounds,
    /// [`ControllerSetup::latency`].
    pub latency: Latency,
    /// SHA-256 of the model file that the controller runs, in hexadecimal; none without a model.
    pub model: Option<String>,
}

/// Reason why no controller can be made from a header.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// It needs the capacity of the path, which a recording does not contain.
    #[error("cannot replay the controller {0}: a recording does not contain the capacity of the path")]
    KnowsPath(Algorithm),
    /// It is not one of this crate's controllers.
    #[error("cannot replay the controller {0}: it is not built into Lockstep")]
    Foreign(Algorithm),
    /// A value is out of range.
    #[error("{0} is out of range")]
    Beyond(&'static str),
    /// Tuned constants are overridden.
    #[error("cannot record overridden tuned constants: run without overrides")]
    Tuned,
    /// A string contains other characters than letters, digits, `.`, `-` and `+`.
    #[error("{0}: expected letters, digits, `.`, `-` and `+`")]
    NoWord(&'static str),
}

impl Header {
    /// The header of a controller that `algorithm` makes from `setup`. `model` is the hash of the model file that it
    /// runs.
    ///
    /// # Errors
    /// [`HeaderError`] if a recording of it cannot be replayed.
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

    /// The setup of the controller, without a model: its embedded model applies.
    #[must_use]
    pub fn setup(&self) -> ControllerSetup {
        let Self { bounds, latency, .. } = *self;
        ControllerSetup { bounds, latency, ..ControllerSetup::new(self.payload, self.frame_interval) }
    }

    /// Checks that the values are in the range of calls, since controllers divide by some of them.
    pub(super) fn check(&self) -> Result<(), HeaderError> {
        if self.algorithm.knows_path() {
            return Err(HeaderError::KnowsPath(self.algorithm.clone()));
        }
        if matches!(self.algorithm, Algorithm::Registered(_)) {
            return Err(HeaderError::Foreign(self.algorithm.clone()));
        }
        let RateBounds { initial, min, max } = self.bounds;
        let rates = [min.as_bps(), initial.as_bps(), max.as_bps()];
        let fixed = match self.algorithm {
            Algorithm::Fixed(rate) => rate.as_bps(),
            _ => 0,
        };
        let is_word = |word: &str| {
            let is_letter = |letter: u8| letter.is_ascii_alphanumeric() || b".-+".contains(&letter);
            !word.is_empty() && word.len() <= MAX_TEXT_CHARACTERS && word.bytes().all(is_letter)
        };
        if !(1..=MAX_DATAGRAM_BYTES).contains(&self.payload.get()) {
            Err(HeaderError::Beyond("the payload of a fragment"))
        } else if !(FRAME_INTERVALS.0..=FRAME_INTERVALS.1).contains(&self.frame_interval) {
            Err(HeaderError::Beyond("the time between two pictures"))
        } else if rates[0] == 0 || !rates.is_sorted() || rates[2] > MAX_RATE_BPS || fixed > MAX_RATE_BPS {
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
