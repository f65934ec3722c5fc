//! Several frames, each behind its length: real streams, changed.

use lockstep_vp8::{Arena, State};

use crate::decode::checked;
use crate::memory::bounded;

/// Frames that are decoded of one input; the others cost time only.
const FRAMES: usize = 24;
/// Frames of more luma samples than this are for `decode`, here they cost time only.
const SAMPLES: usize = 1 << 18;
/// What the states and one frame more may take: three references and a new frame at the size above, and one oversized
/// frame before it is noticed.
const MEMORY: usize = 256 << 20;

/// The frames of an input: two bytes of length, little-endian, and so many bytes or what is left.
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

/// Whether a frame is a key frame of a large size.
fn is_large(frame: &[u8]) -> bool {
    let side = |at: usize| usize::from(u16::from_le_bytes([frame[at], frame[at + 1]]) & 0x3fff);
    frame.len() >= 10 && frame[0] & 1 == 0 && side(6) * side(8) > SAMPLES
}

/// Decodes as a receiver does: a frame that is an error leaves the state as it is.
pub fn run(data: &[u8]) {
    bounded(MEMORY, || {
        let (arena, mut state) = (Arena::default(), State::default());
        for frame in frames(data).take(FRAMES).filter(|frame| !is_large(frame)) {
            let Ok(next) = checked(&arena, &state, frame) else { continue };
            state = next;
        }
        let restored = State::from_bytes(&state.to_bytes()).expect("a state that was saved");
        assert_eq!(restored.hash(), state.hash());
        if let Some(frame) = frames(data).filter(|frame| !is_large(frame)).take(FRAMES).last() {
            let hash = |state: &State| checked(&arena, state, frame).map(|state| state.hash());
            assert_eq!(hash(&restored), hash(&state), "a restored state decodes otherwise");
        }
    });
}
