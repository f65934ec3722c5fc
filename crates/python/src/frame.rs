//! Frames of live calls as NumPy arrays.

use std::sync::Arc;

use numpy::ndarray::{ArrayView2, ArrayViewD, Axis, ShapeBuilder};
use numpy::{PyArray1, PyArray2, PyArray3, PyArrayDyn, PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use lockstep::{Picture, PictureError, ReceivedFrame, Timestamp};
use lockstep_media::{picture_from_rgb, picture_to_rgb};
use lockstep_vp8::Plane;

type PyPlane<'py> = Bound<'py, PyArray2<u8>>;

/// A frame of the other end.
#[pyclass(module = "lockstep", frozen, weakref)]
pub struct Frame {
    picture: Picture,
    /// The name of its stream; empty for the only stream of a call.
    #[pyo3(get)]
    stream: String,
    /// Time of capture in seconds, on the other end's clock.
    #[pyo3(get)]
    captured_at: f64,
    /// Seconds from capture until the frame was taken; None before the clocks can be compared.
    #[pyo3(get)]
    age: Option<f64>,
}

impl From<ReceivedFrame> for Frame {
    fn from(ReceivedFrame { name, picture, captured_at, age, .. }: ReceivedFrame) -> Self {
        let captured_at = captured_at.saturating_since(Timestamp::ZERO).as_secs_f64();
        Self { picture, stream: name.to_string(), captured_at, age: age.map(|age| age.as_secs_f64()) }
    }
}

#[pymethods]
impl Frame {
    /// Width, luma samples.
    #[getter]
    fn width(&self) -> usize {
        self.picture.width()
    }

    /// Height, luma samples.
    #[getter]
    fn height(&self) -> usize {
        self.picture.height()
    }

    /// The planes Y, U and V: read-only views that keep the frame alive.
    #[getter]
    fn planes<'py>(this: &Bound<'py, Self>) -> PyResult<(PyPlane<'py>, PyPlane<'py>, PyPlane<'py>)> {
        let [luma, blue, red] = this.get().picture.planes();
        Ok((view(this, luma)?, view(this, blue)?, view(this, red)?))
    }

    /// A copy as packed RGB of shape (height, width, 3).
    fn to_rgb<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray3<u8>>> {
        let bytes = py.detach(|| picture_to_rgb(&self.picture));
        PyArray1::from_vec(py, bytes).reshape([self.picture.height(), self.picture.width(), 3])
    }

    fn __repr__(&self) -> String {
        let age = self.age.map_or_else(|| "None".to_owned(), |age| format!("{age:.4}"));
        let (width, height) = (self.picture.width(), self.picture.height());
        format!("Frame(width={width}, height={height}, captured_at={:.4}, age={age})", self.captured_at)
    }
}

/// A read-only array of a plane of `frame`, without a copy.
#[allow(unsafe_code)] // The API of NumPy is in C.
fn view<'py>(frame: &Bound<'py, Frame>, plane: &Plane) -> PyResult<PyPlane<'py>> {
    let (samples, stride) = plane.samples();
    let shape = (plane.height(), plane.width()).strides((stride, 1));
    let samples = ArrayView2::from_shape(shape, samples).map_err(crate::paths::invalid)?;
    // SAFETY: `frame` becomes the base of the array and stays alive. It is frozen, and its picture shares the samples,
    // which nothing changes or moves.
    let array = unsafe { PyArray2::borrow_from_array(&samples, frame.clone().into_any()) };
    array.call_method1("setflags", (false,))?;
    Ok(array)
}

const EXPECTED: &str = "expected uint8 I420 of shape (height * 3 // 2, width) with even sides, uint8 RGB of shape \
                        (height, width, 3), or a tuple of the planes Y, U and V";

/// Type and shape of an object, for errors.
fn description(object: &Bound<'_, PyAny>) -> String {
    match object.cast::<PyUntypedArray>() {
        Ok(array) => {
            let shape: Vec<String> = array.shape().iter().map(usize::to_string).collect();
            let comma = if shape.len() == 1 { "," } else { "" };
            format!("{} of shape ({}{comma})", array.dtype(), shape.join(", "))
        }
        Err(_) => match object.get_type().name() {
            Ok(name) => format!("an object of type {name}"),
            Err(_) => "an object of another type".to_owned(),
        },
    }
}

fn refused(error: PictureError) -> PyErr {
    PyValueError::new_err(format!("cannot send frame: {error}"))
}

/// Samples of a view, row by row.
fn samples(view: &ArrayViewD<'_, u8>) -> Arc<[u8]> {
    if let Some(samples) = view.as_slice() {
        return samples.into();
    }
    // Negative strides occur in pictures of OpenCV converted to RGB: `bgr[..., ::-1]`.
    let mut mirrored = view.view();
    mirrored.invert_axis(Axis(view.ndim() - 1));
    if let ([_, _, 3], Some(bgr)) = (view.shape(), mirrored.as_slice()) {
        let mut rgb = bgr.to_vec();
        rgb.as_chunks_mut::<3>().0.iter_mut().for_each(|pixel| pixel.swap(0, 2));
        return rgb.into();
    }
    let mut samples = Vec::with_capacity(view.len());
    for row in view.outer_iter() {
        match row.as_slice() {
            Some(row) => samples.extend_from_slice(row),
            None => samples.extend(row.iter().copied()),
        }
    }
    samples.into()
}

/// Converts an array, planes or a frame to a picture. The samples are copied without the interpreter's lock.
pub(crate) fn picture(given: &Bound<'_, PyAny>) -> PyResult<Picture> {
    if let Ok(frame) = given.cast::<Frame>() {
        return Ok(frame.get().picture.clone());
    }
    if given.is_instance_of::<PyTuple>() || given.is_instance_of::<PyList>() {
        return from_planes(given);
    }
    let Ok(array) = given.cast::<PyArrayDyn<u8>>() else {
        return Err(PyTypeError::new_err(format!("cannot send frame: {EXPECTED}; got {}", description(given))));
    };
    let array = array.try_readonly().map_err(crate::paths::invalid)?;
    let view = array.as_array();
    let py = given.py();
    match *view.shape() {
        [rows, width] if rows % 3 == 0 && width % 2 == 0 => {
            py.detach(|| Picture::from_shared_i420(width, rows / 3 * 2, samples(&view))).map_err(refused)
        }
        [height, width, 3] => {
            let picture = py.detach(|| match view.as_slice() {
                Some(pixels) => picture_from_rgb(width, height, pixels),
                None => picture_from_rgb(width, height, &samples(&view)),
            });
            picture.map_err(refused)
        }
        _ => Err(PyValueError::new_err(format!("cannot send frame: {EXPECTED}; got {}", description(given)))),
    }
}

/// A picture from three planes with any row strides.
fn from_planes(given: &Bound<'_, PyAny>) -> PyResult<Picture> {
    let given: Vec<Bound<'_, PyAny>> = given.extract()?;
    let [_, _, _] = &given[..] else {
        let count = given.len();
        return Err(PyValueError::new_err(format!("cannot send frame: expected the planes Y, U and V, got {count}")));
    };
    let (mut size, mut all) = (None, Vec::new());
    for (index, plane) in given.iter().enumerate() {
        let name = ["Y", "U", "V"][index];
        let expected = match size {
            None => "(height, width)".to_owned(),
            Some((height, width)) => format!("({}, {})", usize::div_ceil(height, 2), usize::div_ceil(width, 2)),
        };
        let refuse = || {
            format!("cannot send frame: plane {name}: expected uint8 of shape {expected}, got {}", description(plane))
        };
        let Ok(array) = plane.cast::<PyArrayDyn<u8>>() else {
            return Err(PyTypeError::new_err(refuse()));
        };
        let array = array.try_readonly().map_err(crate::paths::invalid)?;
        let view = array.as_array();
        let [height, width] = *view.shape() else { return Err(PyValueError::new_err(refuse())) };
        match size {
            None => size = Some((height, width)),
            Some((luma_height, luma_width)) => {
                if (height, width) != (luma_height.div_ceil(2), luma_width.div_ceil(2)) {
                    return Err(PyValueError::new_err(refuse()));
                }
            }
        }
        plane.py().detach(|| match view.as_slice() {
            Some(samples) => all.extend_from_slice(samples),
            None => all.extend(view.iter().copied()),
        });
    }
    let (height, width) = size.unwrap_or_default();
    Picture::from_i420(width, height, all).map_err(refused)
}
