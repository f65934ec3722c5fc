//! Tests of one end against hand-made datagrams.

use std::time::Duration;

use lockstep_transport::wire::{Acknowledgement, CodecId, Data, Datagram, Hello, ReceivedFragment, VideoFormat};
use lockstep_transport::{
    DropReason, Estimate, FeedbackInterval, OutgoingFrame, Receiver, ReceiverConfig, ReceiverEvent, Sender,
    SenderConfig, SenderEvent, StateId,
};
use lockstep_units::Timestamp;

const FORMAT: VideoFormat = VideoFormat { width: 64, height: 48, frame_rate_numerator: 30, frame_rate_denominator: 1 };

fn at(milliseconds: u64) -> Timestamp {
    Timestamp::from_millis(milliseconds)
}

fn state(frame: u32) -> StateId {
    StateId(u64::from(frame) + 100)
}

fn encoded(datagram: Datagram) -> Vec<u8> {
    let mut bytes = Vec::new();
    datagram.encode(&mut bytes);
    bytes
}

/// A frame of one fragment; the frame number is also the sequence number.
fn frame(number: u32, source: StateId) -> Data {
    Data {
        connection: 1,
        sequence: number,
        frame: number,
        fragment: 0,
        fragments: 1,
        parity: None,
        source,
        target: state(number),
        sent_at: at(u64::from(number)),
        captured: at(0),
        idle: 0,
        keep_from: 0,
        feedback_doublings: 0,
        anchor: 0,
        key_frame: false,
        payload: vec![number as u8],
    }
}

fn acknowledging(feedback: FeedbackInterval) -> Receiver {
    Receiver::new(ReceiverConfig { connection: Some(1), feedback, ..ReceiverConfig::default() })
}

fn receiver() -> Receiver {
    acknowledging(FeedbackInterval::EveryFragment)
}

#[test]
fn receiver_measures_missing_datagrams_and_jitter() {
    let mut receiver = receiver();
    assert_eq!((receiver.missing(), receiver.jitter()), (0, Duration::ZERO));
    // The one-way delay is 50 ms; frames 3 and 7 are lost.
    for number in (0..40).filter(|number| ![3, 7].contains(number)) {
        let bytes = encoded(Datagram::Data(frame(number, StateId::EMPTY)));
        receiver.handle_datagram(at(u64::from(number) + 50), Datagram::decode(&bytes), false);
    }
    assert_eq!((receiver.missing(), receiver.jitter()), (2, Duration::ZERO));
    // A delay that is 16 ms longer adds a sixteenth of 16 ms to the jitter.
    let bytes = encoded(Datagram::Data(frame(40, StateId::EMPTY)));
    receiver.handle_datagram(at(40 + 66), Datagram::decode(&bytes), false);
    assert_eq!(receiver.jitter(), Duration::from_millis(1));
}

#[test]
fn frames_waiting_for_the_decoder_are_bounded_in_bytes() {
    let mut receiver = receiver();
    let handed_out = |receiver: &mut Receiver| {
        let events = std::iter::from_fn(|| receiver.poll_event());
        let frames = events.filter_map(|event| match event {
            ReceiverEvent::Frame { frame, .. } => Some(frame),
            _ => None,
        });
        frames.collect::<Vec<_>>()
    };
    for number in 0..40 {
        let data = Data { payload: vec![0; 1 << 20], ..frame(number, StateId::EMPTY) };
        assert!(receiver.handle_datagram(at(u64::from(number)), Ok(Datagram::Data(data)), false));
    }
    assert_eq!(handed_out(&mut receiver), [0, 1, 2, 3, 4, 5, 6], "8 MB with what the window costs");
    receiver.frame_failed(0);
    assert_eq!(handed_out(&mut receiver), [33], "the newest frames wait in the window");
}

/// Passes a fragment to the receiver and decodes the frames that it hands out, except `bad`. Returns these frames.
fn give(receiver: &mut Receiver, data: Data, bad: Option<u32>) -> Vec<u32> {
    receiver.handle_datagram(at(100), Datagram::decode(&encoded(Datagram::Data(data))), false);
    let mut frames = Vec::new();
    while let Some(event) = receiver.poll_event() {
        if let ReceiverEvent::Frame { frame, target, .. } = event {
            frames.push(frame);
            if bad == Some(frame) { receiver.frame_failed(frame) } else { receiver.frame_decoded(frame, target) }
        }
    }
    frames
}

fn acknowledgement(receiver: &mut Receiver, now: Timestamp) -> Acknowledgement {
    let transmit = receiver.poll_transmit(now).expect("an acknowledgement is due");
    match transmit.datagram {
        Datagram::Acknowledgement(acknowledgement) => *acknowledgement,
        other => panic!("not an acknowledgement: {other:?}"),
    }
}

#[test]
fn reused_acknowledgement_equals_a_new_one() {
    let (mut new, mut reusing) = (receiver(), receiver());
    for number in 0..40 {
        let source = if number % 10 == 0 { StateId::EMPTY } else { state(number - 1) };
        // Frames 15 to 20 fail to decode, or depend on one that fails. So the lists grow and shrink.
        let [expected, made] = [&mut new, &mut reusing].map(|receiver| {
            give(receiver, frame(number, source), Some(15));
            acknowledgement(receiver, at(100))
        });
        assert_eq!(made, expected, "frame {number}");
        assert!(!made.fragments.is_empty());
        reusing.reuse(Box::new(made));
    }
}

#[test]
fn frames_in_reverse_order_are_handed_out_in_order() {
    let mut receiver = receiver();
    for number in (1..10).rev() {
        assert_eq!(give(&mut receiver, frame(number, state(number - 1)), None), [] as [u32; 0]);
    }
    assert_eq!(give(&mut receiver, frame(0, StateId::EMPTY), None), (0..10).collect::<Vec<_>>());
}

#[test]
fn late_frame_is_decoded_only_if_a_waiting_frame_needs_it() {
    for needed in [true, false] {
        let mut receiver = receiver();
        assert_eq!(give(&mut receiver, frame(0, StateId::EMPTY), None), [0]);
        if needed {
            give(&mut receiver, frame(4, state(1)), None);
        }
        assert_eq!(give(&mut receiver, frame(3, state(0)), None), [3]);
        let late = give(&mut receiver, frame(1, state(0)), None);
        assert_eq!(late, if needed { vec![1, 4] } else { vec![] });
        assert_eq!(receiver.statistics().refused, u64::from(!needed));
    }
}

#[test]
fn state_needed_by_a_waiting_frame_is_not_released() {
    let mut receiver = receiver();
    give(&mut receiver, frame(0, StateId::EMPTY), None);
    let fragments = |fragment, sequence| Data { fragment, fragments: 2, sequence, ..frame(2, state(0)) };
    give(&mut receiver, fragments(0, 2), None);
    let leave = Data { keep_from: 1, anchor: 1, ..frame(1, StateId::EMPTY) };
    let leave = Data { sequence: 3, ..leave };
    give(&mut receiver, leave, None);
    assert!(receiver.holds(state(0)));
    assert_eq!(give(&mut receiver, Data { keep_from: 1, anchor: 1, ..fragments(1, 4) }, None), [2]);
    assert!(!receiver.holds(state(0)) && receiver.holds(state(1)) && receiver.holds(state(2)));
}

#[test]
fn frame_that_fails_or_yields_another_state_is_refused() {
    let mut receiver = receiver();
    assert_eq!(give(&mut receiver, frame(0, StateId::EMPTY), Some(0)), [0]);
    receiver.handle_datagram(at(100), Datagram::decode(&encoded(Datagram::Data(frame(1, StateId::EMPTY)))), false);
    receiver.frame_decoded(1, StateId(55));
    let acknowledgement = acknowledgement(&mut receiver, at(100));
    assert_eq!((acknowledgement.refused, acknowledgement.catalogue), (vec![1, 0], vec![]));
    let events: Vec<_> = std::iter::from_fn(|| receiver.poll_event()).collect();
    assert!(events.contains(&ReceiverEvent::Release(StateId(55))));
    receiver.frame_decoded(1, state(1));
    assert_eq!((receiver.statistics().failed, receiver.statistics().unknown_verdicts), (2, 1));
}

#[test]
fn verdict_is_acknowledged() {
    let mut receiver = receiver();
    receiver.handle_datagram(at(100), Datagram::decode(&encoded(Datagram::Data(frame(0, StateId::EMPTY)))), false);
    let first = acknowledgement(&mut receiver, at(100));
    assert_eq!((first.fragments.len(), first.catalogue.len(), first.hold), (1, 0, Duration::ZERO));
    assert_eq!(receiver.poll_transmit(at(100)), None);
    receiver.frame_decoded(0, state(0));
    let second = acknowledgement(&mut receiver, at(112));
    assert_eq!((second.catalogue, second.hold), (vec![0], Duration::from_millis(12)));
}

#[test]
fn all_arrivals_between_two_polls_are_acknowledged() {
    let mut receiver = receiver();
    for number in 0..40 {
        receiver.handle_datagram(at(100), Datagram::decode(&encoded(Datagram::Data(frame(number, state(90))))), false);
    }
    let mut listed = Vec::new();
    while let Some(transmit) = receiver.poll_transmit(at(100)) {
        let Datagram::Acknowledgement(acknowledgement) = transmit.datagram else { continue };
        assert!(acknowledgement.fragments.len() <= 12);
        listed.extend(acknowledgement.fragments.iter().map(|fragment| fragment.frame));
    }
    listed.sort_unstable();
    listed.dedup();
    assert_eq!(listed, (0..40).collect::<Vec<_>>());
    assert_eq!(receiver.statistics().acknowledgements, 4);
}

/// When a receiver that is polled every millisecond acknowledges, and the number of newly listed fragments.
///
/// Fragments of an incomplete frame arrive every 4 ms, from 100 ms on. A frame of one fragment arrives at 130 ms and is
/// decoded at 133 ms.
fn acknowledged_at(feedback: FeedbackInterval) -> Vec<(u64, usize)> {
    let mut receiver = acknowledging(feedback);
    let (mut known, mut acknowledged) = (0, Vec::new());
    for now in 100..180 {
        let data = match now {
            130 => Some(Data { sequence: 60, ..frame(1, StateId::EMPTY) }),
            _ if now % 4 == 0 => {
                let fragment = ((now - 100) / 4) as u16;
                Some(Data { sequence: fragment.into(), fragment, fragments: 40, ..frame(0, StateId::EMPTY) })
            }
            _ => None,
        };
        if let Some(data) = data {
            receiver.handle_datagram(at(now), Ok(Datagram::Data(data)), false);
        }
        while receiver.poll_event().is_some() {}
        if now == 133 {
            receiver.frame_decoded(1, state(1));
        }
        let due = receiver.poll_timeout();
        let Some(transmit) = receiver.poll_transmit(at(now)) else { continue };
        assert!(due.is_none_or(|due| due <= at(now)));
        let Datagram::Acknowledgement(acknowledgement) = transmit.datagram else { panic!("{:?}", transmit.datagram) };
        let new: Vec<_> = acknowledgement.fragments.iter().filter(|listed| listed.arrived_at > at(known)).collect();
        assert!(
            new.iter().all(|listed| listed.frame == 1 || listed.arrived_at == at(100 + 4 * u64::from(listed.fragment)))
        );
        acknowledged.push((now, new.len()));
        known = now;
    }
    acknowledged
}

#[test]
fn first_arrival_and_verdicts_are_acknowledged_at_once() {
    let aggregated = acknowledged_at(FeedbackInterval::Aggregated(Duration::from_millis(20)));
    assert_eq!(aggregated, [(100, 1), (120, 5), (133, 4), (153, 5), (173, 5)]);
    let strict = acknowledged_at(FeedbackInterval::Every(Duration::from_millis(20)));
    assert_eq!(strict, [(100, 1), (120, 5), (140, 6), (160, 5)]);
    assert_eq!(acknowledged_at(FeedbackInterval::EveryFragment).len(), 22);
}

#[test]
fn requested_doublings_delay_acknowledgements_and_verdicts() {
    for (doublings, expected) in [(0, vec![100, 112, 132, 152]), (2, vec![100, 180])] {
        let mut receiver = acknowledging(FeedbackInterval::Aggregated(Duration::from_millis(20)));
        let mut acknowledged = Vec::new();
        for now in 100..190 {
            // A frame arrives every 8 ms up to 148; the second is decoded at 112.
            if now <= 148 && (now - 100) % 8 == 0 {
                let number = (now as u32 - 100) / 8;
                let data = Data { feedback_doublings: doublings, ..frame(number, StateId::EMPTY) };
                receiver.handle_datagram(at(now), Datagram::decode(&encoded(Datagram::Data(data))), false);
            }
            if now == 112 {
                receiver.frame_decoded(1, state(1));
            }
            if receiver.poll_transmit(at(now)).is_some() {
                acknowledged.push(now);
            }
        }
        assert_eq!(acknowledged, expected, "{doublings} doublings");
    }
}

#[test]
fn sender_requests_doublings_if_acknowledgements_queue() {
    let feedback = FeedbackInterval::Aggregated(Duration::from_millis(20));
    for (slower, asks) in [(0, false), (15, true)] {
        let mut sender = Sender::new(SenderConfig { feedback, ..SenderConfig::new(1, FORMAT) });
        let mut asked = 0;
        for number in 0..50 {
            let now = 200 + 40 * u64::from(number);
            let (source, captured) = (sender.next_source(), at(now));
            let frame = OutgoingFrame {
                source,
                target: state(number),
                captured,
                key_frame: false,
                parity: 0,
                payload: vec![1],
            };
            assert_eq!(sender.send_frame(at(now), frame), Ok(number));
            let data = next_data(&mut sender, now).expect("a frame was sent");
            asked = asked.max(data.feedback_doublings);
            // The delay of each acknowledgement is longer by this step.
            let sent_at = at(now + 30 - slower * u64::from(number).min(20));
            let news = Acknowledgement { sent_at, echo: data.sent_at, ..acknowledge(number, &[number], &[number]) };
            deliver(&mut sender, now + 30, news);
        }
        assert_eq!(asked > 0, asks, "{slower} ms");
    }
}

#[test]
fn tail_timer_waits_for_the_feedback_interval() {
    let lost_at = |feedback| {
        let mut sender = Sender::new(SenderConfig { feedback, ..SenderConfig::new(1, FORMAT) });
        assert!(sender.poll_transmit(at(0)).is_some(), "the hello");
        send(&mut sender, 0);
        (1..10_000).find(|&now| {
            sender.handle_timeout(at(now));
            sender.in_flight().fragments == 0
        })
    };
    let late = lost_at(FeedbackInterval::Every(Duration::from_millis(300)));
    let early = lost_at(FeedbackInterval::EveryFragment);
    assert_eq!(late.unwrap() - early.unwrap(), 300);
}

#[test]
fn retransmission_of_a_late_fragment_counts_as_received() {
    let mut receiver = receiver();
    let two = |fragment, sequence| Data { fragment, fragments: 2, sequence, ..frame(0, StateId::EMPTY) };
    let mut arrived = Vec::new();
    // Sequence number 2 is a retransmission of the second fragment. The network duplicates 2 and 1.
    for sequence in [0, 1, 2, 2, 1, 3] {
        let data = if sequence == 3 { frame(3, state(0)) } else { two(sequence.min(1) as u16, sequence) };
        receiver.handle_datagram(at(100), Datagram::decode(&encoded(Datagram::Data(data))), false);
        while let Some(event) = receiver.poll_event() {
            if let ReceiverEvent::Arrival(arrival) = event {
                arrived.push(arrival.sequence);
            }
        }
    }
    assert_eq!(arrived, [0, 1, 2, 3]);
    let acknowledgement = acknowledgement(&mut receiver, at(100));
    assert_eq!((acknowledgement.highest, acknowledgement.received), (3, 4));
    assert_eq!(acknowledgement.fragments.len(), 3);
    assert_eq!((receiver.statistics().fragments, receiver.statistics().duplicates), (3, 3));
}

#[test]
fn window_drops_old_frames_and_bounds_its_bytes() {
    let mut receiver = Receiver::new(ReceiverConfig {
        connection: Some(1),
        window_bytes: 10_000,
        window: 8,
        ..ReceiverConfig::default()
    });
    let mut dropped = Vec::new();
    for number in 0..30 {
        let data = Data { payload: vec![0; 1_000], ..frame(number, StateId(7)) };
        receiver.handle_datagram(
            at(1),
            Datagram::decode(&encoded(Datagram::Data(Data { fragments: 2, ..data.clone() }))),
            false,
        );
        receiver.handle_datagram(
            at(1),
            Datagram::decode(&encoded(Datagram::Data(Data { fragments: 2, fragment: 1, ..data }))),
            false,
        );
        while let Some(event) = receiver.poll_event() {
            if let ReceiverEvent::Dropped { frame, reason } = event {
                assert_eq!(reason, DropReason::NoRoom);
                dropped.push(frame);
            }
        }
    }
    assert_eq!(dropped, (0..26).collect::<Vec<_>>(), "four frames of 2,128 bytes fit");
    receiver.handle_datagram(
        at(1),
        Datagram::decode(&encoded(Datagram::Data(Data { fragments: 2, ..frame(21, StateId(7)) }))),
        false,
    );
    assert_eq!(receiver.statistics().late, 1);
}

#[test]
fn first_hello_chooses_the_connection_and_data_does_not() {
    let mut receiver = Receiver::new(ReceiverConfig::default());
    assert_eq!(give(&mut receiver, frame(0, StateId::EMPTY), None), [] as [u32; 0]);
    assert_eq!(receiver.statistics().before_hello, 1);
    for connection in [1, 2] {
        receiver.handle_datagram(
            at(1),
            Datagram::decode(&encoded(Datagram::Hello(Hello {
                connection,
                format: FORMAT,
                estimator: 0,
                codec: CodecId::VP8,
            }))),
            false,
        );
    }
    assert_eq!(receiver.statistics().foreign, 1);
    assert_eq!(give(&mut receiver, frame(0, StateId::EMPTY), None), [0]);
}

/// A sender after its hello and `frames` frames of one fragment, sent one per millisecond.
fn sender(frames: u32) -> Sender {
    let mut sender = Sender::new(SenderConfig::new(1, FORMAT));
    assert!(sender.poll_transmit(at(0)).is_some(), "the hello");
    (0..frames).for_each(|number| send(&mut sender, number));
    sender
}

fn send(sender: &mut Sender, number: u32) {
    let source = sender.next_source();
    let now = at(u64::from(number));
    let frame =
        OutgoingFrame { source, target: state(number), captured: now, key_frame: false, parity: 0, payload: vec![1] };
    assert_eq!(sender.send_frame(now, frame), Ok(number));
    assert!(sender.poll_transmit(now).is_some());
}

/// An acknowledgement of the fragments of `frames`, newest last, with `held` as catalogue.
fn acknowledge(sequence: u32, frames: &[u32], held: &[u32]) -> Acknowledgement {
    let newest = frames.last().copied().unwrap_or(0);
    let received =
        |&frame| ReceivedFragment { frame, fragment: 0, arrived_at: at(5_000), congestion_experienced: false };
    let fragments = frames.iter().map(received);
    Acknowledgement {
        connection: 1,
        sequence,
        sent_at: at(5_000),
        highest: newest,
        echo: at(u64::from(newest)),
        hold: Duration::ZERO,
        received: frames.len() as u32,
        estimate: Estimate::default(),
        fragments: fragments.collect(),
        catalogue: held.to_vec(),
        refused: Vec::new(),
    }
}

fn deliver(sender: &mut Sender, now: u64, acknowledgement: Acknowledgement) {
    sender.handle_datagram(at(now), Datagram::decode(&encoded(Datagram::Acknowledgement(Box::new(acknowledgement)))));
    assert_eq!(sender.statistics().absurd, 0);
}

#[test]
fn refused_frame_is_not_a_source() {
    let mut sender = sender(3);
    deliver(&mut sender, 100, acknowledge(0, &[0, 1], &[0]));
    assert_eq!(sender.next_source(), state(2));
    deliver(&mut sender, 101, Acknowledgement { refused: vec![1], ..acknowledge(1, &[0, 1], &[0]) });
    assert_eq!(sender.next_source(), state(0));
    let events: Vec<_> = std::iter::from_fn(|| sender.poll_event()).collect();
    assert!(events.contains(&SenderEvent::FrameRefused(1)), "the frame is refused, not lost");
    assert_eq!((sender.statistics().frames_refused, sender.statistics().frames_lost), (1, 0));
}

#[test]
fn spurious_loss_is_taken_back() {
    let mut sender = sender(6);
    deliver(&mut sender, 100, acknowledge(0, &[0, 2, 3, 4, 5], &[0]));
    assert_eq!((sender.next_source(), sender.in_flight().fragments), (state(0), 0));
    deliver(&mut sender, 101, Acknowledgement { received: 6, highest: 5, echo: at(5), ..acknowledge(1, &[1], &[0]) });
    assert_eq!(sender.next_source(), state(5), "frames 1 to 5 may all arrive");
    assert_eq!((sender.statistics().fragments_lost, sender.statistics().spurious), (1, 1));
}

#[test]
fn round_trip_time_excludes_the_hold_of_the_receiver() {
    let mut sender = sender(1);
    deliver(&mut sender, 100, Acknowledgement { hold: Duration::from_millis(30), ..acknowledge(0, &[0], &[]) });
    assert_eq!(sender.round_trip_time().expect("measured").latest, Duration::from_millis(70));
}

#[test]
fn state_that_the_receiver_lost_is_not_a_source() {
    let mut sender = sender(2);
    deliver(&mut sender, 100, acknowledge(0, &[0, 1], &[1, 0]));
    assert_eq!(sender.next_source(), state(1));
    deliver(&mut sender, 101, acknowledge(1, &[0, 1], &[]));
    assert_eq!(sender.next_source(), StateId::EMPTY);
}

#[test]
fn growing_queue_with_acknowledgements_is_not_a_loss() {
    let mut sender = sender(40);
    // The queue grows by 8 ms per frame; the smoothed round-trip time lags behind.
    for number in 0..40u32 {
        let frames: Vec<u32> = (number.saturating_sub(5)..=number).collect();
        let now = 50 + 9 * u64::from(number);
        sender.handle_timeout(at(now));
        deliver(&mut sender, now, Acknowledgement { received: number + 1, ..acknowledge(number, &frames, &[]) });
    }
    assert_eq!((sender.statistics().fragments_lost, sender.in_flight().fragments), (0, 0));
}

/// The next data datagram; skips a repeated hello.
fn next_data(sender: &mut Sender, now: u64) -> Option<Data> {
    std::iter::from_fn(|| sender.poll_transmit(at(now))).find_map(|transmit| match transmit.datagram {
        Datagram::Data(data) => Some(data),
        _ => None,
    })
}

#[test]
fn dropped_frames_do_not_leave_and_count_as_lost() {
    let mut sender = sender(2);
    deliver(&mut sender, 100, acknowledge(0, &[0], &[0]));
    while sender.poll_event().is_some() {}
    sender.set_pace(Duration::from_millis(10), 1);
    for number in 2..5 {
        let payload = vec![number as u8; 3_000];
        let frame = OutgoingFrame {
            source: state(number - 1),
            target: state(number),
            captured: at(100),
            key_frame: false,
            parity: 0,
            payload,
        };
        assert_eq!(sender.send_frame(at(100), frame), Ok(number));
    }
    assert!(next_data(&mut sender, 100).is_some(), "one fragment of frame 2 has left");
    assert_eq!((sender.queued_fragments(), sender.in_flight().fragments), (8, 2));

    assert_eq!((sender.drop_waiting(), sender.drop_waiting()), (3, 0));
    assert_eq!((sender.queued_fragments(), sender.in_flight().fragments), (0, 2));
    assert_eq!(next_data(&mut sender, 1_000), None);
    let lost: Vec<_> = std::iter::from_fn(|| sender.poll_event()).collect();
    assert_eq!(lost, [2, 3, 4].map(SenderEvent::FrameLost));
    assert_eq!((sender.statistics().frames_lost, sender.statistics().fragments_lost), (3, 0));

    assert_eq!(sender.next_source(), state(0), "the receiver holds it");
    let frame = OutgoingFrame {
        source: state(0),
        target: state(5),
        captured: at(1_000),
        key_frame: false,
        parity: 0,
        payload: vec![5],
    };
    assert_eq!(sender.send_frame(at(1_000), frame), Ok(5));
    let data = next_data(&mut sender, 1_000).expect("the queue is empty");
    assert_eq!((data.frame, data.sequence), (5, 3), "dropped fragments use no sequence number");
    let fragments =
        vec![ReceivedFragment { frame: 5, fragment: 0, arrived_at: at(5_000), congestion_experienced: false }];
    let news = Acknowledgement { highest: 3, echo: at(1_000), fragments, ..acknowledge(1, &[0], &[5, 0]) };
    deliver(&mut sender, 1_100, news);
    assert_eq!((sender.next_source(), sender.held_states()), (state(5), 1), "no state of a dropped frame is kept");
}
