//! Supported operators and the shapes of their outputs (ONNX, operator sets 9 to 18).

use crate::error::ModelError;
use crate::onnx::{Attribute, Node as NodeProto};
use crate::tensor::{Value, constant};

/// Why a node is refused.
pub(crate) enum Problem {
    /// The operator is not supported.
    Unknown,
    /// The operator does not fit its inputs or attributes.
    Wrong,
    /// A tensor of the node is invalid.
    Model(ModelError),
}

type Inferred = Result<(Vec<Value>, u64), Problem>;

/// A node with its inputs.
struct Node<'a> {
    node: &'a NodeProto,
    inputs: &'a [Option<&'a Value>],
}

impl<'a> Node<'a> {
    fn attribute(&self, name: &str) -> Option<&'a Attribute> {
        self.node.attribute.iter().find(|attribute| attribute.name == name)
    }

    fn integer(&self, name: &str, usual: i64) -> i64 {
        self.attribute(name).map_or(usual, |attribute| attribute.i)
    }

    /// Integers of an attribute, or of the input at `place`; `None` if there is neither.
    fn integers(&self, name: &str, place: usize) -> Result<Option<Vec<i64>>, Problem> {
        match (self.attribute(name), self.inputs.get(place).copied().flatten()) {
            (Some(attribute), None) => Ok(Some(attribute.ints.clone())),
            (None, Some(value)) => value.as_integers().map(|values| Some(values.to_vec())).ok_or(Problem::Wrong),
            (None, None) => Ok(None),
            _ => Err(Problem::Wrong),
        }
    }

    /// The input at `place`, which must have real numbers.
    fn real(&self, place: usize) -> Result<&'a Value, Problem> {
        self.inputs.get(place).copied().flatten().filter(|value| value.is_real()).ok_or(Problem::Wrong)
    }

    fn takes(&self, counts: std::ops::RangeInclusive<usize>) -> Result<(), Problem> {
        if counts.contains(&self.inputs.len()) { Ok(()) } else { Err(Problem::Wrong) }
    }

    /// Refuses other attributes than these.
    fn has_only(&self, names: &[&str]) -> Result<(), Problem> {
        let known = |attribute: &Attribute| names.contains(&attribute.name.as_str());
        if self.node.attribute.iter().all(known) { Ok(()) } else { Err(Problem::Wrong) }
    }
}

/// The dimension `axis` of a tensor of `rank` dimensions; a negative axis counts from the last.
fn axis(axis: i64, rank: usize) -> Result<usize, Problem> {
    let from_start = if axis < 0 { axis.checked_add(rank as i64) } else { Some(axis) };
    from_start.and_then(|axis| usize::try_from(axis).ok()).filter(|&axis| axis < rank).ok_or(Problem::Wrong)
}

fn product(lengths: &[usize]) -> Result<usize, Problem> {
    lengths.iter().try_fold(1usize, |product, &length| product.checked_mul(length)).ok_or(Problem::Wrong)
}

/// Shape of an elementwise operation on two tensors, with broadcasting.
fn broadcast(one: &[usize], other: &[usize]) -> Result<Vec<usize>, Problem> {
    let rank = one.len().max(other.len());
    let length = |shape: &[usize], place: usize| (place + shape.len()).checked_sub(rank).map_or(1, |at| shape[at]);
    let lengths = (0..rank).map(|place| match (length(one, place), length(other, place)) {
        (one, other) if one == other => Ok(one),
        (1, length) | (length, 1) => Ok(length),
        _ => Err(Problem::Wrong),
    });
    lengths.collect()
}

fn one(shape: Vec<usize>) -> Inferred {
    let work = product(&shape)? as u64;
    Ok((vec![Value::flowing(shape)], work))
}

/// Outputs of `node`, and its number of multiplications.
pub(crate) fn infer(node: &NodeProto, inputs: &[Option<&Value>], opset: i64) -> Inferred {
    let node = Node { node, inputs };
    match node.node.op_type.as_str() {
        "Relu" | "Sigmoid" | "Tanh" | "Softplus" | "Exp" | "Log" | "Sqrt" | "Neg" | "Abs" | "Identity" | "Erf" => {
            node.takes(1..=1)?;
            node.has_only(&[])?;
            one(node.real(0)?.shape.clone())
        }
        "LeakyRelu" | "Elu" => {
            node.takes(1..=1)?;
            node.has_only(&["alpha"])?;
            one(node.real(0)?.shape.clone())
        }
        "Clip" => clip(&node, opset),
        "Softmax" | "LogSoftmax" => {
            node.takes(1..=1)?;
            node.has_only(&["axis"])?;
            let shape = &node.real(0)?.shape;
            let at = axis(node.integer("axis", if opset < 13 { 1 } else { -1 }), shape.len())?;
            // Before version 13, the operator applied to all axes from this one on.
            if opset < 13 && at + 1 != shape.len() { Err(Problem::Wrong) } else { one(shape.clone()) }
        }
        "Add" | "Sub" | "Mul" | "Div" | "Pow" => {
            node.takes(2..=2)?;
            node.has_only(&[])?;
            one(broadcast(&node.real(0)?.shape, &node.real(1)?.shape)?)
        }
        "Gemm" => gemm(&node),
        "MatMul" => matmul(&node),
        "Conv" => conv(&node),
        "Flatten" => {
            node.takes(1..=1)?;
            node.has_only(&["axis"])?;
            let shape = &node.real(0)?.shape;
            let at = node.integer("axis", 1);
            let at = if at == shape.len() as i64 { shape.len() } else { axis(at, shape.len())? };
            one(vec![product(&shape[..at])?, product(&shape[at..])?])
        }
        "Reshape" => reshape(&node),
        "Transpose" => transpose(&node),
        "Squeeze" => squeeze(&node),
        "Unsqueeze" => unsqueeze(&node),
        "Concat" => concat(&node),
        "Slice" => slice(&node),
        "Constant" => {
            node.takes(0..=0)?;
            node.has_only(&["value"])?;
            let tensor = node.attribute("value").and_then(|attribute| attribute.t.as_ref()).ok_or(Problem::Wrong)?;
            Ok((vec![constant(tensor).map_err(Problem::Model)?], 0))
        }
        "GRU" => recurrent(&node, 3, &["hidden_size", "direction", "linear_before_reset"]),
        "LSTM" => recurrent(&node, 4, &["hidden_size", "direction"]),
        _ => Err(Problem::Unknown),
    }
}

fn clip(node: &Node<'_>, opset: i64) -> Inferred {
    if opset < 11 {
        node.takes(1..=1)?;
        node.has_only(&["min", "max"])?;
    } else {
        node.takes(1..=3)?;
        node.has_only(&[])?;
        for place in 1..node.inputs.len() {
            if node.inputs[place].is_some() && !node.real(place)?.shape.is_empty() {
                return Err(Problem::Wrong);
            }
        }
    }
    one(node.real(0)?.shape.clone())
}

fn gemm(node: &Node<'_>) -> Inferred {
    node.takes(2..=3)?;
    node.has_only(&["alpha", "beta", "transA", "transB"])?;
    let sides = |place, transposed| match node.real(place)?.shape[..] {
        [rows, columns] if node.integer(transposed, 0) != 0 => Ok((columns, rows)),
        [rows, columns] => Ok((rows, columns)),
        _ => Err(Problem::Wrong),
    };
    let ((rows, inner), (same, columns)) = (sides(0, "transA")?, sides(1, "transB")?);
    let shape = vec![rows, columns];
    if inner != same || (node.inputs.len() == 3 && broadcast(&node.real(2)?.shape, &shape)? != shape) {
        return Err(Problem::Wrong);
    }
    Ok((vec![Value::flowing(shape)], product(&[rows, columns, inner])? as u64))
}

fn matmul(node: &Node<'_>) -> Inferred {
    node.takes(2..=2)?;
    node.has_only(&[])?;
    let (left, right) = (&node.real(0)?.shape, &node.real(1)?.shape);
    let ([first @ .., rows, inner], [second @ .., same, columns]) = (&left[..], &right[..]) else {
        return Err(Problem::Wrong);
    };
    if inner != same {
        return Err(Problem::Wrong);
    }
    let mut shape = broadcast(first, second)?;
    shape.extend([*rows, *columns]);
    let work = product(&shape)?.checked_mul(*inner).ok_or(Problem::Wrong)?;
    Ok((vec![Value::flowing(shape)], work as u64))
}

/// A convolution over one or two dimensions, with weights of the file.
fn conv(node: &Node<'_>) -> Inferred {
    node.takes(2..=3)?;
    node.has_only(&["dilations", "group", "kernel_shape", "pads", "strides", "auto_pad"])?;
    if node.attribute("auto_pad").is_some_and(|pad| pad.s != b"NOTSET") {
        return Err(Problem::Wrong);
    }
    let (input, weights) = (&node.real(0)?.shape, node.real(1)?);
    if weights.is_flowing() || !(3..=4).contains(&input.len()) || weights.shape.len() != input.len() {
        return Err(Problem::Wrong);
    }
    let rank = input.len() - 2;
    let lengths = |name: &str, count: usize, usual: i64, least: i64| {
        let values = node.attribute(name).map_or_else(|| vec![usual; count], |attribute| attribute.ints.clone());
        let fits = values.len() == count && values.iter().all(|value| (least..=64).contains(value));
        if fits { Ok(values.iter().map(|&value| value as usize).collect::<Vec<_>>()) } else { Err(Problem::Wrong) }
    };
    let (dilations, strides) = (lengths("dilations", rank, 1, 1)?, lengths("strides", rank, 1, 1)?);
    let pads = lengths("pads", 2 * rank, 0, 0)?;
    let kernel = &weights.shape[2..];
    if node.attribute("kernel_shape").is_some() && lengths("kernel_shape", rank, 1, 1)? != *kernel {
        return Err(Problem::Wrong);
    }
    let group = usize::try_from(node.integer("group", 1)).map_err(|_| Problem::Wrong)?;
    let (channels, filters) = (input[1], weights.shape[0]);
    let grouped = group > 0 && filters % group == 0 && weights.shape[1].checked_mul(group) == Some(channels);
    let bias = node.inputs.len() < 3 || (node.real(2)?.shape == [filters] && !node.real(2)?.is_flowing());
    if !grouped || !bias {
        return Err(Problem::Wrong);
    }
    let mut shape = vec![input[0], filters];
    for place in 0..rank {
        let padded = input[place + 2] + pads[place] + pads[place + rank];
        let reach = (kernel[place] - 1).checked_mul(dilations[place]).ok_or(Problem::Wrong)?;
        let left = padded.checked_sub(reach).filter(|&left| left > 0).ok_or(Problem::Wrong)?;
        shape.push((left - 1) / strides[place] + 1);
    }
    let work = product(&shape)?.checked_mul(product(&weights.shape[1..])?).ok_or(Problem::Wrong)?;
    Ok((vec![Value::flowing(shape)], work as u64))
}

fn reshape(node: &Node<'_>) -> Inferred {
    node.takes(2..=2)?;
    node.has_only(&["allowzero"])?;
    let input = &node.real(0)?.shape;
    let wanted = node.integers("shape", 1)?.ok_or(Problem::Wrong)?;
    let mut shape = Vec::new();
    for (place, &length) in wanted.iter().enumerate() {
        shape.push(match length {
            // The length of the input; it is refused if the input does not have this dimension.
            0 if node.integer("allowzero", 0) == 0 => *input.get(place).ok_or(Problem::Wrong)?,
            -1 => 1,
            length => usize::try_from(length).map_err(|_| Problem::Wrong)?,
        });
    }
    let count = product(input)?;
    let open: Vec<usize> = (0..wanted.len()).filter(|&place| wanted[place] == -1).collect();
    match open[..] {
        [] => {}
        [place] => {
            let others = product(&shape)?;
            if others == 0 || count % others != 0 {
                return Err(Problem::Wrong);
            }
            shape[place] = count / others;
        }
        _ => return Err(Problem::Wrong),
    }
    if product(&shape)? != count { Err(Problem::Wrong) } else { one(shape) }
}

fn transpose(node: &Node<'_>) -> Inferred {
    node.takes(1..=1)?;
    node.has_only(&["perm"])?;
    let input = &node.real(0)?.shape;
    let Some(order) = node.attribute("perm") else {
        return one(input.iter().rev().copied().collect());
    };
    let places = order.ints.iter().map(|&place| axis(place, input.len())).collect::<Result<Vec<_>, _>>()?;
    let mut sorted = places.clone();
    sorted.sort_unstable();
    if sorted != (0..input.len()).collect::<Vec<_>>() {
        return Err(Problem::Wrong);
    }
    one(places.iter().map(|&place| input[place]).collect())
}

fn squeeze(node: &Node<'_>) -> Inferred {
    node.takes(1..=2)?;
    node.has_only(&["axes"])?;
    let input = &node.real(0)?.shape;
    let axes = node.integers("axes", 1)?.ok_or(Problem::Wrong)?;
    let axes = axes.iter().map(|&at| axis(at, input.len())).collect::<Result<Vec<_>, _>>()?;
    if axes.iter().any(|&at| input[at] != 1) {
        return Err(Problem::Wrong);
    }
    one((0..input.len()).filter(|at| !axes.contains(at)).map(|at| input[at]).collect())
}

fn unsqueeze(node: &Node<'_>) -> Inferred {
    node.takes(1..=2)?;
    node.has_only(&["axes"])?;
    let input = &node.real(0)?.shape;
    let axes = node.integers("axes", 1)?.ok_or(Problem::Wrong)?;
    let rank = input.len() + axes.len();
    let mut axes = axes.iter().map(|&at| axis(at, rank)).collect::<Result<Vec<_>, _>>()?;
    axes.sort_unstable();
    if axes.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(Problem::Wrong);
    }
    let mut lengths = input.iter();
    one((0..rank).map(|at| if axes.contains(&at) { 1 } else { *lengths.next().unwrap_or(&1) }).collect())
}

fn concat(node: &Node<'_>) -> Inferred {
    node.takes(1..=32)?;
    node.has_only(&["axis"])?;
    let mut shape = node.real(0)?.shape.clone();
    let at = axis(node.attribute("axis").ok_or(Problem::Wrong)?.i, shape.len())?;
    for place in 1..node.inputs.len() {
        let other = &node.real(place)?.shape;
        let same =
            other.len() == shape.len() && (0..shape.len()).all(|place| place == at || other[place] == shape[place]);
        if !same {
            return Err(Problem::Wrong);
        }
        shape[at] = shape[at].checked_add(other[at]).ok_or(Problem::Wrong)?;
    }
    one(shape)
}

fn slice(node: &Node<'_>) -> Inferred {
    node.takes(1..=5)?;
    node.has_only(&["starts", "ends", "axes"])?;
    let mut shape = node.real(0)?.shape.clone();
    let starts = node.integers("starts", 1)?.ok_or(Problem::Wrong)?;
    let ends = node.integers("ends", 2)?.ok_or(Problem::Wrong)?;
    let axes = node.integers("axes", 3)?.unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = node.integers("steps", 4)?;
    if ends.len() != starts.len()
        || axes.len() != starts.len()
        || steps.is_some_and(|steps| steps.iter().any(|&step| step != 1))
    {
        return Err(Problem::Wrong);
    }
    let mut seen = Vec::new();
    for ((&at, &start), &end) in axes.iter().zip(&starts).zip(&ends) {
        let at = axis(at, shape.len())?;
        if seen.contains(&at) {
            return Err(Problem::Wrong);
        }
        seen.push(at);
        let length = shape[at] as i64;
        let within = |place: i64| if place < 0 { place.saturating_add(length).max(0) } else { place.min(length) };
        shape[at] = usize::try_from(within(end) - within(start)).map_err(|_| Problem::Wrong)?;
    }
    one(shape)
}

/// A forward GRU or LSTM with weights of the file, which have `gates` rows per unit.
fn recurrent(node: &Node<'_>, gates: usize, attributes: &[&str]) -> Inferred {
    node.takes(3..=if gates == 4 { 7 } else { 6 })?;
    node.has_only(attributes)?;
    if node.attribute("direction").is_some_and(|direction| direction.s != b"forward") {
        return Err(Problem::Wrong);
    }
    let units = usize::try_from(node.integer("hidden_size", 0)).map_err(|_| Problem::Wrong)?;
    let [steps, calls, width] = node.real(0)?.shape[..] else { return Err(Problem::Wrong) };
    if units == 0 || units > 4_096 || steps > 256 {
        return Err(Problem::Wrong);
    }
    let fits = |place: usize, shape: &[usize], weights: bool| match node.inputs.get(place).copied().flatten() {
        None => Ok(()),
        Some(value) if value.is_real() && value.shape == shape && !(weights && value.is_flowing()) => Ok(()),
        Some(_) => Err(Problem::Wrong),
    };
    let rows = gates * units;
    if node.real(1)?.is_flowing() || node.real(2)?.is_flowing() {
        return Err(Problem::Wrong);
    }
    fits(1, &[1, rows, width], true)?;
    fits(2, &[1, rows, units], true)?;
    fits(3, &[1, 2 * rows], true)?;
    if node.inputs.get(4).copied().flatten().is_some() {
        return Err(Problem::Wrong);
    }
    fits(5, &[1, calls, units], false)?;
    fits(6, &[1, calls, units], false)?;
    let work = product(&[steps, calls, rows, width + units])? as u64;
    let state = || Value::flowing(vec![1, calls, units]);
    let mut outputs = vec![Value::flowing(vec![steps, 1, calls, units]), state()];
    if gates == 4 {
        outputs.push(state());
    }
    Ok((outputs, work))
}
