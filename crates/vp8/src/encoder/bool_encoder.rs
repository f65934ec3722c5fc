//! The boolean entropy encoder (RFC 6386, section 7).

/// Writes booleans of given probability into a byte vector.
///
/// The lower bound of the interval is one growing binary number. Bits that can still change because of the interval's
/// width stay in `low`. Settled bits move to `bytes`, and a carry out of `low` is added to them.
#[derive(Debug)]
pub(crate) struct BoolEncoder {
    bytes: Vec<u8>,
    /// Lower bound: the lowest eight bits align with `range`, then come `settled` bits and one bit for a carry.
    low: u64,
    range: u32,
    settled: u32,
}

/// Number of settled bits at which `low` is flushed. One write adds at most seven bits, and 8 + 47 + 1 bits fit.
const FLUSH_AT: u32 = 40;

impl BoolEncoder {
    /// Creates an empty encoder with room for `capacity` bytes.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self { bytes: Vec::with_capacity(capacity), low: 0, range: 255, settled: 0 }
    }

    /// Writes a boolean that is false with probability `probability / 256`.
    #[inline]
    pub(crate) fn write(&mut self, bit: bool, probability: u8) {
        let split = 1 + (((self.range - 1) * u32::from(probability)) >> 8);
        // No branch: the outcome is unpredictable.
        let mask = u32::from(bit).wrapping_neg();
        self.low += u64::from(split & mask);
        self.range = (self.range - split) & mask | split & !mask;
        let shift = self.range.leading_zeros() - 24;
        self.range <<= shift;
        self.low <<= shift;
        self.settled += shift;
        if self.settled >= FLUSH_AT {
            (self.low, self.settled) = flush(&mut self.bytes, self.low, self.settled);
        }
    }

    /// Writes a flag of a header: a literal of one bit.
    pub(crate) fn write_flag(&mut self, bit: bool) {
        self.write_literal(u32::from(bit), 1);
    }

    /// Writes the `bits` lowest bits of `value` with probability 1/2 each, the highest first.
    // Headers are short. A copy in each place takes several kB of the page's module.
    #[inline(never)]
    pub(crate) fn write_literal(&mut self, value: u32, bits: u32) {
        for bit in (0..bits).rev() {
            self.write((value >> bit) & 1 == 1, 128);
        }
    }

    /// Writes a flag and, if it is set, a magnitude of `bits` bits and a sign (RFC 6386, section 9.2).
    pub(crate) fn write_optional_signed(&mut self, value: Option<i32>, bits: u32) {
        self.write_flag(value.is_some());
        if let Some(value) = value {
            self.write_literal(value.unsigned_abs(), bits);
            self.write_flag(value < 0);
        }
    }

    /// Completes the partition and returns its bytes, which suffice to decode the last boolean.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        // The padding exceeds the decoder's window by at least one bit. Without it, ffmpeg takes the partition for
        // truncated.
        let padding = 16 - self.settled % 8;
        self.low <<= padding;
        self.settled += padding;
        flush(&mut self.bytes, self.low, self.settled);
        self.bytes
    }
}

/// Moves whole settled bytes from `low` to `bytes`. Returns the rest of `low` and its number of settled bits.
///
/// It takes no encoder, so that an encoder in a local variable can stay in registers.
fn flush(bytes: &mut Vec<u8>, low: u64, settled: u32) -> (u64, u32) {
    let bits = settled & !7;
    let kept = 8 + settled - bits;
    let out = low >> kept;
    if out >> bits != 0 {
        carry(bytes);
    }
    for byte in (0..bits / 8).rev() {
        bytes.push((out >> (8 * byte)) as u8);
    }
    (low & ((1 << kept) - 1), settled - bits)
}

/// Adds one to the number in big-endian `bytes`.
fn carry(bytes: &mut [u8]) {
    for byte in bytes.iter_mut().rev() {
        *byte = byte.wrapping_add(1);
        if *byte != 0 {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bool_decoder::BoolDecoder;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn decoder_reads_the_written_booleans(
            booleans in proptest::collection::vec((any::<bool>(), 1u8..), 0..4000),
            tail in any::<[u8; 3]>(),
        ) {
            let mut encoder = BoolEncoder::with_capacity(0);
            for &(bit, probability) in &booleans {
                encoder.write(bit, probability);
            }
            let mut bytes = encoder.finish();
            // Bytes after the partition must not matter.
            bytes.extend(tail);
            let mut decoder = BoolDecoder::new(&bytes);
            for &(bit, probability) in &booleans {
                prop_assert_eq!(decoder.read_bool(probability), bit);
            }
        }
    }

    #[test]
    fn carry_propagates_through_written_bytes() {
        // Improbable true values push the lower bound towards a run of ones.
        for falses in 0..200 {
            let mut encoder = BoolEncoder::with_capacity(0);
            let booleans: Vec<(bool, u8)> = (0..300)
                .map(|index| (index >= falses || index % 2 == 0, if index < falses { 1 } else { 255 }))
                .collect();
            for &(bit, probability) in &booleans {
                encoder.write(bit, probability);
            }
            let bytes = encoder.finish();
            let mut decoder = BoolDecoder::new(&bytes);
            assert!(booleans.iter().all(|&(bit, probability)| decoder.read_bool(probability) == bit));
        }
    }
}
