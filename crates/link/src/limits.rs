//! Size of a delivery opportunity, and limits of traces.

use lockstep_units::ByteCount;

/// Bytes of a delivery opportunity: an IP packet of 1500 bytes. mahimahi's constant is 1504, since its packets include
/// the four bytes of a TUN header; sizes here do not.
pub const OPPORTUNITY: ByteCount = ByteCount::new(1_500);

/// Longest text or file that is read as a trace, bytes: 64 MiB.
pub const MAX_INPUT: usize = 64 << 20;

/// Largest number of delivery opportunities in a trace: 2^24, for 1.7 Gb/s during two minutes.
pub const MAX_OPPORTUNITIES: usize = 1 << 24;

/// Largest number of segments in a trace: 2^20, for 29 hours of segments of 100 ms.
pub const MAX_SEGMENTS: usize = 1 << 20;
