//! The bindings to libvpx. All `unsafe` code of the crate is here.
//!
//! - [`Library`] looks functions up by name. It stays loaded while any object made by it lives.
//! - Structures that C reads or writes come from [`layout`](crate::layout). Before an encoder is made, the library's
//!   defaults are compared with the expected ones.
//! - Each context has one owner at a time.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_long, c_uint, c_ulong, c_void};
use std::fmt;
use std::ptr;
use std::sync::Arc;

use lockstep_vp8::{DecodeError, MAX_DIMENSION, Picture};

use crate::layout::{Configuration, Context, FrameFlags, I420, Image, Iterator, Packet};
use crate::{Effort, EncoderSettings, RateControl};

/// Names and paths of the library, newest version first.
#[cfg(target_os = "macos")]
const NAMES: [&str; 2] = ["libvpx.dylib", "/opt/homebrew/lib/libvpx.dylib"];
#[cfg(windows)]
const NAMES: [&str; 2] = ["libvpx-1.dll", "vpx.dll"];
#[cfg(not(any(target_os = "macos", windows)))]
const NAMES: [&str; 6] = ["libvpx.so.11", "libvpx.so.9", "libvpx.so.8", "libvpx.so.7", "libvpx.so.6", "libvpx.so"];

/// ABI versions to try. libvpx 1.12 has 25 for encoders and 12 for decoders.
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
    /// The library is not installed, or lacks a function.
    #[error("cannot load libvpx: {0} (on Debian install libvpx7)")]
    Missing(String),
    /// The library has an unsupported interface.
    #[error("libvpx {version} has an unsupported interface: {what}")]
    Interface {
        /// Version that the library reports.
        version: String,
        /// Part of the interface that differs.
        what: &'static str,
    },
    /// The library refused an operation.
    #[error("libvpx cannot {what}: {reason}")]
    Refused {
        /// The operation: a verb and its object.
        what: &'static str,
        /// Reason that the library reports.
        reason: String,
    },
    /// The picture's size is invalid or differs from that of the encoder.
    #[error("picture size {0}x{1} is invalid or differs from the encoder's")]
    Size(usize, usize),
    /// Lockstep's decoder cannot decode a frame of libvpx's encoder.
    #[error("cannot decode a frame of libvpx: {0}")]
    Undecodable(#[from] DecodeError),
}

type Status = c_int;

/// The functions in use, and the library that contains them.
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
    /// The last field, so that it is dropped after the function pointers.
    _library: libloading::Library,
}

/// A loaded libvpx. A clone is another handle to it.
#[derive(Clone)]
pub struct Library(Arc<Functions>);

impl fmt::Debug for Library {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Library({})", self.version())
    }
}

impl Library {
    /// Loads the system's library.
    ///
    /// # Errors
    /// If it is not installed, or lacks a required function.
    pub fn open() -> Result<Self, LibvpxError> {
        let mut why = String::new();
        for name in NAMES {
            // SAFETY: libvpx has no load-time initialisation.
            match unsafe { libloading::Library::new(name) } {
                Ok(library) => return Self::of(library),
                Err(error) => why = error.to_string(),
            }
        }
        Err(LibvpxError::Missing(why))
    }

    fn of(library: libloading::Library) -> Result<Self, LibvpxError> {
        // SAFETY: the types match the declarations of these functions in libvpx's headers.
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

    /// Version that the library reports, such as `v1.12.0`.
    #[must_use]
    pub fn version(&self) -> String {
        // SAFETY: the library returns a string that lives as long as the library.
        unsafe { CStr::from_ptr((self.0.version)()) }.to_string_lossy().into_owned()
    }

    fn check(&self, what: &'static str, status: Status) -> Result<(), LibvpxError> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: for any status the library returns a string that lives as long as the library.
        let reason = unsafe { CStr::from_ptr((self.0.error_text)(status)) }.to_string_lossy().into_owned();
        Err(LibvpxError::Refused { what, reason })
    }

    fn interface(&self, what: &'static str) -> LibvpxError {
        LibvpxError::Interface { version: self.version(), what }
    }

    /// Creates a context: calls `init` with each ABI version until the library accepts one.
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
        Err(self.interface("unknown ABI version"))
    }
}

/// A context that the library has initialised; dropping it frees it. libvpx ties no context to a thread.
struct OwnedContext {
    context: Box<Context>,
    library: Library,
}

impl Drop for OwnedContext {
    fn drop(&mut self) {
        // SAFETY: the context is initialised, and its images and packets are not used after the drop.
        unsafe { (self.library.0.destroy)(&mut *self.context) };
    }
}

/// A frame coded by libvpx.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodedFrame {
    /// Bytes of the frame.
    pub data: Vec<u8>,
    /// Whether the frame depends on no earlier state.
    pub key_frame: bool,
}

/// libvpx's VP8 encoder, on one thread.
pub struct Encoder {
    context: OwnedContext,
    configuration: Box<Configuration>,
    settings: EncoderSettings,
    /// Earliest time of the next picture, in ticks.
    next: i64,
}

impl fmt::Debug for Encoder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Encoder").field("settings", &self.settings).field("next", &self.next).finish()
    }
}

/// Target bit rate for a fixed quantizer, in kb/s: too high to limit anything, as in `vpxenc`.
const NO_LIMIT: c_uint = 100_000;
const KEY_FRAMES_NEVER: c_uint = 99_999;

/// WebRTC's settings for a call (libvpx_vp8_encoder.cc).
///
/// Here: the range of quantizers. Below: permitted undershoot and overshoot in %; buffer, initial and optimal size in
/// ms; buffer level in % below which frames are dropped.
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
    /// Creates an encoder that has coded no picture.
    ///
    /// # Errors
    /// If the size is invalid, libvpx rejects the settings, or its interface is unsupported.
    pub fn new(library: &Library, settings: &EncoderSettings) -> Result<Self, LibvpxError> {
        let sides = 1..=usize::from(MAX_DIMENSION);
        if !sides.contains(&settings.width) || !sides.contains(&settings.height) {
            return Err(LibvpxError::Size(settings.width, settings.height));
        }
        let functions = &library.0;
        let mut configuration = Box::new(Configuration::EMPTY);
        // SAFETY: `Configuration` is larger than the structure of any known version.
        let (interface, status) = unsafe {
            let interface = (functions.vp8_encoder)();
            (interface, (functions.default_configuration)(interface, &mut *configuration, 0))
        };
        library.check("report its default configuration", status)?;
        if !configuration.is_default() {
            return Err(library.interface("unexpected default configuration"));
        }
        configure(&mut configuration, settings);
        let context = library.context("create an encoder", |context, version| {
            // SAFETY: context and configuration are larger than those of any version. The library copies the
            // configuration.
            unsafe { (functions.init_encoder)(context, interface, &*configuration, 0, version) }
        })?;
        let mut encoder = Self { context, configuration, settings: *settings, next: 0 };
        let cpu_used = match settings.effort {
            Effort::RealTime(cpu_used) | Effort::Good(cpu_used) => cpu_used,
        };
        encoder.control("set cpu-used", SET_CPU_USED, cpu_used.into())?;
        if let RateControl::Constant(_) = settings.rate_control {
            encoder.control("set the static threshold", SET_STATIC_THRESHOLD, 1)?;
            // WebRTC's formula: half of the optimal buffer, in percent of one frame's share of the bit rate.
            let frames_a_second = f64::from(settings.frame_rate.0) / f64::from(settings.frame_rate.1.max(1));
            let percent = (f64::from(CALL_BUFFER.2) * 0.5 * frames_a_second / 10.0).max(300.0) as c_int;
            encoder.control("set the largest key frame", SET_MAX_INTRA_BITRATE_PERCENT, percent)?;
        }
        Ok(encoder)
    }

    fn control(&mut self, what: &'static str, id: c_int, value: c_int) -> Result<(), LibvpxError> {
        let library = self.context.library.clone();
        // SAFETY: each control in use takes one `int`.
        library.check(what, unsafe { (library.0.control)(&mut *self.context.context, id, value) })
    }

    /// Quantizer index of the last frame on VP8's scale, 0 to 127.
    ///
    /// # Errors
    /// If libvpx does not report it.
    pub fn last_quantizer(&mut self) -> Result<u8, LibvpxError> {
        let (library, mut quantizer) = (self.context.library.clone(), 0 as c_int);
        let pointer: *mut c_int = &mut quantizer;
        // SAFETY: this control takes a pointer to an `int`, which outlives the call.
        let status = unsafe { (library.0.control)(&mut *self.context.context, GET_LAST_QUANTIZER, pointer) };
        library.check("report the last quantizer", status)?;
        Ok(quantizer.clamp(0, 127) as u8)
    }

    /// Sets the target bit rate in kilobits per second, from the next picture on.
    ///
    /// # Errors
    /// If libvpx refuses the change.
    pub fn set_target(&mut self, kbps: u32) -> Result<(), LibvpxError> {
        self.configuration.target_bitrate = kbps.max(1);
        let library = self.context.library.clone();
        // SAFETY: the library made the context and filled the configuration.
        library.check("change the bit rate", unsafe {
            (library.0.configure)(&mut *self.context.context, &*self.configuration)
        })
    }

    /// Codes the next picture as a key frame if `must_be_key`. Returns `None` where libvpx drops the picture.
    ///
    /// `time` is the capture time in frame intervals. A time that is not after the last one is replaced by the next
    /// interval.
    ///
    /// # Errors
    /// If the picture has another size than the encoder, or libvpx refuses it.
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
        // SAFETY: the image describes three planes that the picture holds, with the right dimensions and strides. The
        // library only reads them and copies what it keeps.
        let status = unsafe { (library.0.encode)(context, &image, time, 1, flags, deadline) };
        library.check("encode a picture", status)?;
        self.next = time + 1;
        let (mut iterator, mut coded): (Iterator, Option<CodedFrame>) = (ptr::null(), None);
        loop {
            // SAFETY: a packet lives until the next picture is coded; it is copied before.
            let packet = unsafe { (library.0.packet)(context, &mut iterator).as_ref() };
            let Some(packet) = packet else { return Ok(coded) };
            if packet.kind == 0 && !packet.frame.data.is_null() {
                // SAFETY: the library reports the address and length of the frame's bytes.
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
    /// Creates a decoder that has decoded no frame.
    ///
    /// # Errors
    /// If the library's interface is unsupported.
    pub fn new(library: &Library) -> Result<Self, LibvpxError> {
        let functions = &library.0;
        let context = library.context("create a decoder", |context, version| {
            // SAFETY: the context is larger than that of any version. Without a configuration the library uses one
            // thread.
            unsafe { (functions.init_decoder)(context, (functions.vp8_decoder)(), ptr::null(), 0, version) }
        })?;
        Ok(Self { context })
    }

    /// Decodes the next frame without copying its picture.
    ///
    /// # Errors
    /// If libvpx refuses the frame.
    pub fn decode(&mut self, frame: &[u8]) -> Result<(), LibvpxError> {
        self.decoded(frame).map(drop)
    }

    /// Decodes the next frame. Returns its picture, or `None` if the frame has none.
    ///
    /// # Errors
    /// If libvpx refuses the frame.
    pub fn picture(&mut self, frame: &[u8]) -> Result<Option<Picture>, LibvpxError> {
        let interface = self.context.library.interface("unexpected picture format");
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
                // SAFETY: the library reports a plane of `height` rows with `stride` samples each. `width` is at most
                // `stride`.
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
        // SAFETY: the library reads `length` bytes of the frame and keeps none.
        let status = unsafe { (library.0.decode)(context, frame.as_ptr(), length, ptr::null_mut(), 0) };
        library.check("decode a frame", status)?;
        let mut iterator: Iterator = ptr::null();
        // SAFETY: the image lives until the next frame is decoded, which needs this decoder's exclusive borrow.
        Ok(unsafe { (library.0.image)(context, &mut iterator).as_ref() })
    }
}
