//! Which fragments are under way, which were lost.
//!
//! A fragment is lost when some later one was acknowledged and either enough newer ones were or enough time has passed
//! (RFC 9002, section 6.1), or when nothing was heard for longer than a round trip takes (as the probe timeout of RFC
//! 9002, section 6.2, but it declares the loss: whether anything is sent again is not decided here).

use std::collections::BTreeMap;
use std::time::Duration;

use lockstep_units::{ByteCount, Timestamp};

use crate::round_trip::RoundTripTime;

/// How many newer fragments must be acknowledged before one is lost, at first (RFC 9002, section 6.1.1).
const PACKET_THRESHOLD: u64 = 3;
/// The same after much reordering.
const MOST_PACKET_THRESHOLD: u64 = 64;
/// Eighths of a round trip after which an overtaken fragment is lost, at first (RFC 9002, section 6.1.2).
const TIME_EIGHTHS: u32 = 9;
/// The same after much reordering.
const MOST_TIME_EIGHTHS: u32 = 16;
/// So many acknowledged fragments without a spurious loss take one step of tolerance back.
const CALM: u32 = 512;
/// An overtaken fragment is given at least this long after its transmission.
const LEAST_TIME: Duration = Duration::from_millis(2);
/// The tail timer waits so much longer than round trip and variation say, at first: a sleep of the operating system.
const TAIL_MARGIN: Duration = Duration::from_millis(10);
/// The same after it was wrong, as when acknowledgements are lost and the next frame's bring the news.
const MOST_TAIL_MARGIN: Duration = Duration::from_millis(100);
/// The tail timer never waits less.
const LEAST_TAIL: Duration = Duration::from_millis(20);
/// The tail timer does not back off beyond this.
const MOST_TAIL: Duration = Duration::from_secs(3);
/// Fragments under way beyond this number count as lost.
const MOST_IN_FLIGHT: usize = 16_384;
/// Lost fragments and frames remembered, to recognise late acknowledgements.
const REMEMBERED: usize = 2_048;

/// A fragment that was transmitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SentFragment {
    pub(crate) frame: u32,
    pub(crate) fragment: u16,
    pub(crate) size: ByteCount,
    pub(crate) sent_at: Timestamp,
}

/// What is known of a fragment that somebody names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Named {
    /// It was never transmitted.
    Never,
    /// It was transmitted too long ago.
    Forgotten,
    /// It was the datagram with this sequence number.
    Sequence(u64),
}

/// Successive fragments of one frame that were transmitted one after another.
#[derive(Debug, Clone, Copy)]
struct Run {
    /// The sequence number of the first.
    sequence: u64,
    /// Its place in the frame.
    fragment: u16,
    length: u16,
}

impl Run {
    /// The sequence number of a fragment.
    fn find(&self, fragment: u16) -> Option<u64> {
        let offset = fragment.checked_sub(self.fragment).filter(|&offset| offset < self.length)?;
        Some(self.sequence + u64::from(offset))
    }
}

/// What [`LossDetection::detect`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Loss {
    pub(crate) sequence: u64,
    pub(crate) sent: SentFragment,
    /// Something transmitted later has arrived; otherwise nothing was heard for too long.
    pub(crate) overtaken: bool,
}

#[derive(Debug)]
pub(crate) struct LossDetection {
    in_flight: BTreeMap<u64, SentFragment>,
    bytes: ByteCount,
    lost: BTreeMap<u64, SentFragment>,
    /// What was transmitted of each frame, in that order. A frame of which nothing is sent again is one run.
    frames: BTreeMap<u32, Vec<Run>>,
    next_sequence: u64,
    largest_acknowledged: Option<u64>,
    heard_at: Timestamp,
    packet_threshold: u64,
    time_eighths: u32,
    tail_margin: Duration,
    calm: u32,
    backoff: u32,
    initial: RoundTripTime,
    round_trip: Option<RoundTripTime>,
}

impl LossDetection {
    pub(crate) fn new(initial_round_trip: Duration) -> Self {
        Self {
            in_flight: BTreeMap::new(),
            bytes: ByteCount::ZERO,
            lost: BTreeMap::new(),
            frames: BTreeMap::new(),
            next_sequence: 0,
            largest_acknowledged: None,
            heard_at: Timestamp::ZERO,
            packet_threshold: PACKET_THRESHOLD,
            time_eighths: TIME_EIGHTHS,
            tail_margin: TAIL_MARGIN,
            calm: 0,
            backoff: 0,
            initial: RoundTripTime::assumed(initial_round_trip),
            round_trip: None,
        }
    }

    pub(crate) fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    pub(crate) fn in_flight(&self) -> (usize, ByteCount) {
        (self.in_flight.len(), self.bytes)
    }

    pub(crate) fn round_trip_time(&self) -> Option<RoundTripTime> {
        self.round_trip
    }

    pub(crate) fn transmitted(&mut self, sent: SentFragment) {
        let runs = self.frames.entry(sent.frame).or_default();
        let follows = |run: &Run| {
            (run.sequence + u64::from(run.length), u32::from(run.fragment) + u32::from(run.length))
                == (self.next_sequence, u32::from(sent.fragment))
        };
        match runs.last_mut().filter(|run| follows(run)) {
            Some(run) => run.length += 1,
            None => runs.push(Run { sequence: self.next_sequence, fragment: sent.fragment, length: 1 }),
        }
        if self.frames.len() > REMEMBERED {
            self.frames.pop_first();
        }
        self.in_flight.insert(self.next_sequence, sent);
        self.bytes += sent.size;
        self.next_sequence += 1;
    }

    /// Whether anything was transmitted of a frame.
    pub(crate) fn was_transmitted(&self, frame: u32) -> bool {
        self.frames.contains_key(&frame) || self.is_forgotten(frame)
    }

    fn is_forgotten(&self, frame: u32) -> bool {
        self.frames.keys().next().is_some_and(|&oldest| frame < oldest)
    }

    /// The sequence numbers of a fragment, the last one first.
    fn copies(&self, frame: u32, fragment: u16) -> impl Iterator<Item = u64> + '_ {
        let runs = self.frames.get(&frame).map_or(&[][..], Vec::as_slice);
        runs.iter().rev().filter_map(move |run| run.find(fragment))
    }

    /// The fragment as somebody knows it to whom the datagram `highest` is the newest.
    pub(crate) fn find(&self, frame: u32, fragment: u16, highest: u64) -> Named {
        if self.is_forgotten(frame) {
            return Named::Forgotten;
        }
        let arrived = self.copies(frame, fragment).find(|&sequence| sequence <= highest);
        arrived.map_or(Named::Never, Named::Sequence)
    }

    /// The fragment with this sequence number, if it was not acknowledged yet nor forgotten.
    pub(crate) fn get(&self, sequence: u64) -> Option<&SentFragment> {
        self.in_flight.get(&sequence).or_else(|| self.lost.get(&sequence))
    }

    /// The receiver has it. Returns the fragment, and whether it had been declared lost, unless this was known.
    pub(crate) fn acknowledge(&mut self, now: Timestamp, sequence: u64) -> Option<(SentFragment, bool)> {
        let taken = self.take(sequence);
        let Some((sent, spurious)) = taken else { return taken };
        // The receiver acknowledges the first copy that comes; nothing will be heard of the others.
        for copy in self.copies(sent.frame, sent.fragment).collect::<Vec<_>>() {
            self.take(copy);
        }
        if spurious {
            let round_trip = self.round_trip.unwrap_or(self.initial);
            let expected = sent.sent_at + round_trip.smoothed + round_trip.variation * 4;
            let late = now.saturating_since(expected) * 5 / 4;
            self.tail_margin = self.tail_margin.max(late.min(MOST_TAIL_MARGIN));
            self.calm = 0;
        }
        self.heard_at = now;
        self.backoff = 0;
        match self.largest_acknowledged {
            Some(largest) if largest > sequence => {
                if spurious {
                    let overtaken_by = largest - sequence + 1;
                    self.packet_threshold = self.packet_threshold.max(overtaken_by).min(MOST_PACKET_THRESHOLD);
                    self.time_eighths = (self.time_eighths + 1).min(MOST_TIME_EIGHTHS);
                }
            }
            _ => self.largest_acknowledged = Some(sequence),
        }
        self.calm += 1;
        if self.calm >= CALM {
            self.calm = 0;
            self.packet_threshold = (self.packet_threshold - 1).max(PACKET_THRESHOLD);
            self.time_eighths = (self.time_eighths - 1).max(TIME_EIGHTHS);
            self.tail_margin = (self.tail_margin * 3 / 4).max(TAIL_MARGIN);
        }
        taken
    }

    /// The receiver has decoded the frame, so all its fragments arrived; returns those that nobody acknowledged, with
    /// whether all their copies had been declared lost.
    pub(crate) fn frame_arrived(&mut self, frame: u32) -> Vec<(SentFragment, bool)> {
        let Some(runs) = self.frames.get(&frame) else { return Vec::new() };
        let runs: Vec<Run> = runs.iter().rev().copied().collect();
        let sequences = runs.iter().flat_map(|run| run.sequence..run.sequence + u64::from(run.length));
        let mut arrived: BTreeMap<u16, (SentFragment, bool)> = BTreeMap::new();
        for (sent, lost) in sequences.filter_map(|sequence| self.take(sequence)) {
            arrived.entry(sent.fragment).and_modify(|known| known.1 &= lost).or_insert((sent, lost));
        }
        arrived.into_values().collect()
    }

    fn take(&mut self, sequence: u64) -> Option<(SentFragment, bool)> {
        if let Some(sent) = self.in_flight.remove(&sequence) {
            self.bytes -= sent.size;
            return Some((sent, false));
        }
        self.lost.remove(&sequence).map(|sent| (sent, true))
    }

    pub(crate) fn sample(&mut self, sample: Duration) {
        match &mut self.round_trip {
            Some(round_trip) => round_trip.update(sample),
            None => self.round_trip = Some(RoundTripTime::first(sample)),
        }
    }

    /// When the fragment counts as lost if nothing more is heard.
    fn deadline(&self, sequence: u64, sent: &SentFragment) -> Timestamp {
        let round_trip = self.round_trip.unwrap_or(self.initial);
        if self.largest_acknowledged.is_some_and(|largest| sequence < largest) {
            let patience = round_trip.smoothed.max(round_trip.latest) * self.time_eighths / 8;
            return sent.sent_at + patience.max(LEAST_TIME);
        }
        let slack = round_trip.variation * 4 + self.tail_margin;
        let tail = (round_trip.smoothed + slack).max(LEAST_TAIL);
        let backed_off = tail.saturating_mul(1 << self.backoff.min(16)).min(MOST_TAIL.max(tail));
        // As long as acknowledgements keep coming, a queue that grows is likelier than a loss.
        (sent.sent_at + backed_off).max(self.heard_at + slack)
    }

    fn is_outnumbered(&self, sequence: u64) -> bool {
        self.largest_acknowledged.is_some_and(|largest| sequence + self.packet_threshold <= largest)
    }

    /// The fragments that are lost by `now`.
    pub(crate) fn detect(&mut self, now: Timestamp) -> Vec<Loss> {
        let excess = self.in_flight.len().saturating_sub(MOST_IN_FLIGHT);
        let over = |&(&sequence, sent): &(&u64, &SentFragment)| {
            self.is_outnumbered(sequence) || self.deadline(sequence, sent) <= now
        };
        // Deadlines grow with the sequence number on each side of the largest acknowledged one.
        let split = self.largest_acknowledged.unwrap_or(0);
        let mut lost: Vec<u64> = self.in_flight.range(..split).take_while(over).map(|(&at, _)| at).collect();
        let overtaken = lost.len();
        lost.extend(self.in_flight.range(split..).take_while(over).map(|(&at, _)| at));
        if lost.len() > overtaken {
            self.backoff += 1;
        }
        if lost.len() < excess {
            lost = self.in_flight.keys().take(excess).copied().collect();
        }
        let mut fragments = Vec::with_capacity(lost.len());
        for sequence in lost {
            if let Some(sent) = self.in_flight.remove(&sequence) {
                self.bytes -= sent.size;
                self.lost.insert(sequence, sent);
                fragments.push(Loss { sequence, sent, overtaken: sequence < split });
            }
        }
        while self.lost.len() > REMEMBERED {
            self.lost.pop_first();
        }
        fragments
    }

    /// When [`Self::detect`] will find something if nothing is heard before.
    pub(crate) fn timeout(&self) -> Option<Timestamp> {
        let split = self.largest_acknowledged.unwrap_or(0);
        let sides = [self.in_flight.range(..split).next(), self.in_flight.range(split..).next()];
        sides.into_iter().flatten().map(|(&sequence, sent)| self.deadline(sequence, sent)).min()
    }

    /// Whether something that was transmitted later has arrived.
    pub(crate) fn is_overtaken(&self, sequence: u64) -> bool {
        self.largest_acknowledged.is_some_and(|largest| sequence < largest)
    }

    #[cfg(test)]
    pub(crate) fn packet_threshold(&self) -> u64 {
        self.packet_threshold
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP: Duration = Duration::from_millis(100);

    fn at(milliseconds: u64) -> Timestamp {
        Timestamp::from_millis(milliseconds)
    }

    /// Ten fragments, one a millisecond from 0 on.
    fn ten() -> LossDetection {
        let mut loss = LossDetection::new(ROUND_TRIP);
        loss.sample(ROUND_TRIP);
        for fragment in 0..10 {
            let sent_at = at(u64::from(fragment));
            loss.transmitted(SentFragment { frame: 0, fragment, size: ByteCount::new(100), sent_at });
        }
        loss
    }

    fn lost(loss: &mut LossDetection, now: u64) -> Vec<u16> {
        loss.detect(at(now)).into_iter().map(|loss| loss.sent.fragment).collect()
    }

    #[test]
    fn three_newer_acknowledgements_are_a_loss() {
        let mut loss = ten();
        for sequence in [1, 2, 3] {
            assert_eq!(lost(&mut loss, 101), [] as [u16; 0]);
            loss.acknowledge(at(101), sequence);
        }
        assert_eq!(lost(&mut loss, 101), [0]);
        assert_eq!(loss.in_flight(), (6, ByteCount::new(600)));
    }

    #[test]
    fn an_overtaken_fragment_is_lost_after_nine_eighths_of_a_round_trip() {
        let mut loss = ten();
        loss.acknowledge(at(101), 1);
        assert_eq!(loss.timeout(), Some(at(112) + Duration::from_micros(500)));
        assert_eq!(lost(&mut loss, 113), [0]);
    }

    #[test]
    fn silence_is_a_loss_and_the_timer_backs_off() {
        let mut loss = ten();
        let tail = loss.timeout().expect("fragments are under way");
        assert_eq!(tail, at(310), "round trip, four variations and the margin");
        assert_eq!(lost(&mut loss, 310), [0]);
        assert_eq!(loss.timeout(), Some(at(621)), "twice as long from the second fragment on");
    }

    #[test]
    fn news_that_comes_late_gives_the_rest_time() {
        let mut loss = ten();
        (0..100).for_each(|_| loss.sample(ROUND_TRIP));
        assert_eq!(loss.timeout(), Some(at(110)));
        loss.acknowledge(at(109), 0);
        assert_eq!(loss.timeout(), Some(at(119)), "the margin from the last news on");
    }

    #[test]
    fn a_late_acknowledgement_widens_the_threshold_and_calm_narrows_it() {
        let mut loss = ten();
        loss.acknowledge(at(101), 6);
        assert_eq!(lost(&mut loss, 101), [0, 1, 2, 3]);
        assert_eq!(loss.acknowledge(at(102), 1).map(|(_, spurious)| spurious), Some(true));
        assert_eq!(loss.packet_threshold(), 6);
        for fragment in 10..4000 {
            loss.transmitted(SentFragment { frame: 0, fragment, size: ByteCount::new(1), sent_at: at(103) });
            loss.acknowledge(at(103), u64::from(fragment));
        }
        assert_eq!(loss.packet_threshold(), 3);
    }

    #[test]
    fn a_copy_that_arrives_speaks_for_all() {
        let mut loss = ten();
        (3..8).for_each(|sequence| _ = loss.acknowledge(at(101), sequence));
        assert_eq!(lost(&mut loss, 101), [0, 1, 2]);
        for fragment in [1, 2] {
            loss.transmitted(SentFragment { frame: 0, fragment, size: ByteCount::new(100), sent_at: at(101) });
        }
        assert_eq!((loss.find(0, 1, 10), loss.find(0, 1, 9)), (Named::Sequence(10), Named::Sequence(1)));
        assert_eq!(loss.find(0, 10, 11), Named::Never);
        assert_eq!(loss.acknowledge(at(201), 10).map(|(_, spurious)| spurious), Some(false));
        assert_eq!(loss.get(1), None, "the first copy is not waited for any longer");
        let arrived: Vec<_> = loss.frame_arrived(0).into_iter().map(|(sent, lost)| (sent.fragment, lost)).collect();
        assert_eq!(arrived, [(0, true), (2, false), (8, false), (9, false)]);
        assert_eq!(loss.in_flight(), (0, ByteCount::ZERO));
    }
}
