//! Decodes arbitrary bytes as packets of sound and as a WAV file. Playback must never lack a frame, and a file must
//! end.

use std::path::Path;

use lockstep_sound::{FRAME_SAMPLES, SoundDecoder, SoundSource, WavSource, has_redundancy};

use crate::decode_sequence::frames;
use crate::memory::bounded;

/// Limit on decoded packets per input; more would only cost time.
const PACKETS: usize = 64;
/// Memory for reading a file of 4 KiB: samples at six times their rate as floating point, and the resampling filter.
/// Memory of libopus is not counted.
const MEMORY: usize = 4 << 20;
/// A byte has at most one sample, at a rate of at least 8,000 per second. The filter adds its length.
const SAMPLES_OF_A_BYTE: usize = 6;

/// Decodes like a player. Each packet first recovers the lost packet before it, then decodes; failures are concealed.
fn packets(data: &[u8]) {
    let mut decoder = SoundDecoder::new().expect("memory");
    for packet in frames(data).take(PACKETS) {
        if !has_redundancy(packet) || decoder.recover(packet).is_err() {
            decoder.conceal().expect("concealment succeeds");
        }
        if decoder.decode(packet).is_err() {
            decoder.conceal().expect("concealment succeeds");
        }
    }
}

fn file(data: &[u8]) {
    let Ok(mut source) = WavSource::read(data, Path::new("any"), false) else { return };
    let most = (data.len() + 1_024) * SAMPLES_OF_A_BYTE / FRAME_SAMPLES + 1;
    let mut frames = 0;
    while source.next_frame().expect("a file that was read").is_some() {
        frames += 1;
        assert!(frames <= most, "more frames than {} bytes contain", data.len());
    }
    assert!(frames > 0, "a file without samples was accepted");
}

/// Input: packets, each after its length; the same bytes also as a file.
pub fn run(data: &[u8]) {
    bounded(MEMORY, || {
        packets(data);
        file(data);
    });
}
