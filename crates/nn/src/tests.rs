//! Tests of which files are accepted, and of the errors for others.

use proptest::prelude::*;

use crate::build::{integers, length, lengths, model, node, port, weights};
use crate::onnx::{Attribute, Graph, Node, Tensor, ValueInfo};

use prost::Message;

use super::*;

/// A model of Lockstep.
const CONCERTO: &[u8] =
    include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../python/lockstep/learn/models/concerto.onnx"));

fn read(model: &onnx::Model) -> Result<Model, ModelError> {
    Model::from_bytes(&model.encode_to_vec())
}

/// The error of a model that is refused.
fn refusal(model: &onnx::Model) -> String {
    let text = read(model).expect_err("a refusal").to_string();
    assert!(!text.contains('\n') && text.len() < 400, "{text}");
    text
}

#[test]
fn small_model_computes_its_layers() {
    let gemm = node("Gemm", &["x", "w", "b"], "h", vec![length("transB", 1)]);
    let nodes = vec![gemm, node("Relu", &["h"], "y", Vec::new())];
    let initializer = vec![weights("w", &[2, 3], &[1.0, 2.0, 3.0, -1.0, -1.0, -1.0]), weights("b", &[2], &[0.5, 0.0])];
    let model = read(&model(&[1, 3], nodes, initializer)).unwrap();
    assert_eq!(model.inputs(), [Port { name: "x".into(), shape: vec![1, 3] }]);
    assert_eq!(model.outputs(), [Port { name: "y".into(), shape: vec![1, 2] }]);
    assert_eq!(model.run(&[&[1.0, 1.0, 2.0]]).unwrap(), [[9.5, 0.0]]);
    assert!(matches!(model.run(&[&[1.0]]), Err(ModelError::Unfit(_))));
    assert!(matches!(model.run(&[]), Err(ModelError::Unfit(_))));
}

#[test]
fn inferred_shapes_equal_those_of_the_run() {
    let nodes = vec![
        node("Reshape", &["x", "shape"], "r", Vec::new()),
        node("Conv", &["r", "k"], "c", vec![lengths("pads", &[1, 1, 1, 1]), lengths("strides", &[3, 2])]),
        node("Transpose", &["c"], "t", vec![lengths("perm", &[0, 2, 3, 1])]),
        node("Flatten", &["t"], "f", Vec::new()),
        node("MatMul", &["f", "w"], "m", Vec::new()),
        node("Concat", &["m", "f"], "j", vec![length("axis", -1)]),
        node("Slice", &["j", "from", "to", "axis"], "s", Vec::new()),
        node("Unsqueeze", &["s", "axis"], "u", Vec::new()),
        node("Squeeze", &["u", "axis"], "q", Vec::new()),
        node("Add", &["q", "b"], "a", Vec::new()),
        node("Softmax", &["a"], "y", Vec::new()),
    ];
    let initializer = vec![
        integers("shape", &[1, -1, 15, 4]),
        weights("k", &[5, 2, 3, 3], &[0.1; 90]),
        weights("w", &[50, 3], &[0.01; 150]),
        integers("from", &[1]),
        integers("to", &[-10]),
        integers("axis", &[1]),
        weights("b", &[1], &[0.5]),
    ];
    let model = read(&model(&[1, 120], nodes, initializer)).unwrap();
    assert_eq!(model.outputs()[0].shape, [1, 42]);
    let output = model.run(&[&[0.25; 120]]).unwrap();
    assert_eq!(output[0].len(), 42);
    assert!((output[0].iter().sum::<f32>() - 1.0).abs() < 1e-5);
}

#[test]
fn recurrent_state_is_input_and_output() {
    let gru = Node {
        op_type: "GRU".into(),
        name: "gru".into(),
        input: ["x", "w", "r", "b", "", "h"].map(Into::into).into(),
        output: ["y", "n"].map(Into::into).into(),
        attribute: vec![length("hidden_size", 4), length("linear_before_reset", 1)],
        ..Default::default()
    };
    let initializer = vec![
        weights("w", &[1, 12, 3], &[0.2; 36]),
        weights("r", &[1, 12, 4], &[-0.1; 48]),
        weights("b", &[1, 24], &[0.05; 24]),
    ];
    let mut proto = model(&[1, 1, 3], vec![gru], initializer);
    let graph = proto.graph.as_mut().unwrap();
    graph.input.push(port("h", &[1, 1, 4]));
    graph.output.push(ValueInfo { name: "n".into(), ..Default::default() });
    let model = read(&proto).unwrap();
    let first = model.run(&[&[1.0, 2.0, 3.0], &[0.0; 4]]).unwrap();
    assert_eq!((first[0].len(), first[1].len()), (4, 4));
    let second = model.run(&[&[1.0, 2.0, 3.0], &first[1]]).unwrap();
    assert_ne!(first[1], second[1]);
}

#[test]
fn invalid_onnx_files_are_refused() {
    for bytes in [&b""[..], b"GIF89a", b"\x00\x01\x02", &[0xff; 4_096], b"{\"a\": 1}"] {
        let error = Model::from_bytes(bytes).unwrap_err();
        assert!(!error.to_string().contains('\n'), "{error}");
    }
    assert_eq!(Model::from_bytes(&vec![0; MAX_FILE_BYTES + 1]).unwrap_err(), ModelError::TooLarge(MAX_FILE_BYTES + 1));
}

#[test]
fn file_that_decodes_to_excessive_memory_is_refused() {
    // A megabyte of empty operators would take a hundred megabytes in memory.
    let graph: Vec<u8> = [0x0a, 0x00].repeat(500_000);
    let mut bytes = vec![0x3a];
    prost::encoding::encode_varint(graph.len() as u64, &mut bytes);
    bytes.extend(graph);
    assert!(Model::from_bytes(&bytes).unwrap_err().to_string().contains("not weights"));
}

#[test]
fn unsupported_operators_and_versions_are_named() {
    let with = |kind: &str| model(&[1, 3], vec![node(kind, &["x"], "y", Vec::new())], Vec::new());
    for kind in ["Loop", "If", "Scan", "Tile", "ConstantOfShape", "RandomNormal", "Expand", "Mine"] {
        assert!(refusal(&with(kind)).contains(kind));
    }
    let mut old = with("Relu");
    old.opset_import[0].version = 8;
    assert_eq!(refusal(&old), "unsupported ONNX operator set 8, expected 9 to 18");
    let mut own = with("Relu");
    own.graph.as_mut().unwrap().node[0].domain = "org.example".into();
    assert!(refusal(&own).contains("org.example"));
    let mut nested = with("Relu");
    let attribute = Attribute { name: "body".into(), g: Some(Graph::default().encode_to_vec()), ..Default::default() };
    nested.graph.as_mut().unwrap().node[0].attribute.push(attribute);
    assert!(refusal(&nested).contains("attribute"));
}

#[test]
fn sizes_and_work_are_bounded() {
    assert!(
        refusal(&model(&[1, 1 << 40], vec![node("Relu", &["x"], "y", Vec::new())], Vec::new())).contains("numbers")
    );
    let padded = |pad: i64| {
        let conv = node("Conv", &["x", "k"], "y", vec![lengths("pads", &[pad; 4])]);
        model(&[1, 1, 4, 4], vec![conv], vec![weights("k", &[1, 1, 1, 1], &[1.0])])
    };
    assert!(read(&padded(2)).is_ok());
    assert!(refusal(&padded(1 << 20)).contains("Conv"));
    assert!(refusal(&padded(-3)).contains("Conv"));
    // Broadcasting squares the number of elements.
    let mut nodes = vec![node("Unsqueeze", &["x", "axis"], "u", Vec::new())];
    nodes.push(node("Add", &["x", "u"], "y", Vec::new()));
    assert!(refusal(&model(&[4_096], nodes, vec![integers("axis", &[1])])).contains("numbers"));
    // Convolutions of about 59 million multiplications each.
    let kernel = vec![weights("k", &[64, 64, 3, 3], &[0.0; 36_864])];
    let conv = |from: &str, to: &str| node("Conv", &[from, "k"], to, vec![lengths("pads", &[1; 4])]);
    let nodes = (0..8)
        .map(|index| conv(&if index == 0 { "x".into() } else { format!("h{index}") }, &format!("h{}", index + 1)));
    let mut nodes: Vec<_> = nodes.collect();
    nodes.push(node("Relu", &["h8"], "y", Vec::new()));
    assert!(refusal(&model(&[1, 64, 40, 40], nodes, kernel)).contains("multiplications"));
}

#[test]
fn incomplete_and_external_weights_are_refused() {
    let with = |tensor: Tensor| model(&[1, 3], vec![node("Add", &["x", "w"], "y", Vec::new())], vec![tensor]);
    assert!(read(&with(weights("w", &[3], &[1.0; 3]))).is_ok());
    assert!(refusal(&with(weights("w", &[3], &[1.0; 2]))).contains("incomplete"));
    assert!(refusal(&with(weights("w", &[-1], &[1.0; 3]))).contains("negative"));
    assert!(refusal(&with(weights("w", &[1 << 33, 1 << 33], &[1.0; 3]))).contains("more than"));
    let elsewhere = Tensor { data_location: 1, ..weights("w", &[3], &[1.0; 3]) };
    assert!(refusal(&with(elsewhere)).contains("not in the file"));
    let text = Tensor { data_type: 8, ..weights("w", &[3], &[1.0; 3]) };
    assert!(refusal(&with(text)).contains("neither"));
}

#[test]
fn infinite_and_nan_weights_are_refused() {
    let add = || vec![node("Add", &["x", "w"], "y", Vec::new())];
    for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let packed = weights("w", &[3], &[1.0, wrong, 1.0]);
        let listed = Tensor { raw_data: Vec::new(), float_data: vec![1.0, 1.0, wrong], ..packed.clone() };
        for tensor in [packed, listed] {
            assert!(refusal(&model(&[1, 3], add(), vec![tensor])).contains("`w` has a weight"));
        }
        let value = Attribute { name: "value".into(), t: Some(weights("v", &[1], &[wrong])), ..Default::default() };
        let nodes = vec![node("Constant", &[], "c", vec![value]), node("Add", &["x", "c"], "y", Vec::new())];
        assert!(refusal(&model(&[1, 3], nodes, Vec::new())).contains("`v` has a weight"));
    }
}

#[test]
fn empty_file_has_its_own_error() {
    assert_eq!(Model::from_bytes(b"").unwrap_err().to_string(), "truncated or invalid ONNX file: the file is empty");
}

#[test]
fn inputs_must_come_from_earlier_operators() {
    let nodes = |first: &str, second: &str| {
        vec![node("Relu", &[first], "h", Vec::new()), node("Relu", &[second], "y", Vec::new())]
    };
    assert!(refusal(&model(&[1, 3], nodes("y", "h"), Vec::new())).contains("no earlier operator"));
    assert!(refusal(&model(&[1, 3], nodes("x", "elsewhere"), Vec::new())).contains("elsewhere"));
    let mut twice = model(&[1, 3], nodes("x", "h"), Vec::new());
    twice.graph.as_mut().unwrap().node[0].output = vec!["y".into()];
    twice.graph.as_mut().unwrap().node[1].input = vec!["x".into()];
    assert!(refusal(&twice).contains("two operators"));
    let mut lost = model(&[1, 3], nodes("x", "h"), Vec::new());
    lost.graph.as_mut().unwrap().output[0].name = "z".into();
    assert!(refusal(&lost).contains("no operator computes"));
}

/// Positions in a model of Lockstep that are not weights: the operators at the start, and the end.
fn structure(bytes: &[u8]) -> Vec<usize> {
    let ends = 6_000.min(bytes.len() / 2);
    (0..ends).chain(bytes.len() - ends..bytes.len()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn damaged_file_runs_or_is_refused(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::weighted(0.2, any::<prop::sample::Index>()),
    ) {
        let mut bytes = CONCERTO.to_vec();
        let places = structure(&bytes);
        for (place, byte) in changes {
            bytes[*place.get(&places)] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        // A model that passes the checks must run.
        match Model::from_bytes(&bytes) {
            Ok(model) => {
                let inputs: Vec<Vec<f32>> = model.inputs().iter().map(|port| vec![0.5; port.shape.iter().product()]).collect();
                let inputs: Vec<&[f32]> = inputs.iter().map(Vec::as_slice).collect();
                prop_assert!(model.run(&inputs).is_ok());
            }
            Err(error) => prop_assert!(!error.to_string().contains("does not fit the runtime"), "{error}"),
        }
    }
}
