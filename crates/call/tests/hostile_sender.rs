//! Bounds of the receiving end against a sender that wants to exhaust its memory.

use allocation_counter::measure;
use lockstep_call::{ReceivingEnd, Vp8};
use lockstep_control::{GracePeriod, InterArrival};
use lockstep_transport::wire::Data;
use lockstep_transport::{Datagram, ReceiverConfig, StateId};
use lockstep_units::Timestamp;
use lockstep_vp8::{FrameKind, GoldenPolicy, Parameters, Picture, State, encode};

const SIZE: usize = 64;

fn receiving() -> ReceivingEnd<Vp8> {
    let config = ReceiverConfig { connection: Some(1), ..ReceiverConfig::default() };
    ReceivingEnd::new(config, Box::new(InterArrival::new(GracePeriod::LinkIdle)))
}

/// The first fragment of a frame.
fn first_fragment(frame: u32, fragments: u16, source: StateId, target: StateId, payload: Vec<u8>) -> Datagram {
    Datagram::Data(fragment(frame, (0, fragments), source, target, payload))
}

/// Fragment `index` of the `fragments` of a frame.
fn fragment(
    frame: u32,
    (index, fragments): (u16, u16),
    source: StateId,
    target: StateId,
    payload: Vec<u8>,
) -> Data<Vec<u8>> {
    let sent_at = Timestamp::from_millis(u64::from(frame));
    Data {
        connection: 1,
        sequence: frame,
        frame,
        fragment: index,
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
    }
}

/// A frame of one shade from `source`.
fn coded(source: &State, shade: u8, golden: GoldenPolicy) -> (Vec<u8>, State) {
    let picture = Picture::from_i420(SIZE, SIZE, vec![shade; SIZE * SIZE * 3 / 2]).expect("samples match the size");
    let parameters = Parameters { frame_kind: FrameKind::Inter, golden, ..Parameters::default() };
    let coded = encode(source, &picture, &parameters);
    (coded.frame, coded.state)
}

/// A frame that arrives, and the first fragment of a later one that needs its state.
struct Sent {
    arrival: Datagram,
    unfinished: Option<Datagram>,
}

/// 120 frames, of which every third state holds three pictures and is needed. Also returns the last state.
fn states_of_three_pictures() -> (Vec<Sent>, State) {
    let mut state = State::default();
    let mut sent = Vec::new();
    for shade in (0..120).step_by(3) {
        // The third state holds the pictures of all three frames, and no picture of earlier states.
        for (more, golden) in [(0, GoldenPolicy::Refresh), (1, GoldenPolicy::Refresh), (2, GoldenPolicy::Keep)] {
            let frame = sent.len() as u32;
            let source = if frame == 0 { StateId::EMPTY } else { StateId(state.id()) };
            let (payload, reached) = coded(&state, 2 * (shade + more), golden);
            let arrival = first_fragment(frame, 1, source, StateId(reached.id()), payload);
            // A later frame needs the third state and stays unfinished, so the states before the third are evicted first.
            let later = 151 + frame;
            let unfinished = (more == 2)
                .then(|| first_fragment(later, 2, StateId(reached.id()), StateId(u64::from(later)), vec![0]));
            sent.push(Sent { arrival, unfinished });
            state = reached;
        }
        assert_eq!(State::reference_pixels([&state]), 3 * SIZE * SIZE);
    }
    (sent, state)
}

fn receive(end: &mut ReceivingEnd<Vp8>, sent: Vec<Sent>) {
    for Sent { arrival, unfinished } in sent {
        assert!(end.handle_datagram(Timestamp::ZERO, Ok(arrival), false));
        let job = end.poll_decode().expect("the newest state is always held");
        end.decoded(Timestamp::ZERO, job.run());
        while end.poll_display().is_some() {}
        assert!(unfinished.is_none_or(|datagram| end.handle_datagram(Timestamp::ZERO, Ok(datagram), false)));
    }
    assert_eq!(end.counts().decoded, 120);
}

fn held_pictures(end: &ReceivingEnd<Vp8>) -> usize {
    end.reference_pixels() / (SIZE * SIZE)
}

#[test]
fn kept_states_hold_few_pictures_of_the_largest_size_together() {
    let (sent, last) = states_of_three_pictures();
    let picture = last.held_bytes() as i64 / 3;
    let mut end = receiving().with_pixel_limit(SIZE * SIZE);
    // The count begins with the frames that are to arrive.
    let held = measure(|| receive(&mut end, sent)).bytes_current;
    assert!(held_pictures(&end) <= 34, "{} pictures are held", held_pictures(&end));
    assert!(held <= 36 * picture, "{held} bytes are held, and a picture has {picture}");
}

#[test]
fn kept_states_of_small_pictures_are_not_evicted() {
    let mut end = receiving();
    receive(&mut end, states_of_three_pictures().0);
    assert!(held_pictures(&end) > 34, "{} pictures are held", held_pictures(&end));
}

#[test]
fn whole_frames_wait_for_the_decoder_in_few_bytes() {
    let mut end = receiving();
    let held = measure(|| {
        // 300 key frames of 130 kB, of which none is decoded: 39 MB.
        for frame in 0..300 {
            for index in 0..100 {
                let target = StateId(u64::from(frame) + 1);
                let mut data = fragment(frame, (index, 100), StateId::EMPTY, target, vec![0; 1300]);
                data.sequence = 100 * frame + u32::from(index);
                end.handle_datagram(Timestamp::ZERO, Ok(Datagram::Data(data)), false);
            }
        }
        assert!(end.poll_decode().is_some());
    })
    .bytes_current;
    // 8 MB in the window of reassembly and 8 MB before the decoder, and what is beside the payloads.
    assert!(held <= 20 << 20, "{held} bytes are held");
}
