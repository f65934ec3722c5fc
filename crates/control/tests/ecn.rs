//! Tests of congestion marks (ECN): they slow the controllers that support them, without any loss.

use std::time::Duration;

use lockstep_control::{Algorithm, ControllerSetup, InFlight, Input, PathObserver};
use lockstep_transport::{AcknowledgedFragment, Estimate, Feedback};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

/// The target after 20 s at 800 kb/s over a path of 50 ms. In the second half the queueing delay is 12 ms; below that
/// NADA considers only losses (RFC 8698, section 4.2). Datagrams of that half whose numbers satisfy `marked` arrive
/// with a mark.
fn target(algorithm: &str, marked: impl Fn(u64) -> bool) -> Bitrate {
    let setup = ControllerSetup::new(ByteCount::new(1_200), Duration::from_nanos(33_333_333));
    let mut controller = algorithm.parse::<Algorithm>().unwrap().controller(&setup).unwrap();
    let (interval, size) = (Duration::from_millis(10), ByteCount::new(1_000));
    let mut path = PathObserver::new(setup.payload, &setup.tuning);
    let mut now = Timestamp::ZERO;
    for number in 0..2_000 {
        now = Timestamp::from_millis(10 * number);
        path.pass(now, Input::Sent(size), controller.as_mut());
        let Some(arrived) = number.checked_sub(5) else { continue };
        let sent_at = Timestamp::from_millis(10 * arrived);
        let fragment = AcknowledgedFragment {
            frame: (arrived / 3) as u32,
            fragment: (arrived % 3) as u16,
            size,
            sent_at,
            arrived_at: sent_at + Duration::from_millis(if number > 1_000 { 37 } else { 25 }),
            acknowledged_at: now,
            congestion_experienced: number > 1_000 && marked(arrived),
        };
        let feedback = Feedback {
            found: 0,
            acknowledged: vec![fragment],
            estimate: Estimate::default(),
            round_trip_time: Some(interval * 5),
            highest_sequence: arrived,
            received: arrived + 1,
        };
        path.pass(now, Input::Feedback(&feedback), controller.as_mut());
    }
    controller.allowance(&path.view(now), InFlight::default()).target
}

#[test]
fn marks_slow_gcc_nada_and_scream_without_loss() {
    for algorithm in ["gcc", "nada", "scream"] {
        let (free, marked) = (target(algorithm, |_| false), target(algorithm, |number| number % 20 == 0));
        assert!(marked.mul_f64(1.2) < free, "{algorithm}: {marked} with marks, {free} without");
    }
}

#[test]
fn other_controllers_ignore_marks() {
    for algorithm in ["salsify", "copa", "sprout"] {
        assert_eq!(target(algorithm, |_| true), target(algorithm, |_| false), "{algorithm}");
    }
}
