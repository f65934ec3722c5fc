//! Tests of sound with video, in virtual time.

use std::time::Duration;

use crate::world::{World, at, ms};
use lockstep_transport::{ReceiverEvent, Recovery, SOUND, SendError, SenderEvent, SoundPacket};
use lockstep_units::Timestamp;
use proptest::prelude::*;

fn packet(frame: u32, captured: Timestamp) -> SoundPacket {
    SoundPacket { frame, captured, payload: vec![frame as u8; 80] }
}

/// Runs video, and sends `packets` sound packets, one every 20 ms.
fn talk(world: &mut World, packets: u32) {
    for frame in 0..packets {
        let now = at(u64::from(frame) * 20 + 20);
        world.run(now);
        world.sender.send_sound(now, packet(frame, at(u64::from(frame) * 20))).unwrap();
    }
    world.capture_at = Timestamp::MAX;
    world.run(world.now + ms(5_000));
}

/// Arrival time of each sound packet.
fn received_sound(world: &World) -> Vec<(u32, Timestamp)> {
    let sounds = world.receiver_events.iter().filter_map(|(at, event)| match event {
        ReceiverEvent::Sound(packet) => Some((packet.frame, *at)),
        _ => None,
    });
    sounds.collect()
}

#[test]
fn sound_does_not_wait_for_the_pacer() {
    let mut world = World::new(1);
    // The pacing interval is longer than a frame interval allows, so the pacer is never idle.
    world.sender.set_pace(ms(10), 1);
    talk(&mut world, 100);
    let received = received_sound(&world);
    assert_eq!(received.len(), 100);
    for (frame, at) in received {
        assert_eq!(at, crate::world::at(u64::from(frame) * 20 + 20 + 50), "packet {frame}");
    }
    let statistics = world.sender.statistics();
    assert_eq!(statistics.sounds, 100);
    assert_eq!(statistics.fragments_acknowledged + statistics.fragments_implied, statistics.fragments + 100);
    assert!(world.idle());
}

#[test]
fn lost_sound_is_reported_and_not_sent_again() {
    for recovery in [Recovery::FromHeldState, Recovery::Retransmit] {
        let mut world = World::with(2, recovery);
        world.forward.lose_sound = |frame| frame % 5 == 3;
        talk(&mut world, 100);
        assert_eq!(received_sound(&world).len(), 80);
        let lost = world.sender_events.iter().filter_map(|(_, event)| match event {
            SenderEvent::FragmentsLost(fragments) => Some(fragments),
            _ => None,
        });
        let lost: Vec<(u32, u16)> = lost.flatten().map(|lost| (lost.frame, lost.fragment)).collect();
        assert_eq!(lost, (0..20).map(|n| (5 * n + 3, SOUND)).collect::<Vec<_>>(), "{recovery:?}");
        assert_eq!(world.decoded.len(), world.sources.len(), "{recovery:?}");
        assert_eq!((world.lost_frames(), world.refused_frames()), (vec![], vec![]));
        assert_eq!((world.recovered.len(), world.sender.statistics().retransmitted), (0, 0));
    }
}

#[test]
fn sound_packet_too_long_or_too_old_is_refused() {
    let mut world = World::new(3);
    world.sender.send_sound(at(0), packet(7, at(0))).unwrap();
    for (frame, length) in [(7, 1), (3, 1), (8, 1_401)] {
        let packet = SoundPacket { frame, captured: at(0), payload: vec![0; length] };
        assert_eq!(world.sender.send_sound(at(0), packet), Err(SendError::Sound { frame, length }));
    }
    world.sender.send_sound(at(0), packet(8, at(0))).unwrap();
    world.run(at(200));
    assert_eq!(received_sound(&world).iter().map(|&(frame, _)| frame).collect::<Vec<_>>(), [7, 8]);
}

proptest! {
    #[test]
    fn sound_arrives_at_most_once_under_any_impairment(
        seed in any::<u64>(),
        (loss, duplication, jitter) in (0.0..0.4, 0.0..0.3, 0..80u64),
        retransmits in any::<bool>(),
    ) {
        let recovery = if retransmits { Recovery::Retransmit } else { Recovery::FromHeldState };
        let mut world = World::with(seed, recovery);
        (world.forward.loss, world.forward.duplication, world.forward.jitter) = (loss, duplication, ms(jitter));
        (world.backward.loss, world.backward.jitter) = (loss, ms(jitter));
        talk(&mut world, 150);
        let mut frames: Vec<u32> = received_sound(&world).iter().map(|&(frame, _)| frame).collect();
        let count = frames.len();
        frames.sort_unstable();
        frames.dedup();
        prop_assert_eq!(frames.len(), count);
        prop_assert!(loss > 0.0 || count == 150);
        world.run(world.now + Duration::from_secs(20));
        prop_assert!(world.sender.in_flight().fragments == 0, "{:?}", world.sender.in_flight());
    }
}

#[test]
fn bundles_of_three_keep_contents_and_capture_times() {
    let mut world = World::new(3);
    world.sender.set_sound_bundle(3);
    talk(&mut world, 100);
    let packets = world.receiver_events.iter().filter_map(|(_, event)| match event {
        ReceiverEvent::Sound(packet) => Some(packet.clone()),
        _ => None,
    });
    let packets: Vec<SoundPacket> = packets.collect();
    assert_eq!(packets.len(), 100);
    for (frame, received) in (0..).zip(&packets) {
        assert_eq!(received, &packet(frame, at(u64::from(frame) * 20)));
    }
    assert_eq!(world.sender.statistics().sounds, 34, "the last bundle is incomplete");
    assert!(world.idle());
}
