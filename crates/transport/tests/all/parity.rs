//! Tests of frames with parity: loss, restoration, and what the sender infers.

use crate::world::{World, at, ms};
use lockstep_transport::wire::Data;
use lockstep_transport::{Datagram, DropReason, Parity, ReceiverEvent, SenderEvent, StateId};
use lockstep_units::Timestamp;
use proptest::prelude::*;

fn lost_fragments(world: &World) -> usize {
    let lost = world.sender_events.iter().map(|(_, event)| match event {
        SenderEvent::FragmentsLost(fragments) => fragments.len(),
        _ => 0,
    });
    lost.sum()
}

/// Frames of five fragments, the last one short, and two parity fragments.
fn protected(seed: u64) -> World {
    let mut world = World::new(seed);
    world.parity = 2;
    world
}

#[test]
fn frame_survives_loss_of_its_number_of_parity_fragments() {
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
        assert_eq!(lost_fragments(&world), 2, "controllers see the losses of the path");
        assert!(world.idle());
    }
}

#[test]
fn one_more_loss_than_parity_loses_the_frame() {
    let mut world = protected(2);
    world.forward.lose = |frame, fragment| frame == 20 && [0, 2, 5].contains(&fragment);
    world.run(at(3_000));
    let (next, _) = world.next_decoded(19);
    assert!(world.recovered.contains(&next), "frame {next}");
    assert_eq!(world.lost_frames(), [20]);
    assert_eq!(
        world.refused_frames(),
        (21..next).collect::<Vec<_>>(),
        "frames that arrived but depended on the lost one"
    );
}

#[test]
fn parity_has_a_separate_counter() {
    let mut world = protected(3);
    world.forward.lose = |frame, fragment| frame == 10 && fragment == 1;
    world.run(at(1_000));
    world.capture_at = Timestamp::MAX;
    world.run(at(2_000));
    let (sender, receiver) = (world.sender.statistics(), world.receiver.statistics());
    assert_eq!((sender.fragments, sender.parity), (sender.frames * 7, sender.frames * 2));
    assert_eq!(sender.payload_bytes, sender.frames * 5_000);
    assert_eq!((receiver.frames, receiver.restored), (sender.frames, 1));
    assert_eq!(receiver.duplicates, 0, "a fragment after completion of its frame is not a duplicate");
}

#[test]
fn decoded_frame_implies_only_the_number_of_arrivals() {
    let mut world = protected(4);
    world.forward.lose = |frame, fragment| frame == 10 && fragment == 1;
    // A large part of the acknowledgements is lost.
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
fn contradictory_parity_drops_the_frame() {
    let mut world = protected(6);
    world.run(at(100));
    world.capture_at = Timestamp::MAX;
    world.run(at(400));
    let fragment = |fragment: u16, payload: Vec<u8>, parity| {
        let frame = 40;
        Datagram::Data(Data {
            connection: crate::world::CONNECTION,
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
    /// Every frame that is handed out equals the one sent, under loss, delay, duplication and reordering.
    #[test]
    fn frames_equal_the_sent_ones_under_any_impairment(
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
