//! Tests of controllers and estimators with models that do not fit them.

use std::sync::Arc;

use lockstep_nn::build::{integers, node, port, weights};
use lockstep_nn::onnx::{self, Entry, Graph, Opset, ValueInfo};
use lockstep_nn::{Model, ModelError};
use lockstep_units::{ByteCount, Timestamp};
use prost::Message;

use crate::closed_loop::setup;
use crate::learned::Concerto;
use crate::learned::shipped::Shipped;
use crate::{Algorithm, BobRules, ControllerSetup, EstimatorKind, Latency, RateBounds};

fn read(model: &onnx::Model) -> Result<Model, ModelError> {
    Model::from_bytes(&model.encode_to_vec())
}

#[test]
fn controller_refuses_a_model_that_does_not_fit() {
    let relu =
        |shape: &[i64]| lockstep_nn::build::model(shape, vec![node("Relu", &["x"], "y", Vec::new())], Vec::new());
    let refusal = |mut proto: onnx::Model, metadata: &[(&str, &str)]| {
        let entry = |&(key, value): &(&str, &str)| Entry { key: key.into(), value: value.into() };
        proto.metadata_props = metadata.iter().map(entry).collect();
        let model = Arc::new(read(&proto).unwrap());
        Concerto::new(&setup(), "concerto", model).expect_err("the model does not fit").to_string()
    };
    let ladder = ("lockstep.ladder_bps", "100000,200000,400000");
    let interval = ("lockstep.interval_ms", "200");
    assert!(refusal(relu(&[1, 3]), &[]).contains("missing metadata lockstep.ladder_bps"));
    assert!(refusal(relu(&[1, 3]), &[ladder]).contains("missing metadata lockstep.interval_ms"));
    assert!(refusal(relu(&[1, 3]), &[ladder, interval]).contains("expected [1, 4, seconds, 15, 4]"));
    for (key, value) in [("lockstep.ladder_bps", "2,1"), ("lockstep.ladder_bps", "fast"), ("lockstep.interval_ms", "0")]
    {
        let others = if key == interval.0 { ladder } else { interval };
        assert!(refusal(relu(&[1, 3]), &[(key, value), others]).contains(key));
    }
    assert!(refusal(relu(&[1, 4, 3, 15, 4]), &[ladder, interval]).contains("expected [1, 3], one number per rate"));
}

/// The model of `shipped` with metadata changed by `change`.
fn with_metadata(shipped: Shipped, change: impl Fn(&mut Vec<Entry>)) -> Arc<Model> {
    let mut proto = onnx::Model::decode(shipped.bytes().expect("the model is embedded")).unwrap();
    change(&mut proto.metadata_props);
    Arc::new(read(&proto).unwrap())
}

#[test]
fn metadata_of_another_controller_is_refused_and_none_accepted() {
    let cases = [
        (Shipped::Concerto, Algorithm::Concerto),
        (Shipped::Rlv, Algorithm::Rlv),
        (Shipped::Lockstep, Algorithm::Lockstep),
        (Shipped::Bob, Algorithm::Bob(BobRules::Released)),
        (Shipped::Hrcc, Algorithm::Hrcc),
        (Shipped::Gemini, Algorithm::Gemini),
    ];
    let long = format!("\n{}", "x".repeat(1_000));
    for (shipped, algorithm) in cases {
        let controller_with = |model| algorithm.controller(&ControllerSetup { model: Some(model), ..setup() });
        let names_controller = |entry: &Entry| entry.key == "lockstep.controller";
        assert!(controller_with(with_metadata(shipped, |_| {})).is_ok(), "{algorithm}");
        assert!(
            controller_with(with_metadata(shipped, |entries| entries.retain(|entry| !names_controller(entry)))).is_ok(),
            "{algorithm}"
        );
        let another = if shipped == Shipped::Concerto { "rlv" } else { "concerto" };
        for (name, shown) in
            [(another, another), ("", ""), ("mmsys24", "mmsys24"), (&long, &format!("\\n{}...", "x".repeat(39)))]
        {
            let renamed = with_metadata(shipped, |entries| {
                entries.iter_mut().find(|entry| names_controller(entry)).unwrap().value = name.to_owned()
            });
            let error = controller_with(renamed).err().unwrap().to_string();
            assert!(error.ends_with(&format!("lockstep.controller is `{shown}`, expected `{algorithm}`")), "{error}");
        }
    }
}

#[test]
fn invalid_entries_of_published_models_are_refused() {
    let cases = [
        (Shipped::Bob, "lockstep.heuristic", "printed", "other"),
        (Shipped::Bob, "lockstep.ranges_bps", "10000,2000000,4000000,6000000,8000000", "10000,2000000"),
        (Shipped::Bob, "lockstep.ranges_bps", "0,1,2,3,4", "0,1,1,2,3"),
        (Shipped::Concerto, "lockstep.inputs", "encoded", "decoded"),
        (Shipped::Concerto, "lockstep.pacing", "1", "0.5"),
        (Shipped::Rlv, "lockstep.pacing", "2.5", "NaN"),
    ];
    for (shipped, key, valid, invalid) in cases {
        let made = |value: &str| {
            let entry = Entry { key: key.into(), value: value.into() };
            let model = with_metadata(shipped, |entries| entries.push(entry.clone()));
            let algorithm = match shipped {
                Shipped::Bob => Algorithm::Bob(BobRules::Released),
                Shipped::Rlv => Algorithm::Rlv,
                _ => Algorithm::Concerto,
            };
            algorithm.controller(&ControllerSetup { model: Some(model), ..setup() }).map(drop)
        };
        assert!(made(valid).is_ok(), "{key}={valid}");
        let error = made(invalid).unwrap_err().to_string();
        assert!(error.contains(&format!("{key}: expected")), "{error}");
    }
}

#[test]
fn model_paced_at_its_rate_spaces_packets_by_it() {
    let paced = |value: &str| {
        let entry = Entry { key: "lockstep.pacing".into(), value: value.into() };
        let model = with_metadata(Shipped::Concerto, |entries| entries.push(entry.clone()));
        let setup = setup();
        let controller = Concerto::new(&setup, "concerto", model).unwrap();
        let observer = crate::PathObserver::new(setup.payload, &setup.tuning);
        let path = observer.view(Timestamp::ZERO);
        crate::Controller::pacing_interval(&controller, &path, crate::InFlight::default())
    };
    let (slow, fast) = (paced("1"), paced("2.5"));
    assert!((slow.as_secs_f64() / fast.as_secs_f64() - 2.5).abs() < 1e-3, "{slow:?} {fast:?}");
}

#[test]
fn unknown_estimator_differs_from_a_challenge_model() {
    let named = |name: &str| {
        let entry = Entry { key: "lockstep.controller".into(), value: name.into() };
        EstimatorKind::of_model(&with_metadata(Shipped::Bob, |entries| *entries = vec![entry.clone()]))
    };
    assert_eq!(named("bob"), Ok(EstimatorKind::Bob(BobRules::Released)));
    assert_eq!(EstimatorKind::of_model(&with_metadata(Shipped::Bob, Vec::clear)), Ok(EstimatorKind::Mmsys24));
    for name in ["lockstep", "nobody", ""] {
        let error = named(name).unwrap_err().to_string();
        assert!(
            error.ends_with(&format!("lockstep.controller is `{name}`, expected an estimator at the receiver")),
            "{error}"
        );
    }
}

#[test]
fn invalid_rule_is_refused_at_every_latency() {
    for latency in Latency::ALL {
        let key = format!("lockstep.rule.{latency}");
        let rule = |text: &str| {
            let model = with_metadata(Shipped::Lockstep, |entries| {
                entries.retain(|entry| entry.key != key);
                entries.push(Entry { key: key.clone(), value: text.into() });
            });
            Algorithm::Lockstep
                .controller(&ControllerSetup { model: Some(model), ..setup() })
                .err()
                .map(|error| error.to_string())
        };
        assert_eq!(rule("deadline=0.01"), None);
        let wanted = format!("{key}: deadline=1e300 in the rule: expected a number from 0 to 0.5");
        assert!(rule("deadline=1e300").unwrap().ends_with(&wanted));
        assert!(
            rule("garbage").unwrap().ends_with(&format!("{key}: expected FIELD=NUMBER in the rule, found `garbage`"))
        );
    }
}

/// A model of the MMSys'24 challenge whose state of one number counts its decisions. Its output is the newest receiving
/// rate plus 1 kb/s per earlier decision.
fn challenge_model() -> onnx::Model {
    let node_of = |kind: &str, inputs: &[&str], output: &str| node(kind, inputs, output, Vec::new());
    let graph = Graph {
        node: vec![
            node_of("Slice", &["obs", "from", "to", "axis"], "newest"),
            node_of("Mul", &["hidden_states", "step"], "counted"),
            node_of("Add", &["newest", "counted"], "output"),
            node_of("Add", &["hidden_states", "one"], "state_out"),
            node_of("Identity", &["cell_states"], "cell_out"),
        ],
        initializer: vec![
            integers("from", &[0]),
            integers("to", &[1]),
            integers("axis", &[2]),
            weights("step", &[1], &[1_000.0]),
            weights("one", &[1], &[1.0]),
        ],
        input: vec![port("obs", &[1, 1, 150]), port("hidden_states", &[1, 1]), port("cell_states", &[1, 1])],
        output: ["output", "state_out", "cell_out"]
            .map(|name| ValueInfo { name: name.into(), ..Default::default() })
            .into(),
        ..Default::default()
    };
    let opset_import = vec![Opset { version: 11, ..Default::default() }];
    onnx::Model { opset_import, graph: Some(graph), ..Default::default() }
}

#[test]
fn challenge_model_estimates_and_keeps_its_state() {
    let model = Arc::new(read(&challenge_model()).unwrap());
    let mut estimator = crate::EstimatorKind::Mmsys24.with_model(RateBounds::default(), Some(model)).unwrap();
    let arrival = |number: u64| lockstep_transport::Arrival {
        arrived_at: Timestamp::from_millis(1_020 + 10 * number),
        sent_at: Timestamp::from_millis(1_000 + 10 * number),
        size: ByteCount::new(1_000),
        sequence: number,
        frame: 0,
        fragment: 0,
        grace: std::time::Duration::ZERO,
        congestion_experienced: false,
    };
    for number in 0..50 {
        estimator.on_arrival(&arrival(number));
    }
    // The first decision is 60 ms after the first packet, at 1,080 ms. The eighth, at 1,500 ms, covers six packets of
    // 8,000 bits in 60 ms and follows seven decisions.
    let capacity = estimator.estimate(Timestamp::from_millis(1_515)).capacity.unwrap();
    assert_eq!(capacity.as_bps(), 807_000);
}

#[test]
fn model_of_another_estimator_is_refused_with_its_name() {
    use crate::{AlgorithmError, EstimatorKind};

    let challenge = Arc::new(read(&challenge_model()).unwrap());
    let concerto = Shipped::Concerto.model().unwrap();
    for kind in
        [EstimatorKind::Bob(BobRules::Released), EstimatorKind::Hrcc, EstimatorKind::Gemini, EstimatorKind::Mmsys24]
    {
        let error = kind.with_model(RateBounds::default(), Some(Arc::clone(&concerto))).err().unwrap();
        assert!(matches!(error, AlgorithmError::Model(ModelError::Unfit(_))), "{error}");
    }
    let error = EstimatorKind::Bob(BobRules::Released)
        .with_model(RateBounds::default(), Some(challenge))
        .err()
        .unwrap()
        .to_string();
    assert!(error.contains("3 inputs"), "{error}");
    let mut short = challenge_model();
    short.graph.as_mut().unwrap().input[0] = port("obs", &[1, 1, 149]);
    let short = Arc::new(read(&short).unwrap());
    let error = EstimatorKind::Mmsys24.with_model(RateBounds::default(), Some(short)).err().unwrap().to_string();
    assert!(error.contains("150 numbers"), "{error}");
}

#[test]
fn outputs_beyond_forecast_and_state_are_refused() {
    use crate::learned::{HORIZONS, LEVELS, Lockstep, MODEL_STATE, OBSERVED};

    let (inputs, outputs) = (OBSERVED + MODEL_STATE, HORIZONS.len() * LEVELS.len() + MODEL_STATE);
    let with_outputs = |outputs: usize| {
        let initializer = vec![weights("w", &[inputs as i64, outputs as i64], &vec![0.0; inputs * outputs])];
        let gemm = node("Gemm", &["x", "w"], "y", Vec::new());
        let model = Arc::new(read(&lockstep_nn::build::model(&[1, inputs as i64], vec![gemm], initializer)).unwrap());
        Lockstep::with_model(&setup(), model).map(|_| ())
    };
    assert!(with_outputs(outputs).is_ok());
    let error = with_outputs(outputs + 2).unwrap_err().to_string();
    assert!(error.contains(&format!("output [1, {}]", outputs + 2)), "{error}");
}
