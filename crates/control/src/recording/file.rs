//! A recording as lines of JSON: a header, then `[NUMBER, EVENT]` for each event, and `[NUMBER, "end"]` when it is
//! whole. The numbers begin at 0 and leave none out, so that a reader knows when a full disk swallowed some.

use std::io::{BufRead, Read};

use super::error::{LONGEST_LINE, RecordingError, VERSION};
use super::rows::{HeaderRow, Row, VersionRow};
use super::{Event, Header};

/// The most bytes of the first line.
const LONGEST_HEADER: usize = 4 << 10;
/// Of what the parser says of a line, characters that are told.
const LONGEST_WORDS: usize = 160;

/// How a recording ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// With everything that was recorded.
    Whole,
    /// Whoever wrote it was stopped before its end, perhaps in the midst of a line.
    CutOff,
    /// So many events are missing then: what was written took them too slowly.
    Gap(u64),
}

/// The first line of a recording, with its line break.
#[must_use]
pub fn header_line(header: &Header) -> String {
    line(&HeaderRow::from(header))
}

/// The line of the event of that number, with its line break.
#[must_use]
pub fn event_line(number: u64, event: &Event) -> String {
    line(&(number, Row::from(event)))
}

/// The line at the end of a recording that is whole, which has the number after that of the last event.
#[must_use]
pub fn end_line(number: u64) -> String {
    line(&(number, Row::End))
}

fn line(row: &impl serde::Serialize) -> String {
    // Whole numbers, words and lists of them: there is nothing in a row that JSON has no words for.
    serde_json::to_string(row).map(|text| text + "\n").unwrap_or_default()
}

/// The events of a recording, one by one. It holds a line of it at a time.
#[derive(Debug)]
pub struct RecordingReader<R> {
    input: R,
    buffer: Vec<u8>,
    line: u64,
    next: u64,
    ending: Option<Ending>,
}

/// What was read of a line.
enum LineRead {
    Whole,
    /// The input ends before it does.
    Part,
    Nothing,
}

impl<R: BufRead> RecordingReader<R> {
    /// Reads the header of a recording, and then its events.
    ///
    /// # Errors
    /// If `input` is no recording, or one of which no controller can be made.
    pub fn new(input: R) -> Result<(Header, Self), RecordingError> {
        let mut reader = Self { input, buffer: Vec::new(), line: 0, next: 0, ending: None };
        let read = match reader.read_line(LONGEST_HEADER) {
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

    /// The next event; none when there are no more, of which [`Self::ending`] says why.
    ///
    /// # Errors
    /// If the next line is not as the format has it.
    pub fn next_event(&mut self) -> Result<Option<Event>, RecordingError> {
        if self.ending.is_some() {
            return Ok(None);
        }
        let read = self.read_line(LONGEST_LINE)?;
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
            if !matches!(self.read_line(LONGEST_LINE)?, LineRead::Nothing) {
                return Err(RecordingError::AfterEnd(self.line));
            }
        }
        Ok(event)
    }

    /// How many events were read: the number of the next.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.next
    }

    /// The line that was read last, from 1.
    #[must_use]
    pub fn line(&self) -> u64 {
        self.line
    }

    /// How the recording ends, once [`Self::next_event`] has given none.
    #[must_use]
    pub fn ending(&self) -> Option<Ending> {
        self.ending
    }
}

/// What the parser says of a line, without its place in it, which is another's; of foreign words in it the beginning.
fn words(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let text = text.strip_suffix(&place).unwrap_or(&text);
    let mut told: String = text.chars().take(LONGEST_WORDS).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if told.len() < text.len() {
        told.push('…');
    }
    format!("{told} (column {})", error.column())
}
