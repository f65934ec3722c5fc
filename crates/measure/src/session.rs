//! Rows of a session log: one per second of a call, and the totals.
//!
//! ```text
//! counters of both ends --+
//!                         +--> SessionMeter --> SessionSecond --> SessionTotals
//! frames, displays -------+
//! ```
//!
//! The columns follow Concerto's measurements of calls (MobiCom 2019, section 2): bit rates of codec and transport,
//! packets sent, received and lost. `python/lockstep/sessions/schema.json` defines the files; `docs/how-to/sessions.md`
//! explains them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockstep_call::{Codec, FrameRecord, ReceivingEnd, SendingEnd};
use lockstep_units::{Bitrate, Timestamp};

use crate::frame_log::{FrameObserver, LoggedFrame};
use crate::freezes::FreezeDetector;
use crate::series::Series;

/// Duration of a row.
const SECOND: Duration = Duration::from_secs(1);
/// Limit on rows that are not taken yet: one day. Older rows are dropped.
const MAX_SECONDS: usize = 86_400;

/// Counters of a sending end since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SentCounts {
    /// Datagrams of fragments and sound.
    pub packets: u64,
    /// Retransmitted datagrams among them.
    pub retransmitted: u64,
    /// Bytes of all these datagrams.
    pub bytes: u64,
    /// Datagrams declared lost, minus those that arrived later according to acknowledgements.
    pub lost: u64,
    /// Acknowledgements received.
    pub acknowledgements: u64,
    /// Smoothed round-trip time.
    pub round_trip_time: Option<Duration>,
}

impl SentCounts {
    /// Counters of `end`.
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

/// Counters of a receiving end since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReceivedCounts {
    /// Received datagrams of fragments and sound.
    pub packets: u64,
    /// Bytes of these datagrams.
    pub bytes: u64,
    /// Datagrams that are missing although later ones arrived.
    pub missing: u64,
    /// Interarrival jitter (RFC 3550, section 6.4.1).
    pub jitter: Duration,
}

impl ReceivedCounts {
    /// Counters of `end`.
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

/// Row of a session log: one whole second. Values that the logging end does not know are `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SessionSecond {
    /// Rate of sent transport datagrams, bit/s.
    pub sent_bps: Option<u64>,
    /// Rate of received transport datagrams, bit/s.
    pub received_bps: Option<u64>,
    /// Datagrams sent.
    pub packets_sent: Option<u64>,
    /// Datagrams received.
    pub packets_received: Option<u64>,
    /// Datagrams found lost. At an end that sends, those of its datagrams.
    pub packets_lost: Option<u64>,
    /// Smoothed round-trip time at the end of the second, microseconds; `None` without acknowledgements in it.
    pub rtt_us: Option<u64>,
    /// Interarrival jitter at the end of the second, microseconds; `None` without arrivals in it.
    pub jitter_us: Option<u64>,
    /// Mean displayed delay of the shown pictures, microseconds.
    pub delay_us: Option<u64>,
    /// Rate of the encoded frames that were sent, bit/s.
    pub codec_bps: Option<u64>,
    /// Encoder's target, bit/s: mean over the captured pictures.
    pub codec_target_bps: Option<u64>,
    /// Controller's target, bit/s: mean over the captured pictures.
    pub transport_bps: Option<u64>,
    /// Controller's estimate of the path's capacity, bit/s: mean over the captured pictures.
    pub estimate_bps: Option<u64>,
    /// Capacity of the link, bit/s, if known.
    pub capacity_bps: Option<u64>,
    /// Captured pictures.
    pub frames_captured: Option<u64>,
    /// Sent pictures.
    pub frames_sent: Option<u64>,
    /// Shown pictures.
    pub frames_shown: Option<u64>,
    /// Freezes ([`FreezeDetector`]) that ended in the second.
    pub stalls: Option<u64>,
    /// Total duration of these freezes, ms, including parts in earlier seconds.
    pub stall_ms: Option<u64>,
    /// Changes of the encoder's target between pictures.
    pub codec_updates: Option<u64>,
    /// Changes of the controller's target between pictures.
    pub transport_updates: Option<u64>,
}

/// Function that returns a column of a row.
pub type SecondColumn = fn(&SessionSecond) -> Option<u64>;

/// Columns of a row in order, by name.
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

/// Sum and count of known values, for a mean.
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

/// A second that is not complete.
#[derive(Debug, Clone, Copy, Default)]
struct OpenSecond {
    /// Values that are known so far.
    row: SessionSecond,
    codec_bits: u64,
    codec_target: Mean,
    transport: Mean,
    estimate: Mean,
    delay: Mean,
}

impl OpenSecond {
    fn closed(self, sends: bool, receives: bool) -> SessionSecond {
        let if_known = |known: bool, count: Option<u64>| known.then(|| count.unwrap_or(0));
        SessionSecond {
            codec_bps: sends.then_some(self.codec_bits),
            codec_target_bps: self.codec_target.get(),
            transport_bps: self.transport.get(),
            estimate_bps: self.estimate.get(),
            delay_us: self.delay.get(),
            frames_captured: if_known(sends, self.row.frames_captured),
            frames_sent: if_known(sends, self.row.frames_sent),
            codec_updates: if_known(sends, self.row.codec_updates),
            transport_updates: if_known(sends, self.row.transport_updates),
            frames_shown: if_known(receives, self.row.frames_shown),
            stalls: if_known(receives, self.row.stalls),
            stall_ms: if_known(receives, self.row.stall_ms),
            ..self.row
        }
    }
}

fn add(count: &mut Option<u64>, more: u64) {
    *count = Some(count.unwrap_or(0).saturating_add(more));
}

/// Counters of an end at its last sample, and the number of whole seconds in rows.
#[derive(Debug, Clone, Copy)]
struct Side<Counts> {
    at: Timestamp,
    counts: Counts,
    seconds: u64,
}

impl<Counts: Copy> Side<Counts> {
    /// Samples an end when `until` whole seconds of the call are over. Returns its previous counters and the seconds
    /// that ended since then. Returns `None` if no second ended or there was no previous sample.
    fn sample(side: &mut Option<Self>, now: Timestamp, counts: Counts, until: u64) -> Option<(Counts, Parts)> {
        let before = *side.get_or_insert(Self { at: now, counts, seconds: until });
        let parts = Parts { seconds: before.seconds, until, elapsed: now.saturating_since(before.at) };
        (parts.count() > 0).then(|| {
            *side = Some(Self { at: now, counts, seconds: until });
            (before.counts, parts)
        })
    }
}

/// Computes the rows of a call from its ends and pictures. Inputs may arrive in any order but share one clock.
#[derive(Debug, Clone)]
pub struct SessionMeter {
    start: Timestamp,
    /// Number of the first row in `seconds`.
    first: u64,
    seconds: VecDeque<OpenSecond>,
    sender: Option<Side<SentCounts>>,
    receiver: Option<Side<ReceivedCounts>>,
    freezes: Option<FreezeDetector>,
    /// Last targets of transport and codec.
    targets: (Option<Bitrate>, Option<Bitrate>),
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl SessionMeter {
    /// Meter of a call that starts at `start`. Earlier events are ignored.
    #[must_use]
    pub fn new(start: Timestamp) -> Self {
        let (seconds, targets) = (VecDeque::new(), (None, None));
        Self { start, first: 0, seconds, sender: None, receiver: None, freezes: None, targets }
    }

    /// The second that contains `at`; `None` before the start, or if its row was taken.
    fn second(&mut self, at: Timestamp) -> Option<&mut OpenSecond> {
        let since = at.as_nanos().checked_sub(self.start.as_nanos())?;
        self.number(since / SECOND.as_nanos() as u64)
    }

    fn number(&mut self, number: u64) -> Option<&mut OpenSecond> {
        let mut index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        if index >= MAX_SECONDS {
            // No row was taken for a day.
            let over = index + 1 - MAX_SECONDS;
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

    /// Samples the sending end. Call it a few times per second. Counters between two samples are split equally among
    /// the seconds that ended between them.
    pub fn sending<C: Codec>(&mut self, now: Timestamp, end: &SendingEnd<C>) {
        self.sent(now, SentCounts::of(end, now));
    }

    /// Like [`sending`](Self::sending), with given counters.
    pub fn sent(&mut self, now: Timestamp, counts: SentCounts) {
        let whole = self.whole(now);
        let Some((before, parts)) = Side::sample(&mut self.sender, now, counts, whole) else { return };
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

    /// Samples the receiving end. Call it a few times per second.
    pub fn receiving<C: Codec>(&mut self, now: Timestamp, end: &ReceivingEnd<C>) {
        if let Some(format) = end.format() {
            self.freezes.get_or_insert_with(|| FreezeDetector::new(format.frame_interval()));
        }
        self.received(now, ReceivedCounts::of(end));
    }

    /// Like [`receiving`](Self::receiving), with given counters.
    pub fn received(&mut self, now: Timestamp, counts: ReceivedCounts) {
        let whole = self.whole(now);
        let Some((before, parts)) = Side::sample(&mut self.receiver, now, counts, whole) else { return };
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

    /// Records the sending end's record of a picture, in order of capture.
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

    /// Records that a picture was shown at `at`, with its displayed delay if known. Call it in display order.
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

    /// Adds the link's capacity from the series of the call.
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

    /// Takes the rows of the seconds before `until`, and the number of the first. These seconds must be complete. Columns
    /// of datagrams are `None` in seconds without a sample of their end.
    pub fn take(&mut self, until: u64) -> (u64, Vec<SessionSecond>) {
        let (sends, receives) = (self.sender.is_some(), self.receiver.is_some());
        let first = self.first;
        let count = usize::try_from(until.saturating_sub(first)).unwrap_or(usize::MAX).min(self.seconds.len());
        self.first += count as u64;
        (first, self.seconds.drain(..count).map(|second| second.closed(sends, receives)).collect())
    }

    /// Number of whole seconds for which every known end was sampled.
    #[must_use]
    pub fn seconds(&self) -> u64 {
        let sent = self.sender.map(|side| side.seconds);
        let received = self.receiver.map(|side| side.seconds);
        sent.into_iter().chain(received).min().unwrap_or(0)
    }
}

/// Whole seconds that ended between two samples of an end.
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

    /// Rate of `bytes` over the whole time between the samples, bit/s.
    fn rate(&self, bytes: u64) -> u64 {
        (8.0 * bytes as f64 / self.elapsed.as_secs_f64().max(1e-3)).round() as u64
    }

    /// Part of `count` in second `number`. The parts of all seconds add up to `count`.
    fn share(&self, count: u64, number: u64) -> u64 {
        let parts = self.count().max(1);
        count / parts + u64::from(number - self.seconds < count % parts)
    }
}

/// A meter shared by the driver, which samples the ends, and the log, which reports the frames.
#[derive(Debug, Clone)]
pub struct SharedSessionMeter(Arc<Mutex<SessionMeter>>);

impl SharedSessionMeter {
    /// Meter of a call that starts at `start`.
    #[must_use]
    pub fn new(start: Timestamp) -> Self {
        Self(Arc::new(Mutex::new(SessionMeter::new(start))))
    }

    /// Locks the meter.
    pub fn lock(&self) -> MutexGuard<'_, SessionMeter> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FrameObserver for SharedSessionMeter {
    fn frame(&mut self, frame: &LoggedFrame) {
        let mut meter = self.lock();
        let record = &frame.record;
        meter.captured(record);
        if let Some(at) = record.displayed_at {
            meter.shown(at, Some(at.saturating_since(record.captured_at)));
        }
    }
}

/// Totals of the rows of a session, for its one row.
#[derive(Debug, Clone, Copy, Default)]
pub struct SessionTotals {
    seconds: u64,
    sums: [Mean; SECOND_COLUMNS.len()],
}

/// Method that combines a column of the seconds into one of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Total {
    /// Sum of the known values.
    Sum,
    /// Mean of the known values.
    Mean,
}

/// Columns of a session's row that are computed from its seconds, in order.
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
    /// Adds a second.
    pub fn add(&mut self, row: &SessionSecond) {
        self.seconds += 1;
        for (sum, (_, column)) in self.sums.iter_mut().zip(&SECOND_COLUMNS) {
            sum.add(column(row));
        }
    }

    /// Number of seconds so far.
    #[must_use]
    pub fn seconds(&self) -> u64 {
        self.seconds
    }

    /// Value of column `name`; `None` if there is no such column or no second has a value.
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
