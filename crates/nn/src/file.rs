//! A model that was read from a file.

use std::collections::BTreeMap;
use std::fmt;

use prost::Message;

use crate::error::{MAX_FILE_BYTES, ModelError, Port};
use crate::{graph, onnx, run, wire};

/// Largest number of bytes in a file that are not weights.
const MAX_OTHER_BYTES: usize = 256 << 10;

/// A model that was checked and can run. It has no state: a recurrent state is an input and an output.
pub struct Model {
    plan: run::Plan,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
    metadata: BTreeMap<String, String>,
}

impl fmt::Debug for Model {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { inputs, outputs, metadata, .. } = self;
        formatter
            .debug_struct("Model")
            .field("inputs", inputs)
            .field("outputs", outputs)
            .field("metadata", metadata)
            .finish_non_exhaustive()
    }
}

impl Model {
    /// Reads and checks the bytes of an ONNX file.
    ///
    /// # Errors
    /// [`ModelError`] if the file is invalid, or if a run would exceed the limits of memory and time.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ModelError> {
        if bytes.len() > MAX_FILE_BYTES {
            return Err(ModelError::TooLarge(bytes.len()));
        }
        // Otherwise, an empty file would decode as a message without fields.
        if bytes.is_empty() {
            return Err(ModelError::NotOnnx("the file is empty".to_owned()));
        }
        let besides = wire::bytes_without_weights(bytes)
            .ok_or_else(|| ModelError::NotOnnx("the file ends too early or has another format".to_owned()))?;
        if besides > MAX_OTHER_BYTES {
            let text = format!("{besides} bytes are not weights, at most {MAX_OTHER_BYTES} are allowed");
            return Err(ModelError::Refused(text));
        }
        let file = onnx::Model::decode(bytes).map_err(|error| ModelError::NotOnnx(error.to_string()))?;
        let (graph::Signature { inputs, outputs }, plan) = graph::check(&file)?;
        let metadata = file.metadata_props.into_iter().map(|entry| (entry.key, entry.value)).collect();
        Ok(Self { plan, inputs, outputs, metadata })
    }

    /// Inputs, in the order of [`Self::run`].
    #[must_use]
    pub fn inputs(&self) -> &[Port] {
        &self.inputs
    }

    /// Outputs, in the order of [`Self::run`].
    #[must_use]
    pub fn outputs(&self) -> &[Port] {
        &self.outputs
    }

    /// Metadata of the file under `key` (`metadata_props` of ONNX).
    #[must_use]
    pub fn metadata(&self, key: &str) -> Option<&str> {
        self.metadata.get(key).map(String::as_str)
    }

    /// Runs the model. Each slice has the numbers of an input in row-major order, and so has each output. Equal inputs
    /// give equal bytes on every machine.
    ///
    /// # Errors
    /// [`ModelError::Unfit`] unless there is one slice per input with the right number of elements.
    pub fn run(&self, inputs: &[&[f32]]) -> Result<Vec<Vec<f32>>, ModelError> {
        if inputs.len() != self.inputs.len() {
            return Err(ModelError::Unfit(format!("got {} inputs, expected {}", inputs.len(), self.inputs.len())));
        }
        for (Port { name, shape }, numbers) in self.inputs.iter().zip(inputs) {
            if numbers.len() != shape.iter().product::<usize>() {
                let count = numbers.len();
                return Err(ModelError::Unfit(format!("got {count} numbers for input `{name}` of shape {shape:?}")));
            }
        }
        Ok(self.plan.run(inputs))
    }
}
