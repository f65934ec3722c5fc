//! Which fragments are under way, which were lost.
//!
//! A fragment is lost when some later one was acknowledged and either enough newer ones were or enough time has passed
//! (RFC 9002, section 6.1), or when nothing was heard for longer than a round trip takes (as the probe timeout of RFC
//! 9002, section 6.2, but it declares the loss: whether anything is sent again is not decided here).

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
use tolerance::Tolerance;

/// An overtaken fragment is given at least this long after its transmission: timers are no finer.
const LEAST_TIME: Duration = Duration::from_millis(2);
/// The tail timer never waits less than this many margins.
const LEAST_TAIL: u32 = 2;
/// Fragments under way beyond this number count as lost.
const MOST_IN_FLIGHT: usize = 16_384;
/// Lost fragments are remembered, to recognise late acknowledgements, until so many more were transmitted.
const REMEMBERED: u64 = 2_048;
/// So many frame numbers, up to the newest transmitted one, are remembered for the same reason.
const REMEMBERED_FRAMES: u64 = 1_024;

/// Granularity of timers: the tail timer waits this much longer than round trip and variation.
pub(crate) const TIMER_GRANULARITY: Duration = Duration::from_millis(10);
/// The tail timer does not back off beyond this: a bound.
pub(crate) const MOST_TAIL: Duration = Duration::from_secs(3);

lockstep_units::config! {
    /// Loss detection.
    pub struct LossDetectionConfig = "loss_detection" {
        /// Round trip that is assumed before the first sample.
        first_round_trip: Duration = 0.2, "s", 0.001..=10.0, "2026-11-control-ablation";
        /// Packet threshold after much reordering; 3 at first (RFC 9002, section 6.1.1).
        most_packet_threshold: u64 = 64, "packets", 3..=16_384, "2026-11-control-ablation";
        /// Time threshold after much reordering, in round trips; 9/8 at first (RFC 9002, section 6.1.2).
        most_time_threshold: f64 = 2.0, "round trips", 1.125..=16.0, "2026-11-control-ablation";
        /// Acknowledged fragments without a spurious loss until one step of tolerance is taken back.
        calm: u32 = 512, "packets", 1..=65_536, "2026-11-control-ablation";
    }
}

/// A fragment that was transmitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SentFragment {
    pub(crate) frame: u32,
    pub(crate) fragment: u16,
    pub(crate) size: ByteCount,
    pub(crate) sent_at: Timestamp,
}

impl SentFragment {
    /// Whether it was a packet of sound, which belongs to no frame of video.
    pub(crate) fn is_sound(&self) -> bool {
        self.fragment == SOUND
    }
}

/// Successive fragments of one frame that were transmitted one after another.
#[derive(Debug, Clone, Copy, Default)]
struct Run {
    /// The sequence number of the first.
    sequence: u64,
    /// Its place in the frame.
    fragment: u16,
    length: u16,
}

impl Run {
    /// The sequence number of a fragment.
    #[inline]
    fn find(&self, fragment: u16) -> Option<u64> {
        let offset = fragment.checked_sub(self.fragment).filter(|&offset| offset < self.length)?;
        Some(self.sequence + u64::from(offset))
    }

    /// The sequence number after the last one's.
    fn end(&self) -> u64 {
        self.sequence + u64::from(self.length)
    }

    fn is_followed_by(&self, sequence: u64, fragment: u16) -> bool {
        let next = u32::from(self.fragment) + u32::from(self.length);
        (self.end(), next) == (sequence, u32::from(fragment))
    }
}

/// What is known of one sequence number.
#[derive(Debug, Clone, Copy, Default)]
enum Fate {
    /// It was acknowledged, or its frame was, or it is remembered no longer.
    #[default]
    Decided,
    InFlight(SentFragment),
    Lost(SentFragment),
}

/// Runs of a frame but the first.
#[derive(Debug, Default)]
struct MoreRuns(Vec<Run>);

/// What was transmitted of a frame.
#[derive(Debug, Default)]
struct TransmittedFrame {
    /// The first run; its length is 0 if nothing was transmitted.
    first: Run,
    /// The others, in the order of transmission. There are none where nothing is sent again, and so they are apart: a
    /// thousand frames are remembered of each of a thousand calls.
    more: Option<Box<MoreRuns>>,
    /// How many of the transmitted fragments are in flight or remembered as lost.
    undecided: u32,
    /// How many fragments suffice; zero where all are needed.
    sufficient: u16,
}

impl TransmittedFrame {
    fn more(&self) -> &[Run] {
        self.more.as_ref().map_or(&[], |more| &more.0)
    }

    fn runs(&self) -> usize {
        if self.first.length == 0 { 0 } else { 1 + self.more().len() }
    }

    /// A run by its place in the order of transmission, which must be less than [`Self::runs`].
    fn run(&self, place: usize) -> Run {
        place.checked_sub(1).map_or(self.first, |place| self.more()[place])
    }

    /// The sequence number of the newest copy of a fragment, but not above `highest`.
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

/// What [`LossDetection::detect`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Loss {
    pub(crate) sequence: u64,
    pub(crate) sent: SentFragment,
    /// Something transmitted later has arrived; otherwise nothing was heard for too long.
    pub(crate) overtaken: bool,
}

/// How long is waited for a fragment, by what is known of the path, in nanoseconds: every event of a call asks.
#[derive(Debug, Clone, Copy, Default)]
struct Patience {
    /// For one that was overtaken, from its transmission on.
    overtaken: u64,
    /// For another, from its transmission on, ...
    tail: u64,
    /// ... and from the last news on.
    slack: u64,
}

fn later(moment: Timestamp, nanoseconds: u64) -> Timestamp {
    Timestamp::from_nanos(moment.as_nanos().saturating_add(nanoseconds))
}

#[derive(Debug)]
pub(crate) struct LossDetection {
    /// By sequence number, from the oldest on that is in flight or remembered as lost.
    fragments: Ring<Fate>,
    in_flight: usize,
    bytes: ByteCount,
    /// No older sequence number is in flight.
    oldest: u64,
    /// None that is older and not overtaken is in flight.
    oldest_tail: u64,
    /// By number. The first was transmitted, at least in part.
    frames: Ring<TransmittedFrame>,
    sound: TransmittedSound,
    next_sequence: u64,
    largest_acknowledged: Option<u64>,
    heard_at: Timestamp,
    tolerance: Tolerance,
    backoff: u32,
    initial: RoundTripTime,
    round_trip: Option<RoundTripTime>,
    /// How long the receiver may take to tell of an arrival.
    longest_hold: Duration,
    patience: Patience,
    /// What [`Self::timeout`] gave last, until something changes: each event of a call asks twice or more, and few of them
    /// are news.
    due: Cell<Option<Due>>,
}

impl LossDetection {
    pub(crate) fn new(config: LossDetectionConfig, longest_hold: Duration) -> Self {
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
            heard_at: Timestamp::ZERO,
            tolerance: Tolerance::new(config),
            backoff: 0,
            initial: RoundTripTime::assumed(config.first_round_trip),
            round_trip: None,
            longest_hold,
            patience: Patience::default(),
            due: Cell::new(None),
        };
        detection.set_patience();
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
            // As below, where a frame's first fragment has made room for it.
            known.transmitted(sequence, sent.fragment);
        } else if !self.is_forgotten(sent.frame) {
            self.frames.forget_before((frame + 1).saturating_sub(REMEMBERED_FRAMES));
            self.frames.reach(frame).transmitted(sequence, sent.fragment);
            while self.frames.front().is_some_and(|oldest| oldest.runs() == 0) {
                self.frames.pop_front();
            }
        }
    }

    /// Whether anything was transmitted of a frame.
    pub(crate) fn was_transmitted(&self, frame: u32) -> bool {
        self.frames.get(u64::from(frame)).is_some_and(|known| known.runs() > 0) || self.is_forgotten(frame)
    }

    fn is_forgotten(&self, frame: u32) -> bool {
        !self.frames.is_empty() && u64::from(frame) < self.frames.first()
    }

    /// Puts into `open` the sequence numbers of those of the `named` fragments (frame and place in it) that are not
    /// decided yet, each with its place among them, and says whether each was transmitted or is remembered no longer,
    /// as somebody knows it to whom the datagram `highest` is the newest. Most are named again and again, and decided
    /// long since.
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

    /// The fragment with this sequence number, if it was not acknowledged yet nor forgotten.
    pub(crate) fn get(&self, sequence: u64) -> Option<&SentFragment> {
        match self.fragments.get(sequence)? {
            Fate::Decided => None,
            Fate::InFlight(sent) | Fate::Lost(sent) => Some(sent),
        }
    }

    /// The receiver has it. Returns the fragment, and whether it had been declared lost, unless this was known.
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
            self.tolerance.mistaken(now.saturating_since(expected), overtaken_by);
        }
        self.heard_at = now;
        let backed_off = std::mem::take(&mut self.backoff) > 0;
        if overtaken_by.is_none() {
            self.largest_acknowledged = Some(sequence);
        }
        let taken_back = self.tolerance.acknowledged();
        if spurious || backed_off || taken_back {
            self.set_patience();
        }
        self.find_oldest();
        Some((sent, spurious))
    }

    /// The receiver acknowledges the first copy that comes; nothing will be heard of the others.
    fn take_copies(&mut self, sent: &SentFragment) {
        let frame = u64::from(sent.frame);
        let runs = self.frames.get(frame).filter(|known| known.undecided > 0).map_or(0, TransmittedFrame::runs);
        if runs < 2 {
            // The only copy was taken already.
            return;
        }
        for place in (0..runs).rev() {
            let run = self.frames.get(frame).map(|known| known.run(place)).unwrap_or_default();
            if let Some(copy) = run.find(sent.fragment) {
                self.take(copy);
            }
        }
    }

    /// The receiver restores the frame, of which parity is about to be transmitted, from any so many fragments.
    pub(crate) fn protect(&mut self, frame: u32, sufficient: u16) {
        if let Some(known) = self.frames.get_mut(u64::from(frame)) {
            known.sufficient = sufficient;
        }
    }

    /// The receiver has decoded the frame, so all its fragments arrived, or as many as suffice; returns those of them that
    /// nobody acknowledged, with whether all their copies had been declared lost.
    #[inline]
    pub(crate) fn frame_arrived(&mut self, frame: u32) -> Vec<(SentFragment, bool)> {
        // Told again and again, and known mostly.
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
        // Of copies, the one that was transmitted last stands for all.
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

    /// Of a frame with parity, the oldest fragments, until as many have arrived as suffice: which ones it were of those that
    /// nobody acknowledged is not known, but that there were so many.
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

    /// Decides about a sequence number; returns what was transmitted under it and whether it counted as lost.
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

    /// Moves past what is in flight no longer, and forgets what is decided or was lost too long ago.
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

    /// The first one in flight from `sequence` on, or the next that is transmitted.
    fn next_in_flight(&self, mut sequence: u64) -> u64 {
        sequence = sequence.max(self.fragments.first().min(self.next_sequence));
        while sequence < self.next_sequence && !self.is_in_flight(sequence) {
            sequence += 1;
        }
        sequence
    }

    /// From now on the receiver may take so long to tell of an arrival.
    pub(crate) fn set_longest_hold(&mut self, hold: Duration) {
        if self.longest_hold != hold {
            self.longest_hold = hold;
            self.set_patience();
        }
    }

    pub(crate) fn sample(&mut self, sample: Duration) {
        match &mut self.round_trip {
            Some(round_trip) => round_trip.update(sample),
            None => self.round_trip = Some(RoundTripTime::first(sample)),
        }
        self.set_patience();
    }

    /// Older fragments were overtaken by one that was acknowledged.
    fn split(&self) -> u64 {
        self.largest_acknowledged.unwrap_or(0)
    }

    /// To be called when round-trip time, tolerance, margin, backoff or hold have changed.
    fn set_patience(&mut self) {
        let round_trip = self.round_trip.unwrap_or(self.initial);
        let [smoothed, latest, variation] =
            [round_trip.smoothed, round_trip.latest, round_trip.variation].map(nanoseconds);
        let overtaken = smoothed.max(latest).saturating_mul(self.tolerance.time_eighths().into()) / 8;
        let margin = nanoseconds(self.tolerance.tail_margin()).saturating_add(nanoseconds(self.longest_hold));
        let slack = variation.saturating_mul(4).saturating_add(margin);
        let tail = smoothed.saturating_add(slack).max(nanoseconds(LEAST_TAIL * TIMER_GRANULARITY));
        let backed_off = tail.saturating_mul(1 << self.backoff.min(16)).min(nanoseconds(MOST_TAIL).max(tail));
        let overtaken = overtaken.max(nanoseconds(LEAST_TIME));
        self.patience = Patience { overtaken, tail: backed_off, slack };
        self.due.set(None);
    }

    /// When the fragment counts as lost if nothing more is heard.
    fn deadline(&self, sequence: u64, sent: &SentFragment) -> Timestamp {
        if sequence < self.split() {
            return later(sent.sent_at, self.patience.overtaken);
        }
        // As long as acknowledgements keep coming, a queue that grows is likelier than a loss.
        later(sent.sent_at, self.patience.tail).max(later(self.heard_at, self.patience.slack))
    }

    /// Whether the fragment is lost by `now`.
    fn is_over(&self, now: Timestamp, sequence: u64, sent: &SentFragment) -> bool {
        let outnumbered =
            self.largest_acknowledged.is_some_and(|largest| sequence + self.tolerance.packet_threshold() <= largest);
        outnumbered || self.deadline(sequence, sent) <= now
    }

    /// Adds to `lost` the fragments in flight among `sequences`, up to the first that is not lost.
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

    /// The fragments that are lost by `now`.
    #[inline]
    pub(crate) fn detect(&mut self, now: Timestamp) -> Vec<Loss> {
        let outnumbered = self.oldest + self.tolerance.packet_threshold() <= self.split();
        let is_due = outnumbered || self.timeout().is_some_and(|at| at <= now);
        if is_due || self.in_flight > MOST_IN_FLIGHT { self.find_lost(now) } else { Vec::new() }
    }

    fn find_lost(&mut self, now: Timestamp) -> Vec<Loss> {
        let mut lost = Vec::new();
        // Deadlines grow with the sequence number on each side of the largest acknowledged one.
        let over = |loss: &Loss| self.is_over(now, loss.sequence, &loss.sent);
        self.collect(self.oldest..self.split(), &mut lost, over);
        let overtaken = lost.len();
        self.collect(self.oldest_tail..self.next_sequence, &mut lost, over);
        let silence = lost.len() > overtaken;
        let excess = self.in_flight.saturating_sub(MOST_IN_FLIGHT);
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
            self.set_patience();
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

    /// Whether something that was transmitted later has arrived.
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
