//! More frames under way than either end has room for states.

mod world;

use std::time::Duration;

use lockstep_transport::{SenderEvent, StateId};
use lockstep_units::Timestamp;
use world::{World, at, ms};

/// A hundred small frames a second over a path that takes 20 ms each way.
fn small_frames(seed: u64) -> World {
    let mut world = World::new(seed);
    (world.forward.delay, world.backward.delay) = (ms(20), ms(20));
    (world.frame_bytes, world.frame_interval) = (500, ms(10));
    world
}

/// The longest time without a frame decoded.
fn longest_freeze(world: &World) -> Duration {
    let ends = world.decoded.values().chain([&world.now]);
    let freezes = ends.scan(Timestamp::ZERO, |last, &moment| {
        let freeze = moment.saturating_since(*last);
        *last = moment.max(*last);
        Some(freeze)
    });
    freezes.max().unwrap_or_default()
}

/// Frames wait for the pacer and for a path that pauses, some of them coded from states that are known to be held, as in
/// a silence. What has to be kept for them must be, though the encoder has no room for as many states, or the call
/// stands still: everything arrives, and nothing can be decoded.
#[test]
fn after_a_queue_of_more_frames_than_there_is_room_for_states_calls_go_on() {
    for case in 0..120 {
        let mut world = small_frames(case);
        let (from, pause) = (1_000 + case % 7, 100 + 40 * (case % 20));
        world.forward.pause = Some((at(from), at(from + pause)));
        let pattern = case.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        world.from_held = Box::new(move |frame| pattern >> (frame % 64) & 1 == 1 && frame < 250);
        world.run(at(from));
        world.sender.set_pace(ms(15 + 10 * (case % 11)), 1);
        world.run(at(from + pause));
        world.sender.set_pace(ms(4 + case % 5), 1);
        world.run(at(5_000));
        let freeze = longest_freeze(&world);
        assert!(freeze < ms(pause + 300), "case {case}: {freeze:?} without a picture after a pause of {pause} ms");
    }
}

/// Of a round trip that takes 62 frames the receiver holds 32 states, and the encoder 32 others.
#[test]
fn over_a_long_path_a_loss_is_repaired_from_a_state_that_both_ends_hold() {
    let mut world = small_frames(1);
    world.forward.delay = ms(600);
    world.forward.lose = |frame, _| frame == 500;
    world.run(at(10_000));
    assert!(world.sender.statistics().evicted_states > 0);
    assert_eq!(world.recovered.len(), 1);
    let repair = world.recovered.first().copied().expect("there is one");
    assert_ne!(world.sources[&repair], StateId::EMPTY, "no key frame");
    assert_eq!(world.next_decoded(499).0, repair);
    let acknowledged = |event: &SenderEvent| matches!(event, SenderEvent::FrameAcknowledged { .. });
    assert!(world.sender_events.iter().filter(|(_, event)| acknowledged(event)).count() > 700);
}

/// The losses are of frames whose states the encoder has had to forget by the time that they are noticed.
#[test]
fn a_loss_that_is_noticed_after_the_frames_state_has_gone_still_breaks_the_chain() {
    let lost: [fn(u32, u16) -> bool; 4] =
        [|frame, _| frame == 500, |frame, _| frame == 501, |frame, _| frame == 502, |frame, _| frame == 503];
    for (place, lose) in lost.into_iter().enumerate() {
        let mut world = small_frames(2);
        world.forward.delay = ms(900);
        world.forward.lose = lose;
        world.run(at(9_000));
        // A round trip, and what it takes to notice.
        let freeze = longest_freeze(&world);
        assert!(freeze < ms(1_300), "{freeze:?} without a picture after the loss of frame {}", 500 + place);
    }
}
