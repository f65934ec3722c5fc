//! Model of [`Window`] for tests: a map of frames that is searched each time.

use std::collections::{BTreeMap, BTreeSet};

use lockstep_units::Timestamp;
use proptest::prelude::*;

use super::{Arrived, FRAGMENT_OVERHEAD, Stage, Window};
use crate::StateId;
use crate::parity::Parity;
use crate::wire::Data;

/// Progress of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Far {
    /// Fragments are missing.
    Collecting,
    /// All fragments have arrived. The frame waits for its source state or its turn.
    Complete,
    /// Handed out or dropped: kept to detect duplicates.
    Settled,
}

/// A frame of the window.
#[derive(Debug)]
struct Frame {
    source: StateId,
    target: StateId,
    captured: Timestamp,
    key_frame: bool,
    stage: Far,
    fragments: u16,
    parity: Option<Parity>,
    missing: u16,
    seen: Vec<u64>,
    payloads: BTreeMap<u16, Vec<u8>>,
    bytes: usize,
}

impl Frame {
    fn new(data: &Data) -> Self {
        Self {
            source: data.source,
            target: data.target,
            captured: data.captured,
            key_frame: data.key_frame,
            stage: Far::Collecting,
            fragments: data.fragments,
            parity: None,
            missing: data.fragments,
            seen: Vec::new(),
            payloads: BTreeMap::new(),
            bytes: 0,
        }
    }

    fn agrees(&self, data: &Data) -> bool {
        (self.source, self.target, self.captured, self.key_frame, self.fragments)
            == (data.source, data.target, data.captured, data.key_frame, data.fragments)
            && (self.parity.is_none() || data.parity.is_none() || self.parity == data.parity)
    }

    fn has(&self, fragment: u16) -> bool {
        self.seen.get(usize::from(fragment) / 64).is_some_and(|word| word >> (fragment % 64) & 1 == 1)
    }
}

/// Window of the newest frames: at most `span` numbers and about `max_bytes` bytes.
#[derive(Debug)]
struct Model {
    frames: BTreeMap<u32, Frame>,
    newest: u32,
    span: u32,
    bytes: usize,
    max_bytes: usize,
}

impl Model {
    fn new(span: u32, max_bytes: usize) -> Self {
        Self { frames: BTreeMap::new(), newest: 0, span: span.max(1), bytes: 0, max_bytes }
    }

    /// Newest frame with an arrived fragment; zero at first.
    fn newest(&self) -> u32 {
        self.newest
    }

    /// Stores a fragment.
    fn insert(&mut self, data: &mut Data) -> Arrived {
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
        frame.parity = frame.parity.or(data.parity);
        if frame.stage == Far::Collecting {
            let payload = std::mem::take(&mut data.payload);
            let cost = payload.len() + FRAGMENT_OVERHEAD;
            frame.bytes += cost;
            self.bytes += cost;
            frame.payloads.insert(data.fragment, payload);
            frame.missing -= 1;
            if frame.missing == 0 {
                frame.stage = Far::Complete;
            }
        }
        Arrived::New
    }

    /// Removes the frames that the window has passed. Returns those that were neither handed out nor dropped.
    fn pass(&mut self) -> Vec<(u32, Far)> {
        let oldest = self.newest.saturating_sub(self.span - 1);
        let kept = self.frames.split_off(&oldest);
        let passed = std::mem::replace(&mut self.frames, kept);
        self.bytes -= passed.values().map(|frame| frame.bytes).sum::<usize>();
        let unsettled = passed.into_iter().filter(|(_, frame)| frame.stage != Far::Settled);
        unsettled.map(|(number, frame)| (number, frame.stage)).collect()
    }

    /// The oldest open frame, if the window holds too many bytes.
    fn too_big(&self) -> Option<(u32, Far)> {
        let mut stored = self.frames.iter().filter(|(_, frame)| frame.stage != Far::Settled);
        if self.bytes > self.max_bytes { stored.next().map(|(&number, frame)| (number, frame.stage)) } else { None }
    }

    /// Takes the payload of a frame, in order, and keeps only the record of its arrival. The model restores nothing.
    fn settle(&mut self, number: u32) -> Option<Option<Vec<u8>>> {
        let frame = self.frames.get_mut(&number)?;
        self.bytes -= std::mem::take(&mut frame.bytes);
        frame.stage = Far::Settled;
        let parts = std::mem::take(&mut frame.payloads);
        let own = parts.range(..frame.fragments).count();
        Some((own == usize::from(frame.fragments)).then(|| parts.into_values().flatten().collect()))
    }

    fn get(&self, number: u32) -> Option<&Frame> {
        self.frames.get(&number)
    }

    /// Complete frames, oldest first.
    fn waiting(&self) -> Vec<u32> {
        let complete = self.frames.iter().filter(|(_, frame)| frame.stage == Far::Complete);
        complete.map(|(&number, _)| number).collect()
    }

    /// Source states of open frames that are newer than `decoded`. Adds the source states of older open frames that
    /// yield a needed state, recursively.
    fn needed(&self, decoded: Option<u32>) -> BTreeSet<StateId> {
        let mut needed = BTreeSet::new();
        for (&number, frame) in self.frames.iter().rev() {
            let newer = decoded.is_none_or(|decoded| number > decoded);
            if frame.stage != Far::Settled && (newer || needed.contains(&frame.target)) {
                needed.insert(frame.source);
            }
        }
        needed
    }
}

fn data(frame: u32, fragment: u16, fragments: u16, source: u64) -> Data {
    Data {
        connection: 1,
        sequence: 0,
        frame,
        fragment,
        fragments,
        parity: None,
        source: StateId(source),
        target: StateId(u64::from(frame) + 100),
        sent_at: Timestamp::ZERO,
        captured: Timestamp::ZERO,
        idle: 0,
        keep_from: 0,
        feedback_doublings: 0,
        anchor: 0,
        key_frame: false,
        payload: vec![frame as u8, fragment as u8],
    }
}

fn far(stage: Stage) -> Far {
    match stage {
        Stage::Collecting => Far::Collecting,
        Stage::Complete => Far::Complete,
    }
}

proptest! {
    /// Fragments in any order: some duplicated, some late, some contradictory. Jumps ahead, frames handed out and
    /// dropped, too many bytes.
    #[test]
    fn window_of_rings_equals_map_of_frames(
        operations in prop::collection::vec((0..20u8, 0..24u32, 0..200u16), 0..400),
        max_bytes in prop::sample::select(vec![200usize, 1_000, 1_000_000]),
    ) {
        let (mut window, mut model) = (Window::<Vec<u8>>::new(16, max_bytes), Model::new(16, max_bytes));
        for (operation, number, small) in operations {
            let frame = (model.newest() + 3).saturating_sub(number);
            let fragments = [1, 2, 3, 150][frame as usize % 4];
            let before = window.waiting();
            let mut needed_before = Vec::new();
            window.needed(Some(3), &mut needed_before);
            match operation {
                0..=13 => {
                    let frame = if operation == 0 && number == 0 { frame + 1_000 } else { frame };
                    let source = u64::from(frame) + if operation == 1 && small < 30 { 7 } else { 99 - u64::from(frame % 3) };
                    let fragments = [1, 2, 3, 150][frame as usize % 4];
                    let mut data = data(frame, small % fragments, fragments, source);
                    if operation > 8 {
                        // Parity that sometimes contradicts itself, and restores nothing.
                        data.fragment += fragments;
                        data.parity = Some(Parity { count: fragments, last: 1 + u16::from(operation == 13) });
                        data.payload.push(0);
                    }
                    let arrived = window.insert(data.clone());
                    prop_assert_eq!(arrived, model.insert(&mut data.clone()));
                    let mut passed = Vec::new();
                    while let Some((frame, stage)) = window.pass() {
                        passed.push((frame, far(stage)));
                    }
                    prop_assert_eq!(passed, model.pass());
                    while let Some(frame) = window.too_big() {
                        let stage = window.discard(frame).map(far);
                        prop_assert_eq!(Some((frame, stage)), model.too_big().map(|(frame, stage)| (frame, Some(stage))));
                        model.settle(frame);
                    }
                    prop_assert_eq!(model.too_big(), None);
                }
                14..=17 => {
                    let waiting = before.get(usize::from(small) % before.len().max(1)).copied();
                    if let Some(frame) = waiting {
                        let payload = window.settle(frame).map(|(settled, payload)| (settled.number, payload));
                        prop_assert_eq!(payload, model.settle(frame).map(|payload| (frame, payload)));
                    }
                }
                18 => {
                    // Most fragments of a large frame at once.
                    for fragment in (0..fragments).rev().filter(|&fragment| fragment % 100 != 3 || small > 100) {
                        let data = data(frame, fragment, fragments, u64::from(frame) + 99 - u64::from(frame % 3));
                        prop_assert_eq!(window.insert(data.clone()), model.insert(&mut data.clone()));
                        while window.pass().is_some() {}
                        model.pass();
                    }
                }
                _ => {
                    if let Some(frame) = before.first().copied() {
                        prop_assert_eq!(window.discard(frame), Some(Stage::Complete));
                        model.settle(frame);
                    }
                }
            }
            prop_assert_eq!(window.newest(), model.newest());
            prop_assert_eq!(window.bytes, model.bytes);
            prop_assert!(window.known.end() - window.known.first() <= 16);
            prop_assert_eq!(window.waiting(), model.waiting());
            prop_assert_eq!(window.has_waiting(), !model.waiting().is_empty());
            if !window.take_changed() {
                prop_assert_eq!(window.waiting(), before);
                let mut needed = Vec::new();
                window.needed(Some(3), &mut needed);
                prop_assert_eq!(needed, needed_before);
            }
            for frame in model.newest().saturating_sub(20)..model.newest() + 3 {
                let open = model.get(frame).filter(|frame| frame.stage != Far::Settled);
                let found = window.place(frame).ok().map(|place| &window.open[place]);
                prop_assert_eq!(found.map(|frame| (frame.source, frame.target)), open.map(|frame| (frame.source, frame.target)));
            }
            let mut needed = Vec::new();
            for decoded in [None, Some(frame), Some(model.newest())] {
                window.needed(decoded, &mut needed);
                prop_assert_eq!(needed.iter().copied().collect::<BTreeSet<_>>(), model.needed(decoded));
            }
        }
    }
}

impl Window<Vec<u8>> {
    fn waiting(&self) -> Vec<u32> {
        let mut waiting = Vec::new();
        while let Some(frame) = self.next_waiting(waiting.last().copied()) {
            waiting.push(frame.number);
        }
        waiting
    }
}

#[test]
fn frame_with_highest_number_waits_once() {
    let mut window = Window::<Vec<u8>>::new(16, 1_000);
    let data = data(u32::MAX, 0, 1, 5);
    assert_eq!(window.insert(data), Arrived::New);
    assert_eq!(window.waiting(), [u32::MAX]);
}

#[test]
fn claimed_fragment_count_allocates_no_memory() {
    let mut window = Window::<Vec<u8>>::new(256, 1_000_000);
    let data = data(60_000, 8_191, 8_192, 5);
    assert_eq!(window.insert(data), Arrived::New);
    assert!(window.open[0].parts.capacity() <= 8 && window.known.end() - window.known.first() == 1);
}
