//! A model that was read from a file.

use std::collections::BTreeMap;
use std::fmt;

use prost::Message;

use crate::error::{MOST_BYTES, ModelError, Port};
use crate::{graph, onnx, run, wire};

/// The most of a file that may be something else than weights.
const MOST_BESIDES_WEIGHTS: usize = 256 << 10;

/// A model that has been checked and is ready to run. It keeps nothing from run to run: what is to be remembered goes in
/// and comes out.
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
    /// The model in the bytes of an ONNX file.
    ///
    /// # Errors
    /// If it is none, or one that cannot be run within bounds of memory and time.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ModelError> {
        if bytes.len() > MOST_BYTES {
            return Err(ModelError::TooLarge(bytes.len()));
        }
        // Nothing at all would be read as a message without fields, of operator set 0.
        if bytes.is_empty() {
            return Err(ModelError::NotOnnx("it is empty".to_owned()));
        }
        let besides = wire::bytes_besides_weights(bytes)
            .ok_or_else(|| ModelError::NotOnnx("it ends too early or is something else".to_owned()))?;
        if besides > MOST_BESIDES_WEIGHTS {
            let text = format!("{besides} bytes of it are not weights; {MOST_BESIDES_WEIGHTS} are the most");
            return Err(ModelError::Refused(text));
        }
        let file = onnx::Model::decode(bytes).map_err(|error| ModelError::NotOnnx(error.to_string()))?;
        let (graph::Signature { inputs, outputs }, plan) = graph::check(&file)?;
        let metadata = file.metadata_props.into_iter().map(|entry| (entry.key, entry.value)).collect();
        Ok(Self { plan, inputs, outputs, metadata })
    }

    /// What goes in, in this order.
    #[must_use]
    pub fn inputs(&self) -> &[Port] {
        &self.inputs
    }

    /// What comes out, in this order.
    #[must_use]
    pub fn outputs(&self) -> &[Port] {
        &self.outputs
    }

    /// What the file says of itself under `key` (`metadata_props` of ONNX).
    #[must_use]
    pub fn metadata(&self, key: &str) -> Option<&str> {
        self.metadata.get(key).map(String::as_str)
    }

    /// What comes out for `inputs`, each in the order of its rows. The same input gives the same bytes on every machine.
    ///
    /// # Errors
    /// If there is not one slice for each input with as many numbers as it has.
    pub fn run(&self, inputs: &[&[f32]]) -> Result<Vec<Vec<f32>>, ModelError> {
        if inputs.len() != self.inputs.len() {
            return Err(ModelError::Unfit(format!("{} inputs for {}", inputs.len(), self.inputs.len())));
        }
        for (Port { name, shape }, numbers) in self.inputs.iter().zip(inputs) {
            if numbers.len() != shape.iter().product::<usize>() {
                let count = numbers.len();
                return Err(ModelError::Unfit(format!(
                    "{count} numbers for the input `{name}` of the shape {shape:?}"
                )));
            }
        }
        Ok(self.plan.run(inputs))
    }
}
