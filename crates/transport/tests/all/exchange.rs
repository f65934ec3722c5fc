//! Tests of a sender and a receiver over simulated pipes, in virtual time.

use std::time::Duration;

use crate::world::{World, at, ms};
use lockstep_transport::wire::{Acknowledgement, Data, VERSION};
use lockstep_transport::{Datagram, DropReason, ReceiverEvent, SenderEvent, StateId};
use lockstep_units::{Bitrate, ByteCount, Timestamp};
use proptest::prelude::*;

fn losses(world: &World) -> usize {
    world.sender_events.iter().filter(|(_, event)| matches!(event, SenderEvent::FragmentsLost(_))).count()
}

#[test]
fn lossless_path_delivers_every_frame_in_order() {
    let mut world = World::new(1);
    world.run(at(3_000));
    world.capture_at = Timestamp::MAX;
    world.run(at(4_000));
    assert_eq!(world.order, (0..world.sources.len() as u32).collect::<Vec<_>>());
    assert_eq!((losses(&world), world.recovered.len()), (0, 0));
    assert!(world.idle());
    let statistics = world.sender.statistics();
    assert_eq!(statistics.fragments_acknowledged, statistics.fragments);
    assert_eq!(statistics.frames_acknowledged, statistics.frames);
    let round_trip = world.sender.round_trip_time().expect("acknowledgements came");
    assert_eq!((round_trip.minimum, round_trip.smoothed), (ms(100), ms(100)));
    assert!(world.sender.held_states() <= 6, "at most the frames of a round trip, {}", world.sender.held_states());
}

#[test]
fn lost_fragment_is_repaired_within_a_round_trip() {
    let mut world = World::new(2);
    world.forward.lose = |frame, fragment| (frame, fragment) == (20, 2);
    world.run(at(3_000));
    let sent = world.transmitted.iter().find(|sent| sent.1 == 20).expect("frame 20 was sent").0;
    let (next, decoded) = world.next_decoded(19);
    assert!(world.recovered.contains(&next) && next <= 25, "frame {next}");
    assert_eq!(world.lost_frames(), [20]);
    assert_eq!(
        world.refused_frames(),
        (21..next).collect::<Vec<_>>(),
        "frames that arrived but depended on the lost one"
    );
    // The delay is the acknowledgement, the wait for the next capture, and the path of the recovery frame.
    assert!(decoded.saturating_since(sent) <= ms(100 + 33 * 2 + 50), "{:?}", decoded.saturating_since(sent));
    assert_eq!(world.recovered.len(), 1, "one frame repairs it");
}

#[test]
fn lost_frame_and_lost_burst_are_repaired_as_fast() {
    for (last, plan) in [(20, (|frame, _| frame == 20) as fn(u32, u16) -> bool), (22, |f, _| (20..=22).contains(&f))] {
        let mut world = World::new(3);
        world.forward.lose = plan;
        world.run(at(3_000));
        let sent = world.transmitted.iter().find(|sent| sent.1 == last).expect("it was sent").0;
        let (next, decoded) = world.next_decoded(last);
        assert!(world.recovered.contains(&next));
        assert!(decoded.saturating_since(sent) <= ms(100 + 33 * 2 + 50), "{:?}", decoded.saturating_since(sent));
        let missed = world.sources.len() - world.decoded.len() - world.unfinished();
        assert!(missed <= last as usize - 20 + 6, "{missed} frames missed");
    }
}

#[test]
fn loss_of_the_last_fragment_is_detected() {
    let mut world = World::new(4);
    world.forward.lose = |frame, fragment| frame == 30 && fragment == 4;
    world.run(at(10 + 33 * 30));
    world.capture_at = Timestamp::MAX;
    let sent = world.now;
    world.run(at(3_000));
    assert_eq!((world.lost_frames(), world.refused_frames()), (vec![30], vec![]));
    let detected = world.sender_events.iter().find(|(_, event)| *event == SenderEvent::FrameLost(30));
    let after = detected.expect("the loss is detected").0.saturating_since(sent);
    assert!(after <= ms(150), "{after:?}");
    assert!(world.idle());
    assert_eq!(world.sender.next_source(), StateId(30 << 20 | 1), "the state of frame 29");
}

#[test]
fn loss_of_half_the_acknowledgements_loses_no_frame() {
    let mut world = World::new(5);
    world.backward.loss = 0.5;
    world.run(at(10_000));
    world.capture_at = Timestamp::MAX;
    world.run(at(11_000));
    assert_eq!(world.decoded.len(), world.sources.len());
    let statistics = world.sender.statistics();
    assert_eq!(statistics.fragments_lost, statistics.spurious);
    assert!(world.recovered.len() * 33 < world.sources.len(), "{} spurious recoveries", world.recovered.len());
    assert_eq!(statistics.frames_acknowledged, world.sources.len() as u64);
    assert!(world.idle());
}

#[test]
fn reordering_loses_no_frame() {
    let mut world = World::new(6);
    world.forward.jitter = ms(30);
    world.sender.set_pace(ms(2), 1);
    world.run(at(10_000));
    world.capture_at = Timestamp::MAX;
    world.run(at(11_000));
    let statistics = world.sender.statistics();
    assert!(world.receiver.statistics().late == 0 && statistics.fragments_lost == statistics.spurious);
    let (frames, decoded) = (world.sources.len(), world.decoded.len());
    assert!(decoded * 100 >= frames * 97, "{decoded} of {frames}: the threshold adapts");
    assert!(statistics.spurious * 50 < statistics.fragments, "{} spurious", statistics.spurious);
    assert!(world.idle());
}

#[test]
fn slight_reordering_is_not_a_loss() {
    let mut world = World::new(7);
    world.forward.jitter = ms(3);
    world.sender.set_pace(ms(2), 1);
    world.run(at(5_000));
    assert_eq!((losses(&world), world.recovered.len()), (0, 0));
}

#[test]
fn call_resumes_from_a_held_state_after_an_outage() {
    for both in [false, true] {
        let mut world = World::new(8);
        world.forward.outage = Some((at(2_000), at(3_000)));
        world.backward.outage = both.then_some((at(2_000), at(3_000)));
        world.run(at(5_000));
        let resumed = *world.decoded.values().find(|&&moment| moment > at(3_000)).expect("the call resumes");
        assert!(resumed <= at(3_000 + 33 + 100 + 33 + 50), "{resumed}");
        let late = world.decoded.values().filter(|&&moment| moment > at(3_300)).count();
        assert!(late >= 1_700 / 33 - 1, "{late} frames in the last 1.7 s");
        assert!(world.sources.range(1..).all(|(_, source)| *source != StateId::EMPTY), "no second key frame");
        assert!(world.timeouts < 1_000, "{} timeouts", world.timeouts);
    }
}

#[test]
fn timers_end_in_an_endless_outage() {
    let mut world = World::new(9);
    world.forward.outage = Some((at(1_000), Timestamp::MAX));
    world.backward.outage = Some((at(1_000), Timestamp::MAX));
    world.run(at(2_000));
    world.capture_at = Timestamp::MAX;
    world.run(at(60_000));
    assert!(world.idle() && world.sender.poll_timeout().is_none());
}

#[test]
fn invalid_and_duplicate_datagrams_change_only_counters() {
    let mut plain = World::new(10);
    let mut dirty = World::new(10);
    for step in 1..60u64 {
        plain.run(at(step * 50));
        dirty.run(at(step * 50));
        let random = step.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        for first in [1, 2, 3, 4, 5, 6, 15].map(|kind| VERSION << 4 | kind).into_iter().chain([0x77]) {
            let junk: Vec<u8> = [first, 0].into_iter().chain(random.iter().copied().cycle().take(120)).collect();
            dirty.sender.handle_datagram(dirty.now, Datagram::decode(&junk));
            dirty.receiver.handle_datagram(dirty.now, Datagram::decode(&junk), false);
            let mut near = junk.clone();
            near[2..6].copy_from_slice(&crate::world::CONNECTION.to_be_bytes());
            dirty.sender.handle_datagram(dirty.now, Datagram::decode(&near));
        }
        for pipe in [&dirty.forward, &dirty.backward] {
            for bytes in pipe.seen() {
                // Truncated copies of earlier datagrams, at both ends.
                dirty.receiver.handle_datagram(dirty.now, Datagram::decode(&bytes[..bytes.len() / 2]), false);
                dirty.sender.handle_datagram(dirty.now, Datagram::decode(&bytes[..bytes.len() - 1]));
            }
        }
        for bytes in dirty.forward.seen().iter().chain(dirty.backward.seen()) {
            let mut foreign = bytes.clone();
            foreign[5] ^= 1;
            dirty.receiver.handle_datagram(dirty.now, Datagram::decode(&foreign), false);
            dirty.sender.handle_datagram(dirty.now, Datagram::decode(&foreign));
        }
        for bytes in dirty.forward.seen() {
            dirty.receiver.handle_datagram(dirty.now, Datagram::decode(bytes), false);
        }
        for bytes in dirty.backward.seen().iter().filter(|bytes| bytes[0] == VERSION << 4 | 2) {
            dirty.sender.handle_datagram(dirty.now, Datagram::decode(bytes));
        }
    }
    assert_eq!((plain.order, plain.transmitted), (dirty.order, dirty.transmitted));
    assert_eq!(plain.sender_events, dirty.sender_events);
    assert_eq!(plain.receiver_events, dirty.receiver_events);
    let (sender, receiver) = (dirty.sender.statistics(), dirty.receiver.statistics());
    assert!(sender.malformed > 0 && sender.foreign > 0 && sender.overtaken_acknowledgements > 0);
    assert!(receiver.malformed > 0 && receiver.foreign > 0 && receiver.duplicates > 0);
}

#[test]
fn impossible_fields_change_only_a_counter() {
    let mut plain = World::new(17);
    let mut dirty = World::new(17);
    plain.run(at(500));
    dirty.run(at(500));
    let find = |world: &World, data: bool| {
        let all = world.forward.seen().iter().chain(world.backward.seen()).rev();
        let mut decoded = all.filter_map(|bytes| Datagram::decode(bytes).ok());
        decoded.find(|datagram| matches!(datagram, Datagram::Data(_)) == data).expect("both kinds passed")
    };
    let (Datagram::Acknowledgement(valid), Datagram::Data(fragment)) = (find(&dirty, false), find(&dirty, true)) else {
        panic!("both kinds passed")
    };
    let changes: [fn(&mut Acknowledgement); 8] = [
        |it| it.fragments[0].frame += 1_000,
        |it| it.fragments[0].fragment += 1_000,
        |it| it.highest += 1_000,
        |it| it.received += 1_000,
        |it| it.sequence += 1_000,
        |it| it.catalogue[0] += 1_000,
        |it| it.refused.push(1_000),
        |it| it.hold = Duration::from_secs(1_000),
    ];
    for change in changes {
        let mut acknowledgement = valid.clone();
        change(&mut acknowledgement);
        let mut bytes = Vec::new();
        Datagram::Acknowledgement(acknowledgement).encode(&mut bytes);
        dirty.sender.handle_datagram(dirty.now, Datagram::decode(&bytes));
    }
    let changes: [fn(&mut Data); 8] = [
        |it| it.frame += 1_000_000,
        |it| it.sequence += 1 << 30,
        |it| it.captured = it.sent_at + ms(1),
        |it| it.anchor = it.frame + 1,
        |it| it.keep_from = it.anchor + 1,
        |it| it.fragments = u16::MAX,
        |it| it.target = StateId::EMPTY,
        |it| it.source = StateId(5),
    ];
    for change in changes {
        let mut data = fragment.clone();
        change(&mut data);
        let mut bytes = Vec::new();
        Datagram::Data(data).encode(&mut bytes);
        dirty.receiver.handle_datagram(dirty.now, Datagram::decode(&bytes), false);
    }
    assert_eq!((dirty.sender.statistics().absurd, dirty.receiver.statistics().absurd), (8, 7));
    assert_eq!(dirty.receiver.statistics().inconsistent, 1);
    plain.run(at(1_500));
    dirty.run(at(1_500));
    assert_eq!((plain.order, plain.transmitted), (dirty.order, dirty.transmitted));
    assert_eq!((plain.sender_events, plain.receiver_events), (dirty.sender_events, dirty.receiver_events));
}

#[test]
fn fragments_are_paced_and_carry_the_grace_period() {
    let mut world = World::new(11);
    world.sender.set_pace(ms(2), 1);
    world.forward.lose = |frame, fragment| frame == 10 && fragment == 0;
    world.run(at(1_000));
    for pair in world.transmitted.windows(2) {
        assert!(pair[1].0.saturating_since(pair[0].0) >= ms(2));
    }
    let arrivals: Vec<_> = world
        .receiver_events
        .iter()
        .filter_map(|(_, event)| match event {
            ReceiverEvent::Arrival(arrival) => Some(*arrival),
            _ => None,
        })
        .collect();
    // Every gap is chosen by the sender here. So arrivals minus grace have no gaps, even after the loss of a frame's
    // first fragment.
    for pair in arrivals.windows(2) {
        assert_eq!(pair[1].arrived_at.saturating_since(pair[0].arrived_at), pair[1].grace);
    }
    let after_loss = arrivals.iter().find(|arrival| (arrival.frame, arrival.fragment) == (10, 1)).expect("it arrived");
    assert_eq!(after_loss.grace, ms(33 - 4 * 2 + 2), "the pause between the frames and the pacer's");
}

#[test]
fn late_wakeup_of_the_host_is_no_grace_period() {
    let mut world = World::new(12);
    world.capture_at = Timestamp::MAX;
    world.run(at(100));
    let source = world.sender.next_source();
    let frame = lockstep_transport::OutgoingFrame {
        source,
        target: StateId(7),
        captured: at(100),
        key_frame: true,
        parity: 0,
        payload: vec![1; 2_400],
    };
    world.sender.send_frame(at(100), frame).expect("the connection is open");
    let first = world.sender.poll_transmit(at(100)).expect("a fragment");
    let second = world.sender.poll_transmit(at(105)).expect("a fragment that is 5 ms late");
    for transmit in [first, second] {
        world.receiver.handle_datagram(at(200), Ok(transmit.datagram), false);
    }
    let mut graces = Vec::new();
    while let Some(event) = world.receiver.poll_event() {
        if let ReceiverEvent::Arrival(arrival) = event {
            graces.push(arrival.grace);
        }
    }
    assert_eq!(graces, [Duration::ZERO, Duration::ZERO]);
}

#[test]
fn estimate_and_arrivals_reach_the_sender() {
    let mut world = World::new(13);
    world.receiver.set_estimate(lockstep_transport::Estimate {
        inter_arrival: Some(Duration::from_micros(1_234)),
        capacity: Some(Bitrate::from_kbps(2_000)),
    });
    world.run(at(500));
    assert_eq!(world.sender.estimate().capacity, Some(Bitrate::from_kbps(2_000)));
    assert_eq!(world.sender.estimate().inter_arrival, Some(Duration::from_micros(1_234)));
    let mut acknowledged = Vec::new();
    for (now, event) in &world.sender_events {
        if let SenderEvent::Feedback(feedback) = event {
            assert!(feedback.acknowledged.iter().all(|fragment| fragment.acknowledged_at == *now));
            acknowledged.extend(feedback.acknowledged.iter().copied());
        }
    }
    assert!(acknowledged.len() > 40);
    assert!(acknowledged.iter().all(|fragment| fragment.arrived_at == fragment.sent_at + ms(50)));
    let total: ByteCount = acknowledged.iter().map(|fragment| fragment.size).sum();
    assert!(total.get() > 5_000 * 9);
}

#[test]
fn hello_is_repeated_until_answered() {
    let mut world = World::new(14);
    world.capture_at = Timestamp::MAX;
    world.forward.outage = Some((at(0), at(150)));
    world.run(at(250));
    assert!(!world.sender_events.iter().any(|(_, event)| *event == SenderEvent::Connected));
    world.run(at(1_000));
    assert!(world.sender_events.iter().any(|(_, event)| *event == SenderEvent::Connected));
    let hellos = world.receiver_events.iter().filter(|(_, event)| matches!(event, ReceiverEvent::Hello(_)));
    assert_eq!(hellos.count(), 1);
    assert_eq!(world.sender.poll_timeout(), None, "no timer runs");
    // The receiver answers each later hello but emits no event for it.
    let answers =
        |world: &World| world.sender_events.iter().filter(|(_, event)| *event == SenderEvent::Answered).count();
    for (greeted_at, answered) in [(1_000, 1), (1_200, 2)] {
        world.sender.send_hello(at(greeted_at));
        world.run(at(greeted_at + 150));
        assert_eq!(answers(&world), answered);
    }
    world.forward.outage = Some((at(1_400), at(1_450)));
    world.sender.send_hello(at(1_400));
    world.run(at(1_600));
    assert_eq!((answers(&world), world.sender.poll_timeout()), (2, None), "a lost later hello is not repeated");
    let hellos = world.receiver_events.iter().filter(|(_, event)| matches!(event, ReceiverEvent::Hello(_)));
    assert_eq!(hellos.count(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// The world checks three properties at each step. A frame is handed out only if its source is held. The receiver
    /// holds a source that is not the last target. The number of states is bounded at both ends.
    #[test]
    fn sources_are_held_states_under_any_impairment(
        seed in any::<u64>(),
        loss in 0.0..0.3f64,
        back in 0.0..0.3f64,
        jitter in 0u64..60,
        duplication in 0.0..0.2f64,
        pace in 0u64..6,
        bytes in 1usize..9_000,
    ) {
        let mut world = World::new(seed);
        world.frame_bytes = bytes;
        (world.forward.loss, world.backward.loss) = (loss, back);
        (world.forward.jitter, world.backward.jitter) = (ms(jitter), ms(jitter / 2));
        world.forward.duplication = duplication;
        world.backward.duplication = duplication;
        // The pacer must keep up with the frames, or its queue grows without bound.
        world.sender.set_pace(ms(pace.min(24 / bytes.div_ceil(1_200) as u64)), 1);
        world.run(at(10_000));
        world.forward.loss = 0.0;
        world.backward.loss = 0.0;
        world.run(at(12_000));
        world.capture_at = Timestamp::MAX;
        world.run(at(20_000));
        prop_assert!(world.idle());
        let late = world.decoded.values().filter(|&&moment| moment > at(11_000)).count();
        prop_assert!(jitter > 15 || late >= 20, "{} frames in the second after the losses end", late);
        let statistics = world.sender.statistics();
        prop_assert!(statistics.absurd == 0 && statistics.malformed == 0, "{:?}", statistics);
        let receiver = world.receiver.statistics();
        prop_assert!(receiver.absurd == 0 && receiver.inconsistent == 0 && receiver.failed == 0, "{:?}", receiver);
    }

    #[test]
    fn call_survives_loss_of_30_percent(seed in any::<u64>()) {
        let mut world = World::new(seed);
        world.frame_bytes = 1_000;
        (world.forward.loss, world.backward.loss) = (0.3, 0.3);
        world.run(at(20_000));
        // A loss in one of three frames interrupts decoding for about a round trip, four frames.
        let share = world.decoded.len() as f64 / world.sources.len() as f64;
        prop_assert!(share > 0.15, "{} of the frames decoded", share);
        let acknowledged = |event: &SenderEvent| matches!(event, SenderEvent::FrameAcknowledged { .. });
        let first = world.sender_events.iter().find(|(_, event)| acknowledged(event)).expect("something arrives").0;
        for (moment, frame, _) in &world.transmitted {
            prop_assert!(*moment <= first || world.sources[frame] != StateId::EMPTY, "frame {} is a key frame", frame);
        }
    }

    #[test]
    fn same_seed_gives_the_same_call(seed in any::<u64>()) {
        let run = || {
            let mut world = World::new(seed);
            (world.forward.loss, world.forward.jitter, world.backward.loss) = (0.1, ms(20), 0.1);
            world.run(at(2_000));
            (world.sender_events, world.receiver_events, world.transmitted)
        };
        prop_assert_eq!(run(), run());
    }
}

#[test]
fn waiting_frames_are_dropped_once_a_newer_is_decoded() {
    let mut world = World::new(16);
    world.forward.lose = |frame, fragment| (frame, fragment) == (20, 0);
    world.run(at(2_000));
    let dropped: Vec<u32> = world
        .receiver_events
        .iter()
        .filter_map(|(_, event)| match event {
            ReceiverEvent::Dropped { frame, reason: DropReason::Superseded } => Some(*frame),
            _ => None,
        })
        .collect();
    let (repair, _) = world.next_decoded(20);
    assert_eq!(dropped, (21..repair).collect::<Vec<_>>());
}
