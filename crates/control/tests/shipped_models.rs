//! Tests of the embedded models: their outputs match those of PyTorch at export.

use lockstep_control::learned::shipped::Shipped;
use serde::Deserialize;

const SHIPPED: [(Shipped, &str); Shipped::ALL.len()] = [
    (Shipped::Concerto, "concerto"),
    (Shipped::Rlv, "rlv"),
    (Shipped::Lockstep, "lockstep"),
    (Shipped::Bob, "bob"),
    (Shipped::Hrcc, "hrcc"),
    (Shipped::Gemini, "gemini"),
];

/// Inputs and PyTorch's outputs.
#[derive(Deserialize)]
struct Reference {
    inputs: Vec<Vec<f32>>,
    outputs: Vec<Vec<f32>>,
}

fn reference(name: &str) -> Reference {
    let path = format!("{}/models/{name}.reference.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn model_outputs_match_pytorch() {
    for (shipped, name) in SHIPPED {
        let (model, reference) = (shipped.model().expect("a model"), reference(name));
        assert!(reference.inputs.len() >= 4 && reference.inputs.len() == reference.outputs.len());
        for (input, expected) in reference.inputs.iter().zip(&reference.outputs) {
            let outputs = model.run(&[input]).expect("an output");
            assert_eq!(outputs[0].len(), expected.len());
            for (ours, theirs) in outputs[0].iter().zip(expected) {
                assert!((ours - theirs).abs() <= 1e-5, "{name}: {ours} for {theirs}");
            }
        }
    }
}

#[test]
fn model_files_are_small_and_name_their_controller() {
    for (shipped, name) in SHIPPED {
        let size = shipped.bytes().expect("the model is embedded").len();
        assert!(size < 5_000_000, "{name}: {size} bytes");
        assert_eq!(shipped.model().expect("a model").metadata("lockstep.controller"), Some(name));
    }
}
