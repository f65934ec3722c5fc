//! Whether the graph of an ONNX model is one that can be run: known operators, whole weights, bounded sizes and work.
//!
//! Every shape is worked out here before a plan is made of it, so that nothing in a file can make it allocate,
//! loop or index beyond what is there. What is no plain forward pass (loops, branches, functions, text, weights in other
//! files) is refused.

use std::collections::HashMap;

use super::onnx::{self, Attribute, Node, Tensor, ValueInfo};
use super::run::{self, Builder, Plan};
use super::shapes::{self, Value};
use super::{ModelError, Port};

/// The versions of the operator set that the runtime is tested against.
const OPSETS: std::ops::RangeInclusive<i64> = 9..=18;
const MOST_NODES: usize = 512;
const MOST_NAME: usize = 256;
/// Numbers in one tensor that flows between operators, or is a weight.
const MOST_NUMBERS: usize = 4 << 20;
/// Numbers in all tensors that flow between operators.
const MOST_NUMBERS_IN_ALL: usize = 16 << 20;
/// Multiplications in one run: a quarter of a second or so on a slow core.
const MOST_WORK: u64 = 1 << 28;
/// Tensors of whole numbers say shapes and places: they are short.
const MOST_INTEGERS: usize = 64;

/// What goes into a graph and comes out of it.
pub(super) struct Signature {
    pub inputs: Vec<Port>,
    pub outputs: Vec<Port>,
}

pub(super) fn refused(text: impl Into<String>) -> ModelError {
    ModelError::Refused(text.into())
}

fn checked_name(name: &str) -> Result<&str, ModelError> {
    if name.len() > MOST_NAME {
        return Err(refused(format!("a name is longer than {MOST_NAME} bytes")));
    }
    Ok(name)
}

/// How many numbers a tensor of this shape has.
fn numbers(shape: &[usize]) -> Result<usize, ModelError> {
    let product = shape.iter().try_fold(1usize, |product, &length| product.checked_mul(length));
    product.filter(|&count| count <= MOST_NUMBERS && count > 0 && shape.len() <= 6).ok_or_else(|| {
        refused(format!("a tensor of the shape {shape:?} is empty or has more than {MOST_NUMBERS} numbers"))
    })
}

/// The weights or the whole numbers of a tensor that is in the file.
pub(super) fn constant(tensor: &Tensor) -> Result<Value, ModelError> {
    let name = checked_name(&tensor.name)?;
    let shape: Vec<usize> = (tensor.dims.iter().map(|&length| usize::try_from(length)))
        .collect::<Result<_, _>>()
        .map_err(|_| refused(format!("the tensor `{name}` has a negative length")))?;
    let count = numbers(&shape)?;
    if tensor.segment.is_some() || !tensor.external_data.is_empty() || tensor.data_location != 0 {
        return Err(refused(format!("the tensor `{name}` is not in the file")));
    }
    let (size, typed, others) = match tensor.data_type {
        onnx::FLOAT => (4, tensor.float_data.len(), tensor.int64_data.len()),
        onnx::INT64 => (8, tensor.int64_data.len(), tensor.float_data.len()),
        _ => return Err(refused(format!("the tensor `{name}` is neither of 32-bit floats nor of 64-bit integers"))),
    };
    let raw = tensor.raw_data.len();
    if others != 0 || !((raw == 0 && typed == count) || (raw == size * count && typed == 0)) {
        return Err(refused(format!("the tensor `{name}` is not whole")));
    }
    if tensor.data_type == onnx::FLOAT {
        // A weight that is no number spoils every decision without a word: comparisons with it are false.
        if run::numbers(tensor).iter().any(|number| !number.is_finite()) {
            return Err(refused(format!("the tensor `{name}` has a weight that is infinite or no number")));
        }
        return Ok(Value::weights(shape));
    }
    if count > MOST_INTEGERS || shape.len() > 1 {
        return Err(refused(format!("the tensor `{name}` has more than {MOST_INTEGERS} whole numbers")));
    }
    let words = tensor.raw_data.chunks_exact(8).map(|word| word.try_into().map_or(0, i64::from_le_bytes));
    let integers = if raw == 0 { tensor.int64_data.clone() } else { words.collect() };
    Ok(Value::integers(shape, integers))
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
    numbers(&shape)?;
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
pub(super) fn check(model: &onnx::Model) -> Result<(Signature, Plan), ModelError> {
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
            in_all = in_all.saturating_add(numbers(&output.shape)?);
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
