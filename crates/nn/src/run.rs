//! Runs a checked graph as a list of steps.
//!
//! All arithmetic is single precision, with sums in the order of their terms and functions of libm. So equal inputs
//! give equal bytes on every machine.

use std::collections::HashMap;

use crate::conv::Conv;
use crate::onnx::{self, Attribute, Node};
use crate::product::Packed;
use crate::recurrent::{Recurrent, sigmoid};
use crate::tensor::{Value, floats};
use crate::view::View;

/// A tensor.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tensor {
    pub shape: Vec<usize>,
    pub numbers: Vec<f32>,
}

/// Operation of a step.
#[derive(Debug)]
enum Kind {
    /// A function of each number.
    Each(fn(f32) -> f32),
    LeakyRelu(f32),
    Elu(f32),
    Clip(f32, f32),
    /// A function of pairs of numbers, with broadcasting.
    Both(fn(f32, f32) -> f32),
    /// Softmax over an axis, or its logarithm.
    Softmax {
        axis: usize,
        logarithm: bool,
    },
    /// Product with a matrix of the file, with factors of the product and of an added tensor.
    Dense {
        weights: Packed,
        alpha: f32,
        beta: f32,
    },
    /// Product of two computed tensors.
    MatMul {
        alpha: f32,
        beta: f32,
        transposed: (bool, bool),
    },
    Conv(Box<Conv>),
    /// The same numbers in another shape.
    Shape,
    Transpose(Vec<usize>),
    Concat(usize),
    /// Start of the slice in each dimension.
    Slice(Vec<usize>),
    Recurrent(Box<Recurrent>),
}

/// A step of a run, with the positions of its inputs and outputs.
#[derive(Debug)]
struct Step {
    kind: Kind,
    inputs: Vec<Option<usize>>,
    outputs: Vec<usize>,
    shape: Vec<usize>,
}

/// A graph that can run.
#[derive(Debug)]
pub(crate) struct Plan {
    steps: Vec<Step>,
    /// Tensors of the file by position; empty for computed tensors.
    constants: Vec<Tensor>,
    inputs: Vec<usize>,
    outputs: Vec<usize>,
}

fn softplus(number: f32) -> f32 {
    number.max(0.0) + libm::log1pf(libm::expf(-number.abs()))
}

fn relu(number: f32) -> f32 {
    // NaN stays NaN.
    if number < 0.0 { 0.0 } else { number }
}

fn attribute<'a>(node: &'a Node, name: &str) -> Option<&'a Attribute> {
    node.attribute.iter().find(|attribute| attribute.name == name)
}

fn integer(node: &Node, name: &str, usual: i64) -> i64 {
    attribute(node, name).map_or(usual, |attribute| attribute.i)
}

fn float(node: &Node, name: &str, usual: f32) -> f32 {
    attribute(node, name).map_or(usual, |attribute| attribute.f)
}

fn place(axis: i64, rank: usize) -> usize {
    usize::try_from(if axis < 0 { axis + rank as i64 } else { axis }).unwrap_or(0)
}

fn pair(node: &Node, name: &str, usual: usize) -> [usize; 2] {
    let Some(attribute) = attribute(node, name) else { return [usual; 2] };
    let number =
        |place: usize| attribute.ints.get(place).map_or(usual, |&value| usize::try_from(value).unwrap_or(usual));
    // One dimension is treated as two, with length 1 in the second.
    if attribute.ints.len() == 1 { [number(0), usual] } else { [number(0), number(1)] }
}

/// Builds a plan from operators with checked shapes.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    steps: Vec<Step>,
    constants: Vec<Tensor>,
    places: HashMap<String, usize>,
    inputs: Vec<usize>,
}

impl Builder {
    fn put(&mut self, name: &str, constant: Tensor) -> usize {
        self.constants.push(constant);
        let at = self.constants.len() - 1;
        if !name.is_empty() {
            self.places.insert(name.to_owned(), at);
        }
        at
    }

    /// Adds a tensor of the file.
    pub fn constant(&mut self, tensor: &onnx::Tensor, name: &str) {
        let shape = tensor.dims.iter().map(|&length| usize::try_from(length).unwrap_or(0)).collect();
        let numbers = if tensor.data_type == onnx::FLOAT { floats(tensor) } else { Vec::new() };
        self.put(name, Tensor { shape, numbers });
    }

    /// Adds an input of the graph.
    pub fn input(&mut self, name: &str, shape: &[usize]) {
        let at = self.put(name, Tensor { shape: shape.to_vec(), numbers: Vec::new() });
        self.inputs.push(at);
    }

    /// Adds an operator with its inputs and the shapes of its outputs.
    pub fn node(&mut self, node: &Node, inputs: &[Option<&Value>], outputs: &[Value]) {
        if node.op_type == "Constant" {
            if let Some(tensor) = attribute(node, "value").and_then(|attribute| attribute.t.as_ref()) {
                self.constant(tensor, &node.output[0]);
            }
            return;
        }
        let at: Vec<Option<usize>> = node.input.iter().map(|name| self.places.get(name).copied()).collect();
        let constant = |place: usize| at.get(place).copied().flatten().map(|at| &self.constants[at]);
        let kind = kind(node, inputs, outputs, &constant);
        let shape = outputs[0].shape.clone();
        let given: Vec<usize> = outputs
            .iter()
            .zip(node.output.iter().map(String::as_str).chain(std::iter::repeat("")))
            .map(|(output, name)| self.put(name, Tensor { shape: output.shape.clone(), numbers: Vec::new() }))
            .collect();
        self.steps.push(Step { kind, inputs: at, outputs: given, shape });
    }

    /// Builds the plan with the outputs `names`.
    pub fn build(self, names: impl Iterator<Item = String>) -> Plan {
        let Self { steps, constants, places, inputs } = self;
        let outputs = names.filter_map(|name| places.get(&name).copied()).collect();
        Plan { steps, constants, inputs, outputs }
    }
}

fn kind<'a>(
    node: &Node,
    inputs: &[Option<&Value>],
    outputs: &[Value],
    constant: &dyn Fn(usize) -> Option<&'a Tensor>,
) -> Kind {
    let shape = |place: usize| inputs.get(place).copied().flatten().map_or(&[][..], |value| &value.shape[..]);
    let integers = |name: &str, place: usize| {
        let of_input = || inputs.get(place).copied().flatten().and_then(Value::as_integers).map(<[i64]>::to_vec);
        attribute(node, name).map(|attribute| attribute.ints.clone()).or_else(of_input)
    };
    match node.op_type.as_str() {
        "Relu" => Kind::Each(relu),
        "Sigmoid" => Kind::Each(sigmoid),
        "Tanh" => Kind::Each(libm::tanhf),
        "Softplus" => Kind::Each(softplus),
        "Exp" => Kind::Each(libm::expf),
        "Log" => Kind::Each(libm::logf),
        "Sqrt" => Kind::Each(libm::sqrtf),
        "Erf" => Kind::Each(libm::erff),
        "Neg" => Kind::Each(|number| -number),
        "Abs" => Kind::Each(f32::abs),
        "LeakyRelu" => Kind::LeakyRelu(float(node, "alpha", 0.01)),
        "Elu" => Kind::Elu(float(node, "alpha", 1.0)),
        "Clip" => {
            let bound = |name: &str, place: usize, usual: f32| match attribute(node, name) {
                Some(attribute) => attribute.f,
                None => constant(place).and_then(|tensor| tensor.numbers.first().copied()).unwrap_or(usual),
            };
            Kind::Clip(bound("min", 1, f32::NEG_INFINITY), bound("max", 2, f32::INFINITY))
        }
        "Softmax" | "LogSoftmax" => {
            let logarithm = node.op_type == "LogSoftmax";
            Kind::Softmax { axis: place(integer(node, "axis", -1), shape(0).len()), logarithm }
        }
        "Add" => Kind::Both(|one, other| one + other),
        "Sub" => Kind::Both(|one, other| one - other),
        "Mul" => Kind::Both(|one, other| one * other),
        "Div" => Kind::Both(|one, other| one / other),
        "Pow" => Kind::Both(libm::powf),
        "Gemm" | "MatMul" => {
            let (alpha, beta) = (float(node, "alpha", 1.0), float(node, "beta", 1.0));
            let transposed = (integer(node, "transA", 0) != 0, integer(node, "transB", 0) != 0);
            match (inputs.get(1).copied().flatten(), constant(1)) {
                (Some(value), Some(weights)) if !value.is_flowing() && shape(1).len() == 2 && !transposed.0 => {
                    let columns = shape(1)[1];
                    let at = |row: usize, column: usize| {
                        if transposed.1 {
                            weights.numbers[column * columns + row]
                        } else {
                            weights.numbers[row * columns + column]
                        }
                    };
                    let (inner, width) = if transposed.1 { (columns, shape(1)[0]) } else { (shape(1)[0], columns) };
                    Kind::Dense { weights: Packed::new(inner, width, at), alpha, beta }
                }
                _ => Kind::MatMul { alpha, beta, transposed },
            }
        }
        "Conv" => Kind::Conv(Box::new(conv(node, shape(1), constant))),
        "Transpose" => {
            let rank = shape(0).len();
            let reversed = || (0..rank).rev().collect();
            Kind::Transpose(
                attribute(node, "perm")
                    .map_or_else(reversed, |order| order.ints.iter().map(|&axis| place(axis, rank)).collect()),
            )
        }
        "Concat" => Kind::Concat(place(integer(node, "axis", 0), shape(0).len())),
        "Slice" => {
            let rank = shape(0).len();
            let mut from = vec![0; rank];
            let starts = integers("starts", 1).unwrap_or_default();
            let axes = integers("axes", 3).unwrap_or_else(|| (0..starts.len() as i64).collect());
            for (&axis, &start) in axes.iter().zip(&starts) {
                let axis = place(axis, rank);
                let length = shape(0)[axis] as i64;
                let start = if start < 0 { start.saturating_add(length).max(0) } else { start.min(length) };
                from[axis] = usize::try_from(start).unwrap_or(0);
            }
            Kind::Slice(from)
        }
        "GRU" | "LSTM" => {
            let units = outputs[0].shape[3];
            let packed = |place: usize| {
                let [_, rows, columns] = shape(place) else { return Packed::new(0, 0, |_, _| 0.0) };
                let weights = constant(place).map_or(&[][..], |tensor| &tensor.numbers[..]);
                Packed::new(*columns, *rows, |row, column| weights[column * columns + row])
            };
            Kind::Recurrent(Box::new(Recurrent {
                units,
                is_lstm: node.op_type == "LSTM",
                linear_before_reset: integer(node, "linear_before_reset", 0) != 0,
                input: packed(1),
                state: packed(2),
                bias: constant(3).map_or_else(Vec::new, |tensor| tensor.numbers.clone()),
            }))
        }
        // Reshape, Flatten, Squeeze, Unsqueeze, Identity.
        _ => Kind::Shape,
    }
}

fn conv<'a>(node: &Node, weights: &[usize], constant: &dyn Fn(usize) -> Option<&'a Tensor>) -> Conv {
    let groups = usize::try_from(integer(node, "group", 1)).unwrap_or(1);
    let numbers = constant(1).map_or(&[][..], |tensor| &tensor.numbers[..]);
    let (filters, under) = (weights[0] / groups, weights[1..].iter().product::<usize>());
    let group =
        |group: usize| Packed::new(under, filters, |row, column| numbers[(group * filters + column) * under + row]);
    Conv {
        groups: (0..groups).map(group).collect(),
        bias: constant(2).map_or_else(|| vec![0.0; weights[0]], |tensor| tensor.numbers.clone()),
        kernel: [weights[2], weights.get(3).copied().unwrap_or(1)],
        strides: pair(node, "strides", 1),
        dilations: pair(node, "dilations", 1),
        // Padding before the dimensions comes first in the list.
        pads: match attribute(node, "pads") {
            Some(pads) if pads.ints.len() == 2 => [usize::try_from(pads.ints[0]).unwrap_or(0), 0],
            _ => pair(node, "pads", 0),
        },
    }
}

/// Strides of `shape`, broadcast to a tensor of `rank` dimensions; zero for a dimension of length 1.
fn strides(shape: &[usize], rank: usize) -> Vec<usize> {
    let mut strides = vec![0; rank];
    let mut apart = 1;
    for (place, &length) in shape.iter().enumerate().rev() {
        strides[rank - shape.len() + place] = if length == 1 { 0 } else { apart };
        apart *= length;
    }
    strides
}

/// Calls `with` for each element of `shape` in row-major order, with the offsets in two tensors.
fn walk(shape: &[usize], strides: [&[usize]; 2], mut with: impl FnMut([usize; 2])) {
    let mut at = vec![0; shape.len()];
    let mut places = [0, 0];
    for _ in 0..shape.iter().product() {
        with(places);
        for axis in (0..shape.len()).rev() {
            at[axis] += 1;
            places.iter_mut().zip(strides).for_each(|(place, strides)| *place += strides[axis]);
            if at[axis] < shape[axis] {
                break;
            }
            places.iter_mut().zip(strides).for_each(|(place, strides)| *place -= strides[axis] * shape[axis]);
            at[axis] = 0;
        }
    }
}

/// Elements of `tensor` with these strides, from the offset `first` on.
fn pick(tensor: View<'_>, shape: &[usize], first: usize, strides: &[usize]) -> Vec<f32> {
    let mut picked = Vec::with_capacity(shape.iter().product());
    walk(shape, [strides, strides], |[at, _]| picked.push(tensor.numbers[first + at]));
    picked
}

fn softmax(tensor: View<'_>, axis: usize, logarithm: bool) -> Vec<f32> {
    let length = tensor.shape[axis];
    let apart: usize = tensor.shape[axis + 1..].iter().product();
    let mut numbers = tensor.numbers.to_vec();
    for first in (0..numbers.len()).filter(|place| (place / apart).is_multiple_of(length)) {
        let places = || (0..length).map(|place| first + place * apart);
        let largest = places().map(|at| tensor.numbers[at]).fold(f32::NEG_INFINITY, f32::max);
        let sum: f32 = places().map(|at| libm::expf(tensor.numbers[at] - largest)).sum();
        for at in places() {
            let above = tensor.numbers[at] - largest;
            numbers[at] = if logarithm { above - libm::logf(sum) } else { libm::expf(above) / sum };
        }
    }
    numbers
}

/// Product of two computed tensors, or with a second tensor that is not a matrix.
fn matmul(left: View<'_>, right: View<'_>, shape: &[usize], transposed: (bool, bool)) -> Vec<f32> {
    let rank = shape.len();
    let (rows, columns) = (shape[rank - 2], shape[rank - 1]);
    let inner = left.shape[left.shape.len() - if transposed.0 { 2 } else { 1 }];
    let apart = |tensor: View<'_>| {
        let mut apart = strides(tensor.shape, rank);
        apart.truncate(rank - 2);
        apart
    };
    let mut output = Vec::with_capacity(shape.iter().product());
    walk(&shape[..rank - 2], [&apart(left), &apart(right)], |[left_at, right_at]| {
        for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
            let term = |place: usize| {
                let one = if transposed.0 { place * rows + row } else { row * inner + place };
                let other = if transposed.1 { column * inner + place } else { place * columns + column };
                left.numbers[left_at + one] * right.numbers[right_at + other]
            };
            output.push((0..inner).map(term).sum());
        }
    });
    output
}

impl Plan {
    /// Runs the plan on `inputs` of checked lengths.
    pub fn run(&self, inputs: &[&[f32]]) -> Vec<Vec<f32>> {
        let mut flowing: Vec<Vec<f32>> = vec![Vec::new(); self.constants.len()];
        for (&at, numbers) in self.inputs.iter().zip(inputs) {
            flowing[at] = numbers.to_vec();
        }
        for step in &self.steps {
            let view = |at: usize| {
                let Tensor { shape, numbers } = &self.constants[at];
                View { shape, numbers: if numbers.is_empty() { &flowing[at] } else { numbers } }
            };
            let views: Vec<Option<View<'_>>> = step.inputs.iter().map(|at| at.map(view)).collect();
            let results = step.run(&views);
            for (&at, numbers) in step.outputs.iter().zip(results) {
                flowing[at] = numbers;
            }
        }
        self.outputs.iter().map(|&at| flowing[at].clone()).collect()
    }
}

impl Step {
    fn run(&self, inputs: &[Option<View<'_>>]) -> Vec<Vec<f32>> {
        let input = |place: usize| inputs.get(place).copied().flatten();
        let first = input(0).unwrap_or_default();
        let each = |function: &dyn Fn(f32) -> f32| first.numbers.iter().map(|&number| function(number)).collect();
        vec![match &self.kind {
            Kind::Each(function) => each(function),
            Kind::LeakyRelu(slope) => each(&|number| if number < 0.0 { slope * number } else { number }),
            Kind::Elu(alpha) => each(&|number| if number < 0.0 { alpha * libm::expm1f(number) } else { number }),
            Kind::Clip(least, most) => each(&|number| {
                if number < *least {
                    *least
                } else if number > *most {
                    *most
                } else {
                    number
                }
            }),
            Kind::Both(function) => {
                let second = input(1).unwrap_or_default();
                let rank = self.shape.len();
                let mut output = Vec::with_capacity(self.shape.iter().product());
                let apart = [&strides(first.shape, rank)[..], &strides(second.shape, rank)[..]];
                walk(&self.shape, apart, |[one, other]| {
                    output.push(function(first.numbers[one], second.numbers[other]))
                });
                output
            }
            Kind::Softmax { axis, logarithm } => softmax(first, *axis, *logarithm),
            Kind::Dense { weights, alpha, beta } => {
                let mut output = vec![0.0; self.shape.iter().product()];
                weights.add_product(first.numbers, &mut output);
                self.scale(&mut output, *alpha, input(2).map(|added| (*beta, added)));
                output
            }
            Kind::MatMul { alpha, beta, transposed } => {
                let mut output = matmul(first, input(1).unwrap_or_default(), &self.shape, *transposed);
                self.scale(&mut output, *alpha, input(2).map(|added| (*beta, added)));
                output
            }
            Kind::Conv(conv) => conv.run(first, &self.shape),
            Kind::Shape => first.numbers.to_vec(),
            Kind::Transpose(order) => {
                let apart = strides(first.shape, first.shape.len());
                pick(first, &self.shape, 0, &order.iter().map(|&place| apart[place]).collect::<Vec<_>>())
            }
            Kind::Concat(axis) => {
                let lines: usize = self.shape[..*axis].iter().product();
                let parts = inputs.iter().flatten();
                let parts: Vec<(&View<'_>, usize)> =
                    parts.map(|part| (part, part.shape[*axis..].iter().product())).collect();
                let line = |line: usize| {
                    parts.iter().flat_map(move |(part, length)| &part.numbers[line * length..(line + 1) * length])
                };
                (0..lines).flat_map(line).copied().collect()
            }
            Kind::Slice(from) => {
                let apart = strides(first.shape, first.shape.len());
                let begin = from.iter().zip(&apart).map(|(from, apart)| from * apart).sum();
                pick(first, &self.shape, begin, &apart)
            }
            Kind::Recurrent(recurrent) => return recurrent.run(first, input(5), input(6)).into(),
        }]
    }

    /// Multiplies `output` by `alpha`, and adds a tensor times its factor.
    fn scale(&self, output: &mut [f32], alpha: f32, added: Option<(f32, View<'_>)>) {
        if alpha != 1.0 {
            output.iter_mut().for_each(|number| *number *= alpha);
        }
        let Some((beta, added)) = added else { return };
        let apart = strides(added.shape, self.shape.len());
        let mut numbers = output.iter_mut();
        walk(&self.shape, [&apart, &apart], |[at, _]| {
            if let Some(number) = numbers.next() {
                *number += beta * added.numbers[at];
            }
        });
    }
}
