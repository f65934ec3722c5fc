//! Option types that name inputs: video sources, traces, controllers and sound.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::Serialize;
use serde_json::Value;

use lockstep_control::{Algorithm, AlgorithmError};
use lockstep_link::Trace;
use lockstep_sound::{Silence, SoundSource, Tone, WavError, WavSource};

use super::option_value::OptionValue;

/// Name of a video source, see [`lockstep_media::open_source`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct ClipName(String);

/// Name of a trace: a file, or a specification of a generated trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct TraceName(String);

macro_rules! names {
    ($($type:ident)*) => {$(
        impl From<&str> for $type {
            fn from(name: &str) -> Self {
                Self(name.to_owned())
            }
        }

        impl $type {
            /// The name as given.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }

        impl OptionValue for $type {
            fn from_word(word: &str) -> Result<Self, String> {
                match word {
                    "" => Err("expected a name, found nothing".to_owned()),
                    "-" => Err("standard input cannot be read more than once; name a file".to_owned()),
                    word => Ok(Self::from(word)),
                }
            }

            fn to_value(&self) -> Value {
                Value::from(self.0.as_str())
            }
        }
    )*};
}

names! { ClipName TraceName }

impl ClipName {
    /// The name as a path, which it may be.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        Path::new(&self.0)
    }
}

impl TraceName {
    /// File that the trace is read from. That of a fitted trace is its family file, if it names one.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        let own = Path::new(&self.0);
        // As in [`open_trace`](crate::open_trace), a file with the name of a generated trace takes precedence.
        Trace::family_file(&self.0).filter(|_| !own.exists()).unwrap_or(own)
    }
}

/// Name of a controller: one of the program's [`Controllers`](lockstep_control::Controllers), such as `gcc`, or a
/// program, such as `program:./mine`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControllerName(String);

impl ControllerName {
    /// Prefix of the file of a program.
    pub const PROGRAM: &'static str = "program:";

    /// The name as given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// File of the program, if it names one.
    #[must_use]
    pub fn program(&self) -> Option<&Path> {
        self.0.strip_prefix(Self::PROGRAM).map(Path::new)
    }
}

impl From<&Algorithm> for ControllerName {
    fn from(algorithm: &Algorithm) -> Self {
        Self(algorithm.to_string())
    }
}

impl From<Algorithm> for ControllerName {
    fn from(algorithm: Algorithm) -> Self {
        Self::from(&algorithm)
    }
}

impl fmt::Display for ControllerName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl FromStr for ControllerName {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        Self::from_word(word)
    }
}

impl OptionValue for ControllerName {
    fn from_word(word: &str) -> Result<Self, String> {
        match word {
            "" => Err("expected the name of a controller, found nothing".to_owned()),
            Self::PROGRAM => Err(format!("`{word}`: expected a file behind the colon, such as {word}./mine")),
            word => match word.parse::<Algorithm>() {
                Ok(algorithm) => Ok(algorithm.into()),
                // May be a registered name: `CallArguments::settings_with` looks it up.
                Err(AlgorithmError::Unknown { .. }) => Ok(Self(word.to_owned())),
                Err(error) => Err(error.to_string()),
            },
        }
    }

    /// A value other than text is refused; the error lists the known controllers.
    fn from_value(value: &Value) -> Result<Self, String> {
        match value.to_string().parse::<Algorithm>() {
            Ok(_) => Err(format!("{value} is not text")),
            Err(error) => Err(error.to_string()),
        }
    }

    fn to_value(&self) -> Value {
        Value::from(self.0.as_str())
    }
}

/// Source of a call's sound: `tone`, `silence`, or the name of a WAV file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SoundName(String);

impl SoundName {
    /// The name as given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Opens the source; a file repeats.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn open(&self) -> Result<Box<dyn SoundSource>, WavError> {
        Ok(match self.0.as_str() {
            Self::TONE => Box::new(Tone::default()),
            Self::SILENCE => Box::new(Silence),
            path => Box::new(WavSource::open(Path::new(path), true)?),
        })
    }

    /// Checks that the file exists and is valid, without playing it.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn check(&self) -> Result<(), WavError> {
        self.file().map_or(Ok(()), WavSource::check)
    }

    const TONE: &str = "tone";
    const SILENCE: &str = "silence";

    /// File of the sound, if it is one.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        (![Self::TONE, Self::SILENCE].contains(&self.0.as_str())).then(|| Path::new(&self.0))
    }
}

impl OptionValue for SoundName {
    const MEANT: Option<&'static str> = Some(Self::TONE);

    fn from_word(word: &str) -> Result<Self, String> {
        if word.is_empty() {
            Err("expected the name of a sound, found nothing".to_owned())
        } else {
            Ok(Self(word.to_owned()))
        }
    }

    /// `true` means the tone, like an option without a value.
    fn from_value(value: &Value) -> Result<Self, String> {
        if value == &Value::Bool(true) { Self::from_word(Self::TONE) } else { Err(format!("{value} is not text")) }
    }

    fn to_value(&self) -> Value {
        Value::from(self.0.as_str())
    }
}
