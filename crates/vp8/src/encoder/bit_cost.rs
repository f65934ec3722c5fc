//! Costs of coded booleans in 1/256 bit.

/// Cost of one bit, in the unit of all costs: 1/256 bit.
pub(crate) const BIT: u32 = 256;

/// Binary logarithm of `value`, rounded to 1/256. Squaring of a fixed-point number gives the same result on every
/// platform.
const fn logarithm(value: u32) -> u32 {
    let whole = 31 - value.leading_zeros();
    let mut mantissa = (value as u64) << (31 - whole);
    let mut fraction = 0;
    let mut bit = 0;
    while bit < 12 {
        mantissa = (mantissa * mantissa) >> 31;
        fraction <<= 1;
        if mantissa >> 32 != 0 {
            mantissa >>= 1;
            fraction |= 1;
        }
        bit += 1;
    }
    ((whole << 12) + fraction + 8) >> 4
}

/// `COSTS[n]` is the cost of an event with probability `n / 256`.
const COSTS: [u16; 257] = {
    let mut costs = [0; 257];
    costs[0] = 2048;
    let mut n = 1;
    while n <= 256 {
        costs[n] = (2048 - logarithm(n as u32)) as u16;
        n += 1;
    }
    costs
};

/// Cost of writing `bit`, which is false with probability `probability / 256`.
#[inline]
pub(crate) const fn bit_cost(bit: bool, probability: u8) -> u32 {
    COSTS[if bit { 256 - probability as usize } else { probability as usize }] as u32
}

/// Probability of false, in 1/256, that fits `falses` and `trues` best.
#[inline]
pub(crate) fn fitting_probability(falses: u32, trues: u32) -> u8 {
    let total = u64::from(falses) + u64::from(trues);
    if total == 0 {
        return 128;
    }
    (((u64::from(falses) * 256 + total / 2) / total).clamp(1, 255)) as u8
}

/// Cost of writing `falses` and `trues` booleans with one probability.
#[inline]
pub(crate) fn branch_cost(falses: u32, trues: u32, probability: u8) -> u64 {
    u64::from(falses) * u64::from(bit_cost(false, probability))
        + u64::from(trues) * u64::from(bit_cost(true, probability))
}
