//! Nothing but a list of dependencies, in its Cargo.toml: the features on which the command and the Python extension
//! agree, so that what both stand on is compiled once.
#![forbid(unsafe_code)]
