//! Shared libraries that are loaded at run time, and the pictures in their memory.
#![allow(unsafe_code)]

#[cfg(any(unix, windows))]
use std::sync::Arc;

use lockstep_vp8::Picture;

use crate::error::Av1Error;

#[cfg(any(unix, windows))]
type Library = Arc<libloading::Library>;

/// Browsers have no shared libraries, so that no value of this type exists there.
#[cfg(not(any(unix, windows)))]
#[derive(Clone)]
enum Library {}

/// A loaded shared library. A clone is another handle to it.
#[derive(Clone)]
#[cfg_attr(not(any(unix, windows)), expect(dead_code, reason = "no value exists"))]
pub(crate) struct Loaded {
    library: Library,
    name: &'static str,
    package: &'static str,
}

impl Loaded {
    /// Loads the first of `files` that is there. Errors name the library and the `package` that has it.
    #[cfg(any(unix, windows))]
    pub(crate) fn open(name: &'static str, package: &'static str, files: &[&str]) -> Result<Self, Av1Error> {
        let mut why = String::new();
        for file in files {
            // SAFETY: libaom has no load-time initialisation, and that of dav1d only detects the processor.
            match unsafe { libloading::Library::new(file) } {
                Ok(library) => return Ok(Self { library: Arc::new(library), name, package }),
                Err(error) => why = error.to_string(),
            }
        }
        Err(Av1Error::Missing { library: name, reason: why, package })
    }

    /// The function `symbol`, a name that ends in a zero byte.
    ///
    /// # Safety
    /// `F` is the type of that function. The result is not used after the library was dropped.
    #[cfg(any(unix, windows))]
    pub(crate) unsafe fn function<F: Copy>(&self, symbol: &str) -> Result<F, Av1Error> {
        // SAFETY: the caller has chosen the type.
        let found = unsafe { self.library.get::<F>(symbol.as_bytes()) };
        found.map(|function| *function).map_err(|error| Av1Error::Missing {
            library: self.name,
            reason: error.to_string(),
            package: self.package,
        })
    }

    #[cfg(not(any(unix, windows)))]
    pub(crate) fn open(name: &'static str, package: &'static str, _files: &[&str]) -> Result<Self, Av1Error> {
        Err(Av1Error::Missing { library: name, reason: "this platform has no shared libraries".to_owned(), package })
    }

    #[cfg(not(any(unix, windows)))]
    pub(crate) unsafe fn function<F: Copy>(&self, _symbol: &str) -> Result<F, Av1Error> {
        match self.library {}
    }
}

/// Copies a picture of 8-bit 4:2:0 samples. `strides` are the distances of the rows of each plane. None if a plane is
/// missing or its rows overlap.
///
/// # Safety
/// Each plane that is not null has as many rows as a picture of this size, at these distances.
pub(crate) unsafe fn copied(
    (width, height): (usize, usize),
    planes: [*const u8; 3],
    strides: [isize; 3],
) -> Option<Picture> {
    let half = (width.div_ceil(2), height.div_ceil(2));
    let mut samples = Vec::with_capacity(Picture::i420_length(width, height));
    for ((plane, stride), (columns, rows)) in planes.into_iter().zip(strides).zip([(width, height), half, half]) {
        if plane.is_null() || stride.unsigned_abs() < columns {
            return None;
        }
        for row in 0..rows {
            // SAFETY: the caller reports the rows; `columns` is at most their distance.
            let row = unsafe { std::slice::from_raw_parts(plane.offset(row as isize * stride), columns) };
            samples.extend_from_slice(row);
        }
    }
    Picture::from_i420(width, height, samples).ok()
}
