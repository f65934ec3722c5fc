//! The bindings to dav1d.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt;
use std::ptr;
use std::sync::Arc;

use lockstep_vp8::Picture;

use crate::error::Av1Error;
use crate::layout::{Data, DataProperties, DecodedPicture, DecoderSettings};
use crate::loaded::{Loaded, copied};

const NAME: &str = "dav1d";
#[cfg(target_os = "macos")]
const FILES: [&str; 1] = ["libdav1d.6.dylib"];
#[cfg(windows)]
const FILES: [&str; 1] = ["libdav1d-6.dll"];
#[cfg(not(any(target_os = "macos", windows)))]
const FILES: [&str; 1] = ["libdav1d.so.6"];

/// `DAV1D_PIXEL_LAYOUT_I420`.
const I420: u32 = 1;

struct Functions {
    version: unsafe extern "C" fn() -> *const c_char,
    default_settings: unsafe extern "C" fn(*mut DecoderSettings),
    open: unsafe extern "C" fn(*mut *mut c_void, *const DecoderSettings) -> c_int,
    create_data: unsafe extern "C" fn(*mut Data, usize) -> *mut u8,
    free_data: unsafe extern "C" fn(*mut Data),
    send_data: unsafe extern "C" fn(*mut c_void, *mut Data) -> c_int,
    picture: unsafe extern "C" fn(*mut c_void, *mut DecodedPicture) -> c_int,
    free_picture: unsafe extern "C" fn(*mut DecodedPicture),
    close: unsafe extern "C" fn(*mut *mut c_void),
}

/// A loaded dav1d. A clone is another handle to it.
#[derive(Clone)]
pub struct DecoderLibrary(Arc<Functions>, #[expect(dead_code, reason = "keeps the functions valid")] Loaded);

impl fmt::Debug for DecoderLibrary {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "DecoderLibrary({})", self.version())
    }
}

impl DecoderLibrary {
    /// Loads the system's library.
    ///
    /// # Errors
    /// If it is not installed, or lacks a required function.
    pub fn open() -> Result<Self, Av1Error> {
        let library = Loaded::open(NAME, "libdav1d6", &FILES)?;
        // SAFETY: the types match the declarations of these functions in dav1d's headers. The result keeps the library
        // as long as its functions.
        let functions = unsafe {
            Functions {
                version: library.function("dav1d_version\0")?,
                default_settings: library.function("dav1d_default_settings\0")?,
                open: library.function("dav1d_open\0")?,
                create_data: library.function("dav1d_data_create\0")?,
                free_data: library.function("dav1d_data_unref\0")?,
                send_data: library.function("dav1d_send_data\0")?,
                picture: library.function("dav1d_get_picture\0")?,
                free_picture: library.function("dav1d_picture_unref\0")?,
                close: library.function("dav1d_close\0")?,
            }
        };
        Ok(Self(Arc::new(functions), library))
    }

    /// Version that the library reports, such as `1.0.0`.
    #[must_use]
    pub fn version(&self) -> String {
        // SAFETY: the library returns a string that lives as long as the library.
        unsafe { CStr::from_ptr((self.0.version)()) }.to_string_lossy().into_owned()
    }

    fn check(&self, what: &'static str, status: c_int) -> Result<(), Av1Error> {
        if status == 0 {
            return Ok(());
        }
        let reason = std::io::Error::from_raw_os_error(status.saturating_neg()).to_string();
        Err(Av1Error::Refused { library: NAME, what, reason })
    }

    fn interface(&self, what: &str) -> Av1Error {
        Av1Error::Interface { library: NAME, version: self.version(), what: what.to_owned() }
    }
}

/// dav1d, on one thread and without delay.
pub struct Decoder {
    context: *mut c_void,
    library: DecoderLibrary,
}

// SAFETY: dav1d ties no context to a thread, and each has one owner at a time.
unsafe impl Send for Decoder {}

impl fmt::Debug for Decoder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Decoder({:?})", self.library)
    }
}

impl Drop for Decoder {
    fn drop(&mut self) {
        // SAFETY: the context is open, and its pictures are not used after the drop.
        unsafe { (self.library.0.close)(&mut self.context) };
    }
}

/// A picture of dav1d; dropping it releases it.
struct Held<'a>(DecodedPicture, &'a Functions);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // SAFETY: the picture is empty, or dav1d filled it and its samples are not used after the drop.
        unsafe { (self.1.free_picture)(&mut self.0) };
    }
}

impl Decoder {
    /// Creates a decoder that has decoded no frame. It refuses pictures of more than `pixel_limit` luma samples before it
    /// allocates memory for them.
    ///
    /// # Errors
    /// If dav1d refuses the settings.
    pub fn new(library: &DecoderLibrary, pixel_limit: usize) -> Result<Self, Av1Error> {
        // SAFETY: the structure consists of integers and pointers, for which zeros are valid.
        let mut settings: DecoderSettings = unsafe { std::mem::zeroed() };
        let mut context = ptr::null_mut();
        // SAFETY: `DecoderSettings` is larger than the structure of version 1.0.
        unsafe { (library.0.default_settings)(&mut settings) };
        (settings.threads, settings.max_delay) = (1, 1);
        settings.max_samples = u32::try_from(pixel_limit).unwrap_or(u32::MAX);
        // Without messages: an error has its status.
        settings.log = ptr::null();
        // SAFETY: as above; the library copies the settings.
        let status = unsafe { (library.0.open)(&mut context, &settings) };
        library.check("create a decoder", status)?;
        Ok(Self { context, library: library.clone() })
    }

    /// Decodes a temporal unit with one shown frame, and returns its picture.
    ///
    /// # Errors
    /// If dav1d refuses the unit, or it has no shown frame of 8-bit 4:2:0 samples.
    pub fn decode(&mut self, unit: &[u8]) -> Result<Picture, Av1Error> {
        let functions = &*self.library.0;
        let mut data = Data {
            data: ptr::null(),
            size: 0,
            reference: ptr::null_mut(),
            properties: DataProperties { time: 0, duration: 0, offset: 0, size: 0, user_data: [0; 2] },
        };
        // SAFETY: the library allocates `unit.len()` bytes, or returns null.
        let room = unsafe { (functions.create_data)(&mut data, unit.len()) };
        if room.is_null() {
            return Err(self.library.interface("no memory for a frame"));
        }
        // SAFETY: `room` has `unit.len()` bytes. dav1d takes the data, or leaves it in `data`, which is freed then.
        let status = unsafe {
            ptr::copy_nonoverlapping(unit.as_ptr(), room, unit.len());
            let status = (functions.send_data)(self.context, &mut data);
            (functions.free_data)(&mut data);
            status
        };
        self.library.check("accept a frame", status)?;
        // SAFETY: the structure consists of integers and pointers, for which zeros are valid.
        let mut held = Held(unsafe { std::mem::zeroed() }, functions);
        // SAFETY: `DecodedPicture` is larger than the structure of version 1.0.
        let status = unsafe { (functions.picture)(self.context, &mut held.0) };
        self.library.check("decode a frame", status)?;
        self.copied(&held.0)
    }

    fn copied(&self, picture: &DecodedPicture) -> Result<Picture, Av1Error> {
        let unexpected = || self.library.interface("unexpected picture format");
        if picture.layout != I420 || picture.bit_depth != 8 {
            return Err(unexpected());
        }
        let side = |side: c_int| usize::try_from(side).map_err(|_| unexpected());
        let (width, height) = (side(picture.width)?, side(picture.height)?);
        let [luma, chroma] = picture.strides;
        // SAFETY: the library reports planes of these sizes, which live as long as its picture.
        unsafe { copied((width, height), picture.planes, [luma, chroma, chroma]) }.ok_or_else(unexpected)
    }
}
