//! Sets two conditions for compilation that no short built-in `cfg` shows.
//!
//! - `cfg(unoptimised)`: the crate is compiled without optimisation.
//! - `cfg(simd128)`: the target is WebAssembly with vector instructions.
#![forbid(unsafe_code)]

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(unoptimised, simd128)");
    if env::var("OPT_LEVEL").is_ok_and(|level| level == "0") {
        println!("cargo::rustc-cfg=unoptimised");
    }
    let is_wasm = env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "wasm32");
    let features = env::var("CARGO_CFG_TARGET_FEATURE").unwrap_or_default();
    if is_wasm && features.split(',').any(|feature| feature == "simd128") {
        println!("cargo::rustc-cfg=simd128");
    }
}
