//! File format of recordings: lines of JSON. A header comes first, then `[NUMBER, EVENT]` per event, and `[NUMBER,
//! "end"]` if it is complete. Numbers start at 0 without gaps, so a reader detects events that a full disk dropped.

use std::io::{BufRead, Read};

use super::error::{MAX_LINE_BYTES, RecordingError, VERSION};
use super::rows::{HeaderRow, Row, VersionRow};
use super::{Event, Header};

/// Maximum length of the first line, bytes.
const MAX_HEADER_BYTES: usize = 4 << 10;
/// Maximum length of a parser's message, characters.
const MAX_MESSAGE_CHARACTERS: usize = 160;

/// Way in which a recording ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It is complete.
    Whole,
    /// The writer stopped before the end, possibly within a line.
    CutOff,
    /// This number of events is missing here, because the writer was too slow.
    Gap(u64),
}

/// The first line of a recording, with its line break.
#[must_use]
pub fn header_line(header: &Header) -> String {
    line(&HeaderRow::from(header))
}

/// The line of event `number`, with its line break.
#[must_use]
pub fn event_line(number: u64, event: &Event) -> String {
    line(&(number, Row::from(event)))
}

/// The last line of a complete recording. Its number follows that of the last event.
#[must_use]
pub fn end_line(number: u64) -> String {
    line(&(number, Row::End))
}

fn line(row: &impl serde::Serialize) -> String {
    // JSON can represent every row: integers, strings and lists of them.
    serde_json::to_string(row).map(|text| text + "\n").unwrap_or_default()
}

/// Reader of a recording's events. It holds one line at a time.
#[derive(Debug)]
pub struct RecordingReader<R> {
    input: R,
    buffer: Vec<u8>,
    line: u64,
    next: u64,
    ending: Option<Ending>,
}

/// Result of reading a line.
enum LineRead {
    Whole,
    /// The input ends within the line.
    Part,
    Nothing,
}

impl<R: BufRead> RecordingReader<R> {
    /// Reads the header of a recording and returns a reader of its events.
    ///
    /// # Errors
    /// [`RecordingError`] if `input` is not a recording, or if no controller can be made from its header.
    pub fn new(input: R) -> Result<(Header, Self), RecordingError> {
        let mut reader = Self { input, buffer: Vec::new(), line: 0, next: 0, ending: None };
        let read = match reader.read_line(MAX_HEADER_BYTES) {
            Err(RecordingError::LongLine(_)) => return Err(RecordingError::NoRecording),
            read => read?,
        };
        let version: VersionRow = match read {
            LineRead::Nothing => return Err(RecordingError::NoRecording),
            LineRead::Whole | LineRead::Part => {
                serde_json::from_slice(&reader.buffer).map_err(|_| RecordingError::NoRecording)?
            }
        };
        if version.lockstep_decisions != VERSION {
            return Err(RecordingError::Version(version.lockstep_decisions));
        }
        let row: HeaderRow =
            serde_json::from_slice(&reader.buffer).map_err(|error| RecordingError::BadHeader(words(&error)))?;
        Ok((row.header()?, reader))
    }

    fn read_line(&mut self, longest: usize) -> Result<LineRead, RecordingError> {
        self.buffer.clear();
        self.line += 1;
        let read = self.input.by_ref().take(longest as u64 + 1).read_until(b'\n', &mut self.buffer)?;
        match self.buffer.last() {
            None => Ok(LineRead::Nothing),
            Some(b'\n') => Ok(LineRead::Whole),
            Some(_) if read > longest => Err(RecordingError::LongLine(self.line)),
            Some(_) => Ok(LineRead::Part),
        }
    }

    /// The next event; none at the end, which [`Self::ending`] describes.
    ///
    /// # Errors
    /// [`RecordingError`] if the next line does not match the format.
    pub fn next_event(&mut self) -> Result<Option<Event>, RecordingError> {
        if self.ending.is_some() {
            return Ok(None);
        }
        let read = self.read_line(MAX_LINE_BYTES)?;
        if !matches!(read, LineRead::Whole) {
            self.ending = Some(Ending::CutOff);
            return Ok(None);
        }
        let line = self.line;
        let (number, row): (u64, Row) = serde_json::from_slice(&self.buffer)
            .map_err(|error| RecordingError::BadLine { line, problem: words(&error) })?;
        if number < self.next {
            let problem = format!("event {number} comes after event {}", self.next.saturating_sub(1));
            return Err(RecordingError::BadLine { line, problem });
        }
        if number > self.next {
            self.ending = Some(Ending::Gap(number - self.next));
            return Ok(None);
        }
        let event = row.event().map_err(|value| RecordingError::Beyond { line, value })?;
        self.next = number.saturating_add(1);
        if event.is_none() {
            self.ending = Some(Ending::Whole);
            if !matches!(self.read_line(MAX_LINE_BYTES)?, LineRead::Nothing) {
                return Err(RecordingError::AfterEnd(self.line));
            }
        }
        Ok(event)
    }

    /// Number of events read so far, which is the number of the next one.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.next
    }

    /// Number of the last line read, from 1.
    #[must_use]
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Way in which the recording ends, once [`Self::next_event`] has returned none.
    #[must_use]
    pub fn ending(&self) -> Option<Ending> {
        self.ending
    }
}

/// A parser's message without its position, which refers to the line as a whole. Long messages are cut.
fn words(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let text = text.strip_suffix(&place).unwrap_or(&text);
    let mut message: String =
        text.chars().take(MAX_MESSAGE_CHARACTERS).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if message.len() < text.len() {
        message.push('…');
    }
    format!("{message} (column {})", error.column())
}
