//! Any bytes as the stream of a call, in parts of any lengths: what is a message says itself again, and little waits.

use crate::memory::bounded;

/// 128 bytes of a message, and what is read at once.
const MEMORY: usize = 64 << 10;

/// The first byte is the length of the parts.
pub fn run(data: &[u8]) {
    let Some((&length, stream)) = data.split_first() else { return };
    let parts = || stream.chunks(usize::from(length).max(1));
    bounded(MEMORY, || lockstep_live::fuzzing::read_messages(parts()));
    bounded(MEMORY, || lockstep_live::fuzzing::read_application_messages(parts()));
}
