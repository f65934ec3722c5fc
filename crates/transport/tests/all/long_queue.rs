//! Tests with more frames in flight than either end has room for states.

use std::time::Duration;

use crate::world::{World, at, ms};
use lockstep_transport::{SenderEvent, StateId};
use lockstep_units::Timestamp;

/// A hundred small frames per second over a path with a one-way delay of 20 ms.
fn small_frames(seed: u64) -> World {
    let mut world = World::new(seed);
    (world.forward.delay, world.backward.delay) = (ms(20), ms(20));
    (world.frame_bytes, world.frame_interval) = (500, ms(10));
    world
}

/// The longest time without a decoded frame.
fn longest_freeze(world: &World) -> Duration {
    let ends = world.decoded.values().chain([&world.now]);
    let freezes = ends.scan(Timestamp::ZERO, |last, &moment| {
        let freeze = moment.saturating_since(*last);
        *last = moment.max(*last);
        Some(freeze)
    });
    freezes.max().unwrap_or_default()
}

/// Frames wait for the pacer and for a path that pauses. Some are encoded from held states, as during silence. The
/// encoder has no room for all their states, but the needed ones must stay. Otherwise everything arrives and nothing
/// can be decoded.
#[test]
fn call_resumes_after_a_queue_longer_than_the_states() {
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
        assert!(freeze < ms(pause + 300), "case {case}: {freeze:?} without a frame after a pause of {pause} ms");
    }
}

/// A round trip spans 62 frames. The receiver holds 32 states and the encoder 32 others.
#[test]
fn loss_on_a_long_path_is_repaired_from_a_common_state() {
    let mut world = small_frames(1);
    world.forward.delay = ms(600);
    world.forward.lose = |frame, _| frame == 500;
    world.run(at(10_000));
    assert!(world.sender.statistics().evicted_states > 0);
    assert_eq!(world.recovered.len(), 1);
    let repair = world.recovered.first().copied().expect("a recovery frame was sent");
    assert_ne!(world.sources[&repair], StateId::EMPTY, "no key frame");
    assert_eq!(world.next_decoded(499).0, repair);
    let acknowledged = |event: &SenderEvent| matches!(event, SenderEvent::FrameAcknowledged { .. });
    assert!(world.sender_events.iter().filter(|(_, event)| acknowledged(event)).count() > 700);
}

/// The encoder has evicted the states of the lost frames before their loss is detected.
#[test]
fn loss_of_a_frame_with_evicted_state_is_repaired() {
    let lost: [fn(u32, u16) -> bool; 4] =
        [|frame, _| frame == 500, |frame, _| frame == 501, |frame, _| frame == 502, |frame, _| frame == 503];
    for (place, lose) in lost.into_iter().enumerate() {
        let mut world = small_frames(2);
        world.forward.delay = ms(900);
        world.forward.lose = lose;
        world.run(at(9_000));
        // A round trip, and the time to detect the loss.
        let freeze = longest_freeze(&world);
        assert!(freeze < ms(1_300), "{freeze:?} without a frame after the loss of frame {}", 500 + place);
    }
}
