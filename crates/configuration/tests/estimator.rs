//! The receiver runs what the sender's controller needs.

use lockstep_configuration::{CallOptions, ControlSettings};
use lockstep_media::{SourceOptions, source_format};
use lockstep_transport::wire::Data;
use lockstep_transport::{Datagram, Estimate, StateId};
use lockstep_units::Timestamp;

/// What a plain receiver says of the path after the hello of a sender with `controller` and some data.
fn estimate(controller: &str) -> Estimate {
    let controller = Some(controller.parse().expect("there is such a controller"));
    let control =
        CallOptions { controller, ..CallOptions::default() }.control_settings().expect("nothing contradicts it");
    let format = source_format("generated:64x48@30", &SourceOptions::default()).expect("it is generated");
    let mut sender = control.sending_end(&format, 7, None).expect("it needs no path");
    let mut receiver = ControlSettings::receiving_end();
    let hello = sender.poll_transmit(Timestamp::ZERO).expect("the hello comes first");
    receiver.handle_datagram(Timestamp::ZERO, Ok(hello.datagram), false);
    assert!(receiver.poll_transmit(Timestamp::ZERO).is_some(), "it is answered");
    let mut estimate = Estimate::default();
    for number in 0..10 {
        let now = Timestamp::from_millis(20 * u64::from(number));
        let data = Datagram::Data(Data {
            connection: 7,
            sequence: number,
            frame: number,
            fragment: 0,
            fragments: 1,
            source: StateId(99),
            target: StateId(100),
            sent_at: now,
            captured: now,
            idle: 0,
            keep_from: 0,
            anchor: 0,
            key_frame: false,
            payload: vec![0; 1_000],
        });
        let mut bytes = Vec::new();
        data.encode(&mut bytes);
        receiver.handle_datagram(now, Datagram::decode(&bytes), false);
        let answer = receiver.poll_transmit(now).expect("it is acknowledged");
        if let Datagram::Acknowledgement(acknowledgement) = answer.datagram {
            estimate = acknowledgement.estimate;
        }
    }
    estimate
}

#[test]
fn a_plain_receiver_runs_the_estimator_that_the_senders_controller_needs() {
    let (salsify, bob) = (estimate("salsify"), estimate("bob-heuristic"));
    assert!(salsify.inter_arrival.is_some() && salsify.capacity.is_none(), "{salsify:?}");
    assert!(bob.capacity.is_some(), "{bob:?}");
}
