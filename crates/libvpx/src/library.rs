//! The library itself. Every call into C is here, and `unsafe` for that reason alone: the functions are looked up by their
//! names in a library that is kept loaded as long as anything made by it lives; what they are given are structures of
//! [`layout`](crate::layout), which are checked against the library's own defaults before an encoder is made; and each
//! context is used by one owner at a time.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_long, c_uint, c_ulong, c_void};
use std::fmt;
use std::ptr;
use std::sync::Arc;

use lockstep_vp8::{DecodeError, MAXIMUM_DIMENSION, Picture};

use crate::layout::{Configuration, Context, FrameFlags, I420, Image, Iterator, Packet};
use crate::{Effort, EncoderSettings, RateControl};

/// Where the library is looked for, newest first.
#[cfg(target_os = "macos")]
const NAMES: [&str; 2] = ["libvpx.dylib", "/opt/homebrew/lib/libvpx.dylib"];
#[cfg(windows)]
const NAMES: [&str; 2] = ["libvpx-1.dll", "vpx.dll"];
#[cfg(not(any(target_os = "macos", windows)))]
const NAMES: [&str; 6] = ["libvpx.so.11", "libvpx.so.9", "libvpx.so.8", "libvpx.so.7", "libvpx.so.6", "libvpx.so"];

/// Numbers that versions of the interface may have: that of libvpx 1.12's encoder is 25, of its decoder 12.
const INTERFACE_VERSIONS: std::ops::RangeInclusive<c_int> = 5..=80;
const ABI_MISMATCH: c_int = 3;

const SET_CPU_USED: c_int = 13;
const SET_STATIC_THRESHOLD: c_int = 17;
const GET_LAST_QUANTIZER: c_int = 19;
const SET_MAX_INTRA_BITRATE_PERCENT: c_int = 26;
const FORCE_KEY_FRAME: FrameFlags = 1;
const KEY_FRAME: u32 = 1;

/// Why libvpx cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LibvpxError {
    /// There is none.
    #[error("libvpx is not installed (Debian: libvpx7): {0}")]
    Missing(String),
    /// It is not as expected.
    #[error("this libvpx ({version}) has another interface than expected: {what}")]
    Interface {
        /// What it says of its version.
        version: String,
        /// What is other.
        what: &'static str,
    },
    /// It refuses something.
    #[error("libvpx: {what}: {reason}")]
    Refused {
        /// What it was to do.
        what: &'static str,
        /// What it says.
        reason: String,
    },
    /// A picture has another size than the encoder was made for.
    #[error("a picture of {0}x{1} for an encoder of another size")]
    Size(usize, usize),
    /// The decoder of this project does not follow it.
    #[error("a frame of libvpx's does not decode: {0}")]
    Undecodable(#[from] DecodeError),
}

type Status = c_int;

/// The functions that are used, and what they are in.
struct Functions {
    version: unsafe extern "C" fn() -> *const c_char,
    error_text: unsafe extern "C" fn(Status) -> *const c_char,
    vp8_encoder: unsafe extern "C" fn() -> *const c_void,
    vp8_decoder: unsafe extern "C" fn() -> *const c_void,
    default_configuration: unsafe extern "C" fn(*const c_void, *mut Configuration, c_uint) -> Status,
    init_encoder: unsafe extern "C" fn(*mut Context, *const c_void, *const Configuration, c_long, c_int) -> Status,
    configure: unsafe extern "C" fn(*mut Context, *const Configuration) -> Status,
    control: unsafe extern "C" fn(*mut Context, c_int, ...) -> Status,
    encode: unsafe extern "C" fn(*mut Context, *const Image, i64, c_ulong, FrameFlags, c_ulong) -> Status,
    packet: unsafe extern "C" fn(*mut Context, *mut Iterator) -> *const Packet,
    init_decoder: unsafe extern "C" fn(*mut Context, *const c_void, *const c_void, c_long, c_int) -> Status,
    decode: unsafe extern "C" fn(*mut Context, *const u8, c_uint, *mut c_void, c_long) -> Status,
    image: unsafe extern "C" fn(*mut Context, *mut Iterator) -> *const Image,
    destroy: unsafe extern "C" fn(*mut Context) -> Status,
    /// Declared last, dropped last.
    _library: libloading::Library,
}

/// A loaded libvpx. A clone is another handle of it.
#[derive(Clone)]
pub struct Library(Arc<Functions>);

impl fmt::Debug for Library {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Library({})", self.version())
    }
}

impl Library {
    /// Loads the library of this system.
    ///
    /// # Errors
    /// If there is none, or it is not as expected.
    pub fn open() -> Result<Self, LibvpxError> {
        let mut why = String::new();
        for name in NAMES {
            // SAFETY: libvpx does nothing when it is loaded.
            match unsafe { libloading::Library::new(name) } {
                Ok(library) => return Self::of(library),
                Err(error) => why = error.to_string(),
            }
        }
        Err(LibvpxError::Missing(why))
    }

    fn of(library: libloading::Library) -> Result<Self, LibvpxError> {
        // SAFETY: the types are those that the headers of libvpx declare for these names.
        let functions = unsafe {
            macro_rules! function {
                ($name:literal) => {
                    *library
                        .get(concat!($name, "\0").as_bytes())
                        .map_err(|error| LibvpxError::Missing(error.to_string()))?
                };
            }
            Functions {
                version: function!("vpx_codec_version_str"),
                error_text: function!("vpx_codec_err_to_string"),
                vp8_encoder: function!("vpx_codec_vp8_cx"),
                vp8_decoder: function!("vpx_codec_vp8_dx"),
                default_configuration: function!("vpx_codec_enc_config_default"),
                init_encoder: function!("vpx_codec_enc_init_ver"),
                configure: function!("vpx_codec_enc_config_set"),
                control: function!("vpx_codec_control_"),
                encode: function!("vpx_codec_encode"),
                packet: function!("vpx_codec_get_cx_data"),
                init_decoder: function!("vpx_codec_dec_init_ver"),
                decode: function!("vpx_codec_decode"),
                image: function!("vpx_codec_get_frame"),
                destroy: function!("vpx_codec_destroy"),
                _library: library,
            }
        };
        Ok(Self(Arc::new(functions)))
    }

    /// What the library calls its version, such as `v1.12.0`.
    #[must_use]
    pub fn version(&self) -> String {
        // SAFETY: the library gives a text that lives as long as itself.
        unsafe { CStr::from_ptr((self.0.version)()) }.to_string_lossy().into_owned()
    }

    fn check(&self, what: &'static str, status: Status) -> Result<(), LibvpxError> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: the library gives a text that lives as long as itself, whatever the status.
        let reason = unsafe { CStr::from_ptr((self.0.error_text)(status)) }.to_string_lossy().into_owned();
        Err(LibvpxError::Refused { what, reason })
    }

    fn interface(&self, what: &'static str) -> LibvpxError {
        LibvpxError::Interface { version: self.version(), what }
    }

    /// A context, made by `init` with the version of the interface that the library takes.
    fn context(
        &self,
        what: &'static str,
        init: impl Fn(*mut Context, c_int) -> Status,
    ) -> Result<OwnedContext, LibvpxError> {
        let mut context = Box::new(Context([0; 32]));
        for version in INTERFACE_VERSIONS {
            match init(&mut *context, version) {
                ABI_MISMATCH => {}
                status => {
                    self.check(what, status)?;
                    return Ok(OwnedContext { context, library: self.clone() });
                }
            }
        }
        Err(self.interface("its version is not known"))
    }
}

/// A context that the library has initialised.
struct OwnedContext {
    context: Box<Context>,
    library: Library,
}

// SAFETY: libvpx ties no context to a thread; it only must not be used by two at once, for which it would have to be shared.
unsafe impl Send for OwnedContext {}

impl Drop for OwnedContext {
    fn drop(&mut self) {
        // SAFETY: the context was initialised, and nothing made of it is used after this.
        unsafe { (self.library.0.destroy)(&mut *self.context) };
    }
}

/// A frame as libvpx coded it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodedFrame {
    /// Its bytes.
    pub data: Vec<u8>,
    /// Whether it decodes from nothing.
    pub key_frame: bool,
}

/// libvpx's VP8 encoder, on one thread.
pub struct Encoder {
    context: OwnedContext,
    configuration: Box<Configuration>,
    settings: EncoderSettings,
    /// The time of the next picture, at least.
    next: i64,
}

impl fmt::Debug for Encoder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Encoder").field("settings", &self.settings).field("next", &self.next).finish()
    }
}

/// What `vpxenc` is told for a fixed quantizer: a rate that is never reached.
const NO_LIMIT: c_uint = 100_000;
const KEY_FRAMES_NEVER: c_uint = 99_999;

/// WebRTC's settings for a call (libvpx_vp8_encoder.cc): quantizers, how far the rate may be missed (%), the buffer (ms), below
/// which share of it frames are dropped (%).
const CALL_QUANTIZERS: (c_uint, c_uint) = (2, 56);
const CALL_MISS: (c_uint, c_uint) = (100, 15);
const CALL_BUFFER: (c_uint, c_uint, c_uint) = (1_000, 500, 600);
const CALL_DROP_BELOW: c_uint = 30;
const CALL_KEY_FRAME_DISTANCE: c_uint = 3_000;

fn configure(configuration: &mut Configuration, settings: &EncoderSettings) {
    configuration.threads = 1;
    (configuration.width, configuration.height) = (settings.width as c_uint, settings.height as c_uint);
    configuration.timebase = [settings.frame_rate.1 as c_int, settings.frame_rate.0 as c_int];
    configuration.lag_in_frames = 0;
    configuration.pass = 0;
    match settings.rate_control {
        RateControl::Quantizer(quantizer) => {
            configuration.end_usage = 0; // VPX_VBR
            configuration.target_bitrate = NO_LIMIT;
            (configuration.min_quantizer, configuration.max_quantizer) = (quantizer.into(), quantizer.into());
            configuration.key_frame_most_distance = KEY_FRAMES_NEVER;
        }
        RateControl::Constant(kbps) => {
            configuration.end_usage = 1; // VPX_CBR
            configuration.target_bitrate = kbps.max(1);
            (configuration.min_quantizer, configuration.max_quantizer) = CALL_QUANTIZERS;
            (configuration.undershoot_percent, configuration.overshoot_percent) = CALL_MISS;
            (configuration.buffer_size, configuration.buffer_initial_size, configuration.buffer_optimal_size) =
                CALL_BUFFER;
            configuration.dropframe_threshold = CALL_DROP_BELOW;
            configuration.key_frame_most_distance = CALL_KEY_FRAME_DISTANCE;
        }
    }
}

impl Encoder {
    /// An encoder that has coded nothing.
    ///
    /// # Errors
    /// If the settings cannot be had, or the library is not as expected.
    pub fn new(library: &Library, settings: &EncoderSettings) -> Result<Self, LibvpxError> {
        let sides = 1..=usize::from(MAXIMUM_DIMENSION);
        if !sides.contains(&settings.width) || !sides.contains(&settings.height) {
            return Err(LibvpxError::Size(settings.width, settings.height));
        }
        let functions = &library.0;
        let mut configuration = Box::new(Configuration::EMPTY);
        // SAFETY: there is more room than any version needs.
        let (interface, status) = unsafe {
            let interface = (functions.vp8_encoder)();
            (interface, (functions.default_configuration)(interface, &mut *configuration, 0))
        };
        library.check("its defaults", status)?;
        if !configuration.is_default() {
            return Err(library.interface("its defaults are others, or elsewhere"));
        }
        configure(&mut configuration, settings);
        let context = library.context("a new encoder", |context, version| {
            // SAFETY: context and configuration are larger than any version's; the library keeps a copy of the latter.
            unsafe { (functions.init_encoder)(context, interface, &*configuration, 0, version) }
        })?;
        let mut encoder = Self { context, configuration, settings: *settings, next: 0 };
        let cpu_used = match settings.effort {
            Effort::RealTime(cpu_used) | Effort::Good(cpu_used) => cpu_used,
        };
        encoder.control("cpu-used", SET_CPU_USED, cpu_used.into())?;
        if let RateControl::Constant(_) = settings.rate_control {
            encoder.control("the static threshold", SET_STATIC_THRESHOLD, 1)?;
            // As WebRTC computes it: half of the optimal buffer, in percent of a frame's share of the rate.
            let frames_a_second = f64::from(settings.frame_rate.0) / f64::from(settings.frame_rate.1.max(1));
            let percent = (f64::from(CALL_BUFFER.2) * 0.5 * frames_a_second / 10.0).max(300.0) as c_int;
            encoder.control("the most of a key frame", SET_MAX_INTRA_BITRATE_PERCENT, percent)?;
        }
        Ok(encoder)
    }

    fn control(&mut self, what: &'static str, id: c_int, value: c_int) -> Result<(), LibvpxError> {
        let library = self.context.library.clone();
        // SAFETY: each of the controls used takes one number as wide as an `int`.
        library.check(what, unsafe { (library.0.control)(&mut *self.context.context, id, value) })
    }

    /// Quantizer of the last frame, index 0-127 of VP8's scale.
    ///
    /// # Errors
    /// If libvpx does not say it.
    pub fn last_quantizer(&mut self) -> Result<u8, LibvpxError> {
        let (library, mut quantizer) = (self.context.library.clone(), 0 as c_int);
        let pointer: *mut c_int = &mut quantizer;
        // SAFETY: this control takes the place of an `int`, which outlives the call.
        let status = unsafe { (library.0.control)(&mut *self.context.context, GET_LAST_QUANTIZER, pointer) };
        library.check("the last quantizer", status)?;
        Ok(quantizer.clamp(0, 127) as u8)
    }

    /// Aims at another bit rate from the next picture on, kilobits a second.
    ///
    /// # Errors
    /// If libvpx refuses it.
    pub fn set_target(&mut self, kbps: u32) -> Result<(), LibvpxError> {
        self.configuration.target_bitrate = kbps.max(1);
        let library = self.context.library.clone();
        // SAFETY: the context was made by the library, and the configuration is one that it has filled.
        library.check("a new rate", unsafe { (library.0.configure)(&mut *self.context.context, &*self.configuration) })
    }

    /// Codes the next picture, taken at `time` in frame intervals (or one after the last, if that is later), as a key frame
    /// if it `must_be_key`; gives nothing where libvpx drops it.
    ///
    /// # Errors
    /// If the picture has another size, or libvpx refuses it.
    pub fn encode(
        &mut self,
        picture: &Picture,
        time: u64,
        must_be_key: bool,
    ) -> Result<Option<CodedFrame>, LibvpxError> {
        let (width, height) = (picture.width(), picture.height());
        if (width, height) != (self.settings.width, self.settings.height) {
            return Err(LibvpxError::Size(width, height));
        }
        let size = [width as c_uint, height as c_uint];
        let [y, u, v] = picture.planes().each_ref().map(|plane| plane.samples());
        let image = Image {
            format: I420,
            colour_space: 0,
            colour_range: 0,
            stored: size,
            bit_depth: 8,
            displayed: size,
            rendered: size,
            chroma_shifts: [1, 1],
            planes: [y.0.as_ptr(), u.0.as_ptr(), v.0.as_ptr(), ptr::null()],
            strides: [y.1 as c_int, u.1 as c_int, v.1 as c_int, 0],
            bits_per_sample: 12,
            user_data: ptr::null_mut(),
            data: ptr::null_mut(),
            owns: [0; 2],
            frame_buffer: ptr::null_mut(),
            rest: [0; 16],
        };
        let deadline: c_ulong = match self.settings.effort {
            Effort::RealTime(_) => 1,
            Effort::Good(_) => 1_000_000,
        };
        let flags = if must_be_key { FORCE_KEY_FRAME } else { 0 };
        let time = i64::try_from(time).unwrap_or(i64::MAX - 1).max(self.next);
        let library = self.context.library.clone();
        let context = &mut *self.context.context;
        // SAFETY: the image describes three planes that the picture holds: so many rows of so many samples, `strides` apart.
        // The library reads them, copies what it keeps, and writes to none.
        let status = unsafe { (library.0.encode)(context, &image, time, 1, flags, deadline) };
        library.check("a picture", status)?;
        self.next = time + 1;
        let (mut iterator, mut coded): (Iterator, Option<CodedFrame>) = (ptr::null(), None);
        loop {
            // SAFETY: packets live until the next picture is coded, and are copied before.
            let packet = unsafe { (library.0.packet)(context, &mut iterator).as_ref() };
            let Some(packet) = packet else { return Ok(coded) };
            if packet.kind == 0 && !packet.frame.data.is_null() {
                // SAFETY: the library says where the frame's bytes are, and how many.
                let bytes = unsafe { std::slice::from_raw_parts(packet.frame.data, packet.frame.size) };
                coded = Some(CodedFrame { data: bytes.to_vec(), key_frame: packet.frame.flags & KEY_FRAME != 0 });
            }
        }
    }
}

/// libvpx's VP8 decoder, on one thread.
pub struct Decoder {
    context: OwnedContext,
}

impl fmt::Debug for Decoder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Decoder({:?})", self.context.library)
    }
}

impl Decoder {
    /// A decoder that has seen nothing.
    ///
    /// # Errors
    /// If the library is not as expected.
    pub fn new(library: &Library) -> Result<Self, LibvpxError> {
        let functions = &library.0;
        let context = library.context("a new decoder", |context, version| {
            // SAFETY: the context is larger than any version's; without a configuration the library uses one thread.
            unsafe { (functions.init_decoder)(context, (functions.vp8_decoder)(), ptr::null(), 0, version) }
        })?;
        Ok(Self { context })
    }

    /// Decodes the next frame, and has the library make its picture; none is copied.
    ///
    /// # Errors
    /// If libvpx refuses the frame.
    pub fn decode(&mut self, frame: &[u8]) -> Result<(), LibvpxError> {
        self.decoded(frame).map(drop)
    }

    /// Decodes the next frame; gives its picture, where it has one.
    ///
    /// # Errors
    /// If libvpx refuses the frame.
    pub fn picture(&mut self, frame: &[u8]) -> Result<Option<Picture>, LibvpxError> {
        let interface = self.context.library.interface("its pictures are not as expected");
        let Some(image) = self.decoded(frame)? else { return Ok(None) };
        if image.format != I420 || image.chroma_shifts != [1, 1] {
            return Err(interface);
        }
        let [width, height] = image.displayed.map(|side| side as usize);
        let mut samples = Vec::with_capacity(Picture::i420_length(width, height));
        let half = (width.div_ceil(2), height.div_ceil(2));
        for (plane, (width, height)) in [(width, height), half, half].into_iter().enumerate() {
            let Ok(stride) = usize::try_from(image.strides[plane]) else { return Err(interface) };
            if image.planes[plane].is_null() || stride < width {
                return Err(interface);
            }
            for y in 0..height {
                // SAFETY: the library says that the plane has so many rows of so many samples.
                let row = unsafe { std::slice::from_raw_parts(image.planes[plane].add(y * stride), width) };
                samples.extend_from_slice(row);
            }
        }
        Picture::from_i420(width, height, samples).map(Some).map_err(|_| interface)
    }

    fn decoded(&mut self, frame: &[u8]) -> Result<Option<&Image>, LibvpxError> {
        let library = self.context.library.clone();
        let context = &mut *self.context.context;
        let length = c_uint::try_from(frame.len()).unwrap_or(c_uint::MAX);
        // SAFETY: the library reads so many bytes of the frame, and keeps none.
        let status = unsafe { (library.0.decode)(context, frame.as_ptr(), length, ptr::null_mut(), 0) };
        library.check("a frame", status)?;
        let mut iterator: Iterator = ptr::null();
        // SAFETY: the image lives until the next frame is decoded, for which this decoder must be borrowed again.
        Ok(unsafe { (library.0.image)(context, &mut iterator).as_ref() })
    }
}
