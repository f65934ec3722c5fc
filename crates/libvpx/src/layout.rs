//! The structures of libvpx's C interface, as its headers document them (vpx_codec.h, vpx_encoder.h, vpx_image.h).
//!
//! Versions of libvpx differ in the fields at the end of a structure, so each structure reserves room for them.
//! [`Configuration::is_default`] checks the layout before an encoder is made.

use std::ffi::{c_int, c_long, c_uint, c_ulong, c_void};

/// `vpx_codec_enc_cfg_t`.
#[repr(C)]
#[derive(Clone)]
pub(crate) struct Configuration {
    pub usage: c_uint,
    pub threads: c_uint,
    pub profile: c_uint,
    pub width: c_uint,
    pub height: c_uint,
    pub bit_depth: c_uint,
    pub input_bit_depth: c_uint,
    /// Length of a tick in seconds: numerator, denominator.
    pub timebase: [c_int; 2],
    pub error_resilient: c_uint,
    pub pass: c_uint,
    pub lag_in_frames: c_uint,
    pub dropframe_threshold: c_uint,
    pub resize: [c_uint; 5],
    pub end_usage: c_uint,
    pub two_pass_statistics: [[usize; 2]; 2],
    pub target_bitrate: c_uint,
    pub min_quantizer: c_uint,
    pub max_quantizer: c_uint,
    pub undershoot_percent: c_uint,
    pub overshoot_percent: c_uint,
    pub buffer_size: c_uint,
    pub buffer_initial_size: c_uint,
    pub buffer_optimal_size: c_uint,
    pub two_pass_rates: [c_uint; 4],
    pub key_frame_mode: c_uint,
    pub key_frame_least_distance: c_uint,
    pub key_frame_most_distance: c_uint,
    /// Room for fields of newer versions: 1.12 has 500 bytes of them.
    pub rest: [u64; 512],
}

impl Configuration {
    pub(crate) const EMPTY: Self = Self {
        usage: 0,
        threads: 0,
        profile: 0,
        width: 0,
        height: 0,
        bit_depth: 0,
        input_bit_depth: 0,
        timebase: [0; 2],
        error_resilient: 0,
        pass: 0,
        lag_in_frames: 0,
        dropframe_threshold: 0,
        resize: [0; 5],
        end_usage: 0,
        two_pass_statistics: [[0; 2]; 2],
        target_bitrate: 0,
        min_quantizer: 0,
        max_quantizer: 0,
        undershoot_percent: 0,
        overshoot_percent: 0,
        buffer_size: 0,
        buffer_initial_size: 0,
        buffer_optimal_size: 0,
        two_pass_rates: [0; 4],
        key_frame_mode: 0,
        key_frame_least_distance: 0,
        key_frame_most_distance: 0,
        rest: [0; 512],
    };

    /// Whether these are VP8's documented defaults. A different layout of the structure would show here.
    pub(crate) fn is_default(&self) -> bool {
        let size = (self.width, self.height, self.timebase) == (320, 240, [1, 30]);
        let rate = (self.target_bitrate, self.min_quantizer, self.max_quantizer) == (256, 4, 63)
            && (self.undershoot_percent, self.overshoot_percent) == (100, 100);
        let buffer = (self.buffer_size, self.buffer_initial_size, self.buffer_optimal_size) == (6000, 4000, 5000);
        let key_frames =
            (self.key_frame_mode, self.key_frame_least_distance, self.key_frame_most_distance) == (1, 0, 128);
        size && rate && buffer && key_frames
    }
}

/// `vpx_image_t`.
#[repr(C)]
pub(crate) struct Image {
    pub format: c_uint,
    pub colour_space: c_uint,
    pub colour_range: c_uint,
    pub stored: [c_uint; 2],
    pub bit_depth: c_uint,
    pub displayed: [c_uint; 2],
    pub rendered: [c_uint; 2],
    pub chroma_shifts: [c_uint; 2],
    pub planes: [*const u8; 4],
    pub strides: [c_int; 4],
    pub bits_per_sample: c_int,
    pub user_data: *mut c_void,
    pub data: *mut u8,
    pub owns: [c_int; 2],
    pub frame_buffer: *mut c_void,
    pub rest: [u64; 16],
}

/// `VPX_IMG_FMT_I420`.
pub(crate) const I420: c_uint = 0x102;

/// `vpx_codec_ctx_t`: 56 bytes on 64-bit systems.
#[repr(C)]
pub(crate) struct Context(pub [u64; 32]);

/// `vpx_codec_cx_pkt_t` of kind `VPX_CODEC_CX_FRAME_PKT`.
#[repr(C)]
pub(crate) struct Packet {
    pub kind: c_int,
    pub frame: PacketFrame,
}

#[repr(C)]
pub(crate) struct PacketFrame {
    pub data: *const u8,
    pub size: usize,
    pub time: i64,
    pub duration: c_ulong,
    pub flags: u32,
}

/// `vpx_codec_iter_t`.
pub(crate) type Iterator = *const c_void;
/// `vpx_enc_frame_flags_t`.
pub(crate) type FrameFlags = c_long;
