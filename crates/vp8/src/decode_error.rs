//! Errors of the decoder.

/// Why a frame cannot be decoded. The source state stays valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The frame ends inside its header.
    #[error("frame of {actual} bytes is shorter than its header of {expected}")]
    Truncated {
        /// Length of the header in bytes.
        expected: usize,
        /// Length of the frame in bytes.
        actual: usize,
    },
    /// A key frame does not begin with 9d 01 2a.
    #[error("key frame begins with {0:02x?} instead of the start code 9d 01 2a")]
    StartCode([u8; 3]),
    /// A key frame has a width or height of zero.
    #[error("key frame has an empty size of {width}x{height}")]
    EmptySize {
        /// Width in luma samples.
        width: u16,
        /// Height in luma samples.
        height: u16,
    },
    /// A key frame has more pixels than the caller's limit.
    #[error("key frame of {width}x{height} exceeds the limit of {limit} pixels")]
    TooManyPixels {
        /// Width in luma samples.
        width: u16,
        /// Height in luma samples.
        height: u16,
        /// Largest number of pixels that the caller accepts.
        limit: usize,
    },
    /// The first partition or the table of partition sizes extends beyond the frame.
    #[error("partition of {expected} bytes does not fit into the remaining {actual} bytes")]
    Partition {
        /// Length in the header, in bytes.
        expected: usize,
        /// Remaining bytes of the frame.
        actual: usize,
    },
    /// A key frame is too short for its size: it has less than one byte per 16 macroblocks.
    #[error("key frame of {bytes} bytes is too short for {macroblocks} macroblocks")]
    ImplausibleSize {
        /// Length of the frame in bytes.
        bytes: usize,
        /// Number of macroblocks of its size.
        macroblocks: usize,
    },
    /// The header copies buffer 3 to the golden or altref frame, which RFC 6386 does not define.
    #[error("header copies an unknown reference to the golden or altref frame")]
    ReferenceCopy,
    /// The source state has no references, so an interframe cannot be decoded.
    #[error("interframe without a preceding key frame")]
    NoReference,
}
