//! The structures of the C interfaces, as the headers of libaom 3.6 and dav1d 1.0 document them.
//!
//! libaom compares the ABI version that a caller passes with its own. dav1d's file name contains its ABI version, so
//! only `libdav1d.so.6` is loaded.

use std::ffi::{c_int, c_uint, c_ulong, c_void};

/// `aom_codec_enc_cfg_t`: 904 bytes on 64-bit systems.
#[repr(C)]
#[derive(Clone)]
pub(crate) struct Configuration {
    pub usage: c_uint,
    pub threads: c_uint,
    pub profile: c_uint,
    pub width: c_uint,
    pub height: c_uint,
    pub limit: c_uint,
    pub max_width: c_uint,
    pub max_height: c_uint,
    pub bit_depth: c_uint,
    pub input_bit_depth: c_uint,
    /// Length of a tick in seconds: numerator, denominator.
    pub timebase: [c_int; 2],
    pub error_resilient: c_uint,
    pub pass: c_uint,
    pub lag_in_frames: c_uint,
    pub dropframe_threshold: c_uint,
    pub resize: [c_uint; 3],
    pub superres: [c_uint; 5],
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
    pub two_pass_rates: [c_uint; 3],
    pub forward_key_frames: c_int,
    pub key_frame_mode: c_uint,
    pub key_frame_least_distance: c_uint,
    pub key_frame_most_distance: c_uint,
    pub rest: [u64; 256],
}

impl Configuration {
    /// Whether these are libaom's documented defaults. A different layout of the structure would show here.
    pub(crate) fn is_default(&self) -> bool {
        let picture = (self.width, self.height, self.timebase, self.bit_depth) == (320, 240, [1, 30], 8);
        let rate = (self.target_bitrate, self.min_quantizer, self.max_quantizer) == (256, 0, 63);
        let buffer = (self.buffer_size, self.buffer_initial_size, self.buffer_optimal_size) == (6000, 4000, 5000);
        let key_frames =
            (self.key_frame_mode, self.key_frame_least_distance, self.key_frame_most_distance) == (1, 0, 9999);
        picture && rate && buffer && key_frames
    }
}

/// `aom_image_t`: 168 bytes on 64-bit systems.
#[repr(C)]
pub(crate) struct Image {
    pub format: c_uint,
    pub colour: [c_uint; 3],
    pub monochrome: c_int,
    pub chroma_position: c_uint,
    pub range: c_uint,
    pub stored: [c_uint; 2],
    pub bit_depth: c_uint,
    pub displayed: [c_uint; 2],
    pub rendered: [c_uint; 2],
    pub chroma_shifts: [c_uint; 2],
    pub planes: [*const u8; 3],
    pub strides: [c_int; 3],
    pub size: usize,
    pub bits_per_sample: c_int,
    pub layers: [c_int; 2],
    pub user_data: *mut c_void,
    pub data: *mut u8,
    pub owns: [c_int; 2],
    pub metadata: *mut c_void,
    pub frame_buffer: *mut c_void,
    pub rest: [u64; 16],
}

impl Image {
    /// An image of 8-bit 4:2:0 samples.
    pub(crate) fn of(size: [c_uint; 2], planes: [*const u8; 3], strides: [c_int; 3]) -> Self {
        Self {
            format: I420,
            // Unspecified colours, transfer characteristics and matrix.
            colour: [2; 3],
            monochrome: 0,
            chroma_position: 0,
            range: 0,
            stored: size,
            bit_depth: 8,
            displayed: size,
            rendered: size,
            chroma_shifts: [1, 1],
            planes,
            strides,
            size: 0,
            bits_per_sample: 12,
            layers: [0; 2],
            user_data: std::ptr::null_mut(),
            data: std::ptr::null_mut(),
            owns: [0; 2],
            metadata: std::ptr::null_mut(),
            frame_buffer: std::ptr::null_mut(),
            rest: [0; 16],
        }
    }
}

/// `AOM_IMG_FMT_I420`.
pub(crate) const I420: c_uint = 0x102;

/// `aom_codec_ctx_t`: 56 bytes on 64-bit systems.
#[repr(C)]
pub(crate) struct Context(pub [u64; 16]);

/// `aom_codec_cx_pkt_t` of kind `AOM_CODEC_CX_FRAME_PKT`.
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

/// `aom_svc_ref_frame_config_t`.
#[repr(C)]
pub(crate) struct ReferenceConfiguration {
    /// Whether a frame may be predicted from each of the seven references.
    pub used: [c_int; 7],
    /// Slot of each reference.
    pub slots: [c_int; 7],
    /// Whether a frame writes each slot.
    pub written: [c_int; 8],
}

/// `aom_codec_iter_t`.
pub(crate) type Iterator = *const c_void;
/// `aom_enc_frame_flags_t`.
pub(crate) type FrameFlags = std::ffi::c_long;

/// `Dav1dSettings` of dav1d 1.0: 96 bytes on 64-bit systems.
#[repr(C)]
pub(crate) struct DecoderSettings {
    pub threads: c_int,
    pub max_delay: c_int,
    pub apply_grain: c_int,
    pub operating_point: c_int,
    pub all_layers: c_int,
    pub max_samples: c_uint,
    pub allocator: [usize; 3],
    pub log_cookie: *mut c_void,
    /// Function that receives messages, or null.
    pub log: *const c_void,
    pub strict: c_int,
    pub invisible_frames: c_int,
    pub loop_filters: c_uint,
    pub rest: [u8; 212],
}

/// `Dav1dDataProps`.
#[repr(C)]
pub(crate) struct DataProperties {
    pub time: i64,
    pub duration: i64,
    pub offset: i64,
    pub size: usize,
    pub user_data: [usize; 2],
}

/// `Dav1dData`: 72 bytes on 64-bit systems.
#[repr(C)]
pub(crate) struct Data {
    pub data: *const u8,
    pub size: usize,
    pub reference: *mut c_void,
    pub properties: DataProperties,
}

/// `Dav1dPicture`: 264 bytes on 64-bit systems.
#[repr(C)]
pub(crate) struct DecodedPicture {
    pub headers: [*const c_void; 2],
    pub planes: [*const u8; 3],
    /// Strides of luma and chroma.
    pub strides: [isize; 2],
    pub width: c_int,
    pub height: c_int,
    /// 1 for 4:2:0.
    pub layout: c_uint,
    pub bit_depth: c_int,
    pub properties: DataProperties,
    pub rest: [u64; 32],
}

#[cfg(all(test, target_pointer_width = "64"))]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::*;

    /// Offsets that a C program printed with the headers of Debian 12.
    #[test]
    fn offsets_are_those_of_the_c_headers() {
        let configuration = [
            (offset_of!(Configuration, timebase), 40),
            (offset_of!(Configuration, pass), 52),
            (offset_of!(Configuration, end_usage), 96),
            (offset_of!(Configuration, two_pass_statistics), 104),
            (offset_of!(Configuration, min_quantizer), 140),
            (offset_of!(Configuration, forward_key_frames), 180),
            (offset_of!(Configuration, key_frame_most_distance), 192),
        ];
        let image = [
            (offset_of!(Image, stored), 28),
            (offset_of!(Image, planes), 64),
            (offset_of!(Image, strides), 88),
            (offset_of!(Image, user_data), 128),
            (offset_of!(Image, frame_buffer), 160),
            (offset_of!(Packet, frame) + offset_of!(PacketFrame, flags), 40),
            (size_of::<ReferenceConfiguration>(), 88),
        ];
        let decoder = [
            (offset_of!(DecoderSettings, allocator), 24),
            (offset_of!(DecoderSettings, log_cookie), 48),
            (offset_of!(DecoderSettings, loop_filters), 72),
            (size_of::<Data>(), 72),
            (offset_of!(DecodedPicture, strides), 40),
            (offset_of!(DecodedPicture, width), 56),
            (offset_of!(DecodedPicture, properties), 72),
        ];
        for (index, (ours, theirs)) in configuration.into_iter().chain(image).chain(decoder).enumerate() {
            assert_eq!(ours, theirs, "offset {index}");
        }
    }
}
