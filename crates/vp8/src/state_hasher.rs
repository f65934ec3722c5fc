//! The hash of states and pictures.

use std::hash::Hasher;

use twox_hash::XxHash3_64;

/// Hash of states and pictures: XXH3 of 64 bits with seed 0. It is equal on every platform.
#[derive(Clone)]
pub struct StateHasher(XxHash3_64);

impl StateHasher {
    /// A hasher of no bytes.
    #[must_use]
    pub fn new() -> Self {
        Self(XxHash3_64::with_seed(0))
    }

    /// Adds bytes. The result depends on all bytes, but not on their division into calls.
    // One copy of the hash is enough: each takes 5 kB of the page's module.
    #[inline(never)]
    pub fn write(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    /// Hash of the bytes so far.
    #[must_use]
    #[inline(never)]
    pub fn finish(&self) -> u64 {
        self.0.finish()
    }
}

impl Default for StateHasher {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for StateHasher {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "StateHasher({:016x})", self.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn division_of_the_bytes_does_not_matter() {
        let bytes: Vec<u8> = (0..1_000).map(|place| (place * 7 % 251) as u8).collect();
        let expected = XxHash3_64::oneshot(&bytes);
        for length in [1, 17, 240, 241, 999, 1_000] {
            let mut hasher = StateHasher::default();
            bytes.chunks(length).for_each(|part| hasher.write(part));
            assert_eq!(hasher.finish(), expected, "parts of {length} bytes");
        }
    }
}
