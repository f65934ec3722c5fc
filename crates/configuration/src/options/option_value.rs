//! Trait for types of option values: parsing and printing as words and as JSON.

use serde_json::Value;

/// How an option takes values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// One value.
    One,
    /// One value for each repetition of the option.
    Many,
    /// No value.
    Flag,
}

/// Type of option values.
pub trait OptionValue: Sized {
    /// How an option of this type takes values.
    const FORM: Form = Form::One;
    /// Names and meanings of all values, if the type is an enumeration.
    const CHOICES: &'static [(&'static str, &'static str)] = &[];
    /// Value of the option when it is given without one; `None` if it requires a value.
    const MEANT: Option<&'static str> = None;

    /// Parses a word of the command line.
    ///
    /// # Errors
    /// The problem with the value, in one line.
    fn from_word(word: &str) -> Result<Self, String>;

    /// Parses a JSON value other than a string: a number, a flag, or a list.
    ///
    /// # Errors
    /// The problem with the value, in one line.
    fn from_value(value: &Value) -> Result<Self, String> {
        // The error of `from_word` lists the accepted values, unless it accepts any word.
        Self::from_word(&value.to_string()).and(Err(format!("{value} is not text")))
    }

    /// Whether `value` means that the option is not given.
    ///
    /// Null does. So does `false`, if the option may be given without a value; `true` then stands for that.
    fn is_not_given(value: &Value) -> bool {
        value.is_null() || (Self::MEANT.is_some() && value == &Value::Bool(false))
    }

    /// Value that [`OptionValue::read`] parses.
    fn to_value(&self) -> Value;

    /// Word that [`OptionValue::from_word`] parses.
    fn to_word(&self) -> String {
        match self.to_value() {
            Value::String(text) => text,
            value => value.to_string(),
        }
    }

    /// Parses all words of an option. The last one counts, unless the form is [`Form::Many`].
    ///
    /// # Errors
    /// The problem with one of the words.
    fn from_words(words: &[String]) -> Result<Self, String> {
        Self::from_word(words.last().map_or("", String::as_str))
    }

    /// Words that [`OptionValue::from_words`] parses.
    fn to_words(&self) -> Vec<String> {
        vec![self.to_word()]
    }

    /// Parses a value from Python or a report: strings as on the command line, others by their type.
    ///
    /// # Errors
    /// The problem with the value, in one line.
    fn read(value: &Value) -> Result<Self, String> {
        match value {
            Value::String(word) => Self::from_word(word),
            value => Self::from_value(value),
        }
    }
}
