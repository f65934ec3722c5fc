//! Schedule and content of acknowledgements.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use lockstep_units::Timestamp;

use super::arrivals::{Arrivals, Stamp};
use crate::catalogue::Catalogue;
use crate::feedback_interval::FeedbackInterval;
use crate::reverse_path::MAX_DOUBLINGS;
use crate::wire::{Acknowledgement, ReceivedFragment};
use crate::{Estimate, ReceiverConfig};

/// Largest number of arrivals kept while the owner polls no acknowledgement.
const MAX_HISTORY: usize = 1024;
/// Largest number of fragments in one acknowledgement that lists all new arrivals. In any order of arrival, they and 32
/// states fit into a packet of 1,200 bytes.
const MAX_LISTED_FRAGMENTS: usize = 128;
/// Fraction of its interval by which an acknowledgement may leave early to share a packet. This reaches the next sound
/// packet, which leaves every 20 ms, and hardly adds acknowledgements.
const EARLY_FRACTION: u32 = 4;
/// Number of handled acknowledgements kept for reuse. That many return before the next one leaves.
const MAX_SPARE: usize = 4;
/// Number of refused frames that each acknowledgement lists.
const REFUSED_LISTED: usize = 4;

/// Schedule of acknowledgements, with the arrivals and verdicts that they report.
#[derive(Debug)]
pub(super) struct Acknowledging {
    feedback: FeedbackInterval,
    /// Number of latest arrivals that each acknowledgement lists, even if an earlier one listed them.
    repeated: usize,
    /// Latest arrivals, oldest first.
    history: VecDeque<ReceivedFragment>,
    /// Number of arrivals at the end of `history` that no acknowledgement has listed.
    unreported: usize,
    /// Frames that were refused last, newest first.
    refused: VecDeque<u32>,
    estimate: Estimate,
    /// Whether there is news for the sender.
    has_changes: bool,
    /// Whether the news must not wait for `due_at`.
    is_urgent: bool,
    /// Time before which the next acknowledgement waits, unless its news is urgent.
    due_at: Timestamp,
    /// Number of doublings of the interval that the sender requests.
    sender_doublings: u8,
    /// Number of doublings of the interval that the owner of this end requests.
    owner_doublings: u8,
    /// Number of acknowledgements made.
    made: u64,
    /// Handled acknowledgements for reuse, boxed as in datagrams.
    #[expect(clippy::vec_box)]
    spare: Vec<Box<Acknowledgement>>,
}

/// Copies a range of `history`. Copying slices is fast, which matters: an acknowledgement lists a dozen fragments,
/// fifty times per second.
fn list(history: &VecDeque<ReceivedFragment>, range: Range<usize>, fragments: &mut Vec<ReceivedFragment>) {
    let (older, newer) = history.as_slices();
    let (from, to) = (range.start.min(older.len()), range.end.min(older.len()));
    let (later, end) = (range.start.saturating_sub(older.len()), range.end.saturating_sub(older.len()));
    fragments.clear();
    fragments.reserve(range.len());
    fragments.extend_from_slice(&older[from..to]);
    fragments.extend_from_slice(&newer[later..end]);
}

impl Acknowledging {
    pub(super) fn new(config: &ReceiverConfig) -> Self {
        Self {
            feedback: config.feedback,
            repeated: config.repeated_fragments.clamp(1, 255),
            history: VecDeque::new(),
            unreported: 0,
            refused: VecDeque::new(),
            estimate: Estimate::default(),
            has_changes: false,
            is_urgent: false,
            due_at: Timestamp::ZERO,
            sender_doublings: 0,
            owner_doublings: 0,
            made: 0,
            spare: Vec::new(),
        }
    }

    /// Records the first arrival of a datagram.
    pub(super) fn on_arrival(&mut self, now: Timestamp, stamp: &Stamp) {
        let &Stamp { frame, fragment, congestion_experienced, .. } = stamp;
        self.history.push_back(ReceivedFragment { frame, fragment, arrived_at: now, congestion_experienced });
        if self.history.len() > MAX_HISTORY {
            self.history.pop_front();
        }
        self.unreported = (self.unreported + 1).min(self.history.len());
        self.has_changes = true;
    }

    /// Records that a frame was decoded, refused or failed. The sender waits for this news.
    pub(super) fn on_verdict(&mut self) {
        self.has_changes = true;
        self.is_urgent |= matches!(self.feedback, FeedbackInterval::Aggregated(_));
    }

    /// Records that a frame was refused or failed.
    pub(super) fn on_refused(&mut self, frame: u32) {
        self.refused.push_front(frame);
        self.refused.truncate(REFUSED_LISTED);
        self.on_verdict();
    }

    pub(super) fn acknowledge_each_fragment(&mut self) {
        self.feedback = FeedbackInterval::EveryFragment;
        self.due_at = Timestamp::ZERO;
    }

    pub(super) fn set_estimate(&mut self, estimate: Estimate) {
        self.estimate = estimate;
    }

    pub(super) fn set_sender_doublings(&mut self, doublings: u8) {
        self.sender_doublings = doublings;
    }

    /// Sets whether acknowledgements use the longest interval, for a reverse path with little capacity.
    pub(super) fn set_thin(&mut self, thin: bool) {
        self.owner_doublings = if thin { MAX_DOUBLINGS } else { 0 };
    }

    fn doublings(&self) -> u8 {
        self.sender_doublings.max(self.owner_doublings)
    }

    /// Whether there is urgent news, and acknowledgements do not queue on the reverse path.
    #[inline]
    fn must_not_wait(&self) -> bool {
        self.is_urgent && self.doublings() == 0
    }

    /// Whether there is news and an acknowledgement is due.
    #[inline]
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        self.has_changes && (self.must_not_wait() || self.due_at <= now)
    }

    /// Whether an acknowledgement is due, or almost due, so that it may share a packet.
    pub(super) fn may_piggyback(&self, now: Timestamp) -> bool {
        let early = match self.feedback {
            FeedbackInterval::Aggregated(_) => self.interval() / EARLY_FRACTION,
            FeedbackInterval::EveryFragment | FeedbackInterval::Every(_) => Duration::ZERO,
        };
        self.is_due(now + early)
    }

    /// Time at which an acknowledgement is due. `None` without news, and if each fragment is acknowledged at once.
    #[inline]
    pub(super) fn poll_timeout(&self) -> Option<Timestamp> {
        let waits = self.feedback != FeedbackInterval::EveryFragment && self.has_changes;
        waits.then_some(if self.must_not_wait() { Timestamp::ZERO } else { self.due_at })
    }

    fn interval(&self) -> Duration {
        self.feedback.doubled(self.doublings()).max_hold()
    }

    /// Largest number of unreported fragments in one acknowledgement.
    fn max_listed(&self) -> usize {
        // Acknowledgements are rare with an interval, so each must list all new arrivals.
        let aggregates = self.feedback != FeedbackInterval::EveryFragment;
        if aggregates { MAX_LISTED_FRAGMENTS.max(self.repeated) } else { self.repeated }
    }

    /// Writes the next acknowledgement into `next`. Returns `false` before the first arrival.
    fn write(
        &self,
        now: Timestamp,
        connection: u32,
        arrivals: &Arrivals,
        catalogue: &Catalogue,
        next: &mut Acknowledgement,
    ) -> bool {
        let Some(newest) = arrivals.newest() else { return false };
        let most = self.max_listed();
        let end = self.history.len() - self.unreported.saturating_sub(most);
        let listed = self.unreported.min(most).max(self.repeated);
        next.connection = connection;
        next.sequence = self.made as u32;
        next.sent_at = now;
        next.highest = newest.sequence as u32;
        next.echo = newest.sent_at;
        next.hold = now.saturating_since(newest.arrived_at);
        next.received = arrivals.received() as u32;
        next.estimate = self.estimate;
        list(&self.history, end.saturating_sub(listed)..end, &mut next.fragments);
        next.catalogue.clear();
        next.catalogue.extend(catalogue.list());
        next.refused.clear();
        next.refused.extend(&self.refused);
        true
    }

    /// The next acknowledgement as it would be at `now`; `None` before the first arrival.
    pub(super) fn preview(
        &self,
        now: Timestamp,
        connection: u32,
        arrivals: &Arrivals,
        catalogue: &Catalogue,
    ) -> Option<Acknowledgement> {
        let mut next = Acknowledgement::default();
        self.write(now, connection, arrivals, catalogue, &mut next).then_some(next)
    }

    /// Makes the next acknowledgement, which leaves at `now`; `None` before the first arrival.
    pub(super) fn make(
        &mut self,
        now: Timestamp,
        connection: u32,
        arrivals: &Arrivals,
        catalogue: &Catalogue,
    ) -> Option<Box<Acknowledgement>> {
        let mut next = self.spare.pop().unwrap_or_default();
        if !self.write(now, connection, arrivals, catalogue, &mut next) {
            return None;
        }
        self.unreported = self.unreported.saturating_sub(self.max_listed());
        // Removes arrivals that no acknowledgement will list, to save memory with a thousand calls.
        let listed_again = self.unreported.max(self.repeated);
        while self.history.len() > listed_again {
            self.history.pop_front();
        }
        self.has_changes = self.unreported > 0;
        if !self.has_changes {
            self.is_urgent = false;
            self.due_at = now + self.interval();
        }
        self.made += 1;
        Some(next)
    }

    /// Keeps the memory of a handled acknowledgement for a later one.
    pub(super) fn reuse(&mut self, acknowledgement: Box<Acknowledgement>) {
        if self.spare.len() < MAX_SPARE {
            self.spare.push(acknowledgement);
        }
    }
}

#[cfg(test)]
mod tests {
    use lockstep_units::ByteCount;

    use super::*;

    const AT: Timestamp = Timestamp::from_millis(1_000);

    /// A schedule whose last acknowledgement left at [`AT`], and the arrivals that it reported.
    fn acknowledged(feedback: FeedbackInterval) -> (Acknowledging, Arrivals) {
        let mut ends =
            (Acknowledging::new(&ReceiverConfig { feedback, ..ReceiverConfig::default() }), Arrivals::default());
        arrive(&mut ends, 0);
        assert!(make(&mut ends).is_some());
        ends
    }

    fn arrive((acknowledging, arrivals): &mut (Acknowledging, Arrivals), sequence: u64) {
        let (idle, frame, fragment, size) = (0, sequence as u32, 0, ByteCount::new(1_000));
        let stamp = Stamp { sequence, sent_at: AT, idle, frame, fragment, size, congestion_experienced: false };
        arrivals.on_arrival(AT, &stamp);
        acknowledging.on_arrival(AT, &stamp);
    }

    fn make((acknowledging, arrivals): &mut (Acknowledging, Arrivals)) -> Option<Box<Acknowledgement>> {
        acknowledging.make(AT, 7, arrivals, &Catalogue::new(4))
    }

    #[test]
    fn arrival_waits_for_the_interval_and_verdict_does_not() {
        let mut ends = acknowledged(FeedbackInterval::Aggregated(Duration::from_millis(20)));
        assert_eq!(ends.0.poll_timeout(), None);
        arrive(&mut ends, 1);
        assert_eq!(ends.0.poll_timeout(), Some(AT + Duration::from_millis(20)));
        assert!(!ends.0.is_due(AT));
        ends.0.on_verdict();
        assert_eq!(ends.0.poll_timeout(), Some(Timestamp::ZERO));
        assert!(ends.0.is_due(AT));
    }

    #[test]
    fn each_arrival_is_acknowledged_at_once_on_request() {
        let mut ends = acknowledged(FeedbackInterval::Aggregated(Duration::from_millis(20)));
        ends.0.acknowledge_each_fragment();
        for sequence in 1..4 {
            assert!(!ends.0.is_due(AT));
            arrive(&mut ends, sequence);
            assert!(ends.0.is_due(AT));
            assert_eq!(make(&mut ends).unwrap().fragments.last().map(|listed| listed.frame), Some(sequence as u32));
        }
    }

    #[test]
    fn verdict_waits_while_the_interval_is_doubled() {
        let mut ends = acknowledged(FeedbackInterval::Aggregated(Duration::from_millis(20)));
        ends.0.on_verdict();
        ends.0.set_sender_doublings(1);
        assert!(!ends.0.is_due(AT));
        ends.0.set_sender_doublings(0);
        ends.0.set_thin(true);
        assert!(!ends.0.is_due(AT));
    }

    #[test]
    fn arrivals_beyond_one_acknowledgement_are_in_the_next() {
        let mut ends = acknowledged(FeedbackInterval::Aggregated(Duration::from_millis(20)));
        let arrived = 1..=MAX_LISTED_FRAGMENTS as u64 + 1;
        arrived.for_each(|sequence| arrive(&mut ends, sequence));
        let oldest = make(&mut ends).unwrap().fragments.iter().map(|listed| listed.frame).collect::<Vec<_>>();
        assert_eq!(oldest, (1..=MAX_LISTED_FRAGMENTS as u32).collect::<Vec<_>>());
        assert!(ends.0.has_changes);
        let rest = make(&mut ends).unwrap().fragments.last().map(|listed| listed.frame);
        assert_eq!((rest, ends.0.has_changes), (Some(MAX_LISTED_FRAGMENTS as u32 + 1), false));
    }
}
