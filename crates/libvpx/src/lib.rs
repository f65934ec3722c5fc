//! The system's libvpx, where there is one: what Lockstep's codec is measured beside, and a conventional codec for calls.
//!
//! The library is loaded when it is asked for ([`Library::open`]), so that Lockstep builds and runs without it and its
//! headers. Calling into a library in C is unsafe: all of that is in the module `library`, which gives encoders and
//! decoders that are safe to use.
#![deny(unsafe_code)]

mod conventional;
mod layout;
mod library;

pub use conventional::LibvpxEncoder;
pub use library::{CodedFrame, Decoder, Encoder, Library, LibvpxError};

/// How much time libvpx takes for a picture: its deadline, and its `cpu-used`, as `vpxenc` has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// `--rt --cpu-used=N`. With `N` from 0 on libvpx chooses its speed by the time that it takes, so that a slower machine
    /// gives larger frames; below 0 the speed is `-N`.
    RealTime(i8),
    /// `--good --cpu-used=N`.
    Good(i8),
}

/// How libvpx chooses quantizers, of its own scale from 0 to 63.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateControl {
    /// Always this one.
    Quantizer(u8),
    /// A constant bit rate, kilobits a second, as WebRTC sets it up for a call.
    Constant(u32),
}

/// What an encoder is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncoderSettings {
    /// Luma samples in a row.
    pub width: usize,
    /// Rows of luma samples.
    pub height: usize,
    /// Pictures in so many seconds: numerator and denominator of the frame rate.
    pub frame_rate: (u32, u32),
    /// Speed.
    pub effort: Effort,
    /// Quantizers.
    pub rate_control: RateControl,
}

/// The index of VP8's scale from 0 to 127 that each quantizer of libvpx's scale stands for (RFC 6386 has the first scale; the
/// second is documented by what `vpxenc --min-q --max-q` writes into frame headers).
pub const QUANTIZER_INDICES: [u8; 64] = [
    0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 12, 13, 15, 17, 18, 19, 20, 21, 23, 24, 25, 26, 27, 28, 29, 30, 31, 33, 35, 37, 39,
    41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 64, 67, 70, 73, 76, 79, 82, 85, 88, 91, 94, 97, 100, 103, 106, 109,
    112, 115, 118, 121, 124, 127,
];
