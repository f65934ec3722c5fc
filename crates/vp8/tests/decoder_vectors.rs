//! The decoder against the test vectors: every shown frame equals the output of the reference decoder.

#[allow(dead_code)]
mod streams;

use lockstep_vp8::State;
use streams::{decoded, ivf_frames, vectors};

fn check(between: impl Fn(State) -> State) {
    for path in vectors() {
        let frames = ivf_frames(&std::fs::read(&path).unwrap());
        let sums = std::fs::read_to_string(path.with_extension("ivf.md5")).unwrap();
        let sums: Vec<&str> = sums.lines().filter_map(|line| line.split_whitespace().next()).collect();
        let ours = decoded(&frames, &between);
        assert_eq!(ours.len(), sums.len(), "{}", path.display());
        for (index, (ours, expected)) in ours.iter().zip(sums).enumerate() {
            assert_eq!(ours, expected, "{}, shown frame {index}", path.display());
        }
    }
}

#[test]
fn vectors_decode_bit_exact() {
    check(|state| state);
}
