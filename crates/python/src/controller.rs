//! Controllers that are Python objects, and models in ONNX files for them.

use lockstep_control::{Controller, ControllerSetup, Failure, FailureReason, Registration};
use lockstep_hosted::{ControllerLines, Event, line_controller};
use lockstep_nn::Model;
use numpy::PyReadonlyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// A controller of Python: a name for reports, `make`, which gives a `lockstep.Controller` for each sending end, and
/// `lockstep.controllers.answer`.
#[derive(FromPyObject)]
pub struct PyController {
    name: String,
    make: Py<PyAny>,
    answer: Py<PyAny>,
}

/// The object of one sending end.
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
    /// The controller for a registry. What it raises is in `failure`, or else where the setup of the call says.
    pub fn registration(self, failure: Option<Failure>) -> Registration {
        Registration::new(self.name.clone(), "a Python object", move |setup| {
            self.make(setup, failure.clone().unwrap_or_else(|| setup.failure.clone()))
        })
    }

    /// The controller of one sending end; it leaves what it raises in `failure`.
    pub fn make(&self, setup: &ControllerSetup, failure: Failure) -> Box<dyn Controller> {
        let lines = Python::attach(|py| {
            Ok(ObjectLines { controller: self.make.call0(py)?, answer: self.answer.clone_ref(py) })
        });
        line_controller(lines.map_err(|error: PyErr| error.into()), setup, failure)
    }
}

/// A model in an ONNX file, run as learned controllers run theirs: the same numbers on every machine.
#[pyclass(module = "lockstep._lockstep", frozen)]
pub struct OnnxModel(Model);

#[pymethods]
impl OnnxModel {
    /// The model in the bytes of a file.
    #[new]
    fn new(content: &[u8]) -> PyResult<Self> {
        Model::from_bytes(content).map(Self).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// The outputs for one flat array for each input.
    fn run(&self, inputs: Vec<PyReadonlyArray1<'_, f32>>) -> PyResult<Vec<Vec<f32>>> {
        let inputs =
            inputs.iter().map(|input| input.as_slice().map_err(|error| PyValueError::new_err(error.to_string())));
        let inputs: Vec<&[f32]> = inputs.collect::<PyResult<_>>()?;
        self.0.run(&inputs).map_err(|error| PyValueError::new_err(error.to_string()))
    }
}
