//! Hash of a file's contents.

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

/// SHA-256 of `bytes` in hexadecimal, as `sha256sum` prints it.
#[must_use]
pub fn content_hash(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes))
}
