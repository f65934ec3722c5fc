//! What a decoder may refuse.

/// Why a frame could not be decoded. The state that it was to be decoded from is as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The frame ends within its own header.
    #[error("frame of {actual} bytes is shorter than its header of {expected}")]
    Truncated {
        /// Bytes that the header needs.
        expected: usize,
        /// Bytes that are there.
        actual: usize,
    },
    /// A key frame does not begin with 9d 01 2a.
    #[error("key frame begins with {0:02x?} instead of the start code 9d 01 2a")]
    StartCode([u8; 3]),
    /// A key frame of no size.
    #[error("key frame says its size is {width}x{height}")]
    EmptySize {
        /// Width, luma samples.
        width: u16,
        /// Height, luma samples.
        height: u16,
    },
    /// A key frame has more pixels than the caller wants to decode.
    #[error("key frame says its size is {width}x{height}, more than the limit of {limit} pixels")]
    TooManyPixels {
        /// Width, luma samples.
        width: u16,
        /// Height, luma samples.
        height: u16,
        /// The caller's limit.
        limit: usize,
    },
    /// The first partition or the table of partitions reaches beyond the frame.
    #[error("partition of {expected} bytes reaches beyond the {actual} bytes that are left")]
    Partition {
        /// Bytes that the frame says.
        expected: usize,
        /// Bytes that are there.
        actual: usize,
    },
    /// A key frame is too short for its size: fewer than one byte for 16 macroblocks.
    #[error("key frame of {bytes} bytes is too short for {macroblocks} macroblocks")]
    ImplausibleSize {
        /// Bytes of the frame.
        bytes: usize,
        /// Macroblocks of its size.
        macroblocks: usize,
    },
    /// The header says 3 where it says what is copied to the golden or altref frame, which means nothing.
    #[error("header copies an unknown reference to the golden or altref frame")]
    ReferenceCopy,
    /// An inter frame came before any key frame.
    #[error("inter frame without a key frame before it")]
    NoReference,
}
