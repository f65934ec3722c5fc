//! The system's libvpx, loaded at run time: a baseline for Lockstep's codec and a conventional codec for calls.
//!
//! [`Library::open`] loads it, so Lockstep builds and runs without libvpx and its headers. [`Encoder`] and [`Decoder`]
//! are safe wrappers; [`LibvpxEncoder`] is the encoder for calls. All unsafe calls into C are in the module `library`.
#![deny(unsafe_code)]

mod conventional;
mod layout;
mod library;

pub use conventional::LibvpxEncoder;
pub use library::{CodedFrame, Decoder, Encoder, Library, LibvpxError};

/// Time that libvpx may spend on a picture: its deadline and `cpu-used`, as `vpxenc` names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// `--rt --cpu-used=N`. For `N` >= 0 libvpx adapts its speed to the coding time, so a slower machine produces
    /// larger frames. For `N` < 0 the speed is fixed at `-N`.
    RealTime(i8),
    /// `--good --cpu-used=N`.
    Good(i8),
}

/// How libvpx chooses quantizers on its own scale from 0 to 63.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateControl {
    /// One fixed quantizer.
    Quantizer(u8),
    /// A constant bit rate in kilobits per second, configured as WebRTC does for a call.
    Constant(u32),
}

/// Settings of an [`Encoder`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncoderSettings {
    /// Picture width in luma samples.
    pub width: usize,
    /// Picture height in luma samples.
    pub height: usize,
    /// Frame rate in pictures per second: numerator and denominator.
    pub frame_rate: (u32, u32),
    /// Speed preset.
    pub effort: Effort,
    /// Fixed quantizer or constant bit rate.
    pub rate_control: RateControl,
}

/// VP8 quantizer index (0 to 127) of each quantizer of libvpx's scale (0 to 63).
///
/// RFC 6386 defines the indices. The mapping is the one that `vpxenc --min-q --max-q` writes into frame headers.
pub const QUANTIZER_INDICES: [u8; 64] = [
    0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 12, 13, 15, 17, 18, 19, 20, 21, 23, 24, 25, 26, 27, 28, 29, 30, 31, 33, 35, 37, 39,
    41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 64, 67, 70, 73, 76, 79, 82, 85, 88, 91, 94, 97, 100, 103, 106, 109,
    112, 115, 118, 121, 124, 127,
];
