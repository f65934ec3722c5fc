//! A list of dependencies without code. It unites the features that command, Python extension and tests request, so
//! that shared crates are compiled once. See Cargo.toml.
#![forbid(unsafe_code)]
