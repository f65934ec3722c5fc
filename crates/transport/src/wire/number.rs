//! Numbers that are as long as they are large: seven bits a byte, the lowest first, and the eighth bit says that more
//! follow (LEB128, DWARF 5, section 7.6). Session times of hours have five bytes, spans of up to 16 ms have two.

use super::{Reader, WireError};
use lockstep_units::Timestamp;

/// Where numbers are written, or only counted.
pub(super) trait Sink {
    /// Takes the next number.
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

/// Bytes so far.
pub(super) struct Length(pub(super) usize);

impl Sink for Length {
    #[inline]
    fn number(&mut self, number: u64) {
        // Nearly all numbers of an acknowledgement have one byte or two.
        self.0 += match number {
            0..0x80 => 1,
            0x80..0x4000 => 2,
            _ => number.ilog2() as usize / 7 + 1,
        };
    }
}

impl Reader<'_> {
    /// A number, if it is written as short as can be.
    pub(super) fn number(&mut self) -> Result<u64, WireError> {
        let at = self.offset;
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            // No bit is lost at the upper end, and none but the first byte may add nothing.
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

    /// A number of at most 32 bits.
    pub(super) fn short_number(&mut self) -> Result<u32, WireError> {
        let at = self.offset;
        u32::try_from(self.number()?).map_err(|_| WireError::Number(at))
    }

    /// How long a list is.
    pub(super) fn length(&mut self) -> Result<u8, WireError> {
        let at = self.offset;
        u8::try_from(self.number()?).map_err(|_| WireError::Number(at))
    }

    /// A moment in microseconds that the clock, which counts nanoseconds, can tell.
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
    fn numbers_are_as_long_as_they_are_large() {
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
    fn a_number_that_is_too_large_or_too_long_is_refused() {
        let read = |bytes: &[u8]| Reader { bytes, offset: 0 }.number();
        assert_eq!(read(&[0x80, 0]), Err(WireError::Number(0)), "a byte that adds nothing");
        assert_eq!(read(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]), Err(WireError::Number(0)));
        assert_eq!(read(&[0x80; 11]), Err(WireError::Number(0)), "a number without end");
        assert_eq!(read(&[0x80]), Err(WireError::Truncated { offset: 1, needed: 1 }));
    }
}
