//! Model of [`LossDetection`] for tests: maps without cached values.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// Whether a named fragment was transmitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    /// It was not transmitted.
    Never,
    /// It was transmitted too long ago.
    Forgotten,
    /// It was transmitted with this sequence number.
    Sequence(u64),
}

#[derive(Debug)]
struct Model {
    in_flight: BTreeMap<u64, SentFragment>,
    bytes: ByteCount,
    lost: BTreeMap<u64, SentFragment>,
    /// Transmitted fragments of each frame, in the order of transmission. Without retransmission a frame is one run.
    frames: BTreeMap<u32, Vec<Run>>,
    /// Number of fragments that suffice, for frames with parity.
    sufficient: BTreeMap<u32, u16>,
    next_sequence: u64,
    largest_acknowledged: Option<u64>,
    last_acknowledged_at: Timestamp,
    tolerance: Tolerance,
    backoff: u32,
    initial: RoundTripTime,
    round_trip: Option<RoundTripTime>,
    max_hold: Duration,
}

/// The default configuration with another assumed round-trip time.
pub(super) fn assuming(first_round_trip: Duration) -> LossDetectionConfig {
    LossDetectionConfig { first_round_trip, ..LossDetectionConfig::default() }
}

impl Model {
    fn new(config: LossDetectionConfig, max_hold: Duration) -> Self {
        Self {
            in_flight: BTreeMap::new(),
            bytes: ByteCount::ZERO,
            lost: BTreeMap::new(),
            frames: BTreeMap::new(),
            sufficient: BTreeMap::new(),
            next_sequence: 0,
            largest_acknowledged: None,
            last_acknowledged_at: Timestamp::ZERO,
            tolerance: Tolerance::new(config),
            backoff: 0,
            initial: RoundTripTime::assumed(config.first_round_trip),
            round_trip: None,
            max_hold,
        }
    }

    fn in_flight(&self) -> (usize, ByteCount) {
        (self.in_flight.len(), self.bytes)
    }

    fn transmitted(&mut self, sent: SentFragment) {
        let runs = self.frames.entry(sent.frame).or_default();
        let follows = |run: &Run| {
            (run.sequence + u64::from(run.length), u32::from(run.fragment) + u32::from(run.length))
                == (self.next_sequence, u32::from(sent.fragment))
        };
        match runs.last_mut().filter(|run| follows(run)) {
            Some(run) => run.length += 1,
            None => runs.push(Run { sequence: self.next_sequence, fragment: sent.fragment, length: 1 }),
        }
        let newest = sent.frame;
        self.frames.retain(|&frame, _| u64::from(frame) + REMEMBERED_FRAMES > u64::from(newest));
        self.in_flight.insert(self.next_sequence, sent);
        self.bytes += sent.size;
        self.next_sequence += 1;
        self.forget();
    }

    fn forget(&mut self) {
        self.lost.retain(|&sequence, _| sequence + REMEMBERED >= self.next_sequence);
    }

    /// Whether at least one fragment of the frame was transmitted.
    fn was_transmitted(&self, frame: u32) -> bool {
        self.frames.contains_key(&frame) || self.is_forgotten(frame)
    }

    fn is_forgotten(&self, frame: u32) -> bool {
        self.frames.keys().next().is_some_and(|&oldest| frame < oldest)
    }

    /// Sequence numbers of a fragment, newest first.
    fn copies(&self, frame: u32, fragment: u16) -> impl Iterator<Item = u64> + '_ {
        let runs = self.frames.get(&frame).map_or(&[][..], Vec::as_slice);
        runs.iter().rev().filter_map(move |run| run.find(fragment))
    }

    /// The newest copy of a fragment with a sequence number of at most `highest`.
    fn find(&self, frame: u32, fragment: u16, highest: u64) -> Named {
        if self.is_forgotten(frame) {
            return Named::Forgotten;
        }
        let arrived = self.copies(frame, fragment).find(|&sequence| sequence <= highest);
        arrived.map_or(Named::Never, Named::Sequence)
    }

    /// The fragment with this sequence number, unless it was acknowledged or is no longer remembered.
    fn get(&self, sequence: u64) -> Option<&SentFragment> {
        self.in_flight.get(&sequence).or_else(|| self.lost.get(&sequence))
    }

    /// Records that the receiver has the fragment. Returns it, and whether it had been declared lost. Returns `None` if
    /// this was known.
    fn acknowledge(&mut self, now: Timestamp, sequence: u64) -> Option<(SentFragment, bool)> {
        let taken = self.take(sequence);
        let Some((sent, spurious)) = taken else { return taken };
        // The receiver acknowledges only the first copy that arrives.
        for copy in self.copies(sent.frame, sent.fragment).collect::<Vec<_>>() {
            self.take(copy);
        }
        let overtaken_by =
            self.largest_acknowledged.filter(|&newest| newest > sequence).map(|newest| newest - sequence + 1);
        if spurious {
            let round_trip = self.round_trip.unwrap_or(self.initial);
            let expected = sent.sent_at + round_trip.smoothed + round_trip.variation * 4;
            self.tolerance.on_spurious_loss(now.saturating_since(expected), overtaken_by);
        }
        self.last_acknowledged_at = now;
        self.backoff = 0;
        self.largest_acknowledged = self.largest_acknowledged.max(Some(sequence));
        self.tolerance.acknowledged();
        taken
    }

    /// Records that the receiver has decoded the frame, so all its fragments arrived. Returns those that were not
    /// acknowledged, and whether all their copies had been declared lost.
    fn frame_arrived(&mut self, frame: u32) -> Vec<(SentFragment, bool)> {
        let Some(runs) = self.frames.get(&frame) else { return Vec::new() };
        if let Some(&sufficient) = self.sufficient.get(&frame) {
            let sequences: Vec<u64> = runs.iter().flat_map(|run| run.sequence..run.end()).collect();
            let open = sequences.iter().filter(|&&sequence| self.get(sequence).is_some()).count();
            let missing = sequences.len().saturating_sub(sufficient.into());
            let arrived = open.saturating_sub(missing);
            return sequences.into_iter().filter_map(|sequence| self.take(sequence)).take(arrived).collect();
        }
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

    fn sample(&mut self, sample: Duration) {
        match &mut self.round_trip {
            Some(round_trip) => round_trip.update(sample),
            None => self.round_trip = Some(RoundTripTime::first(sample)),
        }
    }

    /// Time at which the fragment counts as lost without further acknowledgements.
    fn deadline(&self, sequence: u64, sent: &SentFragment) -> Timestamp {
        let round_trip = self.round_trip.unwrap_or(self.initial);
        if self.largest_acknowledged.is_some_and(|largest| sequence < largest) {
            let delay = round_trip.smoothed.max(round_trip.latest) * self.tolerance.time_eighths() / 8;
            return sent.sent_at + delay.max(MIN_LOSS_DELAY);
        }
        let slack = round_trip.variation * 4 + self.tolerance.tail_margin() + self.max_hold;
        let tail = (round_trip.smoothed + slack).max(MIN_TAIL_GRANULES * TIMER_GRANULARITY);
        let backed_off = tail.saturating_mul(1 << self.backoff.min(16)).min(MAX_TAIL_DELAY.max(tail));
        // While acknowledgements arrive, a growing queue is more likely than a loss.
        (sent.sent_at + backed_off).max(self.last_acknowledged_at + slack)
    }

    fn is_outnumbered(&self, sequence: u64) -> bool {
        self.largest_acknowledged.is_some_and(|largest| sequence + self.tolerance.packet_threshold() <= largest)
    }

    /// Returns the fragments that are lost at `now`.
    fn detect(&mut self, now: Timestamp) -> Vec<Loss> {
        let excess = self.in_flight.len().saturating_sub(MAX_FRAGMENTS_IN_FLIGHT);
        let over = |&(&sequence, sent): &(&u64, &SentFragment)| {
            self.is_outnumbered(sequence) || self.deadline(sequence, sent) <= now
        };
        // On each side of the largest acknowledged sequence number, deadlines grow with the sequence number.
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
        self.forget();
        fragments
    }

    /// Time at which [`Self::detect`] finds a loss without further acknowledgements.
    fn timeout(&self) -> Option<Timestamp> {
        let split = self.largest_acknowledged.unwrap_or(0);
        let sides = [self.in_flight.range(..split).next(), self.in_flight.range(split..).next()];
        sides.into_iter().flatten().map(|(&sequence, sent)| self.deadline(sequence, sent)).min()
    }

    /// Whether a fragment that was transmitted later has arrived.
    fn is_overtaken(&self, sequence: u64) -> bool {
        self.largest_acknowledged.is_some_and(|largest| sequence < largest)
    }
}

proptest! {
    /// Frames of a few fragments, some never transmitted, some retransmitted. Acknowledgements in any order, some late,
    /// some of fragments that were never sent. Silence.
    #[test]
    fn rings_detect_the_same_losses_as_maps(
        operations in prop::collection::vec((0..16u8, 0..40u64, 0..6u16), 0..400),
        stride in prop::sample::select(vec![1, 1, 1, 200, 5_000]),
        hold in prop::sample::select(vec![0, 20]),
    ) {
        let hold = Duration::from_millis(hold);
        let initial = assuming(Duration::from_millis(100));
        let (mut rings, mut maps) = (LossDetection::new(initial, hold), Model::new(initial, hold));
        let (mut now, mut frame, mut fragment) = (Timestamp::from_millis(1), 3u32, 0u16);
        for (operation, number, small) in operations {
            now += Duration::from_micros(number * 100);
            let back = rings.next_sequence().saturating_sub(number);
            match operation {
                0..=6 => {
                    let again = operation == 6;
                    if !again && small == 0 {
                        frame += if number == 0 { stride } else { 1 };
                        fragment = 0;
                    }
                    let copied = (frame.saturating_sub(number as u32 / 10), small.min(fragment));
                    let (frame, fragment) = if again { copied } else { (frame, fragment) };
                    let sent = SentFragment { frame, fragment, size: ByteCount::new(number), sent_at: now };
                    // A frame without any transmitted fragment has no retransmission.
                    if !again || rings.was_transmitted(frame) && !rings.is_forgotten(frame) {
                        rings.transmitted(sent);
                        maps.transmitted(sent);
                    }
                }
                7..=11 => prop_assert_eq!(rings.acknowledge(now, back), maps.acknowledge(now, back)),
                12 if small == 5 && rings.was_transmitted(frame) && !rings.is_forgotten(frame) => {
                    rings.protect(frame, 1 + number as u16 % 4);
                    maps.sufficient.insert(frame, 1 + number as u16 % 4);
                }
                12 => {
                    let arrived = frame.saturating_sub(number as u32 / 4);
                    prop_assert_eq!(rings.frame_arrived(arrived), maps.frame_arrived(arrived));
                }
                13 => {
                    rings.sample(Duration::from_millis(number));
                    maps.sample(Duration::from_millis(number));
                }
                14 => {
                    now = maps.timeout().map_or(now, |timeout| timeout.max(now));
                    prop_assert_eq!(rings.detect(now), maps.detect(now));
                }
                _ => prop_assert_eq!(rings.detect(now), maps.detect(now)),
            }
            if operation < 6 {
                fragment += 1;
            }
            prop_assert_eq!(rings.in_flight(), maps.in_flight());
            prop_assert_eq!(rings.timeout(), maps.timeout());
            prop_assert_eq!(rings.get(back), maps.get(back));
            prop_assert_eq!(rings.is_overtaken(back), maps.is_overtaken(back));
            let named = frame.saturating_sub(number as u32);
            prop_assert_eq!(rings.was_transmitted(named), maps.was_transmitted(named));
            let list = [(named, small), (named, small + 1), (named + 1, small)];
            let mut open = Vec::new();
            let possible = rings.find_open(list.into_iter(), back, &mut open);
            let found = list.map(|(frame, fragment)| maps.find(frame, fragment, back));
            prop_assert_eq!(possible, !found.contains(&Named::Never));
            let expected = found.into_iter().enumerate().filter_map(|(place, named)| match named {
                Named::Sequence(sequence) => maps.get(sequence).map(|_| (place, sequence)),
                Named::Never | Named::Forgotten => None,
            });
            prop_assert!(!possible || expected.eq(open));
        }
    }
}

#[test]
fn losses_are_remembered_over_a_bounded_distance() {
    let mut loss = LossDetection::new(assuming(Duration::from_millis(100)), Duration::ZERO);
    let sent = |frame| SentFragment { frame, fragment: 0, size: ByteCount::new(1), sent_at: Timestamp::ZERO };
    loss.transmitted(sent(0));
    assert_eq!(loss.detect(Timestamp::from_millis(10_000)).len(), 1);
    for frame in 1..=REMEMBERED as u32 {
        assert!(loss.get(0).is_some(), "{frame} later");
        loss.transmitted(sent(frame));
        assert!(loss.acknowledge(Timestamp::from_millis(10_000), u64::from(frame)).is_some());
    }
    assert_eq!((loss.get(0), loss.in_flight()), (None, (0, ByteCount::ZERO)));
    let mut open = Vec::new();
    assert!(loss.find_open([(0, 0)].into_iter(), 5, &mut open) && open.is_empty());
    assert!(loss.fragments.is_empty() && loss.frames.end() - loss.frames.first() == REMEMBERED_FRAMES);
}

#[test]
fn fragments_in_flight_are_bounded() {
    let mut loss = LossDetection::new(assuming(Duration::from_millis(100)), Duration::ZERO);
    let size = ByteCount::new(1);
    for frame in 0..MAX_FRAGMENTS_IN_FLIGHT as u32 + 10 {
        loss.transmitted(SentFragment { frame, fragment: 0, size, sent_at: Timestamp::ZERO });
    }
    let lost: Vec<u64> = loss.detect(Timestamp::ZERO).into_iter().map(|loss| loss.sequence).collect();
    assert_eq!(lost, (0..10).collect::<Vec<_>>());
    assert_eq!(loss.in_flight().0, MAX_FRAGMENTS_IN_FLIGHT);
}
