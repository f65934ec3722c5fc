//! Compares the decoder with libvpx's on streams of libvpx's encoder, where `vpxenc` and `vpxdec` are installed.
//!
//! The streams cover every profile, several partitions, odd sizes, hidden altref frames, segments and noise.

mod clips;
#[allow(dead_code)]
mod streams;

use clips::{Content, picture};
use lockstep_vp8::{Picture, State, decode};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use streams::{decoded, ivf_frames};

fn installed() -> bool {
    let there = ["vpxenc", "vpxdec"]
        .iter()
        .all(|tool| Command::new(tool).arg("--help").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok());
    if !there {
        eprintln!("note: skipped: vpxenc or vpxdec is not installed");
    }
    there
}

fn write_clip(path: &Path, content: Content, (width, height): (usize, usize), count: usize) {
    let mut file = std::io::BufWriter::new(std::fs::File::create(path).unwrap());
    writeln!(file, "YUV4MPEG2 W{width} H{height} F30:1 Ip A1:1 C420jpeg").unwrap();
    for index in 0..count {
        file.write_all(b"FRAME\n").unwrap();
        file.write_all(&picture(content, width, height, index, 9).to_i420()).unwrap();
    }
}

/// Encodes a clip with libvpx's encoder and compares the output of both decoders.
fn compare(content: Content, size: (usize, usize), count: usize, options: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let [clip, stream] = ["clip.y4m", "stream.ivf"].map(|name| directory.path().join(name));
    write_clip(&clip, content, size, count);
    let encoded = Command::new("vpxenc")
        .args(["--codec=vp8", "--ivf", "--threads=1", "-q"])
        .args(options)
        .arg("-o")
        .args([&stream, &clip])
        .status();
    assert!(encoded.unwrap().success(), "{options:?}");
    let name = directory.path().join("%4.i420");
    let theirs = Command::new("vpxdec").args(["--i420", "--md5", "-o"]).args([&name, &stream]).output().unwrap();
    let theirs = String::from_utf8(theirs.stdout).unwrap();
    let theirs: Vec<&str> = theirs.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let ours = decoded(&ivf_frames(&std::fs::read(stream).unwrap()), |state: State| state);
    assert_eq!(ours.len(), theirs.len(), "{content:?} {size:?} {options:?}");
    for (index, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
        assert_eq!(ours, theirs, "shown frame {index} of {content:?} {size:?} {options:?}");
    }
}

#[test]
fn every_profile_matches_libvpx() {
    if !installed() {
        return;
    }
    for profile in ["--profile=0", "--profile=1", "--profile=2", "--profile=3"] {
        for (content, size) in [
            (Content::Pan, (176, 144)),
            (Content::Objects, (97, 61)),
            (Content::Noise, (33, 50)),
            (Content::Cuts, (64, 48)),
        ] {
            for rate in ["--target-bitrate=60", "--target-bitrate=900"] {
                compare(content, size, 12, &[profile, rate, "--rt", "--cpu-used=4"]);
            }
        }
    }
}

#[test]
fn partitions_altref_and_resilient_streams_match_libvpx() {
    if !installed() {
        return;
    }
    let variants: [&[&str]; 7] = [
        &["--token-parts=3", "--rt"],
        &["--error-resilient=1", "--rt", "--cpu-used=8"],
        &["--error-resilient=3", "--token-parts=2", "--rt"],
        &["--good", "--cpu-used=0", "--auto-alt-ref=1", "--lag-in-frames=12", "--arnr-maxframes=5", "--passes=2"],
        &["--good", "--cpu-used=1", "--static-thresh=800", "--sharpness=5", "--kf-max-dist=5"],
        &["--rt", "--cpu-used=-6", "--noise-sensitivity=3", "--screen-content-mode=1"],
        &["--good", "--cpu-used=0", "--min-q=0", "--max-q=10"],
    ];
    for options in variants {
        for (content, size) in
            [(Content::Camera, (175, 143)), (Content::Objects, (322, 182)), (Content::Zoom, (16, 16))]
        {
            compare(content, size, 25, &[options, &["--target-bitrate=150"]].concat());
        }
    }
}

/// An IVF file with these frames.
fn ivf(frames: &[Vec<u8>], (width, height): (usize, usize)) -> Vec<u8> {
    let mut file = b"DKIF\0\0\x20\0VP80".to_vec();
    file.extend([(width as u16).to_le_bytes(), (height as u16).to_le_bytes()].concat());
    file.extend([30u32, 1, frames.len() as u32, 0].map(u32::to_le_bytes).concat());
    for (index, frame) in frames.iter().enumerate() {
        file.extend((frame.len() as u32).to_le_bytes());
        file.extend((index as u64).to_le_bytes());
        file.extend(frame);
    }
    file
}

#[test]
fn damaged_streams_match_libvpx() {
    if !installed() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let [clip, stream] = ["clip.y4m", "stream.ivf"].map(|name| directory.path().join(name));
    let mut compared = 0;
    for (seed, (content, size)) in [(Content::Objects, (97, 61)), (Content::Pan, (64, 48)), (Content::Cuts, (160, 96))]
        .into_iter()
        .cycle()
        .take(60)
        .enumerate()
    {
        write_clip(&clip, content, size, 8);
        let profile = format!("--profile={}", seed / 3 % 4);
        let encoded = Command::new("vpxenc")
            .args(["--codec=vp8", "--ivf", "--rt", "--threads=1", "-q", &profile, "--target-bitrate=300", "-o"])
            .args([&stream, &clip])
            .status();
        assert!(encoded.unwrap().success());
        let mut frames = ivf_frames(&std::fs::read(&stream).unwrap());
        let mut random = seed as u64 + 1;
        let mut next = |below: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as usize % below
        };
        // Damages bytes after the header's probabilities: modes and vectors of interframes.
        for _ in 0..3 {
            let frame = 1 + next(frames.len() - 1);
            let length = frames[frame].len();
            if length > 30 {
                let at = 20 + next(length - 20);
                frames[frame][at] = next(256) as u8;
            }
        }
        let damaged = directory.path().join("damaged.ivf");
        std::fs::write(&damaged, ivf(&frames, size)).unwrap();
        let output = directory.path().join("damaged.i420");
        Command::new("vpxdec").args(["--i420", "-o"]).args([&output, &damaged]).stderr(Stdio::null()).status().unwrap();
        let theirs = std::fs::read(output).unwrap();
        let theirs: Vec<&[u8]> = theirs.chunks_exact(Picture::i420_length(size.0, size.1)).collect();
        let mut ours = Vec::new();
        let mut state = State::default();
        for frame in &frames {
            let Ok((next, picture)) = decode(&state, frame) else { break };
            ours.extend(next.is_shown().then(|| picture.to_i420()));
            state = next;
        }
        // libvpx skips truncated frames and frames that depend on them. So its pictures are a subsequence of ours.
        let mut rest = ours.iter();
        for (index, theirs) in theirs.iter().enumerate() {
            assert!(rest.any(|ours| ours == theirs), "picture {index} of damaged stream {seed}");
            compared += 1;
        }
    }
    assert!(compared > 200, "compared only {compared} pictures");
}
