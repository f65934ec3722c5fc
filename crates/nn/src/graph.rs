//! Whether the graph of an ONNX model is one that can be run: known operators, whole weights, bounded sizes and work.
//!
//! Every shape is worked out here before a plan is made of it, so that nothing in a file can make it allocate,
//! loop or index beyond what is there. What is no plain forward pass (loops, branches, functions, text, weights in other
//! files) is refused.

use std::collections::HashMap;

use crate::error::{ModelError, Port};
use crate::onnx::{self, Attribute, Node, ValueInfo};
use crate::run::{Builder, Plan};
use crate::shapes;
use crate::tensor::{MOST_INTEGERS, Value, checked_name, constant, count, refused};

/// The versions of the operator set that the runtime is tested against.
const OPSETS: std::ops::RangeInclusive<i64> = 9..=18;
const MOST_NODES: usize = 512;
/// Numbers in all tensors that flow between operators.
const MOST_NUMBERS_IN_ALL: usize = 16 << 20;
/// Multiplications in one run: a quarter of a second or so on a slow core.
const MOST_WORK: u64 = 1 << 28;

/// What goes into a graph and comes out of it.
pub(crate) struct Signature {
    pub inputs: Vec<Port>,
    pub outputs: Vec<Port>,
}

/// The shape of an input. A length that the file leaves open is one: a call is one call.
fn port(info: &ValueInfo) -> Result<Port, ModelError> {
    let name = checked_name(&info.name)?.to_owned();
    let wrong = || refused(format!("the input `{name}` is no tensor of 32-bit floats with a shape"));
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
    if nested || attribute.ints.len() > MOST_INTEGERS || attribute.floats.len() > MOST_INTEGERS {
        return Err(refused(format!("an attribute of the {} `{}` is a graph or a list", node.op_type, node.name)));
    }
    Ok(())
}

/// Checks `model`, and makes the plan of its run.
pub(crate) fn check(model: &onnx::Model) -> Result<(Signature, Plan), ModelError> {
    let opset = model.opset_import.iter().find(|import| import.domain.is_empty() || import.domain == "ai.onnx");
    let opset = opset.map_or(0, |import| import.version);
    if !OPSETS.contains(&opset) {
        return Err(ModelError::Opset { found: opset, least: *OPSETS.start(), most: *OPSETS.end() });
    }
    if !model.functions.is_empty() || !model.training_info.is_empty() {
        return Err(refused("it has functions or training in it"));
    }
    let graph = model.graph.as_ref().ok_or_else(|| ModelError::NotOnnx("it has no graph".to_owned()))?;
    if graph.node.len() > MOST_NODES || graph.initializer.len() > 2 * MOST_NODES || graph.node.is_empty() {
        return Err(refused(format!("it has {} operators; there may be 1 to {MOST_NODES}", graph.node.len())));
    }
    if !graph.sparse_initializer.is_empty() {
        return Err(refused("it has sparse weights"));
    }
    let mut known: HashMap<String, Value> = HashMap::new();
    let mut plan = Builder::default();
    for tensor in &graph.initializer {
        if known.insert(tensor.name.clone(), constant(tensor)?).is_some() {
            return Err(refused(format!("the tensor `{}` is there twice", tensor.name)));
        }
        plan.constant(tensor, &tensor.name);
    }
    let mut inputs = Vec::new();
    for info in &graph.input {
        let input = port(info)?;
        // Old files name their weights among the inputs.
        if known.contains_key(&input.name) {
            continue;
        }
        known.insert(input.name.clone(), Value::flowing(input.shape.clone()));
        plan.input(&input.name, &input.shape);
        inputs.push(input);
    }
    if inputs.is_empty() || inputs.len() > 16 {
        return Err(refused(format!("it has {} inputs; there may be 1 to 16", inputs.len())));
    }
    let (mut work, mut in_all) = (0u64, 0usize);
    for node in &graph.node {
        let (outputs, multiplications) = infer(node, &known, opset)?;
        work = work.saturating_add(multiplications);
        for output in &outputs {
            in_all = in_all.saturating_add(count(&output.shape)?);
        }
        if work > MOST_WORK || in_all > MOST_NUMBERS_IN_ALL {
            let bound = format!("{MOST_WORK} multiplications or {MOST_NUMBERS_IN_ALL} numbers");
            return Err(refused(format!("a decision takes more than {bound}")));
        }
        let given: Vec<Option<&Value>> = node.input.iter().map(|name| known.get(name)).collect();
        plan.node(node, &given, &outputs);
        for (name, output) in node.output.iter().zip(outputs) {
            let name = checked_name(name)?;
            if !name.is_empty() && known.insert(name.to_owned(), output).is_some() {
                return Err(refused(format!("`{name}` comes of two operators")));
            }
        }
    }
    let mut outputs = Vec::new();
    for info in &graph.output {
        let name = checked_name(&info.name)?.to_owned();
        // Shapes are as they were worked out; what the file says of them is not needed.
        let Some(value) = known.get(&name).filter(|value| value.is_flowing()) else {
            return Err(refused(format!("the output `{name}` comes of no operator")));
        };
        outputs.push(Port { name, shape: value.shape.clone() });
    }
    if outputs.is_empty() || outputs.len() > 16 {
        return Err(refused(format!("it has {} outputs; there may be 1 to 16", outputs.len())));
    }
    let plan = plan.build(outputs.iter().map(|output| output.name.clone()));
    Ok((Signature { inputs, outputs }, plan))
}

/// What comes out of `node`, and how many multiplications it takes.
fn infer(node: &Node, known: &HashMap<String, Value>, opset: i64) -> Result<(Vec<Value>, u64), ModelError> {
    if !(node.domain.is_empty() || node.domain == "ai.onnx") {
        return Err(refused(format!("the operator {} is of the domain `{}`", node.op_type, node.domain)));
    }
    checked_name(&node.name)?;
    node.attribute.iter().try_for_each(|attribute| check_attribute(node, attribute))?;
    let mut inputs = Vec::new();
    for name in &node.input {
        inputs.push(match name.as_str() {
            "" => None,
            // Operators are in the order in which they run, so that there is no loop.
            name => Some(known.get(name).ok_or_else(|| {
                refused(format!("the {} `{}` takes `{name}`, which nothing before it gives", node.op_type, node.name))
            })?),
        });
    }
    let outputs = shapes::infer(node, &inputs, opset).map_err(|error| match error {
        shapes::Problem::Unknown => refused(format!("the operator {} is not among those that are run", node.op_type)),
        shapes::Problem::Wrong => {
            let shapes: Vec<_> = inputs.iter().flatten().map(|input| input.shape.clone()).collect();
            refused(format!("the {} `{}` does not fit its inputs {shapes:?}", node.op_type, node.name))
        }
        shapes::Problem::Model(error) => error,
    })?;
    if node.output.len() > outputs.0.len() || node.output.first().is_none_or(String::is_empty) {
        return Err(refused(format!("the {} `{}` has other outputs than it should", node.op_type, node.name)));
    }
    Ok(outputs)
}
