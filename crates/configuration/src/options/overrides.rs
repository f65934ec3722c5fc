//! Option type for the tuned constants that a call overrides.

use std::collections::BTreeMap;

use serde_json::Value;

use lockstep_call::Tuning;
use lockstep_units::tuning;

use super::option_value::{Form, OptionValue};

/// Tuned constants that a call overrides, by name, such as `silence.margin=0.2`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Overrides {
    given: BTreeMap<String, f64>,
    /// All constants; `None` if all have their defaults.
    tuning: Option<Box<Tuning>>,
}

impl Overrides {
    /// All constants of the call.
    #[must_use]
    pub fn tuning(&self) -> Tuning {
        self.tuning.as_deref().copied().unwrap_or_default()
    }

    /// Whether none is overridden.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.given.is_empty()
    }

    /// Overrides the constant `name`.
    ///
    /// # Errors
    /// If no constant has this name, or the value is out of its range.
    pub fn set(&mut self, name: &str, value: f64) -> Result<(), String> {
        let tuning = self.tuning.get_or_insert_default();
        tuning::set(&mut **tuning, name, value).map_err(|error| error.to_string())?;
        self.given.insert(name.to_owned(), value);
        Ok(())
    }

    fn read_word(&mut self, word: &str) -> Result<(), String> {
        for part in word.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').ok_or_else(|| format!("expected NAME=VALUE, found \"{part}\""))?;
            let value = value.trim();
            let number = value.parse().map_err(|_| format!("{name}: expected a number, found \"{value}\""))?;
            self.set(name.trim(), number)?;
        }
        Ok(())
    }
}

impl OptionValue for Overrides {
    const FORM: Form = Form::Many;

    fn from_word(word: &str) -> Result<Self, String> {
        Self::from_words(&[word.to_owned()])
    }

    fn from_words(words: &[String]) -> Result<Self, String> {
        let mut overrides = Self::default();
        words.iter().try_for_each(|word| overrides.read_word(word))?;
        Ok(overrides)
    }

    fn from_value(value: &Value) -> Result<Self, String> {
        let values = value.as_object().ok_or_else(|| format!("expected names with numbers, found {value}"))?;
        let mut overrides = Self::default();
        for (name, value) in values {
            let number = value.as_f64().ok_or_else(|| format!("{name}: expected a number, found {value}"))?;
            overrides.set(name, number)?;
        }
        Ok(overrides)
    }

    fn is_not_given(value: &Value) -> bool {
        value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty)
    }

    fn to_value(&self) -> Value {
        self.given.iter().map(|(name, &value)| (name.clone(), Value::from(value))).collect()
    }

    fn to_word(&self) -> String {
        let parts: Vec<String> = self.given.iter().map(|(name, value)| format!("{name}={value}")).collect();
        parts.join(",")
    }
}
