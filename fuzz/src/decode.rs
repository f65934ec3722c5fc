//! Decodes arbitrary bytes as one frame, from the empty state and from states of our encoder.

use std::sync::LazyLock;

use lockstep_vp8::{Arena, DEFAULT_PIXEL_LIMIT, DecodeError, State, decode, decode_in, is_shown};

use crate::memory::bounded;
use crate::seeds::stream;

/// Fixed memory of decoding: a small part, tables and several prepared frames of 48x32.
const FIXED: usize = 1 << 20;
/// Memory per input byte: 16 macroblocks of a new frame and their data. Borders take up to three times the macroblocks
/// of a narrow picture. A tiny one takes 25 times; `FIXED` covers that.
const PER_BYTE: usize = 64 << 10;

/// The empty state, and the states after the frames of a real stream.
static STATES: LazyLock<Vec<State>> = LazyLock::new(|| {
    let mut states = vec![State::default()];
    for frame in stream() {
        let (next, _) = decode(&states[states.len() - 1], &frame).expect("our own frame");
        states.push(next);
    }
    states
});

/// Decodes a frame and checks that the source state and the size are unchanged.
pub fn checked(arena: &Arena, state: &State, frame: &[u8]) -> Result<State, DecodeError> {
    let before = state.id();
    let result = decode_in(arena, state, frame, DEFAULT_PIXEL_LIMIT);
    assert_eq!(state.id(), before, "decoding changed the source state");
    let (next, picture) = result?;
    assert_eq!(next.size(), Some((picture.width(), picture.height())));
    if !frame.is_empty() {
        assert_eq!(next.is_shown(), is_shown(frame));
    }
    Ok(next)
}

/// Input: one byte for the state, then the frame.
pub fn run(data: &[u8]) {
    let Some((&choice, frame)) = data.split_first() else { return };
    let state = &STATES[usize::from(choice) % STATES.len()];
    bounded(FIXED + PER_BYTE * frame.len(), || {
        let arena = Arena::default();
        let first = checked(&arena, state, frame);
        // The arena reuses the memory of dropped states; its old content must not matter.
        let hash = first.map(|state| state.id());
        assert_eq!(checked(&arena, state, frame).map(|state| state.id()), hash, "the second decoding differs");
    });
}
