//! The receiver runs the estimator that the sender's controller requires.

use std::path::PathBuf;

use lockstep_call::ReceivingEnd;
use lockstep_configuration::{CallArguments, ControlSettings, ModelFile};
use lockstep_media::{SourceOptions, source_format};
use lockstep_transport::wire::Data;
use lockstep_transport::{Datagram, Estimate, StateId};
use lockstep_units::Timestamp;

/// Estimate of a plain receiver after the hello of a sender with `controller` and some data.
fn estimate(controller: &str) -> Estimate {
    let controller = Some(controller.parse().expect("there is such a controller"));
    let control =
        CallArguments { controller, ..CallArguments::default() }.control_settings().expect("nothing contradicts it");
    let format = source_format("generated:64x48@30", &SourceOptions::default()).expect("it is generated");
    let mut sender = control.sending_end(&format, 7, None).expect("it needs no path");
    let mut receiver: ReceivingEnd = ControlSettings::receiving_end();
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
            parity: None,
            source: StateId(99),
            target: StateId(100),
            sent_at: now,
            captured: now,
            idle: 0,
            keep_from: 0,
            feedback_doublings: 0,
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
fn receiver_runs_learned_estimators_with_default_models() {
    for name in ["bob", "hrcc", "gemini"] {
        assert!(estimate(name).capacity.is_some(), "{name}");
    }
}

/// Whether a receiver with `model` accepts the call of a sender with `controller`.
fn is_taken(controller: &str, model: Option<&ModelFile>) -> bool {
    let controller = Some(controller.parse().expect("there is such a controller"));
    let control =
        CallArguments { controller, ..CallArguments::default() }.control_settings().expect("nothing contradicts it");
    let format = source_format("generated:64x48@30", &SourceOptions::default()).expect("it is generated");
    let mut sender = control.sending_end(&format, 7, None).expect("the model is the receiver's");
    let mut receiver: ReceivingEnd = ControlSettings::receiving_end_with(model);
    let hello = sender.poll_transmit(Timestamp::ZERO).expect("the hello comes first");
    receiver.handle_datagram(Timestamp::ZERO, Ok(hello.datagram), false);
    let answer = receiver.poll_transmit(Timestamp::ZERO);
    assert_eq!(answer.is_none(), receiver.refused_estimator().is_some(), "the driver ends a call that is not answered");
    answer.is_some_and(|answer| matches!(answer.datagram, Datagram::HelloReply(_)))
}

#[test]
fn model_is_used_for_its_estimator_and_refused_for_others() {
    let file = |name: &str| {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../../python/lockstep/learn/models/{name}.onnx"))
    };
    let bob = ModelFile::open_for_receiver(&file("bob")).expect("it is BoB's");
    // An estimator that does not match the model uses its default model; without one, the call is refused.
    assert!(is_taken("bob", Some(&bob)) && is_taken("hrcc", Some(&bob)) && is_taken("bob", None));
    assert!(!is_taken("mmsys24", None) && !is_taken("mmsys24", Some(&bob)));
    let error = format!("{:#}", ModelFile::open_for_receiver(&file("concerto")).expect_err("it is a sender's"));
    assert!(error.contains("lockstep.controller is `concerto`, expected an estimator at the receiver"), "{error}");
}

#[test]
fn receiver_runs_the_estimator_of_the_senders_controller() {
    let (salsify, bob) = (estimate("salsify"), estimate("bob-heuristic"));
    assert!(salsify.inter_arrival.is_some() && salsify.capacity.is_none(), "{salsify:?}");
    assert!(bob.capacity.is_some(), "{bob:?}");
}
