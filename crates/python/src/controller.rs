//! Controllers written in Python, and ONNX models for them.

use lockstep_control::{Controller, ControllerSetup, Failure, FailureReason, Registration};
use lockstep_hosted::{ControllerLines, Event, line_controller};
use lockstep_nn::Model;
use numpy::PyReadonlyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// A controller written in Python. It has a name for reports, `make`, which creates a `lockstep.Controller` per sender,
/// and `lockstep.controllers.answer`, which passes events to it.
#[derive(FromPyObject)]
pub struct PyController {
    name: String,
    make: Py<PyAny>,
    answer: Py<PyAny>,
}

/// The Python object of one sender.
struct ObjectLines {
    controller: Py<PyAny>,
    answer: Py<PyAny>,
}

impl ControllerLines for ObjectLines {
    fn answer(&mut self, _event: Event, line: String) -> Result<String, FailureReason> {
        let answered = Python::attach(|py| self.answer.call1(py, (&self.controller, line))?.extract::<String>(py));
        Ok(answered?)
    }

    fn refused(&self, event: Event, problem: String) -> FailureReason {
        Box::new(PyValueError::new_err(format!("controller: {event}: {problem}")))
    }
}

impl PyController {
    /// The controller for a registry. Its exceptions go to `failure`, or else to the failure of the call's setup.
    pub fn registration(self, failure: Option<Failure>) -> Registration {
        Registration::new(self.name.clone(), "a Python object", move |setup| {
            self.make(setup, failure.clone().unwrap_or_else(|| setup.failure.clone()))
        })
    }

    /// Creates the controller of one sender. Its exceptions go to `failure`.
    pub fn make(&self, setup: &ControllerSetup, failure: Failure) -> Box<dyn Controller> {
        let lines = Python::attach(|py| {
            Ok(ObjectLines { controller: self.make.call0(py)?, answer: self.answer.clone_ref(py) })
        });
        line_controller(lines.map_err(|error: PyErr| error.into()), setup, failure)
    }
}

/// An ONNX model with the runtime of learned controllers. Outputs are equal on every machine.
#[pyclass(module = "lockstep._lockstep", frozen)]
pub struct OnnxModel(Model);

#[pymethods]
impl OnnxModel {
    /// Loads a model from the content of a file.
    #[new]
    fn new(content: &[u8]) -> PyResult<Self> {
        Model::from_bytes(content).map(Self).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Runs the model on one flat array per input.
    fn run(&self, inputs: Vec<PyReadonlyArray1<'_, f32>>) -> PyResult<Vec<Vec<f32>>> {
        let inputs =
            inputs.iter().map(|input| input.as_slice().map_err(|error| PyValueError::new_err(error.to_string())));
        let inputs: Vec<&[f32]> = inputs.collect::<PyResult<_>>()?;
        self.0.run(&inputs).map_err(|error| PyValueError::new_err(error.to_string()))
    }
}
