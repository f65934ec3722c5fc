//! Compares the decoder with libvpx's on random streams, where `vpxdec` is installed.

#[allow(dead_code)]
mod streams;

use rand::{RngCore, SeedableRng};
use rand_pcg::Pcg32;
use std::process::Command;
use streams::decoded;

/// An IVF file with `frames`.
fn ivf_file(width: u16, height: u16, frames: &[Vec<u8>]) -> Vec<u8> {
    let mut file = b"DKIF\0\0\x20\0VP80".to_vec();
    file.extend(width.to_le_bytes());
    file.extend(height.to_le_bytes());
    file.extend(30u32.to_le_bytes());
    file.extend(1u32.to_le_bytes());
    file.extend((frames.len() as u64).to_le_bytes());
    for (index, frame) in frames.iter().enumerate() {
        file.extend((frame.len() as u32).to_le_bytes());
        file.extend((index as u64).to_le_bytes());
        file.extend(frame);
    }
    file
}

/// The MD5 of every frame that `vpxdec` shows.
fn decoded_by_libvpx(frames: &[Vec<u8>]) -> Vec<String> {
    let directory = tempfile::tempdir().unwrap();
    let input = directory.path().join("in.ivf");
    std::fs::write(&input, ivf_file(16, 16, frames)).unwrap();
    let done = Command::new("vpxdec")
        .args(["--i420", "--md5", "--keep-going", "-o"])
        .arg(directory.path().join("%6.i420"))
        .arg(&input)
        .output()
        .unwrap();
    String::from_utf8_lossy(&done.stdout)
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .collect()
}

/// Streams of random bytes after the frame tag. They contain every mode, vectors far outside the frame, changing
/// segments, deltas, and coefficients of any size.
#[test]
fn random_streams_match_libvpx() {
    if Command::new("vpxdec").arg("--help").output().is_err() {
        eprintln!("note: skipped: vpxdec is not installed");
        return;
    }
    let mut random = Pcg32::seed_from_u64(7);
    let mut checked = 0;
    for case in 0..80u32 {
        let (width, height) = (1 + random.next_u32() % 70, 1 + random.next_u32() % 70);
        let mut frames = Vec::new();
        for number in 0..6 {
            let key = number == 0 || random.next_u32() % 5 == 0;
            // The reference decoder reads past the first partition into the next. So the first partition is longer than
            // needed.
            let first = 30_000u32;
            let version = if case % 3 == 0 { case / 3 % 4 } else { 0 };
            let tag = u32::from(!key) | version << 1 | 1 << 4 | first << 5;
            let mut frame = tag.to_le_bytes()[..3].to_vec();
            if key {
                frame.extend([0x9d, 0x01, 0x2a]);
                frame.extend((width as u16).to_le_bytes());
                frame.extend((height as u16).to_le_bytes());
            }
            let start = frame.len();
            let length = first as usize + 70_000;
            frame.extend((0..length).map(|_| random.next_u32() as u8));
            // Bytes with few ones make the header set rare fields and keep probabilities.
            let mask = [0xff, 0x7f, 0x11, 0xf0][random.next_u32() as usize % 4];
            for byte in &mut frame[start..start + 400] {
                *byte &= mask;
            }
            // Sizes of up to seven partitions: 8,000 bytes each.
            for size in frame[start + first as usize..].chunks_exact_mut(3).take(7) {
                size.copy_from_slice(&[0x40, 0x1f, 0]);
            }
            frames.push(frame);
            // Frames that libvpx refuses are skipped, for example those with an invalid buffer copy.
            if decoded_by_libvpx(&frames).len() < frames.len() {
                frames.pop();
            }
        }
        let (ours, theirs) = (decoded(&frames, |state| state), decoded_by_libvpx(&frames));
        assert_eq!(ours, theirs, "case {case}, {width}x{height}");
        checked += frames.len();
    }
    assert!(checked > 300, "only {checked} frames");
}
