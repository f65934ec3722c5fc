//! Parses arbitrary bytes as streams of a page in a browser (HTTP/3), in parts of any length; buffering must be small.

use crate::memory::bounded;

/// Memory for a frame and a capsule of 16 kB, its fields, and one read.
const MEMORY: usize = 512 << 10;

/// Input: one byte for the length of the parts, then the stream.
pub fn run(data: &[u8]) {
    let Some((&length, stream)) = data.split_first() else { return };
    bounded(MEMORY, || lockstep_live::fuzzing::read_streams(stream.chunks(usize::from(length).max(1))));
}
