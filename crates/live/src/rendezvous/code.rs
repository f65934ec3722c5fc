//! Codes that people can say instead of a ticket, such as `7-guidance-revenue`: a number and two words.
//!
//! The number, the nameplate, brings both ends together at a rendezvous. The words are a password of 16 bits, which
//! never leaves the two ends. The list of words is that of PGP (P. Zimmermann and P. Juola, PGPfone Owner's Manual,
//! 1995): a spoken word of one column is not mistaken for one of the other.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use thiserror::Error;

use crate::LiveError;
use crate::identity::random;

/// Number of a code at its rendezvous; never 0.
pub type Nameplate = u16;

/// One line per byte: the first word and the second word of that byte.
const WORDS: &str = include_str!("words.txt");

/// The words of each column, in the order of the bytes.
static COLUMNS: LazyLock<[Vec<&'static str>; 2]> = LazyLock::new(|| {
    let pairs = WORDS.lines().filter_map(|line| line.split_once(' '));
    let (first, second) = pairs.unzip();
    [first, second]
});

/// A code. Its words are a secret until it is used.
#[derive(Clone, PartialEq, Eq)]
pub struct Code {
    nameplate: Nameplate,
    /// Indices of the words.
    words: [u8; 2],
}

/// Why a text is not a code.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CodeError {
    /// The number is missing or too large, or the number of words is wrong.
    #[error("a code is a number and two words, such as 7-guidance-revenue")]
    Form,
    /// A word is not in the list.
    #[error("`{0}` is not a word of a code; check its spelling")]
    Word(String),
}

impl Code {
    /// Longest text that is parsed as a code, in bytes.
    pub const MAX_TEXT_BYTES: usize = 128;

    /// A code with two random words.
    ///
    /// # Errors
    /// The system provides no random numbers.
    pub(super) fn random(nameplate: Nameplate) -> Result<Self, LiveError> {
        Ok(Self { nameplate, words: random()? })
    }

    /// The number.
    #[must_use]
    pub fn nameplate(&self) -> Nameplate {
        self.nameplate
    }

    /// Whether a person meant this text as a code: tickets, links and addresses of the web begin with a letter.
    #[must_use]
    pub fn is_meant(text: &str) -> bool {
        text.trim_start().starts_with(|letter: char| letter.is_ascii_digit())
    }

    /// Endings of the word that a code begins with: what each possible word adds to `text`. Empty while the number is
    /// typed, and after both words.
    #[must_use]
    pub fn completions(text: &str) -> Vec<String> {
        let parts: Vec<&str> = text.split(is_separator).filter(|part| !part.is_empty()).collect();
        let is_begun = !text.ends_with(is_separator);
        let (place, begun) = match (parts.len(), is_begun) {
            (1, false) => (0, ""),
            (2, true) => (0, parts[1]),
            (2, false) => (1, ""),
            (3, true) => (1, parts[2]),
            _ => return Vec::new(),
        };
        let begun = begun.to_ascii_lowercase();
        COLUMNS[place].iter().filter_map(|word| word.strip_prefix(&begun).map(str::to_owned)).collect()
    }
}

fn is_separator(letter: char) -> bool {
    letter == '-' || letter.is_whitespace()
}

/// The code's text, which is also the password of the key exchange.
impl fmt::Display for Code {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, second] = self.words.map(usize::from);
        write!(formatter, "{}-{}-{}", self.nameplate, COLUMNS[0][first], COLUMNS[1][second])
    }
}

/// Omits the words, which must not appear in logs.
impl fmt::Debug for Code {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Code").field("nameplate", &self.nameplate).finish_non_exhaustive()
    }
}

/// Index of a word in its column.
fn index(column: usize, word: &str) -> Option<u8> {
    let place = COLUMNS[column].iter().position(|&other| other == word)?;
    u8::try_from(place).ok()
}

impl FromStr for Code {
    type Err = CodeError;

    /// Forgives capital letters, spaces in place of hyphens, and missing hyphens.
    fn from_str(text: &str) -> Result<Self, CodeError> {
        if text.len() > Self::MAX_TEXT_BYTES {
            return Err(CodeError::Form);
        }
        let text = text.trim().to_ascii_lowercase();
        let digits = text.len() - text.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
        let (number, rest) = text.split_at(digits);
        let nameplate = number.parse().ok().filter(|&number| number > 0).ok_or(CodeError::Form)?;
        let parts: Vec<&str> = rest.split(is_separator).filter(|part| !part.is_empty()).collect();
        let found = |first: &str, second: &str| Some([index(0, first)?, index(1, second)?]);
        let joined = parts.concat();
        let mut splits = (1..joined.len()).filter_map(|at| joined.split_at_checked(at));
        if let Some(words) = splits.find_map(|(first, second)| found(first, second)) {
            return Ok(Self { nameplate, words });
        }
        let [first, second] = parts[..] else { return Err(CodeError::Form) };
        let wrong = if index(0, first).is_none() { first } else { second };
        Err(CodeError::Word(wrong.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn code(nameplate: Nameplate, words: [u8; 2]) -> Code {
        Code { nameplate, words }
    }

    #[test]
    fn every_pair_of_words_is_read_without_hyphens() {
        let mut joined = BTreeSet::new();
        assert!(COLUMNS.iter().all(|column| column.len() == 256));
        for first in COLUMNS[0].iter() {
            for second in COLUMNS[1].iter() {
                assert!(first.bytes().chain(second.bytes()).all(|letter| letter.is_ascii_lowercase()));
                assert!(joined.insert(format!("{first}{second}")), "{first} {second} reads like another pair");
            }
        }
    }

    #[test]
    fn case_spaces_and_missing_hyphens_are_forgiven() {
        let expected: Code = "7-guidance-revenue".parse().expect("a code");
        for text in ["7 guidance revenue", " 7-Guidance-REVENUE\n", "7guidancerevenue", "7 - guidance - revenue"] {
            assert_eq!(text.parse(), Ok(expected.clone()), "{text}");
        }
        assert_eq!(expected.nameplate(), 7);
        assert!(!format!("{expected:?}").contains("guidance"), "its words show");
    }

    #[test]
    fn wrong_spelling_is_found_before_the_code_is_tried() {
        let wrong = |word: &str| Err(CodeError::Word(word.to_owned()));
        assert_eq!("7-guidanse-revenue".parse::<Code>(), wrong("guidanse"));
        assert_eq!("7-guidance-revenu".parse::<Code>(), wrong("revenu"));
        // Swapped words.
        assert_eq!("7-revenue-guidance".parse::<Code>(), wrong("revenue"));
        for text in ["", "7", "7-guidance", "guidance-revenue", "0-guidance-revenue", "65536-guidance-revenue"] {
            assert_eq!(text.parse::<Code>(), Err(CodeError::Form), "{text}");
        }
    }

    #[test]
    fn begun_word_is_completed() {
        assert_eq!(Code::completions("7-guida"), ["nce"]);
        assert_eq!(Code::completions("7 guidance reven"), ["ue"]);
        assert_eq!(Code::completions("7-GU"), ["idance"]);
        assert_eq!((Code::completions("7-").len(), Code::completions("7-guidance-").len()), (256, 256));
        assert!(["", "7", "7-guidance-revenue-", "7-xyz"].iter().all(|text| Code::completions(text).is_empty()));
    }

    #[test]
    fn tickets_and_links_are_not_meant_as_codes() {
        assert!(Code::is_meant(" 7 guidance revenue") && Code::is_meant("12"));
        assert!(["LOCKSTEP-ABC", "http://127.0.0.1/#LOCKSTEP-ABC", "-", ""].iter().all(|text| !Code::is_meant(text)));
    }

    proptest! {
        #[test]
        fn any_code_survives_its_text(nameplate in 1_u16.., words in any::<[u8; 2]>()) {
            let code = code(nameplate, words);
            prop_assert_eq!(code.to_string().parse(), Ok(code));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,80}") {
            let _ = text.parse::<Code>();
            let _ = Code::completions(&text);
        }
    }
}
