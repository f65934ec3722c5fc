//! Logs of the two ends of a live call, and their merge. Each entry is a line of JSON.
//!
//! Memory stays constant during the call. A killed end keeps its entries.
//!
//! Memory stays constant during the call. A killed end keeps its entries.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Lines};
use std::marker::PhantomData;
use std::path::Path;
use std::time::Duration;

use anyhow::{Error, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use lockstep_call::{DisplayRecord, FrameRecord, SoundScores};
use lockstep_measure::{CallLog, FrameObserver, VideoDelayFloor};
use lockstep_units::Timestamp;

use crate::line_writer::LineWriter;

/// Counters by name.
pub type Counters = BTreeMap<String, u64>;

/// An entry of the sender's log.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SenderEntry {
    /// First entry: start of the clock of all times in the log, since the Unix epoch.
    Start {
        /// Time since the Unix epoch.
        epoch: Timestamp,
    },
    /// A captured frame, in the order of capture, without the receiver's data.
    Frame(Box<FrameRecord>),
    /// A captured frame of a stream other than the first. A lower number means a more important stream.
    StreamFrame {
        /// The stream, from 1.
        stream: usize,
        /// The frame.
        frame: Box<FrameRecord>,
    },
    /// Last entry: counters of the transport.
    End {
        /// Counters by name.
        counters: Counters,
    },
}

/// An entry of the receiver's log.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReceiverEntry {
    /// First entry: start of the clock of all times in the log, since the Unix epoch.
    Start {
        /// Time since the Unix epoch.
        epoch: Timestamp,
    },
    /// A shown picture, in the order of display.
    Display(DisplayRecord),
    /// A shown picture of a stream other than the first.
    StreamDisplay {
        /// The stream, from 1.
        stream: usize,
        /// The picture.
        display: DisplayRecord,
    },
    /// Scores of the sound before the last entry, if there was sound.
    Sound(SoundScores),
    /// Last entry: counters of the transport and of the decoder.
    End {
        /// Counters of the transport by name.
        counters: Counters,
        /// Counters of the decoder by name.
        decoder: Counters,
    },
}

/// Log that is being written. A failure is reported at once and again at the end, and does not stop the call.
pub struct LogWriter {
    lines: LineWriter,
    failure: Option<serde_json::Error>,
}

impl LogWriter {
    /// Creates a log at `path`, or on standard output.
    pub fn create(path: &Path) -> Result<Self> {
        Ok(Self { lines: LineWriter::create(path)?, failure: None })
    }

    /// Adds an entry; never blocks.
    pub fn write(&mut self, entry: &impl Serialize) {
        match serde_json::to_vec(entry) {
            Ok(mut line) => {
                line.push(b'\n');
                self.lines.push(line);
            }
            Err(error) => self.failure = self.failure.take().or(Some(error)),
        }
    }

    /// Writes the remaining entries.
    pub fn finish(self) -> Result<()> {
        self.lines.finish()?;
        self.failure.map_or(Ok(()), |error| Err(error.into()))
    }
}

/// Entries of a log, until its end or the first invalid one.
struct LogReader<Entry> {
    lines: Option<Lines<BufReader<File>>>,
    of: &'static str,
    /// Reason for the early end of the entries.
    problem: Option<Error>,
    entry: PhantomData<Entry>,
}

impl<Entry> LogReader<Entry> {
    fn open(path: &Path, of: &'static str) -> Self {
        let (lines, problem) = match File::open(path) {
            Ok(file) => (Some(BufReader::new(file).lines()), None),
            Err(error) => (None, Some(Error::new(error).context(format!("the {of} left no log")))),
        };
        Self { lines, of, problem, entry: PhantomData }
    }
}

impl<Entry: DeserializeOwned> Iterator for LogReader<Entry> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        let line = self.lines.as_mut()?.next()?;
        match line.map_err(Error::from).and_then(|line| Ok(serde_json::from_str(&line)?)) {
            Ok(entry) => Some(entry),
            Err(error) => {
                self.lines = None;
                self.problem = Some(error.context(format!("the {}'s log is unreadable from there on", self.of)));
                None
            }
        }
    }
}

/// Capture times of pictures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Captures {
    /// Start of the sender's clock, since the Unix epoch.
    pub epoch: Timestamp,
    /// Capture of the first picture, if any.
    pub first: Option<Timestamp>,
    /// Capture of the last picture, if any.
    pub last: Option<Timestamp>,
}

impl Default for Captures {
    fn default() -> Self {
        Self { epoch: Timestamp::ZERO, first: None, last: None }
    }
}

impl Captures {
    /// Adds a picture captured at `at`.
    pub fn add(&mut self, at: Timestamp) {
        self.first.get_or_insert(at);
        self.last = Some(at);
    }

    /// Captures in the log of a sender, and the problem with that log, if any.
    pub fn of(sender: &Path) -> (Self, Option<Error>) {
        let mut captures = Self::default();
        let mut log = LogReader::open(sender, "sender");
        for entry in log.by_ref() {
            match entry {
                SenderEntry::Start { epoch } => captures.epoch = epoch,
                SenderEntry::Frame(record) => captures.add(record.captured_at),
                SenderEntry::StreamFrame { .. } | SenderEntry::End { .. } => {}
            }
        }
        (captures, log.problem)
    }
}

/// Counters of both ends: the sender's transport, the receiver's transport, and the decoder.
#[derive(Debug, Default)]
pub struct EndCounters {
    /// Counters of the sender's transport by name.
    pub sender: Counters,
    /// Counters of the receiver's transport by name.
    pub receiver: Counters,
    /// Counters of the decoder by name.
    pub decoder: Counters,
}

/// A call, merged from the logs of both ends.
pub struct Merged {
    /// Frames of both ends.
    pub log: CallLog,
    /// Counters of both ends.
    pub counters: EndCounters,
    /// Scores of its sound, if any.
    pub sound: Option<SoundScores>,
    /// Problem with the logs, if any.
    pub problem: Option<Error>,
}

/// Merges the logs of both ends into the log of the call, from `start` and scored for `length`.
///
/// Readable entries count. The call's clock is the sender's, which started at `epoch`. Video delays are compared with
/// `floor`, if known.
///
/// Readable entries count. The call's clock is the sender's, which started at `epoch`. Video delays are compared with
/// `floor`, if known.
pub fn merge(
    sender: &Path,
    receiver: &Path,
    (start, length, frame_interval): (Timestamp, Duration, Duration),
    epoch: Timestamp,
    floor: Option<VideoDelayFloor>,
    observer: Option<Box<dyn FrameObserver>>,
) -> Merged {
    let mut log = CallLog::new(start, length, frame_interval);
    if let Some(floor) = floor {
        log.compare_with(floor);
    }
    if let Some(observer) = observer {
        log.observe(observer);
    }
    let mut counted = EndCounters::default();
    let mut sent = LogReader::open(sender, "sender");
    let mut received = LogReader::open(receiver, "receiver");
    let mut receiver_epoch = Timestamp::ZERO;
    let mut sound = None;
    let mut next_display = |received: &mut LogReader<ReceiverEntry>| loop {
        match received.next()? {
            ReceiverEntry::Start { epoch } => receiver_epoch = epoch,
            ReceiverEntry::Display(display) => {
                let at = |at: Timestamp| {
                    let since_epoch = receiver_epoch + at.saturating_since(Timestamp::ZERO);
                    Timestamp::ZERO + since_epoch.saturating_since(epoch)
                };
                let (completed_at, displayed_at) = (at(display.completed_at), at(display.displayed_at));
                return Some(DisplayRecord { completed_at, displayed_at, ..display });
            }
            ReceiverEntry::StreamDisplay { .. } => {}
            ReceiverEntry::Sound(scores) => sound = Some(scores),
            ReceiverEntry::End { counters, decoder } => (counted.receiver, counted.decoder) = (counters, decoder),
        }
    };
    let mut display = next_display(&mut received);
    for entry in sent.by_ref() {
        let record = match entry {
            SenderEntry::Frame(record) => record,
            SenderEntry::Start { .. } | SenderEntry::StreamFrame { .. } => continue,
            SenderEntry::End { counters } => {
                counted.sender = counters;
                continue;
            }
        };
        let frame = record.frame;
        log.decided(*record);
        // Frames are shown in the order of sending, so all earlier displays have been merged.
        while let Some(shown) = display.filter(|display| frame.is_some_and(|frame| display.frame <= frame)) {
            log.shown(&shown, None);
            display = next_display(&mut received);
        }
    }
    while display.is_some() {
        display = next_display(&mut received);
    }
    Merged { log, counters: counted, sound, problem: sent.problem.or(received.problem) }
}

#[cfg(test)]
mod tests {
    use lockstep_call::Outcome;
    use lockstep_measure::KeptFrames;

    use super::*;

    fn at(milliseconds: u64) -> Timestamp {
        Timestamp::from_millis(milliseconds)
    }

    #[test]
    fn merged_log_has_the_data_of_both_ends() {
        let folder = tempfile::tempdir().unwrap();
        let (sender, receiver) = (folder.path().join("send"), folder.path().join("receive"));
        let mut log = LogWriter::create(&sender).unwrap();
        log.write(&SenderEntry::Start { epoch: at(80_000) });
        for (capture, frame) in [(0, Some(0)), (1, None), (2, Some(1)), (3, Some(2)), (4, None)] {
            let outcome = if frame.is_some() { Outcome::Sent } else { Outcome::SkippedOverBudget };
            let record = FrameRecord { frame, outcome, ..FrameRecord::captured(capture, at(1_000 + 100 * capture)) };
            log.write(&SenderEntry::Frame(Box::new(record)));
        }
        log.write(&SenderEntry::End { counters: [("frames".to_owned(), 3)].into() });
        log.finish().unwrap();
        let mut log = LogWriter::create(&receiver).unwrap();
        // The receiver started 5 s before the sender.
        log.write(&ReceiverEntry::Start { epoch: at(75_000) });
        for (frame, shown) in [(0, 6_050), (2, 6_390)] {
            log.write(&ReceiverEntry::Display(DisplayRecord {
                frame,
                completed_at: at(shown),
                displayed_at: at(shown),
            }));
        }
        log.write(&ReceiverEntry::End { counters: Counters::new(), decoder: [("decoded".to_owned(), 2)].into() });
        log.finish().unwrap();

        let (captures, unread) = Captures::of(&sender);
        assert!(unread.is_none());
        assert_eq!(captures, Captures { epoch: at(80_000), first: Some(at(1_000)), last: Some(at(1_400)) });
        let kept = KeptFrames::default();
        let times = (at(1_000), Duration::from_secs(1), Duration::from_millis(100));
        let Merged { log, counters: counted, problem, .. } =
            merge(&sender, &receiver, times, captures.epoch, None, Some(Box::new(kept.clone())));
        assert!(problem.is_none());
        assert_eq!((counted.sender["frames"], counted.decoder["decoded"]), (3, 2));
        assert_eq!(log.held_records(), 1, "nothing was shown after the last capture");
        let frames = kept.take();
        let delays: Vec<u128> = frames.iter().map(|frame| frame.video_delay.as_millis()).collect();
        assert_eq!(delays, [50, 290, 190, 90]);
        let shown: Vec<Option<Timestamp>> = frames.iter().map(|frame| frame.record.displayed_at).collect();
        assert_eq!(shown, [Some(at(1_050)), None, None, Some(at(1_390))]);
    }

    #[test]
    fn log_of_a_killed_end_counts_and_its_problem_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let (sender, receiver) = (folder.path().join("send"), folder.path().join("receive"));
        let mut log = LogWriter::create(&sender).unwrap();
        log.write(&SenderEntry::Frame(Box::new(FrameRecord::captured(0, at(1_000)))));
        log.finish().unwrap();
        let whole = std::fs::read_to_string(&sender).unwrap();
        std::fs::write(&sender, format!("{whole}{}", &whole[..40])).unwrap();
        let (captures, unread) = Captures::of(&sender);
        assert_eq!(captures.last, Some(at(1_000)));
        assert!(unread.unwrap().to_string().contains("the sender's log is unreadable"));
        let times = (at(1_000), Duration::from_secs(1), Duration::from_millis(100));
        let merged = merge(&folder.path().join("none"), &receiver, times, Timestamp::ZERO, None, None);
        assert!(merged.problem.unwrap().to_string().contains("the sender left no log"));
        assert_eq!(merge(&sender, &receiver, times, Timestamp::ZERO, None, None).log.held_records(), 1);
    }
}
