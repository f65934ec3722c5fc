//! A finished call of a sweep, as a cluster machine reports it: one line of JSON.

use anyhow::Result;
use serde::{Deserialize, Serialize};

use lockstep_measure::Scores;

/// A finished call and the key of its job.
#[derive(Debug)]
pub struct Finished {
    pub key: String,
    /// Its scores, or the reason for its failure.
    pub outcome: Result<Scores, String>,
}

/// A line. It has either scores or a failure.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    key: String,
    scores: Option<Scores>,
    failure: Option<String>,
}

impl Finished {
    /// Formats the line without its newline.
    pub fn to_line(&self) -> Result<String> {
        let line =
            Line { key: self.key.clone(), scores: self.outcome.clone().ok(), failure: self.outcome.clone().err() };
        Ok(serde_json::to_string(&line)?)
    }

    /// Parses a line. None if it is not valid.
    pub fn from_line(line: &str) -> Option<Self> {
        let Line { key, scores, failure } = serde_json::from_str(line).ok()?;
        let outcome = match (scores, failure) {
            (Some(scores), None) => Ok(scores),
            (None, Some(failure)) => Err(failure),
            _ => return None,
        };
        Some(Self { key, outcome })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_survive_a_round_trip_and_others_are_ignored() {
        let failed = Finished { key: "a".to_owned(), outcome: Err("why".to_owned()) };
        let read = Finished::from_line(&failed.to_line().unwrap()).unwrap();
        assert_eq!((read.key, read.outcome.unwrap_err()), ("a".to_owned(), "why".to_owned()));
        assert!(Finished::from_line("{\"key\": \"b").is_none());
        assert!(Finished::from_line("{\"key\": \"b\", \"scores\": null, \"failure\": null}").is_none());
    }
}
