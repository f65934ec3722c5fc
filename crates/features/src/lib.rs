//! A list of dependencies without code. It unites the features that the command, the Python extension and the tests
//! request, so that shared crates are compiled once. See Cargo.toml.
#![forbid(unsafe_code)]
