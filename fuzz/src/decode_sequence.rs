//! Decodes several frames, each after its length. Seeds are real streams.

use lockstep_vp8::{Arena, State};

use crate::decode::checked;
use crate::memory::bounded;

/// Limit on decoded frames per input; more would only cost time.
const FRAMES: usize = 24;
/// Limit on luma samples of a frame. The target `decode` covers larger ones; here they would only cost time.
const SAMPLES: usize = 1 << 18;
/// Memory for the states and one more frame: three references and a new frame of that size. One oversized frame may be
/// decoded before it is detected.
const MEMORY: usize = 256 << 20;

/// Frames of an input: a length of two bytes, little-endian, then that number of bytes or the rest of the input.
pub fn frames(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = data;
    std::iter::from_fn(move || {
        let (length, behind) = rest.split_first_chunk()?;
        let length = usize::from(u16::from_le_bytes(*length)).min(behind.len());
        let (frame, behind) = behind.split_at(length);
        rest = behind;
        Some(frame)
    })
}

/// Whether a frame is an oversized key frame.
fn is_large(frame: &[u8]) -> bool {
    let side = |at: usize| usize::from(u16::from_le_bytes([frame[at], frame[at + 1]]) & 0x3fff);
    frame.len() >= 10 && frame[0] & 1 == 0 && side(6) * side(8) > SAMPLES
}

/// Decodes like a receiver: an invalid frame does not change the state.
pub fn run(data: &[u8]) {
    bounded(MEMORY, || {
        let (arena, mut state) = (Arena::default(), State::default());
        for frame in frames(data).take(FRAMES).filter(|frame| !is_large(frame)) {
            let Ok(next) = checked(&arena, &state, frame) else { continue };
            state = next;
        }
        let restored = State::from_bytes(&state.to_bytes()).expect("a state that was saved");
        assert_eq!(restored.id(), state.id());
        if let Some(frame) = frames(data).filter(|frame| !is_large(frame)).take(FRAMES).last() {
            let hash = |state: &State| checked(&arena, state, frame).map(|state| state.id());
            assert_eq!(hash(&restored), hash(&state), "a restored state decodes differently");
        }
    });
}
