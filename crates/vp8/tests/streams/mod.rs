//! Streams for the decoder's tests: IVF files and the shared conformance vectors, where they are available.

use lockstep_vp8::{State, decode};
use md5::{Digest, Md5};
use std::path::{Path, PathBuf};

/// Frames of an IVF file.
pub fn ivf_frames(file: &[u8]) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let mut at = usize::from(u16::from_le_bytes([file[6], file[7]]));
    while at + 12 <= file.len() {
        let length = u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize;
        let end = (at + 12 + length).min(file.len());
        frames.push(file[at + 12..end].to_vec());
        at = end;
    }
    frames
}

/// Paths of the shared conformance vectors. Prints a note and returns none if they are not available.
pub fn vectors() -> Vec<PathBuf> {
    let shared = std::env::var_os("LOCKSTEP_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    let mut paths: Vec<PathBuf> = std::fs::read_dir(shared.join("vp8-vectors"))
        .map(|entries| entries.filter_map(|entry| Some(entry.ok()?.path())).collect())
        .unwrap_or_default();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "ivf"));
    paths.sort();
    if paths.is_empty() {
        eprintln!("note: skipped: no conformance vectors in {}", shared.display());
    }
    paths
}

/// MD5 of the samples of each shown frame. `between` maps the state before each frame.
#[allow(dead_code)]
pub fn decoded(frames: &[Vec<u8>], between: impl Fn(State) -> State) -> Vec<String> {
    let mut state = State::default();
    let mut sums = Vec::new();
    for (index, frame) in frames.iter().enumerate() {
        let (next, picture) = decode(&between(state), frame).unwrap_or_else(|error| panic!("frame {index}: {error}"));
        if next.is_shown() {
            sums.push(Md5::digest(picture.to_i420()).iter().map(|byte| format!("{byte:02x}")).collect());
        }
        state = next;
    }
    sums
}
