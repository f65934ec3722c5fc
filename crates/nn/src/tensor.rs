//! Tensors of a file with their limits, and tensors between operators.

use crate::error::ModelError;
use crate::onnx::{self, Tensor};

const MAX_NAME_BYTES: usize = 256;
/// Largest number of elements of a tensor.
const MAX_ELEMENTS: usize = 4 << 20;
/// Largest number of integers in a tensor; integers are only shapes and positions.
pub(crate) const MAX_INTEGERS: usize = 64;

/// An input of an operator.
#[derive(Debug, Clone)]
pub(crate) struct Value {
    pub shape: Vec<usize>,
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    /// Computed by the run.
    Flowing,
    /// Weights of the file.
    Weights,
    /// Integers of the file.
    Integers(Vec<i64>),
}

impl Value {
    pub fn flowing(shape: Vec<usize>) -> Self {
        Self { shape, kind: Kind::Flowing }
    }

    pub fn weights(shape: Vec<usize>) -> Self {
        Self { shape, kind: Kind::Weights }
    }

    pub fn integers(shape: Vec<usize>, values: Vec<i64>) -> Self {
        Self { shape, kind: Kind::Integers(values) }
    }

    pub fn is_flowing(&self) -> bool {
        matches!(self.kind, Kind::Flowing)
    }

    /// Its integers, if it has integers of the file.
    pub fn as_integers(&self) -> Option<&[i64]> {
        match &self.kind {
            Kind::Integers(values) => Some(values),
            _ => None,
        }
    }

    pub fn is_real(&self) -> bool {
        !matches!(self.kind, Kind::Integers(_))
    }
}

pub(crate) fn refused(text: impl Into<String>) -> ModelError {
    ModelError::Refused(text.into())
}

pub(crate) fn checked_name(name: &str) -> Result<&str, ModelError> {
    if name.len() > MAX_NAME_BYTES {
        return Err(refused(format!("a name is longer than {MAX_NAME_BYTES} bytes")));
    }
    Ok(name)
}

/// Number of elements of a tensor of this shape.
pub(crate) fn count(shape: &[usize]) -> Result<usize, ModelError> {
    let product = shape.iter().try_fold(1usize, |product, &length| product.checked_mul(length));
    product
        .filter(|&count| count <= MAX_ELEMENTS && count > 0 && shape.len() <= 6)
        .ok_or_else(|| refused(format!("a tensor of shape {shape:?} is empty or has more than {MAX_ELEMENTS} numbers")))
}

/// Weights or integers of a tensor of the file.
pub(crate) fn constant(tensor: &Tensor) -> Result<Value, ModelError> {
    let name = checked_name(&tensor.name)?;
    let shape: Vec<usize> = (tensor.dims.iter().map(|&length| usize::try_from(length)))
        .collect::<Result<_, _>>()
        .map_err(|_| refused(format!("tensor `{name}` has a negative length")))?;
    let count = count(&shape)?;
    if tensor.segment.is_some() || !tensor.external_data.is_empty() || tensor.data_location != 0 {
        return Err(refused(format!("tensor `{name}` is not in the file")));
    }
    let (size, typed, others) = match tensor.data_type {
        onnx::FLOAT => (4, tensor.float_data.len(), tensor.int64_data.len()),
        onnx::INT64 => (8, tensor.int64_data.len(), tensor.float_data.len()),
        _ => return Err(refused(format!("tensor `{name}` has neither 32-bit floats nor 64-bit integers"))),
    };
    let raw = tensor.raw_data.len();
    if others != 0 || !((raw == 0 && typed == count) || (raw == size * count && typed == 0)) {
        return Err(refused(format!("tensor `{name}` is incomplete")));
    }
    if tensor.data_type == onnx::FLOAT {
        // A NaN weight would silently spoil each run, since comparisons with NaN are false.
        if floats(tensor).iter().any(|number| !number.is_finite()) {
            return Err(refused(format!("tensor `{name}` has a weight that is infinite or NaN")));
        }
        return Ok(Value::weights(shape));
    }
    if count > MAX_INTEGERS || shape.len() > 1 {
        return Err(refused(format!("tensor `{name}` has more than {MAX_INTEGERS} integers")));
    }
    let words = tensor.raw_data.chunks_exact(8).map(|word| word.try_into().map_or(0, i64::from_le_bytes));
    let integers = if raw == 0 { tensor.int64_data.clone() } else { words.collect() };
    Ok(Value::integers(shape, integers))
}

/// Numbers of a checked tensor.
pub(crate) fn floats(tensor: &onnx::Tensor) -> Vec<f32> {
    if tensor.raw_data.is_empty() {
        return tensor.float_data.clone();
    }
    tensor.raw_data.chunks_exact(4).map(|word| word.try_into().map_or(0.0, f32::from_le_bytes)).collect()
}
