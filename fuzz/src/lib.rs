//! What is fuzzed: one module for each target, each with `run`, which takes any bytes and panics where something is
//! wrong. `fuzz/run` drives them with libFuzzer; `cargo test` runs the seeds through them.
#![forbid(unsafe_code)]

pub mod control;
pub mod decode;
pub mod decode_sequence;
pub mod encode_round_trip;
pub mod media;
pub mod memory;
pub mod model;
pub mod pictures;
pub mod rendezvous;
pub mod seeds;
pub mod state_restore;
pub mod ticket;
pub mod trace;
pub mod transport_ends;
pub mod wire;

/// A target by its name.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 12] = [
    ("decode", decode::run),
    ("decode_sequence", decode_sequence::run),
    ("encode_round_trip", encode_round_trip::run),
    ("state_restore", state_restore::run),
    ("wire", wire::run),
    ("transport_ends", transport_ends::run),
    ("trace", trace::run),
    ("media", media::run),
    ("model", model::run),
    ("ticket", ticket::run),
    ("control", control::run),
    ("rendezvous", rendezvous::run),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_runs_through_its_target() {
        let seeds = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
        for (name, run) in TARGETS {
            let files: Vec<_> = std::fs::read_dir(seeds.join(name)).expect(name).collect();
            assert!(!files.is_empty(), "no seeds for {name}");
            for file in files {
                run(&std::fs::read(file.expect(name).path()).expect(name));
            }
        }
    }
}
