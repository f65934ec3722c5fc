//! The boolean entropy decoder (RFC 6386, section 7).

/// Reads booleans from a partition. Past the end it reads zeros, as the reference decoder does.
#[derive(Debug, Clone)]
pub(crate) struct BoolDecoder<'a> {
    input: &'a [u8],
    /// Undecoded bits, the next one at the top. For a value beyond the range, which no encoder writes, the top bits are
    /// lost, as in libvpx.
    value: u64,
    /// Number of valid bits in `value` below the top eight. If negative, bytes must be read.
    bits: i32,
    range: u32,
    /// Number of zero bytes read past the end.
    padding: u32,
}

impl<'a> BoolDecoder<'a> {
    /// Creates a decoder at the start of `input`.
    pub(crate) fn new(input: &'a [u8]) -> Self {
        let mut decoder = Self { input, value: 0, bits: -8, range: 255, padding: 0 };
        decoder.fill();
        decoder
    }

    /// Reads at least one byte, which is zero past the end. It takes `self` by value, so that the caller's decoder can
    /// stay in registers.
    #[cold]
    #[inline(never)]
    fn filled_slowly(mut self) -> Self {
        while self.bits < 0 {
            let byte = match self.input.split_first() {
                Some((&byte, rest)) => {
                    self.input = rest;
                    byte
                }
                None => {
                    self.padding = self.padding.saturating_add(1);
                    0
                }
            };
            self.value |= u64::from(byte) << (48 - self.bits);
            self.bits += 8;
        }
        self
    }

    #[inline(always)]
    fn fill(&mut self) {
        // At most 7 bits are left, so 48 more fit below them.
        if let Some(bytes) = self.input.first_chunk::<8>() {
            self.value |= (u64::from_be_bytes(*bytes) >> 16) << (8 - self.bits);
            self.bits += 48;
            self.input = &self.input[6..];
        } else {
            *self = self.clone().filled_slowly();
        }
    }

    /// Whether decoded values depend on bits past the end. A decision uses eight bits ahead.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.input.is_empty() && i64::from(self.bits) < 8 * i64::from(self.padding)
    }

    /// Reads one boolean, which is false with probability `probability / 256`.
    #[inline(always)]
    pub(crate) fn read_bool(&mut self, probability: u8) -> bool {
        let split = 1 + (((self.range - 1) * u32::from(probability)) >> 8);
        if self.bits < 0 {
            self.fill();
        }
        let place = u64::from(split) << 56;
        let bit = self.value >= place;
        let (range, value) = if bit { (self.range - split, self.value - place) } else { (split, self.value) };
        let shift = range.leading_zeros() - 24;
        self.range = range << shift;
        self.value = value << shift;
        self.bits -= shift as i32;
        bit
    }

    /// Reads a flag of a header: a literal of one bit.
    pub(crate) fn read_flag(&mut self) -> bool {
        self.read_literal(1) == 1
    }

    /// Reads an unsigned number of `bits` bits, the most significant bit first.
    // Headers are short. A copy in each place takes several kB of the page's module.
    #[inline(never)]
    pub(crate) fn read_literal(&mut self, bits: u32) -> u32 {
        (0..bits).fold(0, |value, _| value << 1 | u32::from(self.read_bool(128)))
    }

    /// Reads a magnitude of `bits` bits and its sign.
    pub(crate) fn read_signed(&mut self, bits: u32) -> i32 {
        let magnitude = self.read_literal(bits) as i32;
        if self.read_flag() { -magnitude } else { magnitude }
    }

    /// Reads a flag and, if it is set, a signed value (for example section 9.3).
    pub(crate) fn read_optional_signed(&mut self, bits: u32) -> Option<i32> {
        self.read_flag().then(|| self.read_signed(bits))
    }

    /// Reads a leaf of `tree` (section 8.1). The probability of node `n` is `probabilities[n / 2]`.
    #[inline]
    pub(crate) fn read_tree(&mut self, tree: &[i8], probabilities: &[u8]) -> u8 {
        let mut node = 0usize;
        loop {
            let next = tree[node + usize::from(self.read_bool(probabilities[node >> 1]))];
            if next <= 0 {
                return -next as u8;
            }
            node = next as usize;
        }
    }
}
