//! Tables that Python libraries read without copies.

use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, RecordBatchIterator, StringArray, UInt64Array,
};
use arrow_buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};
use arrow_schema::ArrowError;
use numpy::{PyArray1, PyArrayMethods};
use pyo3::exceptions::{PyKeyError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList};

use lockstep_measure::{FRAME_COLUMNS, FrameColumn, LoggedFrame, SECOND_COLUMNS, Series, SessionSecond};
use lockstep_units::Timestamp;

/// A table: columns of equal length. Libraries with Arrow's PyCapsule interface read it directly, as in
/// `polars.DataFrame(table)`. `table[name]` is a column as a NumPy array. Tables with equal columns and values are
/// equal, and tables can be pickled.
#[pyclass(module = "lockstep._lockstep", frozen, eq)]
#[derive(PartialEq)]
pub struct Table(RecordBatch);

/// A pickled column: name, values (an array or a list of strings), optional flags of present values, and whether it may
/// contain nulls.
type PickledColumn<'py> = (String, Bound<'py, PyAny>, Option<Bound<'py, PyArray1<bool>>>, bool);

/// Restores a table from pickled columns.
///
/// # Errors
/// `ValueError` if the columns are invalid or of unequal length.
#[pyfunction]
pub fn unpickled_table(columns: Vec<PickledColumn<'_>>) -> PyResult<Table> {
    let rebuilt = columns.into_iter().map(|(name, values, present, nullable)| {
        let present = present.map(|present| NullBuffer::from(present.readonly().as_array().to_vec()));
        let array = unpickled(&values, present)
            .map_err(|problem| PyValueError::new_err(format!("column {name} of a pickled table {problem}")))?;
        Ok((name, array, nullable))
    });
    let columns = rebuilt.collect::<PyResult<Vec<_>>>()?;
    RecordBatch::try_from_iter_with_nullable(
        columns.iter().map(|(name, array, nullable)| (name, array.clone(), *nullable)),
    )
    .map(Table)
    .map_err(|error| PyValueError::new_err(format!("invalid pickled table: {error}")))
}

/// Values of a pickled column.
fn unpickled(values: &Bound<'_, PyAny>, present: Option<NullBuffer>) -> Result<ArrayRef, &'static str> {
    fn buffer<T: numpy::Element + arrow_buffer::ArrowNativeType>(values: &Bound<'_, PyArray1<T>>) -> ScalarBuffer<T> {
        values.readonly().as_array().to_vec().into()
    }
    const UNEQUAL: &str = "has another number of values than of flags";
    let unequal = |_: ArrowError| UNEQUAL;
    Ok(if let Ok(values) = values.cast::<PyArray1<f64>>() {
        Arc::new(Float64Array::try_new(buffer(values), present).map_err(unequal)?)
    } else if let Ok(values) = values.cast::<PyArray1<i64>>() {
        Arc::new(Int64Array::try_new(buffer(values), present).map_err(unequal)?)
    } else if let Ok(values) = values.cast::<PyArray1<u64>>() {
        Arc::new(UInt64Array::try_new(buffer(values), present).map_err(unequal)?)
    } else if let Ok(values) = values.cast::<PyArray1<bool>>() {
        let values = BooleanBuffer::from(values.readonly().as_array().to_vec());
        if present.as_ref().is_some_and(|present| present.len() != values.len()) {
            return Err(UNEQUAL);
        }
        Arc::new(BooleanArray::new(values, present))
    } else {
        let words: Vec<String> = values.extract().map_err(|_| "has a type that tables do not support")?;
        if present.as_ref().is_some_and(|present| present.len() != words.len()) {
            return Err(UNEQUAL);
        }
        let is_there = |index| present.as_ref().is_none_or(|present| present.is_valid(index));
        let words = words.into_iter().enumerate().map(|(index, word)| is_there(index).then_some(word));
        Arc::new(words.collect::<StringArray>())
    })
}

fn failed(error: &ArrowError) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

impl Table {
    fn new<'a>(columns: impl IntoIterator<Item = (&'a str, ArrayRef, bool)>) -> PyResult<Self> {
        RecordBatch::try_from_iter_with_nullable(columns).map(Self).map_err(|error| failed(&error))
    }

    /// Per-frame log of a call that began at zero, with the columns of the files of `lockstep simulate`.
    pub fn of_frames(frames: &[LoggedFrame]) -> PyResult<Self> {
        let start = Timestamp::ZERO;
        let records = || frames.iter().map(|frame| &frame.record);
        Self::new(FRAME_COLUMNS.iter().map(|&(name, column)| {
            let (array, nullable): (ArrayRef, bool) = match column {
                FrameColumn::Integer(value) => (Arc::new(records().map(value).collect::<Int64Array>()), true),
                FrameColumn::Number(value) => {
                    (Arc::new(records().map(|record| value(record, start)).collect::<Float64Array>()), true)
                }
                FrameColumn::Flag(value) => {
                    (Arc::new(BooleanArray::from_iter(records().map(|record| Some(value(record))))), false)
                }
                FrameColumn::Text(value) => (Arc::new(StringArray::from_iter_values(records().map(value))), false),
                FrameColumn::VideoDelay => {
                    let delays = frames.iter().map(|frame| frame.video_delay.as_secs_f64());
                    (Arc::new(Float64Array::from_iter_values(delays)), false)
                }
            };
            (name, array, nullable)
        }))
    }

    /// Rows of a session log, without the numbers of session and row.
    pub fn of_session(rows: &[SessionSecond]) -> PyResult<Self> {
        Self::new(SECOND_COLUMNS.iter().map(|&(name, column)| {
            let values = rows.iter().map(column).collect::<UInt64Array>();
            (name, Arc::new(values) as ArrayRef, true)
        }))
    }

    /// Rates and delays over time.
    pub fn of_series(series: &Series) -> PyResult<Self> {
        let rates = |values: &[u64]| Arc::new(UInt64Array::from(values.to_vec())) as ArrayRef;
        let times = (0..series.capacity_bps.len()).map(|index| index as f64 * series.interval_ms as f64 / 1e3);
        Self::new([
            ("time", Arc::new(Float64Array::from_iter_values(times)) as ArrayRef, false),
            ("capacity_bps", rates(&series.capacity_bps), false),
            ("sent_bps", rates(&series.sent_bps), false),
            ("received_bps", rates(&series.received_bps), false),
            ("queueing_delay_ms", Arc::new(Float64Array::from(series.queueing_delay_ms.clone())), true),
        ])
    }
}

#[pymethods]
impl Table {
    /// Names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.0.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    fn __repr__(&self) -> String {
        format!("Table of {} rows: {}", self.0.num_rows(), self.columns().join(", "))
    }

    /// A column: numbers as float64 with NaN for nulls, flags as bool, strings as a list.
    fn __getitem__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let column = self.0.column_by_name(name).ok_or_else(|| PyKeyError::new_err(name.to_owned()))?.as_any();
        let numbers = |values: Vec<f64>| Ok(PyArray1::from_vec(py, values).into_any());
        if let Some(array) = column.downcast_ref::<Float64Array>() {
            numbers(array.iter().map(|value| value.unwrap_or(f64::NAN)).collect())
        } else if let Some(array) = column.downcast_ref::<Int64Array>() {
            numbers(array.iter().map(|value| value.map_or(f64::NAN, |value| value as f64)).collect())
        } else if let Some(array) = column.downcast_ref::<UInt64Array>() {
            numbers(array.iter().map(|value| value.map_or(f64::NAN, |value| value as f64)).collect())
        } else if let Some(array) = column.downcast_ref::<BooleanArray>() {
            let values: Vec<bool> = array.iter().map(Option::unwrap_or_default).collect();
            Ok(PyArray1::from_vec(py, values).into_any())
        } else if let Some(array) = column.downcast_ref::<StringArray>() {
            let words = PyList::new(py, array.iter().map(Option::unwrap_or_default))?;
            py.import("numpy")?.call_method1("array", (words,))
        } else {
            Err(PyRuntimeError::new_err(format!("column {name} has a type that NumPy does not support")))
        }
    }

    /// The table as a polars data frame; requires the extra `lab`.
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let imported = slf.py().import("lockstep.distribution")?.getattr("imported")?;
        let polars = imported.call1(("polars", "Table.to_polars", "lab"))?;
        polars.call_method1("DataFrame", (slf,))
    }

    /// The pickled form of the table.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (Vec<PickledColumn<'py>>,))> {
        let schema = self.0.schema();
        let columns = schema.fields().iter().zip(self.0.columns()).map(|(field, column)| {
            let array = column.as_any();
            let values = if let Some(array) = array.downcast_ref::<Float64Array>() {
                PyArray1::from_slice(py, array.values()).into_any()
            } else if let Some(array) = array.downcast_ref::<Int64Array>() {
                PyArray1::from_slice(py, array.values()).into_any()
            } else if let Some(array) = array.downcast_ref::<UInt64Array>() {
                PyArray1::from_slice(py, array.values()).into_any()
            } else if let Some(array) = array.downcast_ref::<BooleanArray>() {
                PyArray1::from_iter(py, array.values().iter()).into_any()
            } else if let Some(array) = array.downcast_ref::<StringArray>() {
                PyList::new(py, array.iter().map(Option::unwrap_or_default))?.into_any()
            } else {
                let message = format!("column {} has a type that cannot be pickled", field.name());
                return Err(PyRuntimeError::new_err(message));
            };
            let present = column.nulls().map(|present| PyArray1::from_iter(py, present.iter()));
            Ok((field.name().clone(), values, present, field.is_nullable()))
        });
        let columns = columns.collect::<PyResult<_>>()?;
        Ok((py.import("lockstep._lockstep")?.getattr("unpickled_table")?, (columns,)))
    }

    /// Exports the table by Arrow's PyCapsule interface.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface allows a producer to return another schema than the requested one.
        let _ = requested_schema;
        let schema = self.0.schema();
        let stream = FFI_ArrowArrayStream::new(Box::new(RecordBatchIterator::new([Ok(self.0.clone())], schema)));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}
