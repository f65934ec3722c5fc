//! Any bytes as packets of sound and as a WAV file: there is always something to play, and a file has an end.

use std::path::Path;

use lockstep_sound::{FRAME_SAMPLES, SoundDecoder, SoundSource, WavSource, has_redundancy};

use crate::decode_sequence::frames;
use crate::memory::bounded;

/// Packets that are decoded of one input; the others cost time only.
const PACKETS: usize = 64;
/// What reading a file of 4 KiB may take: its samples at six times their rate, as floating point, and the filter for that.
/// (What libopus takes is not counted.)
const MEMORY: usize = 4 << 20;
/// A byte is one sample at most, of 8,000 a second at least; the filter adds its own length.
const SAMPLES_OF_A_BYTE: usize = 6;

/// Decodes as a player does: each packet for the one before it, which was lost, and for itself, or makes up for both.
fn packets(data: &[u8]) {
    let mut decoder = SoundDecoder::new().expect("memory");
    for packet in frames(data).take(PACKETS) {
        if !has_redundancy(packet) || decoder.recover(packet).is_err() {
            decoder.conceal().expect("something to play");
        }
        if decoder.decode(packet).is_err() {
            decoder.conceal().expect("something to play");
        }
    }
}

fn file(data: &[u8]) {
    let Ok(mut source) = WavSource::read(data, Path::new("any"), false) else { return };
    let most = (data.len() + 1_024) * SAMPLES_OF_A_BYTE / FRAME_SAMPLES + 1;
    let mut frames = 0;
    while source.next_frame().expect("a file that was read").is_some() {
        frames += 1;
        assert!(frames <= most, "more sound than {} bytes have", data.len());
    }
    assert!(frames > 0, "a file without sound was taken");
}

/// The same bytes as packets, each behind its length, and as a file.
pub fn run(data: &[u8]) {
    bounded(MEMORY, || {
        packets(data);
        file(data);
    });
}
