//! Barcodes with frame numbers in pictures.

use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;

use lockstep_media::barcode::{self, BarcodeError, BarcodeRegion};

use crate::paths::invalid;

type Rectangle = (usize, usize, usize, usize);
type Reading = (Option<u32>, Option<String>);

fn reading(read: Result<u32, BarcodeError>) -> Reading {
    match read {
        Ok(number) => (Some(number), None),
        Err(error) => (None, Some(error.to_string())),
    }
}

/// Bytes of a contiguous buffer of any shape.
fn bytes(py: Python<'_>, samples: &PyBuffer<u8>) -> PyResult<Vec<u8>> {
    samples.to_vec(py)
}

/// The rectangles (x, y, width, height) of the barcodes: top left, then bottom right. They are in luma samples, with
/// even edges. Raises ValueError for a size without barcodes.
#[pyfunction]
pub fn barcode_regions(width: usize, height: usize) -> PyResult<(Rectangle, Rectangle)> {
    let rectangle = |BarcodeRegion { x, y, width, height }| (x, y, width, height);
    let [first, second] = barcode::barcode_regions(width, height).map_err(invalid)?;
    Ok((rectangle(first), rectangle(second)))
}

/// Reads the number in the barcodes of a picture. `luma` holds the rows, `stride` bytes apart (default: `width`).
/// Returns the number or None, and the error.
#[pyfunction]
#[pyo3(signature = (luma, width, height, *, stride=None))]
pub fn read_barcode(
    py: Python<'_>,
    luma: PyBuffer<u8>,
    width: usize,
    height: usize,
    stride: Option<usize>,
) -> PyResult<Reading> {
    Ok(reading(barcode::read_barcode_luma(&bytes(py, &luma)?, stride.unwrap_or(width), width, height)))
}

/// Reads the number in the barcodes of a `width` x `height` picture. `top_left` and `bottom_right` hold the luma of the
/// two `barcode_regions`. `strides` are the distances of their rows (default: the widths). Returns the number or None,
/// and the error.
#[pyfunction]
#[pyo3(signature = (top_left, bottom_right, width, height, *, strides=None))]
pub fn read_barcode_regions(
    py: Python<'_>,
    top_left: PyBuffer<u8>,
    bottom_right: PyBuffer<u8>,
    width: usize,
    height: usize,
    strides: Option<(usize, usize)>,
) -> PyResult<Reading> {
    let [first, second] = match barcode::barcode_regions(width, height) {
        Ok(regions) => regions.map(|region| region.width),
        Err(error) => return Ok((None, Some(error.to_string()))),
    };
    let strides = strides.unwrap_or((first, second));
    let (top_left, bottom_right) = (bytes(py, &top_left)?, bytes(py, &bottom_right)?);
    let copied = [(&top_left[..], strides.0), (&bottom_right[..], strides.1)];
    Ok(reading(barcode::read_barcode_regions(copied, width, height)))
}
