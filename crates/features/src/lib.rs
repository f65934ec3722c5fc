//! A list of dependencies without code. It unites the features that the command and the Python extension request, so
//! that shared crates are compiled once. See Cargo.toml.
#![forbid(unsafe_code)]
