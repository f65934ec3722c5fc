//! Reassembly of frames: a window over frame numbers in which fragments may arrive in any order.

use std::collections::VecDeque;

use lockstep_units::Timestamp;

use crate::parity::Parity;
use crate::payload::assemble;
use crate::ring::Ring;
use crate::wire::Data;
use crate::{Payload, StateId};

/// Bytes charged per fragment in addition to its payload, so that small fragments cannot exceed the limit in memory.
const FRAGMENT_OVERHEAD: usize = 64;

/// Progress of a frame that was neither handed out nor dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Fragments are missing.
    Collecting,
    /// The fragments, with parity, suffice. The frame waits for its source state or its turn.
    Complete,
}

/// Bits of the arrived fragments after the first 64; few frames have more.
#[derive(Debug, Default)]
struct MoreSeen(Vec<u64>);

/// Header fields that all fragments of a frame share, and which fragments have arrived. For a frame that was handed out
/// or dropped, it detects duplicates.
#[derive(Debug)]
struct Known {
    source: StateId,
    target: StateId,
    captured: Timestamp,
    fragments: u16,
    /// Number of further fragments that suffice, and number of missing fragments that are not parity.
    missing: u16,
    own_missing: u16,
    parity: Option<Parity>,
    key_frame: bool,
    /// Bits of the first 64 fragments that have arrived.
    seen: u64,
    /// Bits of the other fragments, up to the last that has arrived. `None` once all have arrived, unless the frame has
    /// parity.
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

    /// Records a fragment that had not arrived before.
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
    /// Whether parity replaces missing fragments.
    pub(crate) restored: bool,
    /// Fragments and their indices, in the order of arrival.
    parts: Vec<(u16, P)>,
    /// Size in memory, with [`FRAGMENT_OVERHEAD`].
    pub(crate) bytes: usize,
}

/// Result of [`Window::insert`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrived {
    /// The fragment is new.
    New,
    /// The fragment arrived before.
    Duplicate,
    /// The frame is older than the window.
    Late,
    /// The fragment contradicts earlier ones of its frame.
    Inconsistent,
}

/// Window of the newest frames: at most `span` numbers and about `max_bytes` bytes.
#[derive(Debug)]
pub(crate) struct Window<P> {
    /// Known frames, by number.
    known: Ring<Option<Known>>,
    /// Frames that were neither handed out nor dropped, oldest first. Includes frames that the window has passed, until
    /// [`Self::pass`] removes them.
    open: VecDeque<Frame<P>>,
    complete: usize,
    newest: u32,
    span: u32,
    bytes: usize,
    max_bytes: usize,
    changed: bool,
    /// Reused memory for the parts of a frame.
    spare: Vec<(u16, P)>,
}

impl<P: Payload> Window<P> {
    pub(crate) fn new(span: u32, max_bytes: usize) -> Self {
        Self {
            known: Ring::new(),
            open: VecDeque::new(),
            complete: 0,
            newest: 0,
            span: span.max(1),
            bytes: 0,
            max_bytes,
            changed: false,
            spare: Vec::new(),
        }
    }

    /// Newest frame with an arrived fragment; zero at first.
    pub(crate) fn newest(&self) -> u32 {
        self.newest
    }

    fn oldest(&self) -> u32 {
        self.newest.saturating_sub(self.span - 1)
    }

    /// Returns whether a frame was begun, completed, handed out or dropped since the last call.
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
            // The frame was handed out or dropped.
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

    /// Position of an open frame, or the position to insert it.
    fn place(&self, number: u32) -> Result<usize, usize> {
        match self.open.back() {
            Some(newest) if newest.number == number => Ok(self.open.len() - 1),
            Some(newest) if newest.number > number => self.open.binary_search_by_key(&number, |frame| frame.number),
            _ => Err(self.open.len()),
        }
    }

    /// Removes the oldest open frame that the window has passed. Returns its number and stage.
    pub(crate) fn pass(&mut self) -> Option<(u32, Stage)> {
        let oldest = self.oldest();
        let passed = self.open.front().filter(|frame| frame.number < oldest)?.number;
        self.discard(passed).map(|stage| (passed, stage))
    }

    /// The oldest open frame, if the window holds too many bytes.
    pub(crate) fn too_big(&self) -> Option<u32> {
        if self.bytes > self.max_bytes { self.open.front().map(|frame| frame.number) } else { None }
    }

    fn close(&mut self, number: u32) -> Option<Frame<P>> {
        let frame = self.open.remove(self.place(number).ok()?)?;
        self.bytes -= frame.bytes;
        self.complete -= usize::from(frame.stage == Stage::Complete);
        self.changed = true;
        Some(frame)
    }

    /// Removes an open frame and returns it with its payload. The payload is `None` if the fragments contradict each
    /// other. The window still detects duplicates of the frame.
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

    /// Drops an open frame and returns its stage. The window still detects duplicates of the frame.
    pub(crate) fn discard(&mut self, number: u32) -> Option<Stage> {
        self.close(number).map(|frame| frame.stage)
    }

    /// Whether complete frames wait.
    pub(crate) fn has_waiting(&self) -> bool {
        self.complete > 0
    }

    /// Oldest complete frame that is newer than `last`.
    pub(crate) fn next_waiting(&self, last: Option<u32>) -> Option<&Frame<P>> {
        let from = last.map_or(0, |last| self.open.partition_point(|frame| frame.number <= last));
        self.open.range(from..).find(|frame| frame.stage == Stage::Complete)
    }

    /// Writes to `needed` the source states of open frames that are newer than `decoded`. Adds the source states of
    /// older open frames that yield a needed state, recursively.
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
