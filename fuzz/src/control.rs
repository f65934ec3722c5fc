//! Parses arbitrary bytes as the stream of a call, in parts of any length. Messages must encode to the same bytes, and
//! buffering must be small.

use crate::memory::bounded;

/// Memory for a message of 128 bytes and one read.
const MEMORY: usize = 64 << 10;

/// Input: one byte for the length of the parts, then the stream.
pub fn run(data: &[u8]) {
    let Some((&length, stream)) = data.split_first() else { return };
    let parts = || stream.chunks(usize::from(length).max(1));
    bounded(MEMORY, || lockstep_live::fuzzing::read_messages(parts()));
    bounded(MEMORY, || lockstep_live::fuzzing::read_application_messages(parts()));
    bounded(MEMORY, || lockstep_live::fuzzing::read_room_message(data));
}
