//! Variable-length numbers: LEB128 (DWARF 5, section 7.6).
//!
//! Each byte holds seven bits, lowest first. The eighth bit is set if more bytes follow. The time in a session of hours
//! takes five bytes; a span of up to 16 ms takes two.

use super::{Reader, WireError};
use lockstep_units::Timestamp;

/// Writes numbers, or counts their bytes.
pub(super) trait Sink {
    /// Appends a number.
    fn number(&mut self, number: u64);
}

impl Sink for Vec<u8> {
    fn number(&mut self, mut number: u64) {
        while number > 0x7f {
            self.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.push(number as u8);
    }
}

/// Number of bytes so far.
pub(super) struct Length(pub(super) usize);

impl Sink for Length {
    #[inline]
    fn number(&mut self, number: u64) {
        // Most numbers of an acknowledgement take one or two bytes.
        self.0 += match number {
            0..0x80 => 1,
            0x80..0x4000 => 2,
            _ => number.ilog2() as usize / 7 + 1,
        };
    }
}

impl Reader<'_> {
    /// Reads a number that has its shortest encoding.
    pub(super) fn number(&mut self) -> Result<u64, WireError> {
        let at = self.offset;
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            // Refuse bits beyond the 64th, and a last byte without bits.
            if bits << shift >> shift != bits || (byte == 0 && shift > 0) {
                return Err(WireError::Number(at));
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(WireError::Number(at))
    }

    /// Reads a number of at most 32 bits.
    pub(super) fn short_number(&mut self) -> Result<u32, WireError> {
        let at = self.offset;
        u32::try_from(self.number()?).map_err(|_| WireError::Number(at))
    }

    /// Reads the length of a list.
    pub(super) fn length(&mut self) -> Result<u8, WireError> {
        let at = self.offset;
        u8::try_from(self.number()?).map_err(|_| WireError::Number(at))
    }

    /// Reads a time in microseconds within the range of [`Timestamp`].
    pub(super) fn short_time(&mut self) -> Result<Timestamp, WireError> {
        let at = self.offset;
        let micros = self.number()?;
        if micros > Timestamp::MAX.as_micros() { Err(WireError::Time(at)) } else { Ok(Timestamp::from_micros(micros)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoding_has_one_byte_per_seven_bits() {
        for (number, length) in [(0, 1), (127, 1), (128, 2), (16_383, 2), (16_384, 3), (1 << 34, 5), (u64::MAX, 10)] {
            let mut bytes = Vec::new();
            bytes.number(number);
            let mut counted = Length(0);
            counted.number(number);
            assert_eq!((bytes.len(), counted.0), (length, length), "{number}");
            assert_eq!(Reader { bytes: &bytes, offset: 0 }.number(), Ok(number));
        }
    }

    #[test]
    fn number_beyond_64_bits_or_with_padding_is_refused() {
        let read = |bytes: &[u8]| Reader { bytes, offset: 0 }.number();
        assert_eq!(read(&[0x80, 0]), Err(WireError::Number(0)), "a last byte without bits");
        assert_eq!(read(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]), Err(WireError::Number(0)));
        assert_eq!(read(&[0x80; 11]), Err(WireError::Number(0)), "a number that does not end");
        assert_eq!(read(&[0x80]), Err(WireError::Truncated { offset: 1, needed: 1 }));
    }
}
