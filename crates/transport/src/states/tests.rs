use super::*;

fn state(frame: u32) -> StateId {
    StateId(u64::from(frame) + 100)
}

/// Frames 0 to `count - 1`, each encoded from the one before.
fn chain(count: u32) -> SentStates {
    let mut states = SentStates::new(8);
    for frame in 0..count {
        let source = states.reserve();
        states.sent(frame, source, state(frame), 0);
    }
    states
}

fn hold(states: &mut SentStates, frames: &[u32]) {
    states.catalogue(frames);
    states.settle();
}

#[test]
fn source_is_newest_held_state_after_a_loss() {
    let mut states = chain(4);
    assert_eq!(states.source(), state(3));
    hold(&mut states, &[1, 0]);
    assert_eq!((states.source(), states.keep_from()), (state(3), 1));
    states.fragment_lost(2);
    states.settle();
    assert_eq!(states.source(), state(1));
    assert_eq!(states.take_verdicts().last(), Some(Verdict::Lost(2)));
    states.sent(4, state(1), state(4), 0);
    assert_eq!(states.source(), state(4));
}

#[test]
fn held_source_is_available_without_a_loss() {
    let mut states = chain(5);
    assert_eq!(states.reserve_held(), state(4), "the receiver holds none yet");
    hold(&mut states, &[0, 1, 2]);
    assert_eq!((states.reserve_held(), states.reserve()), (state(2), state(4)));
}

#[test]
fn spurious_loss_restores_the_last_frame_as_source() {
    let mut states = chain(3);
    hold(&mut states, &[0]);
    states.fragment_lost(1);
    states.settle();
    assert_eq!(states.source(), state(0));
    states.fragment_found(1);
    states.settle();
    assert_eq!(states.source(), state(2));
}

#[test]
fn source_of_a_frame_in_flight_is_kept() {
    let mut states = chain(1);
    hold(&mut states, &[0]);
    states.sent(1, state(0), state(1), 0);
    states.sent(2, state(0), state(2), 0);
    hold(&mut states, &[2, 0]);
    assert_eq!(states.keep_from(), 0, "frame 1 may still need the state of frame 0");
    states.fragment_lost(1);
    states.settle();
    assert_eq!((states.keep_from(), states.take_released().collect()), (2, vec![state(0), state(1)]));
}

#[test]
fn reserved_state_is_kept() {
    let mut states = chain(2);
    hold(&mut states, &[0]);
    states.fragment_lost(1);
    states.settle();
    assert_eq!(states.reserve(), state(0));
    states.fragment_found(1);
    hold(&mut states, &[1, 0]);
    assert_eq!(states.keep_from(), 0);
    states.sent(2, state(0), state(2), 0);
    hold(&mut states, &[2, 1, 0]);
    assert_eq!(states.keep_from(), 2);
}

#[test]
fn number_of_states_is_bounded_and_held_state_stays() {
    let mut states = chain(2);
    hold(&mut states, &[1, 0]);
    for frame in 2..40 {
        states.sent(frame, states.source(), state(frame), 0);
        assert!(states.retained() <= 8);
    }
    assert!(states.is_held(state(1)) && states.retains(state(39)) && !states.retains(state(2)));
    states.refused(39);
    states.settle();
    assert_eq!(states.source(), state(1));
}

#[test]
fn settle_without_a_change_reports_none() {
    let mut states = chain(3);
    hold(&mut states, &[0]);
    assert!(states.take_settled());
    hold(&mut states, &[0]);
    states.settle();
    assert!(!states.take_settled());
    states.fragment_lost(1);
    states.settle();
    assert!(states.take_settled());
}
