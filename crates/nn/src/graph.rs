//! Checks the graph of an ONNX model: known operators, complete weights, bounded sizes and work.
//!
//! All shapes are computed before the plan is built. So a file cannot cause excessive allocation, loops, or indices out
//! of bounds. Only plain forward passes are allowed: no loops, branches, functions, text, or weights in other files.

use std::collections::HashMap;

use crate::error::{ModelError, Port};
use crate::onnx::{self, Attribute, Node, ValueInfo};
use crate::run::{Builder, Plan};
use crate::shapes;
use crate::tensor::{MAX_INTEGERS, Value, checked_name, constant, count, refused};

/// Versions of the operator set for which the runtime is tested.
const OPSETS: std::ops::RangeInclusive<i64> = 9..=18;
const MAX_NODES: usize = 512;
/// Largest number of elements in all tensors between operators.
const MAX_TOTAL_ELEMENTS: usize = 16 << 20;
/// Largest number of multiplications per run: about a quarter of a second on a slow core.
const MAX_MULTIPLICATIONS: u64 = 1 << 28;

/// Inputs and outputs of a graph.
pub(crate) struct Signature {
    pub inputs: Vec<Port>,
    pub outputs: Vec<Port>,
}

/// Name and shape of an input. An unknown dimension has length 1, as a run has batch size 1.
fn port(info: &ValueInfo) -> Result<Port, ModelError> {
    let name = checked_name(&info.name)?.to_owned();
    let wrong = || refused(format!("input `{name}` is not a tensor of 32-bit floats with a shape"));
    let tensor = info.kind.as_ref().and_then(|kind| kind.tensor.as_ref()).ok_or_else(wrong)?;
    if tensor.elem_type != onnx::FLOAT {
        return Err(wrong());
    }
    let lengths = tensor.shape.as_ref().ok_or_else(wrong)?.dim.iter();
    let lengths = lengths.map(|dimension| dimension.dim_value.map_or(Ok(1), usize::try_from));
    let shape = lengths.collect::<Result<Vec<usize>, _>>().map_err(|_| wrong())?;
    count(&shape)?;
    Ok(Port { name, shape })
}

fn check_attribute(node: &Node, attribute: &Attribute) -> Result<(), ModelError> {
    let nested = attribute.g.is_some()
        || !attribute.graphs.is_empty()
        || attribute.sparse_tensor.is_some()
        || !attribute.sparse_tensors.is_empty()
        || !attribute.tensors.is_empty()
        || !attribute.ref_attr_name.is_empty();
    if nested || attribute.ints.len() > MAX_INTEGERS || attribute.floats.len() > MAX_INTEGERS {
        return Err(refused(format!("an attribute of {} `{}` is a graph or a long list", node.op_type, node.name)));
    }
    Ok(())
}

/// Checks `model` and builds its plan.
pub(crate) fn check(model: &onnx::Model) -> Result<(Signature, Plan), ModelError> {
    let opset = model.opset_import.iter().find(|import| import.domain.is_empty() || import.domain == "ai.onnx");
    let opset = opset.map_or(0, |import| import.version);
    if !OPSETS.contains(&opset) {
        return Err(ModelError::Opset { found: opset, least: *OPSETS.start(), most: *OPSETS.end() });
    }
    if !model.functions.is_empty() || !model.training_info.is_empty() {
        return Err(refused("functions and training are not supported"));
    }
    let graph = model.graph.as_ref().ok_or_else(|| ModelError::NotOnnx("the model has no graph".to_owned()))?;
    if graph.node.len() > MAX_NODES || graph.initializer.len() > 2 * MAX_NODES || graph.node.is_empty() {
        return Err(refused(format!("found {} operators, expected 1 to {MAX_NODES}", graph.node.len())));
    }
    if !graph.sparse_initializer.is_empty() {
        return Err(refused("sparse weights are not supported"));
    }
    let mut known: HashMap<String, Value> = HashMap::new();
    let mut plan = Builder::default();
    for tensor in &graph.initializer {
        if known.insert(tensor.name.clone(), constant(tensor)?).is_some() {
            return Err(refused(format!("duplicate tensor `{}`", tensor.name)));
        }
        plan.constant(tensor, &tensor.name);
    }
    let mut inputs = Vec::new();
    for info in &graph.input {
        let input = port(info)?;
        // Old files list their weights among the inputs.
        if known.contains_key(&input.name) {
            continue;
        }
        known.insert(input.name.clone(), Value::flowing(input.shape.clone()));
        plan.input(&input.name, &input.shape);
        inputs.push(input);
    }
    if inputs.is_empty() || inputs.len() > 16 {
        return Err(refused(format!("found {} inputs, expected 1 to 16", inputs.len())));
    }
    let (mut work, mut in_all) = (0u64, 0usize);
    for node in &graph.node {
        let (outputs, multiplications) = infer(node, &known, opset)?;
        work = work.saturating_add(multiplications);
        for output in &outputs {
            in_all = in_all.saturating_add(count(&output.shape)?);
        }
        if work > MAX_MULTIPLICATIONS || in_all > MAX_TOTAL_ELEMENTS {
            let bound = format!("{MAX_MULTIPLICATIONS} multiplications or {MAX_TOTAL_ELEMENTS} numbers");
            return Err(refused(format!("a run takes more than {bound}")));
        }
        let given: Vec<Option<&Value>> = node.input.iter().map(|name| known.get(name)).collect();
        plan.node(node, &given, &outputs);
        for (name, output) in node.output.iter().zip(outputs) {
            let name = checked_name(name)?;
            if !name.is_empty() && known.insert(name.to_owned(), output).is_some() {
                return Err(refused(format!("`{name}` is the output of two operators")));
            }
        }
    }
    let mut outputs = Vec::new();
    for info in &graph.output {
        let name = checked_name(&info.name)?.to_owned();
        // Computed shapes apply; those in the file are ignored.
        let Some(value) = known.get(&name).filter(|value| value.is_flowing()) else {
            return Err(refused(format!("no operator computes the output `{name}`")));
        };
        outputs.push(Port { name, shape: value.shape.clone() });
    }
    if outputs.is_empty() || outputs.len() > 16 {
        return Err(refused(format!("found {} outputs, expected 1 to 16", outputs.len())));
    }
    let plan = plan.build(outputs.iter().map(|output| output.name.clone()));
    Ok((Signature { inputs, outputs }, plan))
}

/// Outputs of `node`, and its number of multiplications.
fn infer(node: &Node, known: &HashMap<String, Value>, opset: i64) -> Result<(Vec<Value>, u64), ModelError> {
    if !(node.domain.is_empty() || node.domain == "ai.onnx") {
        return Err(refused(format!("operator {} has the unknown domain `{}`", node.op_type, node.domain)));
    }
    checked_name(&node.name)?;
    node.attribute.iter().try_for_each(|attribute| check_attribute(node, attribute))?;
    let mut inputs = Vec::new();
    for name in &node.input {
        inputs.push(match name.as_str() {
            "" => None,
            // Operators must be in the order of execution, so there are no loops.
            name => Some(known.get(name).ok_or_else(|| {
                refused(format!("{} `{}` needs `{name}`, which no earlier operator computes", node.op_type, node.name))
            })?),
        });
    }
    let outputs = shapes::infer(node, &inputs, opset).map_err(|error| match error {
        shapes::Problem::Unknown => refused(format!("operator {} is not supported", node.op_type)),
        shapes::Problem::Wrong => {
            let shapes: Vec<_> = inputs.iter().flatten().map(|input| input.shape.clone()).collect();
            refused(format!("{} `{}` does not fit its inputs {shapes:?}", node.op_type, node.name))
        }
        shapes::Problem::Model(error) => error,
    })?;
    if node.output.len() > outputs.0.len() || node.output.first().is_none_or(String::is_empty) {
        return Err(refused(format!("{} `{}` has unexpected outputs", node.op_type, node.name)));
    }
    Ok(outputs)
}
