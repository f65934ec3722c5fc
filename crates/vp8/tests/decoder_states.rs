//! States as values: restored from bytes they decode the same, and decoding changes none.

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
            assert_eq!((restored.hash(), restored.is_shown()), (state.hash(), state.is_shown()));
            restored
        });
        assert_eq!(restored, decoded(&frames, |state| state), "{}", path.display());
    }
}

#[test]
fn a_state_can_be_decoded_from_again_and_every_frame_makes_another_state() {
    for path in vectors().into_iter().take(3) {
        let mut state = State::default();
        let mut hashes = vec![state.hash()];
        for frame in ivf_frames(&std::fs::read(path).unwrap()) {
            let (once, picture) = decode(&state, &frame).unwrap();
            let (again, same) = decode(&state, &frame).unwrap();
            assert_eq!((once.hash(), picture), (again.hash(), same));
            hashes.push(once.hash());
            state = once;
        }
        let count = hashes.len();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), count);
    }
}

#[test]
fn the_state_before_any_frame_has_one_name_everywhere() {
    assert_eq!(State::default().hash(), 1_707_571_105_617_455_055);
    assert_eq!(State::from_bytes(&State::default().to_bytes()), Ok(State::default()));
}

#[test]
fn bytes_that_were_cut_lengthened_or_changed_are_no_state() {
    let bytes = State::default().to_bytes();
    for length in 0..bytes.len() {
        assert!(State::from_bytes(&bytes[..length]).is_err(), "{length} bytes");
    }
    assert_eq!(State::from_bytes(&[&bytes[..], &[0]].concat()), Err(StateError::Excess(1)));
    // All but whether the frame is shown and how coarse it is, which are no part of the name.
    for at in (0..bytes.len()).filter(|at| ![5, 7].contains(at)) {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        assert!(State::from_bytes(&changed).is_err(), "byte {at}");
    }
}
