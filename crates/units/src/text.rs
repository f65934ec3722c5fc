//! External text in messages.

use std::borrow::Cow;

/// `text` without control characters except line breaks and tabs; escapes such as `\u{1b}` replace them. Text of files,
/// peers and programs must pass through it on its way to a terminal, which obeys control sequences.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    let is_wrong = |letter: char| letter.is_control() && letter != '\n' && letter != '\t';
    if !text.contains(is_wrong) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        if is_wrong(letter) {
            shown.extend(letter.escape_default());
        } else {
            shown.push(letter);
        }
    }
    Cow::Owned(shown)
}

/// `text`, shortened for an error message.
#[must_use]
pub fn excerpt(text: &str) -> String {
    const SHOWN: usize = 40;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_sequences_are_shown_and_not_obeyed() {
        assert_eq!(printable("a\u{1b}]0;title\u{7}b\rc\u{9b}1m"), r"a\u{1b}]0;title\u{7}b\rc\u{9b}1m");
        assert_eq!(printable("two\nlines\tand ümläute ━"), "two\nlines\tand ümläute ━");
    }
}
