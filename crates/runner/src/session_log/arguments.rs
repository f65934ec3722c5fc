//! Arguments for session logs.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use md5::{Digest, Md5};

use super::rows::Description;
use super::{Files, SessionLog};

/// Kinds of access networks.
pub const ACCESS: [&str; 9] = ["wired", "wifi", "2g", "3g", "4g", "lte", "5g", "satellite", "other"];
/// Maximum number of labels. Their names and values have at most [`MAX_LABEL_BYTES`] bytes.
const MAX_LABELS: usize = 64;
const MAX_LABEL_BYTES: usize = 256;
const DAY_SECONDS: u32 = 86_400;

/// Folder and labels of a session log.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Outputs")]
pub struct SessionArguments {
    /// Write a session log to this folder, as Parquet: one row per second in its folder `seconds`, and one row in
    /// `sessions`. `lockstep sessions report DIR` reads them.
    #[arg(long = "session-log", value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Label of the session: `place=NAME`, `access=wired` (or wifi, 2g, 3g, 4g, lte, 5g, satellite, other), or
    /// `hour=21:30` for the local time of its start. Other names are stored unchanged. May be repeated.
    #[arg(long = "session-label", value_name = "NAME=VALUE", value_parser = label, requires = "folder")]
    labels: Vec<(String, String)>,
    /// Number of the session, if another end logs the same session.
    #[arg(long = "session-number", value_name = "NUMBER", hide = true, requires = "folder")]
    number: Option<i64>,
}

fn label(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("`{text}` is not like place=Ulm"))?;
    let (name, value) = (name.trim(), value.trim());
    if name.is_empty() || name.len() > MAX_LABEL_BYTES || value.len() > MAX_LABEL_BYTES {
        return Err(format!(
            "a label's name and value have at most {MAX_LABEL_BYTES} bytes, and the name at least one"
        ));
    }
    match name {
        "access" if !ACCESS.contains(&value) => Err(format!("access: `{value}` is none of {}", ACCESS.join(", "))),
        "hour" => local_time(value).map(|_| (name.to_owned(), value.to_owned())),
        _ => Ok((name.to_owned(), value.to_owned())),
    }
}

/// Parses a local time such as `21`, `21:30` or `21:30:15` into seconds since midnight.
pub fn local_time(text: &str) -> Result<u32, String> {
    let wrong = || format!("hour: expected a time of day such as 21 or 21:30, found `{text}`");
    let mut seconds = 0;
    let mut parts = text.split(':');
    for (unit, most) in [(3_600, 23), (60, 59), (1, 59)] {
        let Some(part) = parts.next() else { break };
        let digits = !part.is_empty() && part.len() <= 2 && part.bytes().all(|byte| byte.is_ascii_digit());
        let value: u32 = part.parse().ok().filter(|&value| digits && value <= most).ok_or_else(wrong)?;
        seconds += unit * value;
    }
    if parts.next().is_some() || seconds >= DAY_SECONDS { Err(wrong()) } else { Ok(seconds) }
}

impl SessionArguments {
    /// Opens the log of a session of `kind`, as `seen_from` one end, with the labels.
    ///
    /// The number of the session derives from its `name`, or is drawn at random.
    pub fn open(&self, kind: &str, seen_from: &'static str, name: Option<&str>) -> Result<Option<SessionLog>> {
        let Some(folder) = &self.folder else { return Ok(None) };
        let session = self.number.unwrap_or_else(|| name.map_or_else(drawn, |name| self.number_of(name)));
        let mut description = Description { session, kind: kind.to_owned(), seen_from, ..Description::default() };
        describe(&mut description, &self.labels)?;
        let opened = SessionLog::create(folder, description);
        opened.map(Some).with_context(|| format!("--session-log {}", folder.display()))
    }

    /// Whether a log is requested.
    pub fn is_given(&self) -> bool {
        self.folder.is_some()
    }

    /// Whether the log of [`open`](Self::open) already exists; true if none is requested.
    pub fn exists(&self, kind: &str, seen_from: &str, name: &str) -> bool {
        let Some(folder) = &self.folder else { return true };
        let session = self.number.unwrap_or_else(|| self.number_of(name));
        Files::of_session(folder, kind, session, seen_from).sessions().is_file()
    }

    /// Number of the session of the call `name`, which depends on the labels.
    fn number_of(&self, name: &str) -> i64 {
        let labels = self.labels.iter().flat_map(|(name, value)| [name.as_str(), value.as_str()]);
        numbered(&[name].into_iter().chain(labels).collect::<Vec<_>>())
    }

    /// Arguments for another process that logs another end of the same session.
    pub fn words(&self, number: i64) -> Vec<String> {
        let Some(folder) = &self.folder else { return Vec::new() };
        let mut words = vec!["--session-log".to_owned(), folder.to_string_lossy().into_owned()];
        words.extend(["--session-number".to_owned(), number.to_string()]);
        for (name, value) in &self.labels {
            words.extend(["--session-label".to_owned(), format!("{name}={value}")]);
        }
        words
    }
}

/// 63-bit hash of `words`.
pub fn numbered(words: &[&str]) -> i64 {
    let mut hash = Md5::new();
    for word in words {
        hash.update((word.len() as u64).to_le_bytes());
        hash.update(word);
    }
    let bytes: [u8; 16] = hash.finalize().into();
    let half = bytes[..8].iter().fold(0u64, |number, &byte| number << 8 | u64::from(byte));
    (half >> 1) as i64
}

/// Random number of 63 bits.
pub fn drawn() -> i64 {
    (RandomState::new().build_hasher().finish() >> 1) as i64
}

/// Stores `labels` in `description`.
fn describe(description: &mut Description, labels: &[(String, String)]) -> Result<()> {
    if labels.len() > MAX_LABELS {
        bail!("--session-label: at most {MAX_LABELS} labels");
    }
    let mut seen = BTreeMap::new();
    for (name, value) in labels {
        if seen.insert(name, value).is_some() {
            bail!("--session-label: {name} is given twice");
        }
        match name.as_str() {
            "place" => description.place.clone_from(value),
            "access" => description.access.clone_from(value),
            "hour" => description.local_start_s = local_time(value).ok().map(|seconds| seconds as i32),
            _ => drop(description.labels.insert(name.clone(), value.clone())),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn arguments(labels: &[&str]) -> Result<SessionArguments, String> {
        let labels = labels.iter().map(|text| label(text)).collect::<Result<_, _>>()?;
        Ok(SessionArguments { folder: Some("x".into()), labels, number: None })
    }

    #[test]
    fn known_labels_are_parsed_and_others_are_kept() {
        let given = arguments(&["place=Ulm", "access=4g", "hour=21:30", "phone=a=b"]).unwrap();
        let mut said = Description::default();
        describe(&mut said, &given.labels).unwrap();
        assert_eq!((said.place.as_str(), said.access.as_str(), said.local_start_s), ("Ulm", "4g", Some(77_400)));
        assert_eq!(said.labels, [("phone".to_owned(), "a=b".to_owned())].into());
        let twice = arguments(&["place=Ulm", "place=Ulm"]).unwrap();
        assert!(describe(&mut said, &twice.labels).unwrap_err().to_string().contains("given twice"));
    }

    #[test]
    fn invalid_labels_are_refused() {
        for wrong in
            ["place", "=x", "access=carrier pigeon", "hour=24", "hour=21:60", "hour=", "hour=-1", "hour=1:2:3:4"]
        {
            assert!(label(wrong).is_err(), "{wrong}");
        }
        assert_eq!(["0", "09", "23:59:59"].map(|text| local_time(text).unwrap()), [0, 32_400, 86_399]);
    }

    proptest! {
        #[test]
        fn any_text_is_a_label_or_refused(text in "\\PC{0,40}", time in "[0-9:]{0,9}") {
            if let Ok((name, value)) = label(&text) {
                prop_assert!(!name.is_empty() && text.contains(&value));
            }
            if let Ok(seconds) = local_time(&time) {
                let parts = time.split(':').map(|part| part.parse::<u32>().unwrap());
                let sum: u32 = parts.zip([3_600, 60, 1]).map(|(part, unit)| part * unit).sum();
                prop_assert!(seconds < DAY_SECONDS && seconds == sum);
            }
        }
    }

    #[test]
    fn sessions_of_other_calls_or_labels_have_other_numbers() {
        let numbers = [arguments(&[]), arguments(&["place=Ulm"]), arguments(&["place=U", "lm="])]
            .map(|arguments| arguments.unwrap().number_of("call"));
        assert!(numbers.iter().all(|&number| number >= 0));
        assert!(numbers[0] != numbers[1] && numbers[1] != numbers[2] && numbers[0] != numbers[2]);
        assert_eq!(numbers[1], arguments(&["place=Ulm"]).unwrap().number_of("call"));
        assert_ne!(drawn(), drawn());
    }
}
