//! Asks for a ticket or a code in the terminal. Tab completes the words of a code.

use anyhow::Result;

/// Asks `question` and returns the line that the user types, of at most `longest` bytes; `None` if standard input is no
/// terminal that delivers single keys.
#[cfg(unix)]
pub fn line(question: &str, longest: usize) -> Option<Result<String>> {
    use std::io::{Read, Write, stderr, stdin};

    use anyhow::{Context, bail};

    use crate::keys::Keyboard;

    let keyboard = Keyboard::open_for_line()?;
    let mut line = Line { question: question.to_owned(), text: String::new(), longest };
    let mut ask = || -> Result<String> {
        let show = |text: &str| write!(stderr(), "{text}").and_then(|()| stderr().flush());
        show(question).context("cannot ask for a ticket")?;
        let mut read = [0; 64];
        loop {
            let length = stdin().lock().read(&mut read).context("cannot read a ticket")?;
            if length == 0 {
                return Ok(line.text.clone());
            }
            for &key in &read[..length] {
                match line.press(key) {
                    Effect::Show(text) => show(&text).context("cannot ask for a ticket")?,
                    Effect::Done => {
                        let _ = show("\n");
                        return Ok(line.text.clone());
                    }
                    Effect::Cancel => {
                        let _ = show("\n");
                        bail!("no ticket was given");
                    }
                }
            }
        }
    };
    let answer = ask();
    drop(keyboard);
    Some(answer)
}

/// No system other than Unix delivers single keys here.
#[cfg(not(unix))]
pub fn line(_: &str, _: usize) -> Option<Result<String>> {
    None
}

/// A line that the user edits.
#[cfg(unix)]
struct Line {
    question: String,
    text: String,
    longest: usize,
}

/// Effect of a key.
#[cfg(unix)]
#[derive(Debug, PartialEq, Eq)]
enum Effect {
    /// The terminal shows this text at the cursor.
    Show(String),
    /// The line is complete.
    Done,
    /// The user gives up.
    Cancel,
}

/// Most words that Tab lists.
#[cfg(unix)]
const MAX_LISTED: usize = 20;

#[cfg(unix)]
impl Line {
    fn press(&mut self, key: u8) -> Effect {
        const END_OF_TEXT: u8 = 3;
        const END_OF_TRANSMISSION: u8 = 4;
        const BACKSPACE: u8 = 8;
        const KILL: u8 = 21;
        const DELETE: u8 = 127;
        match key {
            b'\r' | b'\n' => return Effect::Done,
            END_OF_TEXT => return Effect::Cancel,
            END_OF_TRANSMISSION if self.text.is_empty() => return Effect::Cancel,
            DELETE | BACKSPACE if self.text.pop().is_some() => return Effect::Show("\x08 \x08".to_owned()),
            KILL => {
                let erased = "\x08 \x08".repeat(self.text.len());
                self.text.clear();
                return Effect::Show(erased);
            }
            b'\t' => return Effect::Show(self.complete()),
            b' '..=b'~' if self.text.len() < self.longest => {
                self.text.push(key.into());
                return Effect::Show(char::from(key).into());
            }
            _ => {}
        }
        Effect::Show(String::new())
    }

    /// Adds the common letters of all possible words; lists the words if there are several.
    fn complete(&mut self) -> String {
        let endings = lockstep_live::Code::completions(&self.text);
        let Some(first) = endings.first() else { return String::new() };
        let is_common = |&length: &usize| endings.iter().all(|ending| ending.starts_with(&first[..length]));
        let common = (0..=first.len()).rev().find(is_common).unwrap_or(0);
        let mut added = first[..common].to_owned();
        let words = |text: &str| text.split(['-', ' ']).filter(|part| !part.is_empty()).count();
        if endings.len() == 1 && words(&format!("{}{added}", self.text)) == 2 {
            added.push('-');
        }
        if added.is_empty() && endings.len() <= MAX_LISTED {
            let begun = self.text.rsplit(['-', ' ']).next().unwrap_or_default();
            let words: Vec<String> = endings.iter().map(|ending| format!("{begun}{ending}")).collect();
            return format!("\n{}\n{}{}", words.join(" "), self.question, self.text);
        }
        self.text.push_str(&added);
        added
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn typed(keys: &str) -> (String, Vec<Effect>) {
        let mut line = Line { question: "code: ".to_owned(), text: String::new(), longest: 40 };
        let effects = keys.bytes().map(|key| line.press(key)).collect();
        (line.text, effects)
    }

    #[test]
    fn tab_completes_a_code_word_by_word() {
        let (text, effects) = typed("7-guid\treven\t\r");
        assert_eq!((text.as_str(), effects.last()), ("7-guidance-revenue", Some(&Effect::Done)));
        assert_eq!(typed("7-\t").0, "7-");
        let (text, effects) = typed("7-sp\t");
        assert_eq!(text, "7-sp");
        assert!(
            matches!(&effects[4], Effect::Show(shown) if shown.contains("spaniel") && shown.ends_with("code: 7-sp"))
        );
    }

    #[test]
    fn keys_edit_the_line() {
        assert_eq!(typed("ab\x7fc\x1b").0, "ac");
        assert_eq!(typed("ab\x15c").0, "c");
        assert_eq!(typed("\x7f\t").0, "");
        assert_eq!(typed("ab\x03").1.pop(), Some(Effect::Cancel));
        assert_eq!(typed(&"x".repeat(99)).0.len(), 40);
    }
}
