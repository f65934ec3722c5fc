//! States are values: a restored state decodes the same, and decoding changes no state.

#[allow(dead_code)]
mod streams;

use lockstep_vp8::{State, StateError, decode};
use streams::{decoded, ivf_frames, vectors};

#[test]
fn states_restored_from_bytes_decode_the_same() {
    for path in vectors() {
        let frames = ivf_frames(&std::fs::read(&path).unwrap());
        let restored = decoded(&frames, |state| {
            let restored = State::from_bytes(&state.to_bytes()).unwrap();
            assert_eq!((restored.id(), restored.is_shown()), (state.id(), state.is_shown()));
            restored
        });
        assert_eq!(restored, decoded(&frames, |state| state), "{}", path.display());
    }
}

#[test]
fn decoding_is_repeatable_and_each_frame_makes_a_new_state() {
    for path in vectors().into_iter().take(3) {
        let mut state = State::default();
        let mut hashes = vec![state.id()];
        for frame in ivf_frames(&std::fs::read(path).unwrap()) {
            let (once, picture) = decode(&state, &frame).unwrap();
            let (again, same) = decode(&state, &frame).unwrap();
            assert_eq!((once.id(), picture), (again.id(), same));
            hashes.push(once.id());
            state = once;
        }
        let count = hashes.len();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), count);
    }
}

#[test]
fn empty_state_has_a_fixed_id() {
    assert_eq!(State::default().id(), 1_707_571_105_617_455_055);
    assert_eq!(State::from_bytes(&State::default().to_bytes()), Ok(State::default()));
}

#[test]
fn cut_lengthened_or_changed_bytes_are_not_a_state() {
    let bytes = State::default().to_bytes();
    for length in 0..bytes.len() {
        assert!(State::from_bytes(&bytes[..length]).is_err(), "{length} bytes");
    }
    assert_eq!(State::from_bytes(&[&bytes[..], &[0]].concat()), Err(StateError::Excess(1)));
    // All bytes but the flag "is shown" and the quantizer, which are not part of the state id.
    for at in (0..bytes.len()).filter(|at| ![5, 7].contains(at)) {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        assert!(State::from_bytes(&changed).is_err(), "byte {at}");
    }
}
