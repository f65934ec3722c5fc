//! Fuzz targets, one module each. A target's `run` takes arbitrary bytes and panics if it finds a fault.
//!
//! `fuzz/run` drives the targets with libFuzzer; `cargo test` runs all seeds through them.
#![forbid(unsafe_code)]

pub mod av1_headers;
pub mod control;
pub mod decode;
pub mod decode_sequence;
pub mod encode_round_trip;
pub mod media;
pub mod memory;
pub mod model;
pub mod pictures;
pub mod recording;
pub mod rendezvous;
pub mod seeds;
pub mod sound;
pub mod state_restore;
pub mod ticket;
pub mod trace;
pub mod transport_ends;
pub mod web;
pub mod wire;

/// A target: its name and its function.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 16] = [
    ("decode", decode::run),
    ("decode_sequence", decode_sequence::run),
    ("encode_round_trip", encode_round_trip::run),
    ("state_restore", state_restore::run),
    ("wire", wire::run),
    ("transport_ends", transport_ends::run),
    ("trace", trace::run),
    ("media", media::run),
    ("sound", sound::run),
    ("model", model::run),
    ("ticket", ticket::run),
    ("control", control::run),
    ("web", web::run),
    ("rendezvous", rendezvous::run),
    ("recording", recording::run),
    ("av1_headers", av1_headers::run),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> std::path::PathBuf {
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds")
    }

    #[test]
    fn rendezvous_seeds_are_valid_messages() {
        let seeds: Vec<_> = seeds::all().into_iter().filter(|(target, ..)| *target == "rendezvous").collect();
        assert_eq!(seeds.len(), lockstep_live::fuzzing::messages().len());
        for (target, name, bytes) in seeds {
            assert!(lockstep_live::fuzzing::read_message(&bytes[1..]), "{name} is not a valid message");
            let written = std::fs::read(root().join(target).join(&name)).expect("the example `seeds` writes it");
            assert_eq!(written, bytes, "{name}");
        }
    }

    #[test]
    fn av1_seed_has_two_frames() {
        let seeds = seeds::all();
        let (_, _, bytes) = seeds.iter().find(|(target, ..)| *target == "av1_headers").expect("a seed");
        let mut sequence = None;
        let mut read = |unit| lockstep_av1::FrameHeader::read(unit, &mut sequence).expect("a valid header");
        let written: Vec<u8> = decode_sequence::frames(bytes).map(|unit| read(unit).written).collect();
        assert_eq!(written, [0xff, 4]);
    }

    #[test]
    fn every_seed_passes_its_target() {
        for (name, run) in TARGETS {
            let files: Vec<_> = std::fs::read_dir(root().join(name)).expect(name).collect();
            assert!(!files.is_empty(), "no seeds for {name}");
            for file in files {
                run(&std::fs::read(file.expect(name).path()).expect(name));
            }
        }
    }
}
