//! The bindings to libaom's encoder.
//!
//! - [`EncoderLibrary`] looks functions up by name. It stays loaded while any encoder made by it lives.
//! - The library compares the ABI version with its own. Before an encoder is made, its defaults are compared with the
//!   expected ones.
//! - Each context has one owner at a time.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_long, c_uint, c_ulong, c_void};
use std::fmt;
use std::ptr;
use std::sync::Arc;

use lockstep_vp8::Picture;

use crate::error::Av1Error;
use crate::header::{FrameHeader, SLOTS, Sequence};
use crate::layout::{Configuration, Context, FrameFlags, I420, Image, Iterator, Packet, ReferenceConfiguration};
use crate::loaded::{Loaded, copied};

pub(crate) const MAX_QUANTIZER: u8 = 63;
const MAX_SPEED: u8 = 10;
/// Largest side of a picture, in samples.
const MAX_SIDE: usize = 4_096;

const NAME: &str = "libaom";
#[cfg(target_os = "macos")]
const FILES: [&str; 2] = ["libaom.3.dylib", "/opt/homebrew/lib/libaom.3.dylib"];
#[cfg(windows)]
const FILES: [&str; 2] = ["libaom.dll", "aom.dll"];
#[cfg(not(any(target_os = "macos", windows)))]
const FILES: [&str; 1] = ["libaom.so.3"];

/// `AOM_ENCODER_ABI_VERSION` of libaom 3.6.
const ABI_VERSION: c_int = 29;
const ABI_MISMATCH: c_int = 3;

/// `AOM_USAGE_REALTIME`.
const REAL_TIME: c_uint = 1;
/// `AOM_CBR`: with equal limits of the quantizer, the bit rate has no effect.
const CONSTANT_BITRATE: c_uint = 1;
/// `AOM_KF_DISABLED`.
const NO_KEY_FRAMES: c_uint = 0;
const NO_LIMIT: c_uint = 100_000;
const KEY_FRAMES_NEVER: c_uint = 1 << 30;

/// `AOM_EFLAG_FORCE_KF`.
const FORCE_KEY_FRAME: FrameFlags = 1;

const SET_CPU_USED: c_int = 13;
const GET_LAST_QUANTIZER: c_int = 20;
const SET_ERROR_RESILIENT: c_int = 38;
const SET_AQ_MODE: c_int = 40;
const SET_ENABLE_ORDER_HINT: c_int = 79;
const SET_ENABLE_REFERENCE_VECTORS: c_int = 84;
const SET_ENABLE_GLOBAL_MOTION: c_int = 95;
const SET_DELTAQ_MODE: c_int = 107;
const SET_REFERENCES: c_int = 133;
const SET_EXTERNAL_RATE_CONTROL: c_int = 152;
const GET_NEW_FRAME: c_int = 233;

/// `LAST_FRAME`, `GOLDEN_FRAME` and `ALTREF2_FRAME` among the seven references.
const LAST: usize = 0;
const GOLDEN: usize = 3;
const UNUSED: usize = 5;

type Status = c_int;

struct Functions {
    version: unsafe extern "C" fn() -> *const c_char,
    error_text: unsafe extern "C" fn(Status) -> *const c_char,
    error_detail: unsafe extern "C" fn(*const Context) -> *const c_char,
    av1_encoder: unsafe extern "C" fn() -> *const c_void,
    default_configuration: unsafe extern "C" fn(*const c_void, *mut Configuration, c_uint) -> Status,
    init_encoder: unsafe extern "C" fn(*mut Context, *const c_void, *const Configuration, c_long, c_int) -> Status,
    configure: unsafe extern "C" fn(*mut Context, *const Configuration) -> Status,
    control: unsafe extern "C" fn(*mut Context, c_int, ...) -> Status,
    encode: unsafe extern "C" fn(*mut Context, *const Image, i64, c_ulong, FrameFlags) -> Status,
    packet: unsafe extern "C" fn(*mut Context, *mut Iterator) -> *const Packet,
    destroy: unsafe extern "C" fn(*mut Context) -> Status,
}

/// A loaded libaom. A clone is another handle to it.
#[derive(Clone)]
pub struct EncoderLibrary(Arc<Functions>, #[expect(dead_code, reason = "keeps the functions valid")] Loaded);

impl fmt::Debug for EncoderLibrary {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "EncoderLibrary({})", self.version())
    }
}

impl EncoderLibrary {
    /// Loads the system's library.
    ///
    /// # Errors
    /// If it is not installed, or lacks a required function.
    pub fn open() -> Result<Self, Av1Error> {
        let library = Loaded::open(NAME, "libaom3", &FILES)?;
        // SAFETY: the types match the declarations of these functions in libaom's headers. The result keeps the library
        // as long as its functions.
        let functions = unsafe {
            Functions {
                version: library.function("aom_codec_version_str\0")?,
                error_text: library.function("aom_codec_err_to_string\0")?,
                error_detail: library.function("aom_codec_error_detail\0")?,
                av1_encoder: library.function("aom_codec_av1_cx\0")?,
                default_configuration: library.function("aom_codec_enc_config_default\0")?,
                init_encoder: library.function("aom_codec_enc_init_ver\0")?,
                configure: library.function("aom_codec_enc_config_set\0")?,
                control: library.function("aom_codec_control\0")?,
                encode: library.function("aom_codec_encode\0")?,
                packet: library.function("aom_codec_get_cx_data\0")?,
                destroy: library.function("aom_codec_destroy\0")?,
            }
        };
        Ok(Self(Arc::new(functions), library))
    }

    /// Version that the library reports, such as `3.6.0`.
    #[must_use]
    pub fn version(&self) -> String {
        // SAFETY: the library returns a string that lives as long as the library.
        unsafe { CStr::from_ptr((self.0.version)()) }.to_string_lossy().into_owned()
    }

    fn interface(&self, what: &str) -> Av1Error {
        Av1Error::Interface { library: NAME, version: self.version(), what: what.to_owned() }
    }

    fn check(&self, what: &'static str, status: Status) -> Result<(), Av1Error> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: for any status the library returns a string that lives as long as the library.
        let reason = unsafe { CStr::from_ptr((self.0.error_text)(status)) }.to_string_lossy().into_owned();
        Err(Av1Error::Refused { library: NAME, what, reason })
    }
}

/// Tools of AV1 that make a frame depend on slots from which it is not predicted.
///
/// The default is none of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tools {
    /// Frames have order hints (`enable_order_hint`).
    pub order_hints: bool,
    /// Motion vectors of reference frames predict those of a frame (`enable_ref_frame_mvs`). Requires order hints.
    pub reference_vectors: bool,
    /// Frames start from default probabilities (`error_resilient_mode`).
    pub error_resilient: bool,
}

/// Settings of an [`Encoder`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncoderSettings {
    /// Picture width in luma samples.
    pub width: usize,
    /// Picture height in luma samples.
    pub height: usize,
    /// Tools that may be used.
    pub tools: Tools,
    /// Whether the caller chooses slots with [`Encoder::encode`]. Otherwise libaom chooses, as it does for a call.
    pub named_slots: bool,
}

/// Slots and quantizer of one frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Coding {
    /// Slot of the first reference, and of the probabilities.
    pub base: u8,
    /// Slot of a second reference.
    pub second: Option<u8>,
    /// Slot that the frame writes. `None` if no later frame may read it.
    pub writes: Option<u8>,
    /// Quantizer on libaom's scale, 0 to 63.
    pub quantizer: u8,
}

/// A coded frame.
#[derive(Debug, Clone)]
pub struct CodedFrame {
    /// The temporal unit, in the low-overhead format.
    pub data: Vec<u8>,
    /// The frame's header.
    pub header: FrameHeader,
}

/// A context that the library has initialised; dropping it frees it. libaom ties no context to a thread.
struct OwnedContext {
    context: Box<Context>,
    library: EncoderLibrary,
}

impl Drop for OwnedContext {
    fn drop(&mut self) {
        // SAFETY: the context is initialised, and its images and packets are not used after the drop.
        unsafe { (self.library.0.destroy)(&mut *self.context) };
    }
}

/// libaom's AV1 encoder in real time, on one thread, without look-ahead.
pub struct Encoder {
    context: OwnedContext,
    configuration: Box<Configuration>,
    settings: EncoderSettings,
    speed: Option<u8>,
    sequence: Option<Sequence>,
    /// Time of the next picture, in ticks: libaom requires increasing times.
    next: i64,
}

impl fmt::Debug for Encoder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Encoder").field("settings", &self.settings).field("next", &self.next).finish()
    }
}

fn within(what: &'static str, value: u8, most: u8) -> Result<c_int, Av1Error> {
    if value <= most { Ok(value.into()) } else { Err(Av1Error::Range { what, value, most }) }
}

impl Encoder {
    /// Creates an encoder that has coded no picture, at the highest speed.
    ///
    /// # Errors
    /// If the size is invalid, libaom refuses the settings, or its interface is unsupported.
    pub fn new(library: &EncoderLibrary, settings: &EncoderSettings) -> Result<Self, Av1Error> {
        if !(1..=MAX_SIDE).contains(&settings.width) || !(1..=MAX_SIDE).contains(&settings.height) {
            return Err(Av1Error::Size(settings.width, settings.height));
        }
        let functions = &library.0;
        // SAFETY: the structure consists of integers, for which zeros are valid.
        let mut configuration: Box<Configuration> = Box::new(unsafe { std::mem::zeroed() });
        // SAFETY: `Configuration` is larger than the structure of any known version.
        let (interface, status) = unsafe {
            let interface = (functions.av1_encoder)();
            (interface, (functions.default_configuration)(interface, &mut *configuration, REAL_TIME))
        };
        library.check("report its default configuration", status)?;
        if !configuration.is_default() {
            return Err(library.interface("unexpected default configuration"));
        }
        (configuration.width, configuration.height) = (settings.width as c_uint, settings.height as c_uint);
        (configuration.threads, configuration.pass, configuration.lag_in_frames) = (1, 0, 0);
        configuration.error_resilient = settings.tools.error_resilient.into();
        (configuration.end_usage, configuration.target_bitrate) = (CONSTANT_BITRATE, NO_LIMIT);
        configuration.dropframe_threshold = 0;
        configuration.key_frame_mode = NO_KEY_FRAMES;
        configuration.key_frame_most_distance = KEY_FRAMES_NEVER;
        let mut context = Box::new(Context([0; 16]));
        // SAFETY: context and configuration are larger than those of any version. The library copies the configuration.
        let status = unsafe { (functions.init_encoder)(&mut *context, interface, &*configuration, 0, ABI_VERSION) };
        if status == ABI_MISMATCH {
            return Err(library.interface(&format!("it refuses ABI version {ABI_VERSION}, that of libaom 3.6")));
        }
        library.check("create an encoder", status)?;
        let context = OwnedContext { context, library: library.clone() };
        let mut encoder = Self { context, configuration, settings: *settings, speed: None, sequence: None, next: 0 };
        if settings.named_slots {
            // Otherwise libaom 3.6 also writes slot 0 about every 75 frames (lab: 2026-11-av1-slots). It would also
            // search for scene changes between the candidates of one picture.
            encoder.control("leave rate control to the caller", SET_EXTERNAL_RATE_CONTROL, 1)?;
        }
        encoder.set_speed(MAX_SPEED)?;
        let tools = settings.tools;
        encoder.control("turn off adaptive quantizers", SET_AQ_MODE, 0)?;
        encoder.control("turn off quantizers of blocks", SET_DELTAQ_MODE, 0)?;
        encoder.control("turn off global motion", SET_ENABLE_GLOBAL_MOTION, 0)?;
        encoder.control("set error resilience", SET_ERROR_RESILIENT, tools.error_resilient.into())?;
        encoder.control("set order hints", SET_ENABLE_ORDER_HINT, tools.order_hints.into())?;
        let vectors = tools.order_hints && tools.reference_vectors;
        encoder.control("set motion vectors of references", SET_ENABLE_REFERENCE_VECTORS, vectors.into())?;
        Ok(encoder)
    }

    fn control(&mut self, what: &'static str, id: c_int, value: c_int) -> Result<(), Av1Error> {
        let library = self.context.library.clone();
        // SAFETY: each control in use takes one `int`.
        library.check(what, unsafe { (library.0.control)(&mut *self.context.context, id, value) })
    }

    /// Sets libaom's `cpu-used` in real time of the frames that follow: 5 to 10, higher is faster.
    ///
    /// # Errors
    /// If libaom refuses the speed.
    pub fn set_speed(&mut self, speed: u8) -> Result<(), Av1Error> {
        if self.speed != Some(speed) {
            self.control("set cpu-used", SET_CPU_USED, within("speed", speed, MAX_SPEED)?)?;
            self.speed = Some(speed);
        }
        Ok(())
    }

    fn set_quantizer(&mut self, quantizer: u8) -> Result<(), Av1Error> {
        let quantizer = within("quantizer", quantizer, MAX_QUANTIZER)? as c_uint;
        if (self.configuration.min_quantizer, self.configuration.max_quantizer) == (quantizer, quantizer) {
            return Ok(());
        }
        (self.configuration.min_quantizer, self.configuration.max_quantizer) = (quantizer, quantizer);
        let library = self.context.library.clone();
        // SAFETY: the library made the context and filled the configuration.
        let status = unsafe { (library.0.configure)(&mut *self.context.context, &*self.configuration) };
        library.check("set the quantizer", status)
    }

    fn set_references(&mut self, coding: &Coding) -> Result<(), Av1Error> {
        let base = within("slot", coding.base, SLOTS - 1)?;
        let mut references = ReferenceConfiguration { used: [0; 7], slots: [base; 7], written: [0; 8] };
        references.used[LAST] = 1;
        if let Some(second) = coding.second {
            references.slots[GOLDEN] = within("slot", second, SLOTS - 1)?;
            references.used[GOLDEN] = 1;
        }
        if let Some(slot) = coding.writes {
            // libaom writes a slot only if one of the seven references names it.
            references.slots[UNUSED] = within("slot", slot, SLOTS - 1)?;
            references.written[usize::from(slot)] = 1;
        }
        let library = self.context.library.clone();
        let pointer: *mut ReferenceConfiguration = &mut references;
        // SAFETY: this control takes a pointer to this structure, and copies it.
        let status = unsafe { (library.0.control)(&mut *self.context.context, SET_REFERENCES, pointer) };
        library.check("set the references", status)
    }

    /// Codes a picture as a key frame, which writes all slots.
    ///
    /// # Errors
    /// If the picture has another size than the encoder, or libaom refuses it.
    pub fn encode_key(&mut self, picture: &Picture, quantizer: u8) -> Result<CodedFrame, Av1Error> {
        self.set_references(&Coding { base: 0, second: None, writes: Some(0), quantizer })?;
        self.code(picture, quantizer, FORCE_KEY_FRAME)
    }

    /// Codes a picture from the slots of `coding`. The encoder's first frame is a key frame.
    ///
    /// # Errors
    /// If the picture has another size than the encoder. If a slot or the quantizer is out of range. If libaom refuses
    /// the picture.
    pub fn encode(&mut self, picture: &Picture, coding: &Coding) -> Result<CodedFrame, Av1Error> {
        self.set_references(coding)?;
        self.code(picture, coding.quantizer, 0)
    }

    /// Codes the next picture from the slots that libaom chooses.
    ///
    /// # Errors
    /// As [`Encoder::encode`].
    pub fn encode_plainly(&mut self, picture: &Picture, quantizer: u8) -> Result<CodedFrame, Av1Error> {
        self.code(picture, quantizer, 0)
    }

    fn code(&mut self, picture: &Picture, quantizer: u8, flags: FrameFlags) -> Result<CodedFrame, Av1Error> {
        let (width, height) = (picture.width(), picture.height());
        if (width, height) != (self.settings.width, self.settings.height) {
            return Err(Av1Error::Size(width, height));
        }
        self.set_quantizer(quantizer)?;
        let planes = picture.planes().each_ref().map(|plane| plane.samples());
        let image = Image::of(
            [width as c_uint, height as c_uint],
            planes.map(|(samples, _)| samples.as_ptr()),
            planes.map(|(_, stride)| stride as c_int),
        );
        let library = self.context.library.clone();
        let context = &mut *self.context.context;
        // SAFETY: the image describes three planes that the picture holds, with the right dimensions and strides. The
        // library only reads them and copies what it keeps.
        let status = unsafe { (library.0.encode)(context, &image, self.next, 1, flags) };
        if status != 0 {
            // SAFETY: the library returns null or a string that lives until the next call.
            let detail = unsafe { (library.0.error_detail)(context).as_ref().map(|text| CStr::from_ptr(text)) };
            if let Some(detail) = detail {
                let reason = detail.to_string_lossy().into_owned();
                return Err(Av1Error::Refused { library: NAME, what: "encode a picture", reason });
            }
        }
        library.check("encode a picture", status)?;
        self.next += 1;
        let (mut iterator, mut data): (Iterator, Vec<u8>) = (ptr::null(), Vec::new());
        loop {
            // SAFETY: a packet lives until the next picture is coded; it is copied before.
            let packet = unsafe { (library.0.packet)(context, &mut iterator).as_ref() };
            let Some(packet) = packet else { break };
            if packet.kind == 0 && !packet.frame.data.is_null() {
                // SAFETY: the library reports the address and length of the frame's bytes.
                data.extend_from_slice(unsafe { std::slice::from_raw_parts(packet.frame.data, packet.frame.size) });
            }
        }
        let header = FrameHeader::read(&data, &mut self.sequence)?;
        Ok(CodedFrame { data, header })
    }

    /// Quantizer of the last frame on libaom's scale, 0 to 63.
    ///
    /// # Errors
    /// If libaom does not report it.
    pub fn last_quantizer(&mut self) -> Result<u8, Av1Error> {
        let (library, mut quantizer) = (self.context.library.clone(), 0 as c_int);
        let pointer: *mut c_int = &mut quantizer;
        // SAFETY: this control takes a pointer to an `int`, which outlives the call.
        let status = unsafe { (library.0.control)(&mut *self.context.context, GET_LAST_QUANTIZER, pointer) };
        library.check("report the last quantizer", status)?;
        Ok(quantizer.clamp(0, MAX_QUANTIZER.into()) as u8)
    }

    /// Picture of the last frame, as a decoder must reconstruct it.
    ///
    /// # Errors
    /// If no frame was coded.
    pub fn reconstruction(&mut self) -> Result<Picture, Av1Error> {
        let library = self.context.library.clone();
        let mut image = Image::of([0; 2], [ptr::null(); 3], [0; 3]);
        let pointer: *mut Image = &mut image;
        // SAFETY: this control takes a pointer to an image, and fills it.
        let status = unsafe { (library.0.control)(&mut *self.context.context, GET_NEW_FRAME, pointer) };
        library.check("report its reconstruction", status)?;
        let unexpected = || library.interface("unexpected picture format");
        if image.format != I420 {
            return Err(unexpected());
        }
        let [width, height] = image.displayed.map(|side| side as usize);
        // SAFETY: the library reports planes of these sizes, which live until the next frame is coded.
        unsafe { copied((width, height), image.planes, image.strides.map(|stride| stride as isize)) }
            .ok_or_else(unexpected)
    }
}
