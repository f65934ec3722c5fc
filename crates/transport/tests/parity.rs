//! Frames with parity: what is lost of them, what is restored, and what the sender makes of it.

mod world;

use lockstep_transport::wire::Data;
use lockstep_transport::{Datagram, DropReason, Parity, ReceiverEvent, SenderEvent, StateId};
use lockstep_units::Timestamp;
use proptest::prelude::*;
use world::{World, at, ms};

fn lost_fragments(world: &World) -> usize {
    let lost = world.sender_events.iter().map(|(_, event)| match event {
        SenderEvent::FragmentsLost(fragments) => fragments.len(),
        _ => 0,
    });
    lost.sum()
}

/// Frames of five fragments, the last one short, and two of parity.
fn protected(seed: u64) -> World {
    let mut world = World::new(seed);
    world.parity = 2;
    world
}

#[test]
fn a_frame_arrives_though_as_many_fragments_are_lost_as_it_has_parity() {
    for plan in [
        (|frame, fragment| frame == 20 && fragment < 2) as fn(u32, u16) -> bool,
        |frame, fragment| frame == 20 && [3, 4].contains(&fragment),
        |frame, fragment| frame == 20 && [4, 6].contains(&fragment),
        |frame, fragment| frame == 20 && fragment >= 5,
    ] {
        let mut world = protected(1);
        world.forward.lose = plan;
        world.run(at(3_000));
        world.capture_at = Timestamp::MAX;
        world.run(at(4_000));
        assert_eq!(world.order, (0..world.sources.len() as u32).collect::<Vec<_>>());
        assert_eq!((world.recovered.len(), world.lost_frames(), world.refused_frames()), (0, vec![], vec![]));
        assert_eq!(lost_fragments(&world), 2, "controllers hear of what the path loses");
        assert!(world.idle());
    }
}

#[test]
fn a_frame_that_lost_one_more_is_lost_and_the_next_comes_from_a_held_state() {
    let mut world = protected(2);
    world.forward.lose = |frame, fragment| frame == 20 && [0, 2, 5].contains(&fragment);
    world.run(at(3_000));
    let (next, _) = world.next_decoded(19);
    assert!(world.recovered.contains(&next), "frame {next}");
    assert_eq!(world.lost_frames(), [20]);
    assert_eq!(world.refused_frames(), (21..next).collect::<Vec<_>>(), "those that depended on it, which came");
}

#[test]
fn parity_is_counted_apart() {
    let mut world = protected(3);
    world.forward.lose = |frame, fragment| frame == 10 && fragment == 1;
    world.run(at(1_000));
    world.capture_at = Timestamp::MAX;
    world.run(at(2_000));
    let (sender, receiver) = (world.sender.statistics(), world.receiver.statistics());
    assert_eq!((sender.fragments, sender.parity), (sender.frames * 7, sender.frames * 2));
    assert_eq!(sender.payload_bytes, sender.frames * 5_000);
    assert_eq!((receiver.frames, receiver.restored), (sender.frames, 1));
    assert_eq!(receiver.duplicates, 0, "what comes after a frame is whole is new all the same");
}

#[test]
fn a_decoded_frame_tells_how_many_fragments_came_and_no_more() {
    let mut world = protected(4);
    world.forward.lose = |frame, fragment| frame == 10 && fragment == 1;
    // Of the acknowledgements a good part is lost.
    world.backward.loss = 0.6;
    world.run(at(3_000));
    world.capture_at = Timestamp::MAX;
    world.run(at(6_000));
    let statistics = world.sender.statistics();
    assert!(statistics.fragments_implied > 0, "{statistics:?}");
    let unknown = statistics.fragments - statistics.fragments_acknowledged - statistics.fragments_implied;
    assert!(unknown >= 1 && unknown <= 2 * statistics.frames, "{statistics:?}");
}

#[test]
fn frames_of_any_length_are_protected() {
    for bytes in [0, 1, 2, 3, 1_195, 1_196, 1_197, 2_392, 2_393, 100_001] {
        let mut world = protected(5);
        world.frame_bytes = bytes;
        world.frame_interval = ms(100);
        world.forward.lose = |frame, fragment| frame % 2 == 1 && fragment < 2;
        world.run(at(1_000));
        world.capture_at = Timestamp::MAX;
        world.run(at(2_000));
        assert_eq!((world.recovered.len(), world.order.len()), (0, world.sources.len()), "{bytes} bytes");
    }
}

#[test]
fn parity_that_contradicts_what_came_restores_nothing_and_the_sender_hears_of_it() {
    let mut world = protected(6);
    world.run(at(100));
    world.capture_at = Timestamp::MAX;
    world.run(at(400));
    let fragment = |fragment: u16, payload: Vec<u8>, parity| {
        let frame = 40;
        Datagram::Data(Data {
            connection: world::CONNECTION,
            sequence: 1_000 + u32::from(fragment),
            frame,
            fragment,
            fragments: 2,
            parity,
            source: StateId::EMPTY,
            target: StateId(9),
            sent_at: at(399),
            captured: at(399),
            idle: 0,
            keep_from: 0,
            anchor: 0,
            key_frame: true,
            feedback_doublings: 0,
            payload,
        })
    };
    let parity = Some(Parity { count: 2, last: 7 });
    world.receiver.handle_datagram(at(400), Ok(fragment(2, vec![1; 10], parity)), false);
    let other = Some(Parity { count: 2, last: 8 });
    world.receiver.handle_datagram(at(400), Ok(fragment(3, vec![1; 10], other)), false);
    assert_eq!(world.receiver.statistics().inconsistent, 1);
    world.receiver.handle_datagram(at(400), Ok(fragment(3, vec![1; 12], parity)), false);
    let events: Vec<_> = std::iter::from_fn(|| world.receiver.poll_event()).collect();
    let reason = DropReason::Contradictory;
    assert!(events.contains(&ReceiverEvent::Dropped { frame: 40, reason }), "{events:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    /// Whatever is lost, held up, doubled and overtaken: what is handed out is what was sent.
    #[test]
    fn whatever_happens_on_the_way_frames_are_what_was_sent(
        seed in any::<u64>(),
        loss in 0.0..0.5f64,
        back in 0.0..0.5f64,
        jitter in 0..80u64,
        parity in 0..6u16,
        bytes in 0..20_000usize,
    ) {
        let mut world = World::new(seed);
        (world.parity, world.frame_bytes) = (parity, bytes);
        (world.forward.loss, world.backward.loss) = (loss, back);
        world.forward.jitter = ms(jitter);
        world.forward.duplication = 0.05;
        world.run(at(1_500));
        world.capture_at = Timestamp::MAX;
        (world.forward.loss, world.backward.loss) = (0.0, 0.0);
        world.run(at(9_000));
        prop_assert_eq!(world.sender.in_flight().fragments, 0);
    }
}
