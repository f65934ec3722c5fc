//! Frames in the making: a window over frame numbers in which fragments may arrive in any order.

use std::collections::{BTreeMap, BTreeSet};

use lockstep_units::Timestamp;

use crate::StateId;
use crate::payload::Payload;
use crate::wire::Data;

/// What storing one fragment costs beside its payload, so that many small fragments cannot cost more than they count.
const FRAGMENT_OVERHEAD: usize = 64;

/// How far a frame has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Fragments are missing.
    Collecting,
    /// All fragments are there; the frame waits for its source state or its turn.
    Complete,
    /// Handed out or dropped: only remembered to tell duplicates.
    Settled,
}

/// One frame of the window.
#[derive(Debug)]
pub(crate) struct Frame<P> {
    pub(crate) source: StateId,
    pub(crate) target: StateId,
    pub(crate) captured: Timestamp,
    pub(crate) key_frame: bool,
    pub(crate) stage: Stage,
    fragments: u16,
    missing: u16,
    seen: Vec<u64>,
    payloads: BTreeMap<u16, P>,
    bytes: usize,
}

impl<P: Payload> Frame<P> {
    fn new(data: &Data<P>) -> Self {
        Self {
            source: data.source,
            target: data.target,
            captured: data.captured,
            key_frame: data.key_frame,
            stage: Stage::Collecting,
            fragments: data.fragments,
            missing: data.fragments,
            seen: Vec::new(),
            payloads: BTreeMap::new(),
            bytes: 0,
        }
    }

    fn agrees(&self, data: &Data<P>) -> bool {
        (self.source, self.target, self.captured, self.key_frame, self.fragments)
            == (data.source, data.target, data.captured, data.key_frame, data.fragments)
    }

    fn has(&self, fragment: u16) -> bool {
        self.seen.get(usize::from(fragment) / 64).is_some_and(|word| word >> (fragment % 64) & 1 == 1)
    }
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
    frames: BTreeMap<u32, Frame<P>>,
    newest: u32,
    span: u32,
    bytes: usize,
    most_bytes: usize,
}

impl<P: Payload> Window<P> {
    pub(crate) fn new(span: u32, most_bytes: usize) -> Self {
        Self { frames: BTreeMap::new(), newest: 0, span: span.max(1), bytes: 0, most_bytes }
    }

    /// The newest frame of which anything arrived; zero at first.
    pub(crate) fn newest(&self) -> u32 {
        self.newest
    }

    /// Stores a fragment.
    pub(crate) fn insert(&mut self, data: &Data<P>) -> Arrived {
        if self.newest.saturating_sub(data.frame) >= self.span {
            return Arrived::Late;
        }
        let known = self.frames.get(&data.frame);
        if known.is_some_and(|frame| !frame.agrees(data)) {
            return Arrived::Inconsistent;
        }
        if known.is_some_and(|frame| frame.has(data.fragment)) {
            return Arrived::Duplicate;
        }
        self.newest = self.newest.max(data.frame);
        let frame = self.frames.entry(data.frame).or_insert_with(|| Frame::new(data));
        let word = usize::from(data.fragment) / 64;
        if frame.seen.len() <= word {
            frame.seen.resize(word + 1, 0);
        }
        frame.seen[word] |= 1 << (data.fragment % 64);
        frame.missing -= 1;
        if frame.stage == Stage::Collecting {
            let payload = data.payload.clone();
            let cost = payload.length() + FRAGMENT_OVERHEAD;
            frame.bytes += cost;
            self.bytes += cost;
            frame.payloads.insert(data.fragment, payload);
            if frame.missing == 0 {
                frame.stage = Stage::Complete;
            }
        }
        Arrived::New
    }

    /// Forgets the frames that the window has passed; returns those that were neither handed out nor dropped.
    pub(crate) fn pass(&mut self) -> Vec<(u32, Stage)> {
        let oldest = self.newest.saturating_sub(self.span - 1);
        let kept = self.frames.split_off(&oldest);
        let passed = std::mem::replace(&mut self.frames, kept);
        self.bytes -= passed.values().map(|frame| frame.bytes).sum::<usize>();
        let unsettled = passed.into_iter().filter(|(_, frame)| frame.stage != Stage::Settled);
        unsettled.map(|(number, frame)| (number, frame.stage)).collect()
    }

    /// The oldest frame with bytes to give up, while there are too many.
    pub(crate) fn too_big(&self) -> Option<(u32, Stage)> {
        let mut stored = self.frames.iter().filter(|(_, frame)| frame.stage != Stage::Settled);
        if self.bytes > self.most_bytes { stored.next().map(|(&number, frame)| (number, frame.stage)) } else { None }
    }

    /// Takes the payload out of a frame, in order, and remembers only that the frame was here.
    pub(crate) fn settle(&mut self, number: u32) -> Option<P> {
        let frame = self.frames.get_mut(&number)?;
        self.bytes -= std::mem::take(&mut frame.bytes);
        frame.stage = Stage::Settled;
        let parts = std::mem::take(&mut frame.payloads);
        Some(P::join(parts.into_values()))
    }

    pub(crate) fn get(&self, number: u32) -> Option<&Frame<P>> {
        self.frames.get(&number)
    }

    /// The complete frames that wait, oldest first.
    pub(crate) fn waiting(&self) -> Vec<u32> {
        let complete = self.frames.iter().filter(|(_, frame)| frame.stage == Stage::Complete);
        complete.map(|(&number, _)| number).collect()
    }

    /// The states that frames newer than `decoded` which are still to come are decoded from, and those that the older
    /// frames yielding them are decoded from, and so on.
    pub(crate) fn needed(&self, decoded: Option<u32>) -> BTreeSet<StateId> {
        let mut needed = BTreeSet::new();
        for (&number, frame) in self.frames.iter().rev() {
            let newer = decoded.is_none_or(|decoded| number > decoded);
            if frame.stage != Stage::Settled && (newer || needed.contains(&frame.target)) {
                needed.insert(frame.source);
            }
        }
        needed
    }
}
