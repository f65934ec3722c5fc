//! What is on its way, what arrived and what was lost, at the sending end of a modelled call.

use std::collections::VecDeque;
use std::time::Duration;

use lockstep_transport::{AcknowledgedFragment, LostFragment, RoundTripTime};
use lockstep_units::{ByteCount, Timestamp};

use super::packet::FeedbackReport;

/// A fragment is lost when one sent so many later has arrived (RFC 9002, section 6.1.1).
const PACKET_THRESHOLD: u64 = 3;
/// So many fragments whose fate is decided are remembered: a loss may still turn out to be none.
const REMEMBERED: u64 = 256;
/// What is added to the round-trip time and its variations before the newest fragments count as lost.
const TAIL_MARGIN: Duration = Duration::from_millis(100);
/// The round-trip time that is assumed at first.
const INITIAL_ROUND_TRIP: Duration = Duration::from_millis(200);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    InFlight,
    Arrived,
    Lost,
}

/// A fragment that was transmitted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SentFragment {
    pub(crate) frame: u32,
    pub(crate) fragment: u16,
    pub(crate) size: ByteCount,
    pub(crate) sent_at: Timestamp,
    fate: Fate,
}

#[derive(Debug)]
pub(crate) struct SentFragments {
    fragments: VecDeque<SentFragment>,
    /// Sequence number of the first of them.
    first: u64,
    in_flight: u64,
    bytes: ByteCount,
    largest_acknowledged: Option<u64>,
    /// Everything before is decided.
    undecided: u64,
    /// When the fragment of that number was sent; the end of time if it was not yet. Kept beside the fragments, which
    /// are elsewhere in memory, since it is asked for after every event.
    undecided_sent_at: Timestamp,
    round_trip: Option<RoundTripTime>,
    /// After this time without news the newest fragments count as lost.
    tail: Duration,
    heard_at: Timestamp,
    newest_report: u64,
    /// Filled by each report, kept to save allocations.
    pub(crate) acknowledged: Vec<AcknowledgedFragment>,
    pub(crate) lost: Vec<LostFragment>,
    /// Fragments counted lost that arrived with this report.
    pub(crate) found: usize,
}

impl SentFragments {
    pub(crate) fn new() -> Self {
        Self {
            fragments: VecDeque::new(),
            first: 0,
            in_flight: 0,
            bytes: ByteCount::ZERO,
            largest_acknowledged: None,
            undecided: 0,
            undecided_sent_at: Timestamp::MAX,
            round_trip: None,
            tail: INITIAL_ROUND_TRIP * 3,
            heard_at: Timestamp::ZERO,
            newest_report: 0,
            acknowledged: Vec::new(),
            lost: Vec::new(),
            found: 0,
        }
    }

    pub(crate) fn next_sequence(&self) -> u64 {
        self.first + self.fragments.len() as u64
    }

    pub(crate) fn transmitted(&mut self, now: Timestamp, frame: u32, fragment: u16, size: ByteCount) {
        if self.undecided == self.next_sequence() {
            self.undecided_sent_at = now;
        }
        self.fragments.push_back(SentFragment { frame, fragment, size, sent_at: now, fate: Fate::InFlight });
        self.in_flight += 1;
        self.bytes += size;
    }

    pub(crate) fn in_flight(&self) -> (u64, ByteCount) {
        (self.in_flight, self.bytes)
    }

    pub(crate) fn round_trip(&self) -> Option<RoundTripTime> {
        self.round_trip
    }

    /// Reads a report; fills `acknowledged`, `lost` and `found`. Gives the round-trip time that it measured, and whether
    /// it is newer than all before.
    pub(crate) fn report(&mut self, now: Timestamp, report: &FeedbackReport) -> (Option<Duration>, bool) {
        self.acknowledged.clear();
        self.found = 0;
        let mut sample = None;
        for &(sequence, arrived_at, congestion_experienced) in &report.arrivals {
            let Some(index) = sequence.checked_sub(self.first) else { continue };
            let Some(sent) = self.fragments.get_mut(index as usize) else { continue };
            match std::mem::replace(&mut sent.fate, Fate::Arrived) {
                Fate::Arrived => continue,
                Fate::Lost => self.found += 1,
                Fate::InFlight => {
                    self.in_flight -= 1;
                    self.bytes -= sent.size;
                }
            }
            if sequence == report.highest {
                sample = Some(now.saturating_since(sent.sent_at).saturating_sub(report.hold));
            }
            self.acknowledged.push(AcknowledgedFragment {
                frame: sent.frame,
                fragment: sent.fragment,
                size: sent.size,
                sent_at: sent.sent_at,
                arrived_at,
                acknowledged_at: now,
                congestion_experienced,
            });
        }
        if !self.acknowledged.is_empty() {
            self.heard_at = now;
            self.largest_acknowledged = self.largest_acknowledged.max(Some(report.highest));
        }
        if let Some(sample) = sample {
            self.sample(sample);
        }
        let newer = report.number > self.newest_report;
        self.newest_report = self.newest_report.max(report.number);
        (sample, newer)
    }

    fn sample(&mut self, sample: Duration) {
        let mut round_trip = self.round_trip.unwrap_or(RoundTripTime::first(sample));
        if self.round_trip.is_some() {
            round_trip.update(sample);
        }
        self.round_trip = Some(round_trip);
        self.tail = round_trip.smoothed + round_trip.variation * 4 + TAIL_MARGIN;
    }

    /// Fills `lost` with what is lost by `now`.
    pub(crate) fn detect(&mut self, now: Timestamp) {
        self.lost.clear();
        let overtaken = self.largest_acknowledged.map_or(0, |largest| (largest + 1).saturating_sub(PACKET_THRESHOLD));
        let tail = self.tail;
        while let Some(sent) = self.fragments.get_mut((self.undecided - self.first) as usize) {
            if sent.fate == Fate::InFlight {
                let late = self.heard_at.max(sent.sent_at) + tail <= now;
                if self.undecided >= overtaken && !late {
                    break;
                }
                sent.fate = Fate::Lost;
                self.in_flight -= 1;
                self.bytes -= sent.size;
                self.lost.push(LostFragment {
                    frame: sent.frame,
                    fragment: sent.fragment,
                    size: sent.size,
                    sent_at: sent.sent_at,
                });
            }
            self.undecided += 1;
        }
        let undecided = self.fragments.get((self.undecided - self.first) as usize);
        self.undecided_sent_at = undecided.map_or(Timestamp::MAX, |sent| sent.sent_at);
        while self.undecided - self.first > REMEMBERED {
            self.fragments.pop_front();
            self.first += 1;
        }
    }

    /// When the oldest undecided fragment counts as lost; [`Timestamp::MAX`] for never.
    pub(crate) fn poll_timeout(&self) -> Timestamp {
        if self.undecided_sent_at == Timestamp::MAX {
            return Timestamp::MAX;
        }
        self.heard_at.max(self.undecided_sent_at) + self.tail
    }
}
