//! Tests of [`LossDetection`] with a few fragments.

use super::*;

const ROUND_TRIP: Duration = Duration::from_millis(100);

fn at(milliseconds: u64) -> Timestamp {
    Timestamp::from_millis(milliseconds)
}

/// Ten fragments, transmitted one per millisecond from 0 on.
fn ten() -> LossDetection {
    let mut loss = LossDetection::new(model::assuming(ROUND_TRIP), Duration::ZERO);
    loss.sample(ROUND_TRIP);
    for fragment in 0..10 {
        let sent_at = at(u64::from(fragment));
        loss.transmitted(SentFragment { frame: 0, fragment, size: ByteCount::new(100), sent_at });
    }
    loss
}

fn lost(loss: &mut LossDetection, now: u64) -> Vec<u16> {
    loss.detect(at(now)).into_iter().map(|loss| loss.sent.fragment).collect()
}

#[test]
fn fragment_is_lost_after_three_newer_acknowledgements() {
    let mut loss = ten();
    for sequence in [1, 2, 3] {
        assert_eq!(lost(&mut loss, 101), [] as [u16; 0]);
        loss.acknowledge(at(101), sequence);
    }
    assert_eq!(lost(&mut loss, 101), [0]);
    assert_eq!(loss.in_flight(), (6, ByteCount::new(600)));
}

#[test]
fn overtaken_fragment_is_lost_after_9_8_of_a_round_trip() {
    let mut loss = ten();
    loss.acknowledge(at(101), 1);
    assert_eq!(loss.timeout(), Some(at(112) + Duration::from_micros(500)));
    assert_eq!(lost(&mut loss, 113), [0]);
}

#[test]
fn tail_timer_declares_loss_and_backs_off() {
    let mut loss = ten();
    let tail = loss.timeout().expect("fragments are in flight");
    assert_eq!(tail, at(310), "round trip, four variations and the margin");
    assert_eq!(lost(&mut loss, 310), [0]);
    assert_eq!(loss.timeout(), Some(at(621)), "twice the delay for the second fragment");
}

#[test]
fn late_acknowledgement_extends_the_tail_timer() {
    let mut loss = ten();
    (0..100).for_each(|_| loss.sample(ROUND_TRIP));
    assert_eq!(loss.timeout(), Some(at(110)));
    loss.acknowledge(at(109), 0);
    assert_eq!(loss.timeout(), Some(at(119)), "the margin after the last acknowledgement");
}

#[test]
fn packet_threshold_grows_on_spurious_loss_and_shrinks_later() {
    let mut loss = ten();
    loss.acknowledge(at(101), 6);
    assert_eq!(lost(&mut loss, 101), [0, 1, 2, 3]);
    assert_eq!(loss.acknowledge(at(102), 1).map(|(_, spurious)| spurious), Some(true));
    assert_eq!(loss.packet_threshold(), 6);
    for fragment in 10..4000 {
        loss.transmitted(SentFragment { frame: 0, fragment, size: ByteCount::new(1), sent_at: at(103) });
        loss.acknowledge(at(103), u64::from(fragment));
    }
    assert_eq!(loss.packet_threshold(), 3);
}

#[test]
fn arrival_of_one_copy_decides_all_copies() {
    let mut loss = ten();
    (3..8).for_each(|sequence| _ = loss.acknowledge(at(101), sequence));
    assert_eq!(lost(&mut loss, 101), [0, 1, 2]);
    for fragment in [1, 2] {
        loss.transmitted(SentFragment { frame: 0, fragment, size: ByteCount::new(100), sent_at: at(101) });
    }
    let find = |loss: &LossDetection, fragment, highest| {
        let mut open = Vec::new();
        loss.find_open([(0, fragment)].into_iter(), highest, &mut open).then_some(open)
    };
    assert_eq!((find(&loss, 1, 10), find(&loss, 1, 9)), (Some(vec![(0, 10)]), Some(vec![(0, 1)])));
    assert_eq!(
        (find(&loss, 4, 11), find(&loss, 10, 11)),
        (Some(vec![]), None),
        "the first is acknowledged, the second was never sent"
    );
    assert_eq!(loss.acknowledge(at(201), 10).map(|(_, spurious)| spurious), Some(false));
    assert_eq!(loss.get(1), None, "the first copy is decided");
    let arrived: Vec<_> = loss.frame_arrived(0).into_iter().map(|(sent, lost)| (sent.fragment, lost)).collect();
    assert_eq!(arrived, [(0, true), (2, false), (8, false), (9, false)]);
    assert_eq!(loss.in_flight(), (0, ByteCount::ZERO));
}
