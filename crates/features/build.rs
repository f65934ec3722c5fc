//! Does nothing: without a build script Cargo leaves the build dependencies, and their features, out.
#![forbid(unsafe_code)]

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}
