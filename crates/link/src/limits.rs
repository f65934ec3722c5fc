//! The size of a delivery opportunity, and bounds of traces.

use lockstep_units::ByteCount;

/// What one delivery opportunity carries: an IP packet of 1500 bytes. (mahimahi's own constant is 1504, because its
/// packets wear the four bytes of a TUN header; sizes here are without it.)
pub const OPPORTUNITY: ByteCount = ByteCount::new(1_500);

/// The largest text or file that is read as a trace, in bytes: 64 MiB.
pub const MAXIMUM_INPUT: usize = 64 << 20;

/// The most delivery opportunities in one trace: 2^24, which is 1.7 Gb/s for two minutes.
pub const MAXIMUM_OPPORTUNITIES: usize = 1 << 24;

/// The most segments in one trace: 2^20, which is 29 hours of segments of 100 ms.
pub const MAXIMUM_SEGMENTS: usize = 1 << 20;
