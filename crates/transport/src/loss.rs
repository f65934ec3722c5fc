//! Loss detection: which fragments are in flight and which are lost.
//!
//! [`LossDetection::transmitted`] and [`LossDetection::acknowledge`] record fragments; [`LossDetection::detect`]
//! returns the lost ones. A fragment is lost in one of two cases:
//!
//! - A newer fragment was acknowledged, and either enough newer ones were or enough time has passed (RFC 9002, section
//!   6.1).
//! - No acknowledgement came for longer than a round trip. The timer is the probe timeout of RFC 9002, section 6.2. It
//!   declares a loss instead of sending a probe.
//!
//! This module does not decide whether a fragment is sent again.

mod due;
mod tolerance;

use std::cell::Cell;
use std::ops::Range;
use std::time::Duration;

use lockstep_units::{ByteCount, Timestamp};

use crate::ring::Ring;
use crate::round_trip::{RoundTripTime, nanoseconds};
use crate::sound::{SOUND, TransmittedSound};
use due::Due;
pub use tolerance::PACKET_THRESHOLD;
use tolerance::Tolerance;

/// Least time from the transmission of an overtaken fragment to its loss, since timers are no finer.
const MIN_LOSS_DELAY: Duration = Duration::from_millis(2);
/// Least delay of the tail timer, in units of [`TIMER_GRANULARITY`].
const MIN_TAIL_GRANULES: u32 = 2;
/// Largest number of fragments in flight; older ones beyond it count as lost.
const MAX_FRAGMENTS_IN_FLIGHT: usize = 16_384;
/// Number of later transmissions for which a lost fragment is remembered, to recognise its late acknowledgement.
const REMEMBERED: u64 = 2_048;
/// Number of frames, up to the newest transmitted one, that are remembered for the same purpose.
const REMEMBERED_FRAMES: u64 = 1_024;

/// Granularity of timers: the margin of the tail timer above round trip and variation.
pub(crate) const TIMER_GRANULARITY: Duration = Duration::from_millis(10);
/// Upper bound of the backoff of the tail timer.
pub(crate) const MAX_TAIL_DELAY: Duration = Duration::from_secs(3);

lockstep_units::config! {
    /// Loss detection.
    pub struct LossDetectionConfig = "loss_detection" {
        /// Round-trip time assumed before the first sample.
        first_round_trip: Duration = 0.2, "s", 0.001..=10.0, "2026-11-control-ablation";
        /// Largest packet threshold under reordering; it starts at 3 (RFC 9002, section 6.1.1).
        most_packet_threshold: u64 = 64, "packets", 3..=16_384, "2026-11-control-ablation";
        /// Largest time threshold under reordering, in round trips; it starts at 9/8 (RFC 9002, section 6.1.2).
        most_time_threshold: f64 = 2.0, "round trips", 1.125..=16.0, "2026-11-control-ablation";
        /// Number of acknowledged fragments without a spurious loss after which the tolerance shrinks by one step.
        calm: u32 = 512, "packets", 1..=65_536, "2026-11-control-ablation";
    }
}

/// A transmitted fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SentFragment {
    pub(crate) frame: u32,
    pub(crate) fragment: u16,
    pub(crate) size: ByteCount,
    pub(crate) sent_at: Timestamp,
}

impl SentFragment {
    /// Whether it is a sound packet, which belongs to no video frame.
    pub(crate) fn is_sound(&self) -> bool {
        self.fragment == SOUND
    }
}

/// Consecutive fragments of one frame with consecutive sequence numbers.
#[derive(Debug, Clone, Copy, Default)]
struct Run {
    /// Sequence number of the first fragment.
    sequence: u64,
    /// Index of the first fragment in the frame.
    fragment: u16,
    length: u16,
}

impl Run {
    /// Sequence number of a fragment, if the run contains it.
    #[inline]
    fn find(&self, fragment: u16) -> Option<u64> {
        let offset = fragment.checked_sub(self.fragment).filter(|&offset| offset < self.length)?;
        Some(self.sequence + u64::from(offset))
    }

    /// Sequence number after the last one.
    fn end(&self) -> u64 {
        self.sequence + u64::from(self.length)
    }

    fn is_followed_by(&self, sequence: u64, fragment: u16) -> bool {
        let next = u32::from(self.fragment) + u32::from(self.length);
        (self.end(), next) == (sequence, u32::from(fragment))
    }
}

/// State of one sequence number.
#[derive(Debug, Clone, Copy, Default)]
enum Fate {
    /// The fragment or its frame was acknowledged, or the fragment is no longer remembered.
    #[default]
    Decided,
    InFlight(SentFragment),
    Lost(SentFragment),
}

/// All runs of a frame except the first.
#[derive(Debug, Default)]
struct MoreRuns(Vec<Run>);

/// The transmitted fragments of a frame.
#[derive(Debug, Default)]
struct TransmittedFrame {
    /// First run; its length is 0 if no fragment was transmitted.
    first: Run,
    /// Further runs, in the order of transmission. Only retransmissions create them. They are boxed to save memory:
    /// each call remembers a thousand frames.
    more: Option<Box<MoreRuns>>,
    /// Number of transmitted fragments that are in flight or remembered as lost.
    undecided: u32,
    /// Number of fragments that suffice to restore the frame; zero if all are needed.
    sufficient: u16,
}

impl TransmittedFrame {
    fn more(&self) -> &[Run] {
        self.more.as_ref().map_or(&[], |more| &more.0)
    }

    fn runs(&self) -> usize {
        if self.first.length == 0 { 0 } else { 1 + self.more().len() }
    }

    /// Run at an index in the order of transmission. The index must be less than [`Self::runs`].
    fn run(&self, place: usize) -> Run {
        place.checked_sub(1).map_or(self.first, |place| self.more()[place])
    }

    /// Sequence number of the newest copy of a fragment that is at most `highest`.
    #[inline]
    fn find(&self, fragment: u16, highest: u64) -> Option<u64> {
        let copy = |run: &Run| run.find(fragment).filter(|&sequence| sequence <= highest);
        let Some(more) = &self.more else { return copy(&self.first) };
        more.0.iter().rev().find_map(copy).or_else(|| copy(&self.first))
    }

    fn transmitted(&mut self, sequence: u64, fragment: u16) {
        self.undecided += 1;
        let run = Run { sequence, fragment, length: 1 };
        if self.first.length == 0 {
            self.first = run;
            return;
        }
        let last = self.more.as_mut().and_then(|more| more.0.last_mut()).unwrap_or(&mut self.first);
        if last.is_followed_by(sequence, fragment) {
            last.length += 1;
        } else {
            self.more.get_or_insert_default().0.push(run);
        }
    }
}

/// A loss that [`LossDetection::detect`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Loss {
    pub(crate) sequence: u64,
    pub(crate) sent: SentFragment,
    /// Whether a fragment that was transmitted later has arrived. Otherwise the tail timer expired.
    pub(crate) overtaken: bool,
}

/// Time until a fragment counts as lost, nanoseconds. It is cached, since every event of a call needs it.
#[derive(Debug, Clone, Copy, Default)]
struct LossDelays {
    /// For an overtaken fragment: time since its transmission.
    overtaken: u64,
    /// For any other fragment: least time since its transmission.
    tail: u64,
    /// For any other fragment: least time since the last acknowledgement.
    slack: u64,
}

fn later(moment: Timestamp, nanoseconds: u64) -> Timestamp {
    Timestamp::from_nanos(moment.as_nanos().saturating_add(nanoseconds))
}

#[derive(Debug)]
pub(crate) struct LossDetection {
    /// State by sequence number, from the oldest that is in flight or remembered as lost.
    fragments: Ring<Fate>,
    in_flight: usize,
    bytes: ByteCount,
    /// No fragment with a lower sequence number is in flight.
    oldest: u64,
    /// No fragment with a lower sequence number is in flight, except overtaken ones.
    oldest_tail: u64,
    /// Transmitted fragments by frame number. At least one fragment of the first frame was transmitted.
    frames: Ring<TransmittedFrame>,
    sound: TransmittedSound,
    next_sequence: u64,
    largest_acknowledged: Option<u64>,
    last_acknowledged_at: Timestamp,
    tolerance: Tolerance,
    backoff: u32,
    initial: RoundTripTime,
    round_trip: Option<RoundTripTime>,
    /// Longest time for which the receiver may hold back the acknowledgement of an arrival.
    max_hold: Duration,
    delays: LossDelays,
    /// Cached result of [`Self::timeout`]. Each event of a call asks at least twice, and few events change it.
    due: Cell<Option<Due>>,
}

impl LossDetection {
    pub(crate) fn new(config: LossDetectionConfig, max_hold: Duration) -> Self {
        let mut detection = Self {
            fragments: Ring::new(),
            in_flight: 0,
            bytes: ByteCount::ZERO,
            oldest: 0,
            oldest_tail: 0,
            frames: Ring::new(),
            sound: TransmittedSound::default(),
            next_sequence: 0,
            largest_acknowledged: None,
            last_acknowledged_at: Timestamp::ZERO,
            tolerance: Tolerance::new(config),
            backoff: 0,
            initial: RoundTripTime::assumed(config.first_round_trip),
            round_trip: None,
            max_hold,
            delays: LossDelays::default(),
            due: Cell::new(None),
        };
        detection.update_delays();
        detection
    }

    pub(crate) fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    pub(crate) fn in_flight(&self) -> (usize, ByteCount) {
        (self.in_flight, self.bytes)
    }

    pub(crate) fn round_trip_time(&self) -> Option<RoundTripTime> {
        self.round_trip
    }

    pub(crate) fn transmitted(&mut self, sent: SentFragment) {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.due.set(None);
        *self.fragments.reach(sequence) = Fate::InFlight(sent);
        self.in_flight += 1;
        self.bytes += sent.size;
        self.forget_old();
        if sent.is_sound() {
            self.sound.push(sent.frame, sequence);
            return;
        }
        let frame = u64::from(sent.frame);
        if let Some(known) = self.frames.get_mut(frame).filter(|known| known.runs() > 0) {
            // The fast path of the branch below, for a frame whose first fragment was recorded.
            known.transmitted(sequence, sent.fragment);
        } else if !self.is_forgotten(sent.frame) {
            self.frames.forget_before((frame + 1).saturating_sub(REMEMBERED_FRAMES));
            self.frames.reach(frame).transmitted(sequence, sent.fragment);
            while self.frames.front().is_some_and(|oldest| oldest.runs() == 0) {
                self.frames.pop_front();
            }
        }
    }

    /// Whether at least one fragment of the frame was transmitted.
    pub(crate) fn was_transmitted(&self, frame: u32) -> bool {
        self.frames.get(u64::from(frame)).is_some_and(|known| known.runs() > 0) || self.is_forgotten(frame)
    }

    fn is_forgotten(&self, frame: u32) -> bool {
        !self.frames.is_empty() && u64::from(frame) < self.frames.first()
    }

    /// Finds the undecided ones among the `named` fragments (frame and index). Writes their positions in the list and
    /// their sequence numbers to `open`. Only copies with a sequence number of at most `highest` count.
    ///
    /// Returns whether each fragment was transmitted or is no longer remembered. Acknowledgements repeat most
    /// fragments, so most are already decided.
    pub(crate) fn find_open(
        &self,
        named: impl Iterator<Item = (u32, u16)>,
        highest: u64,
        open: &mut Vec<(usize, u64)>,
    ) -> bool {
        open.clear();
        let mut last: (Option<u32>, Option<&TransmittedFrame>) = (None, None);
        for (place, (frame, fragment)) in named.enumerate() {
            if fragment == SOUND {
                match self.sound.find(frame) {
                    Ok(sequence) if sequence > highest => return false,
                    Ok(sequence) if self.get(sequence).is_some() => open.push((place, sequence)),
                    Ok(_) | Err(true) => {}
                    Err(false) => return false,
                }
                continue;
            }
            if last.0 != Some(frame) {
                last = (Some(frame), self.frames.get(u64::from(frame)));
                if last.1.is_none() && !self.is_forgotten(frame) {
                    return false;
                }
            }
            let Some(known) = last.1 else { continue };
            let Some(sequence) = known.find(fragment, highest) else { return false };
            if known.undecided > 0 && self.get(sequence).is_some() {
                open.push((place, sequence));
            }
        }
        true
    }

    /// The fragment with this sequence number, unless it was acknowledged or is no longer remembered.
    pub(crate) fn get(&self, sequence: u64) -> Option<&SentFragment> {
        match self.fragments.get(sequence)? {
            Fate::Decided => None,
            Fate::InFlight(sent) | Fate::Lost(sent) => Some(sent),
        }
    }

    /// Records that the receiver has the fragment. Returns it, and whether it had been declared lost. Returns `None` if
    /// this was known.
    pub(crate) fn acknowledge(&mut self, now: Timestamp, sequence: u64) -> Option<(SentFragment, bool)> {
        let (sent, spurious) = self.take(sequence)?;
        if !sent.is_sound() {
            self.take_copies(&sent);
        }
        let overtaken_by =
            self.largest_acknowledged.filter(|&largest| largest > sequence).map(|newest| newest - sequence + 1);
        if spurious {
            let round_trip = self.round_trip.unwrap_or(self.initial);
            let expected = sent.sent_at + round_trip.smoothed + round_trip.variation * 4;
            self.tolerance.on_spurious_loss(now.saturating_since(expected), overtaken_by);
        }
        self.last_acknowledged_at = now;
        let backed_off = std::mem::take(&mut self.backoff) > 0;
        if overtaken_by.is_none() {
            self.largest_acknowledged = Some(sequence);
        }
        let taken_back = self.tolerance.acknowledged();
        if spurious || backed_off || taken_back {
            self.update_delays();
        }
        self.find_oldest();
        Some((sent, spurious))
    }

    /// The receiver acknowledges only the first copy that arrives. Decides all other copies.
    fn take_copies(&mut self, sent: &SentFragment) {
        let frame = u64::from(sent.frame);
        let runs = self.frames.get(frame).filter(|known| known.undecided > 0).map_or(0, TransmittedFrame::runs);
        if runs < 2 {
            // The only copy is already decided.
            return;
        }
        for place in (0..runs).rev() {
            let run = self.frames.get(frame).map(|known| known.run(place)).unwrap_or_default();
            if let Some(copy) = run.find(sent.fragment) {
                self.take(copy);
            }
        }
    }

    /// Records that any `sufficient` fragments restore the frame. Called before its parity is transmitted.
    pub(crate) fn protect(&mut self, frame: u32, sufficient: u16) {
        if let Some(known) = self.frames.get_mut(u64::from(frame)) {
            known.sufficient = sufficient;
        }
    }

    /// Records that the receiver has decoded the frame, so a sufficient number of its fragments arrived. Returns those
    /// that were not acknowledged, and whether all their copies had been declared lost.
    #[inline]
    pub(crate) fn frame_arrived(&mut self, frame: u32) -> Vec<(SentFragment, bool)> {
        // Catalogues repeat frames, so most are already decided.
        match self.frames.get(u64::from(frame)) {
            Some(known) if known.undecided > 0 => self.take_frame(frame),
            _ => Vec::new(),
        }
    }

    fn take_frame(&mut self, frame: u32) -> Vec<(SentFragment, bool)> {
        let mut arrived: Vec<(SentFragment, bool)> = Vec::new();
        let Some(known) = self.frames.get(u64::from(frame)) else { return arrived };
        let runs: Vec<Run> = (0..known.runs()).rev().map(|place| known.run(place)).collect();
        if known.sufficient > 0 {
            return self.take_sufficient(frame, &runs);
        }
        for run in runs {
            arrived.extend((run.sequence..run.end()).filter_map(|sequence| self.take(sequence)));
        }
        arrived.sort_by_key(|(sent, _)| sent.fragment);
        // The newest copy of a fragment represents all of them.
        arrived.dedup_by(|copy, known| {
            let same = copy.0.fragment == known.0.fragment;
            if same {
                known.1 &= copy.1;
            }
            same
        });
        self.find_oldest();
        arrived
    }

    /// Decides the oldest fragments of a frame with parity, until a sufficient number has arrived. Only the number of
    /// arrived fragments is known, not which ones they are.
    fn take_sufficient(&mut self, frame: u32, runs: &[Run]) -> Vec<(SentFragment, bool)> {
        let known = self.frames.get(u64::from(frame));
        let (undecided, sufficient) =
            known.map_or((0, 0), |known| (known.undecided as usize, usize::from(known.sufficient)));
        let transmitted: usize = runs.iter().map(|run| usize::from(run.length)).sum();
        let arrived = undecided.saturating_sub(transmitted.saturating_sub(sufficient));
        let sequences = runs.iter().rev().flat_map(|run| run.sequence..run.end());
        let arrived = sequences.filter_map(|sequence| self.take(sequence)).take(arrived).collect();
        self.find_oldest();
        arrived
    }

    /// Marks a sequence number as decided. Returns its fragment, and whether it counted as lost.
    fn take(&mut self, sequence: u64) -> Option<(SentFragment, bool)> {
        self.due.set(None);
        let taken = match std::mem::take(self.fragments.get_mut(sequence)?) {
            Fate::Decided => return None,
            Fate::InFlight(sent) => {
                self.in_flight -= 1;
                self.bytes -= sent.size;
                (sent, false)
            }
            Fate::Lost(sent) => (sent, true),
        };
        self.decided(&taken.0);
        Some(taken)
    }

    fn decided(&mut self, sent: &SentFragment) {
        if sent.is_sound() {
            return;
        }
        if let Some(frame) = self.frames.get_mut(u64::from(sent.frame)) {
            frame.undecided = frame.undecided.saturating_sub(1);
        }
    }

    fn is_in_flight(&self, sequence: u64) -> bool {
        matches!(self.fragments.get(sequence), Some(Fate::InFlight(_)))
    }

    /// Skips sequence numbers that are no longer in flight. Forgets decided fragments and old losses.
    fn find_oldest(&mut self) {
        self.due.set(None);
        self.oldest = self.next_in_flight(self.oldest);
        self.oldest_tail = self.next_in_flight(self.oldest_tail.max(self.split()).max(self.oldest));
        self.forget_old();
    }

    #[inline]
    fn forget_old(&mut self) {
        if !matches!(self.fragments.front(), None | Some(Fate::InFlight(_))) {
            self.forget_decided();
        }
    }

    fn forget_decided(&mut self) {
        while let Some(front) = self.fragments.front() {
            match *front {
                Fate::Decided => {}
                Fate::Lost(sent) if self.fragments.first() + REMEMBERED < self.next_sequence => self.decided(&sent),
                _ => break,
            }
            self.fragments.pop_front();
        }
    }

    /// First sequence number in flight from `sequence` on, or the next one to be transmitted.
    fn next_in_flight(&self, mut sequence: u64) -> u64 {
        sequence = sequence.max(self.fragments.first().min(self.next_sequence));
        while sequence < self.next_sequence && !self.is_in_flight(sequence) {
            sequence += 1;
        }
        sequence
    }

    /// Sets the longest time for which the receiver may hold back an acknowledgement.
    pub(crate) fn set_max_hold(&mut self, hold: Duration) {
        if self.max_hold != hold {
            self.max_hold = hold;
            self.update_delays();
        }
    }

    pub(crate) fn sample(&mut self, sample: Duration) {
        match &mut self.round_trip {
            Some(round_trip) => round_trip.update(sample),
            None => self.round_trip = Some(RoundTripTime::first(sample)),
        }
        self.update_delays();
    }

    /// Fragments with a lower sequence number are overtaken: a later one was acknowledged.
    fn split(&self) -> u64 {
        self.largest_acknowledged.unwrap_or(0)
    }

    /// Call this after a change of round-trip time, tolerance, margin, backoff or hold.
    fn update_delays(&mut self) {
        let round_trip = self.round_trip.unwrap_or(self.initial);
        let [smoothed, latest, variation] =
            [round_trip.smoothed, round_trip.latest, round_trip.variation].map(nanoseconds);
        let overtaken = smoothed.max(latest).saturating_mul(self.tolerance.time_eighths().into()) / 8;
        let margin = nanoseconds(self.tolerance.tail_margin()).saturating_add(nanoseconds(self.max_hold));
        let slack = variation.saturating_mul(4).saturating_add(margin);
        let tail = smoothed.saturating_add(slack).max(nanoseconds(MIN_TAIL_GRANULES * TIMER_GRANULARITY));
        let backed_off = tail.saturating_mul(1 << self.backoff.min(16)).min(nanoseconds(MAX_TAIL_DELAY).max(tail));
        let overtaken = overtaken.max(nanoseconds(MIN_LOSS_DELAY));
        self.delays = LossDelays { overtaken, tail: backed_off, slack };
        self.due.set(None);
    }

    /// Time at which the fragment counts as lost without further acknowledgements.
    fn deadline(&self, sequence: u64, sent: &SentFragment) -> Timestamp {
        if sequence < self.split() {
            return later(sent.sent_at, self.delays.overtaken);
        }
        // While acknowledgements arrive, a growing queue is more likely than a loss.
        later(sent.sent_at, self.delays.tail).max(later(self.last_acknowledged_at, self.delays.slack))
    }

    /// Whether the fragment is lost at `now`.
    fn is_over(&self, now: Timestamp, sequence: u64, sent: &SentFragment) -> bool {
        let outnumbered =
            self.largest_acknowledged.is_some_and(|largest| sequence + self.tolerance.packet_threshold() <= largest);
        outnumbered || self.deadline(sequence, sent) <= now
    }

    /// Appends to `lost` the fragments in flight in the range, up to the first that is not lost.
    fn collect(&self, sequences: Range<u64>, lost: &mut Vec<Loss>, mut is_lost: impl FnMut(&Loss) -> bool) {
        for sequence in sequences {
            let Some(&Fate::InFlight(sent)) = self.fragments.get(sequence) else { continue };
            let loss = Loss { sequence, sent, overtaken: sequence < self.split() };
            if !is_lost(&loss) {
                break;
            }
            lost.push(loss);
        }
    }

    /// Returns the fragments that are lost at `now`.
    #[inline]
    pub(crate) fn detect(&mut self, now: Timestamp) -> Vec<Loss> {
        let outnumbered = self.oldest + self.tolerance.packet_threshold() <= self.split();
        let is_due = outnumbered || self.timeout().is_some_and(|at| at <= now);
        if is_due || self.in_flight > MAX_FRAGMENTS_IN_FLIGHT { self.find_lost(now) } else { Vec::new() }
    }

    fn find_lost(&mut self, now: Timestamp) -> Vec<Loss> {
        let mut lost = Vec::new();
        // On each side of the largest acknowledged sequence number, deadlines grow with the sequence number.
        let over = |loss: &Loss| self.is_over(now, loss.sequence, &loss.sent);
        self.collect(self.oldest..self.split(), &mut lost, over);
        let overtaken = lost.len();
        self.collect(self.oldest_tail..self.next_sequence, &mut lost, over);
        let silence = lost.len() > overtaken;
        let excess = self.in_flight.saturating_sub(MAX_FRAGMENTS_IN_FLIGHT);
        if lost.len() < excess {
            lost.clear();
            let mut oldest = 0;
            let is_excess = |_: &Loss| {
                oldest += 1;
                oldest <= excess
            };
            self.collect(self.oldest..self.next_sequence, &mut lost, is_excess);
        }
        if lost.is_empty() {
            return lost;
        }
        if silence {
            self.backoff += 1;
            self.update_delays();
        }
        for &Loss { sequence, sent, .. } in &lost {
            self.in_flight -= 1;
            self.bytes -= sent.size;
            if let Some(fate) = self.fragments.get_mut(sequence) {
                *fate = Fate::Lost(sent);
            }
        }
        self.find_oldest();
        lost
    }

    /// Whether a fragment that was transmitted later has arrived.
    pub(crate) fn is_overtaken(&self, sequence: u64) -> bool {
        self.largest_acknowledged.is_some_and(|largest| sequence < largest)
    }

    #[cfg(test)]
    pub(crate) fn packet_threshold(&self) -> u64 {
        self.tolerance.packet_threshold()
    }
}

#[cfg(test)]
mod model;

#[cfg(test)]
mod tests;
