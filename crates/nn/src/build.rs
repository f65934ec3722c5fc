//! Builders of small models for tests.

use crate::onnx::{self, Attribute, Dimension, Graph, Node, Opset, Shape, Tensor, TensorType, Type, ValueInfo};

/// A tensor of weights.
#[must_use]
pub fn weights(name: &str, dims: &[i64], values: &[f32]) -> Tensor {
    let raw_data = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Tensor { name: name.into(), dims: dims.into(), data_type: onnx::FLOAT, raw_data, ..Default::default() }
}

/// A tensor of integers.
#[must_use]
pub fn integers(name: &str, values: &[i64]) -> Tensor {
    Tensor {
        name: name.into(),
        dims: vec![values.len() as i64],
        data_type: onnx::INT64,
        int64_data: values.into(),
        ..Default::default()
    }
}

/// An attribute with a list of integers.
#[must_use]
pub fn lengths(name: &str, values: &[i64]) -> Attribute {
    Attribute { name: name.into(), ints: values.into(), ..Default::default() }
}

/// An attribute with an integer.
#[must_use]
pub fn length(name: &str, value: i64) -> Attribute {
    Attribute { name: name.into(), i: value, ..Default::default() }
}

/// An operator with one output.
#[must_use]
pub fn node(kind: &str, inputs: &[&str], output: &str, attribute: Vec<Attribute>) -> Node {
    let input = inputs.iter().map(|&name| name.into()).collect();
    Node {
        op_type: kind.into(),
        name: output.into(),
        input,
        output: vec![output.into()],
        attribute,
        ..Default::default()
    }
}

/// An input of 32-bit floats.
#[must_use]
pub fn port(name: &str, dims: &[i64]) -> ValueInfo {
    let dim = |&length: &i64| Dimension { dim_value: Some(length) };
    let shape = Some(Shape { dim: dims.iter().map(dim).collect() });
    let kind = Type { tensor: Some(TensorType { elem_type: onnx::FLOAT, shape }) };
    ValueInfo { name: name.into(), kind: Some(kind) }
}

/// A model of operators `node` from `x` to `y`.
#[must_use]
pub fn model(shape: &[i64], node: Vec<Node>, initializer: Vec<Tensor>) -> onnx::Model {
    let graph = Graph {
        node,
        initializer,
        input: vec![port("x", shape)],
        output: vec![ValueInfo { name: "y".into(), ..Default::default() }],
        ..Default::default()
    };
    let opset_import = vec![Opset { version: 18, ..Default::default() }];
    onnx::Model { opset_import, graph: Some(graph), ..Default::default() }
}
