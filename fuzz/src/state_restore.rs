//! Parses arbitrary bytes as a saved state. A restored state must decode and encode like the original.

use arbitrary::Unstructured;
use lockstep_vp8::{Arena, State, StateError};

use crate::decode::checked;
use crate::encode_round_trip;
use crate::memory::bounded;
use crate::pictures::picture;

/// Memory of restoring per input byte: borders of a picture of one macroblock.
const PER_BYTE: usize = 40;
/// Fixed memory of restoring.
const FIXED: usize = 64 << 10;
/// Memory of decoding and encoding from the restored state.
const MEMORY: usize = 128 << 20;
/// Limit on luma samples of states that are encoded from; more would only cost time.
const SAMPLES: usize = 1 << 14;

/// Restores a state. A fuzzer cannot guess the hash of a saved state, so a wrong hash is corrected.
fn restored(bytes: &[u8]) -> Option<State> {
    match State::from_bytes(bytes) {
        Ok(state) => Some(state),
        Err(StateError::Hash { actual, .. }) => {
            let mut bytes = bytes.to_vec();
            let end = bytes.len() - 8;
            bytes[end..].copy_from_slice(&actual.to_le_bytes());
            Some(State::from_bytes(&bytes).expect("only the hash was invalid"))
        }
        Err(_) => None,
    }
}

/// Input: a length of two bytes, a frame of that length, then the state.
pub fn run(data: &[u8]) {
    let Some((length, rest)) = data.split_first_chunk() else { return };
    let (frame, bytes) = rest.split_at(usize::from(u16::from_le_bytes(*length)).min(rest.len()));
    let Some(state) = bounded(FIXED + PER_BYTE * bytes.len(), || restored(bytes)) else { return };
    bounded(MEMORY, || {
        let (arena, saved) = (Arena::default(), state.to_bytes());
        let again = State::from_bytes(&saved).expect("a state that was saved");
        assert_eq!(again.id(), state.id());
        assert_eq!(again.is_shown(), state.is_shown());
        assert_eq!(again.to_bytes(), saved);
        let hash = |state: &State| checked(&arena, state, frame).map(|state| state.id());
        assert_eq!(hash(&again), hash(&state));
        let Some((width, height)) = state.size().filter(|(width, height)| width * height <= SAMPLES) else { return };
        let mut u = Unstructured::new(frame);
        if let Ok(parameters) = encode_round_trip::parameters(&mut u)
            && let Ok(picture) = picture(&mut u, width, height, state.last_picture().as_ref())
        {
            encode_round_trip::checked(&arena, &state, &picture, &parameters);
        }
    });
}
