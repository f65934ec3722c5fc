//! Frames in the making: a window over frame numbers in which fragments may arrive in any order.

use std::collections::VecDeque;

use lockstep_units::Timestamp;

use crate::parity::Parity;
use crate::payload::assemble;
use crate::ring::Ring;
use crate::wire::Data;
use crate::{Payload, StateId};

/// What storing one fragment costs beside its payload, so that many small fragments cannot cost more than they count.
const FRAGMENT_OVERHEAD: usize = 64;

/// How far a frame has come that was neither handed out nor dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Fragments are missing.
    Collecting,
    /// All fragments are there, or enough of them and of parity; the frame waits for its source state or its turn.
    Complete,
}

/// Which of the fragments of a frame have arrived beyond the first 64: few frames have so many.
#[derive(Debug, Default)]
struct MoreSeen(Vec<u64>);

/// What all fragments of a frame say, and which of them have arrived: all that is remembered of a frame that was handed
/// out or dropped, to tell duplicates.
#[derive(Debug)]
struct Known {
    source: StateId,
    target: StateId,
    captured: Timestamp,
    fragments: u16,
    /// How many more suffice, and how many of its own are missing.
    missing: u16,
    own_missing: u16,
    parity: Option<Parity>,
    key_frame: bool,
    /// Which of the first 64 fragments have arrived.
    seen: u64,
    /// The same of the others, up to the last one that has; none again as soon as all have, unless there is parity.
    more: Option<Box<MoreSeen>>,
}

impl Known {
    fn new<P>(data: &Data<P>) -> Self {
        Self {
            source: data.source,
            target: data.target,
            captured: data.captured,
            fragments: data.fragments,
            missing: data.fragments,
            own_missing: data.fragments,
            parity: data.parity,
            key_frame: data.key_frame,
            seen: 0,
            more: None,
        }
    }

    fn agrees<P>(&self, data: &Data<P>) -> bool {
        (self.source, self.target, self.captured, self.key_frame, self.fragments)
            == (data.source, data.target, data.captured, data.key_frame, data.fragments)
            && (self.parity == data.parity || self.parity.is_none() || data.parity.is_none())
    }

    fn has(&self, fragment: u16) -> bool {
        let word = match usize::from(fragment / 64) {
            0 => self.seen,
            word => self.more.as_ref().and_then(|more| more.0.get(word - 1)).copied().unwrap_or(0),
        };
        self.own_missing == 0 && fragment < self.fragments || word >> (fragment % 64) & 1 == 1
    }

    /// Remembers a fragment that had not arrived before.
    fn add(&mut self, fragment: u16, parity: Option<Parity>) {
        let bit = 1 << (fragment % 64);
        match usize::from(fragment / 64) {
            0 => self.seen |= bit,
            word => {
                let more = &mut self.more.get_or_insert_default().0;
                if more.len() < word {
                    more.resize(word, 0);
                }
                more[word - 1] |= bit;
            }
        }
        self.parity = self.parity.or(parity);
        self.missing = self.missing.saturating_sub(1);
        self.own_missing -= u16::from(fragment < self.fragments);
        if self.own_missing == 0 && self.parity.is_none() {
            self.more = None;
        }
    }
}

/// A frame that was neither handed out nor dropped.
#[derive(Debug)]
pub(crate) struct Frame<P> {
    pub(crate) number: u32,
    pub(crate) source: StateId,
    pub(crate) target: StateId,
    pub(crate) captured: Timestamp,
    pub(crate) key_frame: bool,
    pub(crate) stage: Stage,
    fragments: u16,
    parity: Option<Parity>,
    /// Whether parity stands in for some of its fragments.
    pub(crate) restored: bool,
    /// The fragments by their places, in the order of arrival.
    parts: Vec<(u16, P)>,
    bytes: usize,
}

/// What became of a fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrived {
    /// It is new.
    New,
    /// It was there already.
    Duplicate,
    /// Its frame is older than the window.
    Late,
    /// It contradicts the fragments of its frame that are there.
    Inconsistent,
}

/// The newest frames, at most `span` numbers and about `bytes` bytes of them.
#[derive(Debug)]
pub(crate) struct Window<P> {
    /// What is known of frames, by number.
    known: Ring<Option<Known>>,
    /// Those of them that were neither handed out nor dropped, the oldest first, and such as the window has passed
    /// since [`Self::pass`] was asked.
    open: VecDeque<Frame<P>>,
    complete: usize,
    newest: u32,
    span: u32,
    bytes: usize,
    most_bytes: usize,
    changed: bool,
    /// Room for a frame's parts that is used again.
    spare: Vec<(u16, P)>,
}

impl<P: Payload> Window<P> {
    pub(crate) fn new(span: u32, most_bytes: usize) -> Self {
        Self {
            known: Ring::new(),
            open: VecDeque::new(),
            complete: 0,
            newest: 0,
            span: span.max(1),
            bytes: 0,
            most_bytes,
            changed: false,
            spare: Vec::new(),
        }
    }

    /// The newest frame of which anything arrived; zero at first.
    pub(crate) fn newest(&self) -> u32 {
        self.newest
    }

    fn oldest(&self) -> u32 {
        self.newest.saturating_sub(self.span - 1)
    }

    /// Whether a frame was begun, completed, handed out or dropped since the last call.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Stores a fragment.
    pub(crate) fn insert(&mut self, data: Data<P>) -> Arrived {
        if data.frame < self.oldest() {
            return Arrived::Late;
        }
        let number = u64::from(data.frame);
        if let Some(Some(known)) = self.known.get(number) {
            if !known.agrees(&data) {
                return Arrived::Inconsistent;
            }
            if known.has(data.fragment) {
                return Arrived::Duplicate;
            }
        }
        self.newest = self.newest.max(data.frame);
        self.known.forget_before(u64::from(self.oldest()));
        let known = self.known.reach(number);
        let begun = known.is_none();
        let known = known.get_or_insert_with(|| Known::new(&data));
        known.add(data.fragment, data.parity);
        let (is_complete, lacks_own) = (known.missing == 0, known.own_missing > 0);
        let place = match self.place(data.frame) {
            Ok(place) => place,
            // Of a frame that was dropped.
            Err(_) if !begun => return Arrived::New,
            Err(place) => {
                let (source, target) = (data.source, data.target);
                let parts = std::mem::take(&mut self.spare);
                let frame = Frame {
                    number: data.frame,
                    source,
                    target,
                    captured: data.captured,
                    key_frame: data.key_frame,
                    stage: Stage::Collecting,
                    fragments: data.fragments,
                    parity: None,
                    restored: false,
                    parts,
                    bytes: 0,
                };
                self.open.insert(place, frame);
                place
            }
        };
        let frame = &mut self.open[place];
        if frame.stage == Stage::Complete {
            return Arrived::New;
        }
        let cost = data.payload.length() + FRAGMENT_OVERHEAD;
        frame.bytes += cost;
        self.bytes += cost;
        frame.parts.push((data.fragment, data.payload));
        frame.parity = frame.parity.or(data.parity);
        if is_complete {
            frame.restored = lacks_own;
            frame.stage = Stage::Complete;
            self.complete += 1;
        }
        self.changed |= begun || is_complete;
        Arrived::New
    }

    /// Where an open frame is, or would be.
    fn place(&self, number: u32) -> Result<usize, usize> {
        match self.open.back() {
            Some(newest) if newest.number == number => Ok(self.open.len() - 1),
            Some(newest) if newest.number > number => self.open.binary_search_by_key(&number, |frame| frame.number),
            _ => Err(self.open.len()),
        }
    }

    /// Forgets the oldest of the frames that the window has passed and that were neither handed out nor dropped.
    pub(crate) fn pass(&mut self) -> Option<(u32, Stage)> {
        let oldest = self.oldest();
        let passed = self.open.front().filter(|frame| frame.number < oldest)?.number;
        self.discard(passed).map(|stage| (passed, stage))
    }

    /// The oldest frame with bytes to give up, while there are too many.
    pub(crate) fn too_big(&self) -> Option<u32> {
        if self.bytes > self.most_bytes { self.open.front().map(|frame| frame.number) } else { None }
    }

    fn close(&mut self, number: u32) -> Option<Frame<P>> {
        let frame = self.open.remove(self.place(number).ok()?)?;
        self.bytes -= frame.bytes;
        self.complete -= usize::from(frame.stage == Stage::Complete);
        self.changed = true;
        Some(frame)
    }

    /// Takes an open frame out with its payload, none if its fragments contradict each other, and remembers only that it was
    /// here.
    pub(crate) fn settle(&mut self, number: u32) -> Option<(Frame<P>, Option<P>)> {
        let mut frame = self.close(number)?;
        if !frame.parts.is_sorted_by_key(|&(fragment, _)| fragment) {
            frame.parts.sort_unstable_by_key(|&(fragment, _)| fragment);
        }
        self.spare = std::mem::take(&mut frame.parts);
        let payload = assemble(&mut self.spare, frame.fragments, frame.parity);
        self.spare.clear();
        Some((frame, payload))
    }

    /// Drops an open frame, and remembers only that it was here. Returns how far it had come.
    pub(crate) fn discard(&mut self, number: u32) -> Option<Stage> {
        self.close(number).map(|frame| frame.stage)
    }

    /// Whether complete frames wait.
    pub(crate) fn has_waiting(&self) -> bool {
        self.complete > 0
    }

    /// The oldest complete frame that waits, newer than `last`.
    pub(crate) fn next_waiting(&self, last: Option<u32>) -> Option<&Frame<P>> {
        let from = last.map_or(0, |last| self.open.partition_point(|frame| frame.number <= last));
        self.open.range(from..).find(|frame| frame.stage == Stage::Complete)
    }

    /// Puts into `needed` the states that frames newer than `decoded` which are still to come are decoded from, and
    /// those that the older frames yielding them are decoded from, and so on.
    pub(crate) fn needed(&self, decoded: Option<u32>, needed: &mut Vec<StateId>) {
        needed.clear();
        for frame in self.open.iter().rev() {
            let newer = decoded.is_none_or(|decoded| frame.number > decoded);
            if newer || needed.contains(&frame.target) {
                needed.push(frame.source);
            }
        }
    }
}

#[cfg(test)]
mod model;
