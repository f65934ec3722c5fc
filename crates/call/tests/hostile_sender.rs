//! Bounds of the receiving end against a sender that wants to exhaust its memory.

use lockstep_call::{ReceivingEnd, Vp8};
use lockstep_control::{GracePeriod, InterArrival};
use lockstep_transport::wire::Data;
use lockstep_transport::{Datagram, ReceiverConfig, StateId};
use lockstep_units::Timestamp;
use lockstep_vp8::{FrameKind, GoldenPolicy, Parameters, Picture, State, encode};

const SIZE: usize = 16;

fn receiving() -> ReceivingEnd<Vp8> {
    let config = ReceiverConfig { connection: Some(1), ..ReceiverConfig::default() };
    ReceivingEnd::new(config, Box::new(InterArrival::new(GracePeriod::LinkIdle)))
}

/// The first fragment of a frame.
fn first_fragment(frame: u32, fragments: u16, source: StateId, target: StateId, payload: Vec<u8>) -> Datagram {
    let sent_at = Timestamp::from_millis(u64::from(frame));
    Datagram::Data(Data {
        connection: 1,
        sequence: frame,
        frame,
        fragment: 0,
        fragments,
        parity: None,
        source,
        target,
        sent_at,
        captured: sent_at,
        idle: 0,
        keep_from: 0,
        feedback_doublings: 0,
        anchor: 0,
        key_frame: source == StateId::EMPTY,
        payload,
    })
}

/// A frame of one shade from `source`.
fn coded(source: &State, shade: u8, golden: GoldenPolicy) -> (Vec<u8>, State) {
    let picture = Picture::from_i420(SIZE, SIZE, vec![shade; SIZE * SIZE * 3 / 2]).expect("samples match the size");
    let parameters = Parameters { frame_kind: FrameKind::Inter, golden, ..Parameters::default() };
    let coded = encode(source, &picture, &parameters);
    (coded.frame, coded.state)
}

/// Sends 120 frames, so that every third state holds three pictures and is needed.
fn send_states_of_three_pictures(end: &mut ReceivingEnd<Vp8>) {
    let mut state = State::default();
    let mut frame = 0;
    for shade in (0..120).step_by(3) {
        // The third state holds the pictures of all three frames, and no picture of earlier states.
        for (more, golden) in [(0, GoldenPolicy::Refresh), (1, GoldenPolicy::Refresh), (2, GoldenPolicy::Keep)] {
            let source = if frame == 0 { StateId::EMPTY } else { StateId(state.id()) };
            let (payload, reached) = coded(&state, 2 * (shade + more), golden);
            let datagram = first_fragment(frame, 1, source, StateId(reached.id()), payload);
            assert!(end.handle_datagram(Timestamp::ZERO, Ok(datagram), false));
            let job = end.poll_decode().expect("the newest state is always held");
            end.decoded(Timestamp::ZERO, job.run());
            (state, frame) = (reached, frame + 1);
        }
        assert_eq!(State::reference_pixels([&state]), 3 * SIZE * SIZE);
        // A later frame needs the third state and stays unfinished, so the states before the third are evicted first.
        let later = 150 + frame;
        let unfinished = first_fragment(later, 2, StateId(state.id()), StateId(u64::from(later)), vec![0]);
        assert!(end.handle_datagram(Timestamp::ZERO, Ok(unfinished), false));
    }
    assert_eq!(end.counts().decoded, 120);
}

fn held_pictures(end: &ReceivingEnd<Vp8>) -> usize {
    end.reference_pixels() / (SIZE * SIZE)
}

#[test]
fn kept_states_hold_few_pictures_of_the_largest_size_together() {
    let mut end = receiving().with_pixel_limit(SIZE * SIZE);
    send_states_of_three_pictures(&mut end);
    assert!(held_pictures(&end) <= 34, "{} pictures are held", held_pictures(&end));
}

#[test]
fn kept_states_of_small_pictures_are_not_evicted() {
    let mut end = receiving();
    send_states_of_three_pictures(&mut end);
    assert!(held_pictures(&end) > 34, "{} pictures are held", held_pictures(&end));
}
