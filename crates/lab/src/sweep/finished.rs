//! A call of a sweep that is over, as a machine of a cluster reports it: one line of JSON.

use anyhow::Result;
use serde::{Deserialize, Serialize};

use lockstep_measure::Scores;

/// A call that is over, under the key of its job.
#[derive(Debug)]
pub struct Finished {
    pub key: String,
    /// Its scores, or why it failed.
    pub outcome: Result<Scores, String>,
}

/// Such a line. Exactly one of scores and failure is there.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    key: String,
    scores: Option<Scores>,
    failure: Option<String>,
}

impl Finished {
    /// As one line, without its end.
    pub fn to_line(&self) -> Result<String> {
        let line =
            Line { key: self.key.clone(), scores: self.outcome.clone().ok(), failure: self.outcome.clone().err() };
        Ok(serde_json::to_string(&line)?)
    }

    /// From such a line; none if it is none.
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
    fn a_line_says_what_came_of_a_call_and_nothing_else_is_one() {
        let failed = Finished { key: "a".to_owned(), outcome: Err("why".to_owned()) };
        let read = Finished::from_line(&failed.to_line().unwrap()).unwrap();
        assert_eq!((read.key, read.outcome.unwrap_err()), ("a".to_owned(), "why".to_owned()));
        assert!(Finished::from_line("{\"key\": \"b").is_none());
        assert!(Finished::from_line("{\"key\": \"b\", \"scores\": null, \"failure\": null}").is_none());
    }
}
