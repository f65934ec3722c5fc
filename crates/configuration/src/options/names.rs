//! Options that name what is opened: pictures, traces and sound.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::Serialize;
use serde_json::Value;

use lockstep_control::{Algorithm, AlgorithmError};
use lockstep_link::Trace;
use lockstep_sound::{Silence, SoundSource, Tone, WavError, WavSource};

use super::option_value::OptionValue;

/// What opens the pictures of a call, see [`lockstep_media::open_source`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct ClipName(String);

/// What opens a trace: the name of a file, or the words of a generated one.
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
            /// As it was given.
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
                    "" => Err("it names nothing".to_owned()),
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
    /// The same as the name of a file, which it may be.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        Path::new(&self.0)
    }
}

impl TraceName {
    /// The file that it is read from, which its words may name: of a fitted trace that of its family, else its own.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        let own = Path::new(&self.0);
        // As where it is opened, a file that is called like a generated trace comes first.
        Trace::family_file(&self.0).filter(|_| !own.exists()).unwrap_or(own)
    }
}

/// What names a controller: its name among the [`Controllers`](lockstep_control::Controllers) of the program, such as `gcc`,
/// or the file of a program, such as `program:./mine`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControllerName(String);

impl ControllerName {
    /// What precedes the file of a program.
    pub const PROGRAM: &'static str = "program:";

    /// As it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The file of the program, if it names one.
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
                // A name of the program, perhaps: `CallArguments::settings_with` looks for it.
                Err(AlgorithmError::Unknown { .. }) => Ok(Self(word.to_owned())),
                Err(error) => Err(error.to_string()),
            },
        }
    }

    /// What is no text names no controller; the error lists those that there are.
    fn from_value(value: &Value) -> Result<Self, String> {
        match value.to_string().parse::<Algorithm>() {
            Ok(_) => Err(format!("{value} is no text")),
            Err(error) => Err(error.to_string()),
        }
    }

    fn to_value(&self) -> Value {
        Value::from(self.0.as_str())
    }
}

/// What gives the sound of a call: `tone`, `silence`, or the name of a WAV file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SoundName(String);

impl SoundName {
    /// As it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What is called so; a file begins again at its end.
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

    /// Finds out whether it is there, for who does not hear it.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn check(&self) -> Result<(), WavError> {
        self.file().map_or(Ok(()), WavSource::check)
    }

    const TONE: &str = "tone";
    const SILENCE: &str = "silence";

    /// The file, if it is one.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        (![Self::TONE, Self::SILENCE].contains(&self.0.as_str())).then(|| Path::new(&self.0))
    }
}

impl OptionValue for SoundName {
    const MEANT: Option<&'static str> = Some(Self::TONE);

    fn from_word(word: &str) -> Result<Self, String> {
        if word.is_empty() { Err("it names no sound".to_owned()) } else { Ok(Self(word.to_owned())) }
    }

    /// `true` means the tone, as an option without a value does.
    fn from_value(value: &Value) -> Result<Self, String> {
        if value == &Value::Bool(true) { Self::from_word(Self::TONE) } else { Err(format!("{value} is no text")) }
    }

    fn to_value(&self) -> Value {
        Value::from(self.0.as_str())
    }
}
