//! Empty build script: without it, Cargo ignores the build dependencies and their features.
#![forbid(unsafe_code)]

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}
