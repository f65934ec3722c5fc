//! Reads arbitrary bytes as AV1 headers: units of one stream, and units that follow each other without lengths.

use lockstep_av1::{FrameHeader, temporal_units};

use crate::decode_sequence::frames;
use crate::memory::bounded;

/// Memory for the units of an input: a reference for each byte.
const MEMORY: usize = 1 << 17;

/// Runs the target.
pub fn run(data: &[u8]) {
    bounded(MEMORY, || {
        let mut sequence = None;
        for unit in frames(data) {
            if FrameHeader::read(unit, &mut sequence).is_ok() {
                assert!(sequence.is_some(), "a frame was read without a sequence header");
            }
        }
        if let Ok(units) = temporal_units(data) {
            assert_eq!(units.concat(), data, "units are not the data");
        }
    });
}
