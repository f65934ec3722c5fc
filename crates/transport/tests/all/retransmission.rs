//! Tests of retransmission, for codecs that can only continue from their last frame.

use crate::world::{World, at, ms};
use lockstep_transport::{Recovery, SenderEvent, StateId};
use lockstep_units::Timestamp;
use proptest::prelude::*;

fn world(seed: u64) -> World {
    World::with(seed, Recovery::Retransmit)
}

/// Stops the capture and lets all datagrams in flight arrive.
fn finish(world: &mut World) {
    world.capture_at = Timestamp::MAX;
    world.run(world.now + ms(5_000));
}

fn transmissions(world: &World, frame: u32, fragment: u16) -> Vec<Timestamp> {
    let of = world.transmitted.iter().filter(|sent| (sent.1, sent.2) == (frame, fragment));
    of.map(|&(at, ..)| at).collect()
}

#[test]
fn lost_fragment_is_sent_again_and_frames_stay_in_order() {
    let mut world = world(1);
    world.forward.lose = |frame, fragment| (frame, fragment) == (20, 2);
    world.forward.lose_copies = 1;
    world.run(at(3_000));
    finish(&mut world);
    assert_eq!(world.order, (0..world.sources.len() as u32).collect::<Vec<_>>());
    let copies = transmissions(&world, 20, 2);
    assert_eq!(copies.len(), 2);
    // The loss is detected by the acknowledgements of the next frame, which leaves a frame interval later.
    let wait = copies[1].saturating_since(copies[0]);
    assert!(wait <= ms(100 + 33 + 5), "{wait:?}");
    assert_eq!(world.decoded[&20].saturating_since(copies[1]), ms(50));
    assert!(world.sources.range(1..).all(|(_, source)| *source != StateId::EMPTY), "no second key frame");
    let statistics = world.sender.statistics();
    assert_eq!((statistics.retransmitted, statistics.frames_lost, statistics.spurious), (1, 0, 0));
    assert_eq!(statistics.frames_refused, 0);
    assert!(world.idle());
}

#[test]
fn last_fragment_of_a_call_is_sent_again() {
    let mut world = world(2);
    world.forward.lose = |frame, fragment| frame == 30 && fragment >= 3;
    world.forward.lose_copies = 1;
    world.run(at(10 + 33 * 30));
    finish(&mut world);
    assert_eq!(world.decoded.len(), 31);
    assert!(world.idle() && world.sender.poll_timeout().is_none());
}

#[test]
fn unrepairable_frame_is_followed_by_a_key_frame() {
    let mut world = world(3);
    world.forward.lose = |frame, fragment| (frame, fragment) == (20, 2);
    world.run(at(4_000));
    finish(&mut world);
    let copies = transmissions(&world, 20, 2);
    assert!((3..=11).contains(&copies.len()), "{copies:?}");
    assert!(copies.windows(2).all(|pair| pair[1].saturating_since(pair[0]) >= ms(100)), "a round trip apart");
    let lost = world
        .sender_events
        .iter()
        .find(|(_, event)| *event == SenderEvent::FrameLost(20))
        .expect("the loss is reported")
        .0;
    let age = lost.saturating_since(copies[0]);
    assert!((ms(1_000)..=ms(1_200)).contains(&age), "{age:?}");
    let keys: Vec<u32> =
        world.sources.iter().filter(|(_, source)| **source == StateId::EMPTY).map(|(&frame, _)| frame).collect();
    assert_eq!(keys.len(), 2, "the first frame and one more: {keys:?}");
    let wait = world.decoded[&keys[1]].saturating_since(lost);
    assert!(wait <= ms(33 + 50), "{wait:?}");
    assert_eq!(world.decoded.keys().next_back(), world.sources.keys().next_back(), "the call resumes");
    assert!((21..keys[1]).all(|frame| !world.decoded.contains_key(&frame)));
}

#[test]
fn retransmissions_are_paced_and_leave_first() {
    let mut world = world(4);
    world.sender.set_pace(ms(4), 1);
    world.forward.lose = |frame, _| frame == 20;
    world.forward.lose_copies = 1;
    world.run(at(3_000));
    finish(&mut world);
    let gaps = world.transmitted.windows(2).map(|pair| pair[1].0.saturating_since(pair[0].0));
    assert!(gaps.min() >= Some(ms(4)));
    assert_eq!(world.decoded.len(), world.sources.len());
    let repeated: Vec<usize> =
        (0..world.transmitted.len()).filter(|&index| world.transmitted[index].1 == 20).skip(5).collect();
    assert_eq!(repeated.len(), 5);
    // The first fragment is detected alone, by the third fragment after it. The others are sent without interruption.
    assert!(repeated[1..].windows(2).all(|pair| pair[1] == pair[0] + 1), "{repeated:?}");
}

#[test]
fn pause_of_the_link_is_not_a_loss() {
    let mut world = world(5);
    world.forward.pause = Some((at(2_000), at(2_900)));
    world.run(at(5_000));
    finish(&mut world);
    assert_eq!(world.decoded.len(), world.sources.len());
    let statistics = world.sender.statistics();
    assert!(statistics.retransmitted <= 5, "{} redundant copies", statistics.retransmitted);
    assert_eq!((statistics.frames_lost, statistics.frames_refused), (0, 0));
    assert!(statistics.retransmitted > 0, "the test needs a redundant copy");
    let counts = world.sender_events.iter().rev().find_map(|(_, event)| match event {
        SenderEvent::Feedback(feedback) => Some((feedback.highest_sequence + 1, feedback.received)),
        _ => None,
    });
    assert_eq!(counts, Some((statistics.fragments, statistics.fragments)), "sent and received");
    assert!(world.idle());
}

#[test]
fn call_resumes_after_an_outage_with_one_key_frame() {
    for (length, most) in [(500, 0), (2_000, 1)] {
        let mut world = world(6);
        world.forward.outage = Some((at(2_000), at(2_000 + length)));
        world.run(at(8_000));
        finish(&mut world);
        let keys = world.sources.range(1..).filter(|(_, source)| **source == StateId::EMPTY).count();
        assert!(keys <= most, "{keys} key frames after {length} ms");
        assert_eq!(world.decoded.keys().next_back(), world.sources.keys().next_back());
        let resumed = *world.decoded.values().find(|&&moment| moment > at(2_000 + length)).expect("the call resumes");
        assert!(resumed <= at(2_000 + length + 700), "{resumed}");
        assert!(world.idle());
    }
}

#[test]
fn timers_end_in_an_endless_outage() {
    let mut world = world(7);
    world.forward.outage = Some((at(1_000), Timestamp::MAX));
    world.run(at(3_000));
    world.capture_at = Timestamp::MAX;
    world.run(at(60_000));
    assert!(world.idle() && world.sender.poll_timeout().is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn call_resumes_after_any_loss_and_reordering(
        seed: u64,
        loss in 0.0f64..0.3,
        backward_loss in 0.0f64..0.5,
        duplication in 0.0f64..0.1,
        jitter in 0u64..40,
    ) {
        let mut world = world(seed);
        world.forward.loss = loss;
        world.forward.duplication = duplication;
        world.forward.jitter = ms(jitter);
        world.backward.loss = backward_loss;
        world.run(at(6_000));
        world.forward.loss = 0.0;
        world.backward.loss = 0.0;
        world.run(at(9_000));
        finish(&mut world);
        let statistics = world.sender.statistics();
        prop_assert_eq!(statistics.absurd, 0);
        prop_assert_eq!(world.decoded.keys().next_back(), world.sources.keys().next_back());
        if loss <= 0.1 {
            prop_assert_eq!(world.decoded.len(), world.sources.len(), "retries suffice at {}", loss);
        }
        prop_assert!(world.order.is_sorted());
        prop_assert!(world.idle());
    }
}
