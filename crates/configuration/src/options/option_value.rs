//! What an option's value can do.

use serde_json::Value;

/// How an option is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// With one value.
    One,
    /// With a value each time.
    Many,
    /// Without a value.
    Flag,
}

/// A type of values that options have.
pub trait OptionValue: Sized {
    /// How an option of this type is given.
    const FORM: Form = Form::One;
    /// Names and meanings of all values, where they are few.
    const CHOICES: &'static [(&'static str, &'static str)] = &[];
    /// What is meant where the option is given without a value; nothing if it needs one.
    const MEANT: Option<&'static str> = None;

    /// Reads a word of the command line.
    ///
    /// # Errors
    /// What is wrong with it, in one line.
    fn from_word(word: &str) -> Result<Self, String>;

    /// Reads what is no text: a number, a flag, or a list.
    ///
    /// # Errors
    /// What is wrong with it, in one line.
    fn from_value(value: &Value) -> Result<Self, String> {
        // What may stand there is what is wrong with it as a word, unless any word may.
        Self::from_word(&value.to_string()).and(Err(format!("{value} is no text")))
    }

    /// Whether `value` is as if the option was not given: null is, and `false` where the option may be given without a
    /// value, which is what `true` means.
    fn is_not_given(value: &Value) -> bool {
        value.is_null() || (Self::MEANT.is_some() && value == &Value::Bool(false))
    }

    /// What [`OptionValue::read`] reads.
    fn to_value(&self) -> Value;

    /// What [`OptionValue::from_word`] reads.
    fn to_word(&self) -> String {
        match self.to_value() {
            Value::String(text) => text,
            value => value.to_string(),
        }
    }

    /// Reads all words of an option; the last one counts, unless it is given with many.
    ///
    /// # Errors
    /// What is wrong with one of them.
    fn from_words(words: &[String]) -> Result<Self, String> {
        Self::from_word(words.last().map_or("", String::as_str))
    }

    /// What [`OptionValue::from_words`] reads.
    fn to_words(&self) -> Vec<String> {
        vec![self.to_word()]
    }

    /// Reads what Python and reports have: text as on the command line, and all else by its type.
    ///
    /// # Errors
    /// What is wrong with it, in one line.
    fn read(value: &Value) -> Result<Self, String> {
        match value {
            Value::String(word) => Self::from_word(word),
            value => Self::from_value(value),
        }
    }
}
