//! What a session log says of a call: a row for each second, and the totals of all of them.
//!
//! These are what Concerto's measurement logged of calls (MobiCom 2019, section 2): the bit rates of codec and transport
//! beside what was sent, received and lost. The schema of the files is in `python/lockstep/sessions/schema.json`, and said
//! in words in `docs/sessions.md`.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockstep_call::{Codec, FrameRecord, ReceivingEnd, SendingEnd};
use lockstep_units::{Bitrate, Timestamp};

use crate::frame_log::{CallObserver, LoggedFrame};
use crate::freezes::FreezeDetector;
use crate::series::Series;

/// What a row covers.
const SECOND: Duration = Duration::from_secs(1);
/// The most rows that wait to be taken, a day's. Whoever takes none keeps the newest.
const MOST_SECONDS: usize = 86_400;

/// What an end that sends has counted since its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SentCounts {
    /// Datagrams of fragments and sound.
    pub packets: u64,
    /// Those of fragments that had been sent before.
    pub retransmitted: u64,
    /// Bytes of all of them.
    pub bytes: u64,
    /// Datagrams declared lost that have not come after all, as the other end's acknowledgements tell.
    pub lost: u64,
    /// Acknowledgements that came.
    pub acknowledgements: u64,
    /// Smoothed round-trip time.
    pub round_trip_time: Option<Duration>,
}

impl SentCounts {
    /// Those of `end`.
    #[must_use]
    pub fn of<C: Codec>(end: &SendingEnd<C>, now: Timestamp) -> Self {
        let counted = end.statistics();
        Self {
            packets: counted.fragments + counted.sounds,
            retransmitted: counted.retransmitted,
            bytes: counted.bytes,
            lost: counted.fragments_lost.saturating_sub(counted.spurious),
            acknowledgements: counted.acknowledgements,
            round_trip_time: end.status(now).round_trip_time,
        }
    }
}

/// What an end that receives has counted since its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReceivedCounts {
    /// Datagrams of fragments and sound that came.
    pub packets: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Datagrams that have not come though later ones have.
    pub missing: u64,
    /// Interarrival jitter (RFC 3550, section 6.4.1).
    pub jitter: Duration,
}

impl ReceivedCounts {
    /// Those of `end`.
    #[must_use]
    pub fn of<C: Codec>(end: &ReceivingEnd<C>) -> Self {
        let counted = end.statistics();
        Self {
            packets: counted.fragments + counted.sounds,
            bytes: counted.bytes,
            missing: end.missing(),
            jitter: end.jitter(),
        }
    }
}

/// A row of a session log: a whole second. What the end that logs does not know is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SessionSecond {
    /// Bits of the transport's datagrams that were sent.
    pub sent_bps: Option<u64>,
    /// Those that were received.
    pub received_bps: Option<u64>,
    /// Datagrams that were sent.
    pub packets_sent: Option<u64>,
    /// Datagrams that were received.
    pub packets_received: Option<u64>,
    /// Datagrams that were found to be lost: of those sent, where the end sends.
    pub packets_lost: Option<u64>,
    /// Smoothed round-trip time at the end of the second, microseconds; none where nothing was acknowledged in it.
    pub rtt_us: Option<u64>,
    /// Interarrival jitter at the end of the second, microseconds; none where nothing came in it.
    pub jitter_us: Option<u64>,
    /// Mean time from capture to display of the pictures that were shown, microseconds.
    pub delay_us: Option<u64>,
    /// Bits of the frames that the encoder made and the transport took.
    pub codec_bps: Option<u64>,
    /// The rate that the encoder coded for, mean over the pictures captured.
    pub codec_target_bps: Option<u64>,
    /// The controller's target, mean over the pictures captured.
    pub transport_bps: Option<u64>,
    /// What the controller took the path to carry, mean over the pictures captured.
    pub estimate_bps: Option<u64>,
    /// What the link could have carried, where that is known.
    pub capacity_bps: Option<u64>,
    /// Pictures captured.
    pub frames_captured: Option<u64>,
    /// Pictures of those captured that were sent.
    pub frames_sent: Option<u64>,
    /// Pictures shown.
    pub frames_shown: Option<u64>,
    /// Freezes ([`FreezeDetector`]) that ended.
    pub stalls: Option<u64>,
    /// All of their time, milliseconds, also what of it was in the seconds before.
    pub stall_ms: Option<u64>,
    /// How often the rate that the encoder coded for changed from one picture to the next.
    pub codec_updates: Option<u64>,
    /// How often the controller's target did.
    pub transport_updates: Option<u64>,
}

/// How a column is had from a row.
pub type SecondColumn = fn(&SessionSecond) -> Option<u64>;

/// The columns of the rows of seconds by name, in their order.
pub const SECOND_COLUMNS: [(&str, SecondColumn); 20] = [
    ("sent_bps", |row| row.sent_bps),
    ("received_bps", |row| row.received_bps),
    ("packets_sent", |row| row.packets_sent),
    ("packets_received", |row| row.packets_received),
    ("packets_lost", |row| row.packets_lost),
    ("rtt_us", |row| row.rtt_us),
    ("jitter_us", |row| row.jitter_us),
    ("delay_us", |row| row.delay_us),
    ("codec_bps", |row| row.codec_bps),
    ("codec_target_bps", |row| row.codec_target_bps),
    ("transport_bps", |row| row.transport_bps),
    ("estimate_bps", |row| row.estimate_bps),
    ("capacity_bps", |row| row.capacity_bps),
    ("frames_captured", |row| row.frames_captured),
    ("frames_sent", |row| row.frames_sent),
    ("frames_shown", |row| row.frames_shown),
    ("stalls", |row| row.stalls),
    ("stall_ms", |row| row.stall_ms),
    ("codec_updates", |row| row.codec_updates),
    ("transport_updates", |row| row.transport_updates),
];

/// Sum and count of what is there, for a mean.
#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    sum: u128,
    count: u64,
}

impl Mean {
    fn add(&mut self, value: Option<u64>) {
        if let Some(value) = value {
            self.sum += u128::from(value);
            self.count += 1;
        }
    }

    fn get(self) -> Option<u64> {
        (self.count > 0).then(|| u64::try_from(self.sum / u128::from(self.count)).unwrap_or(u64::MAX))
    }
}

/// A second that is not over.
#[derive(Debug, Clone, Copy, Default)]
struct OpenSecond {
    /// What is known of it already.
    row: SessionSecond,
    codec_bits: u64,
    codec_target: Mean,
    transport: Mean,
    estimate: Mean,
    delay: Mean,
}

impl OpenSecond {
    fn closed(self, sends: bool, receives: bool) -> SessionSecond {
        let there = |known: bool, count: Option<u64>| known.then(|| count.unwrap_or(0));
        SessionSecond {
            codec_bps: sends.then_some(self.codec_bits),
            codec_target_bps: self.codec_target.get(),
            transport_bps: self.transport.get(),
            estimate_bps: self.estimate.get(),
            delay_us: self.delay.get(),
            frames_captured: there(sends, self.row.frames_captured),
            frames_sent: there(sends, self.row.frames_sent),
            codec_updates: there(sends, self.row.codec_updates),
            transport_updates: there(sends, self.row.transport_updates),
            frames_shown: there(receives, self.row.frames_shown),
            stalls: there(receives, self.row.stalls),
            stall_ms: there(receives, self.row.stall_ms),
            ..self.row
        }
    }
}

fn add(count: &mut Option<u64>, more: u64) {
    *count = Some(count.unwrap_or(0).saturating_add(more));
}

/// What an end had counted when it was last looked at, and how many whole seconds of it are in rows.
#[derive(Debug, Clone, Copy)]
struct Side<Counts> {
    at: Timestamp,
    counts: Counts,
    seconds: u64,
}

impl<Counts: Copy> Side<Counts> {
    /// Looks at an end in whose call `until` seconds are over. Says what it had counted before and which seconds ended since
    /// then; nothing if none did, or if it was not looked at before.
    fn look(side: &mut Option<Self>, now: Timestamp, counts: Counts, until: u64) -> Option<(Counts, Parts)> {
        let before = *side.get_or_insert(Self { at: now, counts, seconds: until });
        let parts = Parts { seconds: before.seconds, until, elapsed: now.saturating_since(before.at) };
        (parts.count() > 0).then(|| {
            *side = Some(Self { at: now, counts, seconds: until });
            (before.counts, parts)
        })
    }
}

/// Makes the rows of a call from its ends and its pictures. It is told in any order what was when, on one clock.
#[derive(Debug, Clone)]
pub struct SessionMeter {
    start: Timestamp,
    /// Number of the first of `seconds`.
    first: u64,
    seconds: VecDeque<OpenSecond>,
    sender: Option<Side<SentCounts>>,
    receiver: Option<Side<ReceivedCounts>>,
    freezes: Option<FreezeDetector>,
    /// The last targets of transport and codec.
    targets: (Option<Bitrate>, Option<Bitrate>),
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl SessionMeter {
    /// Of a call that begins at `start`: what was before is in no row.
    #[must_use]
    pub fn new(start: Timestamp) -> Self {
        let (seconds, targets) = (VecDeque::new(), (None, None));
        Self { start, first: 0, seconds, sender: None, receiver: None, freezes: None, targets }
    }

    /// The second in which `at` is; none before the start and where its row was taken.
    fn second(&mut self, at: Timestamp) -> Option<&mut OpenSecond> {
        let since = at.as_nanos().checked_sub(self.start.as_nanos())?;
        self.number(since / SECOND.as_nanos() as u64)
    }

    fn number(&mut self, number: u64) -> Option<&mut OpenSecond> {
        let mut index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        if index >= MOST_SECONDS {
            // Nobody has taken a row for a day.
            let over = index + 1 - MOST_SECONDS;
            self.seconds.drain(..over.min(self.seconds.len()));
            self.first += over as u64;
            index -= over;
        }
        if index >= self.seconds.len() {
            self.seconds.resize(index + 1, OpenSecond::default());
        }
        self.seconds.get_mut(index)
    }

    /// Whole seconds since the start.
    fn whole(&self, now: Timestamp) -> u64 {
        now.saturating_since(self.start).as_secs()
    }

    /// The end that sends is at this. It should hear so a few times a second: what is counted between two moments is put in
    /// the seconds that ended between them, in equal parts.
    pub fn sending<C: Codec>(&mut self, now: Timestamp, end: &SendingEnd<C>) {
        self.sent(now, SentCounts::of(end, now));
    }

    /// The same of what it has counted.
    pub fn sent(&mut self, now: Timestamp, counts: SentCounts) {
        let whole = self.whole(now);
        let Some((before, parts)) = Side::look(&mut self.sender, now, counts, whole) else { return };
        let acknowledged = counts.acknowledgements > before.acknowledgements;
        let rtt = counts.round_trip_time.filter(|_| acknowledged).map(micros);
        for number in parts.seconds..parts.until {
            let bits = parts.rate(counts.bytes.saturating_sub(before.bytes));
            let packets = parts.share(counts.packets.saturating_sub(before.packets), number);
            let lost = parts.share(counts.lost.saturating_sub(before.lost), number);
            if let Some(second) = self.number(number) {
                let row = &mut second.row;
                (row.sent_bps, row.packets_sent, row.packets_lost, row.rtt_us) =
                    (Some(bits), Some(packets), Some(lost), rtt);
            }
        }
    }

    /// The end that receives is at this. It should hear so a few times a second.
    pub fn receiving<C: Codec>(&mut self, now: Timestamp, end: &ReceivingEnd<C>) {
        if let Some(format) = end.format() {
            self.freezes.get_or_insert_with(|| FreezeDetector::new(format.frame_interval()));
        }
        self.received(now, ReceivedCounts::of(end));
    }

    /// The same of what it has counted.
    pub fn received(&mut self, now: Timestamp, counts: ReceivedCounts) {
        let whole = self.whole(now);
        let Some((before, parts)) = Side::look(&mut self.receiver, now, counts, whole) else { return };
        let sends = self.sender.is_some();
        let jitter = (counts.packets > before.packets).then(|| micros(counts.jitter));
        for number in parts.seconds..parts.until {
            let bits = parts.rate(counts.bytes.saturating_sub(before.bytes));
            let packets = parts.share(counts.packets.saturating_sub(before.packets), number);
            let missing = parts.share(counts.missing.saturating_sub(before.missing), number);
            if let Some(second) = self.number(number) {
                let row = &mut second.row;
                (row.received_bps, row.packets_received, row.jitter_us) = (Some(bits), Some(packets), jitter);
                if !sends {
                    row.packets_lost = Some(missing);
                }
            }
        }
    }

    /// All that the end that sends knows of a picture. Pictures come in the order of capture.
    pub fn captured(&mut self, record: &FrameRecord) {
        let (transport, codec) = self.targets;
        let changed = |before: Option<Bitrate>, now: Option<Bitrate>| before.zip(now).is_some_and(|(a, b)| a != b);
        self.targets = (record.target.or(transport), record.codec_target.or(codec));
        if let Some(second) = self.second(record.captured_at) {
            add(&mut second.row.frames_captured, 1);
            second.transport.add(record.target.map(Bitrate::as_bps));
            second.estimate.add(record.estimate.map(Bitrate::as_bps));
            second.codec_target.add(record.codec_target.map(Bitrate::as_bps));
            add(&mut second.row.transport_updates, u64::from(changed(transport, record.target)));
            add(&mut second.row.codec_updates, u64::from(changed(codec, record.codec_target)));
        }
        let sent = record.sent_at.zip(record.size).filter(|_| record.frame.is_some());
        if let Some((second, size)) = sent.and_then(|(at, size)| Some((self.second(at)?, size))) {
            second.codec_bits = second.codec_bits.saturating_add(8 * size.get());
            add(&mut second.row.frames_sent, 1);
        }
    }

    /// A picture is shown at `at`, so long after its capture, where that is known. Pictures come in the order in which they
    /// are shown.
    pub fn shown(&mut self, at: Timestamp, delay: Option<Duration>) {
        let frozen = self.freezes.as_mut().and_then(|freezes| freezes.shown(at)).filter(|shown| shown.frozen);
        if let Some(second) = self.second(at) {
            add(&mut second.row.frames_shown, 1);
            second.delay.add(delay.map(micros));
            if let Some(freeze) = frozen {
                add(&mut second.row.stalls, 1);
                add(&mut second.row.stall_ms, micros(freeze.length) / 1_000);
            }
        }
    }

    /// What the link could have carried, as the series of the call has it.
    pub fn carried(&mut self, series: &Series) {
        let interval = Duration::from_millis(series.interval_ms.max(1));
        let points = (SECOND.as_nanos() / interval.as_nanos()).max(1) as usize;
        for index in 0..self.seconds.len() {
            let from = usize::try_from((self.first + index as u64) * 1_000 / series.interval_ms.max(1));
            let rates = from.ok().and_then(|from| series.capacity_bps.get(from..from + points));
            if let Some(rates) = rates {
                self.seconds[index].row.capacity_bps = Some(rates.iter().sum::<u64>() / points as u64);
            }
        }
    }

    /// Takes the rows of the seconds before `until`, of which nothing more may come, with the number of the first. Seconds that
    /// an end was not looked at in are as if nothing had been sent or received in them.
    pub fn take(&mut self, until: u64) -> (u64, Vec<SessionSecond>) {
        let (sends, receives) = (self.sender.is_some(), self.receiver.is_some());
        let first = self.first;
        let count = usize::try_from(until.saturating_sub(first)).unwrap_or(usize::MAX).min(self.seconds.len());
        self.first += count as u64;
        (first, self.seconds.drain(..count).map(|second| second.closed(sends, receives)).collect())
    }

    /// How many whole seconds both ends, as far as there are two, were looked at.
    #[must_use]
    pub fn seconds(&self) -> u64 {
        let sent = self.sender.map(|side| side.seconds);
        let received = self.receiver.map(|side| side.seconds);
        sent.into_iter().chain(received).min().unwrap_or(0)
    }
}

/// The whole seconds that ended between two looks at an end.
#[derive(Debug, Clone, Copy)]
struct Parts {
    seconds: u64,
    until: u64,
    elapsed: Duration,
}

impl Parts {
    fn count(&self) -> u64 {
        self.until.saturating_sub(self.seconds)
    }

    /// `bytes` of all the time between as bits a second.
    fn rate(&self, bytes: u64) -> u64 {
        (8.0 * bytes as f64 / self.elapsed.as_secs_f64().max(1e-3)).round() as u64
    }

    /// The part of `count` that is the second `number`'s: all parts together are all of it.
    fn share(&self, count: u64, number: u64) -> u64 {
        let parts = self.count().max(1);
        count / parts + u64::from(number - self.seconds < count % parts)
    }
}

/// A meter that several hear of: the driver that has the ends, and the log that has the frames.
#[derive(Debug, Clone)]
pub struct SharedSessionMeter(Arc<Mutex<SessionMeter>>);

impl SharedSessionMeter {
    /// A meter of a call that begins at `start`.
    #[must_use]
    pub fn new(start: Timestamp) -> Self {
        Self(Arc::new(Mutex::new(SessionMeter::new(start))))
    }

    /// The meter.
    pub fn lock(&self) -> MutexGuard<'_, SessionMeter> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CallObserver for SharedSessionMeter {
    fn frame(&mut self, frame: &LoggedFrame) {
        let mut meter = self.lock();
        let record = &frame.record;
        meter.captured(record);
        if let Some(at) = record.displayed_at {
            meter.shown(at, Some(at.saturating_since(record.captured_at)));
        }
    }
}

/// What the rows of a session come to: its one row.
#[derive(Debug, Clone, Copy, Default)]
pub struct SessionTotals {
    seconds: u64,
    sums: [Mean; SECOND_COLUMNS.len()],
}

/// How a column of the row of a session is made of a column of its seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Total {
    /// Of all that are there.
    Sum,
    /// Of all that are there.
    Mean,
}

/// The columns of the row of a session that come of its seconds, in their order.
pub const TOTAL_COLUMNS: [(&str, Total); 16] = [
    ("sent_bps", Total::Mean),
    ("received_bps", Total::Mean),
    ("packets_sent", Total::Sum),
    ("packets_received", Total::Sum),
    ("packets_lost", Total::Sum),
    ("rtt_us", Total::Mean),
    ("jitter_us", Total::Mean),
    ("delay_us", Total::Mean),
    ("codec_bps", Total::Mean),
    ("transport_bps", Total::Mean),
    ("capacity_bps", Total::Mean),
    ("frames_shown", Total::Sum),
    ("stalls", Total::Sum),
    ("stall_ms", Total::Sum),
    ("codec_updates", Total::Sum),
    ("transport_updates", Total::Sum),
];

impl SessionTotals {
    /// Another second.
    pub fn add(&mut self, row: &SessionSecond) {
        self.seconds += 1;
        for (sum, (_, column)) in self.sums.iter_mut().zip(&SECOND_COLUMNS) {
            sum.add(column(row));
        }
    }

    /// Seconds so far.
    #[must_use]
    pub fn seconds(&self) -> u64 {
        self.seconds
    }

    /// The column called `name`, if there is one and any second had it.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<u64> {
        let &(_, total) = TOTAL_COLUMNS.iter().find(|(column, _)| *column == name)?;
        let index = SECOND_COLUMNS.iter().position(|(column, _)| *column == name)?;
        let sum = self.sums[index];
        match total {
            Total::Mean => sum.get(),
            Total::Sum => (sum.count > 0).then(|| u64::try_from(sum.sum).unwrap_or(u64::MAX)),
        }
    }
}

#[cfg(test)]
mod tests;
